#include "tools/xtrace/replay/interval_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "base/log.h"
#include "base/progress.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/inst.h"
#include "tools/xtrace/replay/site_replays.h"
#include "trace/interval_estimate.h"
#include "trace/interval_model.h"

namespace xtrace::cli {
namespace {

using instrument::Around;

constexpr uint32_t sparser[] = {2, 4};     // rates, as parts of the densest
constexpr uint32_t draws = 2, stretch_draws = 4;   // of CTAs, at each rate: where code comes to lie counts, too
constexpr double most_cycles_per_us = 2000, slowed_down = 8;

// A quantity at all rates.
struct Quantity {
  std::vector<SiteLaunch> dense[stretch_draws];   // at the rate of the table
  std::vector<trace::RateMean> means;      // of each module
  std::vector<double> first_dense;         // launches of the first module
  std::vector<double> other;               // likewise around this and the next instruction, or with everything twice
  uint32_t stall = 0, pause = 0;
  uint64_t samples = 0;                    // of the dense launches
  std::array<double, trace::SiteTimes::shown> excess{};   // and how many exceed the stall count by so much
  std::optional<trace::IntervalEstimate> estimate;
};

trace::Scattered scattered(const std::vector<double>& launches) {
  trace::Scattered s;
  const auto n = static_cast<double>(launches.size());
  for (double x : launches) s.cycles += x / n;
  for (double x : launches) s.deviation += (x - s.cycles) * (x - s.cycles) / std::max(1.0, n - 1) / n;
  s.deviation = std::sqrt(s.deviation);
  return s;
}

class IntervalRun {
 public:
  IntervalRun(LaunchContext& c, const Counts& counts, const ReplayOptions& options, TraceBuffer& buffer,
              const IntervalRequest& request, const trace::GradedTimes& table)
      : c_(c), counts_(counts), options_(options), buffer_(buffer), request_(request), table_(table),
        whole_(request.all && counts.stable),
        base_(base_rate(c, request.densest)) {
    for (double us : c.reference.microseconds) longest_ = std::max(longest_, us * most_cycles_per_us * slowed_down);
  }

  Result<diff::IntervalFidelity> run() {
    const auto begin = std::chrono::steady_clock::now();
    XT_TRY(const cubin::Image image, cubin::Image::parse(c_.launch.code));
    XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, c_.launch.record.kernel));
    text_ = image.sections()[info.text_section].data;
    for (const auto& i : c_.splicer.instructions())
      if (i.parts) edges_.insert(i.pc.value);
    diff::IntervalFidelity out;
    XT_TRY_STATUS(measure_all(out));
    add_rows(out);
    if (whole_) XT_TRY_STATUS(add_up(out));
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return out;
  }

 private:
  struct Key {
    Around around;
    uint32_t pc;
    auto operator<=>(const Key&) const = default;
  };

  // The densest rate. Where all CTAs are measured, they wait for each other's records, and how that falls off with the rate is no
  // line; of few CTAs some must be left at the sparsest.
  static uint32_t base_rate(const LaunchContext& c, uint32_t one_in) {
    const uint32_t ctas = c.warps / std::max(1u, c.warps_per_cta);
    return one_in * (ctas >= 256 ? 4 : ctas >= 64 ? 2 : 1);
  }

  // Everything at one place follows each other, the densest rate first.
  std::vector<SitePlan> plans() const {
    std::vector<SitePlan> plans;
    const uint32_t seed = request_.sample.seed.value_or(options_.seed);
    const auto add = [&](Around around, uint32_t pc, uint32_t span, bool twice) {
      for (uint32_t d = 0; d < (around == Around::body || around == Around::kernel ? stretch_draws : draws); ++d) {
        plans.push_back({pc, around, base_, seed + d});
        for (uint32_t s : sparser) plans.push_back({pc, around, base_ * s, seed + d});
      }
      if (span != 1 || twice) plans.push_back({pc, around, base_, seed, span, twice});
    };
    std::set<uint32_t> asked(request_.sites.begin(), request_.sites.end());
    for (uint32_t pc : asked) {
      if (whole_ && edges_.contains(pc)) continue;   // from stretches
      add(Around::instruction, pc, spans_next(pc) ? 2 : 1, false);
    }
    if (!whole_) return plans;
    add(Around::kernel, 0, 1, true);
    for (size_t b = 0; b < counts_.blocks.size(); ++b) {
      if (counts_.blocks[b].warps == 0) continue;
      const wire::Block& block = c_.splicer.blocks()[b];
      if (block.instructions > 1) add(Around::body, block.first_pc, 1, true);
      if (edges_.contains(last_of(block))) add(Around::block, last_of(block), 1, true);
    }
    return plans;
  }

