// Kernels in graphs: the recorder runs the nodes up to the last one asked for, and the application's launch the rest.
#include "tests/unit/inject/record_fixture.h"

namespace xtrace::inject {
namespace {

using bundle::GraphPlace;
using testing::Not;

class RecordGraphs : public Record {
 protected:
  // What the program prints without a recorder.
  std::string alone(const std::string& scenario) {
    environment_.emplace_back("CUDA_INJECTION64_PATH", "");
    const Recording run = finish(start({XTRACE_FAKE_APP, scenario}));
    environment_.clear();
    EXPECT_EQ(run.status, 7);
    return run.out;
  }
  std::vector<float> at(const Recording& run, const LaunchRecord& l, bool after) {
    EXPECT_EQ(l.regions.size(), 1u);
    const Region& r = l.regions[0];
    return floats_of(run, after ? r.after : r.before, r.size);
  }
};
std::vector<float> all(float v) { return std::vector<float>(8, v); }

TEST_F(RecordGraphs, EveryKernelOfEveryLaunchWithFillsCopiesAndChangedParameters) {
  const std::string plain = alone("graph_nodes");
  ASSERT_THAT(plain, HasSubstr("out 132 copy 6 other 12 sum 343")) << "2*3*5, then 4*3*11";
  const Recording run = record("graph_nodes");
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_EQ(run.out, plain);
  ASSERT_EQ(run.launches().size(), 9u);
  const float before[] = {2, 6, 1, 2, 6, 7, 4, 12, 49}, after[] = {6, 30, 7, 6, 30, 49, 12, 132, 343};
  const int32_t nodes[] = {2, 4, 5};
  for (size_t i = 0; i < 9; ++i) {
    const LaunchRecord& l = run.launches()[i];
    EXPECT_EQ(l.ordinal, i);
    EXPECT_EQ(l.kernel, "scale");
    EXPECT_EQ(l.api, "cuGraphLaunch");
    EXPECT_EQ(l.graph, (GraphPlace{static_cast<int32_t>(i / 3), nodes[i % 3]}));
    EXPECT_EQ(l.grid, (Dim3{4, 1, 1}));
    EXPECT_EQ(l.block, (Dim3{128, 1, 1}));
    EXPECT_EQ(at(run, l, false), all(before[i])) << i;
    EXPECT_EQ(at(run, l, true), all(after[i])) << i;
  }
}

TEST_F(RecordGraphs, OneKernelInTheMiddleOfTheSecondLaunch) {
  const std::string plain = alone("graph_nodes");
  for (const auto& options : {std::vector<std::string>{"--launches", "4"}, {"--kernel", "sca", "--launches", "4"}}) {
    const Recording run = record("graph_nodes", options);
    EXPECT_EQ(run.status, 7) << run.err;
    EXPECT_EQ(run.out, plain);
    EXPECT_THAT(run.err, HasSubstr("9 launches seen, 1 recorded, 0 skipped, 8 not asked for"));
    ASSERT_EQ(run.launches().size(), 1u);
    EXPECT_EQ(run.launches()[0].ordinal, 4u);
    EXPECT_EQ(run.launches()[0].graph, (GraphPlace{1, 4}));
    EXPECT_EQ(at(run, run.launches()[0], false), all(6));
    EXPECT_EQ(at(run, run.launches()[0], true), all(30));
    fs::remove_all(run.bundle);
  }
  const Recording none = record("graph_nodes", {"--kernel", "gemm"});
  EXPECT_EQ(none.out, plain);
  EXPECT_THAT(none.err, HasSubstr("nothing was recorded"));
}

TEST_F(RecordGraphs, AGraphUpdatedFromAnotherWhoseSourceIsGone) {
  const std::string plain = alone("graph_updates");
  ASSERT_THAT(plain, HasSubstr("data 24000\n")) << "20 * 30 * 40";
  const Recording run = record("graph_updates");
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_EQ(run.out, plain);
  EXPECT_THAT(run.err, HasSubstr("captured 6 launches went into graphs: kernels of a graph count when it is launched"));
  ASSERT_EQ(run.launches().size(), 6u);
  const float after[] = {2, 20, 60, 600, 2400, 24000};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(run.launches()[i].ordinal, i);
    EXPECT_EQ(at(run, run.launches()[i], true), all(after[i]));
  }
}

TEST_F(RecordGraphs, GraphsInGraphs) {
  const std::string plain = alone("graph_child");
  ASSERT_THAT(plain, HasSubstr("data 32400\n")) << "(2*3 * 5 * 2*3)^2";
  for (const char* launches : {"0-100", "1", "6-8"}) {
    const Recording run = record("graph_child", {"--launches", launches});
    EXPECT_EQ(run.status, 7) << run.err;
    EXPECT_EQ(run.out, plain) << launches;
    EXPECT_THAT(run.err, HasSubstr("10 launches seen"));
    for (const LaunchRecord& l : run.launches()) EXPECT_EQ(l.graph, (GraphPlace{l.ordinal >= 5, static_cast<int32_t>(l.ordinal % 5)}));
    fs::remove_all(run.bundle);
  }
}

TEST_F(RecordGraphs, KernelsBehindANodeThatCanNotBeRunAloneAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"graph_host", "graph launch: a host node (it calls a function of the program) stands before the kernel"},
      {"graph_event", "graph launch: an event node (it waits for work outside of the graph) stands before the kernel"}};
  for (const auto& [scenario, reason] : cases) {
    const std::string plain = alone(scenario);
    const Recording run = record(scenario);
    EXPECT_EQ(run.status, 3);
    EXPECT_EQ(run.out, plain);
    ASSERT_EQ(run.launches().size(), 2u) << scenario;
    EXPECT_EQ(run.launches()[0].status, LaunchStatus::recorded);
    EXPECT_EQ(run.launches()[1].status, LaunchStatus::skipped);
    EXPECT_EQ(run.launches()[1].kernel, "scale");
    EXPECT_EQ(run.launches()[1].graph, (GraphPlace{0, 2}));
    EXPECT_THAT(run.launches()[1].skip_reason, HasSubstr(reason));
    EXPECT_THAT(run.err, HasSubstr(reason));
    EXPECT_THAT(run.err, HasSubstr("hint: kernels of this graph can be recorded where the program runs without CUDA graphs"));
    fs::remove_all(run.bundle);
    const Recording first = record(scenario, {"--launches", "0"});
    EXPECT_EQ(first.status, 7) << "what comes behind the kernels that are asked for does not matter";
    EXPECT_EQ(first.out, plain);
    fs::remove_all(first.bundle);
  }
}

