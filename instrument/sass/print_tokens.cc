// Special tokens of the texts in forms.def: operands and modifiers that one pattern can not express.
#include <fmt/format.h>

#include <array>
#include <bit>

#include "instrument/sass/branch.h"
#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

constexpr unsigned pt = 7;
constexpr unsigned rz = 255;

// --- numbers and constants -------------------------------------------------------------------------------------------

struct SrName {
  uint8_t index;
  std::string_view name;
};
constexpr SrName sr_names[] = {
    {0, "SR_LANEID"},          {1, "SR_CLOCK"},           {2, "SR_VIRTCFG"},        {3, "SR_VIRTID"},
    {15, "SR_ORDERING_TICKET"}, {24, "SR_MACHINE_ID_0"},  {25, "SR_MACHINE_ID_1"},  {26, "SR_MACHINE_ID_2"},
    {27, "SR_MACHINE_ID_3"},   {32, "SR_TID"},            {33, "SR_TID.X"},         {34, "SR_TID.Y"},
    {35, "SR_TID.Z"},          {37, "SR_CTAID.X"},        {38, "SR_CTAID.Y"},       {39, "SR_CTAID.Z"},
    {40, "SR_NTID"},           {46, "SR_LWINHI"},         {47, "SR_SWINHI"},        {48, "SR_SWINLO"},
    {49, "SR_SWINSZ"},         {50, "SR_SMEMSZ"},         {51, "SR_SMEMBANKS"},     {52, "SR_LWINLO"},
    {53, "SR_LWINSZ"},         {54, "SR_LMEMLOSZ"},       {55, "SR_LMEMHIOFF"},     {56, "SR_EQMASK"},
    {57, "SR_LTMASK"},         {58, "SR_LEMASK"},         {59, "SR_GTMASK"},        {60, "SR_GEMASK"},
    {61, "SR_REGALLOC"},       {62, "SR_BARRIERALLOC"},   {64, "SR_GLOBALERRORSTATUS"}, {65, "SR_CGA"},
    {66, "SR_WARPERRORSTATUS"}, {67, "SR_VIRTUALSMID"},   {68, "SR_VIRTUALENGINEID"}, {80, "SR_CLOCKLO"},
    {81, "SR_CLOCKHI"},        {82, "SR_GLOBALTIMERLO"},  {83, "SR_GLOBALTIMERHI"}, {96, "SR_HWTASKID"},
    {132, "SR_VARIABLE_RATE"}, {134, "SR_WARPGROUP_INFO"}, {135, "SR_WARPGROUPID"}, {136, "SR_CgaCtaId"},
    {137, "SR_GpcLocalCgaId"}, {138, "SR_CgaLinearMemorySlot"}, {139, "SR_CTARegPoolSz"}, {255, "SRZ"},
};

void special_register(Printer& p) {
  const unsigned index = p.field(79, 72);
  for (const SrName& n : sr_names)
    if (n.index == index) return p.put(n.name);
  p.put(fmt::format("SR{}", index));
}

// The 64-bit immediate of sm_120 moves: [87:64], [63:32], [31:24], high part first.
void imm64(Printer& p) {
  p.hex(uint64_t{p.field(87, 64)} << 40 | get_bits(p.word(), bits(63, 32)) << 8 | p.field(31, 24));
}
void lut(Printer& p) { p.hex(p.field(76, 72) << 3 | p.field(66, 64)); }

void offset_in_brackets(Printer& p, int64_t offset, bool has_base) {
  if (offset == 0 && has_base) return;
  if (has_base) p.put("+");
  p.signed_hex(offset);
}

