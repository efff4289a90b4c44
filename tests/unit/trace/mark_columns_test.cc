#include "trace/mark_columns.h"

#include <gtest/gtest.h>

namespace xtrace::trace {
namespace {

TEST(MarkColumns, AreReadAsTheyWereWritten) {
  const std::vector<LossMark> marks = {{Loss::never_started, 0, 0}, {Loss::wrapped, 7, 300}, {Loss::count_changed, 1u << 20, 1ull << 40}};
  std::string text;
  put_marks(text, marks);
  put_marks(text, {});
  VarintReader in(text);
  std::vector<LossMark> found;
  take_marks(in, found);
  EXPECT_EQ(found, marks);
  take_marks(in, found);
  EXPECT_TRUE(in.ok() && found.empty() && in.left() == 0);
}

TEST(MarkColumns, LossThatIsNoneIsRefused) {
  std::string text;
  put_marks(text, std::vector<LossMark>{{static_cast<Loss>(loss_count), 0, 0}});
  VarintReader in(text);
  std::vector<LossMark> found;
  take_marks(in, found);
  EXPECT_FALSE(in.ok());
}

}  // namespace
}  // namespace xtrace::trace
