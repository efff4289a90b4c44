// Blocks whose record says who falls through to the next: what decoders make of it is what the interpreter saw of the original code.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/interp/assembled_launch.h"
#include "tests/unit/interp/spliced_launch.h"

namespace xtrace::interp_test {
namespace {

using Lines = std::vector<std::string>;

class Forks : public SplicedLaunch {
 protected:
  const char* refusal(ProbeKind, std::optional<Records>) const override { return nullptr; }

  // Behind the beginning of collatz, whose EXITs are at 0x70 and 0x290: R0 is the thread's number in its CTA of 256, R5 that in the grid, R2 points to
  // memory, UR4 is its descriptor; `body` stands at 0xa0. All threads go on, or all but twelve of the last warp.
  void trace_all(const Lines& body, bool all = true) {
    Lines lines{"LDC R1, c[0x0][0x28]", "S2R R5, SR_CTAID.X", "ULDC UR4, c[0x0][0x0]", "S2R R0, SR_TID.X", "IMAD R5, R5, UR4, R0",
                "ULDC UR4, c[0x0][0x210]", "ISETP.GE.AND P0, PT, R5, UR4, PT", all ? "@!PT EXIT" : "@P0 EXIT",
                "LDC.64 R2, c[0x0][0x218]", "ULDC.64 UR4, c[0x0][0x208]"};
    lines.insert(lines.end(), body.begin(), body.end());
    replay::LaunchImage image = assembled_launch("collatz", lines, 0x29, [](const std::string& line) {
      return line.starts_with("IMAD R5") || line.starts_with("LDG") || line.find(" R4, ") != std::string::npos;
    });
    image.after = image.before;
    observe(std::move(image));
    look = [&](const trace::WarpTrace& t, const wire::AddressMap& map, const instrument::Spliced& result) {
      for (const wire::Block& b : result.map.blocks)
        if (b.forks) forks.insert(b.first_pc);
      uint64_t last = t.start_clock;
      for (uint32_t k = 0; k < t.records(); ++k) {
        const wire::Block& b = map.blocks[t.index[k]];
        if (k == 0 || b.placed || b.implied) EXPECT_GE(t.clock[k], last);
        else EXPECT_GT(t.clock[k], last);
        last = t.clock[k];
      }
    };
    trace(ProbeKind::block, trace::TraceKind::block, Records::brief, 2);
    trace(ProbeKind::block, trace::TraceKind::block, Records::brief);
    look = nullptr;
  }
  std::set<uint32_t> forks;   // offsets of such blocks
};

const std::string load = "LDG.E R4, desc[UR4][R2.64]", use = "IADD3 R7, R4, R7, RZ";

// In each of five rounds some lanes load, then fewer. The block that forks begins with an instruction that waits.
Lines loads_of_some(const std::string& decide, const std::string& branch) {
  return {"LOP3.LUT R8, R0, 0x1f, RZ, 0xc0, !PT", "IADD3 R6, RZ, 0x5, RZ",                                     // 0xa0
          use, "IADD3 R6, R6, -0x1, RZ", "BSSY B0, 0x130", decide, branch,                                     // 0xc0
          load, use,                                                                                           // 0x110
          "BSYNC B0", "ISETP.NE.AND P1, PT, R6, RZ, PT", "@P1 BRA 0xc0"};                                      // 0x130
}
const std::string fewer_each_time = "ISETP.GE.AND P0, PT, R8, R6, PT";

TEST_F(Forks, WhoFallsThrough) {
  trace_all(loads_of_some(fewer_each_time, "@P0 BRA 0x130"));
  EXPECT_EQ(forks, std::set<uint32_t>{0xc0});
}
TEST_F(Forks, WhoFallsThroughUnlessThePredicateHolds) {
  trace_all(loads_of_some("ISETP.LT.AND P0, PT, R8, R6, PT", "@!P0 BRA 0x130"));
  EXPECT_EQ(forks, std::set<uint32_t>{0xc0});
}
// In some rounds nobody does, in others all lanes.
TEST_F(Forks, AllOrNobody) {
  trace_all(loads_of_some("ISETP.EQ.AND P0, PT, R6, 0x2, PT", "@P0 BRA 0x130"));
  EXPECT_EQ(forks, std::set<uint32_t>{0xc0});
}
// The fewest: a record of the block that they fall through to is cheaper.
TEST_F(Forks, NotWhereHardlyAnybodyDoes) {
  trace_all(loads_of_some("ISETP.NE.AND P0, PT, R6, 0x2, PT", "@P0 BRA 0x130"));
  EXPECT_TRUE(forks.empty());
}
TEST_F(Forks, NotWhereLanesAreMissing) {
  trace_all(loads_of_some(fewer_each_time, "@P0 BRA 0x130"), false);
  EXPECT_TRUE(forks.empty());
}
TEST_F(Forks, NotByTwoPredicates) {
  trace_all(loads_of_some(fewer_each_time, "@P0 BRA P2, 0x130"));
  EXPECT_TRUE(forks.empty());
}
// The clock would have to follow over a wait in the middle of the block.
TEST_F(Forks, NotBehindAWaitInTheMiddle) {
  Lines lines = loads_of_some(fewer_each_time, "@P0 BRA 0x130");
  std::swap(lines[2], lines[3]);
  trace_all(lines);
  EXPECT_TRUE(forks.empty());
}
// Those that do not fall through go on with something else at once.
TEST_F(Forks, NotWhereTheOthersDoNotWait) {
  Lines lines = loads_of_some(fewer_each_time, "@P0 BRA 0x130");
  lines.insert(lines.begin() + 9, {"BSYNC B0"});
  lines[4] = "BSSY B0, 0x140";
  lines[9] = "IADD3 R10, RZ, R10, RZ";
  trace_all(lines);
  EXPECT_TRUE(forks.empty());
}

}  // namespace
}  // namespace xtrace::interp_test
