// Timing held against known truths on the GPU at hand: verdicts over equal code, over code that is slower by a known amount,
// and the time axis of all SMs against messages that can not arrive before they were sent.
//
// XTRACE_TIMING_VERDICTS   how many verdicts of each kind and kernel (default 100)
// XTRACE_TIMING_SAMPLES    folder for sample sets, as tests/unit/diff/samples/ holds them
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "instrument/instrument.h"
#include "replay/driver/driver_backend.h"
#include "tests/gpu/timing/cubins.h"
#include "tests/gpu/timing/launches.h"
#include "tools/xtrace/replay/launch_replay.h"
#include "tools/xtrace/replay/measurement.h"
#include "tools/xtrace/replay/message.h"
#include "trace/clock_fit.h"

namespace xtrace::cli {
namespace {

using replay::Backend;
using replay::LaunchImage;
using replay::TimedLaunch;
using Clock = std::chrono::steady_clock;

#define ASSERT_OK(expr)                          \
  do {                                           \
    const auto& ok_ = (expr);                    \
    ASSERT_TRUE(ok_) << ok_.error().to_string(); \
  } while (0)

class GpuTiming : public testing::Test {
 protected:
  void SetUp() override {
    auto backend = replay::make_driver_backend({});
    if (!backend && backend.error().kind == ErrorKind::environment) GTEST_SKIP() << backend.error().to_string();
    ASSERT_OK(backend);
    backend_ = std::move(*backend);
    processes_ = std::make_unique<TimingProcesses>(options_);
  }

  // A launch ready to be measured; regions behind the first `written` ones keep what launches write.
  struct Scene {
    LaunchImage launch;
    replay::CleanReference reference;
    std::vector<TimedVariant> variants;
  };
  void ready(Scene& s, TimedLaunch which, size_t written = 9) {
    s.launch = replay::timed_launch(which);
    ASSERT_OK(backend_->prepare(s.launch));
    const auto clean = backend_->load(s.launch.code);
    ASSERT_OK(clean);
    auto reference = replay::clean_replays(*backend_, s.launch, *clean, 2, which != TimedLaunch::ring);
    ASSERT_OK(reference);
    s.reference = std::move(*reference);
    for (size_t r = written; r < s.reference.written.size(); ++r) s.reference.written[r] = false;
    if (written < s.reference.written.size()) {
      s.reference.idempotent = false;
      backend_->set_written_regions(s.reference.written);
    }
  }
  void add_variant(Scene& s, unsigned extra) {
    const ByteView code = replay::timing_cubin(extra);
    const auto module = backend_->load(code);
    ASSERT_OK(module);
    s.variants.push_back({fmt::format("{} % more", extra), *module, code});
  }
  Result<Measured> measured(const Scene& s, uint32_t rounds) {
    Measurement m{*backend_, s.launch, s.reference, options_, processes_.get()};
    m.variants = s.variants;
    m.rounds = rounds;
    return measure(m);
  }

