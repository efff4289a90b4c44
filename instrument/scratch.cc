#include "instrument/scratch.h"

#include <algorithm>
#include <array>

#include "instrument/occupancy.h"
#include "instrument/sequence.h"

namespace xtrace::instrument {
namespace {

constexpr uint32_t registers_of_prologue = 8;   // R0..R7, mostly

// Uniform registers from the top down: compilers hand them out from the bottom.
Result<UniformPlan> plan_uniform(const Code& code, const Liveness& liveness) {
  const sass::RegSet free = liveness.untouched_uniform();
  std::vector<uint8_t> singles;
  std::vector<uint8_t> pairs;
  for (int r = 61; r >= 1 && (pairs.size() < 2 || singles.size() < 4); r -= 2) {
    const bool high = free.test(r), low = free.test(r - 1);
    if (high && low && pairs.size() < 2) {
      pairs.push_back(static_cast<uint8_t>(r - 1));
      continue;
    }
    if (high) singles.push_back(static_cast<uint8_t>(r));
    if (low) singles.push_back(static_cast<uint8_t>(r - 1));
  }
  if (pairs.size() < 2 || singles.size() < 4) {
    const auto in_pair = [&](uint32_t r) { return std::any_of(pairs.begin(), pairs.end(), [r](uint8_t p) { return r == p || r == p + 1u; }); };
    size_t untouched = 0;
    std::optional<uint8_t> single;
    for (uint32_t r = 0; r < 63; ++r) {
      untouched += free.test(r);
      if (free.test(r) && !in_pair(r)) single = static_cast<uint8_t>(r);
    }
    if (pairs.size() == 2 && single)
      return UniformPlan{{pairs[0]}, {pairs[1]}, {*single}, sass::enc::URZ, sass::enc::URZ, sass::enc::URZ, true};
    return with_hint(unsupported("kernel {} leaves {} of 63 uniform registers untouched: probes need two aligned pairs and one more",
                                 code.kernel, untouched),
                     "no probe fits; the clean kernel can be replayed (--probes=none)");
  }
  return UniformPlan{{pairs[0]}, {pairs[1]}, {singles[0]}, {singles[1]}, {singles[2]}, {singles[3]}};
}

std::vector<sass::enc::Ureg> plan_spare_uniform(const Liveness& liveness, const UniformPlan& plan) {
  constexpr size_t most = 16;
  sass::RegSet free = liveness.untouched_uniform();
  for (sass::enc::Ureg u : {plan.address, high_half(plan.address), plan.header, high_half(plan.header), plan.cursor, plan.mask,
                            plan.base, plan.temp})
    free.reset(u.index);
  std::vector<sass::enc::Ureg> spare;
  for (uint8_t r = 62; r-- > 0 && spare.size() < most;)
    if (free.test(r)) spare.push_back({r});
  return spare;
}

// Scoreboards that DEPBAR counts in groups can not be shared (sass.md 5.4).
uint8_t shareable_scoreboards(const Code& code) {
  uint8_t counted = 0;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    if (code.reachable[i] && fx.uses_scoreboard_count && fx.depbar_scoreboard < 6)
      counted |= static_cast<uint8_t>(1u << fx.depbar_scoreboard);
  }
  return static_cast<uint8_t>(~counted & 0x3f);
}

// The two of them on which waiting costs the kernel least: outstanding at few, cold block entries.
Result<std::array<uint8_t, 2>> plan_scoreboards(const Code& code, uint8_t shareable, const Blocks& blocks,
                                                const Liveness& liveness) {
  std::vector<std::pair<uint64_t, uint8_t>> cost;
  for (uint8_t sb = 0; sb < 6; ++sb) {
    if (!(shareable >> sb & 1)) continue;
    uint64_t c = 0;
    for (uint32_t b = 0; b < blocks.blocks.size(); ++b)
      if (liveness.outstanding_before(blocks.blocks[b].first) >> sb & 1) c += blocks.loop_weight[b];
    cost.push_back({c, sb});
  }
  if (cost.empty()) return unsupported("kernel {} counts groups on all six scoreboards", code.kernel);
  std::stable_sort(cost.begin(), cost.end(), [](auto& a, auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  return std::array<uint8_t, 2>{cost[0].second, cost.size() > 1 ? cost[1].second : cost[0].second};
}

// The lowest pair of neighbours that is free, so that what P2R makes of it needs the least shifting, and a third.
std::optional<LaneGroups> plan_lane_groups(sass::PredSet free) {
  for (uint8_t k = 2; k < 6; ++k) {
    const auto pair = static_cast<sass::PredSet>(3u << k);
    if ((free & pair) != pair) continue;
    for (uint8_t third = 7; third-- > 0;)
      if ((free & ~pair) >> third & 1) return LaneGroups{{k}, {static_cast<uint8_t>(k + 1)}, {third}};
  }
  return std::nullopt;
}

}  // namespace

Result<Scratch> Scratch::plan(const Code& code, const cubin::KernelInfo& info, const Blocks& blocks,
                              const Liveness& liveness, const LaunchShape& shape, const sass::RegSet& unsettled) {
  Scratch s;
  s.code_ = &code;
  s.liveness_ = &liveness;
  XT_TRY(s.uniform_, plan_uniform(code, liveness));
  s.spare_uniform_ = plan_spare_uniform(liveness, s.uniform_);
  s.lane_groups_ = plan_lane_groups(liveness.untouched_predicates());
  s.shared_scoreboards_ = shareable_scoreboards(code);
  XT_TRY(const auto scoreboards, plan_scoreboards(code, s.shared_scoreboards_, blocks, liveness));
  s.scoreboard_[0] = scoreboards[0];
  s.scoreboard_[1] = scoreboards[1];
  bool keeps_count = false;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i] || !code.insts[i].fx.changes_register_limit) continue;
    if (code.insts[i].fx.register_limit == 0)
      return unsupported("kernel changes its register limit to a number that is not in the code at {}", where(code, i));
    keeps_count = true;
  }
  s.own_count_ = s.count_ = info.register_count;
  const uint32_t cap = std::min<uint32_t>(info.max_register_count, 255);
  s.launchable_count_ = launchable_register_count(code.arch->sm, shape);
  s.launch_count_ = std::min(cap, s.launchable_count_);
  s.free_count_ = std::min(cap, free_register_count(code.arch->sm, shape, info.register_count, info.shared_bytes));
  if (keeps_count) s.launchable_count_ = s.launch_count_ = s.free_count_ = s.own_count_;
  constexpr uint32_t alignment = 4;
  for (uint32_t r = 0; r < s.prologue_first_ + registers_of_prologue; ++r)
    if (unsettled.test(r)) s.prologue_first_ = static_cast<uint32_t>(align_up(r + 1, alignment));
  const uint32_t prologue = s.prologue_first_ + registers_of_prologue + reserved_registers;
  if (s.count_ < prologue) {
    if (s.launch_count_ < prologue)
      return unsupported("kernel {} can not hold the {} registers of the prologue", code.kernel, prologue);
    s.count_ = prologue;
    s.free_count_ = std::max(s.free_count_, s.count_);
  }
  return s;
}