// c[bank][register + offset] of LDC and its uniform relatives; the offset counts bytes.
void constant_address(Printer& p) {
  const uint16_t opcode = opcode13(p.word());
  const bool vector = opcode == 0xb82 || opcode == 0x1582;
  if (opcode == 0x1582 || opcode == 0x1ab9) {
    p.put("cx[");
    p.ur_at(24);
    p.put("]");
  } else {
    p.put(fmt::format("c[{:#x}]", p.field(58, 54)));
  }
  const bool has_vector = vector && p.field(31, 24) != rz;
  const bool indexed_uniform = opcode == 0x1abb || (opcode == 0x17ac && p.ur_index(24) != p.arch().urz);
  const int64_t offset = has_vector       ? sign_extend(p.field(53, 38), 16)
                         : opcode == 0x17ac ? static_cast<int64_t>(p.field(53, 37))
                                            : static_cast<int64_t>(p.field(53, 38));
  p.put("[");
  if (has_vector) {
    p.gpr_at(24);
  } else if (indexed_uniform) {
    p.ur_at(24);
  } else if (offset == 0 && (vector || opcode == 0x17ac)) {
    p.put(vector ? "RZ" : "URZ");
  }
  const bool has_base = has_vector || indexed_uniform || (offset == 0 && (vector || opcode == 0x17ac));
  offset_in_brackets(p, offset, has_base);
  p.put("]");
}

// --- vector arithmetic -----------------------------------------------------------------------------------------------

