// Separate compilation (nvcc -rdc=true): functions of another translation unit, called directly and through pointers. Of
// fixtures/apps/linked_calls.cu and linked_functions.cu; the addresses of functions are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instrument/instrument.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/linked_launch.h"
#include "tools/xtrace/replay/launch_replay.h"
#include "tools/xtrace/replay/whole_launch.h"

namespace xtrace::cli::linked_code {
namespace {

using namespace xtrace::linked_code;

using instrument::ProbeKind;
using testing::HasSubstr;

using Recording = Launch;

// What the functions of linked_functions.cu do.
uint32_t up(uint32_t a) { return a * 7 + 3; }
uint32_t down(uint32_t a) { return a ^ 0x55; }
uint32_t both(uint32_t a) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < (a & 7); ++i) sum += up(i) ^ 3;
  return sum;
}
uint32_t step(uint32_t which, uint32_t a) { return which == 0 ? up(a) : which == 1 ? down(a) : both(a); }

struct Kind {
  uint32_t which, by;
  uint32_t shrink(uint32_t a) const { return which == 1 ? grow(a) - 1 : a * 3; }
  uint32_t grow(uint32_t a) const {
    if (which == 0) return a + by;
    if (which == 1) return a * by + (a >> 3);
    uint32_t sum = 0;
    for (uint32_t k = 0; k < (a & 15); ++k) sum += shrink(k) ^ by;
    return sum;
  }
};

// Executes the whole launch on the interpreter; fills in what comes after.
Recording executed(const std::string& arch, const std::string& kernel) {
  Recording r = linked_launch(arch, kernel);
  const Status whole = make_whole(r.launch);
  EXPECT_TRUE(whole) << (whole ? "" : whole.error().to_string());
  const auto backend = replay::make_interp_backend();
  EXPECT_TRUE(backend->prepare(r.launch));
  const auto module = backend->load(r.launch.code);
  EXPECT_TRUE(module) << module.error().to_string();
  const auto outcome = backend->run(*module);
  EXPECT_TRUE(outcome && outcome->completed) << (outcome ? outcome->failure : outcome.error().to_string());
  r.launch.after = backend->read_regions(*module).value();
  return r;
}

class LinkedCode : public testing::TestWithParam<const char*> {
 protected:
  // far_sum() of sm_80 has a WARPSYNC that the interpreter does not know.
  static bool runs(std::string_view kernel) { return GetParam() != std::string_view("sm_80") || kernel != "linked_direct"; }
};

TEST_P(LinkedCode, CallsDirectly) {
  if (!runs("linked_direct")) {
    Recording refused = linked_launch(GetParam(), "linked_direct");
    ASSERT_TRUE(make_whole(refused.launch));
    const auto backend = replay::make_interp_backend();
    ASSERT_TRUE(backend->prepare(refused.launch));
    const auto module = backend->load(refused.launch.code);
    const auto outcome = module ? backend->run(*module) : tl::make_unexpected(module.error());
    ASSERT_FALSE(outcome && outcome->completed);
    EXPECT_THAT(outcome ? outcome->failure : outcome.error().to_string(), HasSubstr("WARPSYNC"));
    return;
  }
  const Recording r = executed(GetParam(), "linked_direct");
  const uint32_t fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13};
  for (uint32_t i = 0; i < threads * blocks; ++i) {
    uint32_t sum = 0;
    for (uint32_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) sum += k + (k ^ 1);
    const auto divided = static_cast<uint32_t>(static_cast<int>(static_cast<double>(i) / (3.0 + (i & 3)) * 16));
    EXPECT_EQ(r.read<uint32_t>(r.launch.after, 0, i), i * 5 + 3 + fibonacci[i & 7] + divided + i + (i ^ 1) + sum + i + 1) << i;
  }
}

TEST_P(LinkedCode, CallsThroughVariablesAndArguments) {
  const Recording table = executed(GetParam(), "linked_table"), argument = executed(GetParam(), "linked_argument");
  const uint32_t constant[] = {1, 2, 0};   // down, both, up
  for (uint32_t i = 0; i < threads * blocks; ++i) {
    EXPECT_EQ(table.read<uint32_t>(table.launch.after, 0, i), step(i % 3, i) + step(constant[(i >> 5) % 3], i)) << i;
    EXPECT_EQ(argument.read<uint32_t>(argument.launch.after, 0, i), both(i)) << i;
  }
}

