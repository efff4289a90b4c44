#include "instrument/sass/encode.h"

#include <gtest/gtest.h>

#include "instrument/sass/effects.h"
#include "instrument/sass/print.h"

namespace xtrace::sass::enc {
namespace {

const Arch& sm90() { return **find_arch(90); }

struct Case {
  const char* call;
  RawInst word;
  const char* text;
};
// The texts were compared with nvdisasm 13 for every row.
const Case cases[] = {
#define XT_CASE(call, text) {#call, call, text},
#include "encode_cases.inc"
#undef XT_CASE
};

TEST(Encode, EveryConstructorDecodesToItsText) {
  for (const Case& c : cases) {
    EXPECT_EQ(print(sm90(), c.word, 0x100), c.text) << c.call;
    EXPECT_TRUE(effects(sm90(), c.word, 0x100).known) << c.call;
    EXPECT_EQ(get_control(c.word), Control{.stall = 1}) << c.call;
    EXPECT_TRUE(is_legal(get_control(c.word))) << c.call;
  }
}

// On other architectures the same text, but for how nvdisasm prints addresses, reductions and carries there.
TEST(Encode, OtherArchitecturesPrintTheSame) {
  const auto plain = [](std::string text) {
    const std::pair<std::string_view, std::string_view> spellings[] = {{"RZ.U32+", ""}, {"REDG", "RED"}, {"desc[UR4]", ""},
                                                                     {"UPT, UPT, ", ""}, {"P1, PT, R4", "P1, R4"},
                                                                     {"P0, PT, R4", "P0, R4"}, {".SYS", ""}};
    for (const auto& [from, to] : spellings)
      if (const size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
    if (text.starts_with("IADD3"))
      if (const size_t at = text.find("PT, PT, "); at != std::string::npos) text.erase(at, 8);
    return text;
  };
  for (const Arch& arch : all_archs()) {
    size_t seen = 0;
    for (const Case& c : cases) {
      if (!exists(arch, c.word)) continue;
      ++seen;
      EXPECT_EQ(plain(print(arch, for_arch(arch, c.word), 0x100)), plain(c.text)) << c.call << " on " << arch.name;
      if (arch.sm == 90) {
        EXPECT_EQ(for_arch(arch, c.word), c.word);
      }
    }
    EXPECT_GE(seen, std::size(cases) - 2) << arch.name;   // ELECT in front of sm_90, ULDC behind it; memory descriptors on sm_75
  }
  EXPECT_FALSE(exists(**find_arch(80), elect(Pred{0})));
  EXPECT_FALSE(effects(**find_arch(80), for_arch(**find_arch(80), r2ur(Ureg{4}, Gpr{2})), 0).fixed_latency);
  // Vendor words: R2UR of sm_80, a store through a uniform pair with URZ of sm_100.
  EXPECT_EQ(for_arch(**find_arch(80), r2ur(Ureg{8}, Gpr{12})).lo, 0x000000000c0873c2u);
  // What ptxas 13 makes for sm_75.
  const Arch& sm75 = **find_arch(75);
  const auto body = [](const RawInst& w) { return w.hi & 0x1ffffffffff; };
  EXPECT_EQ(body(for_arch(sm75, stg(VectorAddress{Gpr{2}, 8}, Gpr{6}, Size::b64))), 0x10eb00u);
  EXPECT_EQ(body(for_arch(sm75, stg(UniformAddress{Ureg{4}, Gpr{4}, 0x200}, Gpr{21}, Size::b32))), 0x810e904u);
  EXPECT_EQ(body(for_arch(sm75, ldg(Gpr{20}, VectorAddress{Gpr{8}, 80}, Size::b128))), 0x1eed00u);
  EXPECT_EQ(body(for_arch(sm75, red_add_u32(VectorAddress{Gpr{10}, 0}, Gpr{19}))), 0x114100u);
  EXPECT_FALSE(exists(sm75, ldg_desc(Gpr{0}, Ureg{4}, VectorAddress{Gpr{2}, 0}, Size::b32)));
  EXPECT_EQ(get_bits(for_arch(**find_arch(100), uiadd3_imm(Ureg{4}, Ureg{4}, 8)), bits(71, 64)), 255u);
}

// Words that vendor code contains, without control bits. [vendor code, measured H200]
TEST(Encode, MatchesVendorWords) {
  struct Golden {
    RawInst made;
    uint64_t lo, hi;
  };
  const Golden golden[] = {
      {mov_imm(Gpr{13}, 0x3fd80000), 0x3fd80000000d7802, 0xf00},
      {umov_imm(Ureg{6}, 0x3ae80f1e), 0x3ae80f1e00067882, 0},
      {umov(Ureg{4}, URZ), 0x0000003f00047c82, 0x8000000},
      {iadd3_imm(Gpr{22}, Gpr{3}, 0xfff00000, RZ), 0xfff0000003167810, 0x7ffe0ff},
      {iadd3_carry_out(Gpr{3}, Pred{1}, Gpr{4}, Gpr{8}, RZ), 0x0000000804037210, 0x7f3e0ff},
      {iadd3_carry_in(Gpr{16}, RZ, Gpr{16}, RZ, Pred{2}), 0x00000010ff107210, 0x17fe4ff},
      {imad_imm(Gpr{11}, Gpr{2}, 4, Gpr{1}), 0x00000004020b7824, 0x78e0201},
      {imad_ur(Gpr{7}, Gpr{7}, Ureg{4}, Gpr{0}), 0x0000000407077c24, 0xf8e0200},
      {imad_wide_u32_imm(Gpr{10}, Gpr{11}, 0x10, Gpr{8}), 0x000000100b0a7825, 0x78e0008},
      {lop3_imm(Gpr{10}, Gpr{19}, 0x800fffff, RZ, 0xc0), 0x800fffff130a7812, 0x78ec0ff},
      {shf_r_u32_hi_imm(Gpr{2}, Gpr{0}, 0x17), 0x00000017ff027819, 0x11600},
      {shf_l_u32_imm(Gpr{3}, Gpr{0}, 8), 0x0000000800037819, 0x6ff},
      {isetp_imm(Pred{0}, Compare::ge, true, Gpr{8}, 0xffffffe8), 0xffffffe80800780c, 0x3f06270},
      {isetp(Pred{0}, Compare::ne, true, Gpr{4}, RZ), 0x000000ff0400720c, 0x3f05270},
      {isetp_ur(Pred{3}, Compare::ne, false, RZ, Ureg{4}), 0x00000004ff007c0c, 0xbf65070},
      {uiadd3(Ureg{11}, Ureg{11}, URZ, URZ), 0x0000003f0b0b7290, 0xfffe03f},
      {uiadd3_imm(Ureg{4}, Ureg{4}, 0xff800000), 0xff80000004047890, 0xfffe03f},
      {uimad(Ureg{7}, Ureg{7}, Ureg{5}, URZ), 0x00000005070772a4, 0xf8e023f},
      {ulop3_imm(Ureg{22}, Ureg{11}, 3, URZ, 0xc0), 0x000000030b167892, 0xf8ec03f},
      {ushf_r_u32_hi_imm(Ureg{4}, Ureg{5}, 1), 0x000000013f047899, 0x8011605},
      {r2ur(Ureg{10}, Gpr{8}), 0x00000000080a72ca, 0xe0000},
      {ldc(Gpr{2}, 0, 0x210, Size::b64), 0x00008400ff027b82, 0xa00},
      {uldc(Ureg{4}, 0, 0x208, Size::b64), 0x0000820000047ab9, 0xa00},
      {ldg_desc(Gpr{0}, Ureg{4}, VectorAddress{Gpr{2}, 0}, Size::b32), 0x0000000402007981, 0xc1e1900},
      {stg(VectorAddress{Gpr{96}, 0}, Gpr{84}, Size::b128), 0x0000005460007386, 0x100d00},
      {bra(0x100, 0x100), 0xfffffffc00fc7947, 0x383ffff},
      {exit(), 0x000000000000794d, 0x3800000},
      {nop(), 0x0000000000007918, 0},
  };
  for (const Golden& g : golden) {
    EXPECT_EQ(g.made.lo, g.lo) << print(sm90(), g.made, 0x100);
    EXPECT_EQ(g.made.hi & 0x1ffffffffff, g.hi) << print(sm90(), g.made, 0x100);
  }
}

TEST(Encode, StoreThroughAUniformPairReadsBothHalves) {
  const Effects e = effects(sm90(), stg(UniformAddress{Ureg{10}, Gpr{3}, 16}, Gpr{8}, Size::b128), 0);
  RegSet ur, gpr;
  ur.set(10).set(11);
  gpr.set(3).set(8).set(9).set(10).set(11);
  EXPECT_EQ(e.use.ur, ur);
  EXPECT_EQ(e.use.gpr, gpr);
  EXPECT_TRUE(e.def.gpr.none());
  EXPECT_EQ(e.access_bytes, 16);
  EXPECT_EQ(e.late_queue, LateQueue::lsu);
}

TEST(EncodeDeathTest, RefusesOperandsThatDoNotFit) {
  EXPECT_DEATH(umov_imm(Ureg{64}, 0), "does not fit");
  EXPECT_DEATH(stg(UniformAddress{Ureg{10}, RZ, 1 << 23}, Gpr{8}, Size::b32), "24 bits");
  EXPECT_DEATH(stg(UniformAddress{Ureg{11}, RZ, 0}, Gpr{8}, Size::b32), "aligned");
  EXPECT_DEATH(stg(UniformAddress{Ureg{10}, RZ, 0}, Gpr{6}, Size::b128), "aligned");
  EXPECT_DEATH(cs2r64(Gpr{5}, sr_clock_lo), "aligned");
  EXPECT_DEATH(bra(0, 6), "multiple of 4");
}

}  // namespace
}  // namespace xtrace::sass::enc
