// `pair`: two clocks around one instruction, and nothing else in the kernel.
//
//   plain site    clock, instruction, clock, then one record { word0, mask, before, after } behind it
//   edge site     the instruction ends a block: one record with a clock in front of it, one at the head of each block
//                 that may follow; whoever else enters such a block writes a record that the decoder drops
//                 (likewise around several instructions of one block: Plan::span)
//   stretch       of a block, what is left of it, or the kernel: the first clock waits in a uniform register for the second, and one record of both
//                 stands wherever the stretch may end; who comes there without having begun one leaves no_begin as the first
#include <algorithm>

#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

using Shape = Holder::Shape;

// A pair exists to leave the kernel as it is: a site without free registers is refused, not paid for with occupancy.
tl::unexpected<Error> no_registers(const ProbeContext& c, InstIndex i) {
  return unsupported("too few registers are free at {}", where(c.code, i));
}

// word0 and mask into the record whose other words are stored, one or two at a time.
void store_header(ProbeContext& c, Sequence& seq, const Holder& h, uint32_t word0) {
  if (h.shape == Shape::single) {
    put(seq, enc::mov_imm(h.r(0), word0), {.stall = vector_to_memory});
    store_words(c, seq, h, 1, 0);
    put(seq, enc::vote_any_active(h.r(0)), {.stall = vector_to_memory});
    store_words(c, seq, h, 1, 4);
    return;
  }
  put(seq, enc::mov_imm(h.r(0), word0));
  put(seq, enc::vote_any_active(h.r(1)), {.stall = vector_to_memory});
  store_words(c, seq, h, 2, 0);
}

// { before, after } alone: there is one site, and no lane is missing.
bool short_site(ProbeContext& c, InstIndex i) {
  if (!c.layout.headless || !c.full(c.blocks.block_of[i])) return false;
  const InstIndex to = i + c.plan.span;
  const auto h = c.scratch.try_holder(i, to, {Shape::pair}, std::nullopt);
  if (!h) return false;
  constexpr uint32_t bytes = 8;
  put(c.out.before[i], enc::cs2r32(h->r(0), enc::sr_clock_lo));
  Sequence& seq = c.out.after[to - 1];
  put(seq, enc::cs2r32(h->r(1), enc::sr_clock_lo), {.stall = vector_to_memory});
  store_words(c, seq, *h, 2, 0);
  bump_address(c, seq, bytes, 5 + 1 + least_head_cycles);
  c.map.layout.short_pairs = true;
  return true;
}

Status plain_site(ProbeContext& c, uint32_t site, InstIndex i) {
  const uint32_t word0 = wire::word0(wire::RecordKind::pair, site);
  Sequence& before = c.out.before[i];
  const InstIndex to = i + c.plan.span;
  Sequence& seq = c.out.after[to - 1];
  if (auto h = c.scratch.try_holder(i, to, {Shape::quad, Shape::two_pairs}, std::nullopt)) {
    put(before, enc::cs2r32(h->r(2), enc::sr_clock_lo));
    put(seq, enc::cs2r32(h->r(3), enc::sr_clock_lo));
    bump_cursor(c, seq, wire::chunk_bytes);
    put(seq, enc::mov_imm(h->r(0), word0));
    put(seq, enc::vote_any_active(h->r(1)), {.stall = vector_to_memory});
    store_words(c, seq, *h, 4, 0);
  } else if (auto two = c.scratch.try_holder(i, to, {Shape::pair}, std::nullopt)) {
    put(before, enc::cs2r32(two->r(0), enc::sr_clock_lo));
    put(seq, enc::cs2r32(two->r(1), enc::sr_clock_lo), {.stall = vector_to_memory});
    bump_cursor(c, seq, wire::chunk_bytes);
    store_words(c, seq, *two, 2, 8);
    store_header(c, seq, *two, word0);
  } else {
    // Two registers that need not be neighbours; only the first is held across the instruction.
    const auto first = c.scratch.try_holder(i, to, {Shape::single}, std::nullopt);
    if (!first) return no_registers(c, i);
    const auto second = c.scratch.try_holder(to, to, {Shape::single}, first);
    if (!second || second->reg[0] == first->reg[0]) return no_registers(c, i);
    put(before, enc::cs2r32(first->r(0), enc::sr_clock_lo));
    put(seq, enc::cs2r32(second->r(0), enc::sr_clock_lo), {.stall = vector_to_memory});
    bump_cursor(c, seq, wire::chunk_bytes);
    store_words(c, seq, *first, 1, 8);
    store_words(c, seq, *second, 1, 12);
    store_header(c, seq, *first, word0);
  }
  // Before this site's next store: a branch back (5 cycles or more) and the two clocks.
  bump_address(c, seq, wire::chunk_bytes, 5 + 1 + least_head_cycles);
  return {};
}