TEST_F(RecordGraphs, GraphsThatCanNotBeFollowedAreRefusedByName) {
  const struct {
    const char *scenario, *reason;
    size_t recorded, skipped;
  } cases[] = {{"graph_allocation", "graph launch: its graph could not be cloned", 0, 2},
               {"graph_other", "graph launch: cuGraphExecHostNodeSetParams changed it, which is not followed", 1, 1},
               {"graph_handles", "graph launch: cuGraphExecKernelNodeSetParams_v2 changed a node after an update from another graph", 6, 2},
               {"graph_peer", "peer memory: 32 bytes", 0, 1},
               {"graph_failing", "launch failed: CUDA_ERROR_INVALID_VALUE", 0, 2}};
  for (const auto& c : cases) {
    const std::string plain = alone(c.scenario);
    const Recording run = record(c.scenario);
    EXPECT_EQ(run.status, 3);
    EXPECT_EQ(run.out, plain) << c.scenario;
    size_t recorded = 0;
    for (const LaunchRecord& l : run.launches()) recorded += l.status == LaunchStatus::recorded;
    EXPECT_EQ(recorded, c.recorded) << c.scenario;
    EXPECT_EQ(run.launches().size(), c.recorded + c.skipped) << c.scenario;
    EXPECT_THAT(run.err, HasSubstr(c.reason)) << c.scenario;
    fs::remove_all(run.bundle);
  }
}

TEST_F(RecordGraphs, GraphsThatComeWhenAllWasRecordedAreCounted) {
  const std::string plain = alone("graph_two");
  const Recording run = record("graph_two", {"--launches", "7"});
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_EQ(run.out, plain);
  EXPECT_THAT(run.err, HasSubstr("19 launches seen, 1 recorded, 0 skipped, 18 not asked for"));
  const Recording both = record("graph_two", {"--launches", "7,12", "--overwrite"});
  EXPECT_EQ(both.status, 7) << both.err;
  EXPECT_EQ(both.out, plain);
  ASSERT_EQ(both.launches().size(), 2u);
  EXPECT_EQ(both.launches()[1].graph, (GraphPlace{3, 3}));
}

TEST_F(RecordGraphs, FillsAndCopiesAreSilencedInMemoryOfTheirOwnKind) {
  const std::string plain = alone("graph_memory");
  ASSERT_THAT(plain, HasSubstr("pooled 6 2 3 owned 15"));
  const Recording run = record("graph_memory");
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, plain);
  ASSERT_EQ(run.launches().size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(run.launches()[i].status, LaunchStatus::recorded) << run.launches()[i].skip_reason;
  EXPECT_EQ(run.launches()[1].graph.node, 4);
  EXPECT_THAT(run.launches()[3].skip_reason, HasSubstr("graph launch: a copy of several lines stands before the kernel"));
}

TEST_F(RecordGraphs, NodesThatTheProgramSwitchedOffDoNotRunNorCount) {
  const std::string plain = alone("graph_disabled");
  ASSERT_THAT(plain, HasSubstr("data 108\n")) << "2*3 * 3 * 2*3";
  const Recording run = record("graph_disabled");
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_EQ(run.out, plain);
  ASSERT_EQ(run.launches().size(), 5u);
  EXPECT_EQ(run.launches()[2].graph, (GraphPlace{1, 1}));
  EXPECT_EQ(at(run, run.launches()[2], true), all(18));
}

