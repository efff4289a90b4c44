// The interpreter as a Backend.
#include <gtest/gtest.h>

#include "base/file.h"
#include "replay/interp/interp_backend.h"
#include "replay/interp/resources.h"
#include "tests/unit/interp/recordings.h"

namespace xtrace::interp_test {
namespace {

using replay::RestoreScope;

class InterpBackendTest : public testing::Test {
 protected:
  InterpBackendTest() : backend(replay::make_interp_backend()), launch(recorded_launch("saxpy")) {}
  replay::ModuleHandle prepared() {
    EXPECT_TRUE(backend->prepare(launch));
    auto module = backend->load(launch.code);
    EXPECT_TRUE(module) << module.error().to_string();
    return *module;
  }
  std::unique_ptr<replay::InterpBackend> backend;
  replay::LaunchImage launch;
};

TEST_F(InterpBackendTest, NeverMeasuresTime) {
  EXPECT_EQ(backend->info().name, "interp");
  EXPECT_FALSE(backend->info().measures_time);
  EXPECT_EQ(backend->time({}).error().kind, ErrorKind::unsupported);
  ASSERT_FALSE(backend->notes().empty());
  EXPECT_NE(backend->notes()[0].find("modelled, not measured"), std::string::npos);
}

TEST_F(InterpBackendTest, CleanReplaysMatchTheRecording) {
  const auto module = prepared();
  const auto reference = replay::clean_replays(*backend, launch, module, 2);
  ASSERT_TRUE(reference) << reference.error().to_string();
  EXPECT_TRUE(reference->matches_recorded_after);
  EXPECT_EQ(reference->unstable_bytes(), 0u);
  EXPECT_FALSE(reference->idempotent) << "saxpy works in place";
  EXPECT_EQ(reference->written, (std::vector<bool>{false, true}));
}

TEST_F(InterpBackendTest, RestoresWhatIsAsked) {
  const auto module = prepared();
  ASSERT_TRUE(backend->run(module)->completed);
  EXPECT_EQ(*backend->read_region(module, 1), launch.after[1]);
  backend->set_written_regions({true, false});
  ASSERT_TRUE(backend->restore(module, RestoreScope::written));
  EXPECT_EQ(*backend->read_region(module, 1), launch.after[1]) << "not asked for";
  ASSERT_TRUE(backend->restore(module, RestoreScope::all));
  EXPECT_EQ(*backend->read_region(module, 1), launch.before[1]);
  EXPECT_EQ(backend->read_region(module, 2).error().kind, ErrorKind::internal);
}

TEST_F(InterpBackendTest, Buffers) {
  prepared();
  const uint64_t free = backend->free_bytes();
  const auto a = backend->allocate(100, "records"), b = backend->allocate(5000, "more records");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->value % (2u << 20), 0u) << "as slot plans want it";
  EXPECT_EQ(free - backend->free_bytes(), 5100u);
  EXPECT_EQ(*backend->read(*b, 5000), Bytes(5000)) << "zeroed";
  ASSERT_TRUE(backend->write(*b + 8, Bytes(4, std::byte{7})));
  ASSERT_TRUE(backend->fill(*b + 10, 4, 9));
  EXPECT_EQ(*backend->read(*b + 8, 6),
            (Bytes{std::byte{7}, std::byte{7}, std::byte{9}, std::byte{9}, std::byte{9}, std::byte{9}}));
  EXPECT_FALSE(backend->read(*a, 101)) << "nothing lies behind a buffer";
  EXPECT_FALSE(backend->write(*b + 4999, Bytes(2)));
  ASSERT_TRUE(backend->release(*a));
  EXPECT_FALSE(backend->read(*a, 1));
  EXPECT_FALSE(backend->release(*a));
  EXPECT_EQ(backend->allocate(1ull << 50, "too much").error().kind, ErrorKind::environment);
}

TEST_F(InterpBackendTest, FaultsAreOutcomesAndTheBackendLives) {
  // A pointer that leads 256 bytes behind its region.
  const uint64_t end = launch.record.regions[1].address.value + launch.record.regions[1].size;
  const replay::LaunchImage good = launch;
  for (const bundle::Param& p : launch.record.params)
    if (p.size == 8 && *read_at<uint64_t>(launch.record.param_block, p.offset, "param") ==
                           launch.record.regions[1].address.value)
      write_at<uint64_t>(std::span(launch.record.param_block), p.offset, end + 256);
  const auto module = prepared();
  const auto outcome = backend->run(module);
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->completed);
  for (const char* part : {"kernel saxpy at 0x", "saxpy.cu:", "lane 0", "outside recorded memory",
                           "behind the end of device region 1"})
    EXPECT_NE(outcome->failure.find(part), std::string::npos) << outcome->failure;
  ASSERT_TRUE(backend->finish());
  launch = good;
  const auto again = prepared();
  EXPECT_TRUE(backend->run(again)->completed);
}

TEST_F(InterpBackendTest, Resources) {
  const auto module = prepared();
  const auto r = backend->resources(module);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->registers, static_cast<uint32_t>(launch.record.function.registers));
  EXPECT_EQ(r->ctas_per_sm, 8u) << "256 threads: 64 warps an SM";
  using replay::interp::ctas_per_sm;
  EXPECT_EQ(ctas_per_sm({32, 1, 1}, 16, 0), 32u);
  EXPECT_EQ(ctas_per_sm({256, 1, 1}, 128, 0), 2u);
  EXPECT_EQ(ctas_per_sm({256, 1, 1}, 129, 0), 1u) << "registers are given out in units of 256 a warp";
  EXPECT_EQ(ctas_per_sm({64, 1, 1}, 16, 100 << 10), 2u);
  EXPECT_EQ(ctas_per_sm({1024, 1, 1}, 255, 0), 0u);
}

TEST_F(InterpBackendTest, RefusesByName) {
  EXPECT_EQ(backend->load(launch.code).error().kind, ErrorKind::internal) << "nothing is prepared";
  const auto module = prepared();
  EXPECT_FALSE(backend->prepare(launch));
  EXPECT_FALSE(backend->run(module + 1));
  EXPECT_FALSE(backend->unload(module + 1));
  // Code of another architecture.
  const auto other =
      read_file(std::filesystem::path(XTRACE_SOURCE_DIR) / "fixtures/cubins/sm_100/plain.cubin");
  ASSERT_TRUE(other);
  ASSERT_TRUE(backend->finish());
  const auto image = cubin_kernels(*other);
  ASSERT_FALSE(image.empty());
  launch.record.kernel = image[0];
  ASSERT_TRUE(backend->prepare(launch));
  const auto refused = backend->load(*other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_NE(refused.error().message.find("sm_100"), std::string::npos) << refused.error().message;
  ASSERT_TRUE(backend->finish());
  launch = recorded_launch("saxpy");
  launch.record.cluster = {32, 1, 1};
  EXPECT_EQ(backend->prepare(launch).error().kind, ErrorKind::unsupported);
  launch.record.cluster = {3, 1, 1};
  EXPECT_EQ(backend->prepare(launch).error().kind, ErrorKind::bad_input);
}

}  // namespace
}  // namespace xtrace::interp_test