// One record with one clock, of a begin as late as can be, of an end as early; gives the cycles between the clock and the end
// of the sequence.
Status edge_record(ProbeContext& c, wire::RecordKind kind, uint32_t site, InstIndex i, unsigned& overhead) {
  const auto h = c.scratch.try_holder(i, i, {Shape::quad, Shape::two_pairs, Shape::pair, Shape::single}, std::nullopt);
  if (!h) return no_registers(c, i);
  const uint32_t word0 = wire::word0(kind, site);
  const bool whole = h->shape == Shape::quad || h->shape == Shape::two_pairs;
  Sequence seq;
  const bool ends = kind == wire::RecordKind::edge_end;
  if (whole && ends) put(seq, enc::cs2r64(h->r(2), enc::sr_clock_lo));
  bump_cursor(c, seq, wire::chunk_bytes);
  if (whole) {
    put(seq, enc::mov_imm(h->r(0), word0));
    put(seq, enc::vote_any_active(h->r(1)), {.stall = ends ? vector_to_memory : 1});
  }
  const unsigned before_clock = least_cycles(seq);
  if (whole) {
    if (!ends) put(seq, enc::cs2r64(h->r(2), enc::sr_clock_lo), {.stall = vector_to_memory});
    store_words(c, seq, *h, 4, 0);
  } else if (h->shape == Shape::pair) {
    put(seq, enc::cs2r64(h->r(0), enc::sr_clock_lo), {.stall = vector_to_memory});
    store_words(c, seq, *h, 2, 8);
    store_header(c, seq, *h, word0);
  } else {
    put(seq, enc::cs2r32(h->r(0), enc::sr_clock_lo), {.stall = vector_to_memory});
    store_words(c, seq, *h, 1, 8);
    put(seq, enc::cs2r32(h->r(0), enc::sr_clock_hi), {.stall = vector_to_memory});
    store_words(c, seq, *h, 1, 12);
    store_header(c, seq, *h, word0);
  }
  // Until the next store, which may be the other half's right behind this instruction.
  bump_address(c, seq, wire::chunk_bytes, stall_cycles(c.code, i, i + 1) + least_head_cycles);
  overhead = least_cycles(seq) - before_clock;
  Sequence& at = c.out.before[i];
  at.insert(at.end(), seq.begin(), seq.end());
  return {};
}

// A stretch: where it begins, where it may end, and the register that holds the first clock meanwhile.
class Stretch {
 public:
  Stretch(ProbeContext& c, uint32_t site, InstIndex first) : c_(c), site_(site), first_(first) {}

  // In front of these instructions. In front of an EXIT it may go on, for lanes that do not leave: of records that begin alike
  // the last one counts.
  Status ends_at(const std::vector<InstIndex>& places) {
    short_ = c_.layout.headless && c_.full(c_.blocks.block_of[first_]);
    for (InstIndex i : places) short_ = short_ && c_.full(c_.blocks.block_of[i]) && c_.scratch.try_holder(i, i, {Shape::pair}, std::nullopt);
    for (InstIndex i : places) XT_TRY_STATUS(end(i, c_.code.insts[i].fx.flow != sass::Flow::exit));
    c_.map.layout.short_pairs = short_;
    return {};
  }

