// Torn tails are dropped and named; changed bytes are found, never handed out.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/unit/bundle/sample.h"

namespace xtrace::bundle {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t image_bytes = 300;

Bytes image(uint64_t ordinal) { return noise(image_bytes, 100 + ordinal); }

// `count` launches with one region each; not finished unless asked. Returns the sizes of `launches` and
// `pack` after each launch.
struct Sizes {
  uint64_t launches, pack;
};
std::vector<Sizes> record(const fs::path& directory, uint64_t count, bool finish) {
  auto writer = new_writer(directory);
  std::vector<Sizes> sizes;
  for (uint64_t i = 0; i < count; ++i) {
    LaunchRecord l = sample_launch(i, must(writer->put_code(noise(50, i))));
    Region r;
    r.address = {0x10000};
    r.size = image_bytes;
    r.before = must(writer->put_memory(image(i)));
    r.after = must(writer->put_memory(image(i + 1)));
    l.regions = {r};
    must(writer->add_launch(l));
    sizes.push_back({fs::file_size(directory / "launches"), fs::file_size(directory / "pack")});
  }
  if (finish) must(writer->finish({}));
  return sizes;
}

// Every launch that the reader offers must be whole.
void expect_intact(const BundleReader& reader) {
  for (const LaunchRecord& l : reader.launches()) {
    SCOPED_TRACE(l.ordinal);
    EXPECT_EQ(must(reader.code(l.code)), noise(50, l.ordinal));
    EXPECT_EQ(must(reader.memory(l.regions[0].before, image_bytes)), image(l.ordinal));
    EXPECT_EQ(must(reader.memory(l.regions[0].after, image_bytes)), image(l.ordinal + 1));
  }
}

// In place; the lowest bit, because zstd ignores one bit of its frame header.
void flip(const fs::path& file, uint64_t offset) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(static_cast<std::streamoff>(offset));
  const char changed = static_cast<char>(f.get() ^ 1);
  f.seekp(static_cast<std::streamoff>(offset));
  f.put(changed);
  ASSERT_TRUE(f.good());
}

TEST(Damage, AnUnfinishedBundleHasEveryLaunch) {
  const TempDir dir;
  record(dir / "b", 3, false);
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->info().state, BundleState::incomplete);
  EXPECT_THAT(reader->info().warnings, IsEmpty());
  EXPECT_EQ(reader->info().environment.gpu_name, "NVIDIA H200");
  EXPECT_EQ(reader->info().launches_seen, 3u);
  ASSERT_EQ(reader->launches().size(), 3u);
  EXPECT_EQ(reader->chunk_count(), 3 + 4u);
  expect_intact(*reader);
}

TEST(Damage, LaunchesTornAtEveryByteOfTheLastRecord) {
  for (const bool finish : {false, true}) {
    const TempDir dir;
    const auto sizes = record(dir / "b", 3, finish);
    const uint64_t begin = sizes[1].launches, end = sizes[2].launches;
    ASSERT_LT(begin, end);
    for (uint64_t size = end - 1; size >= begin; --size) {
      SCOPED_TRACE(size);
      fs::resize_file(dir / "b" / "launches", size);
      auto reader = must(BundleReader::open(dir / "b"));
      EXPECT_EQ(reader->info().state, BundleState::incomplete);
      ASSERT_EQ(reader->launches().size(), 2u);
      expect_intact(*reader);
      if (size != begin) {
        EXPECT_THAT(reader->info().warnings, Contains(HasSubstr("launches: dropped")));
      }
      if (finish) {
        EXPECT_THAT(reader->info().warnings, Contains(HasSubstr("expected 3 launches")));
      }
    }
  }
}

TEST(Damage, PackTornAtEveryByteOfTheLastLaunch) {
  for (const bool finish : {false, true}) {
    const TempDir dir;
    const auto sizes = record(dir / "b", 3, finish);
    for (uint64_t size = sizes[2].pack - 1; size >= sizes[1].pack; --size) {
      SCOPED_TRACE(size);
      fs::resize_file(dir / "b" / "pack", size);
      auto reader = must(BundleReader::open(dir / "b"));
      EXPECT_EQ(reader->info().state, BundleState::incomplete);
      ASSERT_EQ(reader->launches().size(), 2u);
      expect_intact(*reader);
      EXPECT_THAT(reader->info().warnings, Contains(HasSubstr("launch 2: dropped")));
      if (finish) {
        EXPECT_THAT(reader->info().warnings, Contains(HasSubstr("pack: expected")));
      }
    }
  }
}

TEST(Damage, FilesCutToNothingOrMissing) {
  for (const char* name : {"launches", "pack"}) {
    for (const uint64_t size : {0, 1, 7, 8}) {
      const TempDir dir;
      record(dir / "b", 2, true);
      fs::resize_file(dir / "b" / name, size);
      auto reader = must(BundleReader::open(dir / "b"));
      EXPECT_EQ(reader->info().state, BundleState::incomplete);
      EXPECT_THAT(reader->launches(), IsEmpty());
      EXPECT_THAT(reader->info().warnings, Contains(HasSubstr(name)));
    }
    const TempDir dir;
    record(dir / "b", 2, true);
    fs::remove(dir / "b" / name);
    auto reader = must(BundleReader::open(dir / "b"));
    EXPECT_THAT(reader->launches(), IsEmpty());
    EXPECT_THAT(reader->info().warnings, Contains(HasSubstr("the file is missing")));
    EXPECT_FALSE(reader->code({1, 2}));
    EXPECT_FALSE(reader->memory({{1, 2}}, 5));
  }
}

