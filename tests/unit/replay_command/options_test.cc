#include "tools/xtrace/replay/options.h"

#include <gtest/gtest.h>

namespace xtrace::cli {
namespace {

using instrument::ProbeKind;

TEST(ReplayOptions, Probes) {
  EXPECT_EQ(*parse_probes("all"), (std::vector{ProbeKind::block, ProbeKind::inst, ProbeKind::pair}));
  EXPECT_EQ(*parse_probes("pair,block"), (std::vector{ProbeKind::pair, ProbeKind::block}));
  EXPECT_EQ(*parse_probes("block,block"), (std::vector{ProbeKind::block}));
  EXPECT_EQ(*parse_probes("none"), (std::vector{ProbeKind::none}));
  EXPECT_EQ(*parse_probes("count,mem"), (std::vector{ProbeKind::count, ProbeKind::mem}));
  for (const char* wrong : {"", "blocks", "block,", "all,block"}) {
    const auto r = parse_probes(wrong);
    ASSERT_FALSE(r) << wrong;
    EXPECT_NE(r.error().hint.find("inst"), std::string::npos) << "the hint lists what there is";
  }
}

TEST(ReplayOptions, Samples) {
  EXPECT_EQ(parse_sample("all")->one_in, 1u);
  EXPECT_EQ(parse_sample("cta:1/16")->one_in, 16u);
  EXPECT_EQ(parse_sample("cta:1/16")->text(), "cta:1/16");
  EXPECT_EQ(parse_sample("cta:1/1")->text(), "all");
  for (const char* wrong : {"", "cta", "cta:1/0", "cta:1/-2", "cta:1/4x", "cta:2/4", "warp:1/4"})
    EXPECT_FALSE(parse_sample(wrong)) << wrong;
}

TEST(ReplayOptions, Backends) {
  EXPECT_EQ(*parse_backend("auto"), BackendChoice::automatic);
  EXPECT_EQ(*parse_backend("driver"), BackendChoice::driver);
  EXPECT_EQ(*parse_backend("interp"), BackendChoice::interp);
  EXPECT_EQ(ReplayOptions{}.backend, BackendChoice::automatic);
  for (const char* wrong : {"", "gpu", "Interp"}) EXPECT_FALSE(parse_backend(wrong)) << wrong;
}

TEST(ReplayOptions, Ordinals) {
  EXPECT_EQ(*parse_ordinals("3"), (std::vector<uint64_t>{3}));
  EXPECT_EQ(*parse_ordinals("0,3-5"), (std::vector<uint64_t>{0, 3, 4, 5}));
  for (const char* wrong : {"", "a", "5-3", "1-", "-1", "1,,2", "0-99999999999"}) EXPECT_FALSE(parse_ordinals(wrong)) << wrong;
}

}  // namespace
}  // namespace xtrace::cli
