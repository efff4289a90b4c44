// What goes in comes out, and memory that is the same is stored once.
#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/bundle/sample.h"

namespace xtrace::bundle {
namespace {

using ::testing::IsEmpty;

constexpr uint64_t kib = 1024;

// Every field of a launch set to a value of its own.
LaunchRecord full_launch(uint64_t ordinal, const Hash128& code) {
  LaunchRecord l = sample_launch(ordinal, code);
  l.api = "cuLaunchKernelEx";
  l.grid = {0x7fffffff, 65535, 65534};
  l.block = {1024, 2, 3};
  l.cluster = {4, 5, 6};
  l.dynamic_shared_bytes = 232448;
  l.cooperative = true;
  l.stream = 0xfedcba9876543210;
  l.attributes = {{4, "cluster_dimension", noise(64, 77)}, {2, "cooperative", noise(4, 78)}};
  l.function = {11, 12, 13, 14, 15, 16, 17, 18};
  l.snapshot_seconds = 0.125;
  l.graph = {3, 17};
  return l;
}

void expect_same(const Region& a, const Region& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.address, b.address);
  EXPECT_EQ(a.size, b.size);
  EXPECT_EQ(a.symbol, b.symbol);
  EXPECT_EQ(a.before, b.before);
  EXPECT_EQ(a.after, b.after);
}

void expect_same(const FunctionAttributes& a, const FunctionAttributes& b) {
  EXPECT_EQ(a.max_dynamic_shared, b.max_dynamic_shared);
  EXPECT_EQ(a.preferred_carveout, b.preferred_carveout);
  EXPECT_EQ(a.non_portable_cluster, b.non_portable_cluster);
  EXPECT_EQ(a.registers, b.registers);
  EXPECT_EQ(a.local_bytes, b.local_bytes);
  EXPECT_EQ(a.static_shared, b.static_shared);
  EXPECT_EQ(a.constant_bytes, b.constant_bytes);
  EXPECT_EQ(a.max_threads, b.max_threads);
}

void expect_same(const LaunchRecord& a, const LaunchRecord& b) {
  EXPECT_EQ(a.ordinal, b.ordinal);
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.skip_reason, b.skip_reason);
  EXPECT_EQ(a.kernel, b.kernel);
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.api, b.api);
  EXPECT_EQ(a.grid, b.grid);
  EXPECT_EQ(a.block, b.block);
  EXPECT_EQ(a.cluster, b.cluster);
  EXPECT_EQ(a.dynamic_shared_bytes, b.dynamic_shared_bytes);
  EXPECT_EQ(a.cooperative, b.cooperative);
  EXPECT_EQ(a.stream, b.stream);
  EXPECT_EQ(a.snapshot_seconds, b.snapshot_seconds);
  EXPECT_EQ(a.graph, b.graph);
  EXPECT_EQ(a.param_block, b.param_block);
  expect_same(a.function, b.function);
  ASSERT_EQ(a.attributes.size(), b.attributes.size());
  for (size_t i = 0; i < a.attributes.size(); ++i) {
    EXPECT_EQ(a.attributes[i].id, b.attributes[i].id);
    EXPECT_EQ(a.attributes[i].name, b.attributes[i].name);
    EXPECT_EQ(a.attributes[i].value, b.attributes[i].value);
  }
  ASSERT_EQ(a.params.size(), b.params.size());
  for (size_t i = 0; i < a.params.size(); ++i) {
    EXPECT_EQ(a.params[i].offset, b.params[i].offset);
    EXPECT_EQ(a.params[i].size, b.params[i].size);
  }
  ASSERT_EQ(a.regions.size(), b.regions.size());
  for (size_t i = 0; i < a.regions.size(); ++i) expect_same(a.regions[i], b.regions[i]);
}

