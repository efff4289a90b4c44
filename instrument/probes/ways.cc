// `block` in plain slots: regions without records in which each lane numbers the way that it takes (way_numbers.h). A number goes to the register at the
// end of a block. Where lanes end they store theirs to their word of the slot's column, under the guard of the EXIT: a store without a lane takes one
// cycle of the memory pipe, a record three.
#include <algorithm>

#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

constexpr BitRange guard_field = bits(15, 12);   // guard predicate and its negation [sass.md 1.1]

}  // namespace

void describe_ways(ProbeContext& c, const std::vector<WayRegion>& regions) {
  for (const WayRegion& region : regions) {
    for (const WayRegion::Part& p : region.parts) {
      if (may_end(c.code, c.blocks.blocks[p.block])) c.map.layout.ends_at = c.layout.lead_bytes;
      wire::Block& block = c.map.blocks[p.block];
      block.numbered = true;
      block.way_number = p.number;
      block.way_adds = p.adds;
    }
    c.map.blocks[region.from].way_number = region.start;
    wire::Block& to = c.map.blocks[region.to];
    to.has_ways = true;
    to.rounds_at = to.full ? 4 : 8;
  }
}

void insert_ways(ProbeContext& c) {
  const enc::Gpr r = *c.ways;
  if (c.map.layout.ends_at != 0 && c.held_head) c.map.layout.ends_at += c.held_head->record_bytes;   // which stands behind the head
  for (uint32_t b = 0; b < c.map.blocks.size(); ++b) {
    const wire::Block& block = c.map.blocks[b];
    if (!block.numbered && block.way_number == 0) continue;
    const InstIndex last = c.blocks.blocks[b].last();
    const sass::RawInst& own = c.code.insts[last].raw;
    const bool ends = block.numbered && may_end(c.code, c.blocks.blocks[b]);
    Sequence& at = c.out.before[last];
    const unsigned stall = ends ? 0 : stall_cycles(c.code, last, last + 1);
    const unsigned behind = std::max(1u, vector_to_memory - std::min(stall, vector_to_memory));
    if (block.way_number != 0) put(at, enc::mov_imm(r, block.way_number), {.stall = behind});
    else if (block.way_adds != 0) put(at, enc::iadd3_imm(r, r, block.way_adds, enc::RZ), {.stall = behind});
    if (!ends) continue;
    sass::RawInst store = with_record_policy(
        enc::stg({c.scratch.uniform().header, *c.lane_offset, -static_cast<int32_t>(wire::column_bytes)}, r, enc::Size::b32));
    set_bits(store, guard_field, get_bits(own, guard_field));
    put(at, store, {.stall = scoreboard_visible, .read_barrier = c.scratch.scoreboard()});
  }
}

}  // namespace xtrace::instrument
