// Special tokens of arithmetic texts: constants, aliases of IMAD, half-precision operands, conversions.
#include <fmt/format.h>

#include <array>
#include <bit>

#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

constexpr unsigned rz = 255;

// --- numbers and constants ---

struct SrName {
  uint8_t index;
  ArchMask archs;
  std::string_view name;
};
constexpr SrName sr_names[] = {
#define XT_SPECIAL_REGISTER(number, archs, name) {number, archs, name},
#include "instrument/sass/special_registers.def"
#undef XT_SPECIAL_REGISTER
};

void special_register(Printer& p) {
  const unsigned index = p.field(79, 72);
  for (const SrName& n : sr_names)
    if (n.index == index && (n.archs >> arch_group(p.arch()) & 1) != 0) return p.put(n.name);
  p.put(fmt::format("SR{}", index));
}

// The 64-bit immediate of sm_120 moves: [87:64], [63:32], [31:24], high part first.
void imm64(Printer& p) {
  p.hex(uint64_t{p.field(87, 64)} << 40 | get_bits(p.word(), bits(63, 32)) << 8 | p.field(31, 24));
}
void lut(Printer& p) { p.hex(p.field(76, 72) << 3 | p.field(66, 64)); }

// --- vector arithmetic ---

// nvdisasm names common uses of IMAD: a move, an addition, a shift.
void imad(Printer& p) {
  const AluLayout& l = p.layout();
  const bool b_is_imm = l.s == SourceS::imm && !l.s_is_c;
  const unsigned a = p.field(31, 24), t = p.field(71, 64);
  const auto imm = static_cast<uint32_t>(get_bits(p.word(), bits(63, 32)));
  const bool a_zero = a == rz;
  const bool b_zero = l.s_is_c ? t == rz : b_is_imm ? imm == 0 : l.s == SourceS::reg && p.field(39, 32) == rz;
  const bool c_zero = !l.s_is_c && t == rz;
  p.put("IMAD");
  if (p.flag(74)) return p.render("<.U32@73!1>.X");
  if ((a_zero || b_zero) && l.s != SourceS::ur) {
    p.put(".MOV");
  } else if (b_is_imm && imm == 1) {
    p.put(c_zero ? ".MOV" : ".IADD");
  } else if (b_is_imm && c_zero && std::has_single_bit(imm) && imm > 1 && imm != 0x10000 &&
             imm != 0x80000000) {
    p.put(".SHL");
  }
  if (!p.flag(73)) p.put(".U32");
}

void idp(Printer& p) {
  static constexpr std::array<std::string_view, 4> types4 = {".U8.U8", ".S8.U8", ".U8.S8", ".S8.S8"};
  static constexpr std::array<std::string_view, 4> types2 = {".U16.U8", ".S16.U8", ".U16.S8", ".S16.S8"};
  const unsigned types = p.field(74, 73);
  if (p.flag(76)) {
    p.put(p.flag(77) ? ".2A.HI" : ".2A.LO");
    p.put(types2[types]);
  } else {
    p.put(".4A");
    p.put(types4[types]);
  }
}

void half_operand(Printer& p, unsigned low, bool uniform, unsigned select_low, unsigned absolute,
                  unsigned sign) {
  if (p.flag(sign)) p.put("-");
  if (p.flag(absolute)) p.put("|");
  if (uniform) {
    p.ur_at(low);
  } else {
    p.gpr_at(low);
  }
  if (p.flag(absolute)) p.put("|");
  const unsigned select = p.form().mnemonic == "HFMA2.MMA" ? 0 : p.field(select_low + 1, select_low);
  if (low == 32 && p.form().mnemonic == "HFMA2" && select == 0 && p.flag(86)) {
    p.put(".H0_NH1");
  } else if (select != 0) {
    p.put_name("hsel", select);
  }
}
void half_a(Printer& p) { half_operand(p, 24, false, 74, 73, 72); }
void half_t(Printer& p) { half_operand(p, 64, false, 81, 83, 84); }
void half_s(Printer& p) {
  const bool is_mma = p.form().mnemonic == "HFMA2.MMA";  // takes both halves as they are
  switch (p.layout().s) {
    case SourceS::reg:
      return half_operand(p, 32, false, 60, 62, 63);
    case SourceS::ur:
      return half_operand(p, 32, true, 60, 62, 63);
    case SourceS::imm: {
      const auto v = static_cast<uint32_t>(get_bits(p.word(), bits(63, 32)));
      const bool compares = p.form().mnemonic.starts_with("HSET");
      const auto print_half = p.flag(compares ? 65 : 85) ? print_bf16 : print_f16;
      return p.put(print_half(static_cast<uint16_t>(v >> 16)) + ", " +
                   print_half(static_cast<uint16_t>(v & 0xffff)));
    }
    case SourceS::constant:
    case SourceS::constant_bindless:
      if (p.flag(63)) p.put("-");
      if (p.flag(62)) p.put("|");
      p.constant(p.layout().s == SourceS::constant_bindless, is_mma ? "" : " ");
      if (const unsigned select = p.field(61, 60); select != 0 && !is_mma) p.put_name("hsel", select);
      if (p.flag(62)) p.put("|");
      return;
  }
}
void half_b(Printer& p) { p.layout().s_is_c ? half_t(p) : half_s(p); }
void half_c(Printer& p) { p.layout().s_is_c ? half_s(p) : half_t(p); }
void half_modifiers(Printer& p) {
  p.render("<.BF16_V2@85><.F32@78>");
  const bool adds = p.form().mnemonic == "HADD2", multiplies = p.form().mnemonic == "HMUL2";
  if (p.flag(80) && p.flag(76) && !adds) {
    p.put(".OOB");
  } else {
    p.render(adds ? "<.FTZ@80>" : "<.FTZ@80><.FMZ@76>");
  }
  p.render(adds || multiplies ? "<.SAT@77>" : "<.RELU@79><.SAT@77>");
}
void relu_predicate(Printer& p) {
  if (!p.flag(79) || p.field(90, 87) == pt) return;
  p.put(", ");
  p.pred(p.field(89, 87), p.flag(90), false);
}

