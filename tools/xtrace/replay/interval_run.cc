#include "tools/xtrace/replay/interval_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>

#include "base/progress.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/inst.h"
#include "trace/interval_estimate.h"
#include "trace/interval_model.h"
#include "trace/stretch.h"

namespace xtrace::cli {
namespace {

using instrument::Around;

constexpr size_t spliced_ahead = 24;       // splices under way while the GPU runs
constexpr uint32_t warming = 2, launches = 2;   // of each module; those that are looked at
constexpr uint32_t sparser[] = {2, 4};     // rates, as parts of the densest
constexpr double most_cycles_per_us = 2000, slowed_down = 8;

struct Want {
  uint32_t pc = 0;
  Around around = Around::instruction;
  uint32_t one_in = 1, seed = 0;
};

// One launch, warp by warp.
struct Seen {
  std::vector<uint32_t> count;
  std::vector<double> cycles;
};
double mean(const Seen& s) {
  double n = 0, sum = 0;
  for (size_t w = 0; w < s.count.size(); ++w) n += s.count[w], sum += s.cycles[w];
  return n > 0 ? sum / n : 0;
}

// A quantity at all rates.
struct Measured {
  std::vector<Seen> dense;                 // launches at the rate of the table
  std::vector<trace::RateMean> means;
  uint32_t stall = 0, pause = 0;
  uint64_t samples = 0;
  std::array<double, trace::SiteTimes::shown> excess{};   // of the dense launches, shares
  std::optional<trace::IntervalEstimate> estimate;
};

class IntervalRun {
 public:
  IntervalRun(LaunchContext& c, const Counts& counts, const ReplayOptions& options, TraceBuffer& buffer,
              const IntervalRequest& request, const trace::GradedTimes& table)
      : c_(c), counts_(counts), options_(options), buffer_(buffer), request_(request), table_(table),
        full_(counts.full()), executions_(counts.executions()), whole_(request.all && counts.stable),
        base_(base_rate(c, request.one_in)) {
    for (double us : c.reference.microseconds) longest_ = std::max(longest_, us * most_cycles_per_us * slowed_down);
  }

  Result<diff::IntervalFidelity> run() {
    const auto begin = std::chrono::steady_clock::now();
    XT_TRY(const cubin::Image image, cubin::Image::parse(c_.launch.code));
    XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, c_.launch.record.kernel));
    text_ = image.sections()[info.text_section].data;
    XT_TRY_STATUS(measure_all());
    diff::IntervalFidelity out;
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

  std::vector<Want> wanted() const {
    std::vector<Want> wants;
    const uint32_t seed = request_.sample.seed.value_or(options_.seed);
    const auto add = [&](Around around, uint32_t pc) {
      wants.push_back({pc, around, base_, seed});
      for (uint32_t s : sparser) wants.push_back({pc, around, base_ * s, seed});
    };
    for (uint32_t pc : request_.sites) add(Around::instruction, pc);
    if (!whole_) return wants;
    add(Around::kernel, 0);
    for (size_t b = 0; b < counts_.blocks.size(); ++b) {
      if (counts_.blocks[b].warps == 0) continue;
      const wire::Block& block = c_.splicer.blocks()[b];
      add(Around::block, block.first_pc);
      if (block.instructions > 1) add(Around::body, block.first_pc);
    }
    return wants;
  }

  Result<instrument::Spliced> splice(const Want& w) const {
    instrument::Plan plan;
    plan.probe = instrument::ProbeKind::pair;
    plan.pair_sites = {OrigPc{w.pc}};
    plan.one_in = w.one_in;
    plan.seed = w.seed;
    plan.full_blocks = full_;
    plan.executions = executions_;
    plan.select = request_.sample.select;
    plan.around = w.around;
    return c_.splicer.splice(plan, buffer_.layout());
  }

  Status measure_all() {
    const std::vector<Want> wants = wanted();
    std::map<size_t, std::future<Result<instrument::Spliced>>> ahead;
    size_t begun = 0;
    Progress progress("intervals", wants.size(), !options_.quiet);
    for (size_t k = 0; k < wants.size(); ++k) {
      for (; begun < wants.size() && begun < k + spliced_ahead; ++begun)
        ahead[begun] = std::async(std::launch::async, [this, w = wants[begun]] { return splice(w); });
      auto spliced = ahead.at(k).get();
      ahead.erase(k);
      if (spliced) {
        XT_TRY_STATUS(measure(wants[k], *spliced));
      } else if (spliced.error().kind == ErrorKind::internal) {
        return tl::make_unexpected(spliced.error());
      }
      // Warp by warp they are held against the kernel's life: blocks alone, as memory is limited.
      const bool done = k + 1 == wants.size() || wants[k + 1].pc != wants[k].pc || wants[k + 1].around != wants[k].around;
      if (done && wants[k].around != Around::block && wants[k].around != Around::kernel)
        measured_[{wants[k].around, wants[k].pc}].dense = {};
      progress.advance(1, fmt::format("{:#x}", wants[k].pc));
    }
    for (auto& [key, m] : measured_) m.estimate = trace::estimate_interval(m.means);
    return {};
  }

