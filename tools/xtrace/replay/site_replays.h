// Replays of `pair`, thousands of them one after the other: spliced ahead on other cores, loaded, launched a few times, and summed
// up warp by warp without a trace in between.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tools/xtrace/replay/counting.h"
#include "tools/xtrace/replay/record_bounds.h"
#include "tools/xtrace/replay/trace_run.h"
#include "trace/interval_model.h"

namespace xtrace::cli {

// Two clocks in the kernel, in one CTA in so many.
struct SitePlan {
  uint32_t pc = 0;
  instrument::Around around = instrument::Around::instruction;
  uint32_t one_in = 1, seed = 0;
  uint32_t span = 1;             // instructions between the clocks
  bool twice = false;            // instrument::Plan::twice
};

// One launch.
struct SiteLaunch {
  std::vector<uint32_t> count;   // by warp
  std::vector<double> cycles;
  uint64_t samples = 0;
  // Samples by what they exceed the site's stall count and known pause by.
  std::array<uint64_t, trace::SiteTimes::shown> excess{};
  uint64_t too_long = 0;         // left out, as they last longer than the launch can have
  double mean() const;
};

struct SiteResult {
  wire::Site site;               // overhead_cycles without the clock's own
  std::vector<SiteLaunch> launches;
  std::string refused;           // why there are none
};

struct SiteSeconds {             // where the time went
  double waiting = 0, loading = 0, running = 0, reading = 0, summing = 0;
};

class SiteReplays {
 public:
  struct Settings {
    wire::Selection select{};
    double longest_cycles = 0;   // of a sample; 0: any
  };
  // The buffer has room for the records of any site. All of these outlive this.
  SiteReplays(LaunchContext& c, const Counts& counts, TraceBuffer& buffer, const RecordBounds& bounds, Settings settings);

  // One after the other; `done` gets each in order.
  Status run(const std::vector<SitePlan>& plans, const std::function<Status(size_t, SiteResult)>& done);

  uint64_t lost() const { return losses_.count(trace::LossSeverity::lost); }
  const trace::LossCounts& losses() const { return losses_; }
  const SiteSeconds& seconds() const { return seconds_; }

 private:
  Result<instrument::Spliced> splice(const SitePlan& plan) const;
  bool sums_in_place() const;    // plain slots of one size: no decoding
  Result<SiteResult> measure(const SitePlan& plan, const instrument::Spliced& spliced);
  Status sum(const SitePlan& plan, const instrument::Spliced& spliced, const wire::Site& site, SiteLaunch& out);
  Status sum_decoded(const SitePlan& plan, const instrument::Spliced& spliced, const std::function<void(uint32_t, uint64_t)>& sample);

  LaunchContext& c_;
  const Counts& counts_;
  TraceBuffer& buffer_;
  const RecordBounds& bounds_;
  const Settings settings_;
  const std::vector<bool> full_;
  const std::vector<uint64_t> executions_;
  trace::LossCounts losses_;
  SiteSeconds seconds_;
};

}  // namespace xtrace::cli
