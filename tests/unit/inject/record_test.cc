// The injected library, end to end.

#include "base/file.h"
#include "tests/json_document.h"
#include "tests/unit/inject/record_fixture.h"

namespace xtrace::inject {
namespace {

TEST_F(Record, ImagesAreFromBeforeAndAfterEachLaunch) {
  const Recording run = record("basic");
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_EQ(run.out, "result 8, reads while busy 0\n");
  EXPECT_THAT(run.err, HasSubstr("3 launches seen, 3 recorded, 0 skipped, 0 not asked for"));
  ASSERT_NE(run.reader, nullptr);
  EXPECT_EQ(run.reader->info().state, bundle::BundleState::complete);
  EXPECT_EQ(run.reader->info().application_exit_status, 7);
  EXPECT_EQ(run.reader->info().launches_seen, 3u);
  EXPECT_EQ(run.reader->info().environment.gpu_name, "Fake GPU");
  EXPECT_EQ(run.reader->info().environment.sm, 90u);
  EXPECT_EQ(run.reader->info().environment.command, (std::vector<std::string>{XTRACE_FAKE_APP, "basic"}));
  ASSERT_EQ(run.launches().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const LaunchRecord& l = run.launches()[i];
    EXPECT_EQ(l.ordinal, i);
    EXPECT_EQ(l.kernel, "scale");
    EXPECT_EQ(l.api, "cuLaunchKernel");
    EXPECT_EQ(l.grid, (Dim3{4, 1, 1}));
    EXPECT_EQ(l.block, (Dim3{128, 1, 1}));
    EXPECT_EQ(l.function.registers, 10);
    ASSERT_EQ(l.params.size(), 3u);
    EXPECT_EQ(l.param_block.size(), 16u);
    ASSERT_EQ(l.regions.size(), 1u) << "memory that nothing points to was recorded";
    const Region& r = l.regions[0];
    EXPECT_EQ(r.kind, RegionKind::device);
    EXPECT_EQ(r.size, 4000u);
    EXPECT_EQ(std::memcmp(l.param_block.data(), &r.address.value, 8), 0);
    EXPECT_EQ(floats_of(run, r.before, r.size), std::vector<float>(1000, static_cast<float>(1 << i)));
    EXPECT_EQ(floats_of(run, r.after, r.size), std::vector<float>(1000, static_cast<float>(2 << i)));
  }
  const auto code = run.reader->code(run.launches()[0].code);
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, *read_file(fs::path(XTRACE_SOURCE_DIR) / "fixtures/cubins/sm_90/plain.cubin"));
}

TEST_F(Record, ScopeAllTakesEveryAllocation) {
  const Recording run = record("basic", {"--scope", "all", "--launches", "0"});
  ASSERT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 1u);
  ASSERT_EQ(run.launches()[0].regions.size(), 2u);
  EXPECT_EQ(run.launches()[0].regions[1].size, 2000u);
  EXPECT_EQ(run.reader->info().launches_seen, 3u);
  EXPECT_THAT(run.err, HasSubstr("2 not asked for"));
}

TEST_F(Record, SelectionByKernelAndOrdinal) {
  const Recording run = record("basic", {"--kernel", "^sca", "--launches", "every:2"});
  ASSERT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 2u);
  EXPECT_EQ(run.launches()[1].ordinal, 2u);
  fs::remove_all(run.bundle);
  const Recording none = record("basic", {"--kernel", "gemm"});
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, testing::ContainsRegex("nothing was recorded: of the [1-9][0-9]* launches that the program made none was asked for"));
}

TEST_F(Record, FollowsPointersAndAsksTheDriver) {
  const Recording run = record("reach");
  ASSERT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 1u);
  const LaunchRecord& l = run.launches()[0];
  EXPECT_EQ(l.kernel, "block_sum");
  EXPECT_EQ(l.param_block.size(), 20u);
  ASSERT_EQ(l.regions.size(), 3u);
  EXPECT_EQ(l.regions[0].kind, RegionKind::asked);
  EXPECT_EQ(l.regions[0].size, 256u);
  const auto before = run.reader->memory(l.regions[0].before, 256),
             after = run.reader->memory(l.regions[0].after, 256);
  ASSERT_TRUE(before && after);
  EXPECT_EQ((*before)[0], std::byte{0});
  EXPECT_EQ((*after)[0], std::byte{5});
}

