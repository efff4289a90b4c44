// Timing held against known truths on the GPU at hand: verdicts over equal code and over code that is slower by a known amount,
// intervals that are known, and the time axis of all SMs against messages that can not arrive before they were sent.
//
// XTRACE_TIMING_VERDICTS   how many verdicts of each kind and kernel (default 72)
// XTRACE_TIMING_SAMPLES    folder for sample sets, as tests/unit/diff/samples/ holds them
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>

#include "instrument/cubin/kernel_info.h"
#include "instrument/instrument.h"
#include "instrument/sass/inst.h"
#include "replay/driver/driver_backend.h"
#include "tests/gpu/timing/cubin.h"
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
    std::deque<Bytes> codes;   // of the variants
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
  void add_variant(Scene& s, std::string name, Bytes code) {
    const auto module = backend_->load(code);
    ASSERT_OK(module);
    s.codes.push_back(std::move(code));
    s.variants.push_back({std::move(name), *module, s.codes.back()});
  }
  Result<Measured> measured(const Scene& s, uint32_t rounds) {
    Measurement m{*backend_, s.launch, s.reference, options_, processes_.get()};
    m.variants = s.variants;
    m.rounds = rounds;
    return measure(m);
  }

  // The kernel with a delay spliced in front of its first instruction that makes it slower by about so many percent.
  void add_delayed(Scene& s, unsigned percent) {
    const auto& r = s.launch.record;
    const auto splicer = instrument::Splicer::create(s.launch.code, r.kernel, {r.grid, r.block});
    ASSERT_OK(splicer);
    const auto spliced = [&](double cycles) {
      return splicer->delayed({{OrigPc{0}, static_cast<uint32_t>(std::lround(cycles))}});
    };
    double cycles = 0, more = 0;
    for (int trial = 0; percent != 0 && trial < 4 && std::abs(more - percent) > 0.1 * percent; ++trial) {
      cycles = trial == 0 ? 20 * percent * *std::min_element(s.reference.microseconds.begin(), s.reference.microseconds.end())
                          : cycles * std::clamp(percent / more, 0.3, 3.0);
      const auto code = spliced(cycles);
      ASSERT_OK(code);
      const auto module = backend_->load(code->cubin);
      ASSERT_OK(module);
      Scene alone{s.launch, s.reference, {{"tried", *module, code->cubin}}, {}};
      const auto once = measured(alone, 20);
      ASSERT_OK(once);
      ASSERT_OK(backend_->unload(*module));
      more = std::max(0.1, 100 * (once->stats.variants[0].estimate.ratio - 1));
    }
    const auto code = spliced(cycles);
    ASSERT_OK(code);
    std::printf("%s: a delay of %.0f cycles for %u %%\n", r.kernel.c_str(), cycles, percent);
    add_variant(s, fmt::format("{} % more", percent), code->cubin);
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
  unsigned percent = 0;
  double truth = 1;
  int slower = 0, faster = 0, covered = 0, verdicts = 0;
};

// One kernel: the truth of each variant from long measurements (1,000 rounds: 40 in each of 5 processes, and each loads the code
// five times, as where it comes to lie counts), then many short ones, each of which says slower, faster or nothing.
void validate(const char* name, const std::function<Result<Measured>(bool truth)>& measure_once, int verdicts,
              std::vector<Tally>& tallies) {
  constexpr int loads = 5;
  auto start = Clock::now();
  std::vector<double> logs(tallies.size());
  for (int k = 0; k < loads; ++k) {
    const auto truth = measure_once(true);
    ASSERT_OK(truth);
    for (const std::string& w : truth->warnings) std::printf("%s\n", w.c_str());
    ASSERT_EQ(truth->conditions.processes, 5u);
    for (size_t v = 0; v < tallies.size(); ++v) logs[v] += std::log(truth->stats.variants[v].estimate.ratio) / loads;
    if (k == 0)
      std::printf("%s: samples of %u launches, %.1f us, %.0f ticks; L2 %s; %.0f MHz\n", name,
                  truth->conditions.launches_per_sample, truth->conditions.sample_microseconds, truth->sample_ticks,
                  truth->conditions.caches.c_str(), truth->conditions.clock_mhz);
  }
  for (size_t v = 0; v < tallies.size(); ++v) tallies[v].truth = v == 0 ? 1 : std::exp(logs[v]);
  std::printf("%s: %.1f s for the truth\n", name, std::chrono::duration<double>(Clock::now() - start).count());

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
    std::printf("%s: %2u %% delay, truth %.4f: %d verdicts, %d slower, %d faster, %d intervals cover the truth\n", name,
                t.percent, t.truth, t.verdicts, t.slower, t.faster, t.covered);
  std::fflush(stdout);
  for (const Tally& t : tallies) {
    SCOPED_TRACE(testing::Message() << name << " " << t.percent);
    EXPECT_GE(t.covered, 0.9 * t.verdicts);
    if (t.percent == 0)
      EXPECT_LE(t.slower + t.faster, 0.02 * t.verdicts);
    else
      EXPECT_GE(t.slower, 0.95 * t.verdicts);
  }
}

