#include "instrument/verify.h"

#include <algorithm>
#include <set>

#include "instrument/sass/print.h"
#include "instrument/scratch.h"
#include "instrument/verify_state.h"
#include "trace/wire/address_map.h"

namespace xtrace::instrument {
namespace {

struct Checker {
  const SpliceView& v;
  const cubin::Image& old_image;
  const cubin::Image& new_image;
  const cubin::KernelInfo& old_info;
  const cubin::KernelInfo& new_info;
  Violations& out;

  void fail(std::string_view rule, uint32_t word, std::string text) {
    out.push_back({rule, v.pc(word), std::move(text)});
  }
  std::string text(uint32_t word) const { return sass::print(*v.old.arch, v.words[word], v.pc(word)); }

  void originals();
  void original_bits(const Copy& copy, InstIndex i);
  void jump_tables(const Copy& copy);
  void inserted_code();
  void decision(uint32_t k);
  void control_words();
  void metadata();
};

void Checker::originals() {
  for (const Copy& copy : v.copies) {
    for (InstIndex i = 0; i < v.old.insts.size(); ++i) original_bits(copy, i);
    for (const ReturnAddress& r : v.old.return_addresses) {
      const uint32_t found = static_cast<uint32_t>(get_bits(v.words[copy.at[r.mov]], mov_imm_field));
      const uint32_t expected = v.pc(copy.label[r.call + 1]);
      if (found != expected)
        fail("return-address", copy.at[r.mov],
             fmt::format("the call at {:#x} returns to {:#x}, expected {:#x}", v.old.pc(r.call), found, expected));
    }
    jump_tables(copy);
  }
}

// Undoes what the splicer may change and compares the rest bit for bit.
void Checker::original_bits(const Copy& copy, InstIndex i) {
  const uint32_t word = copy.at[i];
  sass::RawInst w = v.words[word];
  const sass::RawInst& original = v.old.insts[i].raw;
  const sass::Effects& fx = v.old.insts[i].fx;
  if (fx.target && v.old.index(static_cast<uint32_t>(*fx.target)) < v.old.insts.size()) {
    const uint32_t expected = v.pc(copy.label[v.old.index(static_cast<uint32_t>(*fx.target))]);
    if (!v.effects[word].target || *v.effects[word].target != expected)
      fail("branch-target", word,
           fmt::format("{} goes to {:#x}, expected {:#x} (original target {:#x})", text(word),
                       v.effects[word].target.value_or(-1), expected, *fx.target));
    if (!sass::set_target(*v.old.arch, w, v.old.pc(i), *fx.target)) return;
  }
  // A call that nobody reaches stays as it is.
  const auto base = fx.flow == sass::Flow::call_other ? std::nullopt : sass::register_branch_base(*v.old.arch, original, v.old.pc(i));
  if (base) {
    const auto found = sass::register_branch_base(*v.old.arch, w, v.pc(word));
    const bool through_pointer = fx.flow == sass::Flow::call_relative;   // check_pointers()
    if (!through_pointer && (!found || *found != *base))
      fail("branch-target", word, fmt::format("{} is relative to {:#x}, expected {:#x}", text(word),
                                              found.value_or(-1), *base));
    if (!sass::set_register_branch_base(*v.old.arch, w, v.old.pc(i), *base)) return;
  }
  for (const ReturnAddress& r : v.old.return_addresses)
    if (r.mov == i) set_bits(w, mov_imm_field, get_bits(original, mov_imm_field));
  for (const JumpTable& t : v.old.jump_tables)
    if (t.ldc == i) set_bits(w, ldc_offset_field, get_bits(original, ldc_offset_field));

  sass::Control c = sass::get_control(w);
  const sass::Control o = sass::get_control(original);
  if ((o.wait_mask & ~c.wait_mask) != 0)
    fail("original-bits", word, fmt::format("{} no longer waits for scoreboards {:#x}", text(word),
                                            o.wait_mask & ~c.wait_mask));
  c.wait_mask = o.wait_mask;
  if (c.reuse == 0 && o.keep_issuing) c.reuse = o.reuse;
  sass::set_control(w, c);
  if (w != original)
    fail("original-bits", word, fmt::format("{:016x}:{:016x} instead of {:016x}:{:016x} ({}) from {:#x}", w.hi, w.lo,
                                            original.hi, original.lo, text(word), v.old.pc(i)));
}

void Checker::jump_tables(const Copy& copy) {
  for (const JumpTable& t : v.old.jump_tables) {
    const auto bank = new_info.constant_sections.find(2);
    const uint32_t word = copy.at[t.ldc];
    if (bank == new_info.constant_sections.end()) return fail("jump-table", word, "constant bank 2 is gone");
    const uint64_t offset = get_bits(v.words[word], ldc_offset_field);
    for (size_t k = 0; k < t.targets.size(); ++k) {
      const auto entry = read_at<uint32_t>(new_image.sections()[bank->second].data, offset + 4 * k, "jump table");
      const uint32_t expected = v.pc(copy.label[t.targets[k]]);
      if (!entry || *entry != expected)
        fail("jump-table", word, fmt::format("entry {} of the table at c[0x2][{:#x}] is {:#x}, expected {:#x}", k, offset,
                                             entry.value_or(0xffffffff), expected));
    }
  }
}

void Checker::inserted_code() {
  const Liveness live(v.old);
  const uint32_t own = v.old_registers > reserved_registers ? v.old_registers - reserved_registers : 0;
  const sass::RegSet free_uniform = live.untouched_uniform();
  uint32_t decisions = 0;
  uint8_t counted = 0;
  for (InstIndex i = 0; i < v.old.insts.size(); ++i)
    if (v.old.reachable[i] && v.old.insts[i].fx.uses_scoreboard_count && v.old.insts[i].fx.depbar_scoreboard < 6)
      counted |= static_cast<uint8_t>(1u << v.old.insts[i].fx.depbar_scoreboard);
  std::vector<bool> entered(v.words.size() + 1, false);   // by jumps
  for (const auto& copy : v.copies)
    for (uint32_t label : copy.label) entered[std::min<size_t>(label, v.words.size())] = true;
  uint8_t waited = 0;   // for these scoreboards, since the last original word, on every way
  for (uint32_t k = 0; k < v.words.size(); ++k) {
    if (!v.is_inserted(k) || entered[k]) waited = 0;
    if (!v.is_inserted(k) || v.next_original[k] == SpliceView::inserted) continue;
    const sass::Effects& fx = v.effects[k];
    // A wait one cycle behind what takes the scoreboard does not see it.
    uint8_t seen = sass::get_control(v.words[k]).wait_mask;
    if (const sass::Control before = k > 0 ? sass::get_control(v.words[k - 1]) : sass::Control{}; before.stall < 2)
      for (const uint8_t sb : {before.write_barrier, before.read_barrier})
        if (sb < 6) seen &= static_cast<uint8_t>(~(1u << sb));
    waited |= seen;
    if (!fx.known) {
      fail("original-order", k, "inserted word is no known instruction");
      continue;
    }
    const InstIndex at = v.next_original[k];
    // In the prologue no original instruction has run yet, and no vector register or predicate holds a value: a kernel
    // loads even its stack pointer itself [sass.md 3.3].
    const bool prologue = v.in_prologue(k);
    const sass::RegSet writable = prologue ? sass::RegSet{}.set() : live.writable_after_wait(at, own, waited);
    const auto writable_pred = prologue ? sass::PredSet{0x7f} : live.writable_predicates_before(at);
    for (uint32_t r = 0; r < 255; ++r) {
      if (fx.def.gpr.test(r) && r < own && !writable.test(r) && !v.spilled_write[k])
        fail("register-clobber", k, fmt::format("{} writes R{}, which is in use in front of {}", text(k), r,
                                                where(v.old, at)));
      if ((fx.def.gpr.test(r) || fx.use.gpr.test(r)) && r + reserved_registers >= v.new_registers)
        fail("register-limit", k, fmt::format("{} uses R{} with a register count of {}", text(k), r, v.new_registers));
      if (fx.def.ur.test(r) && !free_uniform.test(r))
        fail("register-clobber", k, fmt::format("{} writes UR{}, which the kernel uses", text(k), r));
    }
    if ((fx.def.pred & ~(writable_pred | v.lent[k])) != 0 || fx.def.upred != 0)
      fail("register-clobber", k, fmt::format("{} writes a predicate that is in use in front of {}", text(k),
                                              where(v.old, at)));
    const sass::Control c = sass::get_control(v.words[k]);
    for (uint8_t barrier : {c.write_barrier, c.read_barrier})
      // The prologue ends drained, and nothing is counted before it.
      if (!prologue && barrier < 6 && (counted >> barrier & 1))
        fail("scoreboard-count", k, fmt::format("{} signals SB{}, on which the kernel counts groups", text(k), barrier));
    if (!fx.target) continue;
    const bool decides = v.samples() && k < v.prologue_first && *fx.target == v.pc(v.prologue_first) && fx.flow == sass::Flow::branch;
    decisions += decides;
    if (decides)
      decision(k);
    else
      fail("branch-target", k, fmt::format("inserted branch {} does not lead from the untouched copy to the prologue", text(k)));
  }
  if (v.samples() && decisions != 1) fail("entry-repeated", 0, fmt::format("{} branches to the prologue", decisions));
}

// Word k, in the untouched copy, sends traced warps to the prologue, where they begin anew.
void Checker::decision(uint32_t k) {
  const InstIndex end = v.next_original[k];
  // Jumped over by who comes back to the first instruction.
  if (k < v.copies[1].at[0]) return;
  for (InstIndex i = 0; i < v.old.insts.size(); ++i) {
    if (!v.old.reachable[i]) continue;
    for (const InstIndex s : v.old.successors(i))
      if (s <= end && !(s == i + 1 && i < end)) fail("entry-repeated", k, fmt::format("{} leads to {}", where(v.old, i), where(v.old, s)));
  }
  sass::RegEffects written;
  for (InstIndex i = 0; i < end; ++i) {
    const sass::Effects& fx = v.old.insts[i].fx;
    const auto again = [&](std::string_view why) { fail("entry-repeated", k, fmt::format("{} {}", where(v.old, i), why)); };
    const bool constant = fx.kind == sass::MemKind::load && fx.space == sass::MemSpace::constant;
    const bool defines = fx.def.gpr.any() || fx.def.ur.any() || fx.def.pred != 0 || fx.def.upred != 0 || fx.mnemonic == "NOP";
    if (fx.flow != sass::Flow::next || fx.may_switch_path || (fx.kind != sass::MemKind::none && !constant) || !defines ||
        fx.def.barrier != 0 || fx.use.barrier != 0 || fx.uses_scoreboard_count || fx.async_registers || fx.changes_register_limit)
      again("does more than to write registers");
    if ((fx.use.gpr & ~written.gpr).any() || (fx.use.ur & ~written.ur).any() || (fx.use.pred & ~written.pred) != 0 ||
        (fx.use.upred & ~written.upred) != 0)
      again("reads what the kernel has not written yet");
    if (fx.guarded) continue;
    written.gpr |= fx.def.gpr;
    written.ur |= fx.def.ur;
    written.pred |= fx.def.pred;
    written.upred |= fx.def.upred;
  }
}

void Checker::control_words() {
  for (uint32_t k = 0; k < v.words.size(); ++k) {
    const sass::Control c = sass::get_control(v.words[k]);
    // What the original has, and vendor code for sm_80 has with a yield and reuse, is legal whatever it waits for.
    bool kept = false;
    if (!v.is_inserted(k)) {
      sass::Control original = sass::get_control(v.old.insts[v.origin[k]].raw);
      original.wait_mask = c.wait_mask;
      kept = original == c;
    }
    if (!kept && !sass::is_legal(c)) fail("control-word", k, "illegal control word: " + sass::print_control(v.words[k]));
    const bool before_insertion = k + 1 < v.words.size() && v.is_inserted(k + 1) &&
                                  v.next_original[k + 1] != SpliceView::inserted;
    if (!v.is_inserted(k) && before_insertion && c.keep_issuing && c.reuse != 0)
      fail("control-word", k, "operand reuse in front of inserted code: " + text(k));
  }
}

std::set<uint32_t> exit_offsets(const std::vector<cubin::InfoRecord>& records) {
  constexpr uint8_t attribute = 0x1c;   // EIATTR_EXIT_INSTR_OFFSETS
  std::set<uint32_t> offsets;
  for (const cubin::InfoRecord& r : records)
    if (r.attribute == attribute)
      for (size_t at = 0; at + 4 <= r.payload.size(); at += 4)
        offsets.insert(*read_at<uint32_t>(r.payload, at, "exit offset"));
  return offsets;
}

void Checker::metadata() {
  if (v.new_registers < v.old_registers)
    fail("metadata", 0, fmt::format("register count fell from {} to {}", v.old_registers, v.new_registers));
  for (const CodeInst& i : v.old.insts)
    if (i.fx.changes_register_limit && v.new_registers != v.old_registers)
      return fail("register-limit", 0, fmt::format("register count went from {} to {}, and the kernel changes it itself",
                                                   v.old_registers, v.new_registers));
  if (new_image.symbols()[new_info.symbol].size != v.words.size() * sass::inst_bytes)
    fail("metadata", 0, fmt::format("symbol size {:#x}, section size {:#x}",
                                    new_image.symbols()[new_info.symbol].size, v.words.size() * sass::inst_bytes));
  if (!new_info.info_section || !old_info.info_section) return;
  const auto records = new_image.info_records(*new_info.info_section);
  const auto old_records = old_image.info_records(*old_info.info_section);
  if (!records || !old_records)
    return fail("metadata", 0, records ? old_records.error().message : records.error().message);
  const std::set<uint32_t> listed = exit_offsets(*records);
  std::set<uint32_t> present;
  for (uint32_t k = 0; k < v.words.size(); ++k)
    if (v.effects[k].flow == sass::Flow::exit) present.insert(v.pc(k));
  // Hand-written kernels that list none need none.
  if (exit_offsets(*old_records).empty()) present.clear();
  if (listed != present)
    fail("metadata", 0, fmt::format("{} EXIT offsets listed, {} EXIT instructions present", listed.size(),
                                    present.size()));
}

// Builds the view; false (with a violation) when the claims do not describe complete copies.
bool find_copies(SpliceView& v, const SpliceClaims& claims, Violations& out) {
  const auto n = static_cast<uint32_t>(v.old.insts.size());
  if (claims.original_of_new.size() != v.words.size()) {
    out.push_back({"original-order", 0, fmt::format("claims cover {} words, the section has {}",
                                                    claims.original_of_new.size(), v.words.size())});
    return false;
  }
  v.origin.assign(v.words.size(), SpliceView::inserted);
  v.copy_of.assign(v.words.size(), 0);
  v.next_original.assign(v.words.size(), SpliceView::inserted);
  const uint32_t first_label = claims.prologue_first + claims.prologue_words;
  const size_t traced = claims.prologue_first == 0 ? 0 : 1;   // in order of words
  uint32_t expected = n, run_start = 0;
  for (uint32_t k = 0; k < v.words.size(); ++k) {
    const uint32_t claim = claims.original_of_new[k];
    if (claim == wire::AddressMap::inserted) continue;
    if (expected == n) {
      v.copies.push_back({});
      expected = 0;
    }
    if (claim != expected * sass::inst_bytes) {
      out.push_back({"original-order", v.pc(k), fmt::format("original {:#x} where {:#x} was expected", claim,
                                                            expected * sass::inst_bytes)});
      return false;
    }
    Copy& copy = v.copies.back();
    const bool is_traced = v.copies.size() == traced + 1;
    uint32_t label = run_start;
    if (expected == 0) {
      label = is_traced ? first_label : k;
    } else {
      const auto behind = claims.words_behind.find((expected - 1) * sass::inst_bytes);
      if (behind != claims.words_behind.end() && is_traced) label += behind->second;
    }
    if (label > k) {
      out.push_back({"original-order", v.pc(k), "more words claimed behind an instruction than there are"});
      return false;
    }
    copy.label.push_back(label);
    copy.at.push_back(k);
    v.origin[k] = expected;
    v.copy_of[k] = is_traced ? 0 : 1;
    for (uint32_t w = run_start; w < k; ++w) v.next_original[w] = expected;
    ++expected;
    run_start = k + 1;
  }
  if (expected != n || v.copies.size() != traced + 1) {
    out.push_back({"original-order", 0, fmt::format("{} of {} original instructions found, behind {} whole copies", expected % n, n,
                                                    v.copies.empty() ? 0 : v.copies.size() - 1)});
    return false;
  }
  if (traced != 0) std::swap(v.copies[0], v.copies[1]);
  if (traced != 0 && claims.prologue_first <= v.copies[1].at.back()) {
    out.push_back({"original-order", 0, "the prologue begins inside a copy"});
    return false;
  }
  return true;
}

}  // namespace

Result<std::vector<Violation>> verify_splice(ByteView original, ByteView spliced, std::string_view kernel,
                                             const SpliceClaims& claims) {
  XT_TRY(const cubin::Image old_image, cubin::Image::parse(original));
  XT_TRY_IN(const cubin::Image new_image, cubin::Image::parse(spliced), "in the spliced cubin");
  XT_TRY(const cubin::KernelInfo old_info, cubin::kernel_info(old_image, kernel));
  XT_TRY_IN(const cubin::KernelInfo new_info, cubin::kernel_info(new_image, kernel), "in the spliced cubin");
  SpliceView v;
  XT_TRY(v.old, read_code(old_image, old_info));
  v.old_registers = old_info.register_count;
  v.new_registers = new_info.register_count;
  v.prologue_first = claims.prologue_first;
  v.prologue_words = claims.prologue_words;
  const ByteView text = new_image.sections()[new_info.text_section].data;
  const bool bounded = !changes_register_limit(v.old);   // what is inserted is exact
  for (uint64_t at = 0; at + sass::inst_bytes <= text.size(); at += sass::inst_bytes) {
    XT_TRY(sass::RawInst w, read_at<sass::RawInst>(text, at, "instruction"));
    v.effects.push_back(sass::effects(*v.old.arch, w, static_cast<uint32_t>(at)));
    if (bounded) bound_by_count(v.effects.back(), v.old_registers);
    v.words.push_back(w);
  }
  Violations out;
  v.not_taken.assign(v.old.insts.size(), false);
  for (uint32_t pc : claims.not_taken) {
    const InstIndex i = v.old.index(pc);
    const bool branches = i < v.old.insts.size() && v.old.insts[i].fx.flow == sass::Flow::branch && v.old.insts[i].fx.falls_through;
    if (!branches) out.push_back({"record-clobbered", pc, "said not to be taken, and is no conditional branch"});
    else v.not_taken[i] = true;
  }
  if (!find_copies(v, claims, out)) return out;
  check_spills(v, claims, old_info, new_info, out);
  check_lent(v, out);
  Checker checker{v, old_image, new_image, old_info, new_info, out};
  checker.originals();
  checker.inserted_code();
  checker.control_words();
  checker.metadata();
  check_addresses(v, claims, out);
  const Blocks blocks = find_blocks(v.old);
  check_points(v, claims, blocks, out);
  check_pointers(v, out);
  v.rounds = claims.rounds;
  v.ways = claims.ways;
  check_rounds(v, claims, blocks, out);
  check_ways(v, claims, blocks, out);
  check_sectors(v, claims, blocks, out);
  check_lengths(v, claims, blocks, out);
  check_forks(v, claims, blocks, out);
  check_lane_words(v, claims, blocks, out);
  check_hazards(v, out);
  return out;
}

}  // namespace xtrace::instrument
