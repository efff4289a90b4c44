// `block`: { word0, mask, clock (64 bits) } at the head of every block.
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {

Status insert_block(ProbeContext& c) {
  namespace enc = sass::enc;
  using namespace latency;
  std::optional<Quad> previous;
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    const ProbeBlock& block = c.blocks.blocks[b];
    XT_TRY(const Quad q, c.scratch.quad(block.first, block.first, previous));
    previous = q;
    Sequence seq;
    bump_cursor(c, seq, wire::chunk_bytes);
    begin_record(c, seq, q, wire::RecordKind::block, b);
    put(seq, enc::cs2r64(q.r(2), enc::sr_clock_lo), {.stall = vector_to_memory});
    const unsigned before_store = least_cycles(seq);
    store_record(c, seq, q, 4, 0);
    // The next store comes after this block and the next head.
    unsigned until_next = before_store;
    for (InstIndex i = block.first; i <= block.last(); ++i) until_next += sass::get_control(c.code.insts[i].raw).stall;
    bump_address(c, seq, wire::chunk_bytes, address_stall(until_next));
    c.out.before[block.first].insert(c.out.before[block.first].end(), seq.begin(), seq.end());
    guard_borrowed(c, q, block.first, block.last());
    c.map.blocks[b].record_bytes = wire::chunk_bytes;
  }
  return insert_exit_headers(c);
}

}  // namespace xtrace::instrument