TEST_F(Record, TheRecordersOwnMemoryIsNoRegion) {
  const Recording run = record("reach_recorder");
  ASSERT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 2u);
  EXPECT_EQ(run.launches()[0].regions.size(), 3u);
  EXPECT_EQ(run.launches()[1].regions.size(), 3u);
}

TEST_F(Record, KernelsOfLibrariesWithLaunchAttributes) {
  const Recording run = record("library");
  ASSERT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 1u);
  const LaunchRecord& l = run.launches()[0];
  EXPECT_EQ(l.api, "cuLaunchKernelEx");
  EXPECT_EQ(l.kernel, "scale");
  EXPECT_EQ(l.cluster, (Dim3{2, 1, 1}));
  ASSERT_EQ(l.attributes.size(), 2u);
  EXPECT_EQ(l.attributes[1].name, "priority");
  EXPECT_EQ(l.attributes[1].value.size(), 64u);
  EXPECT_EQ(l.attributes[1].value[0], std::byte{3});
  EXPECT_EQ(l.param_block.size(), 16u);
}

TEST_F(Record, VariablesOfTheModuleAreRegions) {
  const Recording run = record("variables");
  ASSERT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 1u);
  std::map<std::string, RegionKind> variables;
  for (const Region& r : run.launches()[0].regions)
    if (!r.symbol.empty()) variables[r.symbol] = r.kind;
  EXPECT_EQ(variables, (std::map<std::string, RegionKind>{{"counter", RegionKind::global},
                                                          {"limit", RegionKind::constant},
                                                          {"scratch", RegionKind::global},
                                                          {"scratch_pointer", RegionKind::global},
                                                          {"weights", RegionKind::constant}}));
  using testing::UnorderedElementsAre;  // and the launch call that only the fake CUPTI knows
  EXPECT_THAT(run.reader->info().warnings,
              UnorderedElementsAre(HasSubstr("does not know the variable functions"),
                                   HasSubstr("has cuLaunchKernelOfTomorrow, which xtrace was not built for")));
}

TEST_F(Record, ACubinThatComesInsideTheLaunchIsFoundAtItsEnd) {
  const Recording plain = record("late_plain");
  EXPECT_EQ(plain.status, 7) << plain.err;
  fs::remove_all(plain.bundle);
  const Recording variables = record("late_variables");
  EXPECT_EQ(variables.status, 3);
  ASSERT_EQ(variables.launches().size(), 1u);
  EXPECT_THAT(variables.launches()[0].skip_reason,
              HasSubstr("code: its cubin came inside the launch itself"));
}

TEST_F(Record, ACubinThatComesInsideTheLastLaunchAskedForIsFound) {
  const Recording run = record("late_plain", {"--launches", "0"});
  EXPECT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 1u);
  EXPECT_EQ(run.launches()[0].status, LaunchStatus::recorded) << run.launches()[0].skip_reason;
}

TEST_F(Record, AFullDiskIsTheReasonOfTheLastLaunch) {
  largest_file_ = 100'000;
  const Recording run = record("noisy");
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, "noisy\n") << "the program must run as ever";
  EXPECT_THAT(run.err, HasSubstr("incomplete, 1 launches recorded, 1 skipped"));
  EXPECT_THAT(run.err, HasSubstr("File too large\n  hint: free space"));
  ASSERT_NE(run.reader, nullptr) << run.err;
  EXPECT_EQ(run.reader->info().state, bundle::BundleState::incomplete);
  ASSERT_EQ(run.launches().size(), 2u);
  EXPECT_EQ(run.launches()[0].status, LaunchStatus::recorded);
  EXPECT_EQ(floats_of(run, run.launches()[0].regions[0].after, 32), std::vector<float>(8, 2.0f));
  EXPECT_EQ(run.launches()[1].kernel, "scale");
  EXPECT_EQ(run.launches()[1].status, LaunchStatus::skipped);
  EXPECT_THAT(run.launches()[1].skip_reason, HasSubstr("bundle: can not write"));
  EXPECT_THAT(run.launches()[1].skip_reason, HasSubstr("File too large"));
}

