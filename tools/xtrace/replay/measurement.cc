#include "tools/xtrace/replay/measurement.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace xtrace::cli {
namespace {

// A sample lasts at least this long where launches may be repeated: 100 ticks of event clocks that step by up to a microsecond.
constexpr double shortest_sample_us = 100;
constexpr uint32_t first_look = 8;   // rounds of each process; each further look doubles them

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

uint32_t launches_per_sample(const replay::CleanReference& reference) {
  if (!reference.idempotent || reference.microseconds.empty()) return 1;
  const double us = *std::min_element(reference.microseconds.begin(), reference.microseconds.end());
  if (us <= 0) return 1;
  return std::clamp<uint32_t>(static_cast<uint32_t>(std::ceil(shortest_sample_us / us)), 1, replay::most_launches_per_sample);
}

// Is the question of every budget answered?
bool decided(const diff::Interval& i, const ReplayOptions& options) {
  const auto by = [&](double budget) {
    return i.low > budget || i.high < 1 / budget || (i.high <= budget && i.low >= 1 / budget);
  };
  return by(options.budget) && std::all_of(options.more_budgets.begin(), options.more_budgets.end(), by);
}

class Measuring {
 public:
  explicit Measuring(const Measurement& m) : m_(m), launches_(launches_per_sample(m.reference)) {}

  Result<Measured> run() {
    const auto start = Clock::now();
    XT_TRY(const replay::ModuleHandle again, m_.backend.load(m_.launch.code));
    auto measured = with(again, start);
    const Status unloaded = m_.backend.unload(again);
    if (measured && !unloaded) return tl::make_unexpected(unloaded.error());
    return measured;
  }

 private:
  Result<Measured> with(replay::ModuleHandle again, Clock::time_point start) {
    request_.clean = m_.reference.module;
    request_.variants = {again};
    pairs_.push_back({std::string(diff::clean_again_name), {}});
    for (const TimedVariant& v : m_.variants) {
      request_.variants.push_back(v.module);
      pairs_.push_back({v.name, {}});
    }
    request_.launches_per_sample = launches_;
    groups_ = diff::one_by_one(std::span(pairs_).first(m_.apart ? pairs_.size() : 1));
    for (const std::vector<size_t>& group : m_.groups) {
      diff::VariantGroup& together = groups_.emplace_back(diff::VariantGroup{"together", {}});
      for (size_t v : group) together.members.push_back(1 + v);   // behind clean-again
    }

    open_others();
    for (uint32_t done = 0, goal = first_look; done < m_.rounds; done = goal, goal = 2 * goal) {
      goal = std::min(goal, m_.rounds);
      XT_TRY_STATUS(take(goal - done, start));
      if (goal == m_.rounds || seconds_since(start) > m_.options.time_limit_seconds) break;
      XT_TRY(const diff::TimingStats look, diff::timing_stats(pairs_, groups_, {diff::early_confidence}));
      if (all_decided(look)) break;
    }
    close_others();

    Measured out;
    XT_TRY(out.stats, diff::timing_stats(pairs_, groups_));
    out.conditions = conditions(out.stats);
    out.conditions.seconds = seconds_since(start);
    out.sample_ticks = tick_ > 0 ? shortest_ / tick_ : 0;
    out.warnings = std::move(warnings_);
    out.pairs = std::move(pairs_);
    return out;
  }

  void open_others() {
    if (m_.processes == nullptr) return;
    kit_.ordinal = m_.launch.record.ordinal;
    kit_.written = m_.reference.written;
    kit_.codes = {m_.launch.code, m_.launch.code};
    for (const TimedVariant& v : m_.variants) kit_.codes.push_back(v.cubin);
    kit_.buffers = m_.buffers;
    for (size_t i = 0; i < m_.processes->count(); ++i) {
      auto process = m_.processes->open(i, kit_);
      if (process)
        others_.push_back({i, *process});
      else
        warnings_.push_back("a timing process is missing: " + process.error().to_string());
    }
    for (diff::VariantPairs& v : pairs_) v.processes.resize(1 + others_.size());
    for (size_t v = 1; v < kit_.codes.size(); ++v) numbers_.push_back(v);
  }

