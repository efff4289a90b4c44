// Special tokens of memory texts: addresses, access modifiers, barriers in memory, bulk copies.
#include <fmt/format.h>

#include <array>

#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

constexpr unsigned rz = 255;

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
  const unsigned vector_low = opcode == 0x1582 ? 64 : 24;
  const bool has_vector = vector && p.field(vector_low + 7, vector_low) != rz;
  const bool indexed_uniform = opcode == 0x1abb || (opcode == 0x17ac && p.ur_index(24) != p.arch().urz);
  const int64_t offset = has_vector         ? sign_extend(p.field(53, 38), 16)
                         : opcode == 0x17ac ? static_cast<int64_t>(p.field(53, 37))
                                            : static_cast<int64_t>(p.field(53, 38));
  p.put("[");
  if (has_vector) {
    p.gpr_at(vector_low);
  } else if (indexed_uniform) {
    p.ur_at(24);
  } else if (offset == 0 && (vector || opcode == 0x17ac)) {
    p.put(vector ? "RZ" : "URZ");
  }
  const bool has_base = has_vector || indexed_uniform || (offset == 0 && (vector || opcode == 0x17ac));
  offset_in_brackets(p, offset, has_base);
  p.put("]");
}

// --- memory ---

void order(Printer& p) {
  if (p.arch().sm < 80) {
    p.put_name("order75", p.field(80, 79) << 2 | p.field(78, 77));
    return p.render("<.PRIVATE@76>");
  }
  const bool load = p.form().kind() == MemKind::load || p.form().kind() == MemKind::async;
  if (p.field(80, 77) == 4 && !load) return p.put(".STRONG.SM.PRIVATE");
  p.put_name("order", p.field(80, 77));
}
void prefetch(Printer& p) { p.render("<#ltc@69:68>"); }
void load_modifiers(Printer& p) {
  p.render("<.E@72><#cache@86:84>");
  prefetch(p);
  p.render(p.arch().sm < 80 && p.field(75, 73) == 7 ? ".U.128" : "<#ldsize@75:73>");
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
void stsm_modifiers(Printer& p) { p.render(".16<.M88@78!1><.MT88@78><#mnum@73:72>"); }
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
      desc = p.arch().sm >= 100 ? p.flag(63) : p.flag(71);
      if (p.arch().sm >= 100) {  // the flag took the top bit of the offset
        offset_field = bits(62, 40);
        offset_bits = 23;
      }
    } else if (form.mnemonic == "LDGSTS") {
      wide = p.arch().sm >= 100 ? p.flag(83) : p.flag(70);
      desc = p.flag(76);
    } else {
      wide = p.flag(90);
      desc = p.flag(76);
    }
  }
  const bool distributed = form.space() == MemSpace::distributed;
  if (distributed) wide = form.mnemonic == "STAS" ? p.flag(90) : p.flag(72);
  // nvdisasm leaves the descriptor of sm_80 out, unless bit 101 is set.
  const bool hidden_desc = desc && p.arch().sm < 90 && !p.flag(101);
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
    if (has_ur && global) p.put(wide ? ".64" : ".U32");
    if (has_ur && form.mnemonic == "QSPC" && p.arch().sm >= 100) p.put(p.flag(90) ? ".64" : ".U32");
    if (distributed) p.put(wide ? ".64" : ".U32");
    if ((p.arch().sm < 90 || !has_ur) && form.space() == MemSpace::shared && form.kind() != MemKind::other) {
      static constexpr std::array<std::string_view, 4> scales = {"", ".X4", ".X8", ".X16"};
      p.put(scales[p.field(79, 78)]);
    }
  }
  const bool hides_urz = distributed || form.mnemonic == "LDGSTS";
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

