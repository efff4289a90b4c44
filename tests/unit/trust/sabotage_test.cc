// Every fault that can be injected into splicer, recorder, decoder and timer ends in its reason, and in no trust.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "instrument/cubin/image.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tests/unit/trust/timers.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using diff::ReasonId;
using diff::Verdict;
using instrument::ProbeKind;

// The code of the launch's kernel inside a cubin.
std::span<uint64_t> words_of(Bytes& cubin, const std::string& kernel) {
  const auto image = cubin::Image::parse(cubin).value();
  const Bytes& text = image.sections()[image.text_section(kernel).value()].data;
  const auto at = std::search(cubin.begin(), cubin.end(), text.begin(), text.end());
  return {reinterpret_cast<uint64_t*>(&*at), text.size() / 8};
}
constexpr uint64_t opcode(uint64_t low) { return low & 0xfff; }
constexpr uint64_t nop_low = 0x7918, nop_high_fields = 0;

// The n-th instruction with this opcode, 0 when there is none.
uint64_t* find(std::span<uint64_t> words, uint64_t op, size_t n = 0) {
  for (size_t i = 0; i + 1 < words.size(); i += 2)
    if (opcode(words[i]) == op && n-- == 0) return &words[i];
  return nullptr;
}
void make_nop(uint64_t* word) {
  constexpr uint64_t control = ~uint64_t{0} << (105 - 64);
  word[0] = nop_low;
  word[1] = (word[1] & control) | nop_high_fields;
}

struct Fault {
  const char* name;
  ProbeKind probe;
  ReasonId reason;
  std::function<void(Saboteur&, replay::LaunchImage&)> inject;
  const char* kernel = "reduce_sum";
};

// Records of a launch under `block` or `inst` lie in one buffer, slot behind slot; words are what a fault works on.
using Words = std::span<uint32_t>;
std::function<void(Saboteur&, replay::LaunchImage&)> records(std::function<void(Words)> change) {
  return [change](Saboteur& s, replay::LaunchImage&) {
    s.on_records = [change](Bytes& bytes) {
      change({reinterpret_cast<uint32_t*>(bytes.data()), bytes.size() / 4});
    };
  };
}
// The first word behind a slot's head: slots begin with two words that are not zero.
size_t first_record(Words w) {
  size_t i = 0;
  while (i < w.size() && w[i] == 0) ++i;
  return i + 2;
}
std::function<void(Saboteur&, replay::LaunchImage&)> timer(std::function<void(Timer&)> change) {
  return [change](Saboteur& s, replay::LaunchImage&) {
    Timer t;
    change(t);
    s.on_time = t;
  };
}
std::function<void(Saboteur&, replay::LaunchImage&)> code(const char* kernel, std::function<void(std::span<uint64_t>)> change) {
  return [kernel = std::string(kernel), change](Saboteur& s, replay::LaunchImage&) {
    s.on_splice = [=](Bytes& cubin) { change(words_of(cubin, kernel)); };
  };
}