  ReplayOptions options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<TimingProcesses> processes_;
};

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

struct Tally {
  unsigned extra = 0;
  double truth = 1;
  int slower = 0, faster = 0, covered = 0, verdicts = 0;
};

// One kernel: the truth of each variant from a long measurement, then many short ones, each of which says slower, faster or
// nothing.
void validate(const char* name, const std::function<Result<Measured>(bool truth)>& measure_once, int verdicts,
              std::vector<Tally>& tallies) {
  auto start = Clock::now();
  const auto truth = measure_once(true);
  ASSERT_OK(truth);
  for (const std::string& w : truth->warnings) std::printf("%s\n", w.c_str());
  ASSERT_EQ(truth->conditions.processes, 5u);
  for (size_t v = 0; v < tallies.size(); ++v) tallies[v].truth = v == 0 ? 1 : truth->stats.variants[v].estimate.ratio;
  std::printf("%s: samples of %u launches, %.1f us, %.0f ticks; L2 %s; %.0f MHz; %.1f s for the truth\n", name,
              truth->conditions.launches_per_sample, truth->conditions.sample_microseconds, truth->sample_ticks,
              truth->conditions.caches.c_str(), truth->conditions.clock_mhz,
              std::chrono::duration<double>(Clock::now() - start).count());
  start = Clock::now();
  double floor = 0;
  uint64_t rounds = 0;
  for (int k = 0; k < verdicts; ++k) {
    const auto m = measure_once(false);
    ASSERT_OK(m);
    ASSERT_TRUE(m->stats.noise_floor);
    floor += *m->stats.noise_floor / verdicts;
    for (size_t v = 0; v < tallies.size(); ++v) {
      const diff::RatioEstimate& e = m->stats.variants[v].estimate;
      const diff::Claim claim = diff::claim_of(e, *m->stats.noise_floor);
      Tally& t = tallies[v];
      ++t.verdicts;
      t.slower += claim == diff::Claim::slower;
      t.faster += claim == diff::Claim::faster;
      t.covered += e.interval.low <= t.truth && t.truth <= e.interval.high;
      rounds += e.rounds;
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%s: %.1f verdicts/s, %.1f rounds each, mean floor %.3f %%\n", name,
              static_cast<double>(tallies.size()) * verdicts / seconds,
              static_cast<double>(rounds) / static_cast<double>(tallies.size()) / verdicts, 100 * floor);
  for (const Tally& t : tallies)
    std::printf("%s: %2u %% more work, truth %.4f: %d verdicts, %d slower, %d faster, %d intervals cover the truth\n", name,
                t.extra, t.truth, t.verdicts, t.slower, t.faster, t.covered);
  std::fflush(stdout);
  for (const Tally& t : tallies) {
    SCOPED_TRACE(testing::Message() << name << " " << t.extra);
    EXPECT_GE(t.covered, 0.9 * t.verdicts);
    if (t.extra == 0)
      EXPECT_LE(t.slower + t.faster, 0.02 * t.verdicts);
    else
      EXPECT_GE(t.slower, 0.95 * t.verdicts);
  }
}

TEST_F(GpuTiming, VerdictsAgreeWithTheTruth) {
  const int verdicts = number_of("XTRACE_TIMING_VERDICTS", 100);
  options_.budget = 1.01;   // what the looks decide
  const std::pair<const char*, TimedLaunch> kernels[] = {
      {"chain", TimedLaunch::chain}, {"stream", TimedLaunch::stream}, {"in_place", TimedLaunch::in_place}};
  for (const auto& [name, which] : kernels) {
    Scene s;
    ready(s, which);
    if (HasFatalFailure()) return;
    std::vector<Tally> tallies;
    for (unsigned extra : {0u, 2u, 5u, 10u}) {
      add_variant(s, extra);
      tallies.push_back({extra});
    }
    uint64_t seed = 1;
    validate(name,
             [&](bool truth) {
               options_.seed = static_cast<uint32_t>(++seed);
               options_.budget = truth ? 1.0001 : 1.01;
               return measured(s, truth ? 200 : 32);
             },
             verdicts, tallies);
    if (HasFatalFailure()) return;
    ASSERT_OK(backend_->finish());
  }
}

// A token goes from SM to SM: on the common axis it is never seen before it was passed on.
TEST_F(GpuTiming, NoEffectBeforeItsCause) {
  Scene s;
  ready(s, TimedLaunch::ring);
  ASSERT_EQ(backend_->info().sm_count, replay::ring_ctas);
  ASSERT_OK(backend_->restore(s.reference.module, replay::RestoreScope::all));
  const auto readings = [&] {
    std::vector<trace::ClockReading> out;
    for (const replay::ClockReading& r : backend_->read_clocks().value()) out.push_back({r.sm, r.clock, r.nanoseconds});
    return out;
  };
  const auto before = readings();
  ASSERT_TRUE(backend_->run(s.reference.module)->completed);
  const auto after = readings();
  const auto fit = trace::ClockFit::of(before, after);
  ASSERT_TRUE(fit);
  const Bytes bytes = backend_->read_region(s.reference.module, 1).value();
  std::vector<replay::Hop> hops(replay::ring_hops);
  std::memcpy(hops.data(), bytes.data(), bytes.size());
  std::set<uint64_t> sms;
  std::vector<double> latency;
  int backwards = 0;
  for (size_t t = 0; t + 1 < hops.size(); ++t) {
    const double ns = fit->nanoseconds(static_cast<uint32_t>(hops[t + 1].sm), hops[t + 1].received) -
                      fit->nanoseconds(static_cast<uint32_t>(hops[t].sm), hops[t].sent);
    backwards += ns < 0;
    latency.push_back(ns);
    sms.insert(hops[t].sm);
  }
  std::sort(latency.begin(), latency.end());
  std::printf("clocks: %u SMs, residual %.1f ns; %zu hops over %zu SMs: %.0f to %.0f ns, median %.0f; %d before their cause\n",
              fit->sms(), fit->residual(), latency.size(), sms.size(), latency.front(), latency.back(),
              latency[latency.size() / 2], backwards);
  EXPECT_LT(fit->residual(), 100);
  EXPECT_EQ(backwards, 0);
  EXPECT_EQ(sms.size(), replay::ring_ctas);
}

// Stretches of a kernel that times itself: the intervals of their instructions, each extrapolated, add up to the kernel's own.
TEST_F(GpuTiming, IntervalsAddUpToWhatTheKernelMeasuresItself) {
  const LaunchImage launch = replay::timed_launch(TimedLaunch::known);
  ASSERT_OK(backend_->prepare(launch));
  const auto clean = backend_->load(launch.code);
  ASSERT_OK(clean);
  constexpr unsigned stretches = replay::known_stretches;
  std::vector<double> truth(stretches);
  constexpr int launches = 20;
  for (int k = 0; k < launches; ++k) {
    ASSERT_OK(backend_->restore(*clean, replay::RestoreScope::all));
    ASSERT_TRUE(backend_->run(*clean)->completed);
    const Bytes bytes = backend_->read_region(*clean, 2).value();
    const auto* words = reinterpret_cast<const uint64_t*>(bytes.data());
    for (unsigned w = 0; w < replay::known_warps; ++w)
      for (unsigned s = 0; s < stretches; ++s) truth[s] += static_cast<double>(words[8 * w + s]) / (1.0 * launches * replay::known_warps);
  }
  ASSERT_OK(backend_->finish());

  // The kernel's own clock reads part its code into the stretches.
  const auto splicer = instrument::Splicer::create(launch.code, launch.record.kernel, {launch.record.grid, launch.record.block});
  ASSERT_OK(splicer);
  std::vector<uint32_t> clocks;
  for (const auto& i : splicer->instructions())
    if (splicer->text(i.pc).find("SR_CLOCKLO") != std::string::npos) clocks.push_back(i.pc.value);
  ASSERT_EQ(clocks.size(), stretches + 1);

  options_.probes = {instrument::ProbeKind::pair, instrument::ProbeKind::inst};
  options_.samples = {{}};
  options_.quiet = true;
  options_.interval_sites = 1000;
  const auto report = replay_launch(*backend_, launch, options_);
  ASSERT_OK(report);
  const diff::IntervalFidelity& f = *report->configs[0].intervals;
  std::printf("intervals: %s\n", diff::text_of(f).c_str());
  const char* names[stretches] = {"24 dependent FFMA", "6 loads from shared memory", "6 loads from the L1", "6 loads from the L2",
                                  "barrier"};
  for (unsigned s = 0; s < stretches; ++s) {
    double sum = 0, error = 0, dense = 0;
    uint32_t sites = 0;
    for (const diff::IntervalRow& r : f.rows) {
      if (r.pc < clocks[s] || r.pc >= clocks[s + 1]) continue;
      sum += r.cycles;
      error += r.error * r.error;
      dense += r.dense.value_or(0);
      ++sites;
    }
    const uint32_t all = (clocks[s + 1] - clocks[s]) / 16;
    std::printf("%s: %.1f cycles by itself, %.1f +- %.1f by %u of %u intervals, %.1f in the dense trace\n", names[s], truth[s], sum,
                std::sqrt(error), sites, all, dense);
    if (sites == all) {
      EXPECT_NEAR(sum, truth[s], std::max(0.05 * truth[s], std::sqrt(error)));
    }
  }
}

void write_samples(const std::string& folder, const char* name, const Measured& m) {
  std::ofstream out(folder + "/" + name + ".txt");
  out << "# process, clean us, MHz, variant us, MHz, clean first\n";
  for (const diff::VariantPairs& v : m.pairs) {
    out << "variant " << v.name << "\n";
    for (size_t p = 0; p < v.processes.size(); ++p)
      for (const diff::SamplePair& s : v.processes[p])
        out << fmt::format("{} {:.4f} {:.1f} {:.4f} {:.1f} {}\n", p, s.clean.microseconds, s.clean.cycles / s.clean.microseconds,
                           s.variant.microseconds, s.variant.cycles / s.variant.microseconds, s.clean_first ? 1 : 0);
  }
}

// Samples of every shape that the statistics must know.
TEST_F(GpuTiming, WritesSamples) {
  const char* folder = std::getenv("XTRACE_TIMING_SAMPLES");
  if (folder == nullptr) GTEST_SKIP() << "XTRACE_TIMING_SAMPLES is not set";
  struct Set {
    const char* name;
    TimedLaunch which;
    unsigned extra;
    size_t written;
    uint32_t rounds;
  };
  const Set sets[] = {{"quiet", TimedLaunch::chain, 5, 9, 8},
                      {"bimodal", TimedLaunch::two_modes, 0, 1, 16},
                      {"drifting", TimedLaunch::drifting, 0, 1, 16},
                      {"throttled", TimedLaunch::burn, 0, 9, 12}};
  options_.budget = 1.0001;
  for (const Set& set : sets) {
    Scene s;
    ready(s, set.which, set.written);
    if (HasFatalFailure()) return;
    add_variant(s, set.extra);
    const auto m = measured(s, set.rounds);
    ASSERT_OK(m);
    write_samples(folder, set.name, *m);
    const diff::VariantTiming& v = m->stats.variants[0];
    std::printf("%s: ratio %.4f [%.4f %.4f], drift %.3f, bimodal %d, %llu of %llu throttled, %.0f MHz, %.1f us\n", set.name,
                v.estimate.ratio, v.estimate.interval.low, v.estimate.interval.high, m->stats.clean.drift, m->stats.clean.bimodal,
                static_cast<unsigned long long>(v.throttled), static_cast<unsigned long long>(v.pairs), m->stats.clean_mhz,
                m->stats.clean.median);
    ASSERT_OK(backend_->finish());
  }
}

}  // namespace
}  // namespace xtrace::cli

int main(int argc, char** argv) {
  using namespace xtrace;
  if (const auto fd = cli::timing_socket()) {
    if (!cli::receive(*fd) || !cli::send(*fd, nlohmann::json::object())) return 1;
    cli::serve_timing(
        *fd, [] { return replay::make_driver_backend({}); },
        [](uint64_t ordinal) -> Result<replay::LaunchImage> {
          return replay::timed_launch(static_cast<replay::TimedLaunch>(ordinal));
        });
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
