// `block`: { word0, mask, clock (64 bits) } for every execution of a block. The values are taken at its head, or at the first
// instruction in front of which four registers are free; the store is put off until they have arrived by the block's own
// stall counts. One lane, by ELECT, stores for all where a predicate is free; the store pipe's own cost is
// the same for any active mask (docs/performance.md).
#include <algorithm>

#include "instrument/behind_waits.h"
#include "instrument/implied.h"
#include "instrument/probes/probes.h"
#include "instrument/rounds.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;

class BlockHead {
 public:
  BlockHead(ProbeContext& c, uint32_t number, std::optional<Holder>& previous)
      : c_(c), block_(c.blocks.blocks[number]), word0_(wire::word0(wire::RecordKind::block, number)),
        previous_(previous), head_(c.out.before[block_.first]) {}

  Status run() {
    for (InstIndex at = block_.first; at <= block_.last(); ++at)
      if (elected(at) || put_off(at)) return {};
    // No room for four words: two, or one, at a time. The clock comes first.
    if (auto h = c_.scratch.try_holder(block_.first, block_.first, {Shape::pair, Shape::single}, previous_)) {
      h->shape == Shape::pair ? by_pair(*h) : by_single(*h);
      return {};
    }
    XT_TRY(const Holder h, c_.scratch.holder(block_.first, block_.first, {Shape::quad}, previous_));
    whole(h, block_.first, block_.first, vector_to_memory - 1, std::nullopt);
    return {};
  }

 private:
  // The first instruction in front of which `cycles` have passed since `at`, by the block's own stall counts.
  std::optional<InstIndex> after(InstIndex at, unsigned cycles) const {
    unsigned passed = 0;
    for (InstIndex i = at; i <= block_.last(); ++i) {
      if (passed >= cycles) return i;
      passed += sass::get_control(c_.code.insts[i].raw).stall;
    }
    return std::nullopt;
  }

  // ELECT, word0, mask and clock issue one a cycle: what the guard lacks comes from the block, or is waited for.
  bool elected(InstIndex at) {
    constexpr unsigned missing = predicate_to_guard - 4;
    for (InstIndex store : {after(at, missing).value_or(block_.last()), at}) {
      const auto leader = c_.leader(at, store);
      if (!leader) continue;
      const auto h = c_.scratch.try_holder(at, store, {Shape::quad, Shape::two_pairs}, previous_);
      if (!h) continue;
      const unsigned passed = stall_cycles(c_.code, at, store);
      whole(*h, at, store, passed >= missing ? 0 : missing - passed, leader);
      return true;
    }
    return false;
  }

  bool put_off(InstIndex at) {
    const unsigned missing = vector_to_memory - 1;
    for (InstIndex store : {after(at, missing).value_or(block_.last()), at}) {
      const auto h = c_.scratch.try_holder(at, store, {Shape::quad, Shape::two_pairs}, previous_);
      if (!h) continue;
      const unsigned passed = stall_cycles(c_.code, at, store);
      whole(*h, at, store, passed >= missing ? 0 : missing - passed, std::nullopt);
      return true;
    }
    return false;
  }

  void whole(const Holder& h, InstIndex from, InstIndex store, unsigned pad, std::optional<enc::Pred> leader) {
    Sequence& head = c_.out.before[from];
    if (leader) put(head, enc::elect(*leader));
    bump_cursor(c_, head, wire::chunk_bytes);
    put(head, enc::mov_imm(h.r(0), word0_));
    put(head, enc::vote_any_active(h.r(1)));
    const bool here = store == from;
    put(head, enc::cs2r64(h.r(2), enc::sr_clock_lo), {.stall = here ? 1 + pad : 1});
    Sequence& at = c_.out.before[store];
    if (!here) put_pause(at, pad);
    store_words(c_, at, h, 4, 0, leader);
    finish(at, store);
    previous_ = h;
  }

