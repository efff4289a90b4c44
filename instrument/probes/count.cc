// `count`: executions by a warp and active lanes of every block, added by reductions to one pair of counters a block, and
// per warp the bytes that `block` and `inst` records would take, and those of Plan::counted. Needs no slots; it sizes theirs.
//
// Reductions of several lanes, and of all warps, to one address come one after another: launches took 12 to 2,500 times as long [measured
// H200, docs/performance.md "What count costs"]. So one lane adds for all, and warps add to many copies of the counters.
// Where nothing but the counts is wanted (Plan::counts_alone), executions and lanes go out in one reduction.
//
// What that takes is a predicate and a pair of registers. Where a block leaves less: one register, for additions of 32 bits
// (wire::Block::narrow_count); one that the kernel waits for later; one of the kernel's predicates, which stands aside in a register
// meanwhile (rule lent-predicate of verify.h); a pair at the price of occupancy.
//
// Where nothing of that is to be had, every active lane adds 1 to `lanes`, and 1 or 0 to `warps`: 1 in the lowest active lane, found without a predicate:
// x = active mask & lanes below; leader = (x == 0) = 1 - ((x | -x) >> 31). In one register the active mask is in a uniform
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
// Where one lane adds for all. What needs the result of what stands in front of it waits behind instructions of the kernel.
struct Leader {
  InstIndex vote, popc, add;           // in this order, in one block
  unsigned pause;                      // cycles between vote and popc that the kernel's instructions do not take
  enc::Pred leads;                     // free from vote to add
  Holder holder;                       // free from popc to add; of one register: counters of 32 bits
  std::optional<enc::Gpr> aside = std::nullopt;   // the predicate is the kernel's, and stands aside here; all is at one place
  unsigned back_in = 0;                // cycles from its return to the kernel's next instruction, at least
};
// What the sum goes out from: two registers at no cost in occupancy, one, one at one place that the kernel waits for later, or two at
// whatever cost.
enum class Room : uint8_t { pair, single, waited, any_pair };
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

constexpr unsigned vote_to_use = std::max(latency::uniform_to_vector, latency::predicate_to_guard);

bool elects(const Code& code) { return enc::exists(*code.arch, enc::elect(enc::PT)); }

std::optional<Holder> room_for_sum(ProbeContext& c, InstIndex from, InstIndex to, Room room, const std::optional<Holder>& beside = std::nullopt) {
  if (room == Room::waited) {
    auto found = from == to ? c.scratch.after_wait(to, Holder::Shape::single, beside) : std::nullopt;
    if (found && beside && found->reg[0] == beside->reg[0]) return std::nullopt;
    return found;
  }
  if (room != Room::any_pair)
    return c.scratch.try_holder(from, to, {room == Room::pair ? Holder::Shape::pair : Holder::Shape::single}, std::nullopt);
  if (const auto grown = c.scratch.holder(from, to, {Holder::Shape::pair}, std::nullopt)) return *grown;
  return c.scratch.beyond_limit();
}

