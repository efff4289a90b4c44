#include <algorithm>
#include <array>

#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

constexpr BitRange guard_field = bits(15, 12);   // guard predicate and its negation [sass.md 1.1]
constexpr uint8_t lut_and_or = 0xea;   // (a & b) | c
constexpr uint8_t lut_and = 0xc0;      // a & b

constexpr std::array bodies = {
    ProbeBody{ProbeKind::count, insert_count, block_record_bytes},
    ProbeBody{ProbeKind::block, insert_block, block_record_bytes},
    ProbeBody{ProbeKind::inst, insert_inst, inst_record_bytes},
    ProbeBody{ProbeKind::pair, insert_pair, block_record_bytes},
};

}  // namespace

std::span<const ProbeBody> probe_bodies() { return bodies; }

uint32_t block_record_bytes(uint32_t) { return wire::chunk_bytes; }

uint32_t inst_record_bytes(uint32_t instructions) {
  return static_cast<uint32_t>(align_up(8 + 4 * uint64_t{instructions}, wire::chunk_bytes));
}

void bump_cursor(ProbeContext& c, Sequence& seq, uint32_t bytes) {
  const UniformPlan& ur = c.scratch.uniform();
  if (c.layout.wraps) put(seq, enc::uiadd3_imm(ur.cursor, ur.cursor, bytes));
}

void bump_address(ProbeContext& c, Sequence& seq, uint32_t bytes, unsigned stall) {
  const UniformPlan& ur = c.scratch.uniform();
  put(seq,
      c.layout.wraps ? enc::ulop3(ur.address, ur.cursor, ur.mask, ur.base, lut_and_or)
                     : enc::uiadd3_imm(ur.address, ur.address, bytes),
      {.stall = stall});
}

unsigned address_stall(unsigned until_next_store) {
  return until_next_store >= uniform_to_vector ? 1 : std::max(1u, uniform_to_vector - until_next_store);
}

// Borrowed registers may be pending under either scoreboard when a block is entered.
uint8_t wait_for(const ProbeContext& c, const Quad& q) {
  return q.fresh && !c.scratch.borrowed() ? static_cast<uint8_t>(1u << q.scoreboard) : c.scratch.scoreboards();
}

void begin_record(ProbeContext& c, Sequence& seq, const Quad& q, wire::RecordKind kind, uint32_t index) {
  put(seq, enc::mov_imm(q.r(0), wire::word0(kind, index)), {.stall = 1, .wait_mask = wait_for(c, q)});
  put(seq, enc::vote_any_active(q.r(1)));
}

void store_record(ProbeContext& c, Sequence& seq, const Quad& q, unsigned words, uint32_t offset) {
  const enc::Size size = words == 4 ? enc::Size::b128 : words == 2 ? enc::Size::b64 : enc::Size::b32;
  put(seq, enc::stg({c.scratch.uniform().address, enc::RZ, static_cast<int32_t>(offset)}, q.r(0), size),
      {.stall = scoreboard_visible, .read_barrier = q.scoreboard});
}

void guard_borrowed(ProbeContext& c, const Quad& q, InstIndex from, InstIndex to) {
  if (q.fresh) return;
  for (InstIndex i = from; i <= to; ++i)
    for (unsigned r = q.reg; r < q.reg + 4u; ++r)
      if (c.code.insts[i].fx.def.gpr.test(r)) c.out.wait[i] |= static_cast<uint8_t>(1u << q.scoreboard);
}

Status insert_exit_headers(ProbeContext& c) {
  const UniformPlan& ur = c.scratch.uniform();
  for (const ProbeBlock& block : c.blocks.blocks) {
    const InstIndex i = block.last();
    const sass::Effects& fx = c.code.insts[i].fx;
    if (fx.flow != sass::Flow::exit) continue;
    XT_TRY(const Quad q, c.scratch.quad(i, i, std::nullopt));
    Sequence& seq = c.out.before[i];
    const bool counting = c.plan.probe == ProbeKind::count;
    enc::Ureg bytes_ur = ur.temp;
    if (counting) {
      bytes_ur = ur.cursor;
    } else if (c.layout.wraps) {
      put(seq, enc::uiadd3_imm(ur.temp, ur.cursor, -c.layout.lead_bytes), {.stall = uniform_to_vector});
    } else {
      // The address may have moved on in the instruction before.
      put(seq, enc::nop(), {.stall = uniform_to_uniform});
      put(seq, enc::ulop3(ur.temp, ur.address, ur.mask, enc::URZ, lut_and),
          {.stall = uniform_to_uniform});
      put(seq, enc::uiadd3_imm(ur.temp, ur.temp, -c.layout.lead_bytes), {.stall = uniform_to_vector});
    }
    put(seq, enc::mov_from_ur(q.r(0), bytes_ur), {.stall = 1, .wait_mask = c.scratch.scoreboards()});
    put(seq, counting ? enc::mov_from_ur(q.r(1), ur.mask) : enc::cs2r32(q.r(1), enc::sr_clock_lo),
        {.stall = vector_to_memory});
    // The EXIT's own guard and waits: only leaving lanes store, and the guard is ready where the EXIT's would be.
    sass::RawInst store = enc::stg({ur.header}, q.r(0), enc::Size::b64);
    set_bits(store, guard_field, get_bits(c.code.insts[i].raw, guard_field));
    put(seq, store,
        {.stall = scoreboard_visible, .wait_mask = sass::get_control(c.code.insts[i].raw).wait_mask,
         .read_barrier = q.scoreboard});
    if (!q.fresh && fx.guarded) put(seq, enc::nop(), {.stall = 1, .wait_mask = c.scratch.scoreboards()});
  }
  return {};
}

}  // namespace xtrace::instrument