  void by_pair(const Holder& h) {
    const auto leader = c_.leader(block_.first, block_.first);
    if (leader) put(head_, enc::elect(*leader));
    bump_cursor(c_, head_, wire::chunk_bytes);
    put(head_, enc::cs2r64(h.r(0), enc::sr_clock_lo), {.stall = leader ? predicate_to_guard - 1 : vector_to_memory});
    store_words(c_, head_, h, 2, 8, leader);
    put(head_, enc::mov_imm(h.r(0), word0_));
    put(head_, enc::vote_any_active(h.r(1)), {.stall = vector_to_memory});
    store_words(c_, head_, h, 2, 0, leader);
    finish(head_, block_.first);
    previous_ = h;
  }

  void by_single(const Holder& h) {
    bump_cursor(c_, head_, wire::chunk_bytes);
    const auto word = [&](const sass::RawInst& w, uint32_t offset) {
      put(head_, w, {.stall = vector_to_memory});
      store_words(c_, head_, h, 1, offset);
    };
    word(enc::cs2r32(h.r(0), enc::sr_clock_lo), 8);
    word(enc::cs2r32(h.r(0), enc::sr_clock_hi), 12);
    word(enc::mov_imm(h.r(0), word0_), 0);
    word(enc::vote_any_active(h.r(0)), 4);
    finish(head_, block_.first);
    previous_ = h;
  }

  void finish(Sequence& at, InstIndex store) {
    bump_address(c_, at, wire::chunk_bytes,
                 stall_cycles(c_.code, store, block_.last() + 1) + least_head_cycles);
  }

  ProbeContext& c_;
  const ProbeBlock& block_;
  uint32_t word0_;
  std::optional<Holder>& previous_;
  Sequence& head_;
};

// Chains need lane groups, which the prologue of every warp has to set: that costs what two or three stores cost.
bool chains_pay(const ProbeContext& c) {
  constexpr uint64_t stores_per_warp = 3;
  if (!c.scratch.lane_groups() || c.plan.executions.empty()) return false;
  uint64_t saved = 0;
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    if (c.map.blocks[b].implied || c.unrecorded(b)) continue;
    const std::vector<uint32_t> links = c.links_from(b, LaneGroups::groups);
    saved += (links.size() - 1) * c.plan.executions[b];
    b = links.back();
  }
  return saved >= stores_per_warp * std::max<uint64_t>(1, c.plan.executions[0]);
}

// A second store costs two cycles of an SM's memory pipe in a record of a block that is not full, the second word four bytes
// in one that is. Two blocks that share a record by a store of 64 bits need aligned ones as well, if they can not be stored by lanes: where few
// others get longer by that, or where no more than twice as many others get longer as fork, which saves more.
ShortForm short_form(const ProbeContext& c, bool chains, const std::vector<bool>& forks) {
  constexpr uint64_t seldom = 16;   // one execution, one byte in so many
  uint64_t all = 0, missing = 0, pairs = 0, words = 0, longer = 0, forked = 0;
  for (uint32_t b = c.map.layout.entry_in_head ? 1 : 0; b < c.blocks.blocks.size(); ++b) {
    if (c.map.blocks[b].implied || c.unrecorded(b)) continue;
    const uint64_t n = b < c.plan.executions.size() ? c.plan.executions[b] : 1;
    if (forks[b]) forked += n;
    const std::vector<uint32_t> links = c.links_from(b, chains ? 1 : 2);
    all += n * links.size();
    words += n * (c.full(b) ? links.size() : 2);
    if (!c.full(b)) missing += n;
    else if (links.size() == 1 && !forks[b] && (b == 0 || !forks[b - 1])) longer += n;
    else if (links.size() != 1) pairs += n;
    b = links.back();
  }
  const bool by_lanes = c.lane_words && c.map.layout.last_lanes >= LaneWords::least_lanes;
  const bool aligned = missing * seldom > all || (!by_lanes && pairs != 0 && longer * seldom <= words) || (forked != 0 && longer <= 2 * forked);
  return {.aligned = aligned, .by_lanes = by_lanes && !aligned};
}

