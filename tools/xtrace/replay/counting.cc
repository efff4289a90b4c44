#include "tools/xtrace/replay/counting.h"

#include <algorithm>

#include "base/leads_back.h"
#include "instrument/slot_plan.h"
#include "tools/xtrace/replay/trace_run.h"

namespace xtrace::cli {
namespace {

template <typename T>
std::vector<T> as_array(ByteView bytes, size_t n) {
  XT_CHECK(bytes.size() >= n * sizeof(T), "a buffer that was read whole");
  std::vector<T> out(n);
  std::memcpy(out.data(), bytes.data(), n * sizeof(T));
  return out;
}

}  // namespace

Result<double> run_restored(replay::Backend& backend, replay::ModuleHandle module) {
  XT_TRY_STATUS(backend.restore(module, replay::RestoreScope::all));
  XT_TRY(const replay::RunOutcome outcome, backend.run(module));
  if (!outcome.completed) return device("{}", outcome.failure);
  return outcome.microseconds;
}

Status check_bytes(const LaunchContext& c, const Counts& counts, instrument::ProbeKind probe,
                   const std::vector<uint32_t>& bytes) {
  if (!counts.stable) return {};
  uint64_t by_block = 0, by_warp = 0;
  for (uint32_t b = 0; b < counts.blocks.size(); ++b)
    if (!counts.left_out.has(b)) by_block += counts.blocks[b].warps * c.splicer.record_bytes(probe, b);
  for (uint32_t n : bytes) by_warp += n;
  if (by_block == by_warp) return {};
  return with_hint(unsupported("the launch writes {} bytes of {} records, of which {} were counted warp by warp: a warp "
                               "writes 4 GiB or more, or did not end",
                               by_block, instrument::probe_info(probe).name, by_warp),
                   "record a launch with fewer iterations");
}

namespace {

// Counters of 32 bits: check_bytes() has shown that the executions did not go past them, when they were the same twice.
Status check_narrow(const wire::AddressMap& map, const Counts& counts) {
  for (uint32_t b = 0; b < counts.blocks.size(); ++b)
    if (map.blocks[b].narrow_count && !counts.left_out.has(b) && (!counts.stable || counts.blocks[b].warps >= wire::narrow_executions))
      return unsupported("block {} leaves one register to count in, and {}", b,
                         counts.stable ? "is executed more often than 32 bits hold"
                                       : "its executions differ between replays, so that 32 bits may not hold them");
  return {};
}

bool same_path(const LeftOut& left_out, size_t block, const wire::BlockCount& a, const wire::BlockCount& b) {
  return left_out.regroups(block) ? a.lanes == b.lanes : left_out.has(block) || a == b;
}

void add_to(wire::BlockCount& sum, const wire::BlockCount& more) {
  sum.warps += more.warps;
  sum.lanes += more.lanes;
}

bool may_repeat(const std::vector<wire::Block>& blocks, uint32_t block) {
  return leads_back(blocks.size(), block, [&](uint32_t b) { return blocks[b].indirect ? nullptr : &blocks[b].successors; });
}

// A record for each lane, in every block where lanes come in other groups. False: that is too much.
bool add_room(const LaunchContext& c, const Drawn& drawn, Counts& counts) {
  constexpr uint64_t lanes = 32, most_room = 256 << 10;
  const std::pair<instrument::ProbeKind, std::vector<uint32_t>*> sums[] = {{instrument::ProbeKind::block, &counts.block_bytes},
                                                                           {instrument::ProbeKind::inst, &counts.inst_bytes},
                                                                           {instrument::ProbeKind::mem, &counts.mem_bytes}};
  for (const auto& [probe, bytes] : sums) {
    uint64_t room = 0;
    for (uint32_t b = 0; b < counts.blocks.size(); ++b)
      if (counts.left_out.regroups(b)) room += lanes * c.splicer.record_bytes(probe, b);
    if (room > most_room) return false;
    for (size_t w = 0; w < bytes->size(); ++w)
      if (drawn.has(static_cast<uint32_t>(w), c.warps_per_cta)) (*bytes)[w] += static_cast<uint32_t>(room);
  }
  return true;
}

}  // namespace

bool Counts::is_exact() const { return !has_any(left_out.regrouped); }

Result<Counts> count_without_polls(LaunchContext& c, const Drawn& drawn, const std::vector<bool>& polling) {
  constexpr int most = 4;   // pairs of replays, until one agrees
  LeftOut left_out{polling, std::vector<bool>(polling.size(), false)};
  for (int pairs = 1;; ++pairs) {
    XT_TRY(Counts counts, count_launch(c, drawn, instrument::ProbeKind::mem, left_out));
    if (counts.stable) {
      XT_TRY_STATUS(check_bytes(c, counts, instrument::ProbeKind::mem, counts.mem_bytes));
      // Of warps that are found by where they run their bytes are all that is known.
      if (!counts.is_exact()) counts.stable = drawn.select.sms.empty() && add_room(c, drawn, counts);
      return counts;
    }
    for (uint32_t b = 0; b < counts.blocks.size(); ++b) {
      if (polling[b] || counts.blocks[b] == counts.before[b]) continue;
      if (counts.blocks[b].lanes != counts.before[b].lanes || may_repeat(c.splicer.blocks(), b)) return counts;
      left_out.regrouped[b] = true;
    }
    if (pairs == most) return counts;
  }
}

namespace {

Result<Counts> count_sums(LaunchContext& c, const Drawn& drawn, instrument::ProbeKind counted_for, const LeftOut& left_out,
                          const std::vector<uint32_t>& counted_bytes, instrument::Plan::Sum sum) {
  const auto blocks = static_cast<uint32_t>(c.splicer.blocks().size());
  const auto last_lanes = static_cast<uint32_t>((c.launch.record.block.count() - 1) % 32 + 1);
  const bool apart = last_lanes != 32;
  instrument::SlotPlan plan = instrument::plan_counters(c.warps, apart ? 2 * blocks : blocks);
  XT_TRY(const DevPtr buffer, c.backend.allocate(plan.total_bytes, "block counters"));
  instrument::place(plan, buffer.value);
  std::vector<bool> excluded(left_out.unrecorded.empty() ? 0 : blocks);
  for (uint32_t b = 0; b < excluded.size(); ++b) excluded[b] = left_out.has(b);
  instrument::Plan count{instrument::ProbeKind::count, {}, drawn.at_once(), drawn.seed, {}, {}, counted_for};
  count.counted_bytes = counted_bytes;
  count.select = {drawn.select.ctas, drawn.select.warps, {}};
  count.unrecorded = excluded;
  count.last_apart = apart;
  count.sum = sum;
  XT_TRY(const instrument::Spliced spliced, c.splicer.splice(count, plan.layout));
  auto counted = with_module(c.backend, spliced.cubin, [&](replay::ModuleHandle module) -> Result<Counts> {
    Counts counts;
    counts.left_out = left_out;
    counts.last_lanes = last_lanes;
    Bytes first;
    for (int replay = 0; replay < 2; ++replay) {
      XT_TRY_STATUS(c.backend.fill(buffer, plan.total_bytes, 0));
      XT_TRY_STATUS(run_restored(c.backend, module));
      XT_TRY(Bytes bytes, c.backend.read(buffer, plan.total_bytes));
      const uint64_t counters = plan.layout.counters - plan.layout.headers;
      if (replay == 0) {
        diff::SemanticEvidence e;
        XT_TRY_STATUS(compare_now(c, module, e));
        counts.same_output = e.output == diff::OutputMatch::equal || e.output == diff::OutputMatch::unstable_only;
        counts.difference = e.output_text;
        first = std::move(bytes);
        continue;
      }
      // Clocks differ between replays: compare the counters alone.
      const std::vector<wire::BlockCount> sums = instrument::sum_counters(spliced.map, ByteView(bytes).subspan(counters));
      const std::vector<wire::BlockCount> before = instrument::sum_counters(spliced.map, ByteView(first).subspan(counters));
      counts.blocks.assign(sums.begin(), sums.begin() + blocks);
      counts.before.assign(before.begin(), before.begin() + blocks);
      if (apart) {
        counts.last.assign(sums.begin() + blocks, sums.begin() + 2 * blocks);
        const std::vector<wire::BlockCount> last_before(before.begin() + blocks, before.begin() + 2 * blocks);
        for (uint32_t b = 0; b < blocks; ++b) {
          counts.stable &= same_path(left_out, b, counts.last[b], last_before[b]);
          add_to(counts.blocks[b], counts.last[b]);
          add_to(counts.before[b], last_before[b]);
        }
      }
      for (uint32_t b = 0; b < blocks; ++b) counts.stable &= same_path(left_out, b, counts.blocks[b], counts.before[b]);
      const auto again = as_array<wire::WarpHeader>(first, c.warps);
      for (const wire::WarpHeader& h : as_array<wire::WarpHeader>(bytes, c.warps)) {
        const wire::WarpHeader& other = again[counts.block_bytes.size()];
        const bool exited = h.bytes != wire::not_exited && other.bytes != wire::not_exited;
        counts.stable &= h.bytes == other.bytes && h.exit_clock_lo == other.exit_clock_lo && h.sm == other.sm;
        counts.block_bytes.push_back(exited ? std::max(h.bytes, other.bytes) : 0);
        counts.inst_bytes.push_back(exited ? std::max(h.exit_clock_lo, other.exit_clock_lo) : 0);
        counts.mem_bytes.push_back(exited ? std::max(h.sm, other.sm) : 0);
      }
    }
    return counts;
  });
  XT_TRY_STATUS(c.backend.release(buffer));
  if (counted) XT_TRY_STATUS(check_narrow(spliced.map, *counted));
  return counted;
}

// One sum after the other, where the kernel leaves few uniform registers.
Result<Counts> count_one_by_one(LaunchContext& c, const Drawn& drawn, instrument::ProbeKind counted_for, const LeftOut& left_out,
                                const std::vector<uint32_t>& counted_bytes) {
  using Sum = instrument::Plan::Sum;
  XT_TRY(Counts counts, count_sums(c, drawn, counted_for, left_out, counted_bytes, Sum::block));
  const std::pair<Sum, std::vector<uint32_t>*> others[] = {{Sum::inst, &counts.inst_bytes}, {Sum::counted, &counts.mem_bytes}};
  for (const auto& [sum, bytes] : others) {
    XT_TRY(Counts other, count_sums(c, drawn, counted_for, left_out, counted_bytes, sum));
    *bytes = std::move(other.block_bytes);
    counts.stable &= other.stable;
    for (size_t b = 0; b < counts.blocks.size(); ++b) counts.stable &= same_path(left_out, b, counts.blocks[b], other.blocks[b]);
    for (size_t b = 0; b < counts.last.size(); ++b) counts.stable &= same_path(left_out, b, counts.last[b], other.last[b]);
  }
  return counts;
}

}  // namespace

Result<Counts> count_launch(LaunchContext& c, const Drawn& drawn, instrument::ProbeKind counted_for, const LeftOut& left_out,
                            const std::vector<uint32_t>& counted_bytes) {
  XT_TRY(Counts counts, c.splicer.one_sum_a_replay()
                            ? count_one_by_one(c, drawn, counted_for, left_out, counted_bytes)
                            : count_sums(c, drawn, counted_for, left_out, counted_bytes, instrument::Plan::Sum::block));
  XT_TRY_STATUS(check_bytes(c, counts, instrument::ProbeKind::block, counts.block_bytes));
  XT_TRY_STATUS(check_bytes(c, counts, instrument::ProbeKind::inst, counts.inst_bytes));
  return counts;
}

Result<std::optional<std::vector<uint32_t>>> count_records(LaunchContext& c, const Drawn& drawn, const Counts& counts,
                                                           const std::vector<uint32_t>& by_block) {
  XT_TRY(const Counts again, count_launch(c, drawn, instrument::ProbeKind::mem, counts.left_out, by_block));
  uint64_t by_blocks = 0, by_warps = 0;
  for (uint32_t b = 0; b < by_block.size(); ++b)
    if (!counts.left_out.has(b)) by_blocks += counts.blocks[b].warps * by_block[b];
  for (const uint32_t n : again.mem_bytes) by_warps += n;
  if (!again.stable || by_blocks != by_warps) return std::nullopt;
  return again.mem_bytes;
}

std::optional<std::string> path_difference(const LaunchContext& c, const Counts& counts) {
  if (counts.stable) return std::nullopt;
  const std::vector<bool> waiting = c.splicer.waiting();
  const bool waits = has_any(waiting);
  for (uint32_t b = 0; b < counts.blocks.size(); ++b) {
    const wire::BlockCount &now = counts.blocks[b], &before = counts.before[b];
    if (same_path(counts.left_out, b, now, before) || waiting[b]) continue;
    if (waits && now.lanes == before.lanes && !may_repeat(c.splicer.blocks(), b)) continue;
    return fmt::format("block {} at {:#x} was executed {} times by {} lanes, then {} times by {}", b, c.splicer.blocks()[b].first_pc,
                       before.warps, before.lanes, now.warps, now.lanes);
  }
  if (waits) return std::nullopt;   // of which warps wait longer nothing follows
  return "every block was executed as often, but by other warps";
}

Result<bool> paths_vary(LaunchContext& c, const Drawn& drawn, const Counts& counts) {
  constexpr int more = 4;   // of two replays each
  for (int k = 0; k < more; ++k) {
    XT_TRY(const Counts again, count_launch(c, drawn, instrument::ProbeKind::mem, counts.left_out));
    if (!again.stable) return true;
    for (size_t b = 0; b < counts.blocks.size(); ++b)
      if (!same_path(counts.left_out, b, counts.blocks[b], again.blocks[b])) return true;
  }
  return false;
}

std::vector<bool> Counts::full() const {
  std::vector<bool> full;
  for (size_t b = 0; b < blocks.size(); ++b) full.push_back(blocks[b].lanes == 32 * blocks[b].warps && !left_out.has(b));
  return full;
}

std::vector<bool> Counts::all_launched() const {
  std::vector<bool> all;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const wire::BlockCount part = last.empty() ? wire::BlockCount{} : last[b];
    all.push_back(blocks[b].lanes == 32 * (blocks[b].warps - part.warps) + last_lanes * part.warps && part.lanes == last_lanes * part.warps &&
                  !left_out.has(b));
  }
  return all;
}

std::vector<uint64_t> Counts::executions() const {
  std::vector<uint64_t> executions;
  for (size_t b = 0; b < blocks.size(); ++b) executions.push_back(left_out.has(b) && !left_out.regroups(b) ? 0 : blocks[b].warps);
  return executions;
}

}  // namespace xtrace::cli
