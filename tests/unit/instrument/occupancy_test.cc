#include "instrument/occupancy.h"

#include <gtest/gtest.h>

namespace xtrace::instrument {
namespace {

TEST(Occupancy, RegistersBoundTheSm) {
  const LaunchShape s{{1000, 1, 1}, {256, 1, 1}, {0, 0, 0}, 0};
  EXPECT_EQ(ctas_per_sm(90, s, 32, 0), 8u);    // 64 warps
  EXPECT_EQ(ctas_per_sm(90, s, 33, 0), 6u);    // 40 registers: 12 warps a partition, 48 warps
  EXPECT_EQ(ctas_per_sm(90, s, 64, 0), 4u);
  EXPECT_EQ(ctas_per_sm(90, s, 255, 0), 1u);
}

TEST(Occupancy, SharedMemoryBoundsTheSm) {
  const LaunchShape s{{1000, 1, 1}, {64, 1, 1}, {0, 0, 0}, 100 << 10};
  EXPECT_EQ(ctas_per_sm(90, s, 32, 0), 2u);    // 101 KiB each of 228
  EXPECT_EQ(ctas_per_sm(90, s, 32, 20 << 10), 1u);
}

TEST(Occupancy, FreeRegistersKeepOccupancy) {
  const LaunchShape s{{1000, 1, 1}, {256, 1, 1}, {0, 0, 0}, 0};
  EXPECT_EQ(free_register_count(90, s, 20, 0), 32u);
  EXPECT_EQ(free_register_count(90, s, 32, 0), 32u);
  EXPECT_EQ(free_register_count(90, s, 33, 0), 40u);
}

TEST(Occupancy, LargeCtasLimitTheCount) {
  EXPECT_EQ(launchable_register_count(90, {{1, 1, 1}, {1024, 1, 1}, {0, 0, 0}, 0}), 64u);
  EXPECT_EQ(launchable_register_count(90, {{1, 1, 1}, {32, 1, 1}, {0, 0, 0}, 0}), 255u);
}

TEST(Occupancy, SharedMemoryWithWhatIsReserved) {
  const LaunchShape s{{1, 1, 1}, {128, 1, 1}};
  EXPECT_EQ(ctas_per_sm(90, s, 23, 0x4400), 13u) << "16 KiB and the 1 KiB in front of them, which the section holds";
  EXPECT_EQ(free_register_count(90, s, 23, 0x4400), 32u);
  EXPECT_EQ(ctas_per_sm(80, s, 23, 0x4000), 9u) << "of 164 KiB; the section does not hold it";
  EXPECT_EQ(ctas_per_sm(90, s, 23, 0), 16u);
}

}  // namespace
}  // namespace xtrace::instrument
