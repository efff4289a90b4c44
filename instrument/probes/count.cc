// `count`: executions by a warp and active lanes of every block, added by reductions to one pair of counters a block, and
// per warp the bytes that `block` and `inst` records would take. Needs no slots; it sizes theirs.
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {

Status insert_count(ProbeContext& c) {
  namespace enc = sass::enc;
  using namespace latency;
  const UniformPlan& ur = c.scratch.uniform();
  if (c.code.arch->sm < 90)
    return unsupported("the count probe elects a lane with ELECT, which {} does not have", c.code.arch->name);
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    const ProbeBlock& block = c.blocks.blocks[b];
    XT_TRY(const Quad q, c.scratch.quad(block.first, block.first, std::nullopt));
    XT_TRY(const enc::Pred leader, c.scratch.predicate(block.first));
    const auto counter = static_cast<int32_t>(b * sizeof(wire::BlockCount));
    Sequence& seq = c.out.before[block.first];
    put(seq, enc::uiadd3_imm(ur.cursor, ur.cursor, block_record_bytes(block.count)));
    put(seq, enc::uiadd3_imm(ur.mask, ur.mask, inst_record_bytes(block.count)));
    put(seq, enc::mov_imm(q.r(0), 1), {.stall = 1, .wait_mask = c.scratch.scoreboards()});
    put(seq, enc::mov_imm(q.r(1), 0));
    put(seq, enc::elect(leader), {.stall = predicate_to_guard});
    put(seq, enc::red_add_u64({ur.address, enc::RZ, counter + 8}, q.r(0)),
        {.stall = scoreboard_visible, .read_barrier = q.scoreboard});
    put(seq, enc::with_guard(enc::red_add_u64({ur.address, enc::RZ, counter}, q.r(0)), leader),
        {.stall = scoreboard_visible, .read_barrier = q.scoreboard});
    guard_borrowed(c, q, block.first, block.last());
  }
  return insert_exit_headers(c);
}

}  // namespace xtrace::instrument
