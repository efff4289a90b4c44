// `pair`: two clocks around one instruction, and nothing else in the kernel.
//
//   plain site    clock, instruction, clock, then one record { word0, mask, before, after } behind it
//   edge site     the instruction ends a block: one record with a clock in front of it, one at the head of each block
//                 that may follow; whoever else enters such a block writes a record that the decoder drops
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

// Lanes leave and rejoin here, so that one record can not hold both clocks.
bool is_edge(const sass::Effects& fx) {
  return fx.flow != sass::Flow::next || !fx.falls_through || (fx.may_switch_path && fx.mnemonic != "BAR");
}

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
  const auto h = c.scratch.try_holder(i, i + 1, {Shape::pair}, std::nullopt);
  if (!h) return false;
  constexpr uint32_t bytes = 8;
  put(c.out.before[i], enc::cs2r32(h->r(0), enc::sr_clock_lo));
  Sequence& seq = c.out.after[i];
  put(seq, enc::cs2r32(h->r(1), enc::sr_clock_lo), {.stall = vector_to_memory});
  store_words(c, seq, *h, 2, 0);
  bump_address(c, seq, bytes, 5 + 1 + least_head_cycles);
  c.map.layout.short_pairs = true;
  return true;
}

Status plain_site(ProbeContext& c, uint32_t site, InstIndex i) {
  const uint32_t word0 = wire::word0(wire::RecordKind::pair, site);
  Sequence& before = c.out.before[i];
  Sequence& seq = c.out.after[i];
  if (auto h = c.scratch.try_holder(i, i + 1, {Shape::quad, Shape::two_pairs}, std::nullopt)) {
    put(before, enc::cs2r32(h->r(2), enc::sr_clock_lo));
    put(seq, enc::cs2r32(h->r(3), enc::sr_clock_lo));
    bump_cursor(c, seq, wire::chunk_bytes);
    put(seq, enc::mov_imm(h->r(0), word0));
    put(seq, enc::vote_any_active(h->r(1)), {.stall = vector_to_memory});
    store_words(c, seq, *h, 4, 0);
  } else if (auto two = c.scratch.try_holder(i, i + 1, {Shape::pair}, std::nullopt)) {
    put(before, enc::cs2r32(two->r(0), enc::sr_clock_lo));
    put(seq, enc::cs2r32(two->r(1), enc::sr_clock_lo), {.stall = vector_to_memory});
    bump_cursor(c, seq, wire::chunk_bytes);
    store_words(c, seq, *two, 2, 8);
    store_header(c, seq, *two, word0);
  } else {
    // Two registers that need not be neighbours; only the first is held across the instruction.
    const auto first = c.scratch.try_holder(i, i + 1, {Shape::single}, std::nullopt);
    if (!first) return no_registers(c, i);
    const auto second = c.scratch.try_holder(i + 1, i + 1, {Shape::single}, first);
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

// One record with one clock; gives the cycles between the clock and the end of the sequence.
Status edge_record(ProbeContext& c, wire::RecordKind kind, uint32_t site, InstIndex i, unsigned& overhead) {
  const auto h = c.scratch.try_holder(i, i, {Shape::quad, Shape::two_pairs, Shape::pair, Shape::single}, std::nullopt);
  if (!h) return no_registers(c, i);
  const uint32_t word0 = wire::word0(kind, site);
  const bool whole = h->shape == Shape::quad || h->shape == Shape::two_pairs;
  Sequence seq;
  bump_cursor(c, seq, wire::chunk_bytes);
  if (whole) {
    put(seq, enc::mov_imm(h->r(0), word0));
    put(seq, enc::vote_any_active(h->r(1)));
  }
  const unsigned before_clock = least_cycles(seq);
  if (whole) {
    put(seq, enc::cs2r64(h->r(2), enc::sr_clock_lo), {.stall = vector_to_memory});
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

}  // namespace

Status insert_pair(ProbeContext& c) {
  if (c.plan.pair_sites.size() != 1)
    return internal("the pair probe takes one site a replay, got {}", c.plan.pair_sites.size());
  for (uint32_t site = 0; site < c.plan.pair_sites.size(); ++site) {
    const uint32_t pc = c.plan.pair_sites[site].value;
    const InstIndex i = c.code.index(pc);
    if (pc % sass::inst_bytes != 0 || i >= c.code.insts.size() || !c.code.reachable[i])
      return bad_input("no reachable instruction at {:#x} of kernel {}", pc, c.code.kernel);
    const sass::Effects& fx = c.code.insts[i].fx;
    wire::Site info{pc, is_edge(fx), 0, sass::get_control(c.code.insts[i].raw).stall};
    if (!info.edge) {
      if (!short_site(c, i)) XT_TRY_STATUS(plain_site(c, site, i));
    } else {
      unsigned overhead = 0;
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