// From the head of the block as far as there is one, else at one place, which is all that needs no ELECT.
std::optional<Leader> find_leader_of(ProbeContext& c, const ProbeBlock& block, Room room) {
  const auto from = [&](InstIndex vote, InstIndex add) -> std::optional<Leader> {
    const auto leads = c.scratch.predicate(vote, add, Scratch::LaneGroupsToo::yes);
    if (!leads) return std::nullopt;
    InstIndex popc = vote;
    unsigned passed = 0;
    for (; popc < add && passed < vote_to_use; ++popc) passed += stall_cycles(c.code, popc, popc + 1);
    const auto holder = room_for_sum(c, popc, add, room);
    if (!holder) return std::nullopt;
    return Leader{vote, popc, add, passed < vote_to_use ? vote_to_use - passed : 0, *leads, *holder};
  };
  if ((room == Room::single || room == Room::waited) && !elects(c.code)) return std::nullopt;   // without ELECT it takes two
  const bool turns = !c.plan.counts_alone && c.scope.sites.nth > 1;   // points count theirs in UniformPlan::temp, in between
  if (elects(c.code) && !c.scratch.uniform().few && !turns && room != Room::waited)
    for (InstIndex add = block.last() + 1; add-- > block.first;)
      if (const auto found = from(block.first, add)) return found;
  std::optional<Leader> latest;
  for (InstIndex at = block.first; at <= block.last(); ++at) {
    const auto found = from(at, at);
    if (!found) continue;
    latest = found;
    // Where the kernel itself waits for the register, nobody waits longer; else the later the better.
    if (room != Room::waited || (found->holder.wait_mask & ~sass::get_control(c.code.insts[at].raw).wait_mask) == 0) break;
  }
  return latest;
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

// Sets `leads`, and r0 to the number of active lanes; whoever uses that waits for the holder's scoreboard.
void vote_by_elect(Insertions& out, const Leader& l, enc::Ureg active) {
  put(out.before[l.vote], enc::elect(l.leads));
  put(out.before[l.vote], enc::voteu_any(active, enc::PT));
  Sequence& seq = out.before[l.popc];
  if (l.pause > 1) put_pause(seq, l.pause - 1);
  put(seq, enc::popc(l.holder.r(0), active), {.stall = latency::scoreboard_visible, .write_barrier = l.holder.scoreboard});
}
// The same at one place, without a uniform register for the active lanes.
void vote_in_place(Sequence& seq, const Leader& l) {
  using namespace latency;
  const Holder& q = l.holder;
  put(seq, enc::elect(l.leads));
  put(seq, enc::vote_any_active(q.r(0)), {.stall = vector_to_vector, .wait_mask = q.wait_mask});
  put(seq, enc::popc(q.r(0), q.r(0)), {.stall = predicate_to_guard - vector_to_vector, .write_barrier = q.scoreboard});
}
void vote_by_mask(Sequence& seq, const Leader& l) {
  using namespace latency;
  const Holder& q = l.holder;
  put(seq, enc::s2r(q.r(1), enc::sr_ltmask), {.stall = scoreboard_visible, .write_barrier = q.scoreboard});
  put(seq, enc::vote_any_active(q.r(0)), alu);
  put(seq, enc::lop3(q.r(1), q.r(0), q.r(1), enc::RZ, lut_and), {.stall = vector_to_vector, .wait_mask = own(q)});
  put(seq, enc::isetp_imm(l.leads, enc::Compare::eq, false, q.r(1), 0));
  put(seq, enc::popc(q.r(0), q.r(0)), {.stall = predicate_to_guard, .write_barrier = q.scoreboard});
}

// Adds executions and lanes, 64 bits each, or 32 from one register; or, packed, both as one number.
void count_by_leader(Sequence& seq, const Leader& l, bool packed, enc::Ureg counters, int32_t at) {
  using namespace latency;
  const Holder& q = l.holder;
  const bool narrow = q.shape == Holder::Shape::single;
  const auto add = [&](int32_t to) {
    Schedule schedule = sends(q);
    schedule.wait_mask = own(q);
    const enc::UniformAddress address{counters, enc::RZ, to};
    put(seq, enc::with_guard(narrow ? enc::red_add_u32(address, q.r(0)) : enc::red_add_u64(address, q.r(0)), l.leads), schedule);
  };
  if (!narrow) put(seq, enc::mov_imm(q.r(1), packed ? 1 : 0), {.stall = vector_to_memory});
  else if (packed) put(seq, enc::iadd3_imm(q.r(0), q.r(0), 1u << wire::narrow_lane_bits, enc::RZ), {.stall = vector_to_memory, .wait_mask = own(q)});
  if (packed) return add(at);
  add(at + 8);
  put(seq, enc::mov_imm(q.r(0), 1), {.stall = vector_to_memory, .wait_mask = own(q)});
  add(at);
}

// Where every counter has the same high word, and so the address of each warp's.
std::optional<uint32_t> high_word_of_counters(const ProbeContext& c) {
  const uint64_t first = c.layout.counters;
  const uint64_t last = first + uint64_t{c.layout.counter_copies} * c.layout.copy_bytes - 1;
  if (first >> 32 != last >> 32) return std::nullopt;
  return static_cast<uint32_t>(first >> 32);
}

// Known from the counting replays: a launch that does something else does not do it many times more often.
bool are_fewer(const ProbeContext& c, uint32_t block, uint64_t executions) {
  constexpr uint64_t to_spare = 16;
  return c.plan.counts_alone && block < c.plan.executions.size() && c.plan.executions[block] < executions / to_spare;
}

// Executions and lanes as one number of 32 bits: few in all; or each lane executes the block once, and no copy is that of too many warps.
bool fits_narrow(const ProbeContext& c, uint32_t block) {
  if (are_fewer(c, block, wire::narrow_packed_executions)) return true;
  const uint64_t warps = (uint64_t{c.layout.warps} + c.layout.counter_copies - 1) / c.layout.counter_copies;
  return c.plan.counts_alone && 32 * warps < wire::narrow_packed_executions && !c.blocks.may_repeat(block);
}

// Cycles from in front of an instruction to the kernel's next use or definition of a predicate; to the end of the block where there is none.
unsigned cycles_to(const Code& code, const ProbeBlock& block, InstIndex at, uint8_t predicate) {
  unsigned cycles = 0;
  for (; at <= block.last() && cycles < latency::predicate_to_guard; ++at) {
    const sass::Effects& fx = code.insts[at].fx;
    if ((fx.use.pred | fx.def.pred) >> predicate & 1) break;
    cycles += stall_cycles(code, at, at + 1);
  }
  return cycles;
}

// Where no predicate is free: one of the kernel's stands aside in a register. That which the kernel asks for last, at the place where
// its return delays the kernel least.
std::optional<Leader> find_borrower(ProbeContext& c, const ProbeBlock& block, Room room) {
  if ((room == Room::single || room == Room::waited) && !elects(c.code)) return std::nullopt;
  std::optional<Leader> best;
  for (InstIndex at = block.first; at <= block.last() && (!best || best->back_in > 1); ++at) {
    std::optional<uint8_t> leads;
    unsigned back_in = 0;
    for (uint8_t p = 0; p < 7; ++p) {
      if ((c.liveness.settled_predicates_before(at) >> p & 1) == 0) continue;
      const unsigned passes = cycles_to(c.code, block, at, p);
      const unsigned lack = passes < latency::predicate_to_guard ? latency::predicate_to_guard - passes : 1;
      if (!leads || lack < back_in) leads = p, back_in = lack;
    }
    if (!leads || (best && best->back_in <= back_in)) continue;
    const std::initializer_list<Holder::Shape> one = {Holder::Shape::single};
    std::optional<Holder> aside, sum;
    if (room == Room::waited) {
      aside = c.scratch.try_holder(at, at, one, std::nullopt);
      if (aside) sum = room_for_sum(c, at, at, room, aside);
    } else if (sum = room_for_sum(c, at, at, room); sum) {
      sass::RegSet taken;
      for (uint32_t k = 0; k < registers_of(sum->shape); ++k) taken.set(sum->reg[k]);
      aside = c.scratch.try_holder(at, at, one, std::nullopt, taken);
      if (!aside && room == Room::any_pair)
        if (const auto grown = c.scratch.holder(at, at, one, std::nullopt, taken)) aside = *grown;
    }
    if (aside && sum) best = Leader{at, at, at, vote_to_use, {*leads}, *sum, aside->r(0), back_in};
  }
  return best;
}

// In counting replays launches that take another path each time can not be counted in 32 bits, and nothing is timed: there two
// registers go before occupancy.
std::optional<Leader> find_leader(ProbeContext& c, uint32_t b) {
  const ProbeBlock& block = c.blocks.blocks[b];
  const bool may_be_narrow = are_fewer(c, b, wire::narrow_executions) || fits_narrow(c, b);
  struct Try {
    std::optional<Leader> (*find)(ProbeContext&, const ProbeBlock&, Room);
    Room room;
  };
  for (const auto& [find, room] : {Try{find_leader_of, Room::pair}, Try{find_leader_of, Room::single}, Try{find_borrower, Room::pair},
                                   Try{find_borrower, Room::single}, Try{find_leader_of, Room::waited}, Try{find_borrower, Room::waited},
                                   Try{find_leader_of, Room::any_pair}, Try{find_borrower, Room::any_pair}}) {
    if ((room == Room::single || room == Room::waited) && !may_be_narrow) continue;
    if (const auto found = find(c, block, room)) return found;
  }
  return std::nullopt;
}

// What an execution of the block adds to the sums of its warp.
void add_bytes(const ProbeContext& c, uint32_t b, Sequence& seq) {
  if (c.plan.counts_alone || c.unrecorded(b)) return;
  const UniformPlan& ur = c.scratch.uniform();
  const ProbeBlock& block = c.blocks.blocks[b];
  const uint32_t counted = !c.plan.counted_bytes.empty()        ? c.plan.counted_bytes[b]
                           : c.plan.counted == ProbeKind::mem ? mem_record_bytes(c.code, block, c.scope)
                                                              : 0;
  if (!ur.few) {
    put(seq, enc::uiadd3_imm(ur.cursor, ur.cursor, block_record_bytes(c.code, block, c.scope)));
    put(seq, enc::uiadd3_imm(ur.mask, ur.mask, inst_record_bytes(c.code, block, c.scope)));
    if (counted != 0) put(seq, enc::uiadd3_imm(ur.base, ur.base, counted));
    return;
  }
  const uint32_t bytes = c.plan.sum == Plan::Sum::block  ? block_record_bytes(c.code, block, c.scope)
                         : c.plan.sum == Plan::Sum::inst ? inst_record_bytes(c.code, block, c.scope)
                                                         : counted;
  if (bytes != 0) put(seq, enc::uiadd3_imm(ur.cursor, ur.cursor, bytes));
}

}  // namespace

