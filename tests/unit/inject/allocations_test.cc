#include "capture/inject/allocations.h"

#include <gtest/gtest.h>

namespace xtrace::inject {
namespace {

using bundle::RegionKind;

TEST(AllocationMap, FindsByAnyByteInside) {
  AllocationMap map;
  map.add({0x1000, 0x100, RegionKind::device, 1});
  map.add({0x2000, 0x10, RegionKind::managed, 1});
  EXPECT_EQ(map.find(0xfff), nullptr);
  ASSERT_NE(map.find(0x1000), nullptr);
  ASSERT_NE(map.find(0x10ff), nullptr);
  EXPECT_EQ(map.find(0x1100), nullptr);
  EXPECT_EQ(map.find(0x200f)->kind, RegionKind::managed);
  EXPECT_EQ(map.find(0x2010), nullptr);
}

TEST(AllocationMap, RemovesByFirstByteOnly) {
  AllocationMap map;
  map.add({0x1000, 0x100, RegionKind::device, 1});
  EXPECT_FALSE(map.remove(0x1008));
  const auto gone = map.remove(0x1000);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->size, 0x100u);
  EXPECT_EQ(map.size(), 0u);
}

TEST(AllocationMap, ANewAllocationDrivesOutStaleOnes) {
  AllocationMap map;
  map.add({0x1000, 0x100, RegionKind::device, 1});
  map.add({0x1100, 0x100, RegionKind::device, 1});
  map.add({0x1200, 0x100, RegionKind::device, 1});
  EXPECT_EQ(map.add({0x1080, 0x100, RegionKind::async_pool, 1}), 2u);
  EXPECT_EQ(map.size(), 2u);
  EXPECT_EQ(map.find(0x1000), nullptr);
  EXPECT_EQ(map.find(0x1080)->kind, RegionKind::async_pool);
  EXPECT_NE(map.find(0x1200), nullptr);
  EXPECT_EQ(map.add({0x1300, 0x10, RegionKind::device, 1}), 0u) << "a neighbour is no overlap";
}

TEST(AllocationMap, UnmapRemovesWholeMappingsInsideTheRange) {
  AllocationMap map;
  for (uint64_t i = 0; i < 4; ++i) map.add({0x200000 * (i + 1), 0x200000, RegionKind::vmm, 0});
  const auto gone = map.remove_range(0x400000, 0x400000);
  ASSERT_EQ(gone.size(), 2u);
  EXPECT_EQ(gone[0].begin, 0x400000u);
  EXPECT_EQ(gone[1].begin, 0x600000u);
  EXPECT_EQ(map.size(), 2u);
  EXPECT_TRUE(map.remove_range(0x200000, 0x1000).empty()) << "part of a mapping";
}

TEST(AllocationMap, AContextTakesItsAllocationsAlongButNoMappings) {
  AllocationMap map;
  map.add({0x1000, 0x10, RegionKind::device, 7});
  map.add({0x2000, 0x10, RegionKind::device, 8});
  map.add({0x3000, 0x10, RegionKind::vmm, 0});
  map.remove_context(7);
  EXPECT_EQ(map.find(0x1000), nullptr);
  EXPECT_NE(map.find(0x2000), nullptr);
  map.remove_context(0);
  EXPECT_NE(map.find(0x3000), nullptr);
}

}  // namespace
}  // namespace xtrace::inject
