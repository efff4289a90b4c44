#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "capture/bundle/bundle_writer.h"
#include "replay/session.h"
#include "tests/unit/replay/launch_builder.h"

namespace xtrace::replay {
namespace {

using testing::HasSubstr;

class LoadLaunch : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("xtrace_load_launch_" + std::to_string(getpid()));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  // Writes one launch of two regions, and one that was skipped.
  void write(bool with_after) {
    auto writer = bundle::BundleWriter::create(path_ / "run.xtr", {}, {}).value();
    bundle::LaunchRecord r;
    r.ordinal = 3;
    r.kernel = "kernel";
    r.api = "cuLaunchKernel";
    r.param_block = bytes_of({1, 2, 3, 4, 5, 6, 7, 8});
    r.params = {{0, 8}};
    r.code = writer->put_code(bytes_of({9, 9})).value();
    for (int i = 0; i < 2; ++i) {
      bundle::Region g = region(0x7f0000000000 + 0x200000 * static_cast<uint64_t>(i), 3);
      g.before = writer->put_memory(bytes_of({i, 1, 2})).value();
      if (with_after) g.after = writer->put_memory(bytes_of({i, 7, 7})).value();
      r.regions.push_back(g);
    }
    ASSERT_TRUE(writer->add_launch(r));
    bundle::LaunchRecord skipped;
    skipped.ordinal = 5;
    skipped.kernel = "other";
    skipped.status = bundle::LaunchStatus::skipped;
    skipped.skip_reason = "it runs inside a graph";
    ASSERT_TRUE(writer->add_launch(skipped));
    ASSERT_TRUE(writer->finish({}));
  }
  std::unique_ptr<bundle::BundleReader> open() {
    return bundle::BundleReader::open(path_ / "run.xtr").value();
  }

  std::filesystem::path path_;
};

TEST_F(LoadLaunch, BringsRecordCodeAndMemory) {
  write(true);
  const LaunchImage l = load_launch(*open(), 3).value();
  EXPECT_EQ(l.record.kernel, "kernel");
  EXPECT_EQ(l.code, bytes_of({9, 9}));
  EXPECT_EQ(l.before, (std::vector<Bytes>{bytes_of({0, 1, 2}), bytes_of({1, 1, 2})}));
  EXPECT_EQ(l.after, (std::vector<Bytes>{bytes_of({0, 7, 7}), bytes_of({1, 7, 7})}));
}

TEST_F(LoadLaunch, LaunchWithoutRecordedResult) {
  write(false);
  const LaunchImage l = load_launch(*open(), 3).value();
  EXPECT_EQ(l.before.size(), 2u);
  EXPECT_TRUE(l.after.empty());
}

TEST_F(LoadLaunch, RefusalsSayWhich) {
  write(true);
  const auto reader = open();
  const Error missing = load_launch(*reader, 4).error();
  EXPECT_EQ(missing.kind, ErrorKind::bad_input);
  EXPECT_THAT(missing.message, HasSubstr("holds no launch 4: it has 2 launches, from 3 to 5"));
  const Error skipped = load_launch(*reader, 5).error();
  EXPECT_EQ(skipped.kind, ErrorKind::unsupported);
  EXPECT_EQ(skipped.message, "launch 5 (other) was skipped when recording: it runs inside a graph");
}

TEST_F(LoadLaunch, LostChunkIsNamed) {
  write(true);
  const auto reader = open();  // has its index; the chunks go away behind its back
  std::filesystem::resize_file(path_ / "run.xtr" / "pack", 40);
  const Result<LaunchImage> l = load_launch(*reader, 3);
  ASSERT_FALSE(l);
  EXPECT_THAT(l.error().to_string(), HasSubstr("launch 3 of "));
}

}  // namespace
}  // namespace xtrace::replay
