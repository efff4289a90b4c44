#include "instrument/sass/describe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "instrument/sass/form.h"

namespace xtrace::sass {
namespace {

const Arch& arch(unsigned sm) { return **find_arch(sm); }

std::string line(const WordField& f) {
  return fmt::format("[{}:{}] {:#x} {}: {}", f.high, f.low, f.value, f.name, f.meaning);
}

TEST(Describe, FieldsOfAWord) {
  // @!P3 IADD3.X R29, R89, R45, R11, P0, P3 with stall 5, write scoreboard 2, waits for SB0 and SB4
  RawInst w{0x0000002d591db210, 0x000fe200007e640b};
  Control c;
  c.stall = 5;
  c.write_barrier = 2;
  c.wait_mask = 0x11;
  set_control(w, c);
  std::vector<std::string> lines;
  for (const WordField& f : describe_word(arch(90), w)) lines.push_back(line(f));
  const std::vector<std::string> expected = {
      "[127:125] 0x0 -: always zero",
      "[124:122] 0x0 reuse: none",
      "[121:116] 0x11 wait: for SB0 SB4",
      "[115:113] 0x7 read scoreboard: none",
      "[112:110] 0x2 write scoreboard: SB2",
      "[109:109] 0x1 issue: keep this warp",
      "[108:105] 0x5 stall: 5 cycles",
      "[104:92] 0x0 -: ",
      "[91:91] 0x0 opcode: high bit, with [11:0] 0x0210",
      "[90:87] 0x0 predicate: P0 read",
      "[86:84] 0x7 predicate: PT written",
      "[83:81] 0x7 predicate: PT written",
      "[80:77] 0x3 predicate: P3 read",
      "[76:75] 0x0 -: ",
      "[74:74] 0x1 modifier: .X",
      "[73:72] 0x0 -: ",
      "[71:64] 0xb register: R11 read",
      "[63:40] 0x0 -: ",
      "[39:32] 0x2d register: R45 read",
      "[31:24] 0x59 register: R89 read",
      "[23:16] 0x1d register: R29 written",
      "[15:12] 0xb guard: @!P3",
      "[11:0] 0x210 opcode: IADD3",
  };
  EXPECT_EQ(lines, expected);
}

TEST(Describe, WidthsAndTargets) {
  const auto find = [](const std::vector<WordField>& fields, unsigned low) {
    for (const WordField& f : fields)
      if (f.low == low) return line(f);
    return std::string("none");
  };
  const auto wide =
      describe_word(arch(90), {0x0000000405027825, 0x001fca00078e0202});  // IMAD.WIDE R2, R5, 0x4, R2
  EXPECT_EQ(find(wide, 16), "[23:16] 0x2 register: R2..R3 written");
  EXPECT_EQ(find(wide, 64), "[71:64] 0x2 register: R2..R3 read");
  EXPECT_EQ(find(wide, 32), "[63:32] 0x4 immediate: 0x4");
  const auto self = describe_word(arch(90), {0xfffffffc00fc7947, 0x000fc0000383ffff});  // BRA to itself
  EXPECT_EQ(find(self, 34), "[81:34] 0xffffffffffff target: this instruction + 0x0");
  EXPECT_EQ(find(self, 16), "[23:16] 0xfc target: low byte");
  const auto constant = describe_word(arch(80), {0x00005800ff047a24, 0x001fe200078e0204});
  EXPECT_EQ(find(constant, 54), "[58:54] 0x0 constant bank: c[0x0]");
  EXPECT_EQ(find(constant, 40), "[53:40] 0x58 constant offset: [0x160] (times 4)");
}

// Every bit is in one field, for every form and for words without one.
TEST(Describe, FieldsCoverTheWordOnce) {
  for (const Arch& a : all_archs()) {
    for (const Form& f : all_forms()) {
      if ((f.archs >> arch_group(a) & 1) == 0) continue;
      for (uint16_t opcode : f.opcodes) {
        if (opcode == 0) break;
        for (uint64_t fill : {uint64_t{0}, ~uint64_t{0}, uint64_t{0x5555555555555555}}) {
          const RawInst w{(fill & ~0xfffull) | (opcode & 0xfff),
                          (fill & ~(1ull << 27)) | uint64_t{opcode} >> 12 << 27};
          unsigned next = 128;
          for (const WordField& field : describe_word(a, w)) {
            ASSERT_EQ(field.high + 1, next) << f.mnemonic << " " << line(field);
            next = field.low;
          }
          ASSERT_EQ(next, 0u) << f.mnemonic;
        }
      }
    }
  }
  EXPECT_EQ(describe_word(arch(90), {0x7fff, 0}).back().meaning, "no form");
}

}  // namespace
}  // namespace xtrace::sass