TEST_F(GpuTiming, VerdictsAgreeWithTheTruth) {
  const int verdicts = number_of("XTRACE_TIMING_VERDICTS", 72);
  const std::pair<const char*, TimedLaunch> kernels[] = {
      {"chain", TimedLaunch::chain}, {"stream", TimedLaunch::stream}, {"in_place", TimedLaunch::in_place}};
  for (const auto& [name, which] : kernels) {
    Scene s;
    ready(s, which);
    if (HasFatalFailure()) return;
    std::vector<Tally> tallies;
    add_variant(s, "the same", s.launch.code);
    tallies.push_back({});
    for (unsigned percent : {2u, 5u, 10u}) {
      add_delayed(s, percent);
      if (HasFatalFailure()) return;
      tallies.push_back({percent});
    }
    uint64_t seed = 1;
    validate(name,
             [&](bool truth) {
               options_.seed = static_cast<uint32_t>(++seed);
               options_.budget = truth ? 1.0001 : 1.01;
               return measured(s, 40);
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
    const auto read = backend_->read_clocks();
    EXPECT_TRUE(read) << read.error().to_string();
    if (read)
      for (const replay::ClockReading& r : *read) out.push_back({r.sm, r.clock, r.nanoseconds});
    return out;
  };
  const auto before = readings();
  ASSERT_TRUE(backend_->run(s.reference.module)->completed);
  const auto after = readings();
  const auto fit = trace::ClockFit::of(before, after);
  ASSERT_OK(fit);
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

// Intervals whose length is known: links of chains that the kernel times itself, and what lies between two of its clocks around
// a barrier.
struct Known {
  std::string kind;
  std::vector<uint32_t> pcs;
  double cycles = 0;
};

constexpr const char* known_kinds[] = {"FFMA", "IMAD", "LOP3", "MUFU", "DFMA", "POPC", "SHFL", "LDS", "LDG from L1", "LDG from L2"};
static_assert(std::size(known_kinds) == replay::known_kinds);

// The kernel's own clocks, mean over warps and launches.
Result<std::vector<double>> own_clocks(Backend& backend, replay::TimedLaunch which, replay::ModuleHandle clean) {
  constexpr int launches = 20, warming = 2;
  std::vector<double> means(replay::known_stretches);
  const unsigned warps = replay::known_warps(which);
  for (int k = -warming; k < launches; ++k) {
    XT_TRY_STATUS(backend.restore(clean, replay::RestoreScope::all));
    XT_TRY(const replay::RunOutcome outcome, backend.run(clean));
    if (!outcome.completed) return device("{}", outcome.failure);
    XT_TRY(const Bytes bytes, backend.read_region(clean, 2));
    if (k < 0) continue;
    const auto* words = reinterpret_cast<const uint64_t*>(bytes.data());
    for (unsigned w = 0; w < warps; ++w)
      for (size_t s = 0; s < means.size(); ++s)
        means[s] += static_cast<double>(words[replay::known_words * w + s]) / (1.0 * launches * warps);
  }
  return means;
}

// What one link takes is what the third chain takes longer than another one, over the links that it waits for more. The first and
// the last link of a chain are not like the others.
Result<std::vector<Known>> known_intervals(const LaunchImage& launch, const instrument::Splicer& splicer,
                                           const std::vector<double>& means) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(launch.code));
  XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, launch.record.kernel));
  const auto control = [&](uint32_t pc) {
    return sass::get_control(*read_at<sass::RawInst>(image.sections()[info.text_section].data, pc, "instruction"));
  };
  std::vector<uint32_t> clocks;
  for (const auto& i : splicer.instructions())
    if (splicer.text(i.pc).find("SR_CLOCKLO") != std::string::npos) clocks.push_back(i.pc.value);
  if (clocks.size() != 2 * replay::known_stretches) return internal("{} clock reads in the kernel", clocks.size());
  const auto between = [&](size_t stretch, const std::string& mnemonic) {
    std::vector<uint32_t> pcs;
    for (uint32_t pc = clocks[2 * stretch] + 16; pc < clocks[2 * stretch + 1]; pc += 16)
      if (splicer.text(OrigPc{pc}).starts_with(mnemonic)) pcs.push_back(pc);
    return pcs;
  };
  std::vector<Known> all;
  for (size_t kind = 0; kind < std::size(known_kinds); ++kind) {
    const std::string name = known_kinds[kind], mnemonic = name.substr(0, name.find(' '));
    std::vector<std::vector<uint32_t>> chains;
    std::vector<int> waits;   // does the clock behind the chain wait for its last link?
    std::vector<bool> reads;  // or for it to have read its registers, which is something else?
    for (size_t c = 0; c < 3; ++c) {
      chains.push_back(between(3 * kind + c, mnemonic));
      if (chains.back().size() < 4) return internal("a chain of {} links of {}", chains.back().size(), name);
      const sass::Control last = control(chains.back().back());
      const uint8_t awaited = control(clocks[2 * (3 * kind + c) + 1]).wait_mask;
      const auto waited_for = [&](uint8_t barrier) { return barrier < 6 && (awaited >> barrier & 1); };
      waits.push_back(waited_for(last.write_barrier));
      reads.push_back(!waits.back() && waited_for(last.read_barrier));
    }
    const bool latency = control(chains[2][0]).write_barrier < 6;   // else the stall counts are what is waited for
    // A clock that waits for registers to be read comes 9 cycles later: then the first chain is compared, if it begins like the third.
    const auto first_waits = [&](size_t c) { return control(chains[c].front()).wait_mask != 0; };
    const size_t other = reads[1] != reads[2] && first_waits(0) == first_waits(2) ? 0 : 1;
    const double more = static_cast<double>(chains[2].size()) - static_cast<double>(chains[other].size()) +
                        (latency ? waits[2] - waits[other] : 0);
    const double link = (means[3 * kind + 2] - means[3 * kind + other]) / more;
    for (const auto& chain : chains)
      for (size_t i = 1; i + 1 < chain.size(); ++i) all.push_back({name, {chain[i]}, link});
  }
  for (size_t k = 0; k < replay::known_barriers; ++k) {
    const size_t stretch = 3 * replay::known_kinds + k;
    all.push_back({"barrier", between(stretch, ""), means[stretch] - 1});   // the first clock's own cycle
  }
  return all;
}

