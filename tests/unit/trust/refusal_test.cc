// Launches that are refused before anything is replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tools/xtrace/replay/launch_replay.h"

namespace xtrace::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Result<diff::ReplayReport> replayed(const replay::LaunchImage& launch, instrument::ProbeKind probe) {
  ReplayOptions o;
  o.traces = testing::TempDir() + "trust_refusal";
  o.probes = {probe};
  o.samples = {{}};
  const auto backend = replay::make_interp_backend();
  return replay_launch(*backend, launch, o, nullptr);
}

replay::LaunchImage of_textures(const std::string& kernel) {
  replay::LaunchImage launch;
  launch.code = read_file(std::string(XTRACE_SOURCE_DIR) + "/fixtures/cubins/sm_90/textures.cubin").value();
  launch.record.kernel = kernel;
  launch.record.grid = {1, 1, 1};
  launch.record.block = {32, 1, 1};
  launch.record.param_block.resize(16);
  launch.record.params = {{0, 8}, {8, 8}};
  return launch;
}

// Also where nothing is spliced: what the handle names in this process is not what the kernel read.
TEST(Refusal, ObjectsOfTheDriverAreNotInARecording) {
  for (const auto probe : {instrument::ProbeKind::none, instrument::ProbeKind::block}) {
    const auto texture = replayed(of_textures("texture_2d"), probe);
    ASSERT_FALSE(texture);
    EXPECT_EQ(texture.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(texture.error().message, AllOf(HasSubstr("uses a texture at texture_2d+0x"), HasSubstr("TEX")));
    EXPECT_THAT(texture.error().hint, HasSubstr("leave the kernel out"));
    const auto surface = replayed(of_textures("surface_copy"), probe);
    ASSERT_FALSE(surface);
    EXPECT_THAT(surface.error().message, AllOf(HasSubstr("uses a surface at surface_copy+0x"), HasSubstr("SULD")));
  }
  EXPECT_TRUE(replayed(interp_test::recorded_launch("saxpy"), instrument::ProbeKind::none));
}

}  // namespace
}  // namespace xtrace::cli
