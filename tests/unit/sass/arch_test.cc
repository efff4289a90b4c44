#include "instrument/sass/arch.h"

#include <gtest/gtest.h>

#include <set>

namespace xtrace::sass {
namespace {

TEST(Arch, KnowsTenArchitecturesOnce) {
  std::set<unsigned> sms;
  for (const Arch& a : all_archs()) {
    sms.insert(a.sm);
    EXPECT_EQ(a.name, "sm_" + std::to_string(a.sm));
    const auto found = find_arch(a.sm);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found, &a);
  }
  EXPECT_EQ(sms, (std::set<unsigned>{75, 80, 86, 87, 89, 90, 100, 103, 120, 121}));
}

TEST(Arch, RefusesAnUnknownOneByName) {
  const auto found = find_arch(70);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().kind, ErrorKind::unsupported);
  EXPECT_NE(found.error().message.find("sm_70"), std::string::npos);
  EXPECT_NE(found.error().hint.find("sm_90"), std::string::npos);
}

TEST(Arch, FactsThatDiffer) {
  const Arch& a80 = **find_arch(80);
  const Arch& a90 = **find_arch(90);
  const Arch& a100 = **find_arch(100);
  EXPECT_FALSE(a80.branch_low_byte);
  EXPECT_TRUE(a80.regcount_in_sh_info);
  EXPECT_EQ(a80.bank0_params, 0x160);
  EXPECT_TRUE(a90.branch_low_byte);
  EXPECT_FALSE(a90.regcount_in_sh_info);
  EXPECT_EQ(a90.bank0_params, 0x210);
  EXPECT_EQ(a90.urz, 63);
  EXPECT_EQ(a90.bank0_grid_dim, 0xc);
  EXPECT_EQ(a100.ur_bits, 8);
  EXPECT_EQ(a100.urz, 255);
  EXPECT_EQ(a100.bank0_block_dim, 0x360);
  EXPECT_EQ(a100.bank0_grid_dim, 0x370);
  EXPECT_EQ(a100.bank0_params, 0x380);
}

}  // namespace
}  // namespace xtrace::sass