// nvdisasm names common uses of IMAD: a move, an addition, a shift.
void imad(Printer& p) {
  const AluLayout& l = p.layout();
  const bool b_is_imm = l.s == SourceS::imm && !l.s_is_c;
  const unsigned a = p.field(31, 24), t = p.field(71, 64);
  const auto imm = static_cast<uint32_t>(get_bits(p.word(), bits(63, 32)));
  const bool a_zero = a == rz;
  const bool b_zero = l.s_is_c ? t == rz : l.s == SourceS::reg && p.field(39, 32) == rz;
  const bool c_zero = !l.s_is_c && t == rz;
  p.put("IMAD");
  if (p.flag(74)) {
    p.put(".X");
  } else if (a_zero && b_zero && l.s != SourceS::ur) {
    p.put(".MOV");
  } else if (b_is_imm && imm == 1) {
    p.put(".IADD");
  } else if (b_is_imm && c_zero && std::has_single_bit(imm) && imm > 1 && imm != 0x10000) {
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

void half_operand(Printer& p, unsigned low, bool uniform, unsigned select_low, unsigned absolute, unsigned sign) {
  if (p.flag(sign)) p.put("-");
  if (p.flag(absolute)) p.put("|");
  if (uniform) {
    p.ur_at(low);
  } else {
    p.gpr_at(low);
  }
  const unsigned select = p.field(select_low + 1, select_low);
  if (low == 32 && p.form().mnemonic == "HFMA2" && select == 0 && p.flag(86)) {
    p.put(".H0_NH1");
  } else if (select != 0) {
    p.put_name("hsel", select);
  }
  if (p.flag(absolute)) p.put("|");
}
void half_a(Printer& p) { half_operand(p, 24, false, 74, 73, 72); }
void half_t(Printer& p) { half_operand(p, 64, false, 81, 83, 84); }
void half_s(Printer& p) {
  switch (p.layout().s) {
    case SourceS::reg:
      return half_operand(p, 32, false, 60, 62, 63);
    case SourceS::ur:
      return half_operand(p, 32, true, 60, 62, 63);
    case SourceS::imm: {
      const auto v = static_cast<uint32_t>(get_bits(p.word(), bits(63, 32)));
      const bool compares = p.form().mnemonic.starts_with("HSET");
      const auto print_half = p.flag(compares ? 65 : 85) ? print_bf16 : print_f16;
      return p.put(print_half(static_cast<uint16_t>(v >> 16)) + ", " + print_half(static_cast<uint16_t>(v & 0xffff)));
    }
    case SourceS::constant:
    case SourceS::constant_bindless:
      if (p.flag(63)) p.put("-");
      if (p.flag(62)) p.put("|");
      p.constant(p.layout().s == SourceS::constant_bindless);
      if (p.flag(62)) p.put("|");
      return;
  }
}
void half_b(Printer& p) { p.layout().s_is_c ? half_t(p) : half_s(p); }
void half_c(Printer& p) { p.layout().s_is_c ? half_s(p) : half_t(p); }
void half_modifiers(Printer& p) {
  p.render("<.BF16_V2@85><.F32@78>");
  if (p.flag(80) && p.flag(76)) {
    p.put(".OOB");
  } else {
    p.render("<.FTZ@80><.FMZ@76>");
  }
  p.render("<.RELU@79><.SAT@77>");
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
  p.put(float_format(p.field(85, 84)));
  p.render("<#round@79:78>");
}
void f2i(Printer& p) {
  p.render("<.FTZ@80>");
  static constexpr std::array<std::string_view, 8> types = {".U8", ".S8", ".U16", ".S16", ".U32", "", ".U64", ".S64"};
  p.put(types[p.field(76, 75) << 1 | p.field(72, 72)]);
  if (const unsigned from = p.field(85, 84); from != 2) p.put(float_format(from));
  p.render("<#roundint@79:78><.NTZ@77>");
}
void i2f(Printer& p) {
  if (const unsigned to = p.field(77, 75); to != 2) p.put(float_format(to));
  static constexpr std::array<std::string_view, 8> types = {".U8", ".S8", ".U16", ".S16", ".U32", "", ".U64", ".S64"};
  p.put(types[p.field(85, 84) << 1 | p.field(74, 74)]);
  p.render("<#round@79:78>");
}
void frnd(Printer& p) {
  p.render("<.FTZ@80>");
  if (const unsigned to = p.field(77, 75); to != 2) p.put(float_format(to));
  p.render("<#roundint@79:78>");
}

// --- matrix ----------------------------------------------------------------------------------------------------------

void hmma(Printer& p) {
  p.render("<.SP@73>");
  static constexpr std::array<std::string_view, 4> shapes = {".1688", ".16816", ".1684", ".INVALID3"};
  p.put(shapes[p.field(78, 78) << 1 | p.field(75, 75)]);
  p.put(p.flag(76) ? ".F32" : ".F16");
  static constexpr std::array<std::string_view, 4> formats = {"", ".BF16", ".TF32", ".INVALID3"};
  p.put(formats[p.field(83, 82)]);
}
void imma(Printer& p) {
  p.render("<.SP@72>");
  const unsigned shape = p.field(86, 85) << 1 | p.field(75, 75);
  p.put(shape == 0 ? ".8816" : shape == 4 ? ".16816" : shape == 5 ? ".16832" : fmt::format(".INVALID{}", shape));
  static constexpr std::array<std::string_view, 4> types = {".U8", ".S8", ".U4", ".S4"};
  p.put(types[p.field(77, 76) & 1]);
  p.put(types[p.field(79, 78) & 1]);
  p.render("<.SAT@82>");
}
void imma_a(Printer& p) { p.put(p.flag(73) ? ".COL" : ".ROW"); }
void imma_b(Printer& p) { p.put(p.flag(74) ? ".COL" : ".ROW"); }
void sparse(Printer& p) {
  const bool on = opcode13(p.word()) == 0x237 ? p.flag(72) : p.flag(73);
  if (!on) return;
  p.put(", ");
  p.gpr_at(40);
  p.put(", 0x0");
}
void mma_predicate(Printer& p) {
  const unsigned v = p.field(90, 87);
  if (v == 0) return;
  p.put(", ");
  p.pred(pt - (v & 7), (v & 8) != 0, true);
}

void gmma(Printer& p) {
  const unsigned kind = opcode13(p.word()) & 0xf;
  p.render("<.SP@73>");
  const unsigned n = gmma_columns(p.word());
  const unsigned depth = kind == 0 ? (p.flag(58) ? 8 : 16) : kind == 2 ? 256 : 32;
  p.put(fmt::format(".64x{}x{}", n, p.flag(73) ? depth * 2 : depth));
  if (kind == 0) {
    p.put(p.flag(75) ? ".F32" : ".F16");
    static constexpr std::array<std::string_view, 4> formats = {"", ".BF16", ".TF32", ".INVALID3"};
    p.put(formats[p.field(77, 76)]);
  } else if (kind == 1) {
    p.put(p.flag(76) ? ".S8" : ".U8");
    p.put(p.flag(82) ? ".S8" : ".U8");
    p.render("<.SAT@75>");
  } else if (kind == 3) {
    p.put(p.flag(75) ? ".F32" : ".F16");
    p.put(p.flag(76) ? ".E5M2" : ".E4M3");
    p.put(p.flag(77) ? ".E5M2" : ".E4M3");
  }
}
void gdesc(Printer& p, unsigned low, bool a_in_memory) {
  p.put("gdesc[");
  p.ur_at(low);
  p.put("]");
  const unsigned kind = opcode13(p.word()) & 0xf;
  if (kind != 0) return;
  if (a_in_memory && p.flag(72)) p.put(".negA");
  if (p.flag(63)) p.put(".negB");
  if (a_in_memory && p.flag(61)) p.put(".tnspA");
  if (p.flag(62)) p.put(".tnspB");
}
void gdesc_a(Printer& p) { gdesc(p, 24, true); }
void gdesc_b(Printer& p) { gdesc(p, 32, false); }
void gmma_tail(Printer& p) {
  sparse(p);
  mma_predicate(p);
  if (const unsigned gsb = p.field(86, 84); gsb != pt) p.put(fmt::format(", gsb{}", gsb));
}
void warpgroup(Printer& p) {
  if (p.flag(80)) {
    p.put(fmt::format(".DEPBAR.LE gsb{}, {:#x}", p.field(86, 84), p.field(74, 72)));
  } else {
    p.put(".ARRIVE");
  }
}

// --- memory ----------------------------------------------------------------------------------------------------------

void order(Printer& p) {
  if (p.arch().sm < 80) return p.put_name("order75", p.field(80, 79) << 2 | p.field(78, 77));
  p.put_name("order", p.field(80, 77));
}
void prefetch(Printer& p) {
  if (p.arch().sm >= 80) p.render("<#ltc@69:68>");
}
void load_modifiers(Printer& p) {
  p.render("<.E@72><#cache@86:84>");
  prefetch(p);
  p.render("<#ldsize@75:73>");
  order(p);
}
void store_modifiers(Printer& p) {
  p.render("<.E@72><#cache@86:84><#ldsize@75:73>");
  order(p);
}
void local_modifiers(Printer& p) { p.render("<#cache@86:84><#ldsize@75:73>"); }
void lds_modifiers(Printer& p) {
  if (p.arch().sm < 80 && p.flag(76)) p.put(".U");
  p.render("<#ldsize@75:73>");
}
void sts_modifiers(Printer& p) { p.render("<#ldsize@75:73>"); }
void ldsm_modifiers(Printer& p) { p.render(".16<#mshape@79:78><#mnum@73:72>"); }

bool is_atomic(const Printer& p) {
  return p.form().kind() == MemKind::atomic || p.form().kind() == MemKind::reduction ||
         p.form().mnemonic == "LDGMC";
}

// [vector + uniform + offset], with desc[...] in front where the uniform register is a memory descriptor.
void address(Printer& p, BitRange offset_field, unsigned offset_bits) {
  const uint16_t opcode = opcode13(p.word());
  const bool has_ur = (opcode & 0x1000) != 0;
  const Form& form = p.form();
  const bool global = form.space() == MemSpace::global || form.space() == MemSpace::generic;
  unsigned ur_low = 64;
  for (const Slot& s : form.uses)
    if (s.kind == SlotKind::ur) ur_low = s.low;
  bool wide = false, desc = false;
  if (has_ur && global) {
    if (form.mnemonic == "RED") {
      wide = p.flag(90);
      desc = p.arch().sm >= 100 ? p.flag(81) : p.flag(71);
    } else if (is_atomic(p)) {
      wide = p.arch().sm >= 100 || p.flag(70);
      desc = p.arch().sm >= 100 ? p.flag(81) : p.flag(71);
    } else if (form.mnemonic == "LDGSTS") {
      wide = p.flag(70);
      desc = p.flag(76);
    } else {
      wide = p.flag(90);
      desc = p.flag(76);
    }
  } else if (form.mnemonic == "STAS") {
    wide = true;
  }
  const bool hidden_desc = desc && p.arch().sm < 90;  // nvdisasm leaves the descriptor of sm_80 out
  const bool shared_ur = form.mnemonic == "LDGSTS" && opcode == 0x1dae;  // belongs to the other address
  const bool with_ur = has_ur && !desc && !hidden_desc && !shared_ur;
  const int64_t offset = sign_extend(get_bits(p.word(), offset_field), offset_bits);
  const bool vector = p.field(31, 24) != rz;
  const bool show_vector = vector || !with_ur || (global && form.mnemonic != "LDGSTS" && p.arch().sm >= 90);
  if (desc && !hidden_desc) {
    p.put("desc[");
    p.ur_at(ur_low);
    p.put("]");
  }
  p.put("[");
  if (show_vector && (vector || offset == 0 || has_ur)) {
    p.gpr_at(24);
    if (has_ur && global) p.put(wide ? ".64" : p.flag(72) ? ".U32" : "");
    if (form.mnemonic == "STAS") p.put(".64");
    if (form.space() == MemSpace::shared && p.arch().sm < 100 && !has_ur) {
      static constexpr std::array<std::string_view, 4> scales = {"", ".X4", ".X8", ".X16"};
      const bool scaled = form.mnemonic == "LDS" || form.mnemonic == "STS";
      if (scaled) p.put(scales[p.field(79, 78)]);
    }
  }
  const bool hides_urz = form.mnemonic == "STAS" || form.mnemonic == "LDGSTS";
  const bool show_ur = with_ur && !(hides_urz && p.ur_index(ur_low) == p.arch().urz);
  if (show_ur) {
    if (show_vector) p.put("+");
    p.ur_at(ur_low);
  }
  const bool has_base = vector || has_ur || offset == 0;
  offset_in_brackets(p, offset, has_base);
  p.put("]");
}
void memory(Printer& p) { address(p, bits(63, 40), 24); }
void memory12(Printer& p) { address(p, bits(43, 32), 12); }
void memory32(Printer& p) { address(p, bits(63, 32), 32); }

void load_predicate(Printer& p) {
  const unsigned v = p.field(67, 64);
  if (v == 0) return;
  p.put(", ");
  p.pred(pt - (v & 7), (v & 8) != 0, false);
}

void atomic_type(Printer& p) {
  p.put_name(p.arch().sm >= 90 ? "atomtype" : "atomtype75", p.field(75, 73));
}
void atom(Printer& p) {
  p.render("<.E@72><#atomop@90:87>");
  atomic_type(p);
  order(p);
}
void atom_float(Printer& p) {
  p.render("<.E@72><#atomfop@90:88><#atomftype@76:73>");
  order(p);
}
void atom_cas(Printer& p) {
  p.render("<.E@72>.CAS");
  atomic_type(p);
  order(p);
}
void atoms(Printer& p) {
  p.render("<#atomop@90:87>");
  atomic_type(p);
}
void atoms_cas(Printer& p) {
  static constexpr std::array<std::string_view, 4> kinds = {".CAS", ".CAS.SPIN", ".CAST", ".CAST.SPIN"};
  p.put(kinds[p.field(88, 87)]);
  atomic_type(p);
}
void red_name(Printer& p) { p.put(p.arch().sm >= 90 ? "REDG" : "RED"); }
void red(Printer& p) {
  p.render("<.E@72><#atomop@89:87>");
  atomic_type(p);
  order(p);
}
void red_float(Printer& p) {
  p.render("<.E@72><#atomfop@89:88><#atomftype@76:73>");
  order(p);
}
void ldgmc(Printer& p) {
  static constexpr std::array<std::string_view, 8> types = {".32", ".S32", ".64", ".S64", ".128", "", "", ""};
  p.render("<.E@72><#atomop@90:87>");
  p.put(types[p.field(75, 73)]);
  order(p);
}
void ldgmc_float(Printer& p) {
  p.render("<.E@72><#ldgmcfop@90:88><#atomftype@76:73>");
  order(p);
}
void ldgsts(Printer& p) {
  p.put(".E");
  if (!p.flag(81)) p.put(".BYPASS");
  p.render("<#ltc@72:71><#ldsize@75:73><#order@80:77><.ZFILL@82>");
}
void ldgsts_destination(Printer& p) {
  p.put("[");
  p.gpr_at(16);
  if (opcode13(p.word()) == 0x1dae) {
    p.put("+");
    p.ur_at(64);
  }
  offset_in_brackets(p, p.field(63, 44), true);
  p.put("]");
}
void optional_pp(Printer& p) {
  if (p.field(90, 87) == pt) return;
  p.put(", ");
  p.pred(p.field(89, 87), p.flag(90), false);
}
void match(Printer& p) {
  if (p.flag(79)) return;
  p.pred(p.field(83, 81), false, false);
  p.put(", ");
}
void cctl(Printer& p) {
  static constexpr std::array<std::string_view, 16> ops = {".PF1", ".PF2", ".WB", ".IV", ".IVALL", ".RS", ".IVALLP",
                                                           ".WBALL", ".WBALLP", ".PML2", ".DML2", ".RML2"};
  static constexpr std::array<std::string_view, 4> caches = {"", ".U", ".C", ".I"};
  const unsigned op = p.field(90, 87);
  p.render("<.E@72>");
  p.put(caches[p.field(79, 78)]);
  p.put(ops[op]);
  if (op == 4 || op == 6 || op == 7 || op == 8) return;
  p.put(" [");
  p.gpr_at(24);
  offset_in_brackets(p, sign_extend(get_bits(p.word(), bits(63, 32)), 32), true);
  p.put("]");
}
void b2r(Printer& p) {
  static constexpr std::array<std::string_view, 4> kinds = {"", ".RESULT", ".WARP", ".INVALID3"};
  p.put(kinds[p.field(79, 78)]);
}
void b2r_predicate(Printer& p) {
  if (p.field(83, 81) == pt) return;
  p.put(", ");
  p.pred(p.field(83, 81), false, false);
}

// --- mbarrier, TMA, clusters -----------------------------------------------------------------------------------------

void phase_check(Printer& p) { p.render(".TRANS64<.TRYWAIT@72>"); }
void arrive(Printer& p) { p.render(".TRANS64<.TMASK@73><.RED@74><.OPTOUT@75><.A1T0@84><.A0TR@85><.ART0@86>"); }
void arrives(Printer& p) { p.render("<.64@75><.ARVCNT@73>"); }
void syncs_cctl(Printer& p) { p.render("<.IV@72>"); }
void syncs_memory(Printer& p) {
  p.put("[");
  p.ur_at(24);
  offset_in_brackets(p, sign_extend(get_bits(p.word(), bits(63, 40)), 24), true);
  p.put("]");
}
void tma(Printer& p) { p.render("<#dim@81:79><.IM2COL@82><.MULTICAST@75>"); }
void tma_descriptor(Printer& p) {
  if (!p.flag(76)) return;
  p.put(", desc[");
  p.ur_at(40);
  p.put("]");
}
void set_max_registers(Printer& p) {
  static constexpr std::array<std::string_view, 4> kinds = {".ALLOC", ".DEALLOC", ".TRY_ALLOC", ".INVALID3"};
  p.put(kinds[p.field(73, 72)]);
  p.render("<.CTAPOOL@74> ");
  if (p.field(83, 81) != pt) {
    p.pred(p.field(83, 81), false, true);
    p.put(", ");
  }
  if (opcode13(p.word()) == 0x13c8) {
    p.ur_at(32);
  } else {
    p.hex(p.field(63, 32));
  }
}
void set_shared_size(Printer& p) {
  if (p.flag(72)) return;
  p.put(" ");
  p.hex(p.field(63, 32));
}

// --- control ---------------------------------------------------------------------------------------------------------

void depbar(Printer& p) {
  if (p.flag(47)) p.put(fmt::format(".LE SB{}, {:#x}", p.field(46, 44), p.field(43, 38)));
  const unsigned mask = p.field(37, 32);
  if (mask == 0) return;
  if (p.flag(47)) p.put(",");
  std::string list;
  for (int i = 5; i >= 0; --i)
    if ((mask >> i & 1) != 0) list += fmt::format("{}{}", list.empty() ? "" : ",", i);
  p.put(" {" + list + "}");
}

void bar(Printer& p) {
  const unsigned mode = p.field(79, 77);
  p.put_name("bar", mode);
  if (mode == 2) p.put_name("barred", p.field(75, 74));
  if (p.arch().sm >= 75) p.render("<.DEFER_BLOCKING@80>");
}
void bar_index(Printer& p) { p.hex(p.field(57, 54)); }
void bar_register(Printer& p) { p.gpr_at(32); }
void bar_rr(Printer& p) {
  bar_register(p);
  p.put(", ");
  bar_register(p);
}
void bar_ri(Printer& p) {
  bar_register(p);
  if (p.field(53, 42) == 0) return;
  p.put(", ");
  p.hex(p.field(53, 42));
}
void bar_ir(Printer& p) {
  bar_index(p);
  p.put(", ");
  bar_register(p);
}
void bar_ii(Printer& p) {
  bar_index(p);
  if (p.field(53, 42) == 0) return;
  p.put(", ");
  p.hex(p.field(53, 42));
}
void bar_predicate(Printer& p) {
  const unsigned mode = p.field(79, 77);
  if (mode != 2 && mode != 3) return;
  p.put(", ");
  p.pred(p.field(89, 87), p.flag(90), false);
}

// Second condition of branch-unit instructions.
void branch_predicate(Printer& p) {
  if (p.field(90, 87) == pt) return;
  p.pred(p.field(89, 87), p.flag(90), false);
  p.put(", ");
}
void target(Printer& p) {
  if (const auto t = branch_target(p.arch(), p.form(), p.word(), p.pc())) return p.signed_hex(*t);
  p.signed_hex(int64_t{p.pc()} + inst_bytes + branch_immediate(p.arch(), p.word()));
}
void collective_target_operand(Printer& p) {
  const auto t = branch_target(p.arch(), p.form(), p.word(), p.pc());
  if (!t) return;
  p.put(", ");
  p.signed_hex(*t);
}
void collective_target_alone(Printer& p) {
  const auto t = branch_target(p.arch(), p.form(), p.word(), p.pc());
  if (!t) return;
  p.put(" ");
  p.signed_hex(*t);
}
void base_offset(Printer& p) { p.signed_hex(branch_immediate(p.arch(), p.word())); }
void absolute_offset(Printer& p) {
  const int64_t immediate = branch_immediate(p.arch(), p.word());
  if (immediate == 0) return;
  p.put(" ");
  p.signed_hex(immediate);
}
// BRA's own condition on the warp: .U with a uniform vote, .DIV, .CONV.
void bra_condition(Printer& p) {
  p.render("<#bradepth@86:85>");
  p.render("<#bracond@33:32>");
  if (p.field(33, 32) == 1) p.render("<.ANY@84>");
}
void absolute_target(Printer& p) {
  if ((opcode13(p.word()) & 0xe00) == 0xa00) return p.constant(false);
  p.hex((get_bits(p.word(), bits(80, 34)) << 8 | p.field(23, 16)) * 4);
}
void return_target(Printer& p) {
  const int64_t immediate = branch_immediate(p.arch(), p.word());
  p.signed_hex(p.flag(85) ? immediate : int64_t{p.pc()} + inst_bytes + immediate);
}
void barrier_destination(Printer& p) { p.put(fmt::format("B{}", p.field(19, 16))); }
void barrier_moved(Printer& p) { p.put(fmt::format("B{}", p.field(27, 24))); }
void reconvergent(Printer& p) {
  if (p.arch().sm >= 100) p.render("<.RECONVERGENT@73><.RELIABLE@72>");
}
void reliable(Printer& p) {
  if (p.arch().sm >= 100 && p.flag(72)) p.put(".RELIABLE");
}
void warpsync_mask(Printer& p) {
  p.gpr_at(p.arch().sm < 80 ? 32 : 24);
}
void bpt_immediate(Printer& p) {
  if (const unsigned v = p.field(53, 34); v != 0) {
    p.put(" ");
    p.hex(v);
  }
}
void bra_predicate(Printer& p) { p.pred(p.field(26, 24), p.flag(27), true); }
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
  p.put(to_fp8 ? (p.flag(76) ? ".E4M3" : ".E5M2") : to_tf32 ? ".TF32" : p.flag(76) ? ".BF16" : ".F16");
  static constexpr std::array<std::string_view, 4> sources = {".F32", ".F16", ".E5M2", ".E4M3"};
  const unsigned from = p.field(74, 73);
  if (p.arch().sm >= 89 || from != 0) p.put(sources[from]);
  struct Mode {
    std::string_view name, operands;
  };
  static constexpr std::array<Mode, 8> modes = {{{".PACK_AB", "{A|}, {B|f}"},
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
// The 64H functions work on the high half of a double.
void mufu_source(Printer& p) {
  const unsigned op = p.field(77, 74);
  p.render(op == 6 || op == 7 ? "{S|d}" : "{S|f}");
}
void lea_third(Printer& p) {
  if (p.flag(80) && !p.flag(73)) p.render("{C}, ");
}
void ulea_third(Printer& p) {
  if (p.flag(80) && !p.flag(73)) p.render("{UC}, ");
}
void f2ip(Printer& p) {
  p.put(p.flag(76) ? ".S8" : ".U8");
  p.put(".F32");
  p.render("<#roundint@79:78><.NTZ@74><.RELU@75>");
}

constexpr Token tokens[] = {
    {"sr", special_register},
    {"imm64", imm64},
    {"lut", lut},
    {"cbuf", constant_address},
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
    {"f2fp", f2fp},
    {"f2ip", f2ip},
    {"mufu", mufu_source},
    {"leac", lea_third},
    {"uleac", ulea_third},
    {"hmma", hmma},
    {"imma", imma},
    {"immaA", imma_a},
    {"immaB", imma_b},
    {"sparse", sparse},
    {"UPmma", mma_predicate},
    {"gmma", gmma},
    {"gdescA", gdesc_a},
    {"gdescB", gdesc_b},
    {"gmmatail", gmma_tail},
    {"warpgroup", warpgroup},
    {"ld", load_modifiers},
    {"st", store_modifiers},
    {"ldl", local_modifiers},
    {"lds", lds_modifiers},
    {"sts", sts_modifiers},
    {"ldsm", ldsm_modifiers},
    {"mem", memory},
    {"mem12", memory12},
    {"mem32", memory32},
    {"Pnz", load_predicate},
    {"atom", atom},
    {"atomf", atom_float},
    {"cas", atom_cas},
    {"atoms", atoms},
    {"atomscas", atoms_cas},
    {"redname", red_name},
    {"red", red},
    {"redf", red_float},
    {"ldgmc", ldgmc},
    {"ldgmcf", ldgmc_float},
    {"ldgsts", ldgsts},
    {"ldgstsdst", ldgsts_destination},
    {"Pldgsts", optional_pp},
    {"match", match},
    {"cctl", cctl},
    {"b2r", b2r},
    {"b2rpred", b2r_predicate},
    {"phasechk", phase_check},
    {"arrive", arrive},
    {"arrives", arrives},
    {"syncscctl", syncs_cctl},
    {"syncsmem", syncs_memory},
    {"tma", tma},
    {"tmadesc", tma_descriptor},
    {"setmaxreg", set_max_registers},
    {"shmszimm", set_shared_size},
    {"depbar", depbar},
    {"bar", bar},
    {"barRR", bar_rr},
    {"barRI", bar_ri},
    {"barIR", bar_ir},
    {"barII", bar_ii},
    {"Pbar", bar_predicate},
    {"Pbr", branch_predicate},
    {"brau", bra_condition},
    {"target", target},
    {"wstarget", collective_target_operand},
    {"wstarget0", collective_target_alone},
    {"baseoff", base_offset},
    {"absoff", absolute_offset},
    {"abstarget", absolute_target},
    {"rettarget", return_target},
    {"Bd", barrier_destination},
    {"bmovsrc", barrier_moved},
    {"bmovdst", barrier_moved},
    {"reconv", reconvergent},
    {"reliable", reliable},
    {"wsmask", warpsync_mask},
    {"bptimm", bpt_immediate},
    {"UPb", bra_predicate},
    {"Prx", plop3_third},
    {"voteu", voteu},
};

}  // namespace

const Token* find_token(std::string_view name) {
  for (const Token& t : tokens)
    if (t.name == name) return &t;
  return nullptr;
}

}  // namespace xtrace::sass
