// Instructions in which lanes, or threads of a CTA, or memory and lanes work together: MATCH, BAR.RED,
// atomics, copies and matrices. What is expected is computed here from the definitions of the PTX ISA.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "replay/interp/special.h"
#include "tests/unit/interp/machine.h"

namespace xtrace::interp_test {
namespace {

constexpr uint64_t base = 0x700000001000;

struct Memory {
  Memory() { EXPECT_TRUE(m.memory.add(base, bytes, "device region 0")); }
  template <typename T>
  T get(size_t at) {
    return *read_at<T>(bytes, at, "word");
  }
  template <typename T>
  void put(size_t at, T v) {
    write_at<T>(std::span(bytes), at, v);
  }
  void point(unsigned r, uint64_t address) {
    m.set(r, static_cast<uint32_t>(address));
    m.set(r + 1, static_cast<uint32_t>(address >> 32));
  }
  Bytes bytes = Bytes(1024);
  Machine m;
};

TEST(WarpWide, Match) {
  Machine m;
  m.set(6, 5);
  m.set_each(7, [](unsigned l) { return l / 16; });
  m.set_each(0, [](unsigned) { return 3; });
  EXPECT_EQ(m.run(0x00000000060d73a1, 0x00057000000e8200, "MATCH.ANY.U64 R13, R6"), "");
  EXPECT_EQ(m.r(13)[3], 0x0000ffffu);
  EXPECT_EQ(m.r(13)[30], 0xffff0000u);
  EXPECT_EQ(m.run(0x00000000061173a1, 0x0005220000020200, "MATCH.ALL.U64 P1, R17, R6"), "");
  EXPECT_EQ(m.p(1), 0u);
  EXPECT_EQ(m.r(17)[4], 0u);
  m.warp.paths[0].mask = 0xff;
  EXPECT_EQ(m.run(0x00000000061173a1, 0x0005220000020200), "");
  EXPECT_EQ(m.p(1), 0xffu) << "only the lanes that take part";
  EXPECT_EQ(m.r(17)[4], 0xffu);
  EXPECT_EQ(m.run(0x00000000000f73a1, 0x000ea20000000000, "MATCH.ALL P0, R15, R0"), "");
  EXPECT_EQ(m.r(15)[0], 0xffu);
}

// One warp alone in its CTA: the barrier is complete at once.
TEST(WarpWide, BarrierReductions) {
  Machine m;
  m.cta.warps.push_back(m.warp);
  const auto run = [&](uint64_t lo, uint64_t hi, const char* text) {
    // The warp of the machine is the one of the CTA.
    std::swap(m.warp, m.cta.warps[0]);
    interp::Warp& w = m.cta.warps[0];
    m.program.words = {{lo, hi}};
    EXPECT_EQ(sass::print(*m.program.arch, m.program.words[0], 0), text);
    m.program.insts.clear();
    m.program.problems.clear();
    interp::decode_words(m.program);
    const interp::Inst& i = m.program.insts[0];
    interp::Step s;
    s.warp = &w;
    s.cta = &m.cta;
    s.program = &m.program;
    s.regs = w.rows.data();
    s.pool = m.program.pool.data();
    s.mask = s.active = ~0u;
    i.exec(s, i);
    std::swap(m.warp, m.cta.warps[0]);
    return s.faulted ? s.fault.message : "";
  };
  m.p(3) = 0x1f;
  m.p(0) = 0xfffffffe;
  EXPECT_EQ(run(0x0000000000007b1d, 0x000fec0001814000, "BAR.RED.POPC.DEFER_BLOCKING 0x0, P3"), "");
  EXPECT_EQ(run(0x00000000000b731c, 0x000e2800000e4000, "B2R.RESULT R11"), "");
  EXPECT_EQ(m.r(11)[7], 5u);
  EXPECT_EQ(run(0x0000000000007b1d, 0x000fec0000014800, "BAR.RED.OR.DEFER_BLOCKING 0x0, P0"), "");
  EXPECT_EQ(run(0x0000000000ff731c, 0x000e240000024000, "B2R.RESULT RZ, P1"), "");
  EXPECT_EQ(m.p(1), ~0u);
  EXPECT_EQ(run(0x0000000000007b1d, 0x000fec0000014400, "BAR.RED.AND.DEFER_BLOCKING 0x0, P0"), "");
  EXPECT_EQ(run(0x0000000000ff731c, 0x000e240000004000, "B2R.RESULT RZ, P0"), "");
  EXPECT_EQ(m.p(0), 0u) << "lane 0 says no";
  m.p(0) = ~0u;
  EXPECT_EQ(run(0x0000000000007b1d, 0x000fec0000014400, "BAR.RED.AND.DEFER_BLOCKING 0x0, P0"), "");
  EXPECT_EQ(run(0x0000000000ff731c, 0x000e240000024000, "B2R.RESULT RZ, P1"), "");
  EXPECT_EQ(m.p(1), ~0u) << "all say yes";
  EXPECT_NE(run(0x00000000000b731c, 0x000e2800000e4000, "B2R.RESULT R11"), "") << "AND has no count";
}

TEST(WarpWide, FloatAtomics) {
  Memory t;
  Machine& m = t.m;
  m.set_ur(8, 0x12345);
  t.point(14, base + 8);
  t.put(8, 0.25f);
  m.set(25, std::bit_cast<uint32_t>(0.5f));
  EXPECT_EQ(m.run(0x000000190e0079a6, 0x0085e8000c10f388,
                  "REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR8][R14.64], R25"),
            "");
  EXPECT_EQ(t.get<float>(8), 16.25f);
  t.point(16, base + 16);
  t.put(16, 1.0);
  m.set(6, 0);
  m.set(7, 0x3ff00000);
  EXPECT_EQ(
      m.run(0x00000006100079a6, 0x0205e8000c10ff88, "REDG.E.ADD.F64.RN.STRONG.GPU desc[UR8][R16.64], R6"),
      "");
  EXPECT_EQ(t.get<double>(16), 33.0);
  // Packed halves through a generic address: the lanes whose address is global do it and say so.
  t.point(4, base + 32);
  t.put<uint32_t>(32, 0x3c000000);
  m.set(11, 0x40003c00);  // 2, 1
  EXPECT_EQ(m.run(0x0000000b04ff79a2, 0x0081e4000810e1c8,
                  "ATOM.E.ADD.F16x2.RN.STRONG.GPU P0, RZ, desc[UR8][R4.64], R11"),
            "");
  EXPECT_EQ(m.p(0), ~0u);
  EXPECT_EQ(t.get<uint32_t>(32), 0x54105000u) << "1 + 32 * 2 = 65, 32";
  t.point(4, interp::shared_window + 32);
  m.r(4)[3] = static_cast<uint32_t>(base + 36);
  m.r(5)[3] = static_cast<uint32_t>(base >> 32);
  EXPECT_EQ(m.run(0x0000000b04ff79a2, 0x0081e4000810e1c8), "");
  EXPECT_EQ(m.p(0), 8u);
  EXPECT_EQ(t.get<uint32_t>(36), 0x40003c00u);
  EXPECT_EQ(*read_at<uint32_t>(m.cta.shared, 32, "word"), 0u) << "left to the code behind it";
  EXPECT_EQ(m.run(0x0000000004ff73aa, 0x000e240000000500, "QSPC.E.S P0, RZ, [R4]"), "");
  EXPECT_EQ(m.p(0), ~8u);
  m.warp.paths[0].mask = 8;
  EXPECT_EQ(m.run(0x0000000004ff73aa, 0x000e240000000700, "QSPC.E.D P0, RZ, [R4]"), "");
  EXPECT_EQ(m.p(0), ~8u) << "global memory is not distributed shared memory";
  m.reset_path();
  EXPECT_NE(m.run(0x0000000004ff73aa, 0x000e240000000700), "");
  t.point(2, base + 40);
  m.set(5, 0xbf803f80);  // bfloat16 -1, 1
  m.warp.paths[0].mask = 3;
  EXPECT_EQ(m.run(0x0000000502ff79a2, 0x0041e4000810e7c8,
                  "ATOM.E.ADD.BF16x2.RN.STRONG.GPU P0, RZ, desc[UR8][R2.64], R5"),
            "");
  EXPECT_EQ(t.get<uint32_t>(40), 0xc0004000u);
}

// Compare, swap and test: 1 in the lane that swapped. Lanes of one address swap one after the other.
TEST(WarpWide, CompareSwapAndTest) {
  Memory t;
  Machine& m = t.m;
  m.set(6, 64);
  m.set(10, 0);
  m.set(11, 7);
  EXPECT_EQ(m.run(0x0000000a060b738d, 0x000e24000180000b, "ATOMS.CAST.SPIN R11, [R6], R10, R11"), "");
  EXPECT_EQ(*read_at<uint32_t>(m.cta.shared, 64, "word"), 7u);
  EXPECT_EQ(m.r(11)[0], 1u);
  for (unsigned l = 1; l < 32; ++l) EXPECT_NE(m.r(11)[l], 1u);
  t.point(8, base + 128);
  t.put<uint64_t>(128, 0x100000002);
  m.set(12, 2);
  m.set(13, 1);
  m.set(14, 5);
  m.set(15, 6);
  // ATOM.E.CAST.SPIN.64 PT, R14, [R8], R12, R14
  EXPECT_EQ(m.run(0x0000000c080e738b, 0x000ea400019e050e), "");
  EXPECT_EQ(t.get<uint64_t>(128), 0x600000005u);
  EXPECT_EQ(m.r(14)[0], 1u);
  EXPECT_EQ(m.r(15)[0], 0u);
  EXPECT_NE(m.r(14)[1], 1u);
}

TEST(WarpWide, AsynchronousCopies) {
  Memory t;
  Machine& m = t.m;
  for (size_t k = 0; k < t.bytes.size(); ++k) t.bytes[k] = std::byte(k * 7);
  m.set_each(25, [](unsigned l) { return 16 * (31 - l); });
  m.set_each(2, [](unsigned l) { return static_cast<uint32_t>(base) + 16 * l; });
  m.set(3, static_cast<uint32_t>(base >> 32));
  m.set_ur(6, 0x999);
  EXPECT_EQ(m.run(0x0000000002197fae, 0x000fe2000b901c46, "LDGSTS.E.BYPASS.128 [R25], desc[UR6][R2.64]"), "");
  for (unsigned k = 0; k < 512; ++k)
    EXPECT_EQ(m.cta.shared[k], t.bytes[16 * (31 - k / 16) + k % 16]) << "byte " << k;
  std::fill(m.cta.shared.begin(), m.cta.shared.end(), std::byte{0});
  m.set(9, 0);
  m.set_each(4, [](unsigned l) { return static_cast<uint32_t>(base) + 4 * l; });
  m.set(5, static_cast<uint32_t>(base >> 32));
  m.warp.paths[0].mask = 1;
  m.cta.shared.resize(2048);
  EXPECT_EQ(m.run(0x0040002404097fae, 0x000fe8000b921846, "LDGSTS.E [R9+0x400], desc[UR6][R4.64+0x24]"), "");
  for (unsigned k = 0; k < 4; ++k) EXPECT_EQ(m.cta.shared[0x400 + k], t.bytes[0x24 + k]);
  EXPECT_EQ(m.cta.shared[0x404], std::byte{0});
  m.set(9, 2048);
  EXPECT_NE(m.run(0x0040002404097fae, 0x000fe8000b921846).find("shared memory"), std::string::npos);
}

// Element (row, column) of matrix k is 1000 k + 8 row + column, stored row by row.
TEST(WarpWide, MatricesInSharedMemory) {
  Machine m;
  for (unsigned e = 0; e < 256; ++e)
    write_at<uint16_t>(std::span(m.cta.shared), 2 * e, static_cast<uint16_t>(1000 * (e / 64) + e % 64));
  m.set_each(25, [](unsigned l) { return 16 * l; });
  const auto want = [](unsigned matrix, unsigned l, bool transposed) {
    const unsigned a = l / 4, b = 2 * (l % 4);
    const unsigned e0 = transposed ? 8 * b + a : 8 * a + b, e1 = transposed ? 8 * (b + 1) + a : 8 * a + b + 1;
    return (1000 * matrix + e0) | (1000 * matrix + e1) << 16;
  };
  EXPECT_EQ(m.run(0x000000001914783b, 0x000f280000000200, "LDSM.16.M88.4 R20, [R25]"), "");
  EXPECT_EQ(m.run(0x000000001904783b, 0x002e680000004200, "LDSM.16.MT88.4 R4, [R25]"), "");
  EXPECT_EQ(m.run(0x000000001902783b, 0x000ea80000000100, "LDSM.16.M88.2 R2, [R25]"), "");
  for (unsigned l = 0; l < 32; ++l)
    for (unsigned k = 0; k < 4; ++k) {
      EXPECT_EQ(m.r(20 + k)[l], want(k, l, false));
      EXPECT_EQ(m.r(4 + k)[l], want(k, l, true));
      if (k < 2) {
        EXPECT_EQ(m.r(2 + k)[l], want(k, l, false));
      }
    }
  // And back: transposed twice is as before.
  const std::vector<std::byte> before = m.cta.shared;
  std::fill(m.cta.shared.begin(), m.cta.shared.end(), std::byte{0});
  for (unsigned k = 0; k < 4; ++k) m.set_each(16 + k, [&](unsigned l) { return want(k, l, false); });
  EXPECT_EQ(m.run(0x0000001019007844, 0x000fe20000000200, "STSM.16.M88.4 [R25], R16"), "");
  EXPECT_EQ(m.cta.shared, before);
  std::fill(m.cta.shared.begin(), m.cta.shared.end(), std::byte{0});
  for (unsigned k = 0; k < 2; ++k) m.set_each(2 + k, [&](unsigned l) { return want(k, l, true); });
  EXPECT_EQ(m.run(0x0000000219007844, 0x000fe80000004100, "STSM.16.MT88.2 [R25], R2"), "");
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 256, m.cta.shared.begin()));
  EXPECT_EQ(m.cta.shared[256], std::byte{0}) << "two matrices only";
  m.set(25, 8);
  EXPECT_NE(m.run(0x000000001902783b, 0x000ea80000000100).find("misaligned"), std::string::npos);
}