namespace {

// Registers of one shape, first fit in `free`, avoiding `busy` where there is a choice.
std::optional<std::array<uint8_t, 4>> fit(const sass::RegSet& free, Holder::Shape shape, const sass::RegSet& busy) {
  const auto run = [](const sass::RegSet& set, uint32_t r, uint32_t n) {
    for (uint32_t k = 0; k < n; ++k)
      if (!set.test(r + k)) return false;
    return true;
  };
  const auto first = [&](const sass::RegSet& set, uint32_t n, uint32_t from) -> std::optional<uint32_t> {
    for (uint32_t r = from; r + n <= 255; r += n)
      if (run(set, r, n)) return r;
    return std::nullopt;
  };
  const auto numbered = [](uint32_t a, uint32_t n, uint32_t b, uint32_t m) {
    std::array<uint8_t, 4> reg{};
    for (uint32_t k = 0; k < n; ++k) reg[k] = static_cast<uint8_t>(a + k);
    for (uint32_t k = 0; k < m; ++k) reg[n + k] = static_cast<uint8_t>(b + k);
    return reg;
  };
  for (const sass::RegSet& set : {free & ~busy, free}) {
    switch (shape) {
      case Holder::Shape::quad:
        if (const auto r = first(set, 4, 0)) return numbered(*r, 4, 0, 0);
        break;
      case Holder::Shape::two_pairs:
        if (const auto a = first(set, 2, 0))
          if (const auto b = first(set, 2, *a + 2)) return numbered(*a, 2, *b, 2);
        break;
      case Holder::Shape::pair:
        if (const auto r = first(set, 2, 0)) return numbered(*r, 2, 0, 0);
        break;
      case Holder::Shape::single:
        if (const auto r = first(set, 1, 0)) return numbered(*r, 1, 0, 0);
        break;
    }
  }
  return std::nullopt;
}

sass::RegSet busy_with(const std::optional<Holder>& previous) {
  sass::RegSet busy;
  if (previous)
    for (uint32_t k = 0; k < registers_of(previous->shape); ++k) busy.set(previous->reg[k]);
  return busy;
}

}  // namespace

