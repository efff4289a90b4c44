#include "instrument/code.h"

#include <algorithm>
#include <set>

#include "instrument/function_pointers.h"
#include "instrument/sass/print.h"

namespace xtrace::instrument {
namespace {

using sass::Effects;
using sass::Flow;

constexpr BitRange rd_field = bits(23, 16), ra_field = bits(31, 24), rb_field = bits(39, 32), rc_field = bits(71, 64);
constexpr BitRange const_bank_field = bits(58, 54);
constexpr uint16_t op_mov_imm = 0x802;   // MOV Rd, imm32 [vendor code: return addresses always in this form]
constexpr uint16_t op_ldc = 0xb82;
constexpr uint16_t op_mov = 0x202, op_imad = 0x224;      // MOV Rd, Rb; IMAD.MOV.U32 Rd, RZ, RZ, Rc
constexpr uint64_t rz = 255;

Status decode_all(Code& code, ByteView text) {
  if (text.size() % sass::inst_bytes != 0)
    return bad_input("size of .text.{} is {} bytes: expected a multiple of {}", code.kernel, text.size(),
                     sass::inst_bytes);
  code.insts.resize(text.size() / sass::inst_bytes);
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    XT_TRY(code.insts[i].raw, read_at<sass::RawInst>(text, code.pc(i), "instruction"));
    code.insts[i].fx = sass::effects(*code.arch, code.insts[i].raw, code.pc(i));
  }
  return {};
}

void mark_relocated(Code& code, const cubin::Image& image, const cubin::KernelInfo& info) {
  for (const cubin::Relocation& r : image.relocations())
    if (r.target_section == info.text_section && r.offset < code.bytes()) code.insts[code.index(static_cast<uint32_t>(r.offset))].relocated = true;
}

bool in_section(const Code& code, int64_t target) {
  return target >= 0 && target % sass::inst_bytes == 0 && target < code.bytes();
}

// Successors without crossing calls and returns: a call falls through to its return point. Each once: tables repeat their
// targets, and a branch may lead to the next instruction.
Result<std::vector<InstIndex>> local_successors(const Code& code, InstIndex i) {
  const Effects& fx = code.insts[i].fx;
  std::vector<InstIndex> next;
  if (fx.falls_through || fx.flow == Flow::call_relative) {
    if (i + 1 >= code.insts.size()) return unsupported("control runs past the end of the section at {}", where(code, i));
    next.push_back(i + 1);
  }
  const bool names_a_place = fx.mnemonic == "LEPC" || fx.mnemonic == "ULEPC";   // for a callee to return to
  if (fx.target && fx.flow != Flow::call_relative && !names_a_place) {
    if (!in_section(code, *fx.target))
      return unsupported("target {:#x} outside the section at {}", *fx.target, where(code, i));
    // BSSY does not jump: lanes come to its target by falling through the BSYNC in front of it.
    const InstIndex target = code.index(static_cast<uint32_t>(*fx.target));
    const bool through_bsync = fx.is_bssy_target && target > 0 && code.insts[target - 1].fx.mnemonic == "BSYNC";
    if (!through_bsync) next.push_back(target);
  }
  if (fx.flow == Flow::branch_indirect)
    for (const JumpTable& t : code.jump_tables)
      if (t.brx == i) next.insert(next.end(), t.targets.begin(), t.targets.end());
  std::vector<InstIndex> once;
  for (InstIndex n : next)
    if (std::find(once.begin(), once.end(), n) == once.end()) once.push_back(n);
  return once;
}

// Everything reachable from `entry` inside one function; checks what can be refused on the way.
Result<std::vector<bool>> reach(const Code& code, InstIndex entry) {
  std::vector<bool> seen(code.insts.size(), false);
  std::vector<InstIndex> work{entry};
  seen[entry] = true;
  while (!work.empty()) {
    const InstIndex i = work.back();
    work.pop_back();
    const Effects& fx = code.insts[i].fx;
    if (!fx.known) return unsupported("unknown instruction at {}", where(code, i));
    if (fx.flow == Flow::call_other && !code.insts[i].asserts) {
      const std::string at = where(code, i);
      if (at.find(": CALL.REL") != std::string::npos || at.find(" CALL.REL") != std::string::npos)
        return with_hint(unsupported("call through a register, whose targets are not proved, at {}", at),
                         "no function's offset stands in the module's constants or variables; the clean kernel can be replayed (--probes=none)");
      return with_hint(unsupported("call that leaves the kernel's code at {}", at),
                       "printf, malloc and other functions of the driver are not followed, nor functions compiled apart (-rdc=true) that can not be put into the "
                       "kernel's section, of which a warning says why: build without them; "
                       "the clean kernel can be replayed (--probes=none)");
    }
    if (fx.flow == Flow::jump_absolute) return unsupported("absolute jump at {}", where(code, i));
    if (fx.flow == Flow::call_relative && fx.target && !in_section(code, *fx.target))
      return unsupported("call outside the section at {}", where(code, i));
    XT_TRY(const std::vector<InstIndex> next, local_successors(code, i));
    for (InstIndex n : next)
      if (!seen[n]) {
        seen[n] = true;
        work.push_back(n);
      }
  }
  return seen;
}

// The LDC that produces the target register of a BRX: walked back inside the straight-line code above it.
Result<JumpTable> find_jump_table(const Code& code, const cubin::Image& image, const cubin::KernelInfo& info,
                                  InstIndex brx) {
  const auto listed = std::find_if(info.indirect_branches.begin(), info.indirect_branches.end(),
                                   [&](const auto& b) { return b.instruction == code.pc(brx); });
  if (listed == info.indirect_branches.end())
    return unsupported("indirect branch without a list of targets (EIATTR_INDIRECT_BRANCH_TARGETS) at {}",
                       where(code, brx));
  const std::set<uint32_t> targets(listed->targets.begin(), listed->targets.end());
  const auto bank = info.constant_sections.find(2);
  if (bank == info.constant_sections.end())
    return unsupported("indirect branch but no constant bank 2 at {}", where(code, brx));
  const ByteView table = image.sections()[bank->second].data;
  const uint64_t reg = get_bits(code.insts[brx].raw, ra_field);
  for (InstIndex i = brx; i-- > 0;) {
    const CodeInst& c = code.insts[i];
    if (c.fx.flow != Flow::next || c.fx.falls_through == false) break;
    if (!c.fx.def.gpr.test(reg)) continue;
    if ((c.raw.lo & 0xfff) != op_ldc || get_bits(c.raw, const_bank_field) != 2)
      return unsupported("target of the indirect branch does not come from constant bank 2 but from {}, at {}",
                         where(code, i), where(code, brx));
    JumpTable t{brx, i, static_cast<uint32_t>(get_bits(c.raw, ldc_offset_field)), {}};
    for (uint32_t offset = t.offset;; offset += 4) {
      const auto word = read_at<uint32_t>(table, offset, "jump table");
      if (!word || !targets.contains(*word) || !in_section(code, *word)) break;
      t.targets.push_back(code.index(*word));
    }
    const std::set<InstIndex> found(t.targets.begin(), t.targets.end());
    if (found.size() != targets.size())
      return unsupported("jump table at c[0x2][{:#x}] has {} distinct targets, the branch lists {}, at {}", t.offset,
                         found.size(), targets.size(), where(code, brx));
    return t;
  }
  return unsupported("load of the jump table not found above the indirect branch at {}", where(code, brx));
}

// The last instruction above i, in its straight-line code, that writes the register.
std::optional<InstIndex> writer_above(const Code& code, InstIndex i, uint64_t reg) {
  while (i-- > 0) {
    const Effects& fx = code.insts[i].fx;
    if (fx.flow != Flow::next || !fx.falls_through) return std::nullopt;
    if (fx.def.gpr.test(reg)) return i;
  }
  return std::nullopt;
}

// CALL.ABS of an address in constant bank 4 that the loader puts there for the symbol __assertfail [nvcc 13], in linked code (-rdc=true)
// of one that it puts into the instruction:
//   MOV Rx, offset;  LDC.64 Ra, c[0x4][Rx];  ...  CALL.ABS.NOINC Ra
//   CALL.ABS.NOINC __assertfail
bool calls_assert(const Code& code, const cubin::Image& image, const cubin::KernelInfo& info, InstIndex call) {
  constexpr uint16_t op_call_abs_register = 0x343, op_call_abs = 0x943;
  constexpr std::string_view bank_name = ".nv.constant4", assert_name = "__assertfail";
  if (sass::opcode13(code.insts[call].raw) == op_call_abs) {
    const std::vector<cubin::Relocation> all = image.relocations();
    const auto its = std::ranges::find_if(all, [&](const cubin::Relocation& r) { return r.target_section == info.text_section && code.index(static_cast<uint32_t>(r.offset)) == call; });
    return its != all.end() && image.symbols()[its->symbol].name == assert_name;
  }
  if (sass::opcode13(code.insts[call].raw) != op_call_abs_register) return false;
  const auto load = writer_above(code, call, get_bits(code.insts[call].raw, ra_field));
  if (!load) return false;
  const sass::RawInst& ldc = code.insts[*load].raw;
  if ((ldc.lo & 0xfff) != op_ldc || get_bits(ldc, const_bank_field) != 4) return false;
  uint64_t offset = get_bits(ldc, ldc_offset_field);
  if (const uint64_t index = get_bits(ldc, ra_field); index != rz) {
    const auto mov = writer_above(code, *load, index);
    if (!mov || sass::opcode13(code.insts[*mov].raw) != op_mov_imm) return false;
    offset += get_bits(code.insts[*mov].raw, mov_imm_field);
  }
  const auto bank = image.find_section(bank_name);
  if (!bank) return false;
  for (const cubin::Relocation& r : image.relocations())
    if (r.target_section == *bank && r.offset == offset) return image.symbols()[r.symbol].name == assert_name;
  return false;
}

// A failed assertion reads its arguments, and nothing comes after it: nothing that it overwrites is missed.
void mark_asserts(Code& code, const cubin::Image& image, const cubin::KernelInfo& info) {
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    CodeInst& c = code.insts[i];
    if (c.fx.flow != Flow::call_other || !calls_assert(code, image, info, i)) continue;
    c.asserts = true;
    c.fx.falls_through = c.fx.guarded;
    c.fx.use.gpr.set().reset(rz);
    c.fx.late_queue = sass::LateQueue::none;
  }
}