// D = A B + C by its definition, with the fragments of the PTX ISA.
TEST(WarpWide, ProductsOfBytes) {
  struct Shape {
    uint64_t lo, hi;
    const char* text;
    unsigned rows, depth, a, b, c;  // sizes of the matrices, first registers
    bool a_signed, b_signed;
  };
  const Shape shapes[] = {
      {0x0000000804107237, 0x000fe2000040040c, "IMMA.16816.U8.U8 R16, R4.ROW, R8.COL, R12", 16, 16, 4, 8, 12,
       false, false},
      {0x00000008040c7237, 0x008fe20000401c0c, "IMMA.16832.S8.U8 R12, R4.ROW, R8.COL, R12", 16, 32, 4, 8, 12,
       true, false},
      {0x00000008040c7237, 0x004fdc000004540a, "IMMA.8816.S8.S8.SAT R12, R4.ROW, R8.COL, R10", 8, 16, 4, 8,
       10, true, true},
  };
  std::mt19937 random(11);
  for (const Shape& s : shapes) {
    Machine m;
    std::vector<std::vector<int>> a(s.rows, std::vector<int>(s.depth)), b(s.depth, std::vector<int>(8)),
        c(s.rows, std::vector<int>(8));
    const auto byte = [&](bool is_signed) {
      return static_cast<int>(random() % 256) - (is_signed ? 128 : 0);
    };
    for (auto& row : a)
      for (int& v : row) v = byte(s.a_signed);
    for (auto& row : b)
      for (int& v : row) v = byte(s.b_signed);
    for (auto& row : c)
      for (int& v : row) v = static_cast<int>(random() >> 4);
    for (unsigned l = 0; l < 32; ++l) {
      const unsigned group = l >> 2, in_group = l % 4;
      for (unsigned i = 0; i < s.rows * s.depth / 32; ++i) {  // [PTX ISA] element i of fragment A
        const unsigned row = group + (i / 4 % 2 != 0 && s.rows == 16 ? 8 : 0);
        const unsigned column = in_group * 4 + i % 4 + (i >= 8 ? 16 : 0);
        m.r(s.a + i / 4)[l] |= static_cast<uint32_t>(a[row][column] & 0xff) << 8 * (i % 4);
      }
      for (unsigned i = 0; i < s.depth * 8 / 32; ++i)
        m.r(s.b + i / 4)[l] |=
            static_cast<uint32_t>(b[in_group * 4 + i % 4 + (i >= 4 ? 16 : 0)][group] & 0xff) << 8 * (i % 4);
      for (unsigned i = 0; i < s.rows / 4; ++i)
        m.r(s.c + i)[l] = static_cast<uint32_t>(c[group + (i >= 2 ? 8 : 0)][in_group * 2 + i % 2]);
    }
    EXPECT_EQ(m.run(s.lo, s.hi, s.text), "");
    const unsigned d = static_cast<unsigned>(s.lo >> 16 & 0xff);
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned i = 0; i < s.rows / 4; ++i) {
        const unsigned row = l / 4 + (i >= 2 ? 8 : 0), column = l % 4 * 2 + i % 2;
        int sum = c[row][column];
        for (unsigned k = 0; k < s.depth; ++k) sum += a[row][k] * b[k][column];
        EXPECT_EQ(m.r(d + i)[l], static_cast<uint32_t>(sum)) << s.text << " lane " << l << " element " << i;
      }
  }
  Machine m;
  m.set(4, 0x01010101);
  m.set(8, 0x01010101);
  m.set(10, 0x7fffffff);
  EXPECT_NE(m.run(0x00000008040c7237, 0x004fdc000004540a).find("limits"), std::string::npos);
}

}  // namespace
}  // namespace xtrace::interp_test
