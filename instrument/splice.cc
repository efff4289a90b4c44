// The pipeline: read -> blocks -> liveness -> scratch -> probes -> prologue and layout -> metadata -> verify.
#include <algorithm>
#include <bit>

#include "instrument/function_pointers.h"
#include "instrument/occupancy.h"
#include "instrument/points.h"
#include "instrument/read_barriers.h"
#include "instrument/sass/access.h"
#include "instrument/sass/encode.h"
#include "instrument/splicer.h"
#include "instrument/verify.h"
#include "instrument/waits.h"

namespace xtrace::instrument {
namespace {

constexpr uint32_t text_alignment = 128;   // sections of code are whole multiples [vendor code: 9,260 of 9,260]

constexpr unsigned longest_result = 15;    // cycles, of an instruction that sets no scoreboard, matrices apart (sass.md 5.1)

struct Layout {
  std::vector<sass::RawInst> words;
  std::vector<Body> bodies;              // [0] instrumented, [1] when CTAs are sampled the untouched copy, which stands in front
  uint32_t prologue_first = 0;           // word
  uint32_t bytes() const { return static_cast<uint32_t>(words.size()) * sass::inst_bytes; }
};

// Appends one copy of every jump table per body to constant bank 2; returns [body][table] byte offsets.
std::vector<std::vector<uint32_t>> reserve_tables(const Code& code, uint32_t bank_bytes, size_t bodies) {
  std::vector<std::vector<uint32_t>> offsets(bodies);
  auto at = static_cast<uint32_t>(align_up(bank_bytes, 8));
  for (auto& body : offsets)
    for (const JumpTable& t : code.jump_tables) {
      body.push_back(at);
      at = static_cast<uint32_t>(align_up(at + 4 * t.targets.size(), 8));
    }
  return offsets;
}

void write_tables(cubin::Image& image, uint32_t section, const Code& code, const Layout& layout,
                  const std::vector<std::vector<uint32_t>>& offsets) {
  Bytes bank = image.sections()[section].data;
  for (size_t b = 0; b < layout.bodies.size(); ++b)
    for (size_t t = 0; t < code.jump_tables.size(); ++t) {
      const JumpTable& table = code.jump_tables[t];
      const uint64_t end = align_up(offsets[b][t] + 4 * table.targets.size(), 8);
      if (bank.size() < end) bank.resize(end);
      for (size_t k = 0; k < table.targets.size(); ++k)
        write_at(bank, offsets[b][t] + 4 * k, layout.bodies[b].label[table.targets[k]]);
    }
  image.set_section_data(section, std::move(bank));
}

Status write_metadata(cubin::Image& image, const cubin::KernelInfo& info, const Code& code, const Layout& layout,
                      SpliceReport& report) {
  const auto index = [&](uint32_t old_offset) { return std::min<uint32_t>(code.index(old_offset),
                                                                          static_cast<uint32_t>(code.insts.size())); };
  cubin::MovedCode moved;
  moved.instruction = [&](uint32_t old_offset) {
    std::vector<uint32_t> offsets;
    for (const Body& b : layout.bodies)
      offsets.push_back(index(old_offset) < code.insts.size() ? b.inst[index(old_offset)] : b.label.back());
    return offsets;
  };
  moved.boundary = [&](uint32_t old_offset) { return layout.bodies[0].label[index(old_offset)]; };
  moved.new_text_bytes = layout.bytes();
  XT_TRY(cubin::MovedReport moved_report, cubin::map_code_offsets(image, info, moved));
  report.notes = std::move(moved_report.dropped);
  image.set_symbol(info.symbol, 0, layout.bytes());
  for (const cubin::LocalFunction& f : info.functions) {
    const Body& b = layout.bodies[0];
    const uint32_t from = b.label[index(static_cast<uint32_t>(f.offset))];
    image.set_symbol(f.symbol, from, b.label[index(static_cast<uint32_t>(f.offset + f.size))] - from);
  }
  return cubin::set_register_count(image, info, report.new_registers);
}

// Behind both bodies, for calls through pointers: the branches of each. Functions that have all moved by as much need none.
Status add_branches_of_pointers(const Code& code, Layout& layout) {
  const FunctionPointers& p = code.pointers;
  for (const Body& b : layout.bodies) {
    if (p.calls.empty()) break;
    const uint32_t moved = b.label[p.first] - code.pc(p.first);
    bool all_moved = true;
    for (InstIndex i = p.first; i <= p.last; ++i) all_moved = all_moved && b.label[i] - code.pc(i) == moved;
    int64_t base = moved + p.base;
    if (!all_moved) {
      const uint32_t pc = layout.bytes();
      XT_TRY(const std::vector<sass::RawInst> branches, branches_of_pointers(code, pc, b.label));
      layout.words.insert(layout.words.end(), branches.begin(), branches.end());
      base = int64_t{pc} - code.pc(p.first) + p.base;
    }
    for (const InstIndex call : p.calls)
      XT_TRY_STATUS(sass::set_register_branch_base(*code.arch, layout.words[b.inst[call] / sass::inst_bytes], b.inst[call], base));
  }
  return {};
}

// Warps that are not traced run through the untouched copy in order; the other one lies behind it.
Result<Layout> build(const Code& code, const Insertions& insertions, Prologue prologue, std::optional<Decision> decision,
                     const std::vector<std::vector<uint32_t>>& tables) {
  const auto bytes = [](const Sequence& seq) { return static_cast<uint32_t>(seq.size()) * sass::inst_bytes; };
  Layout layout;
  std::optional<Body> untouched;
  uint32_t traced = 0;
  if (decision) {
    const uint32_t base = bytes(decision->front);
    XT_TRY(untouched, lay_out(code, decision->insertions, base, tables[1]));
    traced = static_cast<uint32_t>(align_up(base + untouched->bytes(), text_alignment));
    const auto set_target = [&](sass::RawInst& w, uint32_t pc) { return sass::set_target(*code.arch, w, pc, traced); };
    if (decision->branch) {
      const uint32_t pc = untouched->inst[*decision->branch] - sass::inst_bytes;
      XT_TRY_STATUS(set_target(untouched->words[(pc - base) / sass::inst_bytes], pc));
    } else {
      XT_TRY_STATUS(set_target(decision->front.back(), base - sass::inst_bytes));
    }
    layout.words = std::move(decision->front);
    layout.words.insert(layout.words.end(), untouched->words.begin(), untouched->words.end());
    layout.words.resize(traced / sass::inst_bytes, sass::enc::nop());
  }
  layout.prologue_first = traced / sass::inst_bytes;
  XT_TRY(Body instrumented, lay_out(code, insertions, traced + bytes(prologue.words), tables[0]));
  layout.words.insert(layout.words.end(), prologue.words.begin(), prologue.words.end());
  layout.words.insert(layout.words.end(), instrumented.words.begin(), instrumented.words.end());
  layout.bodies.push_back(std::move(instrumented));
  if (untouched) layout.bodies.push_back(std::move(*untouched));
  XT_TRY_STATUS(add_branches_of_pointers(code, layout));
  layout.words.resize(align_up(layout.bytes(), text_alignment) / sass::inst_bytes, sass::enc::nop());
  return layout;
}

bool writes_record(const Sequence& seq) {
  return std::any_of(seq.begin(), seq.end(), [](const sass::RawInst& w) {
    return sass::get_control(w).read_barrier != sass::Control::no_barrier;
  });
}

// Inserts the second part of a light prologue, and waits for what has not settled until the first record of the entry
// block, or until its end. `at_once`: the entry block itself uses what has to settle, from its first probe on.
void place_rest(const Code& code, const Blocks& blocks, bool at_once, bool held, Prologue& prologue,
                Insertions& insertions) {
  unsigned passed = 0;
  const InstIndex last = blocks.blocks[blocks.block_of[prologue.rest_at]].last();
  for (InstIndex i = prologue.rest_at; i <= last && passed < prologue.settle; ++i) {
    if (at_once && !insertions.before[i].empty()) break;
    // The record that is stored with the head does not use the cursor.
    if (writes_record(insertions.before[i]) && !(held && i == prologue.rest_at)) break;
    passed += least_cycles(insertions.before[i]) + sass::get_control(code.insts[i].raw).stall;
    if (writes_record(insertions.after[i])) break;
  }
  Sequence& tail = prologue.rest.empty() ? prologue.words : prologue.rest;
  if (passed < prologue.settle) put_pause(tail, prologue.settle - passed);
  const auto insert_first = [&](InstIndex i, const Sequence& seq) { insertions.before[i].insert(insertions.before[i].begin(), seq.begin(), seq.end()); };
  insert_first(prologue.rest_at, prologue.rest);
  if (prologue.loads_at == 0) prologue.words.insert(prologue.words.end(), prologue.loads.begin(), prologue.loads.end());
  else insert_first(prologue.loads_at, prologue.loads);
}

// Before memory instructions: what the architecture needs beyond latency::vector_to_memory, which probes keep.
Sequence delayed(const sass::Arch& arch, Sequence seq) {
  if (arch.result_to_memory <= latency::vector_to_memory) return seq;
  Sequence out;
  for (const sass::RawInst& w : seq) {
    const sass::Effects fx = sass::effects(arch, w, 0);
    const bool memory = fx.kind != sass::MemKind::none && fx.space != sass::MemSpace::constant;
    if (memory && (out.empty() || sass::get_control(out.back()).stall < arch.result_to_memory))
      put_pause(out, arch.result_to_memory - latency::vector_to_memory);
    out.push_back(w);
  }
  return out;
}

// Probes and prologue are written in words of sm_90.
void to_arch(const sass::Arch& arch, Insertions& insertions, Sequence& entry) {
  const auto convert = [&arch](Sequence& seq) {
    for (sass::RawInst& w : seq) w = sass::enc::for_arch(arch, w);
    seq = delayed(arch, std::move(seq));
  };
  const size_t words = entry.size();
  convert(entry);
  XT_CHECK(entry.size() == words, "a branch of the prologue would move");
  for (Sequence& seq : insertions.before) convert(seq);
  for (Sequence& seq : insertions.after) convert(seq);
}

SpliceClaims claims_of(const Code& code, const Insertions& insertions, const wire::AddressMap& map,
                       uint32_t prologue_first, uint32_t prologue_words) {
  SpliceClaims claims{map.original_of_new, prologue_first, prologue_words, {}};
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (!insertions.after[i].empty())
      claims.words_behind[code.pc(i)] = static_cast<uint32_t>(insertions.after[i].size());
  return claims;
}

std::vector<AddressClaim> address_claims(const Code& code, const Blocks& blocks, const Scope& scope) {
  std::vector<AddressClaim> claims;
  using Kind = AddressClaim::Kind;
  for (const ProbeBlock& block : blocks.blocks) {
    const MemRecord record = mem_record(code, block, scope);
    for (const MemRecord::Column& column : record.columns)
      if (!column.spread) claims.push_back({Kind::column, code.pc(column.at), column.reg, column.place, {}});
    for (const MemRecord::Base& b : record.bases)
      claims.push_back({Kind::base, code.pc(b.at), b.reg, b.place, b.lanes});
    for (const MemRecord::Scalar& s : record.scalars)
      claims.push_back({s.is_mask ? Kind::mask : s.is_guard ? Kind::guard : Kind::uniform, code.pc(s.at),
                        static_cast<uint8_t>(s.index | (s.negated ? 8 : 0)), s.place, {}});
  }
  return claims;
}

Status check(ByteView original, const Spliced& spliced, std::string_view kernel) {
  XT_TRY(const std::vector<Violation> violations, verify_splice(original, spliced.cubin, kernel, spliced.claims));
  if (violations.empty()) return {};
  const Violation& v = violations.front();
  return internal("splice of kernel {} breaks rule {} at {:#x}: {} ({} violations)", kernel, v.rule, v.new_pc, v.text,
                  violations.size());
}

// Sparse sites, under block and inst: which blocks leave no records as other parts have them.
Status leave_to_other_parts(const ProbeContext& c) {
  if (!c.scope.is_sparse() || (c.plan.probe != ProbeKind::block && c.plan.probe != ProbeKind::inst)) return {};
  c.map.sites_one_in = c.scope.sites.one_in;
  bool any = false;
  for (uint32_t b = 0; b < c.map.blocks.size(); ++b) {
    wire::Block& block = c.map.blocks[b];
    any |= !c.other_part(b);
    block.other_part = c.other_part(b) && !block.unrecorded;
    block.unrecorded |= block.other_part;
  }
  if (!any) return unsupported("{} of kernel {} is in part {} of site:1/{}", c.plan.probe == ProbeKind::block ? "no block" : "no site",
                               c.code.kernel, c.scope.sites.part, c.scope.sites.one_in);
  return {};
}

}  // namespace

// Map and report of the input, without its bytes.
Spliced Splicer::Impl::original() const {
  Spliced out;
  out.map = map;
  out.report.original_registers = out.report.new_registers = info.register_count;
  out.report.original_frame = info.frame_bytes;
  out.report.original_code_bytes = out.report.new_code_bytes = code.bytes();
  return out;
}

// Code with insertions, behind a prologue, for those warps that the decision sends there (without one, all): cubin, map, claims, and
// the sizes in the report.
Status Splicer::Impl::put_together(const Insertions& insertions, Prologue prologue, std::optional<Decision> decision,
                                   Spliced& out) const {
  cubin::Image edited = image;
  const auto bank = info.constant_sections.find(2);
  const auto bank_bytes =
      bank == info.constant_sections.end() ? 0 : static_cast<uint32_t>(edited.sections()[bank->second].data.size());
  const auto tables = reserve_tables(code, bank_bytes, decision ? 2 : 1);
  XT_TRY(const Layout spliced, build(code, insertions, std::move(prologue), std::move(decision), tables));
  out.report.new_code_bytes = spliced.bytes();
  for (const Sequence& s : insertions.before) out.report.sites += !s.empty();
  for (const Sequence& s : insertions.after) out.report.sites += !s.empty();
  if (!code.jump_tables.empty()) write_tables(edited, bank->second, code, spliced, tables);
  Bytes text;
  text.reserve(spliced.bytes());
  for (const sass::RawInst& w : spliced.words) append(text, w);
  edited.set_section_data(info.text_section, std::move(text));
  XT_TRY_STATUS(write_metadata(edited, info, code, spliced, out.report));
  if (out.report.spill_frame != 0) XT_TRY_STATUS(cubin::set_frame_bytes(edited, info, out.report.spill_frame));
  XT_TRY(out.cubin, edited.write());
  out.map.original_of_new.assign(spliced.words.size(), wire::AddressMap::inserted);
  for (const Body& b : spliced.bodies)
    std::copy(b.original.begin(), b.original.end(), out.map.original_of_new.begin() + b.base / sass::inst_bytes);
  out.added_waits.assign(spliced.words.size(), 0);
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    out.added_waits[spliced.bodies[0].inst[i] / sass::inst_bytes] =
        static_cast<uint8_t>(insertions.wait[i] & ~sass::get_control(code.insts[i].raw).wait_mask);
  out.claims = claims_of(code, insertions, out.map, spliced.prologue_first,
                         spliced.bodies[0].base / sass::inst_bytes - spliced.prologue_first);
  out.claims.spill_frame = out.report.spill_frame;
  return {};
}

Result<Spliced> Splicer::splice(const Plan& plan, const wire::SlotLayout& layout) const {
  Result<Spliced> plain = splice_once(plan, layout, false);
  const bool lacks_registers = plain ? plain->report.costs_occupancy : plain.error().kind == ErrorKind::unsupported;
  if (plan.probe != ProbeKind::mem || !lacks_registers || !spill_frame(impl_->code, impl_->info)) return plain;
  Result<Spliced> spilled = splice_once(plan, layout, true);
  if (!spilled && spilled.error().kind == ErrorKind::internal) return spilled;
  return spilled && spilled->report.spills != 0 && !spilled->report.costs_occupancy ? spilled : plain;
}

Result<Spliced> Splicer::splice_once(const Plan& plan, const wire::SlotLayout& layout, bool spills) const {
  const auto& [cubin, shape, image, info, code, blocks, liveness, map] = *impl_;
  Spliced out = impl_->original();
  out.map.layout = layout;
  out.map.layout.warps_per_cta = warps_per_cta();
  out.map.layout.last_lanes = static_cast<uint32_t>((shape.block.count() - 1) % 32 + 1);
  out.map.layout.one_in = plan.one_in;
  out.map.layout.seed = plan.seed;
  out.map.layout.cta_part = plan.cta_part;
  out.map.layout.select = plan.select;
  if (plan.probe == ProbeKind::none) {
    out.cubin = cubin;
    return out;
  }
  const sass::RegSet unsettled = plan.samples() ? unsettled_registers(code, repeatable_entry(code, blocks)) : sass::RegSet{};
  XT_TRY(Scratch scratch, Scratch::plan(code, info, blocks, liveness, shape, unsettled));
  if (spills) scratch.allow_spills(*spill_frame(code, info));
  if (scratch.uniform().few && layout.wraps && plan.probe != ProbeKind::count)
    return with_hint(unsupported("kernel {} takes another path in each replay, and leaves fewer uniform registers untouched than such records need: "
                                 "two aligned pairs and four more", info.name),
                     "the clean kernel can be replayed (--probes=none), and count counts it");
  Insertions insertions(code.insts.size());
  std::optional<HeldHead> held_head;
  LaneRegisters lanes;
  if (layout.whole_sectors) {
    const bool fills = plan.probe == ProbeKind::inst || plan.probe == ProbeKind::mem;
    XT_CHECK(fills && out.map.layout.last_lanes == 32 && !layout.wraps, "sectors are filled by inst and mem, by warps of 32 lanes, in plain slots");
    lanes.sector_word = scratch.reserve();
    if (!lanes.sector_word) return unsupported("kernel {} leaves no register for records in whole sectors", info.name);
  }
  Scope scope = impl_->scope(*this);
  scope.sectors = layout.whole_sectors && plan.probe == ProbeKind::mem;
  std::vector<sass::enc::Ureg> counters;
  bool chains_by_groups = false;
  std::vector<uint32_t> not_taken;
  std::optional<sass::enc::Gpr> rounds, ways;
  ProbeContext context{code, blocks, liveness, scope, plan, layout, scratch, insertions, held_head, lanes.offset, lanes.masks,
                       lanes.sector_word, lanes.words, counters, chains_by_groups, not_taken, rounds, ways, out.map};
  for (uint32_t b = 0; b < plan.unrecorded.size(); ++b) out.map.blocks[b].unrecorded = plan.unrecorded[b] && plan.probe != ProbeKind::count;
  XT_TRY_STATUS(leave_to_other_parts(context));
  XT_TRY_STATUS(body_of(plan.probe).insert(context));
  for (const wire::Block& b : out.map.blocks) XT_CHECK(!b.unrecorded || b.record_bytes == 0, "a block without records has one");
  bool packs = chains_by_groups, four_groups = false;
  const auto is_packed = [&plan](const wire::Block& b) { return plan.probe == ProbeKind::mem ? b.full : b.grouped; };
  for (const wire::Block& b : out.map.blocks) {
    packs |= is_packed(b);
    four_groups |= is_packed(b) || b.chain.size() + 1 == LaneGroups::groups;
  }
  std::optional<LaneGroups> groups = packs ? scratch.lane_groups() : std::nullopt;
  if (groups && !four_groups) groups->both = {};
  std::optional<Decision> decision;
  if (plan.samples()) decision = build_decision(code, blocks, shape, plan, scratch);
  Prologue prologue = build_prologue(code, blocks, shape, plan, out.map.layout, groups,
                                     held_head, lanes, insertions, scratch);
  for (const sass::enc::Ureg r : counters) put(prologue.words, sass::enc::umov_imm(r, 0));
  if (!counters.empty()) put_pause(prologue.words, latency::uniform_to_vector);
  place_rest(code, blocks, packs && is_packed(out.map.blocks[0]), held_head.has_value(), prologue, insertions);
  if (decision) {   // the kernel begins anew when all that it has begun is done
    Sequence done;
    put(done, sass::enc::nop(), {.stall = longest_result, .wait_mask = decision->outstanding});
    prologue.words.insert(prologue.words.begin(), done.begin(), done.end());
    to_arch(*code.arch, decision->insertions, decision->front);
  }
  to_arch(*code.arch, insertions, prologue.words);
  if (plan.probe != ProbeKind::count) choose_read_barriers(code, scratch.shared_scoreboards(), insertions);
  add_waits(code, insertions, prologue.words);

  out.report.new_registers = scratch.register_count();
  out.report.fresh_registers = scratch.fresh_registers();
  out.report.costs_occupancy = scratch.costs_occupancy();
  out.report.spills = scratch.spills();
  if (scratch.spills() != 0) out.report.spill_frame = scratch.spill_frame()->bytes;
  XT_TRY_STATUS(impl_->put_together(insertions, std::move(prologue), std::move(decision), out));
  if (plan.probe == ProbeKind::mem) {
    out.claims.records_addresses = true;
    out.claims.memory_high_is_known = low_words_tell_;
    out.claims.launch = facts_of(shape, info, code, blocks);
    out.claims.full_blocks = counted_->full_blocks;
    if (lanes.offset) out.claims.lane_offset = lanes.offset->index;
    if (lanes.masks) out.claims.lane_masks = {lanes.masks->bit0.index, lanes.masks->bit1.index, lanes.masks->both.index};
    if (groups) out.claims.lane_groups = {groups->bit0.index, groups->bit1.index, groups->both.index};
    for (const wire::Block& b : out.map.blocks) {
      out.claims.full_records.push_back(b.full);
      out.claims.record_bytes.push_back(b.record_bytes);
    }
    out.claims.accesses = out.map.accesses;
    out.claims.lane_numbers = out.map.lane_numbers;
    for (InstIndex i = 0; i < code.insts.size(); ++i) out.claims.places.push_back(scope.has(i));
    out.claims.addresses = address_claims(code, blocks, scope);
  }
  out.claims.not_taken = std::move(not_taken);
  if (rounds) {
    out.claims.rounds = rounds->index;
    if (lanes.offset) out.claims.lane_offset = lanes.offset->index;
    for (const wire::Block& b : out.map.blocks) {
      out.claims.loops.push_back(b.loop);
      out.claims.rounds_at.push_back(b.has_ways ? 0 : b.rounds_at);
      out.claims.rounds_alike.push_back(b.rounds_alike);
    }
  }
  if (ways) {
    out.claims.ways = ways->index;
    out.claims.lane_offset = lanes.offset->index;
    out.claims.ends = scratch.uniform().header.index;
    for (const wire::Block& b : out.map.blocks) {
      out.claims.numbered.push_back(b.numbered);
      out.claims.way_numbers.push_back({b.way_number, b.way_adds});
      out.claims.ways_at.push_back(b.has_ways ? b.rounds_at : 0);
    }
  }
  if (lanes.sector_word) {
    out.claims.sector_word = lanes.sector_word->index;
    for (const wire::Block& b : out.map.blocks) out.claims.sector_full.push_back(b.full && !b.implied);
  }
  for (uint32_t b = 0; b < out.map.blocks.size(); ++b)
    if (out.map.blocks[b].forks) out.claims.forks.push_back(b);
  if (lanes.words && lanes.words->used) {
    out.claims.odd_lanes = lanes.words->odd.index;
    if (lanes.words->place) out.claims.word_place = lanes.words->place->index;
  }
  out.claims.points = out.map.points;
  out.claims.nth = scope.sites.nth;
  XT_TRY_STATUS(check(cubin, out, info.name));
  return out;
}

Result<Spliced> Splicer::delayed(const std::vector<Delay>& delays) const {
  const Code& code = impl_->code;
  Insertions insertions(code.insts.size());
  for (const Delay& d : delays) {
    const InstIndex i = code.index(d.at.value);
    if (d.at.value % sass::inst_bytes != 0 || i >= code.insts.size() || !code.reachable[i])
      return bad_input("no reachable instruction at {:#x} of kernel {}", d.at.value, code.kernel);
    if (d.cycles != 0) put(insertions.before[i], sass::enc::for_arch(*code.arch, sass::enc::nop()), {.stall = d.cycles});
  }
  Spliced out = impl_->original();
  XT_TRY_STATUS(impl_->put_together(insertions, {}, {}, out));
  XT_TRY_STATUS(check(impl_->cubin, out, impl_->info.name));
  return out;
}

Result<Spliced> splice(ByteView cubin, std::string_view kernel, const LaunchShape& shape, const Plan& plan,
                       const wire::SlotLayout& layout) {
  if (plan.probe == ProbeKind::none) {
    XT_TRY(const cubin::Image image, cubin::Image::parse(cubin));
    XT_TRY_STATUS(cubin::kernel_info(image, kernel));
    Spliced out;
    out.cubin.assign(cubin.begin(), cubin.end());
    return out;
  }
  XT_TRY(const Splicer splicer, Splicer::create(cubin, kernel, shape));
  return splicer.splice(plan, layout);
}

}  // namespace xtrace::instrument
