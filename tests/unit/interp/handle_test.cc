// Constants through a handle, cx[UR][..]: address / 64 in a pair of uniform registers, the size / 16 from bit 51.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/interp/machine.h"

namespace xtrace::interp_test {
namespace {

constexpr uint64_t address = 0x7f1200000040;

struct WithHandle : testing::Test {
  WithHandle() {
    for (size_t k = 0; k < words.size(); ++k) words[k] = 0x40000000 + static_cast<uint32_t>(k) * 0x00100000;  // 2.0, 2.25, 2.5, ...
    EXPECT_TRUE(m.memory.add(address, std::as_writable_bytes(std::span(words)), "constants"));
    point(8, address, 64);
    point(4, address, 64);
    m.set(8, 0x3f800000);
  }
  void point(unsigned ur, uint64_t at, uint64_t bytes) {
    const uint64_t handle = at >> 6 | bytes >> 4 << 51;
    m.set_ur(ur, static_cast<uint32_t>(handle));
    m.set_ur(ur + 1, static_cast<uint32_t>(handle >> 32));
  }
  std::array<uint32_t, 32> words{};
  Machine m;
};

TEST_F(WithHandle, Operands) {
  EXPECT_EQ(m.run(0x0000000808287621, 0x000fe20008000000, "FADD R40, R8, cx[UR8][0x0]"), "");
  EXPECT_EQ(m.r(40)[31], 0x40400000u) << "1 + 2";
  EXPECT_EQ(m.run(0x8000020808287621, 0x000fe20008000000, "FADD R40, R8, -cx[UR8][0x8]"), "");
  EXPECT_EQ(m.r(40)[0], 0xbfc00000u) << "1 - 2.5";
  words[0] = 0;  // of the double 2.0
  m.set(8, 0), m.set(9, 0x3ff00000);
  words[1] = 0x40000000;
  EXPECT_EQ(m.run(0x0000000808287629, 0x000fe20008000000, "DADD R40, R8, cx[UR8][0x0]"), "");
  EXPECT_EQ(m.r(40)[5], 0u);
  EXPECT_EQ(m.r(41)[5], 0x40080000u) << "1 + 2";
}

TEST_F(WithHandle, Loads) {
  m.set_each(32, [](unsigned l) { return l % 4 * 8; });
  EXPECT_EQ(m.run(0x0000040004287582, 0x000fe20008000a20, "LDC.64 R40, cx[UR4][R32+0x10]"), "");
  EXPECT_EQ(m.r(40)[1], words[6]);
  EXPECT_EQ(m.r(41)[3], words[11]);
  EXPECT_EQ(m.run(0x0000040004147ab9, 0x000fe20008000800, "ULDC UR20, cx[UR4][0x10]"), "");
  EXPECT_EQ(m.ur(20)[0], words[4]);
}

TEST_F(WithHandle, ReadsOutsideAreNamed) {
  m.set(32, 64);
  EXPECT_EQ(m.run(0x0000040004287582, 0x000fe20008000820, "LDC R40, cx[UR4][R32+0x10]"),
            "a read of 4 bytes at 0x50 of the constants that handle 0x2001fc48000001 describes (0x40 bytes at 0x7f1200000040)");
  point(8, address + 0x1000, 64);
  EXPECT_NE(m.run(0x0000000808287621, 0x000fe20008000000).find("outside recorded memory"), std::string::npos);
}

// The same operation of registers and constant banks is understood; through a handle the H200 gave something else.
TEST_F(WithHandle, DoublesToIntegersAreRefused) {
  EXPECT_EQ(m.run(0x0000000800287b13, 0x000fe20008305800, "FRND.F64.FLOOR R40, cx[UR8][0x0]"),
            "not implemented: a double through a handle");
}

}  // namespace
}  // namespace xtrace::interp_test
