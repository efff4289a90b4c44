#include "instrument/waiting.h"

#include <algorithm>

#include "instrument/sass/print.h"

namespace xtrace::instrument {
namespace {

using sass::Effects, sass::MemKind, sass::MemSpace;

// Immediate dominators (Cooper, Harvey, Kennedy); `none` for the entry and for what it does not reach.
class Dominators {
 public:
  explicit Dominators(const Blocks& blocks) : over_(blocks.blocks.size(), Blocks::none), number_(over_.size(), Blocks::none) {
    const auto n = static_cast<uint32_t>(over_.size());
    std::vector<std::vector<uint32_t>> predecessors(n);
    for (uint32_t b = 0; b < n; ++b)
      for (uint32_t s : blocks.successors[b]) predecessors[s].push_back(b);
    const std::vector<uint32_t> order = reverse_postorder(blocks);
    for (uint32_t k = 0; k < order.size(); ++k) number_[order[k]] = k;
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t b : order) {
        uint32_t over = Blocks::none;
        for (uint32_t p : predecessors[b]) {
          if (p != 0 && over_[p] == Blocks::none) continue;
          over = over == Blocks::none ? p : common(over, p);
        }
        if (b == 0 || over == over_[b]) continue;
        over_[b] = over;
        changed = true;
      }
    }
  }
  bool dominates(uint32_t a, uint32_t b) const {
    while (b != a && b != 0 && b != Blocks::none) b = over_[b];
    return b == a;
  }

 private:
  static std::vector<uint32_t> reverse_postorder(const Blocks& blocks) {
    std::vector<uint32_t> order;
    if (blocks.blocks.empty()) return order;
    std::vector<bool> seen(blocks.blocks.size(), false);
    std::vector<std::pair<uint32_t, size_t>> stack{{0, 0}};
    seen[0] = true;
    while (!stack.empty()) {
      auto& [b, next] = stack.back();
      if (next == blocks.successors[b].size()) {
        order.push_back(b);
        stack.pop_back();
        continue;
      }
      const uint32_t s = blocks.successors[b][next++];
      if (seen[s]) continue;
      seen[s] = true;
      stack.push_back({s, 0});
    }
    std::reverse(order.begin(), order.end());
    return order;
  }
  uint32_t common(uint32_t a, uint32_t b) const {
    while (a != b) {
      while (number_[a] > number_[b]) a = over_[a];
      while (number_[b] > number_[a]) b = over_[b];
    }
    return a;
  }

  std::vector<uint32_t> over_, number_;
};

// Blocks from which `tail` is reached without passing `head`, and both.
struct Loop {
  std::vector<uint32_t> blocks;
  std::vector<bool> contains;   // by block

  Loop(const std::vector<std::vector<uint32_t>>& predecessors, uint32_t head, uint32_t tail) : contains(predecessors.size(), false) {
    add(head);
    add(tail);
    for (size_t k = 1; k < blocks.size(); ++k)
      for (uint32_t p : predecessors[blocks[k]]) add(p);
  }

 private:
  void add(uint32_t b) {
    if (contains[b]) return;
    contains[b] = true;
    blocks.push_back(b);
  }
};

bool observes_others(const Code& code, InstIndex i) {
  const Effects& fx = code.insts[i].fx;
  if (fx.kind == MemKind::atomic || fx.mnemonic == "SYNCS.PHASECHK") return true;
  if (fx.changes_register_limit) return true;   // .TRY_ALLOC: its predicate says whether others have given registers back
  if (fx.kind != MemKind::load || fx.space == MemSpace::constant) return false;
  return sass::print(*code.arch, code.insts[i].raw, code.pc(i)).find(".STRONG") != std::string::npos;
}

bool stores(const Effects& fx) {
  switch (fx.kind) {
    case MemKind::store:
    case MemKind::reduction:
    case MemKind::async:
      return true;
    default:
      return false;
  }
}

bool leaves(const Effects& fx) { return fx.flow == sass::Flow::call_relative || fx.flow == sass::Flow::call_other || fx.flow == sass::Flow::ret; }

