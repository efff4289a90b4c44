// `count`: executions by a warp and active lanes of every block, added by reductions to one pair of counters a block, and
// per warp the bytes that `block` and `inst` records would take, and those of Plan::counted. Needs no slots; it sizes theirs.
//
// Every active lane adds 1 to `lanes`, and 1 or 0 to `warps`: 1 in the lowest active lane, found without a predicate,
// because a kernel may have none to spare: x = active mask & lanes below; leader = (x == 0) = 1 - ((x | -x) >> 31). Where a
// block leaves one register alone, its counters have 32 bits (wire::Block::narrow_count), and the active mask is in a uniform
// register: a spare one, or the high half of the counters' address, which is one number for all warps and put back.
#include "instrument/points.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;

constexpr uint8_t lut_and = 0xc0, lut_or = 0xfc, lut_not_a = 0x0f, lut_xor = 0x3c;   // of a, b (c = RZ)

struct Place {
  InstIndex at;
  Holder holder;
};
// Two registers somewhere in the block; else at its head, at the price of occupancy: this pass is not timed; else one; else two above the limit
// that the kernel was compiled for (__launch_bounds__, -maxrregcount), which the launch may hold all the same.
Result<Place> find_place(ProbeContext& c, const ProbeBlock& block) {
  const auto search = [&](Holder::Shape shape) -> std::optional<Place> {
    for (InstIndex at = block.first; at <= block.last(); ++at)
      if (const auto h = c.scratch.try_holder(at, at, {shape}, std::nullopt)) return Place{at, *h};
    return std::nullopt;
  };
  if (const auto pair = search(Holder::Shape::pair)) return *pair;
  const auto grown = c.scratch.holder(block.first, block.first, {Holder::Shape::pair}, std::nullopt);
  if (grown) return Place{block.first, *grown};
  if (const auto single = search(Holder::Shape::single)) return *single;
  if (const auto beyond = c.scratch.beyond_limit()) return Place{block.first, *beyond};
  return tl::make_unexpected(grown.error());
}

constexpr Schedule alu{.stall = latency::vector_to_vector};
Schedule sends(const Holder& h) { return {.stall = latency::scoreboard_visible, .read_barrier = h.scoreboard}; }
uint8_t own(const Holder& h) { return static_cast<uint8_t>(1u << h.scoreboard); }

// Adds leader and 1, 64 bits each.
void count_by_pair(Sequence& seq, const Holder& q, enc::Ureg counters, int32_t at) {
  using namespace latency;
  put(seq, enc::s2r(q.r(1), enc::sr_ltmask), {.stall = scoreboard_visible, .write_barrier = q.scoreboard});
  put(seq, enc::vote_any_active(q.r(0)), alu);
  put(seq, enc::lop3(q.r(0), q.r(0), q.r(1), enc::RZ, lut_and), {.stall = vector_to_vector, .wait_mask = own(q)});
  put(seq, enc::lop3(q.r(1), q.r(0), enc::RZ, enc::RZ, lut_not_a), alu);
  put(seq, enc::iadd3_imm(q.r(1), q.r(1), 1, enc::RZ), alu);
  put(seq, enc::lop3(q.r(0), q.r(0), q.r(1), enc::RZ, lut_or), alu);
  put(seq, enc::shf_r_u32_hi_imm(q.r(0), q.r(0), 31), alu);
  put(seq, enc::lop3_imm(q.r(0), q.r(0), 1, enc::RZ, lut_xor));
  put(seq, enc::mov_imm(q.r(1), 0), alu);
  put(seq, enc::red_add_u64({counters, enc::RZ, at}, q.r(0)), sends(q));
  put(seq, enc::mov_imm(q.r(0), 1), {.stall = vector_to_vector, .wait_mask = own(q)});
  put(seq, enc::red_add_u64({counters, enc::RZ, at + 8}, q.r(0)), sends(q));
}