void atomic_type(Printer& p) { p.put_name(p.arch().sm >= 90 ? "atomtype" : "atomtype75", p.field(75, 73)); }
void atom(Printer& p) {
  p.render("<.E@72><#atomop@90:87><#cache@86:84>");
  atomic_type(p);
  order(p);
}
void atom_float(Printer& p) {
  p.render("<.E@72><#atomfop@90:88><#cache@86:84><#atomftype@76:73>");
  order(p);
}
void atom_cas(Printer& p) {
  // [nvdisasm 13: of generic addresses; those of ATOMG show nothing]
  static constexpr std::array<std::string_view, 4> kinds = {".CAS", ".CAST", ".CAS", ".CAST.SPIN"};
  p.render("<.E@72>");
  p.put(kinds[p.form().mnemonic == "ATOM.CAS" ? p.field(88, 87) : 0]);
  p.render("<#cache@86:84>");
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
  p.render("<.E@72><#atomop@89:87><#cache@86:84>");
  atomic_type(p);
  order(p);
}
void red_float(Printer& p) {
  p.render("<.E@72><#atomfop@89:88><#cache@86:84><#atomftype@76:73>");
  order(p);
}
void ldgmc(Printer& p) {
  static constexpr std::array<std::string_view, 8> types = {".32", ".S32", ".64", ".S64", ".128", "", "", ""};
  p.render("<.E@72><#atomop@90:87>");
  p.put(types[p.field(75, 73)]);
  order(p);
}
void ldgmc_float(Printer& p) {
  p.render("<.E@72>");
  p.put_name(p.arch().sm >= 100 ? "ldgmcfop100" : "ldgmcfop", p.field(90, 88));
  if (p.arch().sm >= 100 && p.flag(87)) {
    p.put_name("ldgmctype100", p.field(76, 73));
  } else {
    p.render("<#atomftype@76:73>");
  }
  order(p);
}
void ldgsts(Printer& p) {
  p.put(".E");
  if (!p.flag(81)) p.put(".BYPASS");
  p.render(p.arch().sm >= 100 ? "<#cache@86:84><#ltc@73:72><#ldgstssize@75:74><#order@80:77><.ZFILL@82>"
                              : "<#ltc@72:71><#ldsize@75:73><#order@80:77><.ZFILL@82>");
}
void ldgsts_destination(Printer& p) {
  p.put("[");
  p.gpr_at(16);
  if (opcode13(p.word()) == 0x1dae) {
    p.put("+");
    p.ur_at(64);
  }
  offset_in_brackets(p, sign_extend(p.field(63, 44), 20), true);
  p.put("]");
}
void optional_pp(Printer& p) {
  if (p.field(90, 87) == pt) return;
  p.put(", ");
  p.pred(p.field(89, 87), p.flag(90), false);
}
// 256-bit accesses: the offset counts 32 bytes for loads, a mask of registers follows when it is not full.
void access256(Printer& p) {
  p.render(".E<#cache@86:84><#l2hint@82:81>");
  if (p.form().kind() == MemKind::load) p.render("<#ltc@74:73>");
  p.put(".256");
  order(p);
}
void address256(Printer& p) {
  const bool load = p.form().kind() == MemKind::load, desc = p.flag(76);
  const unsigned ur_low = load ? 32 : 64;
  if (desc) {
    p.put("desc[");
    p.ur_at(ur_low);
    p.put("]");
  }
  p.put("[");
  p.gpr_at(24);
  p.put(p.flag(75) ? ".64" : ".U32");
  if (!desc) {
    p.put("+");
    p.ur_at(ur_low);
  }
  offset_in_brackets(p, (load ? sign_extend(p.field(56, 40), 17) : sign_extend(p.field(58, 40), 19)) * 32,
                     true);
  p.put("]");
}
void register_mask(Printer& p, unsigned mask) {
  if (mask == 0xff) return;
  p.put(", ");
  p.hex(mask);
}
void load_mask(Printer& p) { register_mask(p, p.field(72, 72) << 7 | p.field(63, 57)); }
void store_mask(Printer& p) { register_mask(p, p.field(90, 88) << 5 | p.field(63, 59)); }
// TLD up to its address of the texture.
void texture_load(Printer& p) {
  const bool is_new = p.arch().sm >= 100;
  p.render("<.SCR@60>");
  if (!is_new && opcode13(p.word()) != 0x1f66) p.render("<.B@59>");
  p.render("<#f16round@80:79>");
  p.render(is_new ? "<#tld100@88:87><.AOFFI@57:56><.MS@78:77><.CL@76><#cache@86:84>"
                  : "<#tld@89:87><.AOFFI@76><#cache@86:84><.MS@78><.CL@77>");
  p.render("<.NODEP@90> {Pu?}{Rc}, {Rd}, {Ra}, ");
  if (p.field(39, 32) != rz) p.render("{Rb}, ");
}
void texture_offset(Printer& p) {
  if (p.arch().sm < 100) p.render(", {x@53:46}");
}
void load_predicate87(Printer& p) {
  const unsigned v = p.field(90, 87);
  if (v == 0) return;
  p.put(", ");
  p.pred(pt - (v & 7), (v & 8) != 0, false);
}
// [uniform pair + offset] of constant memory.
void constant_memory(Printer& p) {
  p.put("[");
  p.ur_at(24);
  offset_in_brackets(p, sign_extend(get_bits(p.word(), bits(63, 40)), 24), true);
  p.put("]");
}
void match(Printer& p) {
  if (p.flag(79)) return;
  p.pred(p.field(83, 81), false, false);
  p.put(", ");
}
void cctl(Printer& p) {
  static constexpr std::array<std::string_view, 16> ops = {".PF1",    ".PF2",  ".WB",     ".IV",
                                                           ".IVALL",  ".RS",   ".IVALLP", ".WBALL",
                                                           ".WBALLP", ".PML2", ".DML2",   ".RML2"};
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
void fence(Printer& p) { p.put_name("fence", p.arch().sm >= 100 ? p.field(73, 72) : p.field(72, 72)); }
void cctl_offset(Printer& p) {
  offset_in_brackets(p, sign_extend(get_bits(p.word(), bits(63, 32)), 32), true);
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

// --- mbarrier, TMA, clusters ---

void phase_check(Printer& p) { p.render(".TRANS64<.TRYWAIT@72>"); }
void arrive(Printer& p) {
  p.render(".TRANS64<.TMASK@73><.RED@74><.OPTOUT@75><.A1T0@84>");
  if (p.flag(85)) p.put(p.flag(74) ? ".A0TR" : ".A0T1");
  p.render("<.ART0@86>");
}
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
void bulk_copy(Printer& p) {
  p.render("<.S@73><.G@73!1><.S@74><.G@74!1><.MULTICAST@75><#ltc@82:81><.SEQUENCED@83>");
}
void bulk_reduction(Printer& p) {
  p.render("<.S@73><.G@73!1>");
  p.put(p.flag(74) ? ".S" : ".???0");
  p.render("<#tmaop@89:87><#blkredtype@84:81>");
}
void tensor_barrier(Printer& p) { p.render("<.2CTA@85><.A0TX@77><.WAKEUP@76><.MULTICAST@75>"); }
void tensor_access(Printer& p) {
  p.put_name("tmshape", p.field(87, 87) << 2 | p.field(82, 81));
  p.render("<#tmrepeat@85:83>");
  if (p.flag(80)) p.put(p.form().kind() == MemKind::load ? ".PACK16BIT" : ".EXPAND16BIT");
}
void tensor_address(Printer& p) {
  p.put("tmem[");
  p.ur_at(p.form().kind() == MemKind::load ? 32 : 64);
  offset_in_brackets(p, sign_extend(p.field(79, 72) << 24 | p.field(63, 40), 32), true);
  p.put("]");
}
void next_of_a(Printer& p) { p.ur(p.ur_index(24) + 1); }
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

constexpr Token tokens[] = {
    {"cmem", constant_memory},
    {"tld", texture_load},
    {"tldoffset", texture_offset},
    {"Pnz87", load_predicate87},
    {"ld256", access256},
    {"mem256", address256},
    {"ld256mask", load_mask},
    {"st256mask", store_mask},
    {"ublkcp", bulk_copy},
    {"ublkred", bulk_reduction},
    {"utcbar", tensor_barrier},
    {"ldtm", tensor_access},
    {"tmem", tensor_address},
    {"Ua1", next_of_a},
    {"cbuf", constant_address},
    {"ld", load_modifiers},
    {"st", store_modifiers},
    {"ldl", local_modifiers},
    {"lds", lds_modifiers},
    {"sts", sts_modifiers},
    {"ldsm", ldsm_modifiers},
    {"stsm", stsm_modifiers},
    {"mem", memory},
    {"mem12", memory12},
    {"mem32", memory32},
    {"Pnz", load_predicate},
    {"atomtype", atomic_type},
    {"cctloff", cctl_offset},
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
    {"fence", fence},
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
};

}  // namespace

std::span<const Token> memory_tokens() { return tokens; }
void print_order(Printer& p) { order(p); }

}  // namespace xtrace::sass