Status find_functions(Code& code) {
  // Entry points: the kernel, and every target of a relative call on a reachable path, to a fixed point.
  code.functions = {{code.kernel, 0, {}, {}}};
  code.reachable.assign(code.insts.size(), false);
  for (size_t f = 0; f < code.functions.size(); ++f) {
    XT_TRY(const std::vector<bool> seen, reach(code, code.functions[f].entry));
    for (InstIndex i = 0; i < seen.size(); ++i) {
      if (!seen[i]) continue;
      code.reachable[i] = true;
      const Effects& fx = code.insts[i].fx;
      if (fx.flow == Flow::ret) code.functions[f].rets.push_back(i);
      if (fx.flow != Flow::call_relative) continue;
      for (const InstIndex entry : code.callees(i)) {
        auto callee = std::find_if(code.functions.begin(), code.functions.end(),
                                   [&](const Function& g) { return g.entry == entry; });
        if (callee == code.functions.end()) {
          code.functions.push_back({fmt::format("function at {:#x}", code.pc(entry)), entry, {}, {}});
          callee = code.functions.end() - 1;
        }
        if (std::find(callee->calls_to_it.begin(), callee->calls_to_it.end(), i) == callee->calls_to_it.end())
          callee->calls_to_it.push_back(i);
      }
    }
  }
  if (!code.functions[0].rets.empty())
    return unsupported("the kernel itself returns instead of exiting at {}", where(code, code.functions[0].rets[0]));
  return {};
}

