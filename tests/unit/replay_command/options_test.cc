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
  const auto list = parse_sample("cta:7,0,5-6,warp:0,2-3,sm:1,site:1/8");
  ASSERT_TRUE(list) << list.error().to_string();
  using Ranges = std::vector<wire::Selection::Range>;
  EXPECT_EQ(list->select.ctas, (Ranges{{0, 0}, {5, 7}}));
  EXPECT_EQ(list->select.warps, (Ranges{{0, 0}, {2, 3}}));
  EXPECT_EQ(list->select.sms, (Ranges{{1, 1}}));
  EXPECT_EQ(list->sites_one_in, 8u);
  EXPECT_EQ(list->text(), "cta:0,5-7,warp:0,2-3,sm:1,site:1/8");
  EXPECT_EQ(parse_sample("cta:1/4@9")->seed, 9u);
  EXPECT_EQ(parse_sample("cta:1/4@9,warp:1")->text(), "cta:1/4@9,warp:1");
  EXPECT_TRUE(parse_sample("cta:wave")->wave);
  EXPECT_EQ(parse_sample("nth:8,site:1/4")->nth, 8u);
  EXPECT_EQ(parse_sample("nth:8,site:1/4")->text(), "nth:8,site:1/4");
  EXPECT_EQ(parse_sample("cluster:0,4-5,warp:0")->clusters, (Ranges{{0, 0}, {4, 5}}));
  EXPECT_EQ(parse_sample("cluster:0,4-5,warp:0")->text(), "warp:0,cluster:0,4-5");
  EXPECT_EQ(parse_sample("cta:wave")->text(), "cta:wave");
  EXPECT_FALSE(parse_sample("all")->clocks);
  EXPECT_EQ(parse_sample("clocks:all")->clocks, 0u);
  EXPECT_EQ(parse_sample("clocks:16,cta:1/4")->clocks, 16u);
  EXPECT_EQ(parse_sample("clocks:all")->text(), "clocks:all");
  EXPECT_EQ(parse_sample("clocks:16,cta:1/4")->text(), "cta:1/4,clocks:16");
  EXPECT_FALSE(parse_sample("all")->whole_sectors);
  EXPECT_EQ(parse_sample("sectors:whole,cta:1/4")->whole_sectors, true);
  EXPECT_EQ(parse_sample("sectors:whole,cta:1/4")->text(), "cta:1/4,sectors:whole");
  EXPECT_EQ(parse_sample("sectors:part")->text(), "sectors:part");
  for (const char* wrong : {"", "sectors:", "sectors:all", "sectors", "cta", "cta:1/0", "cta:1/-2", "cta:1/4x", "cta:2/4", "warp:1/4", "cta:1/4@", "cta:1/4@x", "cta:",
                            "cta:3-1", "cta:1,", "warp:a", "sm:", "lane:0", "cta:wave,cta:1", "site:1/0", "site:3", "all,cta:1", "nth:0", "nth:1/3", "nth:",
                            "nth:2000000000", "clocks:", "clocks:0", "clocks:none", "clocks:1001", "clocks:1/2", "cluster:1/4", "cluster:0,cta:1", "cta:wave,cluster:0", "time:5-9",
                            "cta:0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32"}) {
    const auto r = parse_sample(wrong);
    EXPECT_FALSE(r) << wrong;
    if (!r) {
      EXPECT_EQ(r.error().kind, ErrorKind::bad_input) << wrong;
    }
  }
  EXPECT_NE(parse_sample("lane:0").error().message.find("lanes are not sampled"), std::string::npos);
  for (const char* by_list : {"warp:1/4", "sm:1/4"}) EXPECT_NE(parse_sample(by_list).error().message.find("by list"), std::string::npos);
  Sample part = *parse_sample("cta:1/16@5,site:1/8");
  part.part = 3;
  part.cta_part = 11;
  EXPECT_EQ(part.text(), "cta:1/16@5+11,site:1/8+3");
  EXPECT_NE(parse_sample("time:5-9").error().message.find("from its first cycle to its last"), std::string::npos);
  EXPECT_NE(parse_sample("cluster:1/4").error().message.find("clusters are sampled by list"), std::string::npos);
}

TEST(ReplayOptions, Backends) {
  EXPECT_EQ(*parse_backend("auto"), BackendChoice::automatic);
  EXPECT_EQ(*parse_backend("driver"), BackendChoice::driver);
  EXPECT_EQ(*parse_backend("interp"), BackendChoice::interp);
  EXPECT_EQ(*parse_backend("interp-late"), BackendChoice::interp_late);
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
