#include "trace/implied_clocks.h"

#include <gtest/gtest.h>

#include <vector>

namespace xtrace::trace {
namespace {

using P = wire::ClockPlace;

// Four cycles each; `waits` by instruction.
wire::Block block_of(const std::vector<uint8_t>& bytes, const std::vector<bool>& waits = {}) {
  wire::Block b;
  b.instructions = b.clocks = static_cast<uint32_t>(bytes.size());
  for (size_t k = 0; k < bytes.size(); ++k) b.clock_at.push_back({0, bytes[k], 4, k < waits.size() && waits[k]});
  return b;
}
std::vector<uint64_t> placed(const wire::Block& b, std::vector<uint64_t> clocks) {
  place_clocks(b, clocks);
  return clocks;
}

TEST(ImpliedClocks, StretchEvenlyWhereNothingWaits) {
  const wire::Block b = block_of({4, P::implied, P::implied, P::implied, 2});
  EXPECT_EQ(placed(b, {100, 0, 0, 0, 116}), (std::vector<uint64_t>{100, 104, 108, 112, 116}));
  EXPECT_EQ(placed(b, {100, 0, 0, 0, 140}), (std::vector<uint64_t>{100, 110, 120, 130, 140}));
  EXPECT_EQ(placed(b, {100, 0, 0, 0, 110}), (std::vector<uint64_t>{100, 102, 105, 107, 110}));   // too short: still in between
}
TEST(ImpliedClocks, AreEarlyUpToTheFirstThatWaitsAndLateBehindIt) {
  EXPECT_EQ(placed(block_of({4, P::implied, P::implied, 4}, {false, false, true}), {100, 0, 0, 500}),
            (std::vector<uint64_t>{100, 104, 108, 500}));
  EXPECT_EQ(placed(block_of({4, P::implied, P::absent, P::absent, 4}, {false, true}), {100, 0, 0, 0, 500}),
            (std::vector<uint64_t>{100, 104, 492, 496, 500}));
  EXPECT_EQ(placed(block_of({4, P::absent, 4}, {true}), {100, 0, 500}), (std::vector<uint64_t>{100, 496, 500}));
  EXPECT_EQ(placed(block_of({4, P::implied, P::implied, 4}, {false, false, true}), {100, 0, 0, 106}),
            (std::vector<uint64_t>{100, 104, 106, 106}));
}
TEST(ImpliedClocks, GoOnByTheStallCountsInFrontOfTheFirstAndBehindTheLast) {
  EXPECT_EQ(placed(block_of({P::absent, P::absent, 4, P::implied, P::implied}), {0, 0, 100, 0, 0}),
            (std::vector<uint64_t>{92, 96, 100, 104, 108}));
  EXPECT_EQ(placed(block_of({P::absent, P::absent}), {7, 7}), (std::vector<uint64_t>{7, 7}));   // none was read: nobody knows
}
TEST(ImpliedClocks, OfWholeBlocksAreAsLateAsTheNextClockAllows) {
  wire::Block b = block_of({P::implied, P::implied, P::implied});
  b.implied = true;
  std::vector<uint64_t> clocks(3);
  place_clocks(b, 50, 100, clocks);
  EXPECT_EQ(clocks, (std::vector<uint64_t>{88, 92, 96}));
  place_clocks(b, 95, 100, clocks);   // no room
  EXPECT_EQ(clocks, (std::vector<uint64_t>{95, 99, 100}));
  place_clocks(b, 120, 100, clocks);
  EXPECT_EQ(clocks, (std::vector<uint64_t>{120, 120, 120}));
}
// A stall count of zero: the next one issues a cycle later at the earliest.
TEST(ImpliedClocks, AStallOfZeroTakesACycle) {
  wire::Block b = block_of({4, P::implied, P::implied, 4});
  b.clock_at[0].stall = b.clock_at[1].stall = b.clock_at[2].stall = 0;
  EXPECT_EQ(placed(b, {100, 0, 0, 106}), (std::vector<uint64_t>{100, 102, 104, 106}));
}

}  // namespace
}  // namespace xtrace::trace