TEST(RoundTrip, EveryFieldOfALaunchAndOfTheEnvironment) {
  const TempDir dir;
  const Bytes cubin = noise(3 * kib, 1), before = noise(2 * chunk_bytes + 5, 2),
              after = noise(2 * chunk_bytes + 5, 3);
  LaunchRecord written;
  {
    auto writer = new_writer(dir / "b");
    written = full_launch(42, must(writer->put_code(cubin)));
    constexpr RegionKind kinds[] = {RegionKind::device,  RegionKind::async_pool, RegionKind::vmm,
                                    RegionKind::managed, RegionKind::asked,      RegionKind::global,
                                    RegionKind::constant};
    for (const RegionKind kind : kinds) {
      Region r;
      r.kind = kind;
      r.address = {0x7f0000000000 + written.regions.size() * (16ull << 20)};
      r.size = before.size();
      if (kind == RegionKind::global || kind == RegionKind::constant)
        r.symbol = std::string("s_") + name_of(kind);
      r.before = must(writer->put_memory(before));
      if (kind != RegionKind::asked) r.after = must(writer->put_memory(after));
      written.regions.push_back(r);
    }
    must(writer->add_launch(written));
    BundleInfo info;
    info.launches_seen = 99;
    info.warnings = {"one", "two"};
    info.application_exit_status = 7;
    info.environment.gpu_name = "ignored";
    must(writer->finish(info));
  }

  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->info().state, BundleState::complete);
  EXPECT_EQ(reader->info().format_version, 2u);
  EXPECT_EQ(reader->info().minimum_reader_version, 1u);
  EXPECT_EQ(reader->info().launches_seen, 99u);
  EXPECT_EQ(reader->info().application_exit_status, 7);
  EXPECT_EQ(reader->info().warnings, (std::vector<std::string>{"one", "two"}));
  const Environment& e = reader->info().environment;
  const Environment x = sample_environment();
  EXPECT_EQ(e.gpu_name, x.gpu_name);
  EXPECT_EQ(e.gpu_uuid, x.gpu_uuid);
  EXPECT_EQ(e.sm, x.sm);
  EXPECT_EQ(e.sm_count, x.sm_count);
  EXPECT_EQ(e.memory_bytes, x.memory_bytes);
  EXPECT_EQ(e.l2_bytes, x.l2_bytes);
  EXPECT_EQ(e.sm_clock_khz, x.sm_clock_khz);
  EXPECT_EQ(e.memory_clock_khz, x.memory_clock_khz);
  EXPECT_EQ(e.driver_version, x.driver_version);
  EXPECT_EQ(e.kernel_driver, x.kernel_driver);
  EXPECT_EQ(e.toolkit_version, x.toolkit_version);
  EXPECT_EQ(e.hostname, x.hostname);
  EXPECT_EQ(e.started_at, x.started_at);
  EXPECT_EQ(e.command, x.command);

  ASSERT_EQ(reader->launches().size(), 1u);
  const LaunchRecord& read = reader->launches()[0];
  expect_same(read, written);
  EXPECT_EQ(must(reader->code(read.code)), cubin);
  EXPECT_EQ(must(reader->memory(read.regions[0].before, read.regions[0].size)), before);
  EXPECT_EQ(must(reader->memory(read.regions[0].after, read.regions[0].size)), after);
  // 3 chunks before, 3 after, 1 cubin; the other six regions are the same bytes.
  EXPECT_EQ(reader->chunk_count(), 7u);
  EXPECT_EQ(reader->pack_bytes(), std::filesystem::file_size(dir / "b" / "pack"));
}

TEST(RoundTrip, DefaultsOfAnEmptySkippedLaunch) {
  const TempDir dir;
  LaunchRecord written;
  written.ordinal = 3;
  written.status = LaunchStatus::skipped;
  written.skip_reason = "a CUDA graph launch";
  {
    auto writer = new_writer(dir / "b");
    must(writer->add_launch(written));
    must(writer->finish({}));
  }
  auto reader = must(BundleReader::open(dir / "b"));
  ASSERT_EQ(reader->launches().size(), 1u);
  expect_same(reader->launches()[0], written);
  EXPECT_EQ(reader->launches()[0].function.registers, -1);
  EXPECT_EQ(reader->info().application_exit_status, -1);
  EXPECT_EQ(reader->info().launches_seen, 4u);
}

TEST(RoundTrip, ManyLaunchesComeInOrdinalOrder) {
  const TempDir dir;
  constexpr uint64_t count = 1000;
  {
    auto writer = new_writer(dir / "b");
    const Hash128 code = must(writer->put_code(noise(kib, 1)));
    for (uint64_t i = 0; i < count; ++i) must(writer->add_launch(sample_launch(count - 1 - i, code)));
    must(writer->finish({}));
  }
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_THAT(reader->info().warnings, IsEmpty());
  ASSERT_EQ(reader->launches().size(), count);
  for (uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(reader->launches()[i].ordinal, i);
    EXPECT_EQ(reader->launches()[i].param_block, noise(24, i));
  }
}

TEST(RoundTrip, SameMemoryIsStoredOnceAcrossLaunches) {
  const TempDir dir;
  auto writer = new_writer(dir / "b");
  const Bytes image = noise(3 * chunk_bytes + 1, 5);
  const auto first = must(writer->put_memory(image));
  const uint64_t after_first = writer->raw_bytes();
  EXPECT_EQ(must(writer->put_memory(image)), first);
  Bytes changed = image;
  changed[chunk_bytes] ^= std::byte{1};
  const auto second = must(writer->put_memory(changed));
  EXPECT_EQ(second[0], first[0]);
  EXPECT_NE(second[1], first[1]);
  EXPECT_EQ(second[2], first[2]);
  EXPECT_EQ(second[3], first[3]);
  EXPECT_EQ(after_first, image.size());
  EXPECT_EQ(writer->raw_bytes(), 3 * image.size());
  must(writer->finish({}));
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->chunk_count(), 5u);
  EXPECT_LT(reader->pack_bytes(), 4 * chunk_bytes + 64 * kib);
  EXPECT_EQ(must(reader->memory(second, changed.size())), changed);
}

