#include "replay/pointer_scan.h"

#include <gtest/gtest.h>

#include "tests/unit/replay/launch_builder.h"

namespace xtrace::replay {
namespace {

using bundle::RegionKind;

void put(Bytes& b, size_t offset, uint64_t value) { write_at(std::span<std::byte>(b), offset, value); }

LaunchImage launch_with_variables() {
  LaunchImage launch = launch_of({Bytes(64)});
  add_region(launch, region(0x7e0000001000, 0, RegionKind::global, "table"), Bytes(32));
  add_region(launch, region(0x7e0000002000, 0, RegionKind::constant, "scale"), Bytes(16));
  launch.record.param_block.resize(24);
  return launch;
}

TEST(PointerScan, NothingPointsToVariables) {
  LaunchImage launch = launch_with_variables();
  put(launch.before[0], 8, 0x7f0000000000);   // points to a region placed by address
  put(launch.before[0], 16, 0x7e0000001020);  // one past the end of table
  put(launch.before[0], 24, 0x7e0000000fff);
  put(launch.before[0], 36, 0x7e0000001000);  // not aligned
  for (const auto& hit : pointers_to_variables(launch)) EXPECT_FALSE(hit);
}

TEST(PointerScan, FindsThemInParametersRegionsAndVariables) {
  LaunchImage launch = launch_with_variables();
  put(launch.record.param_block, 16, 0x7e000000101f);
  put(launch.before[0], 40, 0x7e0000001000);
  put(launch.before[1], 8, 0x7e0000002008);
  const auto hits = pointers_to_variables(launch);
  ASSERT_EQ(hits.size(), 3u);
  EXPECT_FALSE(hits[0]);
  EXPECT_EQ(hits[1], (PointerHit{std::nullopt, 16, 0x7e000000101f}));
  EXPECT_EQ(hits[2], (PointerHit{1, 8, 0x7e0000002008}));
}

TEST(PointerScan, WordsAreAlignedByAddressNotByOffset) {
  LaunchImage launch = launch_with_variables();
  launch.record.regions[0].address.value += 4;
  put(launch.before[0], 12, 0x7e0000001008);
  EXPECT_EQ(pointers_to_variables(launch)[1], (PointerHit{0, 12, 0x7e0000001008}));
}

}  // namespace
}  // namespace xtrace::replay