  // Plans the clock in front of first_, and where it moves from a register to the uniform one: at or in front of `latest`, where
  // there has been time.
  Status begins_with(InstIndex latest, InstIndex end) {
    const unsigned ready = std::max(clock_to_vector(*c_.code.arch), 1u);
    to_ = first_;
    for (unsigned passed = 1; to_ < latest && passed < ready; ++to_) passed += sass::get_control(c_.code.insts[to_].raw).stall;
    holder_ = c_.scratch.try_holder(first_, to_, {Shape::single}, std::nullopt);
    if (!holder_) holder_ = c_.scratch.try_holder(first_, to_ = first_, {Shape::single}, std::nullopt);
    if (!holder_) return no_registers(c_, first_);
    const unsigned passed = 1 + stall_cycles(c_.code, first_, to_);
    lacks_ = ready > passed ? ready - passed : 0;
    settled_ = 1 + stall_cycles(c_.code, to_, end);
    return {};
  }
  // Gives the cycles that this adds to the stretch, the clock itself apart. Under Plan::twice all of it stands there once more, to
  // no effect but the time that it takes; likewise what stores the record.
  unsigned begin() {
    Sequence clock, hold, move;
    put(clock, enc::cs2r32(holder_->r(0), enc::sr_clock_lo), {.stall = to_ == first_ ? 1 + lacks_ : 1});
    if (c_.plan.twice) put(clock, enc::cs2r32(enc::RZ, enc::sr_clock_lo), {.stall = to_ == first_ ? 1 + lacks_ : 1});
    if (to_ != first_) put_pause(hold, lacks_);   // in front of the move
    to_uniform(*c_.code.arch, move, c_.scratch.uniform().temp, holder_->r(0), 1, holder_->scoreboard);
    if (c_.plan.twice) {
      if (to_ != first_) put_pause(hold, lacks_);
      to_uniform(*c_.code.arch, move, c_.scratch.uniform().cursor, holder_->r(0), 1, holder_->scoreboard);   // plain slots need none
    }
    append(first_, clock);
    append(to_, hold);
    append(to_, move);
    return lacks_ + least_cycles(move);
  }

 private:
  void append(InstIndex i, const Sequence& seq) {
    Sequence& at = c_.out.before[i];
    at.insert(at.end(), seq.begin(), seq.end());
  }

  Status end(InstIndex i, bool over) {
    const enc::Ureg begun = c_.scratch.uniform().temp;
    const auto h = short_ ? c_.scratch.try_holder(i, i, {Shape::pair}, std::nullopt)
                          : c_.scratch.try_holder(i, i, {Shape::quad, Shape::two_pairs, Shape::pair, Shape::single}, std::nullopt);
    if (!h) return no_registers(c_, i);
    const uint32_t word0 = wire::word0(wire::RecordKind::pair, site_), bytes = short_ ? 8 : wire::chunk_bytes;
    const bool whole = !short_ && (h->shape == Shape::quad || h->shape == Shape::two_pairs);
    Sequence seq;
    // What stands behind the clock lets the kernel's own results arrive unseen: it is as short as can be.
    const unsigned settles = r2ur_to_use > settled_ ? r2ur_to_use - settled_ : 1;
    const auto clock = [&](unsigned k) { put(seq, enc::cs2r32(h->r(k), enc::sr_clock_lo), {.stall = settles}); };
    const auto first = [&](unsigned k) { put(seq, enc::mov_from_ur(h->r(k), begun), {.stall = vector_to_memory}); };
    if (whole) {
      clock(3);
      put(seq, enc::mov_imm(h->r(0), word0));
      put(seq, enc::vote_any_active(h->r(1)));
      first(2);
      store_words(c_, seq, *h, 4, 0);
      if (c_.plan.twice) store_words(c_, seq, *h, 4, 0);
    } else if (h->shape == Shape::pair) {
      clock(1);
      first(0);
      store_words(c_, seq, *h, 2, short_ ? 0 : 8);
      if (c_.plan.twice) store_words(c_, seq, *h, 2, short_ ? 0 : 8);
      if (!short_) store_header(c_, seq, *h, word0);
    } else {
      put(seq, enc::cs2r32(h->r(0), enc::sr_clock_lo), {.stall = std::max(settles, vector_to_memory)});
      store_words(c_, seq, *h, 1, 12);
      first(0);
      store_words(c_, seq, *h, 1, 8);
      store_header(c_, seq, *h, word0);
      if (c_.plan.twice) store_header(c_, seq, *h, word0);
    }
    if (over) put(seq, enc::umov_imm(begun, wire::no_begin));
    bump_address(c_, seq, bytes, 1 + 1 + vector_to_memory);   // an instruction, a clock, and its way to the store
    append(i, seq);
    return {};
  }