  Status measure(const Want& w, const instrument::Spliced& spliced) {
    Measured& m = measured_[{w.around, w.pc}];
    const bool dense = w.one_in == base_;
    if (!dense && m.dense.empty()) return {};
    return with_module(c_.backend, spliced.cubin, [&](replay::ModuleHandle module) -> Status {
      const wire::Site& site = spliced.map.sites[0];
      if (dense) {
        m.stall = site.least_cycles;
        m.pause = w.around == Around::instruction ? 0 : site.overhead_cycles - std::min(1u, site.overhead_cycles);
        if (site.edge) m.pause = site.overhead_cycles;
      }
      XT_TRY_STATUS(buffer_.clear());
      XT_TRY_STATUS(run_restored(c_.backend, module));
      for (uint32_t k = 1; k < warming + launches; ++k) {
        if (!counts_.stable) XT_TRY_STATUS(buffer_.clear());
        XT_TRY_STATUS(c_.backend.restore(module, replay::RestoreScope::written));
        XT_TRY(const replay::RunOutcome outcome, c_.backend.run(module));
        if (!outcome.completed) return device("{}", outcome.failure);
        if (k < warming) continue;
        XT_TRY(Seen seen, decode(spliced, w, m, dense));
        add(std::move(seen), w.one_in, m, dense);
      }
      if (dense && m.samples != 0)
        for (double& share : m.excess) share /= static_cast<double>(m.samples);
      return {};
    });
  }

  // Sparse replays measure other CTAs: what counts is how far each is from the dense ones in the same warps.
  static void add(Seen seen, uint32_t one_in, Measured& m, bool dense) {
    double n = 0, sum = 0, same_n = 0, same = 0, all_n = 0, all = 0;
    for (size_t w = 0; w < seen.count.size(); ++w) {
      n += seen.count[w];
      sum += seen.cycles[w];
    }
    if (n == 0) return;
    if (dense) {
      m.means.push_back({one_in, sum / n, static_cast<uint64_t>(n)});
      m.dense.push_back(std::move(seen));
      return;
    }
    for (const Seen& d : m.dense)
      for (size_t w = 0; w < d.count.size(); ++w) {
        all_n += d.count[w];
        all += d.cycles[w];
        if (seen.count[w] == 0) continue;
        same_n += d.count[w];
        same += d.cycles[w];
      }
    if (same_n == 0 || all_n == 0) return;
    m.means.push_back({one_in, std::max(0.0, all / all_n + sum / n - same / same_n), static_cast<uint64_t>(n)});
  }

  Result<Seen> decode(const instrument::Spliced& spliced, const Want& w, Measured& m, bool dense) {
    Seen out;
    out.count.assign(c_.warps, 0);
    out.cycles.assign(c_.warps, 0);
    const auto sample = [&](uint32_t warp, uint64_t cycles) {
      if (longest_ > 0 && static_cast<double>(cycles) > longest_) return;   // no interval of this launch
      ++out.count[warp];
      out.cycles[warp] += static_cast<double>(cycles);
      if (!dense) return;
      ++m.samples;
      const uint64_t least = uint64_t{m.stall} + m.pause, excess = cycles > least ? cycles - least : 0;
      if (excess < m.excess.size()) m.excess[excess] += 1;
    };
    XT_TRY(const trace::RecordView view, buffer_.view(spliced.map));
    XT_TRY(const trace::DecodeSummary summary,
           trace::decode(view.map, trace::TraceKind::pair, view.headers, view.read, {view.table, false, {}},
                         [&](const trace::WarpTrace& t) -> Status {
                           if (w.around != Around::instruction)
                             trace::for_each_stretch(t, [&](uint64_t d) { sample(t.warp, d); });
                           else
                             trace::for_each_pair(t, [&](uint64_t d) { sample(t.warp, d); });
                           return {};
                         }));
    static_cast<void>(summary);
    return out;
  }

  const Measured* find(Around around, uint32_t pc) const {
    const auto found = measured_.find({around, pc});
    return found == measured_.end() || !found->second.estimate ? nullptr : &found->second;
  }

  std::optional<trace::StretchTimes> stretch(Around around, uint32_t pc) const {
    const Measured* m = find(around, pc);
    if (m == nullptr) return std::nullopt;
    return trace::StretchTimes{m->estimate->cycles, m->estimate->error, static_cast<double>(m->pause)};
  }

  bool waits(uint32_t pc) const {
    const auto word = read_at<sass::RawInst>(text_, pc, "instruction");
    return word && sass::get_control(*word).wait_mask != 0;
  }

