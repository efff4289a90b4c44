#include "trace/sheet.h"

#include <gtest/gtest.h>

namespace xtrace::trace {
namespace {

TEST(Sheet, TitlesWiderThanTheirColumnTakeTwoLines) {
  const Sheet sheet{{"pc", "ungraded_median", "last_warp", "source"}, {{Hex{0x10}, 12.5, uint64_t{7}, std::string("a.cu:3")}}};
  EXPECT_EQ(render_text(sheet), "      ungraded  last\n"
                                "  pc    median  warp  source\n"
                                "0x10      12.5     7  a.cu:3\n");
}

TEST(Sheet, OtherTitlesTakeOne) {
  const Sheet sheet{{"pc", "last_warp"}, {{Hex{0x10}, uint64_t{123456789}}}};
  EXPECT_EQ(render_text(sheet), "  pc  last_warp\n0x10  123456789\n");
  EXPECT_EQ(render_csv(sheet), "pc,last_warp\n0x10,123456789\n");
}

}  // namespace
}  // namespace xtrace::trace