// Registers from which a callee's RETs may take their address: theirs, and those copied into them on the way
// (a callee often copies the caller's register with IMAD.MOV right before the RET).
std::set<uint64_t> return_registers_of(const Code& code, const Function& callee, const std::vector<bool>& body) {
  std::set<uint64_t> registers;
  for (InstIndex r : callee.rets) registers.insert(get_bits(code.insts[r].raw, ra_field));
  for (size_t before = 0; before != registers.size();) {
    before = registers.size();
    for (InstIndex i = 0; i < code.insts.size(); ++i) {
      const sass::RawInst& w = code.insts[i].raw;
      const uint16_t op = sass::opcode13(w);
      const bool copy = op == op_mov || (op == op_imad && get_bits(w, ra_field) == rz && get_bits(w, rb_field) == rz);
      if (!body[i] || !copy || !registers.contains(get_bits(w, rd_field))) continue;
      const uint64_t source = get_bits(w, op == op_mov ? rb_field : rc_field);
      if (source != rz) registers.insert(source);
    }
  }
  return registers;
}

Status find_return_addresses(Code& code) {
  for (const Function& callee : code.functions) {
    XT_TRY(const std::vector<bool> body, reach(code, callee.entry));
    const std::set<uint64_t> return_registers = return_registers_of(code, callee, body);
    for (InstIndex call : callee.calls_to_it) {
      const uint32_t return_pc = code.pc(call + 1);
      bool found = callee.rets.empty();  // a callee that never returns needs no return address
      for (InstIndex i = 0; i < code.insts.size(); ++i) {
        const CodeInst& c = code.insts[i];
        if (!code.reachable[i] || sass::opcode13(c.raw) != op_mov_imm) continue;
        if (get_bits(c.raw, mov_imm_field) != return_pc || !return_registers.contains(get_bits(c.raw, rd_field)))
          continue;
        found = true;
        const auto same = [&](const ReturnAddress& r) { return r.call == call && r.mov == i; };
        if (std::ranges::none_of(code.return_addresses, same)) code.return_addresses.push_back({call, i});
      }
      if (!found)
        return unsupported("return address {:#x} of the call not found in any MOV to the callee's return register, at {}",
                           return_pc, where(code, call));
    }
  }
  return {};
}

