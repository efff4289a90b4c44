// Special tokens of matrix texts.
#include <fmt/format.h>

#include <array>

#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

// --- matrix ---

void hmma(Printer& p) {
  p.render("<.SP@73>");
  static constexpr std::array<std::string_view, 4> shapes = {".1688", ".16816", ".1684", ".INVALID3"};
  p.put(shapes[p.field(78, 78) << 1 | p.field(75, 75)]);
  p.put(p.flag(76) ? ".F32" : ".F16");
  static constexpr std::array<std::string_view, 4> formats = {"", ".BF16", ".TF32", ".INVALID3"};
  p.put(formats[p.field(83, 82)]);
}
void dmma(Printer& p) {
  if (p.arch().sm < 90 && p.field(77, 76) == 0) return p.put(".884");
  p.put_name("dmma", p.field(77, 76));
}
void imma(Printer& p) {
  p.render("<.SP@72>");
  const unsigned shape = p.field(86, 85) << 1 | p.field(75, 75);
  p.put(shape == 0   ? ".8816"
        : shape == 4 ? ".16816"
        : shape == 5 ? ".16832"
                     : fmt::format(".INVALID{}", shape));
  static constexpr std::array<std::string_view, 4> types = {".U8", ".S8", ".U4", ".S4"};
  p.put(types[p.field(77, 76) & 1]);
  p.put(types[p.field(79, 78) & 1]);
  p.render("<.SAT@82>");
}
void imma_a(Printer& p) { p.put(p.flag(73) ? ".COL" : ".ROW"); }
void imma_b(Printer& p) { p.put(p.flag(74) ? ".COL" : ".ROW"); }
void sparse(Printer& p) {
  const uint16_t opcode = opcode13(p.word());
  const bool on = p.flag(opcode == 0x237 ? 72 : opcode == 0x27a ? 80 : 73);
  if (!on) return;
  p.put(", ");
  p.gpr_at(40);
  p.put(", 0x0");
}
void qmma(Printer& p) {
  p.render("<.SP@80><#qmmashape@76:75><.F32@77><.F16@77!1>");
  const unsigned a = p.arch().sm >= 120 ? p.field(83, 82) : 0, b = p.arch().sm >= 120 ? p.field(85, 84) : 0;
  p.put_name("fp8", a << 1 | p.field(78, 78));
  p.put_name("fp8", b << 1 | p.field(79, 79));
}
// Older notation names the only layout there is.
void qmma_row(Printer& p) {
  if (p.arch().sm < 120) p.put(p.flag(73) ? ".???1" : ".ROW");
}
void qmma_column(Printer& p) {
  if (p.arch().sm < 120) p.put(p.flag(74) ? ".COL" : ".???0");
}
// tcgen05.mma: descriptors of A (or its tensor memory) and B, accumulator, instruction descriptor.
void utc_mma(Printer& p) {
  static constexpr std::array<std::string_view, 4> kinds = {"HMMA", "IMMA", ".INVALID2", "QMMA"};
  p.put(kinds[p.field(73, 72)]);
  const bool a_in_tmem = (opcode13(p.word()) & 0x400) == 0;
  p.render("<.2CTA@85><.WS@83> ");
  p.render(a_in_tmem ? "tmem[{Ua}]" : "gdesc[{Ua}]");
  p.render(
      "<.A_REUSE@86><.A_KEEP@84>, gdesc[{Ub}]<.B_REUSE@82><.B_KEEP@81><#tcbuffer@80:79>, tmem[{Uc}], "
      "tmem[{Ut}], idesc[");
  p.ur(p.ur_index(40) + 1);
  p.put("], ");
  if (p.ur_index(48) != p.arch().urz) p.render("{Uf}, ");
  p.render("{UPp}");
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

constexpr Token tokens[] = {
    {"qmma", qmma},      {"qrow", qmma_row},  {"qcol", qmma_column},    {"utcmma", utc_mma},
    {"dmma", dmma},      {"hmma", hmma},      {"imma", imma},           {"immaA", imma_a},
    {"immaB", imma_b},   {"sparse", sparse},  {"UPmma", mma_predicate}, {"gmma", gmma},
    {"gdescA", gdesc_a}, {"gdescB", gdesc_b}, {"gmmatail", gmma_tail},  {"warpgroup", warpgroup},
};

}  // namespace

std::span<const Token> matrix_tokens() { return tokens; }

}  // namespace xtrace::sass