TEST_F(Record, ABusyDeviceDoesNotHangTheProgram) {
  const Recording run = record("hang", {"--drain-timeout", "1"});
  EXPECT_EQ(run.status, 3);
  ASSERT_EQ(run.launches().size(), 3u);
  EXPECT_THAT(run.launches()[0].skip_reason,
              HasSubstr("busy device: the device did not become idle within 1.0 s"));
  EXPECT_THAT(run.launches()[1].skip_reason, HasSubstr("busy since an earlier wait gave up"));
  EXPECT_EQ(run.launches()[2].status, LaunchStatus::recorded);
}

TEST_F(Record, RefusedLaunchesSayWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {"failing_launch", "launch failed: CUDA_ERROR_INVALID_VALUE"},
      {"peer", "peer memory: 32 bytes"},
  };
  for (const auto& [scenario, reason] : cases) {
    const Recording run = record(scenario);
    EXPECT_EQ(run.status, 3) << scenario;
    ASSERT_EQ(run.launches().size(), 1u) << scenario;
    EXPECT_EQ(run.launches()[0].status, LaunchStatus::skipped);
    EXPECT_THAT(run.launches()[0].skip_reason, HasSubstr(reason));
    EXPECT_THAT(run.err, HasSubstr(reason));
    fs::remove_all(run.bundle);
  }
  const Recording limit = record("basic", {"--max-bytes", "3K"});
  ASSERT_EQ(limit.launches().size(), 3u);
  EXPECT_THAT(limit.launches()[0].skip_reason,
              HasSubstr("size limit: the launch reaches 4000 bytes or more"));
  EXPECT_THAT(limit.err, HasSubstr("hint: --max-bytes 0 lifts the limit"));
}

TEST_F(Record, FreedMemoryIsNotReached) {
  const Recording run = record("freed");
  ASSERT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 1u);
  EXPECT_EQ(run.launches()[0].regions.size(), 1u);
}

TEST_F(Record, ThreadsDoNotDisturbEachOthersSnapshots) {
  const Recording run = record("threads");
  ASSERT_EQ(run.status, 7) << run.err;
  EXPECT_EQ(run.out, "reads while busy 0\n");
  ASSERT_EQ(run.launches().size(), 100u);
  for (const LaunchRecord& l : run.launches()) EXPECT_EQ(l.regions.size(), 1u);
}

TEST_F(Record, AForkedChildIsLeftAlone) {
  environment_ = {{"ASAN_OPTIONS", "detect_leaks=0"}};   // the child has what threads hold that did not come along
  const Recording run = record("forked");
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_EQ(run.launches().size(), 2u);
}

TEST_F(Record, AProgramThatEndsWithoutExitHandlersLeavesAnIncompleteBundle) {
  const std::pair<const char*, const char*> cases[] = {{"early_exit", "ended by _exit"},
                                                       {"killed", "ended by signal 9"}};
  for (const auto& [scenario, text] : cases) {
    const Recording run = record(scenario);
    EXPECT_EQ(run.status, 3) << scenario;
    EXPECT_THAT(run.err, HasSubstr(text));
    ASSERT_NE(run.reader, nullptr);
    EXPECT_EQ(run.reader->info().state, bundle::BundleState::incomplete);
    EXPECT_EQ(run.launches().size(), 3u) << "what was finished is there";
    fs::remove_all(run.bundle);
  }
}

