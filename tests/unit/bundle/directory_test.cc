// Which directories become a bundle, and with which permissions.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/unit/bundle/sample.h"

namespace xtrace::bundle {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

unsigned mode_of(const fs::path& path) {
  struct stat st = {};
  EXPECT_EQ(::stat(path.c_str(), &st), 0);
  return st.st_mode & 0777;
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(directory)) names.push_back(e.path().filename().string());
  return names;
}

WriterOptions overwriting() {
  WriterOptions o;
  o.overwrite = true;
  return o;
}

void record_one(const fs::path& directory, uint64_t ordinal, WriterOptions options = {}) {
  auto writer = new_writer(directory, options);
  must(writer->add_launch(sample_launch(ordinal, must(writer->put_code(noise(9, ordinal))))));
  must(writer->finish({}));
}

TEST(Directory, OnlyTheOwnerMayLookInside) {
  const mode_t before = ::umask(0);
  const TempDir dir;
  auto writer = new_writer(dir / "b");
  EXPECT_EQ(mode_of(dir / "b"), 0700u);
  EXPECT_THAT(names_in(dir / "b"), UnorderedElementsAre("incomplete", "pack", "launches"));
  for (const char* name : {"incomplete", "pack", "launches"})
    EXPECT_EQ(mode_of(dir / "b" / name), 0600u) << name;
  must(writer->finish({}));
  EXPECT_THAT(names_in(dir / "b"), UnorderedElementsAre("manifest", "pack", "launches"));
  EXPECT_EQ(mode_of(dir / "b" / "manifest"), 0600u);
  ::umask(before);
}

TEST(Directory, RefusesWhatIsNotABundle) {
  const TempDir dir;
  must(write_file(dir / "file", "x"));
  fs::create_directory(dir / "full");
  must(write_file(dir / "full" / "manifest", "{}"));
  struct {
    const char* name;
    const char* error;
  } cases[] = {{"file", "is not a directory"},
               {"full", "is not a bundle"},
               {"missing/b", "can not create the bundle"}};
  for (const auto& c : cases)
    for (const bool overwrite : {false, true}) {
      WriterOptions options;
      options.overwrite = overwrite;
      const auto writer = BundleWriter::create(dir / c.name, {}, options);
      ASSERT_FALSE(writer) << c.name;
      EXPECT_THAT(writer.error().message, HasSubstr(c.error));
      EXPECT_FALSE(writer.error().hint.empty());
    }
  EXPECT_THAT(names_in(dir / "full"), UnorderedElementsAre("manifest"));
}

TEST(Directory, AnEmptyDirectoryIsUsed) {
  const TempDir dir;
  fs::create_directory(dir / "b");
  record_one(dir / "b", 1);
  EXPECT_EQ(must(BundleReader::open(dir / "b"))->launches().size(), 1u);
}

TEST(Directory, ABundleIsReplacedOnlyWhenAsked) {
  for (const bool finished : {false, true}) {
    const TempDir dir;
    if (finished) {
      record_one(dir / "b", 1);
    } else {
      new_writer(dir / "b");
    }
    must(write_file(dir / "b" / "notes", "mine"));
    const auto refused = BundleWriter::create(dir / "b", {}, {});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("exists"));
    record_one(dir / "b", 2, overwriting());
    auto reader = must(BundleReader::open(dir / "b"));
    EXPECT_EQ(reader->info().state, BundleState::complete);
    ASSERT_EQ(reader->launches().size(), 1u);
    EXPECT_EQ(reader->launches()[0].ordinal, 2u);
    EXPECT_TRUE(fs::exists(dir / "b" / "notes"));
  }
}

TEST(Directory, ABundleBeingWrittenIsNotReplaced) {
  const TempDir dir;
  auto writer = new_writer(dir / "b");
  const auto second = BundleWriter::create(dir / "b", {}, overwriting());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("being written by another process"));
  must(writer->add_launch(sample_launch(1, must(writer->put_code(noise(9, 1))))));
  must(writer->finish({}));
  EXPECT_EQ(must(BundleReader::open(dir / "b"))->launches().size(), 1u);
}

TEST(Directory, ReadingWhatIsNotABundle) {
  const TempDir dir;
  const auto missing = BundleReader::open(dir / "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(missing.error().message, HasSubstr("no such directory"));
  const auto empty = BundleReader::open(dir.path());
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("expected a file manifest or incomplete"));
  EXPECT_THAT(empty.error().hint, HasSubstr("xtrace record"));
}

TEST(Directory, WrittenFromASharedLibraryWithoutCapnProto) {
  const TempDir dir;
  void* library = ::dlopen(BUNDLE_IN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto record = reinterpret_cast<bool (*)(const char*)>(::dlsym(library, "record_nothing"));
  ASSERT_NE(record, nullptr);
  EXPECT_TRUE(record((dir / "b").c_str()));
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->info().state, BundleState::complete);
  EXPECT_EQ(reader->launches().size(), 1u);
}

TEST(Directory, DyingBetweenTheTwoLastStepsOfFinishKeepsTheManifest) {
  const TempDir dir;
  {
    auto writer = new_writer(dir / "b");
    fs::copy_file(dir / "b" / "incomplete", dir / "saved");
    BundleInfo info;
    info.launches_seen = 77;
    must(writer->finish(info));
  }
  fs::copy_file(dir / "saved", dir / "b" / "incomplete");
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->info().state, BundleState::incomplete);
  EXPECT_EQ(reader->info().launches_seen, 77u);
}

}  // namespace
}  // namespace xtrace::bundle