  ProbeContext& c_;
  uint32_t site_;
  InstIndex first_, to_ = 0;
  std::optional<Holder> holder_;
  unsigned lacks_ = 0, settled_ = 0;   // cycles: that the clock is late for its move; from the move to where the stretch may end
  bool short_ = false;
};

// Instruction `last` of the block is an EXIT of some lanes, and no warp was ever seen to end there: what follows was executed as
// often, and is entered from there alone. A record in front of it would only be in the way of those that go on.
bool always_passed(const ProbeContext& c, uint32_t block, InstIndex last) {
  const auto& next = c.blocks.successors[block];
  if (c.code.insts[last].fx.flow != sass::Flow::exit || next.size() != 1) return false;
  uint32_t entered_from = 0;
  for (const auto& successors : c.blocks.successors)
    entered_from += static_cast<uint32_t>(std::count(successors.begin(), successors.end(), next[0]));
  const std::vector<uint64_t>& executions = c.plan.executions;
  return entered_from == 1 && next[0] < executions.size() && block < executions.size() && executions[block] != 0 &&
         executions[next[0]] == executions[block];
}

// Where a warp may go on behind the block: what follows it, and where lanes part any other block with some of them.
std::vector<InstIndex> behind_block(const ProbeContext& c, uint32_t block, InstIndex begin) {
  std::vector<InstIndex> places;
  const InstIndex last = c.blocks.blocks[block].last();
  const bool all_lanes = block < c.plan.full_blocks.size() && c.plan.full_blocks[block];
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    const auto& next = c.blocks.successors[block];
    const bool follows = std::find(next.begin(), next.end(), b) != next.end();
    const bool parted = !all_lanes && !(b < c.plan.full_blocks.size() && c.plan.full_blocks[b]) &&
                        !(b < c.plan.executions.size() && c.plan.executions[b] == 0);
    if (follows || parted) places.push_back(c.blocks.blocks[b].first);
  }
  // In front of an EXIT, but where the stretch only begins there: that of lanes that leave takes no time.
  if (c.code.insts[last].fx.flow == sass::Flow::exit && !always_passed(c, block, last) && (places.empty() || begin != last) &&
      std::find(places.begin(), places.end(), last) == places.end())
    places.push_back(last);
  return places;
}