  static uint32_t last_of(const wire::Block& block) { return block.first_pc + (block.instructions - 1) * trace::inst_bytes; }
  const wire::Block& block_at(uint32_t pc) const {
    const auto& blocks = c_.splicer.blocks();
    return *std::find_if(blocks.begin(), blocks.end(), [&](const wire::Block& b) { return pc >= b.first_pc && pc <= last_of(b); });
  }
  // One pair of clocks can stand around it and the next.
  bool spans_next(uint32_t pc) const {
    const wire::Block& block = block_at(pc);
    return pc < last_of(block) && !edges_.contains(pc + trace::inst_bytes);
  }

  Status measure_all(diff::IntervalFidelity& out) {
    const std::vector<SitePlan> todo = plans();
    SiteReplays replays(c_, counts_, buffer_, request_.bounds, {request_.sample.select, longest_});
    Progress progress("intervals", todo.size(), !options_.quiet);
    const uint32_t first_seed = todo.empty() ? 0 : todo[0].seed;
    XT_TRY_STATUS(replays.run(todo, [&](size_t k, SiteResult result) -> Status {
      const SitePlan& plan = todo[k];
      Quantity& m = measured_[{plan.around, plan.pc}];
      for (const SiteLaunch& launch : result.launches) out.too_long += launch.too_long;
      if (plan.span != 1 || plan.twice)
        for (const SiteLaunch& launch : result.launches) m.other.push_back(launch.mean());
      else
        add(std::move(result), plan, plan.seed - first_seed, m);
      // Warp by warp these are held against the kernel's life.
      const bool done = k + 1 == todo.size() || todo[k + 1].pc != plan.pc || todo[k + 1].around != plan.around;
      const bool is_last = plan.around == Around::instruction && plan.pc == last_of(block_at(plan.pc));
      if (done && plan.around == Around::instruction && !is_last)
        for (auto& dense : m.dense) dense = {};
      progress.advance(1, fmt::format("{:#x}", plan.pc));
      return {};
    }));
    for (auto& [key, m] : measured_) {
      m.estimate = trace::estimate_interval(m.means);
      std::string text;
      for (const trace::RateMean& r : m.means) text += fmt::format(" 1:{} {:.2f}", r.one_in, r.cycles);
      // One by one: what fmt::join() of numbers instantiates takes seconds to compile.
      const auto add_numbers = [&text](const char* name, const auto& numbers) {
        text += name;
        for (const double number : numbers) text += fmt::format(" {:.2f}", number);
      };
      add_numbers("; alone", m.first_dense);
      add_numbers(", other", m.other);
      log_debug("{} {:#x}:{}", static_cast<int>(key.around), key.pc, text);
    }
    out.records_lost = replays.lost();
    const SiteSeconds& s = replays.seconds();
    log_debug("{} replays of two clocks each: {:.2f} s waiting for code, {:.2f} loading, {:.2f} running, {:.2f} reading, {:.2f} adding up",
              todo.size(), s.waiting, s.loading, s.running, s.reading, s.summing);
    return {};
  }

  // Sparse replays measure other CTAs: what counts is how far each is from the dense ones in the same warps.
  void add(SiteResult result, const SitePlan& plan, uint32_t draw, Quantity& m) {
    std::vector<SiteLaunch>& dense = m.dense[draw];
    const bool is_dense = plan.one_in == base_;
    if (is_dense && !result.launches.empty()) {
      m.stall = result.site.least_cycles;
      m.pause = plan.around == Around::instruction && !result.site.edge ? 0 : result.site.overhead_cycles;
    }
    double n = 0, sum = 0;
    for (const SiteLaunch& seen : result.launches) {
      double all_n = 0, all = 0, same_n = 0, same = 0, own_n = 0, own = 0;
      for (size_t w = 0; w < seen.count.size(); ++w) own_n += seen.count[w], own += seen.cycles[w];
      if (own_n == 0) continue;
      double off = 0;
      if (is_dense) {
        if (draw == 0) m.first_dense.push_back(own / own_n);
        m.samples += seen.samples;
        for (size_t k = 0; k < m.excess.size(); ++k) m.excess[k] += static_cast<double>(seen.excess[k]);
      } else {
        for (const SiteLaunch& d : dense)
          for (size_t w = 0; w < d.count.size(); ++w) {
            all_n += d.count[w];
            all += d.cycles[w];
            if (seen.count[w] == 0) continue;
            same_n += d.count[w];
            same += d.cycles[w];
          }
        if (same_n == 0 || all_n == 0) continue;
        off = all / all_n - same / same_n;
      }
      n += own_n;
      sum += std::max(0.0, own / own_n + off) * own_n;
    }
    if (n > 0) m.means.push_back({plan.one_in, sum / n, static_cast<uint64_t>(n)});
    if (is_dense) dense = std::move(result.launches);
  }