TEST_P(LinkedCode, CallsVirtualFunctions) {
  const Recording r = executed(GetParam(), "linked_virtual");
  for (uint32_t i = 0; i < threads * blocks; ++i) {
    const uint32_t a = (i >> 2) % shapes, b = i * 7 % shapes;
    EXPECT_EQ(r.read<uint32_t>(r.launch.after, 0, i), (Kind{a % 3, a}.grow(i) + Kind{b % 3, b}.shrink(i))) << i;
  }
}

TEST_P(LinkedCode, PointersKeepTheirRecordedValues) {
  const Recording r = executed(GetParam(), "linked_taken"), made = executed(GetParam(), "linked_make");
  const char* const names[] = {"_Z7step_upi", "_Z9step_downi", "_Z9step_bothi"};
  for (uint32_t i = 0; i < threads * blocks; ++i) {
    EXPECT_EQ(r.read<uint64_t>(r.launch.after, 2, i), address_of(names[i % 3])) << i;
    EXPECT_EQ(r.read<uint32_t>(r.launch.after, 0, i), step(i % 3, i)) << i;
  }
  for (uint32_t k = 0; k < shapes; ++k)
    EXPECT_EQ(made.read<uint64_t>(made.launch.after, 1, 2 * k), made.variable.at(k % 3 == 0 ? "_ZTV4Line" : k % 3 == 1 ? "_ZTV6Square" : "_ZTV6Stairs") + 16) << k;
}

TEST_P(LinkedCode, IsReplayedUnderEveryProbe) {
  for (const char* kernel : linked_kernels)
    for (const Sample& sample : {Sample{}, Sample{2}}) {
      if (!runs(kernel)) continue;
      const Recording r = executed(GetParam(), kernel);
      const auto backend = replay::make_interp_backend();
      ReplayOptions o;
      o.traces = testing::TempDir() + "trust_linked_code";
      o.probes = {ProbeKind::none, ProbeKind::count, ProbeKind::block, ProbeKind::inst, ProbeKind::mem, ProbeKind::sync};
      o.samples = {sample};
      o.compare = o.quiet = true;
      const auto report = replay_launch(*backend, r.launch, o, nullptr);
      ASSERT_TRUE(report) << kernel << ": " << report.error().to_string();
      for (const diff::ConfigReport& c : report->configs) {
        SCOPED_TRACE(fmt::format("{} {} {}", kernel, sample.text(), c.probe));
        EXPECT_EQ(c.refused, "");
        EXPECT_EQ(c.judgement.overall, diff::Verdict::trusted);
      }
      EXPECT_THAT(report->warnings, testing::Contains(HasSubstr("compiled apart")));
    }
}
INSTANTIATE_TEST_SUITE_P(Archs, LinkedCode, testing::Values("sm_90", "sm_80"), [](const auto& i) { return std::string(i.param); });

// A table that the program has written to says nothing about the functions that it began with.
TEST(LinkedCodeRefusals, AFunctionWhoseAddressIsNotKnown) {
  Recording r("sm_90", "linked_table", {out});
  for (size_t k = 0; k < r.launch.before.size(); ++k)
    if (r.launch.record.regions[k].symbol == "constant_steps") write_at(std::span<std::byte>(r.launch.before[k]), 0, address_of("_Z7step_upi"));
  const Status whole = make_whole(r.launch);
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(whole.error().to_string(), HasSubstr("pointers lead to function _Z9step_downi"));
}

// No pointer is involved: the code stays as it is, and may be replayed clean where it can be loaded.
TEST(LinkedCodeRefusals, WhatCanNotBePutIntoTheSection) {
  replay::LaunchImage launch;
  launch.code = linked("refused");
  launch.record.kernel = "linked_switch";
  const Bytes before = launch.code;
  ASSERT_TRUE(make_whole(launch));
  EXPECT_EQ(launch.code, before);
  ASSERT_EQ(launch.notes.size(), 1u);
  EXPECT_THAT(launch.notes[0], testing::AllOf(HasSubstr("can not be put into its section"), HasSubstr("has a jump table")));
  const auto splicer = instrument::Splicer::create(launch.code, launch.record.kernel, {{1, 1, 1}, {32, 1, 1}, {0, 0, 0}, 0});
  ASSERT_FALSE(splicer);
  EXPECT_THAT(splicer.error().to_string(), testing::AllOf(HasSubstr("call that leaves the kernel's code at linked_switch@0x"), HasSubstr("a warning says why")));
}

}  // namespace
}  // namespace xtrace::cli::linked_code
