// When records fill sectors: the figures are of docs/performance.md, "Sectors written in part".
#include "tools/xtrace/replay/sectors.h"

#include <gtest/gtest.h>

#include "tools/xtrace/replay/probe_work.h"

namespace xtrace::cli {
namespace {

constexpr uint64_t mib = 1 << 20, l2 = 60 * mib;   // of an H200

TEST(Sectors, FillWhereLaunchAndTraceLeaveTheL2) {
  EXPECT_TRUE(whole_sectors_pay({64 * mib, 40 * mib, l2}));     // gelu
  EXPECT_TRUE(whole_sectors_pay({21 * mib, 40 * mib, l2}));
  EXPECT_FALSE(whole_sectors_pay({20 * mib, 40 * mib, l2}));    // just fits
  EXPECT_FALSE(whole_sectors_pay({32 * mib, 12 * mib, l2}));    // saxpy
  EXPECT_FALSE(whole_sectors_pay({64 * mib, 5 * mib / 2, l2}));   // gelu, one CTA in sixteen
  EXPECT_FALSE(whole_sectors_pay({64 * mib, l2 / 8, l2}));
}
TEST(Sectors, FillHalfOfTheL2WhereTheyTakeLittleMore) {
  EXPECT_TRUE(whole_sectors_pay({1 * mib, 44 * mib, l2, 43 * mib}));     // switch_table under mem
  EXPECT_FALSE(whole_sectors_pay({1 * mib, 44 * mib, l2, 30 * mib}));
  EXPECT_FALSE(whole_sectors_pay({1 * mib, 29 * mib, l2, 28 * mib}));
  EXPECT_FALSE(whole_sectors_pay({32 * mib, 6 * mib, l2, 6 * mib}));     // transpose_tiled: too few
}

TEST(ProbeWork, TracedCtasComeMixedWithOthers) {
  EXPECT_EQ(traced_at_once(512, 8192, 1056), 66u);
  EXPECT_EQ(traced_at_once(3, 8192, 1056), 1u);
  EXPECT_EQ(traced_at_once(512, 8192, 0), 0u) << "not known how many fit";
  EXPECT_EQ(traced_at_once(512, 1000, 1056), 0u) << "all fit";
  EXPECT_EQ(traced_at_once(8192, 8192, 1056), 0u) << "no others";
}

TEST(Sectors, LinesCountWhereReadsMissTheL2) {
  EXPECT_EQ(lines_beside_misses({78 * mib, 2574112, l2}), 20111u);   // `mem` of block_sums, one CTA in sixteen: the last line in part
  EXPECT_EQ(lines_beside_misses({l2 - 128, 129, l2}), 2u);
  EXPECT_EQ(lines_beside_misses({l2 - 128, 128, l2}), 0u) << "just fits";
  EXPECT_EQ(lines_beside_misses({78 * mib, 0, l2}), 0u);
  EXPECT_EQ(lines_beside_misses({78 * mib, 128, 0}), 0u) << "no L2, or it is not known";
}

// Of blocks or of points; heads count where there is anything, and a buffer.
TEST(ProbeWork, BytesOfRecords) {
  wire::AddressMap map;
  map.layout.slots = 1;
  map.layout.lead_bytes = 128;
  map.blocks.resize(2);
  EXPECT_EQ(record_bytes(map, {5, 7}, 3, 1), 0u);
  map.blocks[1].record_bytes = 16;
  EXPECT_EQ(record_bytes(map, {5, 7}, 3, 1), 7u * 16 + 3 * 128);
  map.blocks[1].record_bytes = 0;
  map.points.resize(3);   // the last one is implied
  map.points[0].record_bytes = 256;
  map.points[1].record_bytes = 128;
  map.points[1].block = map.points[2].block = 1;
  EXPECT_EQ(record_bytes(map, {5, 7}, 3, 1), 5u * 256 + 7 * 128 + 3 * 128);
  EXPECT_EQ(record_bytes(map, {5, 7}, 3, 4), 2u * 256 + 2 * 128 + 3 * 128);
  map.layout.slots = 0;
  EXPECT_EQ(record_bytes(map, {5, 7}, 3, 1), 0u);
}

}  // namespace
}  // namespace xtrace::cli