// Fresh registers alternate between two holders with a scoreboard each, so that "written again" waits for one store only.
std::optional<Holder> Scratch::above(uint32_t limit, Holder::Shape shape, const std::optional<Holder>& previous,
                                     const sass::RegSet& taken) {
  const uint32_t own = own_count_ > reserved_registers ? own_count_ - reserved_registers : 0;
  const uint32_t size = registers_of(shape), alignment = size;
  std::vector<uint32_t> found;
  for (auto r = static_cast<uint32_t>(align_up(own, alignment)); r + size + reserved_registers <= limit && found.size() < 2;
       r += size) {
    bool free = true;
    for (uint32_t k = 0; k < size; ++k) free &= !taken.test(r + k) && !reserved_.test(r + k);
    if (free) found.push_back(r);
  }
  if (found.empty()) return std::nullopt;
  const bool second = previous && previous->reg[0] == found[0] && found.size() > 1;
  const uint32_t r = found[second];
  count_ = std::max(count_, r + size + reserved_registers);
  fresh_used_ = std::max(fresh_used_, r + size - own);
  Holder h{shape, {}, scoreboard_[second]};
  for (uint32_t k = 0; k < size; ++k) h.reg[k] = static_cast<uint8_t>(r + k);
  return h;
}

std::optional<Holder> Scratch::borrow(InstIndex from, InstIndex to, Holder::Shape shape,
                                      const std::optional<Holder>& previous, const sass::RegSet& taken) {
  const uint32_t own = own_count_ > reserved_registers ? own_count_ - reserved_registers : 0;
  const auto reg = fit(liveness_->writable_between(from, to, own) & ~taken, shape, busy_with(previous));
  if (!reg) return std::nullopt;
  const bool other = previous && previous->scoreboard == scoreboard_[0] && previous->reg != *reg;
  return Holder{shape, *reg, scoreboard_[other]};
}

sass::RegSet Scratch::writable(InstIndex i) const {
  return liveness_->writable_before(i, own_count_ > reserved_registers ? own_count_ - reserved_registers : 0);
}

std::optional<Holder> Scratch::try_holder(InstIndex from, InstIndex to, std::initializer_list<Holder::Shape> shapes,
                                          const std::optional<Holder>& previous, const sass::RegSet& taken) {
  for (Holder::Shape shape : shapes) {
    if (auto h = above(free_count_, shape, previous, taken)) return h;
    if (auto h = borrow(from, to, shape, previous, taken)) return h;
  }
  return std::nullopt;
}

namespace {

// Scoreboards that an instruction takes so shortly before the next one that a wait there does not see it (latency::scoreboard_visible).
uint8_t taken_too_near(const sass::Control& c) {
  uint8_t taken = 0;
  for (const uint8_t sb : {c.write_barrier, c.read_barrier})
    if (sb < 6 && c.stall < latency::scoreboard_visible) taken |= static_cast<uint8_t>(1u << sb);
  return taken;
}

}  // namespace

std::optional<Holder> Scratch::after_wait(InstIndex at, Holder::Shape shape, const std::optional<Holder>& previous) const {
  const uint32_t own = own_count_ > reserved_registers ? own_count_ - reserved_registers : 0;
  const uint8_t unseen = at > 0 ? taken_too_near(sass::get_control(code_->insts[at - 1].raw)) : 0;
  for (unsigned sb = 0; sb < 6; ++sb) {
    const auto waits = static_cast<uint8_t>(1u << sb);
    if (unseen & waits) continue;
    const auto reg = fit(liveness_->writable_after_wait(at, own, waits), shape, busy_with(previous));
    if (!reg) continue;
    const bool other = previous && previous->scoreboard == scoreboard_[0] && previous->reg != *reg;
    return Holder{shape, *reg, scoreboard_[other], waits};
  }
  return std::nullopt;
}

// One whose value has arrived; where none has, one of those that the wait for one scoreboard brings, or for all.
std::optional<Holder> Scratch::spill(InstIndex at, const std::optional<Holder>& previous, const sass::RegSet& taken) {
  const uint32_t own = own_count_ > reserved_registers ? own_count_ - reserved_registers : 0;
  const uint8_t unseen = at > 0 ? taken_too_near(sass::get_control(code_->insts[at - 1].raw)) : 0;
  for (const uint8_t waits : {0x00, 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x3f}) {
    const auto reg = fit(liveness_->settled_before(at, own, waits & static_cast<uint8_t>(~unseen)) & ~taken, Holder::Shape::single, busy_with(previous));
    if (!reg) continue;
    ++spills_;
    return Holder{Holder::Shape::single, *reg, scoreboard_[0], static_cast<uint8_t>(waits & ~unseen), true};
  }
  return std::nullopt;
}