constexpr std::string_view float_formats[] = {"", ".F16", ".F32", ".F64", ".BF16", ".???5", ".???6", ".???7"};
std::string_view float_format(unsigned v) { return float_formats[v & 7]; }

void f2f(Printer& p) {
  p.render("<.FTZ@80>");
  p.put(float_format(p.field(77, 75)));
  p.put(float_format(p.field(86, 84)));
  p.render("<#round@79:78>");
}
void f2i(Printer& p) {
  p.render("<.FTZ@80>");
  static constexpr std::array<std::string_view, 8> types = {".U8",  ".S8", ".U16", ".S16",
                                                            ".U32", "",    ".U64", ".S64"};
  p.put(types[p.field(76, 75) << 1 | p.field(72, 72)]);
  if (const unsigned from = p.field(86, 84); from != 2) p.put(float_format(from));
  p.render("<#roundint@79:78><.NTZ@77>");
}
void i2f(Printer& p) {
  if (const unsigned to = p.field(77, 75); to != 2) p.put(float_format(to));
  static constexpr std::array<std::string_view, 8> types = {".U8",  ".S8", ".U16", ".S16",
                                                            ".U32", "",    ".U64", ".S64"};
  p.put(types[p.field(85, 84) << 1 | p.field(74, 74)]);
  p.render("<#round@79:78>");
}
void frnd(Printer& p) {
  p.render("<.FTZ@80>");
  if (const unsigned to = p.field(77, 75); to != 2) p.put(float_format(to));
  p.render("<#roundint@79:78>");
}

void plop3_third(Printer& p) { p.pred(p.field(70, 68), p.flag(71), p.flag(67)); }
void voteu(Printer& p) {
  if (p.ur_index(16) != p.arch().urz) {
    p.ur_at(16);
    p.put(", ");
  }
  p.pred(p.field(83, 81), false, true);
  p.put(", ");
}
// F2FP: packs two floats into one register; the format code is spread over [87] and [77:76].
void f2fp(Printer& p) {
  p.render("<.SATFINITE@77><.RELU@75>");
  const bool to_fp8 = p.flag(87), to_tf32 = p.flag(86);
  const std::string_view to_half = p.flag(76) ? ".BF16" : p.arch().sm >= 89 ? ".F16" : "";
  p.put(to_fp8 ? (p.flag(76) ? ".E4M3" : ".E5M2") : to_tf32 ? ".TF32" : to_half);
  static constexpr std::array<std::string_view, 4> sources = {".F32", ".F16", ".E5M2", ".E4M3"};
  const unsigned from = p.field(74, 73);
  if (p.arch().sm >= 89 || from != 0) p.put(sources[from]);
  struct Mode {
    std::string_view name, operands;
  };
  static constexpr std::array<Mode, 8> modes = {{{".PACK_AB", "{A|}, {B-f}"},
                                                 {".MERGE_C", "{B|f}, {C}"},
                                                 {".UNPACK_B", "{B|f}<.H1@88>"},
                                                 {".PACK_B", "{B|f}"},
                                                 {".UNPACK_B_MERGE_C", "{B|f}<.H1@88>, {C}"},
                                                 {".PACK_AB_MERGE_C", "{A|}, {B|f}, {C}"},
                                                 {".INVALID6", "{A|}, {B|f}, {C}"},
                                                 {".INVALID7", "{A|}, {B|f}, {C}"}}};
  const Mode& mode = modes[p.field(90, 89) << 1 | p.field(78, 78)];
  p.put(mode.name);
  p.render("<#round@80:79> {Rd}, ");
  p.render(mode.operands);
}
// Packs two floats; with the third operand kept where [78] is set.
void uf2fp(Printer& p) {
  p.render("<#uf2fp@77:75>.F32");
  const bool merges = p.flag(78), both = p.flag(90);
  p.put(!merges ? ".PACK_AB" : both ? ".PACK_AB_MERGE_C" : ".MERGE_C");
  p.render(!merges ? " {Ud}, {UA}, {UB:f}"
           : both  ? " {Ud}, {UA}, {UB:f}, {UC}<.H1@72>"
                   : " {Ud}, {UB:f}, {UC}<.H1@72>");
}
// FSWZADD: a sign for each lane of a quad and operand.
void swizzle(Printer& p) {
  for (unsigned b = 40; b-- > 32;) p.put(p.flag(b) ? "N" : "P");
}
// The 64H functions work on the high half of a double.
void mufu_source(Printer& p) {
  const unsigned op = p.field(77, 74);
  p.render(op == 6 || op == 7 ? "{S|d}" : "{S|f}");
}
void lea_third(Printer& p) {
  const bool sign_extends = p.flag(73) && !(p.layout().s == SourceS::imm && p.layout().s_is_c);
  if (p.flag(80) && !sign_extends) p.render("{C}, ");
}
void ulea_third(Printer& p) {
  const bool sign_extends = p.flag(73) && !(p.layout().s == SourceS::imm && p.layout().s_is_c);
  if (p.flag(80) && !sign_extends) p.render("{UC}, ");
}
void f2ip(Printer& p) {
  p.put(p.flag(76) ? ".S8" : ".U8");
  p.put(".F32");
  p.render("<#roundint@79:78><.NTZ@74><.RELU@75>");
}

