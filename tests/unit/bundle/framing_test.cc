// Headers, versions and quirks.
#include "capture/bundle/framing.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "capture/bundle/messages.h"
#include "capture/bundle/wire_builder.h"
#include "tests/unit/bundle/sample.h"

namespace xtrace::bundle {
namespace {

using layout::at;
using ::testing::HasSubstr;

Bytes manifest_with(uint32_t version, uint32_t minimum_reader, const std::vector<std::string>& quirks) {
  WireBuilder builder(layout::manifest);
  builder.root().put(at(layout::manifest, "formatVersion"), version);
  builder.root().put(at(layout::manifest, "minimumReaderVersion"), minimum_reader);
  builder.root().put_texts(at(layout::manifest, "quirks"), quirks);
  return builder.finish();
}

TEST(Framing, HeaderIsThirtyTwoBytesInAFixedOrder) {
  const Header h = make_header(frame_tag, 0x11223344, 0x55667788, {0x0102030405060708, 0x090a0b0c0d0e0f10});
  const auto bytes = std::as_bytes(std::span(&h, 1));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 4), "XCFM");
  EXPECT_EQ(std::to_integer<int>(bytes[8]), 0x44);
  EXPECT_EQ(std::to_integer<int>(bytes[12]), 0x88);
  EXPECT_EQ(std::to_integer<int>(bytes[16]), 0x08);
  EXPECT_EQ(std::to_integer<int>(bytes[24]), 0x10);
}

TEST(Framing, AnyChangedBitOfAHeaderIsFound) {
  const Header good = make_header(record_tag, 0, 1234, {5, 6});
  EXPECT_TRUE(verify_header(good, record_tag));
  EXPECT_FALSE(verify_header(good, frame_tag));
  for (size_t bit = 0; bit < sizeof(Header) * 8; ++bit) {
    Header bad = good;
    std::as_writable_bytes(std::span(&bad, 1))[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(verify_header(bad, record_tag)) << "bit " << bit;
  }
}

TEST(Framing, VersionsAndQuirksAreRefusedByName) {
  struct Case {
    uint32_t version, minimum_reader;
    std::vector<std::string> quirks;
    const char* error;  // null: accepted
    ErrorKind kind = ErrorKind::unsupported;
  };
  const Case cases[] = {
      {1, 1, {}, nullptr},
      {7, 1, {}, nullptr},  // a later format that this reader can still read
      {7, 2, {}, "format version 7 needs reader version 2: this xtrace has reader version 1"},
      {0, 0, {}, "format version 0", ErrorKind::bad_input},
      {1, 1, {"chunks_in_pages"}, "quirk 'chunks_in_pages' is not known"},
  };
  for (const Case& c : cases) {
    const auto decoded = decode_manifest(manifest_with(c.version, c.minimum_reader, c.quirks));
    ASSERT_EQ(decoded.has_value(), c.error == nullptr) << c.version << " " << c.minimum_reader;
    if (c.error == nullptr) {
      EXPECT_EQ(decoded->info.format_version, c.version);
      continue;
    }
    EXPECT_THAT(decoded.error().message, HasSubstr(c.error));
    EXPECT_EQ(decoded.error().kind, c.kind);
  }
}

TEST(Framing, ABundleFromTheFutureIsRefusedWithItsPath) {
  const TempDir dir;
  must(new_writer(dir / "b")->finish({}));
  must(write_file(dir / "b" / "manifest", must(manifest_file(manifest_with(3, 3, {})))));
  const auto reader = BundleReader::open(dir / "b");
  ASSERT_FALSE(reader);
  EXPECT_THAT(reader.error().to_string(), HasSubstr("needs reader version 3"));
  EXPECT_THAT(reader.error().to_string(), HasSubstr((dir / "b" / "manifest").string()));
  EXPECT_THAT(reader.error().hint, HasSubstr("newer"));
  EXPECT_FALSE(BundleWriter::set_application_exit_status(dir / "b", 0));
}

TEST(Framing, AMutatedMessageIsRefusedOrDecodesButNeverHarms) {
  LaunchRecord l = sample_launch(1, {1, 2});
  l.attributes = {{4, "cluster_dimension", noise(64, 1)}};
  Region r;
  r.address = {0x1000};
  r.size = 10;
  r.before = {{3, 4}};
  l.regions = {r};
  const Bytes good = must(encode_launch(l, {5, {{1, 2}}}));
  ASSERT_TRUE(decode_launch(good));
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i)
    for (const int mask : {0x01, 0x80, 0xff}) {
      Bytes bad = good;
      bad[i] ^= static_cast<std::byte>(mask);
      if (!decode_launch(bad)) ++refused;
    }
  EXPECT_GT(refused, 100);
  for (size_t size = 0; size + 8 <= good.size(); size += 4)
    EXPECT_FALSE(decode_launch(std::span(good).first(size))) << size;
}

}  // namespace
}  // namespace xtrace::bundle
