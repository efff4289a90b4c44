#include "replay/address_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/replay/launch_builder.h"

namespace xtrace::replay {
namespace {

using bundle::RegionKind;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t MiB = 1ull << 20, GiB = 1ull << 30;

AddressPlan plan(const std::vector<bundle::Region>& regions) {
  Result<AddressPlan> p = plan_addresses(regions);
  EXPECT_TRUE(p.has_value()) << p.error().to_string();
  return p.value_or(AddressPlan{});
}

std::string plan_error(const std::vector<bundle::Region>& regions, ErrorKind kind) {
  Result<AddressPlan> p = plan_addresses(regions);
  if (p) return "no error";
  EXPECT_EQ(p.error().kind, kind);
  return p.error().message;
}

TEST(AddressPlan, NothingToPlace) {
  const AddressPlan p = plan({region(0x7f0000000000, 0), region(0x7f0000000100, 64, RegionKind::global, "g"),
                              region(0x7f0000000200, 64, RegionKind::constant, "c")});
  EXPECT_TRUE(p.runs.empty());
  EXPECT_TRUE(p.windows.empty());
  EXPECT_EQ(p.mapped_bytes, 0u);
}

TEST(AddressPlan, TinyRegionTakesOneGranuleInAGibibyteWindow) {
  const AddressPlan p = plan({region(0x7f0004600010, 1)});
  EXPECT_THAT(p.runs, ElementsAre(MappedRun{{0x7f0004600000, 0x7f0004800000}, {0}}));
  EXPECT_THAT(p.windows, ElementsAre(Window{{0x7f0004000000, 0x7f0044000000}, {0}}));
  EXPECT_EQ(p.mapped_bytes, 2 * MiB);
}

TEST(AddressPlan, RegionCrossingA64MiBBoundary) {
  const AddressPlan p = plan({region(0x303fff000, 0x2000)});
  EXPECT_THAT(p.runs, ElementsAre(MappedRun{{0x303e00000, 0x304200000}, {0}}));
  EXPECT_THAT(p.windows, ElementsAre(Window{{0x300000000, 0x340000000}, {0}}));
}

TEST(AddressPlan, NeighboursShareGranulesWhateverTheirOrder) {
  // 0 and 1 share a granule, 2 touches it, 3 leaves a granule free.
  const AddressPlan p = plan({region(0x10000100, 0x100), region(0x10000000, 0x100),
                              region(0x10200000, 0x200000), region(0x10600000, 0x10)});
  EXPECT_THAT(p.runs, ElementsAre(MappedRun{{0x10000000, 0x10400000}, {1, 0, 2}},
                                  MappedRun{{0x10600000, 0x10800000}, {3}}));
  EXPECT_THAT(p.windows, ElementsAre(Window{{0x10000000, 0x50000000}, {0, 1}}));
  EXPECT_EQ(p.mapped_bytes, 6 * MiB);
}

TEST(AddressPlan, WindowGrowsWithItsRuns) {
  const uint64_t base = 0x7e0000000000;
  const AddressPlan p =
      plan({region(base, 16), region(base + 1023 * MiB, 3 * MiB), region(base + 4 * GiB, 2 * GiB)});
  ASSERT_EQ(p.windows.size(), 2u);
  EXPECT_EQ(p.windows[0], (Window{{base, base + 1088 * MiB}, {0, 1}}));
  EXPECT_EQ(p.windows[1], (Window{{base + 4 * GiB, base + 6 * GiB}, {2}}));
}

TEST(AddressPlan, TopOfTheAddressSpace) {
  const AddressPlan p = plan({region(address_limit - 4096, 4096)});
  EXPECT_THAT(p.windows, ElementsAre(Window{{address_limit - GiB, address_limit}, {0}}));
}

TEST(AddressPlan, RefusalsNameTheRegion) {
  struct Case {
    std::vector<bundle::Region> regions;
    ErrorKind kind;
    const char* message;
  };
  const Case cases[] = {
      {{region(0x7f0000000000, 64), region(0x800000000000, 64, RegionKind::vmm)},
       ErrorKind::unsupported,
       "vmm region 1 (0x800000000000, 64 bytes) reaches beyond 0x800000000000"},
      {{region(0x7fffffffff00, 0x101)},
       ErrorKind::unsupported,
       "device region 0 (0x7fffffffff00, 257 bytes)"},
      {{region(0x7f0000000000, ~0ull)}, ErrorKind::unsupported, "reaches beyond"},
      {{region(0x1000, 64, RegionKind::asked)},
       ErrorKind::unsupported,
       "asked region 0 (0x1000, 64 bytes) lies below"},
      {{region(0x10000000, 0x101), region(0x10000100, 16)},
       ErrorKind::bad_input,
       "device region 1 (0x10000100, 16 bytes) overlaps device region 0 (0x10000000, 257 bytes)"},
  };
  for (const Case& c : cases) EXPECT_THAT(plan_error(c.regions, c.kind), HasSubstr(c.message));
}

TEST(AddressPlan, ManyRegionsCoverEverythingOnce) {
  std::vector<bundle::Region> regions;
  uint64_t at = 0x200000000, total = 0, seed = 7;
  for (int i = 0; i < 5000; ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const uint64_t size = 1 + (seed >> 40) % (3 * MiB);
    regions.push_back(region(at, size));
    total += size;
    at += size + (seed >> 33) % 3 * 900 * (1 << 10) + (i % 500 == 0 ? 3 * GiB : 0);
  }
  const AddressPlan p = plan(regions);
  std::vector<int> seen(regions.size());
  for (size_t k = 0; k < p.runs.size(); ++k) {
    EXPECT_EQ(p.runs[k].span.begin % map_granule, 0u);
    EXPECT_EQ(p.runs[k].span.end % map_granule, 0u);
    if (k > 0) {
      EXPECT_GT(p.runs[k].span.begin, p.runs[k - 1].span.end);
    }
    for (size_t i : p.runs[k].regions) {
      ++seen[i];
      EXPECT_LE(p.runs[k].span.begin, regions[i].address.value);
      EXPECT_GE(p.runs[k].span.end, regions[i].address.value + regions[i].size);
    }
  }
  EXPECT_THAT(seen, testing::Each(1));
  EXPECT_GE(p.mapped_bytes, total);
  size_t runs = 0;
  for (size_t w = 0; w < p.windows.size(); ++w) {
    EXPECT_EQ(p.windows[w].span.begin % window_alignment, 0u);
    EXPECT_GE(p.windows[w].span.size(), window_minimum);
    if (w > 0) {
      EXPECT_GE(p.windows[w].span.begin, p.windows[w - 1].span.end);
    }
    for (size_t k : p.windows[w].runs) {
      EXPECT_TRUE(p.windows[w].span.contains(p.runs[k].span));
      ++runs;
    }
  }
  EXPECT_EQ(runs, p.runs.size());
  EXPECT_GE(p.windows.size(), 10u);  // the 3 GiB steps
}

TEST(ReserveAttempts, CoverWhatIsNeededInOrder) {
  const AddressSpan needed{0x302000000, 0x302200000};
  const std::vector<ReserveAttempt> attempts = reserve_attempts(needed);
  EXPECT_THAT(
      attempts,
      ElementsAre(ReserveAttempt{0x300000000, GiB, 0}, ReserveAttempt{0x300000000, 64 * MiB, 0},
                  ReserveAttempt{0x304000000 - GiB, GiB, 0}, ReserveAttempt{0x302000000, GiB, map_granule},
                  ReserveAttempt{0x302000000, 2 * MiB, map_granule},
                  ReserveAttempt{0x300000000, 8 * GiB, 0}));
  for (const AddressSpan& span :
       {needed, AddressSpan{0x10000000, 0x10200000}, AddressSpan{address_limit - 2 * MiB, address_limit},
        AddressSpan{0x7f0000000000, 0x7f0000000000 + 80 * GiB}}) {
    EXPECT_FALSE(reserve_attempts(span).empty());
    for (const ReserveAttempt& a : reserve_attempts(span)) {
      EXPECT_LE(a.hint, span.begin);
      EXPECT_GE(a.hint + a.size, span.end);
      EXPECT_LE(a.hint + a.size, address_limit);
    }
  }
}

TEST(Gaps, AreWhatNoRegionCovers) {
  const std::vector<bundle::Region> regions = {region(0x10000100, 0x100), region(0x10000200, 0x100),
                                               region(0x10001000, 0x1ff000)};
  const AddressPlan p = plan(regions);
  ASSERT_EQ(p.runs.size(), 1u);
  EXPECT_THAT(gaps_of(p.runs[0], regions),
              ElementsAre(AddressSpan{0x10000000, 0x10000100}, AddressSpan{0x10000300, 0x10001000}));
}

TEST(CopySpans, JoinNeighboursAndLeaveOutTheRest) {
  const std::vector<bundle::Region> regions = {region(0x10000000, 0x100), region(0x10000180, 0x80),
                                               region(0x10100000, 0x100), region(0x10100200, 0x100)};
  const AddressPlan p = plan(regions);
  ASSERT_EQ(p.runs.size(), 1u);
  EXPECT_THAT(copy_spans(p.runs[0], regions, {true, true, false, true}, 0x1000),
              ElementsAre(AddressSpan{0x10000000, 0x10000200}, AddressSpan{0x10100200, 0x10100300}));
  EXPECT_THAT(copy_spans(p.runs[0], regions, {true, true, false, true}, 0),
              ElementsAre(AddressSpan{0x10000000, 0x10000100}, AddressSpan{0x10000180, 0x10000200},
                          AddressSpan{0x10100200, 0x10100300}));
  EXPECT_TRUE(copy_spans(p.runs[0], regions, {false, false, false, false}, 0x1000).empty());
}

}  // namespace
}  // namespace xtrace::replay