TEST_F(Record, ATakenCuptiIsNamed) {
  environment_ = {{"FAKE_CUPTI_TAKEN", "CUPTI for OtherTool"}};
  const Recording run = record("basic");
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, "result 8, reads while busy 0\n") << "the program must run as ever";
  EXPECT_THAT(run.err, HasSubstr("CUPTI is taken by \"CUPTI for OtherTool\""));
  EXPECT_FALSE(fs::exists(run.bundle));
}

TEST_F(Record, NothingLaunchedIsAnError) {
  const Recording run = record("none");
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("the program launched no kernel"));
}

TEST_F(Record, AProgramWithoutCudaIsAnError) {
  std::vector<std::string> c = command("basic", {});
  c.resize(c.size() - 2);
  c.insert(c.end(), {"/bin/sh", "-c", "echo out; exit 4"});
  const Recording run = finish(start(c));
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, "out\n");
  EXPECT_THAT(run.err, HasSubstr("nothing was recorded: the program, which ended with exit status 4, did not initialise CUDA"));
}

TEST_F(Record, AnExistingBundleIsKeptUnlessAllowed) {
  ASSERT_EQ(record("basic").status, 7);
  const Recording again = record("reach");
  EXPECT_EQ(again.status, 3);
  EXPECT_EQ(again.out, "") << "the program must not have run";
  EXPECT_THAT(again.err, HasSubstr("add --overwrite"));
  EXPECT_EQ(again.launches().size(), 3u);
  const Recording replaced = record("reach", {"--overwrite"});
  EXPECT_EQ(replaced.status, 7) << replaced.err;
  EXPECT_EQ(replaced.launches().size(), 1u);
}

TEST_F(Record, AnIncompleteBundleOfAnEarlierRunIsNotTakenForThisOnes) {
  ASSERT_THAT(record("killed").err, HasSubstr("3 launches recorded"));
  const Recording none = record("none", {"--overwrite"});
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, HasSubstr("the program launched no kernel: nothing was recorded"));
  EXPECT_THAT(none.err, testing::Not(HasSubstr("incomplete")));
  EXPECT_EQ(none.launches().size(), 3u) << "what is there stays";
  EXPECT_THAT(record("early_exit", {"--overwrite"}).err, HasSubstr("ended by _exit"));
}

TEST_F(Record, SignalsReachTheProgram) {
  std::vector<std::string> c = command("none", {});
  c.push_back("wait");
  const pid_t child = start(c);
  for (int i = 0; i < 500 && text_of(directory_ / "out") != "ready\n"; ++i) usleep(10000);
  kill(child, SIGTERM);
  const Recording run = finish(child);
  EXPECT_EQ(run.status,
            3);  // nothing recorded; but the program's handler ended it, or finish() would still wait
  EXPECT_EQ(run.out, "ready\n");
}

TEST_F(Record, LeavesNothingBehindInTheTemporaryDirectory) {
  ASSERT_EQ(record("basic").status, 7);
  for (const auto& entry : fs::directory_iterator(directory_))
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("out", "err", "run.xtr"));
}