// Operand type of a comparison on sm_120.
void isetp_type(Printer& p) {
  if (p.flag(80)) return p.put(p.flag(73) ? ".S64" : ".U64");
  p.render("<.U32@73!1>");
}

// Byte or half of the source that a conversion takes.
void source_part(Printer& p) {
  const bool from_int = p.form().mnemonic == "I2F" || p.form().mnemonic == "UI2F";
  const unsigned size = p.field(85, 84), part = p.field(61, 60);
  if (p.layout().s == SourceS::imm || part == 0) return;
  if (from_int && size == 0) return p.put_name("byte", part);
  if (size == 1) p.put_name("quarter", part);
}
// The form with an immediate in the place of C has no .SX32.
void lea_sign_extends(Printer& p) {
  if (p.layout().s != SourceS::imm || !p.layout().s_is_c) p.render("<.SX32@73>");
}
void r2p_mask(Printer& p) {
  if (p.field(63, 32) == 0xff) return;
  p.put(", ");
  p.hex(p.field(63, 32));
}
void r2ur(Printer& p) {
  p.render("<.OR@84>");
  if (p.arch().sm >= 100) p.render("<.BROADCAST@87>");
}
void r2ur_predicate(Printer& p) { p.render(p.flag(84) ? "{Pu}, " : "{Pu?}"); }
// 33 bits, sign in [64].
void simm33(Printer& p) {
  p.signed_hex(static_cast<int64_t>(get_bits(p.word(), bits(63, 32))) - (p.flag(64) ? int64_t{1} << 32 : 0));
}
// Operands of packed FP32: sign and absolute value as elsewhere, then which half goes where, then .NP.
void packed(Printer& p, std::string_view operand, unsigned select_low, bool immediate, bool has_np) {
  p.render(operand);
  if (!immediate) p.put_name("f2x2", p.field(select_low + 1, select_low));
  if (has_np && p.flag(select_low + 2)) p.put(".NP");
}
void packed_a(Printer& p) { packed(p, "{A|}", 81, false, true); }
void packed_b(Printer& p) {
  packed(p, "{B|f}", 87, p.layout().s == SourceS::imm && !p.layout().s_is_c, false);
}
void packed_c(Printer& p) { packed(p, "{C|f}", 84, p.layout().s == SourceS::imm && p.layout().s_is_c, true); }
void packed_s(Printer& p) { packed(p, "{S|f}", 84, p.layout().s == SourceS::imm, true); }

constexpr Token tokens[] = {
    {"uf2fp", uf2fp},
    {"swizzle", swizzle},
    {"part", source_part},
    {"leasx", lea_sign_extends},
    {"r2pmask", r2p_mask},
    {"r2ur", r2ur},
    {"r2urpred", r2ur_predicate},
    {"simm33", simm33},
    {"f2A", packed_a},
    {"f2B", packed_b},
    {"f2C", packed_c},
    {"f2S", packed_s},
    {"isetp", isetp_type},
    {"voteu", voteu},
    {"Prx", plop3_third},
    {"uleac", ulea_third},
    {"leac", lea_third},
    {"mufu", mufu_source},
    {"f2ip", f2ip},
    {"f2fp", f2fp},
    {"sr", special_register},
    {"imm64", imm64},
    {"lut", lut},
    {"imad", imad},
    {"idp", idp},
    {"hA", half_a},
    {"hS", half_s},
    {"hB", half_b},
    {"hC", half_c},
    {"hmods", half_modifiers},
    {"Prelu", relu_predicate},
    {"f2f", f2f},
    {"f2i", f2i},
    {"i2f", i2f},
    {"frnd", frnd},
};

}  // namespace

std::span<const Token> arithmetic_tokens() { return tokens; }

}  // namespace xtrace::sass
