// Thirty random kernels: what an H200 left in memory, and a sample of them spliced. How the files beside this
// one were made: docs/testing.md. XTRACE_RANDOM_CUBIN=FILE: all kernels of this file spliced instead, and nothing of an H200.
#include <cstdlib>
#include <sstream>

#include "base/file.h"
#include "tests/random/launches.h"
#include "tests/unit/interp/spliced_launch.h"
#include "tests/unit/interp/traced_mem.h"

namespace xtrace::interp_test {
namespace {

std::filesystem::path here(const char* name) {
  return std::filesystem::path(XTRACE_SOURCE_DIR) / "tests/random" / name;
}
const char* other_cubin() { return std::getenv("XTRACE_RANDOM_CUBIN"); }
Bytes read(const std::filesystem::path& file) {
  auto bytes = random_kernels::read_cubin(file);
  if (!bytes) throw std::runtime_error(bytes.error().to_string());
  return std::move(*bytes);
}
const Bytes& cubin() {
  static const Bytes bytes = read(other_cubin() != nullptr ? other_cubin() : here("kept.cubin.zst"));
  return bytes;
}
std::vector<std::string> kernels_in(const Bytes& file) {
  auto names = random_kernels::kernels_of(file);
  if (!names || names->empty()) throw std::runtime_error("no kernel of generate.py in it");
  return std::move(*names);
}
// One kernel each, on which a splice was wrong once: the rest of the prologue in its second block, beside loops whose rounds are counted;
// an IMAD that reads a register sooner than a probe's store may.
constexpr const char* mended[] = {"rest_of_prologue.cubin.zst", "early_reader.cubin.zst"};
struct Expected {
  std::string kernel, digest;
};
std::vector<Expected> expected() {
  const auto bytes = read_file(here("kept.h200.txt"));
  if (!bytes) throw std::runtime_error(bytes.error().to_string());
  std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  std::vector<Expected> all;
  for (Expected e; lines >> e.kernel >> e.digest;) all.push_back(e);
  return all;
}

TEST(RandomKernels, LeaveWhatTheHardwareLeft) {
  if (other_cubin() != nullptr) GTEST_SKIP() << "nothing is known of what an H200 leaves of " << other_cubin();
  const std::vector<Expected> all = expected();
  ASSERT_EQ(all.size(), 30u);
  const auto names = random_kernels::kernels_of(cubin());
  ASSERT_TRUE(names);
  ASSERT_EQ(names->size(), all.size());
  for (const bool late : {false, true}) {
    replay::InterpOptions options;
    options.late = late;
    const auto backend = replay::make_interp_backend(options);
    for (const Expected& e : all) {
      SCOPED_TRACE(e.kernel + (late ? ", results as late as the code allows" : ""));
      const auto launch = random_kernels::launch_of(cubin(), e.kernel);
      ASSERT_TRUE(launch) << launch.error().to_string();
      ASSERT_TRUE(backend->prepare(*launch));
      const auto contents = random_kernels::run(*backend, *launch, cubin());
      ASSERT_TRUE(contents) << contents.error().to_string();
      EXPECT_EQ(random_kernels::digest(*contents), e.digest);
      ASSERT_TRUE(backend->finish());
    }
  }
}

class SplicedRandom : public SplicedLaunch, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Bytes code = cubin();
    for (const char* file : mended)
      if (Bytes other = read(here(file)); kernels_in(other).front() == GetParam()) code = std::move(other);
    auto image = random_kernels::launch_of(code, GetParam());
    ASSERT_TRUE(image) << image.error().to_string();
    const auto clean = replay::make_interp_backend();
    ASSERT_TRUE(clean->prepare(*image));
    auto contents = random_kernels::run(*clean, *image, code);
    // Of the kept kernels none is refused.
    if (other_cubin() != nullptr && !contents && contents.error().kind == ErrorKind::unsupported) GTEST_SKIP() << contents.error().to_string();
    ASSERT_TRUE(contents) << contents.error().to_string();
    image->after = std::move(*contents);
    any_refusal = other_cubin() != nullptr;
    ASSERT_NO_FATAL_FAILURE(observe(std::move(*image)));
  }
  const char* refusal(ProbeKind, std::optional<Records>) const override { return nullptr; }
};

TEST_P(SplicedRandom, BlockTraceIsTheWitness) {
  for (Records r : {Records::wrapping, Records::plain, Records::brief})
    trace(ProbeKind::block, trace::TraceKind::block, r);
  trace(ProbeKind::block, trace::TraceKind::block, Records::brief, 2);
}
TEST_P(SplicedRandom, InstTraceIsTheWitness) {
  for (Records r : {Records::wrapping, Records::plain, Records::packed, Records::brief})
    for (uint32_t gap : {0u, instrument::usual_clock_gap}) {
      clock_gap = gap;
      trace(ProbeKind::inst, trace::TraceKind::inst, r);
    }
  if (splicer->can_fill_sectors(false)) trace(ProbeKind::inst, trace::TraceKind::inst, Records::sectors);
}

// Lane by lane.
TEST_P(SplicedRandom, MemTraceIsTheWitness) {
  traced_mem::Check check{launch, GetParam()};
  check.whole = false;
  for (const bool counted : {false, true}) check.trace(1, counted, false, false, counted);
  check.trace(2, true, true, true, true);
  check.sectors = true;
  check.trace(1, true, false, false, true);
  check.trace(2, true, true, true, true);
}

// Every third kernel, and the mended ones.
std::vector<std::string> sample() {
  if (other_cubin() != nullptr) return kernels_in(cubin());
  std::vector<std::string> names;
  size_t k = 0;
  for (const Expected& e : expected())
    if (k++ % 3 == 0) names.push_back(e.kernel);
  for (const char* file : mended) names.push_back(kernels_in(read(here(file))).front());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Kernels, SplicedRandom, testing::ValuesIn(sample()), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace xtrace::interp_test