  const Quantity* find(Around around, uint32_t pc) const {
    const auto found = measured_.find({around, pc});
    return found == measured_.end() || !found->second.estimate ? nullptr : &found->second;
  }

  std::optional<trace::StretchTimes> stretch(Around around, uint32_t pc) const {
    const Quantity* m = find(around, pc);
    if (m == nullptr) return std::nullopt;
    trace::StretchTimes t{m->estimate->cycles, m->estimate->error, static_cast<double>(m->pause), {}};
    if (!m->other.empty() && !m->first_dense.empty()) {
      const trace::Scattered once = scattered(m->first_dense), twice = scattered(m->other);
      t.added = trace::Scattered{twice.cycles - once.cycles, std::hypot(twice.deviation, once.deviation)};
    }
    return t;
  }

  // What the clock in front of the site adds, by the one in front of it: pairs around each of them, and around both.
  trace::SiteTimes site(uint32_t pc, const Quantity& m) const {
    trace::SiteTimes t{pc, m.stall, waits(pc), m.estimate->cycles, m.estimate->error, m.excess, {}};
    for (double& share : t.excess) share /= std::max(1.0, static_cast<double>(m.samples));
    const Quantity* before = pc >= trace::inst_bytes ? find(Around::instruction, pc - trace::inst_bytes) : nullptr;
    if (before == nullptr || before->other.empty() || before->first_dense.empty() || m.first_dense.empty()) return t;
    const trace::Scattered first = scattered(before->first_dense), second = scattered(m.first_dense), both = scattered(before->other);
    t.added = trace::Scattered{first.cycles + second.cycles - both.cycles,
                               std::sqrt(first.deviation * first.deviation + second.deviation * second.deviation +
                                         both.deviation * both.deviation)};
    return t;
  }

  sass::Control control(uint32_t pc) const { return sass::get_control(read_at<sass::RawInst>(text_, pc, "instruction").value()); }
  bool waits(uint32_t pc) const { return control(pc).wait_mask != 0; }