// The same in one register, and to the low halves alone: whoever reads them checks that they did not overflow. x has no
// sign, so that leader is the sign of x - 1.
void count_by_single(Sequence& seq, const Holder& q, enc::Ureg counters, enc::Ureg active, std::optional<uint32_t> put_back, int32_t at) {
  using namespace latency;
  put(seq, enc::voteu_any(active, enc::PT));
  put(seq, enc::s2r(q.r(0), enc::sr_ltmask), {.stall = scoreboard_visible, .write_barrier = q.scoreboard});
  put_pause(seq, uniform_to_vector - scoreboard_visible);
  put(seq, enc::lop3_ur(q.r(0), q.r(0), active, enc::RZ, lut_and), {.stall = vector_to_vector, .wait_mask = own(q)});
  if (put_back) put(seq, enc::umov_imm(active, *put_back));
  put(seq, enc::iadd3_imm(q.r(0), q.r(0), ~0u, enc::RZ), alu);
  put(seq, enc::shf_r_u32_hi_imm(q.r(0), q.r(0), 31), {.stall = vector_to_memory});
  if (put_back) put_pause(seq, uniform_to_vector - 1 - vector_to_vector - vector_to_memory);
  put(seq, enc::red_add_u32({counters, enc::RZ, at}, q.r(0)), sends(q));
  put(seq, enc::mov_imm(q.r(0), 1), {.stall = vector_to_memory, .wait_mask = own(q)});
  put(seq, enc::red_add_u32({counters, enc::RZ, at + 8}, q.r(0)), sends(q));
}

// Where every counter has the same high word, and so the address of each warp's.
std::optional<uint32_t> high_word_of_counters(const ProbeContext& c) {
  const uint64_t first = c.layout.counters;
  const uint64_t last = first + (c.plan.last_apart ? 2 : 1) * c.blocks.blocks.size() * sizeof(wire::BlockCount) - 1;
  if (first >> 32 != last >> 32) return std::nullopt;
  return static_cast<uint32_t>(first >> 32);
}

}  // namespace

Status insert_count(ProbeContext& c) {
  const UniformPlan& ur = c.scratch.uniform();
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    const ProbeBlock& block = c.blocks.blocks[b];
    XT_TRY(const Place place, find_place(c, block));
    const auto counter = static_cast<int32_t>(b * sizeof(wire::BlockCount));
    Sequence& seq = c.out.before[place.at];
    const uint32_t counted = !c.plan.counted_bytes.empty()        ? c.plan.counted_bytes[b]
                             : c.plan.counted == ProbeKind::mem ? mem_record_bytes(c.code, block, c.scope)
                                                                : 0;
    if (ur.few && !c.unrecorded(b)) {
      const uint32_t bytes = c.plan.sum == Plan::Sum::block  ? block_record_bytes(c.code, block, c.scope)
                             : c.plan.sum == Plan::Sum::inst ? inst_record_bytes(c.code, block, c.scope)
                                                             : counted;
      if (bytes != 0) put(seq, enc::uiadd3_imm(ur.cursor, ur.cursor, bytes));
    } else if (!c.unrecorded(b)) {
      put(seq, enc::uiadd3_imm(ur.cursor, ur.cursor, block_record_bytes(c.code, block, c.scope)));
      put(seq, enc::uiadd3_imm(ur.mask, ur.mask, inst_record_bytes(c.code, block, c.scope)));
      if (counted != 0) put(seq, enc::uiadd3_imm(ur.base, ur.base, counted));
    }
    c.map.blocks[b].narrow_count = place.holder.shape == Holder::Shape::single;
    const auto high = c.map.blocks[b].narrow_count && ur.few ? high_word_of_counters(c) : std::nullopt;
    if (c.map.blocks[b].narrow_count && ur.few && !high)
      return unsupported("block {} leaves one register to count in, and the kernel no uniform register beside it", b);
    if (c.map.blocks[b].narrow_count)
      count_by_single(seq, place.holder, ur.address, high ? high_half(ur.address) : ur.temp, high, counter);
    else
      count_by_pair(seq, place.holder, ur.address, counter);
  }
  if (c.plan.counted != ProbeKind::mem && c.plan.counted_bytes.empty() && (!ur.few || c.plan.sum == Plan::Sum::counted)) {
    XT_TRY(const std::vector<PointPlan> points, find_points(c.plan.counted, {c.code, c.blocks, c.liveness, c.scope}));
    XT_TRY_STATUS(count_points(c, points));
  }
  return insert_exit_headers(c);
}

uint32_t count_record_bytes(const Code&, const ProbeBlock&, const Scope&) { return 0; }

}  // namespace xtrace::instrument
