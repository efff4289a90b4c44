#include "instrument/implied.h"

#include <algorithm>
#include <numeric>

#include "instrument/clocks.h"
#include "instrument/rounds.h"

namespace xtrace::instrument {
namespace {

// From one record to the next. Longer stretches save nothing: with 64, 96 and 128 cycles 252,479, 234,271 and 234,271 records are left of
// gatherTopK's 576,900, and 27,712 of nvjet's 28,736 with 96, 27,584 with 128.
constexpr unsigned most_cycles = 96;
constexpr uint32_t most_blocks = 32;   // behind one record: what a decoder has to look at

bool contains(const std::vector<uint32_t>& set, uint32_t b) { return std::find(set.begin(), set.end(), b) != set.end(); }

// Lanes leave a BSYNC for where their BSSY said: the next instruction, if that is where all BSSY point.
bool falls_through_bsync(const Code& code) {
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    if (!code.reachable[i] || !fx.is_bssy_target) continue;
    const InstIndex target = code.index(static_cast<uint32_t>(*fx.target));
    if (target == 0 || code.insts[target - 1].fx.mnemonic != "BSYNC") return false;
  }
  return true;
}

// Of which all lanes of the warp, or of a mask that stands in the code, come together, and go on with the next instruction.
bool syncs_warp(const sass::Effects& fx) {
  return fx.mnemonic.starts_with("WARPSYNC") && !fx.target && !fx.guarded && fx.use.pred == 0 && fx.use.gpr.none() && fx.falls_through;
}

// When what follows it may issue is known, but for the cycles that other warps issue in, and for queues that are full.
bool takes_fixed_time(const CodeInst& inst, bool bsync_falls_through) {
  const sass::Effects& fx = inst.fx;
  if (inst.asserts || sass::get_control(inst.raw).wait_mask != 0) return false;
  switch (fx.flow) {
    case sass::Flow::branch:
    case sass::Flow::branch_indirect:
    case sass::Flow::ret:
    case sass::Flow::exit: return true;
    case sass::Flow::call_relative: return fx.target.has_value();   // through a pointer it goes by a branch more
    case sass::Flow::next: break;
    default: return false;
  }
  if (fx.mnemonic == "BSYNC") return bsync_falls_through && !fx.guarded && fx.use.pred == 0;
  return fx.mnemonic == "BSSY" || syncs_warp(fx) || pace_of(inst) != Pace::waits;
}

// Lanes that came there one after another may go on together.
bool lanes_meet_behind(const Code& code, const ProbeBlock& block) {
  const sass::Effects& last = code.insts[block.last()].fx;
  return last.flow == sass::Flow::next && last.may_switch_path;
}

bool takes_fixed_time_in(const Code& code, const ProbeBlock& block, bool bsync_falls_through) {
  bool fixed = true;
  for (InstIndex i = block.first; i <= block.last(); ++i) fixed = fixed && takes_fixed_time(code.insts[i], bsync_falls_through);
  return fixed;
}

bool is_full(const std::vector<bool>& full, uint32_t b) { return b < full.size() && full[b]; }

class ImpliedChooser {
 public:
  ImpliedChooser(const Code& code, const Blocks& blocks, const std::vector<uint64_t>& executions, const std::vector<bool>& full, const std::vector<unsigned>& queued)
      : blocks_(blocks), nodes_(blocks.blocks.size()) {
    const bool bsync_falls_through = falls_through_bsync(code);
    for (uint32_t b = 0; b < nodes_.size(); ++b) {
      const ProbeBlock& block = blocks.blocks[b];
      Node& n = nodes_[b];
      n.fixed = takes_fixed_time_in(code, block, bsync_falls_through);
      for (InstIndex i = block.first; i <= block.last(); ++i) {
        n.cycles += sass::get_control(code.insts[i].raw).stall;
        n.queued += pace_of(code.insts[i]) == Pace::queued;
      }
      const CodeInst& last = code.insts[block.last()];
      n.ends = last.fx.flow == sass::Flow::exit || last.fx.flow == sass::Flow::kill || last.asserts;
      n.meets = lanes_meet_behind(code, block) && !is_full(full, b);
      n.full = is_full(full, b);
      n.unseen = executions.size() == nodes_.size() && executions[b] == 0;
      n.queued_behind = b < queued.size() ? queued[b] : 0;
      for (uint32_t s : blocks.successors[b]) nodes_[s].predecessors.push_back(b);
    }
  }

  // Whether what is left tells of block s, too; then it has no record from now on.
  bool imply(uint32_t s) {
    Node& n = nodes_[s];
    if (!n.fixed || n.keeps_record || n.numbered || n.predecessors.empty()) return false;
    for (uint32_t p : n.predecessors) {
      if (nodes_[p].meets && !n.full) return false;
      n.gathered |= nodes_[p].meets;
    }
    return try_to_imply(s);
  }

  // The same, where lanes count the rounds of this loop and the block behind it records how many they did. All of them must have come
  // there together.
  bool imply_loop(uint32_t s, uint32_t behind) {
    Node& n = nodes_[s];
    if (n.keeps_record || n.numbered || nodes_[behind].implied) return false;
    for (uint32_t p : n.predecessors)
      if (nodes_[p].meets) return false;
    n.loop = true;
    if (!try_to_imply(s)) return n.loop = false;
    return nodes_[behind].keeps_record = true;
  }

  // All of it, between two blocks with records.
  void number_ways(const WayRegion& region) {
    nodes_[region.from].keeps_record = nodes_[region.to].keeps_record = true;
    for (const WayRegion::Part& p : region.parts) nodes_[p.block].implied = nodes_[p.block].numbered = true;
  }