  // Sites and stretches of every executed block.
  void collect() {
    const auto& blocks = c_.splicer.blocks();
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (counts_.blocks[b].warps == 0) continue;
      trace::BlockTimes t;
      t.executions = static_cast<double>(counts_.blocks[b].warps) / std::max(1u, c_.warps);
      t.body = stretch(Around::body, blocks[b].first_pc);
      t.block = stretch(Around::block, blocks[b].first_pc);
      for (uint32_t i = 0; i < blocks[b].instructions; ++i) {
        const uint32_t pc = blocks[b].first_pc + i * trace::inst_bytes;
        const bool last = i + 1 == blocks[b].instructions && whole_;
        const Measured* m = find(Around::instruction, pc);
        if (last) continue;   // from the stretches
        if (m == nullptr) {
          ++t.unknown;
          continue;
        }
        t.sites.push_back({pc, m->stall, waits(pc), m->estimate->cycles - m->pause, m->estimate->error,
                           m->excess});
      }
      number_.push_back(b);
      blocks_.push_back(std::move(t));
    }
    inserted_ = trace::inserted_cycles(blocks_);
    for (const trace::BlockTimes& t : blocks_) intervals_.push_back(trace::intervals_of(t, inserted_));
  }

  void add_rows(diff::IntervalFidelity& out) {
    collect();
    out.inserted_cycles = inserted_;
    for (size_t k = 0; k < blocks_.size(); ++k) {
      const wire::Block& block = c_.splicer.blocks()[number_[k]];
      const double executions = blocks_[k].executions;
      const auto add = [&](const trace::Interval& i, uint32_t pc, bool converged) {
        const auto found = table_.all().find({pc, request_.one_in});
        const bool known = found != table_.all().end() && found->second.cycles.count() != 0;
        out.rows.push_back({pc, i.cycles, i.error, converged, known ? std::optional(found->second.cycles.mean()) : std::nullopt,
                            {}, executions});
      };
      for (const trace::Interval& i : intervals_[k].sites)
        add(i, i.pc, find(Around::instruction, i.pc)->estimate->converged);
      const uint32_t pc = block.first_pc + (block.instructions - 1) * trace::inst_bytes;
      const auto in_table = table_.all().find({pc, request_.one_in});
      // Behind an EXIT of all lanes there is none.
      if (!intervals_[k].last || in_table == table_.all().end() || in_table->second.cycles.count() == 0) continue;
      add(*intervals_[k].last, pc, find(Around::block, block.first_pc)->estimate->converged);
    }
  }

  static double mean_of_dense(const Measured& m) {
    double sum = 0;
    for (const Seen& s : m.dense) sum += mean(s) / static_cast<double>(m.dense.size());
    return sum;
  }

  // The sum of the intervals of each warp against its life, and of all warps the median of that.
  Status add_up(diff::IntervalFidelity& out) {
    const Measured* life = find(Around::kernel, 0);
    if (life == nullptr) return {};
    std::vector<double> sums(c_.warps);
    for (size_t k = 0; k < blocks_.size(); ++k) {
      out.sum_cycles += blocks_[k].executions * intervals_[k].together;
      const Measured* m = find(Around::block, c_.splicer.blocks()[number_[k]].first_pc);
      if (m == nullptr) {   // an EXIT by itself
        if (intervals_[k].together > 0) return {};
        continue;
      }
      // Each warp's own share, as it was in the dense replays.
      const double own = m->means.empty() ? 0 : mean_of_dense(*m);
      if (own <= 0) continue;
      const double scale = intervals_[k].together / own;
      for (const Seen& s : m->dense)
        for (uint32_t w = 0; w < c_.warps; ++w) sums[w] += scale * s.cycles[w] / static_cast<double>(m->dense.size());
    }
    out.lifetime_cycles = std::max(0.0, life->estimate->cycles - life->pause - 2 * inserted_);
    const double dense = mean_of_dense(*life);
    std::vector<double> ratios;
    for (uint32_t w = 0; w < c_.warps; ++w) {
      double own = 0;
      uint32_t seen = 0;
      for (const Seen& s : life->dense) own += s.cycles[w], seen += s.count[w];
      if (seen == 0 || own <= 0) continue;
      ratios.push_back(sums[w] / (own / seen * out.lifetime_cycles / dense));
    }
    if (ratios.empty()) return {};
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
  const std::vector<bool> full_;
  const std::vector<uint64_t> executions_;
  const bool whole_;
  const uint32_t base_;
  double longest_ = 0;                         // cycles of the launch, at most
  std::map<Key, Measured> measured_;
  std::vector<size_t> number_;                 // of the block, parallel to blocks_
  std::vector<trace::BlockTimes> blocks_;
  std::vector<trace::BlockIntervals> intervals_;
  double inserted_ = 1;
  Bytes text_;
};

}  // namespace

Result<diff::IntervalFidelity> estimate_intervals(LaunchContext& c, const Counts& counts, const ReplayOptions& options,
                                                  TraceBuffer& buffer, const IntervalRequest& request,
                                                  const trace::GradedTimes& table) {
  return IntervalRun(c, counts, options, buffer, request, table).run();
}

}  // namespace xtrace::cli
