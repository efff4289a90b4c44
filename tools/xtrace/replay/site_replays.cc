#include "tools/xtrace/replay/site_replays.h"

#include <chrono>
#include <future>
#include <map>

#include "trace/pair_slots.h"
#include "trace/stretch.h"

namespace xtrace::cli {
namespace {

using instrument::Around;

constexpr size_t spliced_ahead = 24;            // splices under way while the GPU runs
constexpr uint32_t warming = 2, launches = 2;   // of each module; those that are looked at

// Adds the time until the end of its scope.
class Lap {
 public:
  explicit Lap(double& seconds) : seconds_(seconds) {}
  ~Lap() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  Lap(const Lap&) = delete;

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

double SiteLaunch::mean() const {
  double n = 0, sum = 0;
  for (size_t w = 0; w < count.size(); ++w) n += count[w], sum += cycles[w];
  return n > 0 ? sum / n : 0;
}

SiteReplays::SiteReplays(LaunchContext& c, const Counts& counts, TraceBuffer& buffer, const RecordBounds& bounds, Settings settings)
    : c_(c), counts_(counts), buffer_(buffer), bounds_(bounds), settings_(std::move(settings)), full_(counts.full()), executions_(counts.executions()) {}

bool SiteReplays::sums_in_place() const { return buffer_.layout().headless && buffer_.layout().table == 0; }

Result<instrument::Spliced> SiteReplays::splice(const SitePlan& p) const {
  instrument::Plan plan;
  plan.probe = instrument::ProbeKind::pair;
  plan.pair_sites = {OrigPc{p.pc}};
  plan.one_in = p.one_in;
  plan.seed = p.seed;
  plan.full_blocks = full_;
  plan.executions = executions_;
  plan.select = settings_.select;
  plan.around = p.around;
  plan.span = p.span;
  plan.twice = p.twice;
  return c_.splicer.splice(plan, bounds_.layout(buffer_.layout(), p.around, p.pc));
}

Status SiteReplays::run(const std::vector<SitePlan>& plans, const std::function<Status(size_t, SiteResult)>& done) {
  std::map<size_t, std::future<Result<instrument::Spliced>>> ahead;
  size_t begun = 0;
  for (size_t k = 0; k < plans.size(); ++k) {
    for (; begun < plans.size() && begun < k + spliced_ahead; ++begun)
      ahead[begun] = std::async(std::launch::async, [this, plan = plans[begun]] { return splice(plan); });
    auto spliced = [&] {
      const Lap lap(seconds_.waiting);
      return ahead.at(k).get();
    }();
    ahead.erase(k);
    SiteResult result;
    if (spliced) {
      XT_TRY(result, measure(plans[k], *spliced));
    } else if (spliced.error().kind == ErrorKind::internal) {
      return tl::make_unexpected(spliced.error());
    } else {
      result.refused = spliced.error().message;
    }
    XT_TRY_STATUS(done(k, std::move(result)));
  }
  return {};
}

Result<SiteResult> SiteReplays::measure(const SitePlan& plan, const instrument::Spliced& spliced) {
  SiteResult out;
  out.site = spliced.map.sites[0];
  // Of an edge the probe's own code stands between its clocks; of a stretch the first of its cycles is what any clock adds.
  if (!out.site.edge) out.site.overhead_cycles -= std::min(1u, out.site.overhead_cycles);
  replay::ModuleHandle module = 0;
  {
    const Lap lap(seconds_.loading);
    XT_TRY(module, c_.backend.load(spliced.cubin));
  }
  const auto use = [&]() -> Status {
    for (uint32_t k = 0; k < warming + launches; ++k) {
      {
        const Lap lap(seconds_.running);
        if (k == 0 && sums_in_place()) XT_TRY_STATUS(buffer_.clear(spliced.map.layout));
        if (!sums_in_place() && (k == 0 || !counts_.stable)) XT_TRY_STATUS(buffer_.clear());
        XT_TRY_STATUS(c_.backend.restore(module, k == 0 ? replay::RestoreScope::all : replay::RestoreScope::written));
        XT_TRY(const replay::RunOutcome outcome, c_.backend.run(module));
        if (!outcome.completed) return device("{}", outcome.failure);
      }
      if (k < warming) continue;
      XT_TRY_STATUS(sum(plan, spliced, out.site, out.launches.emplace_back()));
    }
    return {};
  };
  const Status used = use();
  const Lap lap(seconds_.loading);
  const Status unloaded = c_.backend.unload(module);
  XT_TRY_STATUS(used);
  XT_TRY_STATUS(unloaded);
  return out;
}

Status SiteReplays::sum(const SitePlan& plan, const instrument::Spliced& spliced, const wire::Site& site, SiteLaunch& out) {
  out.count.assign(c_.warps, 0);
  out.cycles.assign(c_.warps, 0);
  const uint64_t least = uint64_t{site.least_cycles} + (plan.around == Around::instruction && !site.edge ? 0 : site.overhead_cycles);
  const auto sample = [&](uint32_t warp, uint64_t cycles) {
    if (settings_.longest_cycles > 0 && static_cast<double>(cycles) > settings_.longest_cycles) {
      ++out.too_long;
      return;
    }
    ++out.count[warp];
    ++out.samples;
    out.cycles[warp] += static_cast<double>(cycles);
    const uint64_t excess = cycles > least ? cycles - least : 0;
    if (excess < out.excess.size()) ++out.excess[excess];
  };
  if (!sums_in_place()) return sum_decoded(plan, spliced, sample);

  const wire::SlotLayout& layout = spliced.map.layout;
  std::vector<TraceBuffer::Slots> all;
  {
    const Lap lap(seconds_.reading);
    XT_TRY(all, buffer_.read_slots(layout));
  }
  const Lap lap(seconds_.summing);
  const auto what = plan.around == Around::instruction ? trace::PairsOf::instruction : trace::PairsOf::stretch;
  for (const TraceBuffer::Slots& slots : all)
    for (uint32_t k = 0; k < slots.warps; ++k) {
      const uint32_t warp = slots.first_warp + k;
      if (!layout.is_sampled(warp)) continue;
      const ByteView slot = ByteView(slots.bytes).subspan(uint64_t{k} * layout.slot_bytes, layout.slot_bytes);
      const bool ended = trace::for_each_pair_in(slot, layout.short_pairs, what, [&](uint64_t cycles) { sample(warp, cycles); });
      if (!ended) losses_.add(trace::Loss::guard_overrun, warp, out.count[warp], 0);
    }
  return {};
}

Status SiteReplays::sum_decoded(const SitePlan& plan, const instrument::Spliced& spliced,
                                const std::function<void(uint32_t, uint64_t)>& sample) {
  const Lap lap(seconds_.reading);
  XT_TRY(const trace::RecordView view, buffer_.view(spliced.map));
  XT_TRY(const trace::DecodeSummary summary,
         trace::decode(view.map, trace::TraceKind::pair, view.headers, view.read, {view.table, false, {}},
                       [&](const trace::WarpTrace& t) -> Status {
                         const auto one = [&](uint64_t cycles) { sample(t.warp, cycles); };
                         if (plan.around == Around::instruction)
                           trace::for_each_pair(t, one);
                         else
                           trace::for_each_stretch(t, one);
                         return {};
                       }));
  losses_.merge(summary.losses);
  return {};
}

}  // namespace xtrace::cli