Status insert_count(ProbeContext& c) {
  const UniformPlan& ur = c.scratch.uniform();
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    const ProbeBlock& block = c.blocks.blocks[b];
    const auto counter = static_cast<int32_t>(b * sizeof(wire::BlockCount));
    if (const auto leader = find_leader(c, b)) {
      c.map.blocks[b].narrow_count = leader->holder.shape == Holder::Shape::single;
      c.map.blocks[b].packed_count = c.map.blocks[b].narrow_count ? fits_narrow(c, b) : are_fewer(c, b, wire::packed_executions);
      add_bytes(c, b, c.out.before[leader->vote]);
      if (leader->aside) put(c.out.before[leader->vote], enc::sel_imm(*leader->aside, enc::RZ, 1, leader->leads));
      if (elects(c.code) && !ur.few && !leader->aside && leader->holder.wait_mask == 0)
        vote_by_elect(c.out, *leader, ur.temp);
      else if (elects(c.code))
        vote_in_place(c.out.before[leader->vote], *leader);
      else
        vote_by_mask(c.out.before[leader->vote], *leader);
      count_by_leader(c.out.before[leader->add], *leader, c.map.blocks[b].packed_count, ur.address, counter);
      if (leader->aside)
        put(c.out.before[leader->add], enc::isetp_imm(leader->leads, enc::Compare::eq, false, *leader->aside, 0), {.stall = leader->back_in});
      continue;
    }
    XT_TRY(const Place place, find_place(c, block));
    Sequence& seq = c.out.before[place.at];
    add_bytes(c, b, seq);
    c.map.blocks[b].narrow_count = place.holder.shape == Holder::Shape::single;
    const auto high = c.map.blocks[b].narrow_count && ur.few ? high_word_of_counters(c) : std::nullopt;
    if (c.map.blocks[b].narrow_count && ur.few && !high)
      return unsupported("block {} leaves one register to count in, and the kernel no uniform register beside it", b);
    if (c.map.blocks[b].narrow_count)
      count_by_single(seq, place.holder, ur.address, high ? high_half(ur.address) : ur.temp, high, counter);
    else
      count_by_pair(seq, place.holder, ur.address, counter);
  }
  if (!c.plan.counts_alone && c.plan.counted != ProbeKind::mem && c.plan.counted_bytes.empty() && (!ur.few || c.plan.sum == Plan::Sum::counted)) {
    XT_TRY(const std::vector<PointPlan> points, find_points(c.plan.counted, {c.code, c.blocks, c.liveness, c.scope}));
    XT_TRY_STATUS(count_points(c, points));
  }
  return insert_exit_headers(c);
}

uint32_t count_record_bytes(const Code&, const ProbeBlock&, const Scope&) { return 0; }

}  // namespace xtrace::instrument