TEST(RoundTrip, ZeroMemoryIsAlmostFree) {
  const TempDir dir;
  auto writer = new_writer(dir / "b");
  const Bytes zeros(64 * chunk_bytes);
  const auto chunks = must(writer->put_memory(zeros));
  must(writer->finish({}));
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->chunk_count(), 1u);
  EXPECT_LT(reader->pack_bytes(), 200u);
  EXPECT_EQ(chunks.front(), hash128(std::span(zeros).first(chunk_bytes)));
  EXPECT_EQ(must(reader->memory(chunks, zeros.size())), zeros);
}

TEST(RoundTrip, ImageSizes) {
  const TempDir dir;
  auto writer = new_writer(dir / "b");
  constexpr uint64_t sizes[] = {0, 1, chunk_bytes - 1, chunk_bytes, chunk_bytes + 1, 40 * chunk_bytes + 3};
  std::vector<std::vector<Hash128>> images;
  for (const uint64_t size : sizes) images.push_back(must(writer->put_memory(noise(size, size))));
  must(writer->finish({}));
  auto reader = must(BundleReader::open(dir / "b"));
  for (size_t i = 0; i < images.size(); ++i) {
    SCOPED_TRACE(sizes[i]);
    EXPECT_EQ(images[i].size(), (sizes[i] + chunk_bytes - 1) / chunk_bytes);
    EXPECT_EQ(must(reader->memory(images[i], sizes[i])), noise(sizes[i], sizes[i]));
  }
  // A size that the chunks do not have is refused.
  EXPECT_FALSE(reader->memory(images[5], 41 * chunk_bytes + 3));
  EXPECT_FALSE(reader->memory(images[4], chunk_bytes + 2));
}

TEST(RoundTrip, CubinLargerThanAChunk) {
  const TempDir dir;
  const Bytes cubin = noise(chunk_bytes * 2 + 100, 9);
  auto writer = new_writer(dir / "b");
  const Hash128 code = must(writer->put_code(cubin));
  EXPECT_EQ(code, hash128(cubin));
  EXPECT_EQ(must(writer->put_code(cubin)), code);
  must(writer->add_launch(sample_launch(0, code)));
  must(writer->finish({}));
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(must(reader->code(code)), cubin);
  EXPECT_FALSE(reader->code(hash128(Bytes(1))));
}

TEST(RoundTrip, ThreadsPutTheSameAndDifferentMemory) {
  const TempDir dir;
  WriterOptions options;
  options.compression_threads = 3;
  auto writer = new_writer(dir / "b", options);
  constexpr int threads = 4;
  constexpr uint64_t images = 6, size = 18 * chunk_bytes;  // large enough to share the hashing
  const Bytes shared = noise(size, 1000);
  std::vector<std::vector<Hash128>> own(threads * images), common(threads);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([&, t] {
      for (uint64_t i = 0; i < images; ++i)
        own[t * images + i] = must(writer->put_memory(noise(2 * chunk_bytes, t * images + i)));
      common[t] = must(writer->put_memory(shared));
    });
  for (auto& t : pool) t.join();
  must(writer->finish({}));
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->chunk_count(), threads * images * 2 + 18);
  for (uint64_t i = 0; i < own.size(); ++i)
    EXPECT_EQ(must(reader->memory(own[i], 2 * chunk_bytes)), noise(2 * chunk_bytes, i));
  for (const auto& c : common) EXPECT_EQ(c, common[0]);
  EXPECT_EQ(must(reader->memory(common[0], size)), shared);
}

TEST(RoundTrip, ExitStatusOfTheApplicationIsAddedLater) {
  const TempDir dir;
  auto writer = new_writer(dir / "b");
  EXPECT_FALSE(BundleWriter::set_application_exit_status(dir / "b", 0));  // still incomplete
  BundleInfo info;
  info.launches_seen = 5;
  info.warnings = {"kept"};
  must(writer->finish(info));
  for (const int32_t status : {0, 139, -1}) {
    must(BundleWriter::set_application_exit_status(dir / "b", status));
    auto reader = must(BundleReader::open(dir / "b"));
    EXPECT_EQ(reader->info().application_exit_status, status);
    EXPECT_EQ(reader->info().state, BundleState::complete);
    EXPECT_EQ(reader->info().launches_seen, 5u);
    EXPECT_EQ(reader->info().warnings, std::vector<std::string>{"kept"});
    EXPECT_EQ(reader->info().environment.command, sample_environment().command);
  }
}

}  // namespace
}  // namespace xtrace::bundle
