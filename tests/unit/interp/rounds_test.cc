// Loops of one block whose rounds lanes count: what decoders make of the counts is what the interpreter saw of the original code, round
// by round. Which loops have records as ever.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/interp/assembled_launch.h"
#include "tests/unit/interp/spliced_launch.h"

namespace xtrace::interp_test {
namespace {

using Lines = std::vector<std::string>;

// Behind the beginning of collatz, whose EXITs are at 0x70 and 0x290: R0 is the thread's number in its CTA of 256, R5 that in the grid. Twelve
// threads of the last warp end at once, or none where `all` of them go on.
Lines behind_beginning(const Lines& body, bool all) {
  Lines lines{"LDC R1, c[0x0][0x28]", "S2R R5, SR_CTAID.X", "ULDC UR4, c[0x0][0x0]", "S2R R0, SR_TID.X", "IMAD R5, R5, UR4, R0",
              "ULDC UR4, c[0x0][0x210]", "ISETP.GE.AND P0, PT, R5, UR4, PT", all ? "@!PT EXIT" : "@P0 EXIT"};
  lines.insert(lines.end(), body.begin(), body.end());
  return lines;
}

class RoundsOfLoops : public SplicedLaunch {
 protected:
  const char* refusal(ProbeKind, std::optional<Records>) const override { return nullptr; }