const Fault faults[] = {
    // Splicer. The counting replays are spliced as well: what breaks the code breaks them too.
    {"an instruction of the kernel is gone", ProbeKind::block, ReasonId::output_diverged,
     code("reduce_sum", [](auto w) { make_nop(find(w, 0x221)); })},   // FADD
    {"an operand of the kernel is another", ProbeKind::inst, ReasonId::output_diverged,
     code("reduce_sum", [](auto w) { *find(w, 0x221) ^= uint64_t{1} << 32; })},
    {"the store of a record is gone", ProbeKind::inst, ReasonId::path_differs,
     [](Saboteur& s, replay::LaunchImage&) {
       s.on_splice = [&s](Bytes& cubin) {
         if (s.spliced != 3) return;   // the code that counts executions, and that which counts bytes of records, stay whole
         const auto w = words_of(cubin, "reduce_sum");
         for (size_t n = 0; uint64_t* store = find(w, 0x986, n); ++n)
           if ((store[1] >> 12 & 1) == 0) make_nop(store);   // without a descriptor: not the kernel's own
       };
     }},
    {"the kernel's own output is written to another place", ProbeKind::block, ReasonId::output_diverged,
     [](Saboteur& s, replay::LaunchImage&) {
       s.on_output = [](Bytes& bytes, size_t) {
         if (bytes.size() > 64) bytes[40] ^= std::byte{4};
       };
     }},

    // Recorder.
    {"a byte of the memory after the launch is another", ProbeKind::block, ReasonId::replay_diverged,
     [](Saboteur&, replay::LaunchImage& l) { l.after[0][100] ^= std::byte{1}; }},
    {"a byte of the memory before the launch is another", ProbeKind::block, ReasonId::replay_diverged,
     [](Saboteur&, replay::LaunchImage& l) { l.before[0][3] ^= std::byte{0x40}; }},
    {"the memory after the launch is missing", ProbeKind::block, ReasonId::replay_not_compared,
     [](Saboteur&, replay::LaunchImage& l) { l.after.clear(); }},

    // Decoder: what it is given.
    {"a record is dropped", ProbeKind::block, ReasonId::path_differs, records([](Words w) {
       size_t i = first_record(w);
       for (; i + 1 < w.size() && w[i + 1] != 0; ++i) w[i] = w[i + 1];
       w[i] = 0;
     })},
    {"the last records are gone", ProbeKind::block, ReasonId::path_differs, records([](Words w) {
       const size_t i = first_record(w);
       w[i] = 0;
     })},
    {"a record is doubled", ProbeKind::block, ReasonId::path_differs, records([](Words w) {
       const size_t i = first_record(w);
       w[i + 2] = w[i + 1];
       w[i + 1] = w[i];
     })},
    {"two records are exchanged", ProbeKind::block, ReasonId::invariants_violated, records([](Words w) {
       const size_t i = first_record(w);
       std::swap(w[i], w[i + 1]);
     })},
    {"a bit of a record is another", ProbeKind::block, ReasonId::path_differs,
     records([](Words w) { w[first_record(w)] ^= 2; })},
    {"a whole slot is gone", ProbeKind::block, ReasonId::path_differs, records([](Words w) {
       for (size_t i = first_record(w) - 2; i < w.size() && w[i] != 0; ++i) w[i] = 0;
     })},
    {"the buffer reads as noise", ProbeKind::inst, ReasonId::path_differs, records([](Words w) {
       for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<uint32_t>(i * 2654435761u) | 1;
     })},

    // Timer, judged by `pair`, whose product is time.
    {"one process alone", ProbeKind::pair, ReasonId::time_one_process, timer([](Timer&) {})},
    {"the probes cost too much", ProbeKind::pair, ReasonId::time_exceeds, timer([](Timer& t) { t.ratios = {1, 1.2}; })},
    {"the probes make it faster", ProbeKind::pair, ReasonId::time_faster, timer([](Timer& t) { t.ratios = {1, 0.8}; })},
    {"the ratio lies on the budget", ProbeKind::pair, ReasonId::time_straddles, timer([](Timer& t) { t.ratios = {1, 1.05}; })},
    {"clean and clean differ", ProbeKind::pair, ReasonId::time_noise_floor, timer([](Timer& t) { t.ratios = {1.08, 1.0}; })},
    {"the event clock is coarse", ProbeKind::pair, ReasonId::time_coarse, timer([](Timer& t) { t.tick = 50; })},
    {"the clock falls all the time", ProbeKind::pair, ReasonId::time_throttled, timer([](Timer& t) {
       t.fault = [](replay::TimedPair& p, size_t, size_t r) {
         if (r % 3 == 0) p.variant.cycles *= 0.8;
       };
     })},
    {"nearly all is throttled away", ProbeKind::pair, ReasonId::time_few_rounds, timer([](Timer& t) {
       t.fault = [](replay::TimedPair& p, size_t, size_t r) {
         if (r % 9 != 0) p.clean.cycles *= 0.5;
         if (r % 9 == 0) p.clean.cycles *= 2;
       };
     })},
    {"two modes", ProbeKind::pair, ReasonId::time_bimodal, timer([](Timer& t) {
       t.fault = [](replay::TimedPair& p, size_t, size_t r) {
         if (r % 3 == 0) p.clean.microseconds *= 1.3;
       };
     })},
    {"it drifts", ProbeKind::pair, ReasonId::time_drift, timer([](Timer& t) {
       t.fault = [](replay::TimedPair& p, size_t, size_t r) {
         for (replay::TimedSample* s : {&p.clean, &p.variant}) {
           s->microseconds *= 1 + 0.02 * static_cast<double>(r);
           s->cycles *= 1 + 0.02 * static_cast<double>(r);
         }
       };
     })},
    {"samples that stray", ProbeKind::pair, ReasonId::time_outliers, timer([](Timer& t) {
       t.fault = [](replay::TimedPair& p, size_t, size_t r) {
         if (r == 3) p.variant.microseconds *= 9;
       };
     })},
    {"no hardware", ProbeKind::pair, ReasonId::time_modelled, [](Saboteur&, replay::LaunchImage&) {}},
};