Result<Holder> Scratch::holder(InstIndex from, InstIndex to, std::initializer_list<Holder::Shape> shapes,
                               const std::optional<Holder>& previous, const sass::RegSet& taken) {
  if (auto h = try_holder(from, to, shapes, previous, taken)) return *h;
  if (spill_frame_ && from == to && std::find(shapes.begin(), shapes.end(), Holder::Shape::single) != shapes.end())
    if (auto h = spill(from, previous, taken)) return *h;
  if (auto h = above(launch_count_, *shapes.begin(), previous, taken)) return *h;
  return unsupported("no register is free at {}, and the launch can not hold more than {} a thread", where(*code_, from),
                     launch_count_);
}

// An odd one where there is room: pairs stay whole. Never one of those that the prologue works with.
std::optional<sass::enc::Gpr> Scratch::reserve(const sass::RegSet& taken) {
  const uint32_t own = own_count_ > reserved_registers ? own_count_ - reserved_registers : 0;
  const uint32_t first = std::max(own, prologue_first_ + registers_of_prologue);
  for (uint32_t start : {first | 1, (first + 1) & ~1u})
    for (uint32_t r = start; r + 1 + reserved_registers <= free_count_; r += 2) {
      if (reserved_.test(r) || taken.test(r)) continue;
      count_ = std::max(count_, r + 1 + reserved_registers);
      fresh_used_ = std::max(fresh_used_, r + 1 - own);
      reserved_.set(r);
      return sass::enc::Gpr{static_cast<uint8_t>(r)};
    }
  return std::nullopt;
}

std::optional<LaneWords> Scratch::reserve_lane_words(bool beside_groups) {
  sass::PredSet free = liveness_->untouched_predicates();
  if (beside_groups && lane_groups_)
    for (const sass::enc::Pred p : {lane_groups_->bit0, lane_groups_->bit1, lane_groups_->both}) free &= static_cast<sass::PredSet>(~(1u << p.index));
  for (uint8_t p = 7; p-- > 0;)
    if (free >> p & 1) {
      reserved_predicates_ |= static_cast<sass::PredSet>(1u << p);
      return LaneWords{{p}, {}};
    }
  return std::nullopt;
}

std::optional<LaneMasks> Scratch::reserve_masks() {
  constexpr uint32_t masks = 3, below = 12;   // three quads
  const uint32_t own = own_count_ > reserved_registers ? own_count_ - reserved_registers : 0;
  const uint32_t first = std::max(own, prologue_first_ + registers_of_prologue);
  if (first + masks + reserved_registers > free_count_) return std::nullopt;
  for (uint32_t r = std::min(free_count_ - reserved_registers - masks, first + below); r >= first; --r) {
    if (reserved_.test(r) || reserved_.test(r + 1) || reserved_.test(r + 2)) continue;
    for (uint32_t k = 0; k < masks; ++k) reserved_.set(r + k);
    count_ = std::max(count_, r + masks + reserved_registers);
    fresh_used_ = std::max(fresh_used_, r + masks - own);
    const auto reg = [r](uint32_t k) { return sass::enc::Gpr{static_cast<uint8_t>(r + k)}; };
    return LaneMasks{reg(0), reg(1), reg(2)};
  }
  return std::nullopt;
}

std::optional<sass::enc::Ureg> Scratch::counter() {
  if (uniform_taken_.none()) {
    const UniformPlan& u = uniform_;
    for (const sass::enc::Ureg r : {u.address, high_half(u.address), u.header, high_half(u.header), u.cursor, u.mask, u.base, u.temp})
      uniform_taken_.set(r.index);
  }
  const sass::RegSet free = liveness_->untouched_uniform() & ~uniform_taken_;
  for (int r = 62; r-- > 0;)
    if (free.test(static_cast<size_t>(r))) {
      uniform_taken_.set(static_cast<size_t>(r));
      return sass::enc::Ureg{static_cast<uint8_t>(r)};
    }
  return std::nullopt;
}

std::optional<sass::enc::Pred> Scratch::predicate(InstIndex from, InstIndex to, LaneGroupsToo groups) const {
  sass::PredSet free = liveness_->writable_predicates_before(from);
  for (InstIndex i = from + 1; i <= to; ++i) free &= liveness_->writable_predicates_before(i);
  free &= static_cast<sass::PredSet>(~reserved_predicates_);
  if (lane_groups_ && groups == LaneGroupsToo::no)
    for (const sass::enc::Pred p : {lane_groups_->bit0, lane_groups_->bit1, lane_groups_->both})
      free &= static_cast<sass::PredSet>(~(1u << p.index));
  for (uint8_t p = 7; p-- > 0;)
    if (free >> p & 1) return sass::enc::Pred{p};
  return std::nullopt;
}

}  // namespace xtrace::instrument
