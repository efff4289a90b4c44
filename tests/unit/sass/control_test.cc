#include <gtest/gtest.h>

#include "instrument/sass/inst.h"
#include "instrument/sass/print.h"

namespace xtrace::sass {
namespace {

TEST(Control, DecodesKnownWords) {
  // sass.md 1.3: stall 5, keep issuing, no barriers; waits on SB0 and SB1, stall 15, yield.
  const RawInst keep5{0, 0x000fea0000000000};
  EXPECT_EQ(get_control(keep5), (Control{.stall = 5, .keep_issuing = true}));
  const RawInst wait{0, 0x003fde0000000000};
  EXPECT_EQ(get_control(wait), (Control{.stall = 15, .keep_issuing = false, .wait_mask = 3}));
  // S2R R0, SR_TID.X of a compiled kernel: write barrier 0, stall 7.
  const RawInst s2r{0x0000000000007919, 0x000e2e0000002100};
  EXPECT_EQ(get_control(s2r), (Control{.stall = 7, .keep_issuing = true, .write_barrier = 0}));
}

TEST(Control, RoundTripsAndLeavesTheInstructionAlone) {
  for (uint8_t stall = 0; stall < 16; ++stall) {
    for (bool keep : {false, true}) {
      for (uint8_t barrier : {0, 3, 5, 7}) {
        const Control c{.stall = stall,
                        .keep_issuing = keep,
                        .write_barrier = barrier,
                        .read_barrier = static_cast<uint8_t>(7 - barrier),
                        .wait_mask = static_cast<uint8_t>(stall * 4 + barrier / 2),
                        .reuse = static_cast<uint8_t>(barrier)};
        RawInst w{~0ull, ~0ull};
        set_control(w, c);
        EXPECT_EQ(get_control(w), c);
        EXPECT_EQ(w.lo, ~0ull);
        EXPECT_EQ(w.hi | 0x1fffffull << 41, ~0ull);  // bits [127:125] and [104:64] keep their ones
        RawInst z{0, 0};
        set_control(z, c);
        EXPECT_EQ(get_control(z), c);
        EXPECT_EQ(z.lo, 0u);
        EXPECT_EQ(z.hi & ~(0xfffffull << 41), 0u);
      }
    }
  }
}

TEST(Control, LegalCombinations) {
  int legal = 0;
  for (uint8_t stall = 0; stall < 16; ++stall)
    for (bool keep : {false, true}) legal += is_legal({.stall = stall, .keep_issuing = keep});
  EXPECT_EQ(legal, 27);
  EXPECT_TRUE(is_legal({.stall = 0, .keep_issuing = false}));
  EXPECT_FALSE(is_legal({.stall = 0, .keep_issuing = true}));
  EXPECT_FALSE(is_legal({.stall = 12, .keep_issuing = true}));
  EXPECT_TRUE(is_legal({.stall = 12, .keep_issuing = false}));
  EXPECT_TRUE(is_legal({.stall = 1, .keep_issuing = true, .reuse = 5}));
  EXPECT_FALSE(is_legal({.stall = 1, .keep_issuing = false, .reuse = 1}));
  EXPECT_FALSE(is_legal({.stall = 1, .write_barrier = 6}));
  EXPECT_FALSE(is_legal({.stall = 1, .read_barrier = 6}));
}

TEST(Control, Text) {
  RawInst w{};
  set_control(w, {.stall = 5, .keep_issuing = true, .write_barrier = 0, .wait_mask = 3, .reuse = 3});
  EXPECT_EQ(print_control(w), "stall=5 keep wr=0 rd=- wait=0x3 reuse=AB");
  set_control(w, {.stall = 13, .keep_issuing = false, .read_barrier = 2});
  EXPECT_EQ(print_control(w), "stall=13 yield wr=- rd=2 wait=0x0");
}

TEST(RawInst, Opcode) {
  EXPECT_EQ(opcode13({0x0000000402007981, 0x000fe2000c1e1900}), 0x1981);
  EXPECT_EQ(opcode13({0x0000000402007381, 0x000fe200001e0900}), 0x381);
}

}  // namespace
}  // namespace xtrace::sass