// Whether some record from block b on could have two words.
bool have_pairs(const ProbeContext& c, const std::vector<bool>& forks, uint32_t b) {
  for (; b < forks.size(); ++b)
    if (forks[b] || (!c.map.blocks[b].implied && !c.unrecorded(b) && c.links_from(b, 2).size() > 1)) return true;
  return false;
}
// Of what the probe has put, and the prologue for it.
sass::RegSet registers_so_far(const ProbeContext& c) {
  sass::RegSet taken;
  for (const std::vector<Sequence>* sequences : {&c.out.before, &c.out.after})
    for (const Sequence& seq : *sequences)
      for (const sass::RawInst& w : seq) {
        const sass::Effects fx = sass::effects(*c.code.arch, enc::for_arch(*c.code.arch, w), 0);
        taken |= fx.use.gpr | fx.def.gpr;
      }
  if (c.held_head)
    for (const Holder* h : {&c.held_head->loads, &c.held_head->head})
      for (uint8_t r : h->reg) taken.set(r);
  return taken;
}

// Blocks without records; `loops`: of these, those whose rounds are counted, in c.rounds; `behind_waits`: those behind loops that wait for others;
// `regions`: in which ways are numbered, in c.ways.
struct Chosen {
  std::vector<bool> implied, loops, behind_waits;
  std::vector<WayRegion> regions{};
};

// All lanes of the warp are in this block, and in the loops that they leave for it.
bool leave_together(const ProbeContext& c, const std::vector<bool>& loops, uint32_t block) {
  bool together = c.full(block);
  for (uint32_t b = 0; b < loops.size(); ++b) together = together && (!loops[b] || behind_loop(c.blocks, b) != block || c.full(b));
  return together;
}

std::vector<bool> unrecorded_blocks(const ProbeContext& c) {
  std::vector<bool> unrecorded;
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) unrecorded.push_back(c.unrecorded(b));
  return unrecorded;
}

// Blocks behind loops that wait for others that need no records; `recorded` says so of the others. With these counted loops.
std::vector<bool> keep_behind_waits(const ProbeContext& c, const std::vector<bool>& loops, std::vector<bool>& recorded) {
  const std::vector<bool> unrecorded = unrecorded_blocks(c), full = full_blocks(c);
  std::vector<bool> behind = blocks_behind_waits(c.code, c.blocks, unrecorded, full);
  const Blocks seen = past_unrecorded(c.blocks, unrecorded);
  for (bool more = std::find(behind.begin(), behind.end(), true) != behind.end(); more;) {
    more = false;
    for (uint32_t b = 0; b < behind.size(); ++b) recorded[b] = recorded[b] && !behind[b];
    const std::vector<bool> implied = implied_blocks(c.code, seen, recorded, c.plan.executions, full, {}, loops);
    for (uint32_t b = 0; b < behind.size(); ++b) {
      if (!behind[b] || (implied[b] && told_by_next_record(c.code, seen, implied, full, c.plan.executions, b))) continue;
      behind[b] = false;
      recorded[b] = more = true;
    }
  }
  return behind;
}

std::vector<bool> implied_beside_waits(const ProbeContext& c, const std::vector<bool>& behind_waits, const std::vector<bool>& recorded,
                                       const std::vector<bool>& loops, const std::vector<WayRegion>& regions = {}) {
  const bool any = std::find(behind_waits.begin(), behind_waits.end(), true) != behind_waits.end();
  return implied_blocks(c.code, any ? past_unrecorded(c.blocks, unrecorded_blocks(c)) : c.blocks, recorded, c.plan.executions, full_blocks(c), {}, loops,
                        regions);
}