TEST_F(RecordGraphs, AKernelThatBreaksTheContextIsTheProgramsOwnError) {
  const std::string plain = alone("graph_fault");
  const Recording run = record("graph_fault");
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, plain);
  ASSERT_EQ(run.launches().size(), 3u);
  EXPECT_EQ(run.launches()[0].status, LaunchStatus::recorded);
  EXPECT_EQ(run.launches()[1].status, LaunchStatus::recorded);
  EXPECT_TRUE(run.launches()[1].regions.at(0).after.empty());
  EXPECT_THAT(run.launches()[2].skip_reason, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(run.err, Not(HasSubstr("spoiled")));
}

TEST_F(RecordGraphs, AnUpdateThatTheDriverRefusesLeavesTheGraphAsItWas) {
  const std::string plain = alone("graph_refused_update");
  ASSERT_THAT(plain, HasSubstr("data 36"));
  const Recording run = record("graph_refused_update");
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, plain);
  ASSERT_EQ(run.launches().size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(run.launches()[i].status == LaunchStatus::recorded, i >= 2);
  EXPECT_THAT(run.launches()[0].skip_reason, HasSubstr("graph launch: cuGraphExecUpdate failed: CUDA_ERROR_UNKNOWN"));
}

TEST_F(RecordGraphs, AGraphThatStaysSilencedIsSaidAloud) {
  const Recording run = record("graph_spoiled");
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("a graph of the program was spoiled: nodes that were silenced could not be put back: cuGraphExecUpdate "
                                 "failed: CUDA_ERROR_UNKNOWN (0); its results from here on are wrong"));
}

TEST_F(RecordGraphs, ANodeThatFailsByItselfIsLeftToTheGraphWithAllBehindIt) {
  const Recording run = record("graph_failing");
  ASSERT_EQ(run.launches().size(), 2u);
  EXPECT_THAT(run.launches()[1].skip_reason, HasSubstr("graph launch: node 1 could not be run by itself: CUDA_ERROR_INVALID_VALUE"));
  EXPECT_THAT(run.out, HasSubstr("data 30\n")) << "the fill ran once, both kernels by the graph";
}

TEST_F(RecordGraphs, AttributesComeAlongButForThoseThatOverlapKernels) {
  const Recording run = record("graph_attributes");
  EXPECT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 1u);
  const LaunchRecord& l = run.launches()[0];
  EXPECT_EQ(l.cluster, (Dim3{2, 1, 1}));
  ASSERT_EQ(l.attributes.size(), 2u);
  EXPECT_EQ(l.attributes[0].name, "cluster_dimension");
  EXPECT_EQ(l.attributes[1].name, "priority");
}

TEST_F(RecordGraphs, CapturedLaunchesDoNotCountAndOthersBesideThemAreRefused) {
  const std::string plain = alone("capture");
  const Recording run = record("capture");
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, plain);
  ASSERT_EQ(run.launches().size(), 4u);
  EXPECT_THAT(run.launches()[0].skip_reason, HasSubstr("stream capture: another stream"));
  EXPECT_EQ(run.launches()[1].status, LaunchStatus::recorded);
  EXPECT_EQ(run.launches()[1].graph, (GraphPlace{0, 0}));
  EXPECT_THAT(run.launches()[2].skip_reason, HasSubstr("graph launch: it was not seen how the graph was instantiated"));
  EXPECT_EQ(run.launches()[2].api, "cuGraphLaunch");
  EXPECT_EQ(run.launches()[3].status, LaunchStatus::recorded);
  EXPECT_EQ(run.launches()[3].graph, GraphPlace{});
  EXPECT_THAT(run.err, HasSubstr("captured 1 launch went into graphs"));
  EXPECT_THAT(run.err, HasSubstr("2 launches that were asked for were not recorded"));
}

TEST_F(RecordGraphs, AGraphThatWasNotReadIsOnlyAWarningWhenKernelsAreNamed) {
  const Recording run = record("capture", {"--kernel", "scale", "--launches", "1-2"});
  EXPECT_EQ(run.status, 7) << run.err;
  ASSERT_EQ(run.launches().size(), 2u);
  EXPECT_THAT(run.err, HasSubstr("1 graph launches were not looked into: it was not seen how the graph was instantiated"));
}

TEST_F(RecordGraphs, AFullDiskLeavesTheGraphToTheProgram) {
  largest_file_ = 1000;
  const std::string plain = alone("graph_nodes");
  const Recording run = record("graph_nodes");
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, plain);
}

TEST_F(RecordGraphs, ALaunchThatIsTooBigRunsAllTheSame) {
  const Recording run = record("graph_nodes", {"--max-bytes", "8"});
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.out, alone("graph_nodes"));
  EXPECT_THAT(run.launches()[0].skip_reason, HasSubstr("size limit"));
}

}  // namespace
}  // namespace xtrace::inject