class KnownIntervals : public GpuTiming, public testing::WithParamInterface<TimedLaunch> {};

TEST_P(KnownIntervals, AreMeasured) {
  const LaunchImage launch = replay::timed_launch(GetParam());
  ASSERT_OK(backend_->prepare(launch));
  const auto clean = backend_->load(launch.code);
  ASSERT_OK(clean);
  const auto means = own_clocks(*backend_, GetParam(), *clean);
  ASSERT_OK(means);
  ASSERT_OK(backend_->finish());
  const auto splicer = instrument::Splicer::create(launch.code, launch.record.kernel, {launch.record.grid, launch.record.block});
  ASSERT_OK(splicer);
  const auto intervals = known_intervals(launch, *splicer, *means);
  ASSERT_OK(intervals);
  const std::vector<Known>& known = *intervals;

  options_.probes = {instrument::ProbeKind::pair, instrument::ProbeKind::inst};
  options_.samples = {{}, {.clocks = 0}};   // the dense trace as well
  options_.quiet = true;
  options_.pair_sites = options_.interval_sites = 1000;   // more than there are
  const auto report = replay_launch(*backend_, launch, options_);
  ASSERT_OK(report);
  const diff::IntervalFidelity& f = *report->configs[0].intervals;
  std::printf("intervals: %s\n", diff::text_of(f).c_str());
  struct Tally {
    double truth = 0, sum = 0, worst = 0, dense = 0;
    unsigned all = 0, close = 0, dense_close = 0;
  };
  std::map<uint32_t, diff::IntervalRow> rows;
  for (const diff::IntervalRow& r : f.rows) rows[r.pc] = r;
  std::map<std::string, Tally> kinds;
  for (const Known& k : known) {
    Tally& t = kinds[k.kind];
    ++t.all;
    t.truth += k.cycles;
    double sum = 0, dense = 0;
    bool measured = true;
    for (uint32_t pc : k.pcs) {
      measured &= rows.contains(pc);
      if (!measured) break;
      sum += rows[pc].cycles;
      dense += rows[pc].dense.value_or(1e9);
    }
    if (!measured) continue;
    const double tolerance = std::max(1.0, 0.02 * k.cycles);
    t.sum += sum;
    t.dense += dense;
    t.close += std::abs(sum - k.cycles) <= tolerance;
    t.dense_close += std::abs(dense - k.cycles) <= tolerance;
    if (std::abs(sum - k.cycles) > std::abs(t.worst)) t.worst = sum - k.cycles;
  }
  unsigned close = 0, dense_close = 0;
  for (const auto& [kind, t] : kinds) {
    std::printf("%-12s %3u intervals of %.2f cycles: mean %.2f, worst off by %+.2f, %u within; in the dense trace %.2f, %u within\n",
                kind.c_str(), t.all, t.truth / t.all, t.sum / t.all, t.worst, t.close, t.dense / t.all, t.dense_close);
    close += t.close;
    dense_close += t.dense_close;
  }
  std::printf("within 1 cycle or 2 %%: %u of %zu; in the dense trace %u\n", close, known.size(), dense_close);
  EXPECT_GE(known.size(), 100u);
  // With as many warps as an SM holds the figures are shown and not judged: a chain's own clocks say what a link takes on average,
  // not what each of them does.
  if (GetParam() == TimedLaunch::known) {
    EXPECT_GE(close, 0.9 * static_cast<double>(known.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(GpuTiming, KnownIntervals, testing::Values(TimedLaunch::known, TimedLaunch::crowd),
                         [](const auto& i) { return i.param == TimedLaunch::known ? "alone" : "crowd"; });

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
    unsigned percent;
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
    add_delayed(s, set.percent);
    if (HasFatalFailure()) return;
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