// `recorded`: those that are to have records whatever they are, but for those behind waits that need none.
Chosen choose_loops(const ProbeContext& c, std::vector<bool>& recorded) {
  const size_t n = c.blocks.blocks.size();
  std::vector<bool> loops = countable_loops(c.code, c.blocks, c.plan.executions, full_blocks(c));
  std::vector<bool> behind_waits = keep_behind_waits(c, loops, recorded);
  std::vector<bool> implied = implied_beside_waits(c, behind_waits, recorded, loops);
  for (uint32_t b = 0; b < n; ++b) loops[b] = loops[b] && implied[b];
  if (std::find(loops.begin(), loops.end(), true) == loops.end()) return {implied, loops, behind_waits};
  c.rounds = c.scratch.reserve();
  bool alike = true;
  for (uint32_t b = 0; b < n; ++b) alike = alike && (!loops[b] || leave_together(c, loops, behind_loop(c.blocks, b)));
  if (c.rounds && !alike) c.lane_offset = c.scratch.reserve();
  if (c.rounds && (alike || c.lane_offset)) return {implied, loops, behind_waits};
  c.rounds.reset();
  behind_waits = keep_behind_waits(c, {}, recorded);
  return {implied_beside_waits(c, behind_waits, recorded, {}), std::vector<bool>(n, false), behind_waits};
}

// Regions in which lanes number their ways, apart from blocks behind waits: none takes in what these are told by, and none is left where one of them
// would not be told any more. `implied`: with these regions.
std::vector<WayRegion> regions_beside_waits(const ProbeContext& c, const Chosen& chosen, const std::vector<bool>& recorded, std::vector<bool>& implied) {
  const Blocks seen = past_unrecorded(c.blocks, unrecorded_blocks(c));
  std::vector<bool> kept = recorded;
  for (uint32_t b = 0; b < kept.size(); ++b)
    for (uint32_t at = b; chosen.behind_waits[b]; at = seen.successors[at].at(0)) {   // up to the next record
      kept[at] = true;
      if (!chosen.implied[at]) break;
    }
  const std::vector<bool> full = full_blocks(c);
  std::vector<WayRegion> regions = way_regions(c.code, c.blocks, kept, chosen.implied, c.plan.executions, full);
  implied = implied_beside_waits(c, chosen.behind_waits, recorded, chosen.loops, regions);
  for (uint32_t b = 0; b < kept.size(); ++b)
    if (chosen.behind_waits[b] && !(implied[b] && told_by_next_record(c.code, seen, implied, full, c.plan.executions, b))) return {};
  return regions;
}

// Block 1 has its own where it is stored with the head.
Chosen choose_implied(const ProbeContext& c) {
  const size_t n = c.blocks.blocks.size();
  std::vector<bool> recorded(n, false);
  if (c.scope.is_sparse()) return {recorded, recorded, recorded};   // hardly anything stands around a block that would tell of it
  if (c.always_follows(0)) recorded[0] = recorded[1] = true;
  keep_beside_unrecorded(c, recorded);
  Chosen chosen = choose_loops(c, recorded);
  std::vector<bool> implied;
  std::vector<WayRegion> regions = regions_beside_waits(c, chosen, recorded, implied);
  if (regions.empty()) return chosen;
  c.ways = c.scratch.reserve();
  if (c.ways && !c.lane_offset) c.lane_offset = c.scratch.reserve();
  if (!c.ways || !c.lane_offset) {
    c.ways.reset();
    return chosen;
  }
  chosen.implied = std::move(implied);
  for (uint32_t b = 0; b < n; ++b) chosen.loops[b] = chosen.loops[b] && chosen.implied[b];
  chosen.regions = std::move(regions);
  return chosen;
}

// In every round one more, and 0 in front of the first. Behind what records put in front of the same instructions.
void count_rounds(ProbeContext& c, const std::vector<bool>& loops) {
  const std::vector<bool> before = blocks_before_loops(c.blocks, loops);
  const enc::Gpr r = *c.rounds;
  const auto behind = [](unsigned stall) { return stall >= vector_to_vector ? 1u : vector_to_vector - stall; };
  for (uint32_t b = 0; b < loops.size(); ++b) {
    const ProbeBlock& block = c.blocks.blocks[b];
    if (loops[b])
      put(c.out.before[block.first], enc::iadd3_imm(r, r, 1, enc::RZ), {.stall = behind(stall_cycles(c.code, block.first, block.last() + 1))});
    if (before[b]) put(c.out.before[block.last()], enc::mov_imm(r, 0), {.stall = behind(stall_cycles(c.code, block.last(), block.last() + 1))});
  }
}

}  // namespace