ReplayOptions options_for(ProbeKind probe) {
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_sabotage";
  o.probes = {probe};
  o.samples = {{}};
  o.compare = o.quiet = true;
  o.pair_sites = 6;
  o.backend = BackendChoice::interp;
  return o;
}

std::string text_of(const diff::Judgement& j) {
  std::string text;
  for (const diff::Reason& r : j.reasons) text += fmt::format("  {} {} {}\n", name_of(r.info().effect), r.info().code, r.numbers);
  return text;
}

Result<diff::ReplayReport> replay_broken(const Fault& f) {
  replay::LaunchImage launch = interp_test::recorded_launch(f.kernel);
  const Bytes code = launch.code;
  Saboteur backend(replay::make_interp_backend(), code);
  f.inject(backend, launch);
  const ReplayOptions options = options_for(f.probe);
  return replay_launch(backend, launch, options);
}

TEST(Sabotage, EndsInItsReasonAndInNoTrust) {
  for (const Fault& f : faults) {
    SCOPED_TRACE(f.name);
    const auto report = replay_broken(f);
    if (!report) {
      ADD_FAILURE() << report.error().to_string();
      continue;
    }
    ASSERT_EQ(report->configs.size(), 1u);
    const diff::ConfigReport& c = report->configs[0];
    EXPECT_TRUE(c.refused.empty()) << c.refused;
    EXPECT_TRUE(c.judgement.has(f.reason)) << "expected " << diff::reason_info(f.reason).code << "\n" << text_of(c.judgement);
    EXPECT_NE(c.judgement.overall, Verdict::trusted);
    EXPECT_TRUE(c.artefacts.empty());
  }
}

// Clean replays that differ in eight bytes of a region, and a probed one that differs in others.
TEST(Sabotage, OrderOfSumsIsADoubtOnlyWhereItMayBeOne) {
  struct Case {
    const char* what;
    const char* kernel;
    size_t unstable, changed;   // bytes
    ReasonId reason;
    Verdict verdict;
  };
  const Case cases[] = {
      {"fewer than clean replays changed", "reduce_sum", 8, 1, ReasonId::output_unsettled, Verdict::inconclusive},
      {"more", "reduce_sum", 8, 9, ReasonId::output_diverged, Verdict::not_trusted},
      {"clean replays agree", "reduce_sum", 0, 1, ReasonId::output_diverged, Verdict::not_trusted},
      {"no sum of floating-point numbers", "saxpy", 8, 1, ReasonId::output_diverged, Verdict::not_trusted},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    auto reads = std::make_shared<std::map<size_t, unsigned>>();   // of each region
    const auto report = replay_broken({c.what, ProbeKind::block, c.reason,
                                       [&](Saboteur& s, replay::LaunchImage&) {
                                         s.on_clean_output = [&c, reads](Bytes& bytes, size_t region) {
                                           if (bytes.size() < 256) return;
                                           const unsigned odd = ++(*reads)[region] & 1;
                                           for (size_t i = 0; i < c.unstable; ++i) bytes[i] ^= std::byte(odd);
                                         };
                                         s.on_output = [&c](Bytes& bytes, size_t) {
                                           if (bytes.size() < 256) return;
                                           for (size_t i = 0; i < c.changed; ++i) bytes[64 + i] ^= std::byte{1};
                                         };
                                       },
                                       c.kernel});
    ASSERT_TRUE(report) << report.error().to_string();
    const diff::Judgement& j = report->configs[0].judgement;
    EXPECT_TRUE(j.has(c.reason)) << text_of(j);
    EXPECT_EQ(j.semantics, c.verdict) << text_of(j);
  }
}