  // Sites and stretches of every executed block.
  void collect() {
    const auto& blocks = c_.splicer.blocks();
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (counts_.blocks[b].warps == 0) continue;
      trace::BlockTimes t;
      t.executions = static_cast<double>(counts_.blocks[b].warps) / std::max(1u, c_.warps);
      t.body = stretch(Around::body, blocks[b].first_pc);
      for (uint32_t pc = blocks[b].first_pc; pc < last_of(blocks[b]) || (!whole_ && pc == last_of(blocks[b])); pc += trace::inst_bytes) {
        if (const Quantity* m = find(Around::instruction, pc))
          t.sites.push_back(site(pc, *m));
        else
          ++t.unknown;
      }
      if (whole_) {
        const uint32_t last = last_of(blocks[b]);
        if (const Quantity* m = find(Around::instruction, last)) {
          t.last_site = site(last, *m);
        } else if ((t.last = stretch(Around::block, last))) {
          t.last_stall = control(last).stall;
          const double all = samples_of(Around::body, blocks[b].first_pc), on = samples_of(Around::block, last);
          if (all > 0 && blocks[b].exits) t.last_share = std::min(1.0, on / all);
        }
      }
      number_.push_back(b);
      blocks_.push_back(std::move(t));
    }
    kernel_ = stretch(Around::kernel, 0);
    const trace::AddedCycles added(blocks_, kernel_ ? &*kernel_ : nullptr);
    inserted_ = added.where_nothing_waits();
    for (const trace::BlockTimes& t : blocks_) intervals_.push_back(trace::intervals_of(t, added));
    if (kernel_) life_ = std::max(0.0, kernel_->cycles - added.of(*kernel_, false));
  }
  double samples_of(Around around, uint32_t pc) const {
    const Quantity* m = find(around, pc);
    return m == nullptr ? 0 : static_cast<double>(m->samples);
  }

  void add_rows(diff::IntervalFidelity& out) {
    collect();
    out.inserted_cycles = inserted_;
    for (size_t k = 0; k < blocks_.size(); ++k) {
      const wire::Block& block = c_.splicer.blocks()[number_[k]];
      const double executions = blocks_[k].executions;
      const auto add = [&](const trace::Interval& i, uint32_t pc, const Quantity& m) {
        const auto found = table_.all().find({pc, request_.one_in});
        const bool known = found != table_.all().end() && found->second.cycles.count() != 0;
        out.rows.push_back({pc, i.cycles, i.error, m.estimate->converged,
                            known ? std::optional(found->second.cycles.mean()) : std::nullopt, {}, executions});
      };
      for (const trace::Interval& i : intervals_[k].sites) add(i, i.pc, *find(Around::instruction, i.pc));
      if (!intervals_[k].last) continue;
      const uint32_t pc = last_of(block);
      add(*intervals_[k].last, pc, *find(blocks_[k].last_site ? Around::instruction : Around::block, pc));
    }
  }

  // Adds what a quantity was for each warp in the dense replays, in proportion, so that it is `cycles` on average. False: not known.
  bool add_to_warps(const Quantity* m, double cycles, std::vector<double>& sums) const {
    if (m == nullptr) return false;
    double n = 0, sum = 0;
    for (const auto& dense : m->dense)
      for (const SiteLaunch& s : dense)
        for (uint32_t w = 0; w < c_.warps; ++w) n += s.count[w], sum += s.cycles[w];
    if (sum <= 0) return cycles <= 0;
    const double scale = cycles / (sum / n);
    std::vector<double> own(c_.warps);
    std::vector<uint32_t> launches(c_.warps);
    for (const auto& dense : m->dense)
      for (const SiteLaunch& s : dense)
        for (uint32_t w = 0; w < c_.warps; ++w)
          if (s.count[w] != 0) own[w] += s.cycles[w], ++launches[w];
    for (uint32_t w = 0; w < c_.warps; ++w)
      if (launches[w] != 0) sums[w] += scale * own[w] / launches[w];
    return true;
  }

  // The sum of the intervals of each warp against its life, and of all warps the median of that.
  Status add_up(diff::IntervalFidelity& out) {
    const Quantity* life = find(Around::kernel, 0);
    if (life == nullptr || life_ <= 0) return {};
    std::vector<double> sums(c_.warps), lives(c_.warps);
    for (size_t k = 0; k < blocks_.size(); ++k) {
      const wire::Block& block = c_.splicer.blocks()[number_[k]];
      const trace::BlockIntervals& i = intervals_[k];
      out.sum_cycles += blocks_[k].executions * i.together(blocks_[k]);
      if (block.instructions > 1 && !add_to_warps(find(Around::body, block.first_pc), i.body, sums)) return {};
      if (!i.last) continue;   // behind an EXIT of all lanes there is none
      if (!add_to_warps(find(blocks_[k].last_site ? Around::instruction : Around::block, last_of(block)), i.last->cycles, sums)) return {};
    }
    std::vector<double> ratios;
    add_to_warps(life, life_, lives);
    for (uint32_t w = 0; w < c_.warps; ++w)
      if (lives[w] > 0) ratios.push_back(sums[w] / lives[w]);
    if (ratios.empty()) return {};
    out.lifetime_cycles = life_;
    std::nth_element(ratios.begin(), ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2), ratios.end());
    out.median_warp = ratios[ratios.size() / 2];
    return {};
  }

  LaunchContext& c_;
  const Counts& counts_;
  const ReplayOptions& options_;
  TraceBuffer& buffer_;
  const IntervalRequest& request_;
  const trace::GradedTimes& table_;
  const bool whole_;
  const uint32_t base_;
  double longest_ = 0;                         // cycles of the launch, at most
  std::map<Key, Quantity> measured_;
  std::vector<size_t> number_;                 // of the block, parallel to blocks_
  std::vector<trace::BlockTimes> blocks_;
  std::vector<trace::BlockIntervals> intervals_;
  std::optional<trace::StretchTimes> kernel_;
  double inserted_ = 1, life_ = 0;
  std::set<uint32_t> edges_;                   // instructions behind which lanes may part: they have no pair
  Bytes text_;
};

}  // namespace

Result<diff::IntervalFidelity> estimate_intervals(LaunchContext& c, const Counts& counts, const ReplayOptions& options,
                                                  TraceBuffer& buffer, const IntervalRequest& request,
                                                  const trace::GradedTimes& table) {
  return IntervalRun(c, counts, options, buffer, request, table).run();
}

}  // namespace xtrace::cli
