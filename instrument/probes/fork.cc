// `block` in plain slots: a block that ends in a branch, and the one that lanes fall through to, in one record { clock << n | block + 1,
// lanes that fall through }. The second block's clock follows from the first one's, as nothing in between waits: so that is read behind
// the wait of the block's first instruction, where it has one. A store of 64 bits takes three cycles of the memory pipe, or where records are not
// aligned one of 32 bits two, in which some lanes have one word and the others the other one (LaneWords); two records take four to six, and
// twice the issue slots.
#include <algorithm>

#include "instrument/clocks.h"
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

constexpr BitRange guard_of_branch = bits(14, 12);
constexpr unsigned not_of_branch = 15, not_of_vote = 90;
constexpr unsigned most_until_branch = 96;   // cycles from the clock to the next block: as many as implied.cc allows

// Scoreboards that the instruction waits for and that something may be under way on: `open`, as they are in front of it.
bool waits_on(const CodeInst& inst, uint8_t& open) {
  const sass::Control c = sass::get_control(inst.raw);
  const bool waits = (c.wait_mask & open) != 0;
  open &= static_cast<uint8_t>(~c.wait_mask);
  for (const uint8_t set : {c.write_barrier, c.read_barrier})
    if (set != sass::Control::no_barrier) open |= static_cast<uint8_t>(1u << set);
  return waits;
}

// The instruction of the block in front of which the clock is read: its first, or the one behind that where the first waits. Nothing where
// what follows may wait.
std::optional<InstIndex> clock_place(const Code& code, const ProbeBlock& block) {
  uint8_t open = 0x3f;
  InstIndex place = block.first;
  unsigned queued = 0;
  for (InstIndex i = block.first; i < block.last(); ++i) {
    CodeInst inst = code.insts[i];
    const bool waits = waits_on(inst, open);
    sass::Control control = sass::get_control(inst.raw);
    control.wait_mask = 0;
    sass::set_control(inst.raw, control);
    const Pace pace = inst.fx.mnemonic == "BSSY" ? Pace::fixed : pace_of(inst);   // but for scoreboards
    if (pace == Pace::waits || (waits && i != block.first)) return std::nullopt;
    if (waits) place = i + 1;
    queued += pace == Pace::queued;
  }
  if (queued > most_queued || stall_cycles(code, place, block.last() + 1) > most_until_branch) return std::nullopt;
  return place;
}

// A branch that one predicate decides, which is there.
bool forks_by_predicate(const CodeInst& inst) {
  const sass::Effects& fx = inst.fx;
  const auto p = static_cast<unsigned>(get_bits(inst.raw, guard_of_branch));
  return fx.mnemonic == "BRA" && fx.flow == sass::Flow::branch && fx.guarded && fx.falls_through && p < 7 && fx.use.pred == 1u << p && fx.use.upred == 0 &&
         fx.use.ur.none() && sass::get_control(inst.raw).wait_mask == 0;
}

bool may_fork(const ProbeContext& c, uint32_t b) {
  const auto& blocks = c.blocks.blocks;
  const uint32_t next = b + 1;
  if (b == 0 || next >= blocks.size() || !c.full(b)) return false;
  for (const uint32_t k : {b, next})
    if (c.map.blocks[k].implied || c.unrecorded(k) || c.map.blocks[k].rounds_at != 0) return false;
  const ProbeBlock& block = blocks[b];
  const std::vector<uint32_t>& ways = c.blocks.successors[b];
  if (blocks[next].first != block.last() + 1 || ways.size() != 2 || !forks_by_predicate(c.code.insts[block.last()])) return false;
  if (ways[0] != next && ways[1] != next) return false;
  for (uint32_t p = 0; p < blocks.size(); ++p)
    if (p != b && std::find(c.blocks.successors[p].begin(), c.blocks.successors[p].end(), next) != c.blocks.successors[p].end()) return false;
  // Those that do not fall through are not ahead: there are none, or they wait.
  const uint32_t other = ways[0] == next ? ways[1] : ways[0];
  if (!c.full(next) && c.code.insts[blocks[other].first].fx.mnemonic != "BSYNC") return false;
  // Blocks that always follow each other have something better.
  if (c.followed(b) || c.followed(b - 1) || c.followed(next) || (b == 1 && c.always_follows(0))) return false;
  return clock_place(c.code, block).has_value();
}

}  // namespace

std::vector<bool> fork_blocks(const ProbeContext& c) {
  const size_t n = c.blocks.blocks.size();
  std::vector<bool> forks(n, false);
  if (c.plan.executions.size() != n || c.scope.is_sparse()) return forks;
  for (uint32_t b = 1; b + 1 < n; ++b) {
    const uint64_t saved = c.plan.executions[b + 1] * (c.full(b + 1) ? 2 : 3);   // cycles of the memory pipe
    forks[b] = !forks[b - 1] && saved > c.plan.executions[b] && may_fork(c, b);
  }
  return forks;
}

bool insert_fork(ProbeContext& c, uint32_t number, ShortForm form, std::optional<Holder>& previous) {
  const ProbeBlock& block = c.blocks.blocks[number];
  const InstIndex clock = *clock_place(c.code, block), branch = block.last();
  const auto h = c.scratch.try_holder(clock, branch, {Holder::Shape::pair}, previous);
  if (!h) return false;
  put(c.out.before[clock], enc::cs2r32(h->r(0), enc::sr_clock_lo), {.wait_mask = h->wait_mask});
  const auto first_word = [&](enc::Gpr to) { return enc::lea_imm(to, h->r(0), number + 1, static_cast<uint8_t>(c.layout.index_bits)); };
  const sass::RawInst& leaves = c.code.insts[branch].raw;
  sass::RawInst vote = enc::vote_any(h->r(1), enc::Pred{static_cast<uint8_t>(get_bits(leaves, guard_of_branch))});
  if (get_bits(leaves, bit(not_of_branch)) == 0) set_bits(vote, bit(not_of_vote), 1);
  Sequence& at = c.out.before[branch];
  if (form.by_lanes) {
    // The first word goes to the register with the lanes, in the others' place.
    const unsigned passed = 1 + stall_cycles(c.code, clock, branch), wanted = clock_to_vector(*c.code.arch);
    put(at, vote, {.stall = std::max(vector_to_vector, passed < wanted ? wanted - passed : 0)});
    put(at, enc::with_guard(first_word(h->r(1)), c.lane_words->odd, true));
    const enc::Gpr place = word_place(c, at, h->r(0));
    put_pause(at, vector_to_memory - 1);
    store_by_lanes(c, at, h->r(1), place, 0, h->scoreboard);
  } else {
    const InstIndex shift = settled(c, clock, clock_to_vector(*c.code.arch), branch);
    put(c.out.before[shift], first_word(h->r(0)));
    put(at, vote, {.stall = vector_to_memory});
    store_words(c, at, *h, 2, 0);
  }
  bump_address(c, at, 8, stall_cycles(c.code, branch, branch + 1) + vector_to_vector + vector_to_memory);
  wire::Block& b = c.map.blocks[number];
  b.record_bytes = 8;
  b.forks = true;
  b.fork_cycles = stall_cycles(c.code, clock, branch + 1);
  c.map.blocks[number + 1].placed = true;
  previous = h;
  return true;
}

}  // namespace xtrace::instrument