// Registers of the kinds that carry a decision.
void join(sass::RegEffects& into, const sass::RegEffects& more) {
  into.gpr |= more.gpr;
  into.ur |= more.ur;
  into.pred |= more.pred;
  into.upred |= more.upred;
}
void remove(sass::RegEffects& from, const sass::RegEffects& which) {
  from.gpr &= ~which.gpr;
  from.ur &= ~which.ur;
  from.pred = static_cast<sass::PredSet>(from.pred & ~which.pred);
  from.upred = static_cast<sass::PredSet>(from.upred & ~which.upred);
}
bool meet(const sass::RegEffects& a, const sass::RegEffects& b) {
  return (a.gpr & b.gpr).any() || (a.ur & b.ur).any() || (a.pred & b.pred) != 0 || (a.upred & b.upred) != 0;
}
bool same(const sass::RegEffects& a, const sass::RegEffects& b) {
  return a.gpr == b.gpr && a.ur == b.ur && a.pred == b.pred && a.upred == b.upred;
}

// Whether an observation decides when the loop ends: followed backwards, from the conditions of the branches that leave it
// through what their registers were made of, block by block until nothing is added.
class Decision {
 public:
  Decision(const Code& code, const Blocks& blocks, const Loop& loop) : code_(code), blocks_(blocks), loop_(loop) {}

  bool depends_on_others() {
    std::vector<sass::RegEffects> at_head(blocks_.blocks.size());
    for (bool more = true; more;) {
      more = false;
      for (uint32_t b : loop_.blocks) {
        sass::RegEffects decides = at_end(b, at_head);
        if (through(blocks_.blocks[b], decides)) return true;
        if (same(decides, at_head[b])) continue;
        at_head[b] = decides;
        more = true;
      }
    }
    return false;
  }

 private:
  sass::RegEffects at_end(uint32_t b, const std::vector<sass::RegEffects>& at_head) const {
    sass::RegEffects decides;
    for (uint32_t s : blocks_.successors[b]) {
      if (loop_.contains[s])
        join(decides, at_head[s]);
      else
        join(decides, code_.insts[blocks_.blocks[b].last()].fx.use);
    }
    return decides;
  }
  // From the end of the block to its head. True: others decide.
  bool through(const ProbeBlock& block, sass::RegEffects& decides) const {
    for (InstIndex i = block.last() + 1; i-- > block.first;) {
      const Effects& fx = code_.insts[i].fx;
      if (!meet(fx.def, decides)) continue;
      if (observes_others(code_, i)) return true;
      if (!fx.guarded && fx.exact) remove(decides, fx.def);
      join(decides, fx.use);
    }
    return false;
  }

  const Code& code_;
  const Blocks& blocks_;
  const Loop& loop_;
};

bool waits(const Code& code, const Blocks& blocks, const Loop& loop) {
  for (uint32_t b : loop.blocks)
    for (InstIndex i = blocks.blocks[b].first; i <= blocks.blocks[b].last(); ++i)
      if (stores(code.insts[i].fx) || leaves(code.insts[i].fx)) return false;
  return Decision(code, blocks, loop).depends_on_others();
}

bool polls(const Code& code, const Blocks& blocks, const Loop& loop) {
  for (uint32_t b : loop.blocks)
    for (InstIndex i = blocks.blocks[b].first; i <= blocks.blocks[b].last(); ++i) {
      const Effects& fx = code.insts[i].fx;
      if (fx.space != MemSpace::none && fx.space != MemSpace::constant && !observes_others(code, i)) return false;
    }
  return true;
}

std::vector<bool> blocks_of_waits(const Code& code, const Blocks& blocks, bool (*qualifies)(const Code&, const Blocks&, const Loop&)) {
  const auto n = static_cast<uint32_t>(blocks.blocks.size());
  std::vector<bool> waiting(n, false);
  std::vector<std::vector<uint32_t>> predecessors(n);
  for (uint32_t b = 0; b < n; ++b)
    for (uint32_t s : blocks.successors[b]) predecessors[s].push_back(b);
  const Dominators dominators(blocks);
  for (uint32_t tail = 0; tail < n; ++tail)
    for (uint32_t head : blocks.successors[tail]) {
      if (!dominators.dominates(head, tail)) continue;
      const Loop loop(predecessors, head, tail);
      if (!waits(code, blocks, loop) || !qualifies(code, blocks, loop)) continue;
      for (uint32_t b : loop.blocks) waiting[b] = true;
    }
  return waiting;
}

}  // namespace

std::vector<bool> waiting_blocks(const Code& code, const Blocks& blocks) {
  return blocks_of_waits(code, blocks, [](const Code&, const Blocks&, const Loop&) { return true; });
}

std::vector<bool> polling_blocks(const Code& code, const Blocks& blocks) { return blocks_of_waits(code, blocks, polls); }

}  // namespace xtrace::instrument
