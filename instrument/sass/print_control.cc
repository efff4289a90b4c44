// Special tokens of control texts: barriers, branches, targets.
#include <fmt/format.h>

#include <array>
#include <string>

#include "instrument/sass/branch.h"
#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

// --- control ---

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
void bra_mask(Printer& p) {
  if (p.arch().ur_bits == 6 && p.flag(30)) p.put("~");
  p.ur_at(24);
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
void barrier_moved(Printer& p) {
  static constexpr std::array<std::string_view, 16> others = {"THREAD_STATE_ENUM.0",
                                                              "THREAD_STATE_ENUM.1",
                                                              "THREAD_STATE_ENUM.2",
                                                              "THREAD_STATE_ENUM.3",
                                                              "THREAD_STATE_ENUM.4",
                                                              "TRAP_RETURN_PC.LO",
                                                              "TRAP_RETURN_PC.HI",
                                                              "TRAP_RETURN_MASK",
                                                              "MEXITED",
                                                              "MKILL",
                                                              "MACTIVE",
                                                              "MATEXIT",
                                                              "OPT_STACK",
                                                              "API_CALL_DEPTH",
                                                              "ATEXIT_PC.LO",
                                                              "ATEXIT_PC.HI"};
  const unsigned index = p.field(29, 24);
  if (index < 16) return p.put(fmt::format("B{}", index));
  if (index == 32) return p.put("MCOLLECTIVE");
  p.put(index < 32 ? std::string(others[index - 16]) : fmt::format("INVALID{}", index));
}
void reconvergent(Printer& p) {
  if (p.arch().sm >= 100) p.render("<.RECONVERGENT@73><.RELIABLE@72>");
}
void reliable(Printer& p) {
  if (p.arch().sm >= 100 && p.flag(72)) p.put(".RELIABLE");
}
void bpt_immediate(Printer& p) {
  if (const unsigned v = p.field(53, 34); v != 0) {
    p.put(" ");
    p.hex(v);
  }
}
void bra_predicate(Printer& p) { p.pred(p.field(26, 24), p.flag(27), true); }

constexpr Token tokens[] = {
    {"bramask", bra_mask},
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
    {"bmov", barrier_moved},
    {"reconv", reconvergent},
    {"reliable", reliable},
    {"bptimm", bpt_immediate},
    {"UPb", bra_predicate},
};

}  // namespace

std::span<const Token> control_tokens() { return tokens; }

}  // namespace xtrace::sass