TEST(Damage, EveryChangedByteOfThePackIsFound) {
  const TempDir dir;
  record(dir / "b", 1, true);
  const uint64_t size = fs::file_size(dir / "b" / "pack");
  for (uint64_t offset = 0; offset < size; ++offset) {
    SCOPED_TRACE(offset);
    flip(dir / "b" / "pack", offset);
    auto reader = must(BundleReader::open(dir / "b"));
    ASSERT_EQ(reader->launches().size(), 1u);
    const LaunchRecord& l = reader->launches()[0];
    const auto code = reader->code(l.code);
    const auto before = reader->memory(l.regions[0].before, image_bytes);
    const auto after = reader->memory(l.regions[0].after, image_bytes);
    EXPECT_FALSE(code && before && after);
    if (code) {
      EXPECT_EQ(*code, noise(50, 0));
    }
    if (before) {
      EXPECT_EQ(*before, image(0));
    }
    if (after) {
      EXPECT_EQ(*after, image(1));
    }
    flip(dir / "b" / "pack", offset);
  }
}

TEST(Damage, AChangedByteInsideAChunkNamesTheHash) {
  const TempDir dir;
  const auto sizes = record(dir / "b", 1, true);
  flip(dir / "b" / "pack", sizes[0].pack - 1);
  auto reader = must(BundleReader::open(dir / "b"));
  const Region& r = reader->launches()[0].regions[0];
  const auto before = reader->memory(r.before, r.size), after = reader->memory(r.after, r.size);
  const auto code = reader->code(reader->launches()[0].code);
  std::string error;
  for (const auto* bytes : {&before, &after, &code})
    if (!*bytes) error += bytes->error().to_string();
  EXPECT_THAT(error, HasSubstr("damaged chunk"));
  EXPECT_THAT(error, HasSubstr("pack"));
}

TEST(Damage, EveryChangedByteOfLaunchesIsFound) {
  const TempDir dir;
  const auto sizes = record(dir / "b", 3, true);
  for (uint64_t offset = sizes[0].launches; offset < sizes[1].launches; ++offset) {
    SCOPED_TRACE(offset);
    flip(dir / "b" / "launches", offset);
    auto reader = must(BundleReader::open(dir / "b"));
    EXPECT_EQ(reader->info().state, BundleState::incomplete);
    EXPECT_THAT(reader->info().warnings, Contains(HasSubstr("launches: dropped")));
    EXPECT_EQ(reader->launches()[0].ordinal, 0u);
    // A damaged message costs one launch; a damaged header loses its size, and with it what follows.
    if (offset >= sizes[0].launches + 32) {
      ASSERT_EQ(reader->launches().size(), 2u);
      EXPECT_EQ(reader->launches()[1].ordinal, 2u);
    } else {
      EXPECT_EQ(reader->launches().size(), 1u);
    }
    expect_intact(*reader);
    flip(dir / "b" / "launches", offset);
  }
}

TEST(Damage, EveryChangedByteOfAManifestIsRefused) {
  for (const bool finish : {false, true}) {
    const TempDir dir;
    record(dir / "b", 1, finish);
    const fs::path file = dir / "b" / (finish ? "manifest" : "incomplete");
    const uint64_t size = fs::file_size(file);
    for (uint64_t offset = 0; offset < size; ++offset) {
      flip(file, offset);
      const auto reader = BundleReader::open(dir / "b");
      ASSERT_FALSE(reader) << offset;
      EXPECT_THAT(reader.error().to_string(), HasSubstr(file.string()));
      flip(file, offset);
    }
    for (uint64_t cut = size; cut-- > 0;) {
      fs::resize_file(file, cut);
      EXPECT_FALSE(BundleReader::open(dir / "b")) << cut;
    }
  }
}

TEST(Damage, ASecondLaunchOfTheSameOrdinalIsDropped) {
  const TempDir dir;
  {
    auto writer = new_writer(dir / "b");
    const Hash128 code = must(writer->put_code(noise(5, 1)));
    LaunchRecord l = sample_launch(4, code);
    must(writer->add_launch(l));
    l.kernel = "second";
    must(writer->add_launch(l));
    must(writer->finish({}));
  }
  auto reader = must(BundleReader::open(dir / "b"));
  ASSERT_EQ(reader->launches().size(), 1u);
  EXPECT_EQ(reader->launches()[0].kernel, "_Z3addPfS_i");
  EXPECT_THAT(reader->info().warnings, Contains(HasSubstr("a second launch 4")));
}

}  // namespace
}  // namespace xtrace::bundle