  std::vector<bool> implied() const {
    std::vector<bool> out;
    for (const Node& n : nodes_) out.push_back(n.implied);
    return out;
  }

 private:
  struct Node {
    std::vector<uint32_t> predecessors;
    unsigned cycles = 0;     // sum of stall counts
    unsigned queued = 0;     // instructions that go through queues
    unsigned queued_behind = 0;   // of these, behind the last clock in its record
    bool fixed = false;      // takes a fixed time
    bool ends = false;       // lanes may end in it
    bool meets = false;      // lanes that came one after another may leave it together
    bool full = false;       // no counted execution missed a lane
    bool unseen = false;     // there was none
    bool implied = false;
    bool gathered = false;   // if it is implied: lanes come together in front of it
    bool loop = false;       // its rounds are counted
    bool numbered = false;   // lanes number their ways through it: nothing of it is asked here
    bool keeps_record = false;   // which has a count, or such numbers, or these follow it
  };

  bool try_to_imply(uint32_t s) {
    Node& n = nodes_[s];
    n.implied = true;
    std::vector<uint32_t> seen{s};   // s, and what leads to it without a record; their records
    for (size_t k = 0; k < seen.size() && n.implied; ++k) {
      if (!nodes_[seen[k]].implied) {
        n.implied = tells_all(seen[k]);
        continue;
      }
      for (uint32_t p : nodes_[seen[k]].predecessors)
        if (!contains(seen, p)) seen.push_back(p);
    }
    return n.implied;
  }

  // From this record one way leads to each block behind it, up to and with the next records, and one to the end of a lane (of a block that
  // nobody came to in any counted execution several may: had somebody, its executions would say that the path is another one). Where it
  // returns, decoders know where to, but do not look for loops. To the block behind a loop one may lead through a loop, and one past all of
  // them: the count tells which.
  bool tells_all(uint32_t record) const {
    const std::vector<uint32_t>& successors = blocks_.successors[record];
    if (!blocks_.returns[record]) return tells_all(record, successors);
    return std::all_of(successors.begin(), successors.end(), [&](uint32_t s) { return tells_all(record, {s}); });
  }
  bool tells_all(uint32_t record, const std::vector<uint32_t>& first) const {
    struct Stretch {
      uint32_t block;
      unsigned cycles, queued;   // behind the record
      bool gathered;             // lanes came together since
    };
    std::vector<Stretch> open{{record, 0, nodes_[record].queued_behind, false}};
    std::vector<uint32_t> reached, reached_by_loop;
    uint32_t ends = 0, between = 0;
    while (!open.empty()) {
      const Stretch at = open.back();
      open.pop_back();
      if (nodes_[at.block].ends && ++ends > 1 && !nodes_[record].unseen) return false;
      const bool by_loop = nodes_[at.block].loop;
      for (uint32_t s : at.block == record ? first : blocks_.successors[at.block]) {
        if (by_loop && s == at.block) continue;   // another round
        if (nodes_[s].numbered) continue;         // leads to no block that is reached another way
        std::vector<uint32_t>& known = by_loop ? reached_by_loop : reached;
        if (contains(known, s)) return false;
        known.push_back(s);
        if (!nodes_[s].implied) continue;
        const bool gathered = at.gathered || nodes_[s].gathered;
        if (++between > most_blocks || (nodes_[s].loop && (gathered || blocks_.returns[record]))) return false;
        const unsigned cycles = nodes_[s].loop ? at.cycles : at.cycles + nodes_[s].cycles, queued = at.queued + nodes_[s].queued;
        if (cycles > most_cycles || queued > most_queued) return false;
        open.push_back({s, cycles, queued, gathered});
      }
    }
    return true;
  }

  const Blocks& blocks_;
  std::vector<Node> nodes_;
};

}  // namespace

bool takes_fixed_time(const Code& code, const ProbeBlock& block) { return takes_fixed_time_in(code, block, falls_through_bsync(code)); }

std::vector<bool> implied_blocks(const Code& code, const Blocks& blocks, const std::vector<bool>& recorded,
                                 const std::vector<uint64_t>& executions, const std::vector<bool>& full,
                                 const std::vector<unsigned>& queued, const std::vector<bool>& loops, const std::vector<WayRegion>& regions) {
  const auto n = static_cast<uint32_t>(blocks.blocks.size());
  std::vector<uint32_t> order(n - 1);
  std::iota(order.begin(), order.end(), 1u);
  if (executions.size() == n)
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return executions[a] > executions[b]; });
  ImpliedChooser chooser(code, blocks, executions, full, queued);
  for (const WayRegion& region : regions) chooser.number_ways(region);
  for (uint32_t s : order)
    if (s < loops.size() && loops[s] && !recorded[s]) chooser.imply_loop(s, behind_loop(blocks, s));
  for (uint32_t s : order)
    if (!recorded[s]) chooser.imply(s);
  return chooser.implied();
}

std::vector<bool> gathered_blocks(const Code& code, const Blocks& blocks, const std::vector<bool>& implied, const std::vector<bool>& full) {
  std::vector<bool> gathered(implied.size(), false);
  for (uint32_t p = 0; p < implied.size(); ++p) {
    if (is_full(full, p) || !lanes_meet_behind(code, blocks.blocks[p])) continue;
    for (uint32_t s : blocks.successors[p]) gathered[s] = implied[s];
  }
  return gathered;
}

}  // namespace xtrace::instrument