// The scoreboard for an LDC that has none: of those that nobody counts groups on, the one that the kernel waits for first. [With a later
// wait R1 is free too late: `mem` of spmv_csr needs 34 registers instead of 32, and 6 instead of 8 CTAs fit on an SM.] 6: every one is
// counted on.
uint8_t spare_scoreboard(const Code& code, InstIndex ldc, uint8_t counted) {
  auto first = static_cast<InstIndex>(code.insts.size()) + 1;
  uint8_t found = 6;
  for (uint8_t sb = 0; sb < 6; ++sb) {
    if (counted >> sb & 1) continue;
    InstIndex wait = ldc + 1;
    while (wait < code.insts.size() && !(sass::get_control(code.insts[wait].raw).wait_mask >> sb & 1)) ++wait;
    if (wait >= first) continue;
    first = wait;
    found = sb;
  }
  return found;
}

// What comes late of an LDC whose result nobody reads comes on top of what a probe has put there. [measured H200, 2026-11-30: behind the
// whole prologue of a sampled warp, and behind a later LDC that had been waited for.]
void give_scoreboards(Code& code) {
  uint8_t counted = 0;
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (const Effects& fx = code.insts[i].fx; code.reachable[i] && fx.uses_scoreboard_count && fx.depbar_scoreboard < 6)
      counted |= static_cast<uint8_t>(1u << fx.depbar_scoreboard);
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    sass::Control c = sass::get_control(code.insts[i].raw);
    if (!code.reachable[i] || code.insts[i].fx.mnemonic != "LDC" || c.write_barrier < 6) continue;
    const uint8_t sb = spare_scoreboard(code, i, counted);
    if (sb >= 6) continue;
    c.write_barrier = sb;
    c.stall = std::max<uint8_t>(c.stall, 2);   // until a wait sees that it is taken
    sass::set_control(code.insts[i].raw, c);
  }
}

}  // namespace