  // One process after the other: the GPU is shared.
  Status take(uint32_t rounds, Clock::time_point start) {
    request_.pairs = rounds;
    for (size_t p = 0; p <= others_.size(); ++p) {
      request_.seed = m_.options.seed + 1000003 * (look_ * (others_.size() + 1) + p);
      request_.time_limit_seconds =
          std::max(0.0, m_.options.time_limit_seconds - seconds_since(start)) / static_cast<double>(1 + others_.size() - p);
      if (p == 0) {
        XT_TRY(const replay::TimingResult result, m_.backend.time(request_));
        add(result, 0);
        continue;
      }
      Other& other = others_[p - 1];
      if (other.process == nullptr) continue;
      const Result<replay::TimingResult> result = other.process->time(request_, numbers_);
      if (result)
        add(*result, p);
      else
        give_up(other, result.error());
    }
    ++look_;
    return {};
  }

  void add(const replay::TimingResult& result, size_t p) {
    tick_ = std::max(tick_, result.tick_microseconds);
    caches_ = result.caches;
    for (size_t v = 0; v < pairs_.size(); ++v) {
      pairs_[v].processes.resize(std::max(pairs_[v].processes.size(), p + 1));
      for (const replay::TimedPair& pair : result.pairs[v]) {
        const auto sample = [&](const replay::TimedSample& s) {
          const double us = s.microseconds * launches_;
          shortest_ = shortest_ == 0 ? us : std::min(shortest_, us);
          return diff::Sample{s.microseconds, s.cycles};
        };
        pairs_[v].processes[p].push_back({sample(pair.clean), sample(pair.variant), pair.clean_first});
      }
    }
  }

  bool all_decided(const diff::TimingStats& look) const {
    if (!look.noise_floor || *look.noise_floor > m_.options.budget - 1) return false;
    return std::all_of(look.variants.begin(), look.variants.end(),
                       [&](const auto& v) { return decided(v.estimate.interval, m_.options); });
  }

  struct Other {
    size_t number;
    TimingProcess* process;   // null: given up
  };
  void give_up(Other& other, const Error& why) {
    warnings_.push_back("a timing process was given up: " + why.to_string());
    m_.processes->drop(other.number);
    other.process = nullptr;
  }
  void close_others() {
    for (Other& other : others_) {
      if (other.process == nullptr) continue;
      if (const Status closed = other.process->close(); !closed) give_up(other, closed.error());
    }
  }

  diff::TimingConditions conditions(const diff::TimingStats& stats) const {
    diff::TimingConditions c;
    if (stats.clean_again) {
      c.clean_again = stats.clean_again->estimate;
      c.order_effect = stats.clean_again->order_effect;
    }
    c.processes = c.clean_again.processes;
    c.launches_per_sample = launches_;
    c.sample_microseconds = stats.clean.median * launches_;
    c.tick_microseconds = tick_;
    c.clock_mhz = stats.clean_mhz;
    c.caches = caches_;
    return c;
  }

  const Measurement& m_;
  const uint32_t launches_;
  replay::TimingRequest request_;
  TimingKit kit_;
  std::vector<size_t> numbers_;               // of the kit's codes, parallel to pairs_
  std::vector<diff::VariantPairs> pairs_;     // clean-again first
  std::vector<diff::VariantGroup> groups_;
  std::vector<Other> others_;
  std::vector<std::string> warnings_;
  size_t look_ = 0;
  double tick_ = 0, shortest_ = 0;
  std::string caches_;
};

}  // namespace

Result<Measured> measure(const Measurement& m) { return Measuring(m).run(); }

diff::TimingEvidence evidence_of(const Measured& measured, size_t i) {
  diff::TimingEvidence e = diff::timing_evidence(measured.stats, measured.stats.variants.at(i));
  e.sample_ticks = measured.sample_ticks;
  return e;
}

}  // namespace xtrace::cli
