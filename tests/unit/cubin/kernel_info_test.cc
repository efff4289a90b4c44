#include "instrument/cubin/kernel_info.h"

#include <gmock/gmock.h>

#include "cubins.h"
#include "instrument/cubin/eiattr.h"

namespace xtrace::cubin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// As nvdisasm and readelf print them.
struct Expected {
  const char* cubin;
  const char* kernel;
  uint32_t registers, frame, threads, max_registers, shared, param_base, param_bytes;
};
constexpr Expected kExpected[] = {
    {"sm_80/plain", "scale", 8, 0, 128, 128, 0, 0x160, 16},
    {"sm_80/plain", "block_sum", 10, 0, 0, 255, 0x400, 0x160, 20},
    {"sm_90/plain", "scale", 8, 0, 128, 128, 0, 0x210, 16},
    {"sm_90/plain", "block_sum", 12, 0, 0, 255, 0x800, 0x210, 20},
    {"sm_90/plain_abi7", "block_sum", 12, 0, 0, 255, 0x800, 0x210, 20},
    {"sm_90/variables", "variables", 24, 8, 0, 255, 0x480, 0x210, 12},
    {"sm_100/variables", "variables", 28, 8, 0, 255, 0x480, 0x380, 12},
};

TEST(KernelInfo, Counts) {
  for (const Expected& e : kExpected) {
    const KernelInfo k = info_of(image_of(e.cubin), e.kernel);
    const std::string where = std::string(e.cubin) + " " + e.kernel;
    EXPECT_EQ(k.register_count, e.registers) << where;
    EXPECT_EQ(k.frame_bytes, e.frame) << where;
    EXPECT_EQ(k.max_threads, e.threads) << where;
    EXPECT_EQ(k.max_register_count, e.max_registers) << where;
    EXPECT_EQ(k.shared_bytes, e.shared) << where;
    EXPECT_EQ(k.param_base, e.param_base) << where;
    EXPECT_EQ(k.param_bytes, e.param_bytes) << where;
    EXPECT_TRUE(k.unknown_payload_attributes.empty()) << where;
  }
}

TEST(KernelInfo, Parameters) {
  const KernelInfo k = info_of(image_of("sm_90/plain"), "scale");
  ASSERT_EQ(k.params.size(), 3u);
  const std::vector<std::vector<uint32_t>> want{{0, 0, 8}, {1, 8, 4}, {2, 12, 4}};
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ((std::vector<uint32_t>{k.params[i].ordinal, k.params[i].offset, k.params[i].size}), want[i]);
}

TEST(KernelInfo, FunctionsAndBanks) {
  const Image image = image_of("sm_90/jump_table");
  const KernelInfo k = info_of(image, "jump_table");
  ASSERT_EQ(k.functions.size(), 2u);
  EXPECT_EQ(k.functions[0].name, "$__internal_0_$__cuda_sm20_sqrt_rn_f32_slowpath");
  EXPECT_EQ(k.functions[0].offset, 0x11f0u);
  EXPECT_EQ(k.functions[0].size, 368u);
  EXPECT_EQ(k.functions[1].offset, 0x1360u);
  EXPECT_EQ(k.constant_sections.size(), 2u);
  EXPECT_EQ(image.sections()[k.constant_sections.at(2)].name, ".nv.constant2.jump_table");
  EXPECT_EQ(image.sections()[k.constant_sections.at(0)].name, ".nv.constant0.jump_table");
  const Image variables = image_of("sm_90/variables");
  const KernelInfo v = info_of(variables, "variables");
  EXPECT_EQ(variables.sections()[v.constant_sections.at(3)].name, ".nv.constant3");
  EXPECT_EQ(variables.sections()[v.constant_sections.at(4)].name, ".nv.constant4");
}

TEST(KernelInfo, IndirectBranches) {
  const KernelInfo k = info_of(image_of("sm_90/jump_table"), "jump_table");
  ASSERT_EQ(k.indirect_branches.size(), 3u);
  EXPECT_EQ(k.indirect_branches[1].instruction, 0x3b0u);
  EXPECT_THAT(k.indirect_branches[1].targets, ElementsAre(0x420, 0x3c0, 0x10f0));
}

TEST(KernelInfo, MissingKernel) {
  const auto k = kernel_info(image_of("sm_90/plain"), "nothing");
  ASSERT_FALSE(k.has_value());
  EXPECT_THAT(k.error().message, HasSubstr("it has scale, block_sum"));
}

TEST(RegisterCount, OnNewCubinsTheRecordAlone) {
  Image image = image_of("sm_90/plain");
  const KernelInfo k = info_of(image, "scale");
  const uint32_t info = image.sections()[k.text_section].info;
  ASSERT_TRUE(set_register_count(image, k, 33).has_value());
  EXPECT_EQ(image.sections()[k.text_section].info, info);
  const Image again = parsed(*image.write());
  EXPECT_EQ(info_of(again, "scale").register_count, 33u);
  EXPECT_EQ(info_of(again, "block_sum").register_count, 12u);
}

TEST(RegisterCount, OnOldCubinsAlsoTheSectionHeader) {
  Image image = image_of("sm_80/plain");
  const KernelInfo k = info_of(image, "scale");
  ASSERT_EQ(image.sections()[k.text_section].info, 0x0800000bu);
  ASSERT_TRUE(set_register_count(image, k, 40).has_value());
  const Image again = parsed(*image.write());
  EXPECT_EQ(again.sections()[k.text_section].info, 0x2800000bu);
  EXPECT_EQ(info_of(again, "scale").register_count, 40u);
  EXPECT_EQ(info_of(again, "block_sum").register_count, 10u);
}

TEST(RegisterCount, RefusesWhatNoThreadHas) {
  Image image = image_of("sm_80/plain");
  const KernelInfo k = info_of(image, "scale");
  const auto status = set_register_count(image, k, 256);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(*image.write(), fixture("sm_80/plain"));
}

TEST(Eiattr, LayoutsOfTheOffsetLists) {
  using P = Eiattr::Payload;
  const std::pair<uint8_t, P> rows[] = {
      {0x1c, P::offsets}, {0x28, P::offsets},        {0x29, P::per_coop_group}, {0x2e, P::first_of_2},
      {0x31, P::offsets}, {0x34, P::branch_targets}, {0x39, P::first_of_4},     {0x44, P::first_of_2},
      {0x46, P::offsets}, {0x55, P::second_of_2},    {0x2f, P::no_offsets},     {0x5a, P::unknown},
  };
  for (const auto& [code, payload] : rows) {
    ASSERT_NE(find_eiattr(code), nullptr);
    EXPECT_EQ(find_eiattr(code)->payload, payload) << unsigned{code};
  }
  EXPECT_EQ(find_eiattr(0xf0), nullptr);
  EXPECT_FALSE(is_movable(0xf0));
  EXPECT_FALSE(is_movable(0x5a));
  EXPECT_FALSE(is_movable(0x03));
  EXPECT_TRUE(is_movable(0x1c));
}

}  // namespace
}  // namespace xtrace::cubin
