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
  return fx.flow != sass::Flow::next || !fx.falls_through || (fx.may_switch_path && !fx.is_bssy_target && fx.mnemonic != "BAR");
}

using Shape = Holder::Shape;

Status plain_site(ProbeContext& c, uint32_t site, InstIndex i) {
  XT_TRY(const Holder h, c.scratch.holder(i, i + 1, {Shape::quad, Shape::two_pairs, Shape::pair}, std::nullopt));
  const uint32_t word0 = wire::word0(wire::RecordKind::pair, site);
  // The clocks stand in words 2 and 3; a pair of registers holds them alone and then word0 and mask.
  const unsigned clocks = h.shape == Shape::pair ? 0 : 2;
  put(c.out.before[i], enc::cs2r32(h.r(clocks), enc::sr_clock_lo));
  Sequence& seq = c.out.after[i];
  put(seq, enc::cs2r32(h.r(clocks + 1), enc::sr_clock_lo), {.stall = h.shape == Shape::pair ? vector_to_memory : 1});
  bump_cursor(c, seq, wire::chunk_bytes);
  if (h.shape == Shape::pair) store_words(c, seq, h, 2, 8);
  put(seq, enc::mov_imm(h.r(0), word0));
  put(seq, enc::vote_any_active(h.r(1)), {.stall = vector_to_memory});
  store_words(c, seq, h, h.shape == Shape::pair ? 2 : 4, 0);
  // Before this site's next store: a branch back (5 cycles or more) and the two clocks.
  bump_address(c, seq, wire::chunk_bytes, 5 + 1 + least_head_cycles);
  return {};
}

// One record with one clock; returns the cycles between the clock and the end of the sequence.
Status edge_record(ProbeContext& c, wire::RecordKind kind, uint32_t site, InstIndex i, unsigned& overhead) {
  XT_TRY(const Holder h, c.scratch.holder(i, i, {Shape::quad, Shape::two_pairs, Shape::pair}, std::nullopt));
  const uint32_t word0 = wire::word0(kind, site);
  Sequence seq;
  bump_cursor(c, seq, wire::chunk_bytes);
  if (h.shape != Shape::pair) {
    put(seq, enc::mov_imm(h.r(0), word0));
    put(seq, enc::vote_any_active(h.r(1)));
  }
  const unsigned before_clock = least_cycles(seq);
  put(seq, enc::cs2r64(h.r(h.shape == Shape::pair ? 0 : 2), enc::sr_clock_lo), {.stall = vector_to_memory});
  if (h.shape == Shape::pair) {
    store_words(c, seq, h, 2, 8);
    put(seq, enc::mov_imm(h.r(0), word0));
    put(seq, enc::vote_any_active(h.r(1)), {.stall = vector_to_memory});
    store_words(c, seq, h, 2, 0);
  } else {
    store_words(c, seq, h, 4, 0);
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
    wire::Site info{pc, is_edge(fx), 0};
    if (!info.edge) {
      XT_TRY_STATUS(plain_site(c, site, i));
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

}  // namespace xtrace::instrument
