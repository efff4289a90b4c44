// `count`: executions by a warp and active lanes of every block, added by reductions to one pair of counters a block, and
// per warp the bytes that `block`, `inst` and `mem` records would take. Needs no slots; it sizes theirs.
//
// Every active lane adds 1 to `lanes`, and 1 or 0 to `warps`: 1 in the lowest active lane, found without a predicate,
// because a kernel may have none to spare: x = active mask & lanes below; leader = (x == 0) = 1 - ((x | -x) >> 31).
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

constexpr uint8_t lut_and = 0xc0, lut_or = 0xfc, lut_not_a = 0x0f, lut_xor = 0x3c;   // of a, b (c = RZ)

// Where in the block two registers are free; else at its head, at the price of occupancy: this pass is not timed.
Result<std::pair<InstIndex, Holder>> find_place(ProbeContext& c, const ProbeBlock& block) {
  for (InstIndex at = block.first; at <= block.last(); ++at)
    if (const auto h = c.scratch.try_holder(at, at, {Holder::Shape::pair}, std::nullopt)) return std::pair{at, *h};
  XT_TRY(const Holder h, c.scratch.holder(block.first, block.first, {Holder::Shape::pair}, std::nullopt));
  return std::pair{block.first, h};
}

}  // namespace

Status insert_count(ProbeContext& c) {
  namespace enc = sass::enc;
  using namespace latency;
  const UniformPlan& ur = c.scratch.uniform();
  const Schedule alu{.stall = vector_to_vector};
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    const ProbeBlock& block = c.blocks.blocks[b];
    XT_TRY(const auto place, find_place(c, block));
    const auto& [at, q] = place;
    const auto counter = static_cast<int32_t>(b * sizeof(wire::BlockCount));
    const auto own = static_cast<uint8_t>(1u << q.scoreboard);
    Sequence& seq = c.out.before[at];
    put(seq, enc::uiadd3_imm(ur.cursor, ur.cursor, block_record_bytes(c.code, block, c.scope)));
    put(seq, enc::uiadd3_imm(ur.mask, ur.mask, inst_record_bytes(c.code, block, c.scope)));
    if (const uint32_t bytes = mem_record_bytes(c.code, block, c.scope))
      put(seq, enc::uiadd3_imm(ur.base, ur.base, bytes));
    put(seq, enc::s2r(q.r(1), enc::sr_ltmask),
        {.stall = scoreboard_visible, .write_barrier = q.scoreboard});
    put(seq, enc::vote_any_active(q.r(0)), alu);
    put(seq, enc::lop3(q.r(0), q.r(0), q.r(1), enc::RZ, lut_and), {.stall = vector_to_vector, .wait_mask = own});
    put(seq, enc::lop3(q.r(1), q.r(0), enc::RZ, enc::RZ, lut_not_a), alu);
    put(seq, enc::iadd3_imm(q.r(1), q.r(1), 1, enc::RZ), alu);
    put(seq, enc::lop3(q.r(0), q.r(0), q.r(1), enc::RZ, lut_or), alu);
    put(seq, enc::shf_r_u32_hi_imm(q.r(0), q.r(0), 31), alu);
    put(seq, enc::lop3_imm(q.r(0), q.r(0), 1, enc::RZ, lut_xor));
    put(seq, enc::mov_imm(q.r(1), 0), alu);
    put(seq, enc::red_add_u64({ur.address, enc::RZ, counter}, q.r(0)),
        {.stall = scoreboard_visible, .read_barrier = q.scoreboard});
    put(seq, enc::mov_imm(q.r(0), 1), {.stall = vector_to_vector, .wait_mask = own});
    put(seq, enc::red_add_u64({ur.address, enc::RZ, counter + 8}, q.r(0)),
        {.stall = scoreboard_visible, .read_barrier = q.scoreboard});
  }
  return insert_exit_headers(c);
}

uint32_t count_record_bytes(const Code&, const ProbeBlock&, const Scope&) { return 0; }

}  // namespace xtrace::instrument