std::vector<bool> full_blocks(const ProbeContext& c) {
  std::vector<bool> full;
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) full.push_back(c.full(b));
  return full;
}

// What goes through a block without records leaves nothing in front of and behind which an implied block could be known by.
void keep_beside_unrecorded(const ProbeContext& c, std::vector<bool>& recorded) {
  const std::vector<std::vector<uint32_t>>& successors = c.blocks.successors;
  bool calls_unseen = false;
  for (uint32_t b = 0; b < successors.size(); ++b) {
    const bool leads_there = std::any_of(successors[b].begin(), successors[b].end(), [&](uint32_t s) { return c.unrecorded(s); });
    if (c.unrecorded(b) || leads_there) {
      recorded[b] = true;
      for (uint32_t s : successors[b]) recorded[s] = true;
    }
    calls_unseen |= c.unrecorded(b) && (c.blocks.behind_call[b] != Blocks::none || c.blocks.returns[b]);
  }
  // Nor is it known then where lanes return to.
  for (uint32_t b = 0; b < successors.size(); ++b)
    if (calls_unseen && c.blocks.returns[b])
      for (uint32_t s : successors[b]) recorded[s] = true;
}

Status insert_block(ProbeContext& c) {
  std::optional<Holder> previous;
  const auto blocks = static_cast<uint32_t>(c.blocks.blocks.size());
  if (!c.layout.short_records) {
    for (uint32_t b = 0; b < blocks; ++b) {
      if (c.unrecorded(b)) continue;
      XT_TRY_STATUS(BlockHead(c, b, previous).run());
      c.map.blocks[b].record_bytes = wire::chunk_bytes;
    }
    return insert_exit_headers(c);
  }
  const auto [implied, loops, behind_waits, regions] = choose_implied(c);
  const std::vector<bool> gathered = gathered_blocks(c.code, c.blocks, implied, full_blocks(c));
  for (uint32_t b = 0; b < blocks; ++b) {
    c.map.blocks[b].implied = implied[b];
    c.map.blocks[b].gathered = gathered[b] || behind_waits[b];
    c.map.blocks[b].full = c.full(b) && !implied[b];
    c.map.blocks[b].loop = loops[b];
  }
  for (uint32_t b = 0; b < blocks; ++b)
    if (loops[b]) {
      const uint32_t number = behind_loop(c.blocks, b);
      wire::Block& behind = c.map.blocks[number];
      behind.rounds_at = behind.full ? 4 : 8;
      behind.rounds_alike = leave_together(c, loops, number);
    }
  describe_ways(c, regions);
  const bool chains = c.map.layout.last_lanes == 32 && chains_pay(c);   // lane groups need all 32
  c.map.layout.entry_in_head = c.full(0) && has_light_prologue(c.plan, c.layout) && c.blocks.runs_once(0);
  c.lane_words = c.scratch.reserve_lane_words(chains);
  const std::vector<bool> forks = fork_blocks(c);
  const ShortForm form = short_form(c, chains, forks);
  uint32_t b = 0;
  if (c.map.layout.entry_in_head) {
    b = insert_with_head(c, form, previous) + 1;
  }
  if (form.by_lanes && have_pairs(c, forks, b)) c.lane_words->place = c.scratch.reserve(registers_so_far(c));
  for (; b < blocks; ++b) {
    if (implied[b] || c.unrecorded(b)) continue;
    if (form.two_words() && forks[b] && insert_fork(c, b, form, previous)) {
      ++b;
      continue;
    }
    uint32_t chained = chains ? insert_chain(c, b, previous) : 0;
    if (chained == 0 && form.two_words()) chained = insert_pair_chain(c, b, form, previous);
    if (chained != 0) {
      b += chained;
      continue;
    }
    XT_TRY_STATUS(insert_short_block(c, b, form, previous));
  }
  if (c.rounds) count_rounds(c, loops);
  if (c.ways) insert_ways(c);
  return {};
}

}  // namespace xtrace::instrument