TEST_F(Record, TheSummaryAsJson) {
  const auto summary = [&](const std::string& scenario, std::vector<std::string> options) {
    options.insert(options.end(), {"--json", (directory_ / "summary.json").string(), "--overwrite"});
    const Recording run = record(scenario, options);
    const JsonDocument j(text_of(directory_ / "summary.json"));
    EXPECT_EQ(j.text("/schema"), "xtrace-record-summary") << run.err;
    EXPECT_EQ(j.at("/exit_status"), fmt::format("{}", run.status)) << scenario;
    EXPECT_EQ(j.at("/program/command"), fmt::format("[\"{}\",\"{}\"]", XTRACE_FAKE_APP, scenario));
    fs::remove(directory_ / "summary.json");
    return j;
  };
  auto j = summary("basic", {"--launches", "0-1"});
  EXPECT_EQ(j.text("/bundle"), (directory_ / "run.xtr").lexically_normal().string());
  EXPECT_EQ(j.at("/complete"), "true");
  EXPECT_EQ(j.at("/launches"), one_line(R"({"seen": 3, "recorded": 2, "skipped": 0, "not_asked_for": 1, "captured": 0})"));
  EXPECT_EQ(j.at("/memory_bytes"), "16000");
  EXPECT_EQ(j.at("/stored_bytes"), fmt::format("{}", fs::file_size(directory_ / "run.xtr/pack")));
  EXPECT_GT(std::stod(j.at("/seconds")), 0);
  EXPECT_EQ(j.at("/program/exit_status"), "7");
  for (const char* field : {"/error", "/hint"}) EXPECT_EQ(j.at(field), "null");
  EXPECT_EQ(j.size("/skipped"), 0);

  j = summary("capture", {});
  EXPECT_EQ(j.at("/launches"),
            one_line(R"({"seen": 4, "recorded": 2, "skipped": 2, "not_asked_for": 0, "captured": 1})"));
  ASSERT_EQ(j.size("/skipped"), 2);
  EXPECT_EQ(j.text("/skipped/0/reason"), "graph launch");
  EXPECT_EQ(j.at("/skipped/0/count"), "1");
  EXPECT_THAT(j.text("/skipped/0/hint"), HasSubstr("without CUDA graphs"));
  EXPECT_EQ(j.at("/skipped/1/count"), "1");
  EXPECT_EQ(j.at("/skipped/1/hint"), "null");
  EXPECT_EQ(j.text("/error"), "2 launches that were asked for were not recorded");

  j = summary("variables", {"--quiet"});
  EXPECT_EQ(j.size("/warnings"), 2);

  j = summary("killed", {});   // nobody counted
  EXPECT_EQ(j.at("/complete"), "false");
  EXPECT_EQ(j.at("/launches"), one_line(R"({"seen": null, "recorded": 3, "skipped": 0, "not_asked_for": null, "captured": null})"));
  EXPECT_EQ(j.at("/program/exit_status"), "null");
  EXPECT_EQ(j.at("/program/signal"), "9");
  EXPECT_EQ(j.text("/hint"), "launches that were finished before can be used");

  j = summary("none", {});     // no bundle: that of the run before is not this one's
  EXPECT_EQ(j.at("/launches/recorded"), "0");
  EXPECT_EQ(j.at("/memory_bytes"), "null");
  EXPECT_EQ(j.text("/error"), "the program launched no kernel: nothing was recorded");
}

TEST_F(Record, TheSummaryOnStdoutStandsBehindTheProgramsOutput) {
  const Recording run = record("basic", {"--json", "-", "-q"});
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_EQ(run.err, "");
  const std::string own = "result 8, reads while busy 0\n";
  ASSERT_TRUE(run.out.starts_with(own)) << run.out;
  EXPECT_EQ(JsonDocument(run.out.substr(own.size())).at("/launches/recorded"), "3");
}

TEST_F(Record, ASummaryThatCanNotBeWrittenIsFoundOutBefore) {
  const Recording run = record("basic", {"--json", (directory_ / "missing/summary.json").string()});
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, "") << "the program must not have run";
  EXPECT_THAT(run.err, HasSubstr("missing is no folder"));
}

TEST_F(Record, MistakesOnTheCommandLineAreUsageErrors) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--launches", "x"}, "launches: expected a whole number"},
      {{"--max-bytes", "lots"}, "--max-bytes"},
      {{"--scope", "some"}, "--scope: expected reachable or all"},
      {{"--zstd-level", "0"}, "--zstd-level: expected a whole number from 1 to 19"},
      {{"--kernel", "a("}, "malformed regular expression 'a('"},
      {{"--kernel", ""}, "--kernel: expected a value"},
      {{"--follow"}, "--follow is not supported yet"},
      {{"--nonsense"}, "nonsense"},
  };
  for (const auto& [options, text] : cases) {
    const Recording run = record("basic", options);
    EXPECT_EQ(run.status, 64) << options[0];
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr(text));
  }
}

}  // namespace
}  // namespace xtrace::inject
