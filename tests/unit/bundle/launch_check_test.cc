// The rules of launch_check.h, one broken at a time.
#include "capture/bundle/launch_check.h"

#include <gmock/gmock.h>

#include <functional>

#include "capture/bundle/messages.h"
#include "tests/unit/bundle/sample.h"

namespace xtrace::bundle {
namespace {

using ::testing::HasSubstr;

Region region(uint64_t address, uint64_t size) {
  Region r;
  r.address = {address};
  r.size = size;
  r.before.resize(chunks_of(size));
  r.after.resize(chunks_of(size));
  return r;
}

LaunchRecord good() {
  LaunchRecord l = sample_launch(0, {1, 2});
  l.regions = {region(0x1000, 0x1000), region(0x2000, chunk_bytes + 1)};
  return l;
}

struct Case {
  const char* error;  // null: allowed
  std::function<void(LaunchRecord&)> change;
};
const Case cases[] = {
    {nullptr, [](LaunchRecord&) {}},
    {nullptr, [](LaunchRecord& l) { l.regions[1].after.clear(); }},
    {nullptr,
     [](LaunchRecord& l) {
       l.cluster = {2, 1, 1};
     }},
    {nullptr,
     [](LaunchRecord& l) {
       l.params = {{20, 4}, {24, 0}};
     }},
    {"without a kernel name", [](LaunchRecord& l) { l.kernel.clear(); }},
    {"without code", [](LaunchRecord& l) { l.code = {}; }},
    {"skipped launch without a reason", [](LaunchRecord& l) { l.status = LaunchStatus::skipped; }},
    {"grid 4,0,1", [](LaunchRecord& l) { l.grid.y = 0; }},
    {"block 0,1,1", [](LaunchRecord& l) { l.block.x = 0; }},
    {"cluster 2,0,0",
     [](LaunchRecord& l) {
       l.cluster = {2, 0, 0};
     }},
    {"parameter 2 at offset 21 with 4 bytes", [](LaunchRecord& l) { l.params[2].offset = 21; }},
    {"parameter 0 at offset 4294967295",
     [](LaunchRecord& l) {
       l.params[0] = {0xffffffff, 0xffffffff};
     }},
    {"attribute 9 'x' has 65 bytes",
     [](LaunchRecord& l) {
       l.attributes = {{9, "x", Bytes(65)}};
     }},
    {nullptr, [](LaunchRecord& l) { l.graph = {0, 0}; }},
    {"graph launch 3, node -1: expected two numbers", [](LaunchRecord& l) { l.graph.launch = 3, l.graph.node = -1; }},
    {"graph launch -1, node 2: expected two numbers", [](LaunchRecord& l) { l.graph.launch = -1, l.graph.node = 2; }},
    {"has no bytes", [](LaunchRecord& l) { l.regions[0].size = 0; }},
    {"wraps around", [](LaunchRecord& l) { l.regions[1].address = {~0ull - chunk_bytes}; }},
    {"of kind global has no symbol", [](LaunchRecord& l) { l.regions[0].kind = RegionKind::global; }},
    {"has 1 chunks before the launch: expected 2", [](LaunchRecord& l) { l.regions[1].before.pop_back(); }},
    {"has 1 chunks after the launch: expected 2", [](LaunchRecord& l) { l.regions[1].after.pop_back(); }},
    {"begins before the end 0x2000", [](LaunchRecord& l) { l.regions[1].address = {0x1fff}; }},
    {"begins before the end", [](LaunchRecord& l) { std::swap(l.regions[0], l.regions[1]); }},
};

TEST(LaunchCheck, EveryRule) {
  for (const Case& c : cases) {
    LaunchRecord l = good();
    c.change(l);
    const Status s = check_launch(l);
    ASSERT_EQ(s.has_value(), c.error == nullptr) << (c.error ? c.error : s.error().message);
    if (c.error) {
      EXPECT_THAT(s.error().message, HasSubstr(c.error));
    }
  }
}

TEST(LaunchCheck, TheReaderAppliesTheSameRules) {
  for (const Case& c : cases) {
    LaunchRecord l = good();
    c.change(l);
    const auto decoded = decode_launch(must(encode_launch(l, {1, {{1, 2}}})));
    ASSERT_EQ(decoded.has_value(), c.error == nullptr) << (c.error ? c.error : decoded.error().message);
    if (c.error) {
      EXPECT_THAT(decoded.error().message, HasSubstr(c.error));
    }
  }
}

TEST(LaunchCheck, CodeMustHaveTheChunksOfItsSize) {
  const auto decoded = decode_launch(must(encode_launch(good(), {chunk_bytes + 1, {{1, 2}}})));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("has 1 chunks: expected 2"));
}

TEST(LaunchCheck, UnknownEnumNumbersAreRefusedByNumber) {
  LaunchRecord l = good();
  l.regions[0].kind = static_cast<RegionKind>(200);
  auto decoded = decode_launch(must(encode_launch(l, {1, {{1, 2}}})));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("region kind 200"));
  l = good();
  l.status = static_cast<LaunchStatus>(7);
  decoded = decode_launch(must(encode_launch(l, {1, {{1, 2}}})));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("launch status 7"));
}

TEST(LaunchCheck, TheWriterRefusesWhatItNeverStored) {
  const TempDir dir;
  auto writer = new_writer(dir / "b");
  LaunchRecord l = sample_launch(5, {1, 2});
  Status s = writer->add_launch(l);
  ASSERT_FALSE(s);
  EXPECT_THAT(s.error().to_string(), HasSubstr("was never stored, in launch 5"));
  l.code = must(writer->put_code(noise(10, 1)));
  l.regions = {region(0x1000, 10)};
  s = writer->add_launch(l);
  ASSERT_FALSE(s);
  EXPECT_THAT(s.error().message, HasSubstr("was never stored"));
  l.regions[0].before = l.regions[0].after = must(writer->put_memory(noise(10, 2)));
  must(writer->add_launch(l));
  l.grid.x = 0;
  s = writer->add_launch(l);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().kind, ErrorKind::internal);
  must(writer->finish({}));
  EXPECT_FALSE(writer->finish({}));
  EXPECT_FALSE(writer->put_memory(noise(1, 1)));
  EXPECT_FALSE(writer->put_code({}));
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->launches().size(), 1u);
}

}  // namespace
}  // namespace xtrace::bundle
