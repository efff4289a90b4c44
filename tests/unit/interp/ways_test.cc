// Regions without records in which lanes number their ways: what decoders make of the numbers is what the interpreter saw of the original code, block by
// block.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/interp/assembled_launch.h"
#include "tests/unit/interp/spliced_launch.h"
#include "tests/unit/ways_code.h"

namespace xtrace::interp_test {
namespace {

class WaysOfLanes : public SplicedLaunch {
 protected:
  const char* refusal(ProbeKind, std::optional<Records>) const override { return nullptr; }

  // Traces it with short records, in slots of one size and of their own, all warps and every second CTA; gives the offsets of numbered blocks.
  std::set<uint32_t> numbered_in(replay::LaunchImage image) {
    observe(std::move(image));
    if (wait)
      for (const wire::Block& b : splicer->blocks()) left_out.push_back(b.first_pc == *wait);
    std::set<uint32_t> blocks;
    look = [&](const trace::WarpTrace& t, const wire::AddressMap& map, const instrument::Spliced& result) {
      for (const wire::Block& b : result.map.blocks) {
        if (b.numbered) blocks.insert(b.first_pc);
        if (b.implied && b.gathered) behind_waits.insert(b.first_pc);
      }
      columns = result.map.layout.ends_at != 0;
      by_lanes = result.claims.odd_lanes.has_value();
      uint64_t last = t.start_clock;
      for (uint32_t k = 0; k < t.records(); ++k) {
        EXPECT_TRUE(t.clock[k] > last || map.blocks[t.index[k]].implied || k == 0 || map.blocks[t.index[k - 1]].implied);
        EXPECT_GE(t.clock[k], last);
        last = t.clock[k];
      }
    };
    for (const bool own : {false, true}) {
      slots_of_their_own = own;
      for (const uint32_t one_in : {2u, 1u}) trace(ProbeKind::block, trace::TraceKind::block, Records::brief, one_in);
    }
    look = nullptr;
    return blocks;
  }
  std::set<uint32_t> numbered_in(const std::vector<std::string>& lines) {
    replay::LaunchImage image = assembled_launch("collatz", lines, 0x29, [](const std::string& line) { return line.find(", R4, ") != std::string::npos; });
    image.after = image.before;
    return numbered_in(std::move(image));
  }
  bool columns = false;   // of lanes that end
  bool by_lanes = false;  // two words of a record by one store
  std::optional<uint32_t> wait;       // a loop that leaves no records
  std::set<uint32_t> behind_waits;    // blocks without records behind that, which lanes come to together
};

TEST_F(WaysOfLanes, OneAfterTheOther) {
  const std::set<uint32_t> blocks = numbered_in(code_with_ways());
  EXPECT_EQ(blocks, (std::set<uint32_t>{0x60, 0x80, 0xc0, 0xe0, 0x100, 0x120, 0x140, 0x160, 0x180, 0x1a0, 0x1c0, 0x1d0, 0x1e0, 0x290}));
  EXPECT_TRUE(columns);
}

// But in the end, when the loop is over.
TEST_F(WaysOfLanes, NobodyEndsOnTheWay) {
  auto lines = code_with_ways();
  lines[7] = "@!PT EXIT";
  lines[0xd] = lines[0x13] = "@P0 BRA 0x1d0";
  EXPECT_EQ(numbered_in(lines).size(), 14u);
}

// Nothing is left where nobody can: no column in the slot.
TEST_F(WaysOfLanes, NobodyCanEnd) {
  auto lines = code_with_ways();
  lines[5] = lines[6] = "NOP";
  lines[7] = "@P1 EXIT";   // of the loop, in front of the region
  lines[0xd] = lines[0x13] = "@P0 BRA 0x1d0";
  EXPECT_EQ(numbered_in(lines).size(), 12u);
  EXPECT_FALSE(columns);
}

// All lanes of a warp end in the region: its last record is that of the block in front.
TEST_F(WaysOfLanes, EverybodyEnds) {
  auto lines = code_with_ways();
  lines[0x1b] = lines[0x17] = lines[0x11] = "@P0 BRA 0x290";
  lines[2] = "LOP3.LUT R7, R4, 0x2, RZ, 0xc0, !PT";
  EXPECT_EQ(numbered_in(lines).size(), 14u);
}

// In front of them a loop that waits for others and leaves no records, a block of fixed time behind it, which the next record tells of, and one that
// forks, whose record is stored by lanes.
TEST_F(WaysOfLanes, BehindAWait) {
  auto lines = code_with_ways();
  lines[7] = "@!PT EXIT";
  lines[0xd] = lines[0x13] = "@P0 BRA 0x1d0";
  lines[0] = "BRA 0x210";
  for (const char* line : {"IADD3 R6, RZ, 0x3, RZ", "ISETP.LT.AND P2, PT, R6, 0x3, PT", "@P2 BRA 0x210", "BRA 0x250",   // 0x210
                           "LOP3.LUT R11, R4, 0xf, RZ, 0xc0, !PT", "@P2 BRA 0x10",                                      // 0x250
                           "LOP3.LUT R11, R4, 0xf, RZ, 0xc0, !PT", "BRA 0x10"})                                         // 0x270
    lines.push_back(line);
  wait = 0x210;
  EXPECT_EQ(numbered_in(lines).size(), 14u);
  EXPECT_EQ(behind_waits, std::set<uint32_t>{0x240});
  EXPECT_TRUE(by_lanes);
}

// The kernel that this was made for: three ways out of each of sixteen parts of a loop.
TEST_F(WaysOfLanes, UnrolledLoop) {
  const std::set<uint32_t> blocks = numbered_in(recorded_launch("loop_exits"));
  EXPECT_EQ(blocks.size(), 49u);
  EXPECT_EQ(*blocks.begin(), 0x150u);
  EXPECT_EQ(*blocks.rbegin(), 0x1020u);
}

}  // namespace
}  // namespace xtrace::interp_test
