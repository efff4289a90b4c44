// What a report says by name without a change of the verdict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/trust/saboteur.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using diff::ReasonId;
using instrument::ProbeKind;
using testing::HasSubstr;

// Numbers of a reason, where the configuration has it.
std::optional<std::string> numbers_of(const diff::ConfigReport& c, ReasonId id) {
  for (const diff::Reason& r : c.judgement.reasons)
    if (r.id == id) return r.numbers;
  return std::nullopt;
}

diff::ConfigReport replay_of(const std::string& kernel, ProbeKind probe, const std::function<void(Saboteur&)>& inject = {}) {
  const replay::LaunchImage launch = interp_test::recorded_launch(kernel);
  Saboteur backend(replay::make_interp_backend(), launch.code);
  if (inject) inject(backend);
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_notes";
  o.probes = {probe};
  o.samples = {Sample{}};
  o.compare = o.quiet = true;
  const auto report = replay_launch(backend, launch, o, nullptr);
  EXPECT_TRUE(report) << report.error().to_string();
  return report->configs.at(0);
}

TEST(Notes, LanesThatReturnOneByOne) {
  const auto recursion = replay_of("recursion", ProbeKind::count);
  EXPECT_EQ(recursion.judgement.overall, diff::Verdict::trusted);
  EXPECT_THAT(numbers_of(recursion, ReasonId::path_groups).value_or(""), HasSubstr("of a function that calls itself"));
  EXPECT_FALSE(numbers_of(replay_of("device_calls", ProbeKind::count), ReasonId::path_groups)) << "its functions call others";
}

// Two neighbouring words of the first record are exchanged; in the first replay of the trace, or in each.
diff::ConfigReport with_words_exchanged(size_t behind, bool once) {
  return replay_of("reduce_sum", ProbeKind::inst, [&](Saboteur& s) {
    auto first = std::make_shared<size_t>(0);
    s.on_records = [&s, first, behind, once](Bytes& bytes) {
      if (*first == 0) *first = s.spliced;
      if (once && s.spliced != *first) return;
      const std::span<uint32_t> words(reinterpret_cast<uint32_t*>(bytes.data()), bytes.size() / sizeof(uint32_t));
      const auto at = static_cast<size_t>(std::find_if(words.begin(), words.end(), [](uint32_t w) { return w != 0; }) - words.begin()) + behind;
      if (at + 1 < words.size()) std::swap(words[at], words[at + 1]);
    };
  });
}

TEST(Notes, ClocksThatRanBackwardsOnce) {
  bool found = false;
  for (size_t behind = 2; behind < 24 && !found; ++behind) {
    const auto always = with_words_exchanged(behind, false);
    const std::string violated = numbers_of(always, ReasonId::invariants_violated).value_or("");
    const auto refuted = std::count_if(always.judgement.reasons.begin(), always.judgement.reasons.end(), [](const diff::Reason& r) {
      return r.info().effect == diff::Effect::refute && r.info().aspect == diff::Aspect::semantics;
    });
    if (refuted != 1 || violated.find("clock_order") == std::string::npos) continue;
    EXPECT_FALSE(numbers_of(always, ReasonId::clocks_repeated)) << "three replays were like that";
    const auto once = with_words_exchanged(behind, true);
    const auto note = numbers_of(once, ReasonId::clocks_repeated);
    if (!note) continue;
    found = true;
    EXPECT_THAT(*note, HasSubstr("clock_order"));
    EXPECT_THAT(*note, HasSubstr("the launch took"));
    EXPECT_EQ(once.judgement.overall, diff::Verdict::trusted);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace xtrace::cli