  // Traces the code with short records, all warps and every second CTA; gives the offsets of loops whose rounds were counted.
  std::set<uint32_t> counted_in(const Lines& body, bool all = false) {
    replay::LaunchImage image =
        assembled_launch("collatz", behind_beginning(body, all), 0x29, [](const std::string& line) {
      return line.starts_with("IMAD R5") || line.starts_with("LDG") || line.find(" R4, ") != std::string::npos;
    });
    image.after = image.before;
    observe(std::move(image));
    std::set<uint32_t> loops;
    rounds = words = 0;
    look = [&](const trace::WarpTrace& t, const wire::AddressMap& map, const instrument::Spliced& result) {
      for (const wire::Block& b : result.map.blocks) {
        if (b.loop) loops.insert(b.first_pc);
        words += b.rounds_bytes() / 4;
      }
      uint64_t last = t.start_clock;
      for (uint32_t k = 0; k < t.records(); ++k) {
        if (map.blocks[t.index[k]].loop) {
          ++rounds;
          EXPECT_TRUE(map.blocks[t.index[k]].implied);
        }
        EXPECT_GE(t.clock[k], last);
        last = t.clock[k];
      }
    };
    trace(ProbeKind::block, trace::TraceKind::block, Records::brief, 2);
    rounds = words = 0;
    trace(ProbeKind::block, trace::TraceKind::block, Records::brief);
    words /= warps;
    look = nullptr;
    return loops;
  }
  uint64_t rounds = 0;   // in the trace
  uint32_t words = 0;    // of counts in records
};

const Lines uniform{"IADD3 R2, RZ, 0x25, RZ",   // 0x80
                    "IADD3 R2, R2, -0x1, RZ", "ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 BRA 0x90"};

TEST_F(RoundsOfLoops, AllLanesTogether) {
  EXPECT_EQ(counted_in(uniform, true), std::set<uint32_t>{0x90});
  EXPECT_EQ(rounds, 16u * 0x25);
  EXPECT_EQ(words, 1u);
}

// Nobody knows then that lanes leave together, and they wait for each other nowhere.
TEST_F(RoundsOfLoops, NotWhereLanesAreMissingAndNobodyWaits) { EXPECT_TRUE(counted_in(uniform).empty()); }

// Each lane goes round as often as its number says, and 65 times more; lane 0 goes past the loop.
const Lines divergent{"LOP3.LUT R2, R0, 0x1f, RZ, 0xc0, !PT", "BSSY B0, 0x100", "ISETP.EQ.AND P0, PT, R2, RZ, PT", "@P0 BRA 0xf0",
                      "IADD3 R2, R2, -0x1, RZ", "ISETP.GE.AND P0, PT, R2, -0x40, PT", "@P0 BRA 0xc0", "BSYNC B0"};
TEST_F(RoundsOfLoops, OneLaneAfterTheOther) {
  EXPECT_EQ(counted_in(divergent), std::set<uint32_t>{0xc0});
  EXPECT_EQ(rounds, 15u * (31 + 65) + 19 + 65);
  EXPECT_EQ(words, 32u);
}

// The smaller part of the lanes goes on, and comes to the BSYNC with others that left in another round.
TEST_F(RoundsOfLoops, ManyLanesAtOnce) {
  Lines lines = divergent;
  lines[0] = "LOP3.LUT R2, R0, 0x3, RZ, 0xc0, !PT";
  EXPECT_EQ(counted_in(lines), std::set<uint32_t>{0xc0});
  EXPECT_EQ(rounds, 16u * (3 + 65));
}

// The inner loop has counts, in each round of the outer one; lanes leave that apart as well, and wait for each other behind it.
TEST_F(RoundsOfLoops, Nested) {
  const Lines nested{"LOP3.LUT R6, R0, 0x3, RZ, 0xc0, !PT", "BSSY B1, 0x170",
                     "LOP3.LUT R2, R0, 0xf, RZ, 0xc0, !PT", "IADD3 R2, R2, R6, RZ", "BSSY B0, 0x130", "ISETP.EQ.AND P0, PT, R2, RZ, PT", "@P0 BRA 0x120",   // 0xa0
                     "IADD3 R2, R2, -0x1, RZ", "ISETP.GE.AND P0, PT, R2, -0x40, PT", "@P0 BRA 0xf0",                                                          // 0xf0
                     "BSYNC B0", "IADD3 R6, R6, -0x1, RZ", "ISETP.GE.AND P1, PT, R6, RZ, PT", "@P1 BRA 0xa0",
                     "BSYNC B1"};
  EXPECT_EQ(counted_in(nested), std::set<uint32_t>{0xf0});
  EXPECT_EQ(rounds, 16u * (15 + 16 + 17 + 18 + 4 * 65));
}

// Two loops behind each other, by one counter: where lanes come to the second, it is 0 again.
TEST_F(RoundsOfLoops, OneBehindTheOther) {
  Lines lines = divergent;   // up to 0xf0
  for (const char* line : {"LOP3.LUT R2, R0, 0x7, RZ, 0xc0, !PT", "BSSY B0, 0x150", "IADD3 R2, R2, -0x1, RZ", "ISETP.GE.AND P0, PT, R2, -0x40, PT", "@P0 BRA 0x120", "BSYNC B0"})
    lines.push_back(line);
  EXPECT_EQ(counted_in(lines), (std::set<uint32_t>{0xc0, 0x120}));
  EXPECT_EQ(rounds, 15u * (31 + 65) + 19 + 65 + 16 * (7 + 65));
}

// Two ways through loops to one place: a count could be of either, so that one of them has records.
TEST_F(RoundsOfLoops, OneOfTwoThatLeadToOnePlace) {
  const Lines two{"LOP3.LUT R2, R0, 0x1f, RZ, 0xc0, !PT", "BSSY B0, 0x140", "ISETP.LT.AND P1, PT, R2, 0x9, PT", "@P1 BRA 0x100",
                  "IADD3 R2, R2, -0x1, RZ", "ISETP.NE.AND P0, PT, R2, -0x40, PT", "@P0 BRA 0xc0", "BRA 0x130",
                  "IADD3 R2, R2, 0x1, RZ", "ISETP.NE.AND P0, PT, R2, 0x80, PT", "@P0 BRA 0x100",   // 0x100
                  "BSYNC B0"};
  EXPECT_EQ(counted_in(two).size(), 1u);
}

// A function with a loop, called from two places. A loop that calls it is no block.
TEST_F(RoundsOfLoops, InAFunctionAndAroundACall) {
  const Lines calls{"LOP3.LUT R2, R0, 0x1f, RZ, 0xc0, !PT", "IADD3 R6, RZ, 0x3, RZ",
                    "MOV R10, 0xd0", "MOV R11, 0x0", "CALL.REL.NOINC 0x150",                         // 0xa0
                    "IADD3 R6, R6, -0x1, RZ", "ISETP.NE.AND P1, PT, R6, RZ, PT", "@P1 BRA 0xa0",     // 0xd0
                    "LOP3.LUT R2, R0, 0x7, RZ, 0xc0, !PT", "MOV R10, 0x140", "MOV R11, 0x0", "CALL.REL.NOINC 0x150", "BRA 0x290",   // 0x100
                    "BSSY B0, 0x1a0", "IADD3 R2, R2, -0x1, RZ", "ISETP.GE.AND P0, PT, R2, -0x80, PT", "@P0 BRA 0x160", "BSYNC B0",     // 0x150
                    "RET.REL.NODEC R10 0x0"};
  EXPECT_EQ(counted_in(calls), std::set<uint32_t>{0x160});
  EXPECT_EQ(rounds, 15u * (31 + 129 + 1 + 1 + 7 + 129) + 19 + 129 + 1 + 1 + 7 + 129);
}

// Lanes that leave a loop and may come to it again without having waited for the others.
TEST_F(RoundsOfLoops, NotWhereLanesComeBackAtOnce) {
  const Lines again{"LOP3.LUT R6, R0, 0x3, RZ, 0xc0, !PT", "LOP3.LUT R2, R0, 0xf, RZ, 0xc0, !PT",   // 0x80
                    "IADD3 R2, R2, -0x1, RZ", "ISETP.GE.AND P0, PT, R2, -0x40, PT", "@P0 BRA 0xa0",
                    "IADD3 R6, R6, -0x1, RZ", "ISETP.GE.AND P1, PT, R6, RZ, PT", "@P1 BRA 0x90"};
  EXPECT_TRUE(counted_in(again).empty());
}

// What is recorded does not grow with the rounds.
TEST_F(RoundsOfLoops, ManyRoundsLeaveOneRecord) {
  Lines lines = uniform;
  lines[0] = "IADD3 R2, RZ, 0x3e8, RZ";
  EXPECT_EQ(counted_in(lines, true), std::set<uint32_t>{0x90});
  EXPECT_EQ(rounds, 16u * 1000);
}

// A loop that waits for what another warp does, or whose rounds take as long as memory takes, has a record a round.
TEST_F(RoundsOfLoops, NotWhereTimeIsNotFixed) {
  const Lines polls{"LDC.64 R2, c[0x0][0x218]", "ULDC.64 UR4, c[0x0][0x208]", "BSSY B0, 0xf0",
                    "LDG.E.STRONG.SYS R4, desc[UR4][R2.64]", "ISETP.EQ.AND P1, PT, R4, 0x12345678, PT", "@P1 BRA 0xb0", "BSYNC B0"};
  const Lines loads{"LDC.64 R2, c[0x0][0x218]", "ULDC.64 UR4, c[0x0][0x208]", "IADD3 R6, RZ, 0x3, RZ", "BSSY B0, 0x100",
                    "LDG.E R4, desc[UR4][R2.64]", "IADD3 R6, R6, -0x1, RZ", "ISETP.NE.AND P1, PT, R6, RZ, PT", "@P1 BRA 0xc0", "BSYNC B0"};
  for (const Lines& lines : {polls, loads}) EXPECT_TRUE(counted_in(lines).empty());
}

}  // namespace
}  // namespace xtrace::interp_test
