#include "instrument/sass/form.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "instrument/sass/print.h"

namespace xtrace::sass {
namespace {

// form.cc proves this at compile time; here for the message.
TEST(Forms, NoOpcodeIsClaimedTwice) {
  std::array<std::set<uint16_t>, arch_group_count> seen;
  for (const Form& f : all_forms()) {
    for (uint16_t opcode : f.opcodes) {
      if (opcode == 0) break;
      EXPECT_LT(opcode, 0x2000);
      for (unsigned g = 0; g < arch_group_count; ++g)
        if ((f.archs >> g & 1) != 0) {
          EXPECT_TRUE(seen[g].insert(opcode).second) << f.mnemonic << " opcode " << std::hex << opcode;
        }
    }
  }
  EXPECT_GE(seen[2].size(), 600u);  // sm_90
}

// Renders every opcode with all operand bits clear and all set: a text that names an unknown token, table or
// unclosed bracket stops here, not in a user's hands.
TEST(Forms, EveryTextRenders) {
  for (const Arch& arch : all_archs()) {
    for (const Form& f : all_forms()) {
      if ((f.archs >> arch_group(arch) & 1) == 0) continue;
      for (uint16_t opcode : f.opcodes) {
        if (opcode == 0) break;
        for (uint64_t fill :
             {uint64_t{0}, ~uint64_t{0}, uint64_t{0x5555555555555555}, uint64_t{0xaaaaaaaaaaaaaaaa}}) {
          RawInst w{(fill & ~0xffffull) | (opcode & 0xfff) | 0x7000,
                    (fill & ~(1ull << 27)) | uint64_t{opcode} >> 12 << 27};
          ASSERT_EQ(opcode13(w), opcode);
          const std::string text = print(arch, w, 0x100);
          EXPECT_EQ(text.find_first_of("{}<>#") == std::string::npos || f.mnemonic == "DEPBAR", true)
              << text << " of " << std::hex << opcode;
          const std::string_view name = f.mnemonic.substr(0, f.mnemonic.find('.'));
          EXPECT_TRUE(text.starts_with(name)) << text << " of " << f.mnemonic;
        }
      }
    }
  }
}

TEST(Forms, UnknownWordTouchesEverything) {
  const Arch& arch = **find_arch(90);
  const RawInst w{0x0000000000007fff, 0};
  ASSERT_EQ(find_form(arch, w), nullptr);
  const Effects e = effects(arch, w, 0);
  EXPECT_FALSE(e.known);
  EXPECT_TRUE(e.mnemonic.empty());
  EXPECT_EQ(e.use.gpr.count(), 255u);
  EXPECT_EQ(e.def.gpr.count(), 255u);
  EXPECT_FALSE(e.use.gpr[255]);
  EXPECT_EQ(e.use.ur.count(), 63u);
  EXPECT_EQ(e.use.pred, 0x7f);
  EXPECT_TRUE(e.guarded);
  EXPECT_TRUE(e.may_switch_path);
  EXPECT_EQ(print(arch, w, 0), ".word 0x0000000000000000_0000000000007fff");
}

// The same number means different operations on different architectures.
TEST(Forms, OpcodesAreKeyedByArchitecture) {
  const RawInst w{0x0000002018247235, 0x000fe400078e0200};
  EXPECT_EQ(print(**find_arch(120), w, 0), "IADD.64 R36, R24, R32");
  EXPECT_EQ(find_form(**find_arch(90), w)->mnemonic, "HFMA2.MMA");
  EXPECT_EQ(find_form(**find_arch(100), w), nullptr);
  const RawInst viadd{0xffffffff13047836, 0x000fca0000000000};
  EXPECT_EQ(find_form(**find_arch(90), viadd)->mnemonic, "VIADD");
  EXPECT_EQ(find_form(**find_arch(75), viadd), nullptr);
}

TEST(Forms, AluLayout) {
  EXPECT_EQ(alu_layout(0x210).s, SourceS::reg);
  EXPECT_EQ(alu_layout(0x423).s, SourceS::imm);
  EXPECT_TRUE(alu_layout(0x423).s_is_c);
  EXPECT_EQ(alu_layout(0x623).s, SourceS::constant);
  EXPECT_EQ(alu_layout(0x1623).s, SourceS::constant_bindless);
  EXPECT_EQ(alu_layout(0x1c23).s, SourceS::ur);
  EXPECT_FALSE(alu_layout(0x1c23).s_is_c);
  EXPECT_TRUE(alu_layout(0x1e23).s_is_c);
}

}  // namespace
}  // namespace xtrace::sass
