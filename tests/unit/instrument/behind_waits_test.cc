// Blocks behind loops that wait for others: how records see them, and when the next record tells of one.
#include "instrument/behind_waits.h"

#include <gtest/gtest.h>

#include "instrument/sass/encode.h"
#include "tests/unit/instrument/sabotage.h"

namespace xtrace::instrument::test {
namespace {

// One instruction a block: 0 leads to a loop of 1 and 2, which lanes leave for 3 or 5; 3 goes on to 4, which goes round and ends.
struct Waits {
  Code code;
  Blocks blocks;
  std::vector<bool> unrecorded{false, true, true, false, false, false}, implied{false, false, false, true, false, false};
  std::vector<bool> full{true, true, true, true, true, true};
  std::vector<uint64_t> executions{8, 100, 100, 8, 24, 0};

  Waits() {
    code.arch = &sm_90();
    code.insts.resize(6);
    code.reachable.assign(6, true);
    for (CodeInst& i : code.insts) {
      i.raw = sass::enc::nop();
      i.fx = sass::effects(sm_90(), i.raw, 0);
    }
    blocks.successors = {{1}, {2, 3}, {1, 5}, {4}, {4}, {3}};
    for (uint32_t b = 0; b < 6; ++b) blocks.blocks.push_back({b, 1, b});
    blocks.returns.assign(6, false);
    blocks.behind_call.assign(6, Blocks::none);
  }
  Blocks seen() const { return past_unrecorded(blocks, unrecorded); }
  std::vector<bool> behind() const { return blocks_behind_waits(code, blocks, unrecorded, full); }
  bool told() const { return told_by_next_record(code, seen(), implied, full, executions, 3); }
};

TEST(BehindWaits, RecordsSeePastTheLoop) {
  const Waits w;
  EXPECT_EQ(w.seen().successors, (std::vector<std::vector<uint32_t>>{{3, 5}, {}, {}, {4}, {4}, {3}}));
  Waits none = w;
  none.unrecorded.assign(6, false);
  EXPECT_EQ(none.seen().successors, w.blocks.successors);
}

TEST(BehindWaits, FixedTimeAndAllLanes) {
  EXPECT_EQ(Waits().behind(), (std::vector<bool>{false, false, false, true, false, true}));
  Waits w;
  w.full[3] = false;
  EXPECT_FALSE(w.behind()[3]);
  w = {};
  change_control(w.code.insts[3].raw, [](sass::Control& c) { c.wait_mask = 1; });
  EXPECT_FALSE(w.behind()[3]);
  w = {};
  w.blocks.successors[3] = {1};   // back to where others are waited for
  EXPECT_FALSE(w.behind()[3]);
  w = {};
  w.blocks.returns[3] = true;
  EXPECT_FALSE(w.behind()[3]);
}

// All that came to the block are seen in the next record, together.
TEST(BehindWaits, ToldByTheNextRecord) {
  EXPECT_TRUE(Waits().told());
  Waits w;
  w.executions[4] = 7;   // somebody ended
  EXPECT_FALSE(w.told());
  w = {};
  w.executions.clear();
  EXPECT_FALSE(w.told());
  w = {};
  w.full[4] = false;
  EXPECT_FALSE(w.told());
  w = {};
  w.blocks.successors[3] = {4, 5};
  EXPECT_FALSE(w.told());
  w = {};
  w.code.insts[3].fx.may_switch_path = true;   // lanes that came one by one would go on together
  EXPECT_FALSE(w.told());
  w = {};
  w.implied[4] = true;   // through which some go round
  EXPECT_FALSE(w.told());
}

// ... also where blocks without records lie between.
TEST(BehindWaits, ToldBehindBlocksWithoutRecords) {
  Waits w;
  w.blocks.successors = {{1}, {2, 3}, {1}, {4}, {5}, {5}};
  w.implied[4] = true;
  w.executions = {8, 100, 100, 8, 8, 24};
  EXPECT_TRUE(w.told());
  w.executions[4] = 9;
  EXPECT_FALSE(w.told());
}

}  // namespace
}  // namespace xtrace::instrument::test
