#include "capture/inject/param_block.h"

#include <gtest/gtest.h>

#include <cstring>

#include "capture/inject/launch_call.h"

namespace xtrace::inject {
namespace {

const std::vector<bundle::Param> layout = {{0, 1}, {8, 8}, {16, 4}};

TEST(ParamBlock, FromPointersZeroesPadding) {
  const char c = 0x11;
  const uint64_t p = 0x2222222222222222;
  const uint32_t n = 0x33333333;
  const void* values[] = {&c, &p, &n};
  const auto block = from_pointers(layout, values);
  ASSERT_TRUE(block);
  Bytes expected(20, std::byte{0});
  expected[0] = std::byte{0x11};
  std::memset(expected.data() + 8, 0x22, 8);
  std::memset(expected.data() + 16, 0x33, 4);
  EXPECT_EQ(block->bytes, expected);
}

TEST(ParamBlock, FromBufferZeroesPadding) {
  unsigned char buffer[32];
  std::memset(buffer, 0xcc, sizeof(buffer));
  const auto block = from_buffer(layout, buffer, sizeof(buffer));
  ASSERT_TRUE(block);
  ASSERT_EQ(block->bytes.size(), 20u);
  EXPECT_EQ(block->bytes[0], std::byte{0xcc});
  for (int i = 1; i < 8; ++i) EXPECT_EQ(block->bytes[i], std::byte{0}) << i;
  for (int i = 8; i < 20; ++i) EXPECT_EQ(block->bytes[i], std::byte{0xcc}) << i;
}

TEST(ParamBlock, TakesMoreThanFourKilobytes) {
  Bytes big(32000, std::byte{7});
  const void* values[] = {big.data()};
  const auto block = from_pointers({{0, 32000}}, values);
  ASSERT_TRUE(block);
  EXPECT_EQ(block->bytes, big);
}

TEST(ParamBlock, NoParametersNeedNoPointers) {
  const auto block = from_pointers({}, nullptr);
  ASSERT_TRUE(block);
  EXPECT_TRUE(block->bytes.empty());
}

TEST(ParamBlock, RefusesWhatDoesNotFit) {
  const uint64_t v = 0;
  const void* values[] = {&v, nullptr, &v};
  unsigned char buffer[19] = {};
  const auto message = [](const auto& r) { return r ? std::string("no error") : r.error().message; };
  EXPECT_NE(message(from_pointers(layout, values)).find("parameter 1 is a null pointer"), std::string::npos);
  EXPECT_NE(message(from_pointers(layout, nullptr)).find("takes 3 parameters"), std::string::npos);
  EXPECT_NE(message(from_buffer(layout, buffer, 19)).find("has 19 bytes, the kernel takes 20"),
            std::string::npos);
  EXPECT_NE(message(from_buffer(layout, nullptr, 20)).find("null pointer"), std::string::npos);
  EXPECT_NE(message(checked_layout({{0, 8}, {4, 4}})).find("overlaps"), std::string::npos);
  EXPECT_NE(message(checked_layout({{0, 0}})).find("size 0"), std::string::npos);
  EXPECT_NE(message(checked_layout({{0xffff, 8}})).find("at most 65536"), std::string::npos);
}

TEST(ParamBuffer, ReadsTheExtraArray) {
  char data[4] = {};
  size_t size = sizeof(data);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_BUFFER_POINTER, data,
                   CU_LAUNCH_PARAM_END};
  const auto buffer = param_buffer(extra);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->data, data);
  EXPECT_EQ(buffer->size, 4u);
  void* none[] = {CU_LAUNCH_PARAM_END};
  EXPECT_FALSE(param_buffer(none));
  EXPECT_FALSE(param_buffer(nullptr));
}

TEST(LaunchAttributes, KnownByNameOthersByNumber) {
  EXPECT_EQ(attribute_name(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION), "cluster_dimension");
  EXPECT_EQ(attribute_name(99), "attribute_99");
}

}  // namespace
}  // namespace xtrace::inject