// The same replays with nothing broken are trusted, where the probe claims no time.
TEST(Sabotage, NothingBrokenIsTrusted) {
  for (ProbeKind probe : {ProbeKind::block, ProbeKind::inst}) {
    const auto report = replay_broken({"nothing", probe, ReasonId::output_equal, [](Saboteur&, replay::LaunchImage&) {}});
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->verdict(), Verdict::trusted) << text_of(report->configs[0].judgement);
  }
}

// A variable of the module may lie where a low word of its address no longer tells the high one: that is known once it is loaded, and
// high words are recorded after all.
TEST(HighWords, AreRecordedWhereTheLoaderPutsAVariableInTheWay) {
  const auto bytes_with = [](std::function<void(replay::LaunchImage&)> change) -> uint64_t {
    const auto report = replay_broken({"", ProbeKind::mem, ReasonId::output_equal,
                                       [&](Saboteur&, replay::LaunchImage& l) { change(l); }, "spmv_csr"});
    EXPECT_TRUE(report) << report.error().to_string();
    if (!report) return 0;
    EXPECT_EQ(report->configs[0].judgement.semantics, Verdict::trusted) << text_of(report->configs[0].judgement);
    return report->configs[0].space->trace_bytes;
  };
  const auto variable = [](uint64_t (*place)(uint64_t device)) {
    return [place](replay::LaunchImage& l) {
      bundle::Region r;
      r.kind = bundle::RegionKind::global;
      r.address = DevPtr{place(l.record.regions.at(0).address.value)};
      r.size = 16;
      r.symbol = "variable";
      l.record.regions.push_back(r);
      l.before.push_back(Bytes(r.size));
      l.after.push_back(Bytes(r.size));
    };
  };
  constexpr uint64_t window = uint64_t{1} << 32;
  const uint64_t plain = bytes_with([](replay::LaunchImage&) {});
  EXPECT_EQ(bytes_with(variable([](uint64_t device) { return device + window - 16; })), plain);
  EXPECT_GT(bytes_with(variable([](uint64_t device) { return device + window; })), plain + plain / 2);
}

// What a timer can not mean is no measurement at all.
TEST(Sabotage, ImpossibleTimesAreAnError) {
  for (double us : {0.0, -3.0, std::numeric_limits<double>::quiet_NaN()}) {
    const auto report = replay_broken({"", ProbeKind::pair, ReasonId::time_few_rounds, timer([us](Timer& t) {
                                         t.fault = [us](replay::TimedPair& p, size_t, size_t) { p.variant.microseconds = us; };
                                       })});
    ASSERT_FALSE(report);
    EXPECT_THAT(report.error().to_string(), testing::HasSubstr("expected a positive time"));
  }
}

// A launch without memory that it needs does not replay, and says where.
TEST(Sabotage, MissingRegionIsAnErrorThatNamesTheAddress) {
  const auto report = replay_broken({"", ProbeKind::block, ReasonId::launch_failed, [](Saboteur&, replay::LaunchImage& l) {
                                       l.record.regions.erase(l.record.regions.begin());
                                       l.before.erase(l.before.begin());
                                       l.after.erase(l.after.begin());
                                     }});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().to_string(), testing::HasSubstr("0x"));
}

}  // namespace
}  // namespace xtrace::cli