Status insert_stretch(ProbeContext& c, uint32_t site, InstIndex i, wire::Site& info) {
  if (c.layout.wraps) return unsupported("stretches are measured in plain slots only");   // others use all uniform registers
  if (c.scratch.uniform().few) return unsupported("stretches need more uniform registers than kernel {} leaves", c.code.kernel);
  const uint32_t number = c.blocks.block_of[i];
  const ProbeBlock& block = c.blocks.blocks[number];
  const bool kernel = c.plan.around == Around::kernel;
  const bool anywhere = c.plan.around == Around::block;   // in the block
  if (!anywhere && i != (kernel ? 0 : block.first)) return bad_input("{} begins no {}", where(c.code, i), kernel ? "kernel" : "block");
  if (!c.blocks.runs_once(0)) return unsupported("the first instruction of kernel {} is jumped to", c.code.kernel);
  Stretch stretch(c, site, i);
  std::vector<InstIndex> places;
  InstIndex latest = block.last();
  if (kernel) {
    for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
      const InstIndex last = c.blocks.blocks[b].last();
      if (c.code.insts[last].fx.flow == sass::Flow::exit && !always_passed(c, b, last)) places.push_back(last);
    }
    latest = i;
  } else if (c.plan.around == Around::body) {
    if (block.count < 2) return bad_input("the block at {} has one instruction", where(c.code, i));
    places.push_back(block.last());
  } else {
    places = behind_block(c, number, i);
  }
  if (places.empty()) return unsupported("nothing follows {}", where(c.code, block.last()));
  const bool ends_inside = std::find(places.begin(), places.end(), latest) != places.end();
  if (ends_inside && latest > i) --latest;
  if (!kernel) put(c.out.before[0], enc::umov_imm(c.scratch.uniform().temp, wire::no_begin), {.stall = uniform_to_vector});
  XT_TRY_STATUS(stretch.begins_with(latest, block.last()));
  XT_TRY_STATUS(stretch.ends_at(places));
  info.overhead_cycles = stretch.begin();
  info.least_cycles = 0;
  return {};
}

}  // namespace

bool parts_lanes(const sass::Effects& fx) {
  return fx.flow != sass::Flow::next || !fx.falls_through || (fx.may_switch_path && fx.mnemonic != "BAR");
}

Status insert_pair(ProbeContext& c) {
  if (c.plan.pair_sites.size() != 1)
    return internal("the pair probe takes one site a replay, got {}", c.plan.pair_sites.size());
  for (uint32_t site = 0; site < c.plan.pair_sites.size(); ++site) {
    const uint32_t pc = c.plan.pair_sites[site].value;
    const InstIndex i = c.code.index(pc);
    if (pc % sass::inst_bytes != 0 || i >= c.code.insts.size() || !c.code.reachable[i])
      return bad_input("no reachable instruction at {:#x} of kernel {}", pc, c.code.kernel);
    const sass::Effects& fx = c.code.insts[i].fx;
    wire::Site info{pc, parts_lanes(fx) && c.plan.around == Around::instruction, 0, sass::get_control(c.code.insts[i].raw).stall};
    if (c.plan.around != Around::instruction) {
      XT_TRY_STATUS(insert_stretch(c, site, i, info));
    } else if (!info.edge) {
      const InstIndex last = i + c.plan.span - 1;
      if (last >= c.code.insts.size() || c.blocks.block_of[last] != c.blocks.block_of[i] || parts_lanes(c.code.insts[last].fx))
        return bad_input("the {} instructions from {} on leave their block", c.plan.span, where(c.code, i));
      if (!short_site(c, i)) XT_TRY_STATUS(plain_site(c, site, i));
    } else {
      unsigned overhead = 0;
      if (c.plan.span != 1) return bad_input("{} ends its block", where(c.code, i));
      for (InstIndex s : c.code.successors(i)) {
        XT_TRY_STATUS(edge_record(c, wire::RecordKind::edge_end, site, s, overhead));
      }
      XT_TRY_STATUS(edge_record(c, wire::RecordKind::edge_begin, site, i, overhead));
      info.overhead_cycles = overhead;
    }
    c.map.sites.push_back(info);
  }
  return insert_exit_headers(c);
}

uint32_t pair_record_bytes(const Code&, const ProbeBlock&, const Scope&) { return wire::chunk_bytes; }

}  // namespace xtrace::instrument