std::variant<std::vector<sass::Access>, sass::NotCovered> accesses(const Code& code, InstIndex i) {
  auto found = sass::accesses(*code.arch, code.insts[i].raw);
  const auto* all = std::get_if<std::vector<sass::Access>>(&found);
  if (code.insts[i].relocated && all != nullptr && !all->empty()) return "the loader fills in its offset";
  return found;
}

std::string where(const Code& code, InstIndex i) {
  return fmt::format("{}@{:#x}: {}", code.kernel, code.pc(i), sass::print(*code.arch, code.insts[i].raw, code.pc(i)));
}

std::vector<InstIndex> Code::successors(InstIndex i) const {
  const Effects& fx = insts[i].fx;
  std::vector<InstIndex> next;
  if (fx.flow == Flow::call_relative) {
    next = callees(i);
    if (fx.guarded) next.push_back(i + 1);
    return next;
  }
  if (fx.flow == Flow::ret) {
    for (const Function& f : functions)
      if (std::find(f.rets.begin(), f.rets.end(), i) != f.rets.end())
        for (InstIndex call : f.calls_to_it) next.push_back(call + 1);
    if (fx.falls_through) next.push_back(i + 1);
    return next;
  }
  auto local = local_successors(*this, i);
  XT_CHECK(local.has_value(), "successors of a checked instruction");
  return *local;
}

std::vector<InstIndex> Code::callees(InstIndex i) const {
  const Effects& fx = insts[i].fx;
  return fx.target ? std::vector<InstIndex>{index(static_cast<uint32_t>(*fx.target))} : pointers.entries;
}

std::vector<bool> in_recursion(const Code& code) {
  const size_t n = code.functions.size();
  std::vector<std::vector<bool>> body, calls(n, std::vector<bool>(n, false));
  for (const Function& f : code.functions) {
    auto reached = reach(code, f.entry);
    XT_CHECK(reached.has_value(), "the bodies of functions that were found");
    body.push_back(std::move(*reached));
  }
  for (size_t f = 0; f < n; ++f)
    for (size_t g = 0; g < n; ++g)
      for (InstIndex call : code.functions[g].calls_to_it) calls[f][g] = calls[f][g] || body[f][call];
  for (size_t via = 0; via < n; ++via)
    for (size_t f = 0; f < n; ++f)
      for (size_t g = 0; g < n; ++g) calls[f][g] = calls[f][g] || (calls[f][via] && calls[via][g]);
  std::vector<bool> found(code.insts.size(), false);
  for (size_t f = 0; f < n; ++f)
    for (InstIndex i = 0; calls[f][f] && i < found.size(); ++i) found[i] = found[i] || body[f][i];
  return found;
}

bool changes_register_limit(const Code& code) {
  return std::ranges::any_of(code.insts, [](const CodeInst& i) { return i.fx.changes_register_limit; });
}

void bound_by_count(Effects& fx, uint32_t register_count) {
  if (fx.exact) return;
  for (uint32_t r = register_count - std::min(register_count, reserved_registers); r < 255; ++r) {
    fx.use.gpr.reset(r);
    fx.def.gpr.reset(r);
  }
}

Result<Code> read_code(const cubin::Image& image, const cubin::KernelInfo& info) {
  Code code;
  XT_TRY(code.arch, sass::find_arch(image.sm()));
  code.kernel = info.name;
  XT_TRY_STATUS(decode_all(code, image.sections()[info.text_section].data));
  if (code.insts.empty()) return bad_input(".text.{} is empty", info.name);
  if (!changes_register_limit(code))
    for (CodeInst& i : code.insts) bound_by_count(i.fx, info.register_count);
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (code.insts[i].fx.flow == Flow::branch_indirect) {
      XT_TRY(JumpTable table, find_jump_table(code, image, info, i));
      code.jump_tables.push_back(std::move(table));
    }
  mark_relocated(code, image, info);
  mark_asserts(code, image, info);
  code.pointers = find_function_pointers(code, image, info);
  for (const InstIndex i : code.pointers.calls) code.insts[i].fx.flow = Flow::call_relative;
  XT_TRY_STATUS(find_functions(code));
  XT_TRY_STATUS(find_return_addresses(code));
  give_scoreboards(code);
  return code;
}

}  // namespace xtrace::instrument
