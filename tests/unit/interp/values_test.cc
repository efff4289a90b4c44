// Operations as functions of values, where single words say too little: rounding, half precision, tensor-core
// sums.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <random>

#include "replay/interp/value/atomic.h"
#include "replay/interp/value/float.h"
#include "replay/interp/value/integer.h"
#include "replay/interp/value/mma.h"
#include "replay/interp/value/mufu.h"

namespace xtrace::interp_test {
namespace {

using namespace replay::interp::value;

TEST(Values, Lop3IsItsTruthTable) {
  for (uint32_t lut = 0; lut < 256; ++lut) EXPECT_EQ(lop3(0xf0, 0xcc, 0xaa, lut) & 0xff, lut);
}

TEST(Values, Shifts) {
  // A funnel against 128-bit arithmetic, amounts beyond the width included.
  std::mt19937 random(1);
  for (int k = 0; k < 2000; ++k) {
    const uint32_t a = random(), c = random(), n = random() % 80;
    const uint64_t v = uint64_t{c} << 32 | a;
    const uint32_t n32 = std::min(n, 32u), n64 = std::min(n, 64u);
    const auto left = [&](uint32_t s) {
      return static_cast<uint64_t>(static_cast<unsigned __int128>(v) << s);
    };
    const auto right = [&](uint32_t s) {
      return static_cast<uint64_t>(static_cast<unsigned __int128>(v) >> s);
    };
    EXPECT_EQ(shf(a, n, c, {false, false, false, false, false}), static_cast<uint32_t>(left(n32)));
    EXPECT_EQ(shf(a, n, c, {false, true, false, true, false}), left(n64) >> 32);
    EXPECT_EQ(shf(a, n, c, {true, false, false, true, false}), static_cast<uint32_t>(right(n64)));
    EXPECT_EQ(shf(a, n, c, {true, true, false, false, true}),
              static_cast<uint32_t>(static_cast<int32_t>(c) >> std::min(n, 31u)));
    EXPECT_EQ(shf(a, n, a, {false, true, true, false, false}), std::rotl(a, static_cast<int>(n % 32)));
  }
}

TEST(Values, IntegersToFloatsInEveryRounding) {
  std::mt19937 random(2);
  constexpr int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
  for (int mode = 0; mode < 4; ++mode) {
    std::fesetround(modes[mode]);
    for (int k = 0; k < 2000; ++k) {
      volatile uint32_t v = random() >> random() % 32;
      volatile auto s = static_cast<int32_t>(v);
      volatile float want = static_cast<float>(v), want_signed = static_cast<float>(s);
      const auto r = static_cast<Rounding>(mode);
      const bool negative = s < 0;
      ASSERT_EQ(i2f32(v, false, r), bits32(want)) << v << " mode " << mode;
      ASSERT_EQ(i2f32(negative ? 0u - v : uint32_t{v}, negative, r), bits32(want_signed))
          << s << " mode " << mode;
    }
    std::fesetround(FE_TONEAREST);
  }
}

TEST(Values, FloatsToIntegersClamp) {
  EXPECT_EQ(f2i(2.5, 32, true, Rounding::nearest), 2u);
  EXPECT_EQ(f2i(-2.5, 32, true, Rounding::down), 0xfffffffdu);
  EXPECT_EQ(f2i(-2.5, 32, true, Rounding::up), 0xfffffffeu);
  EXPECT_EQ(f2i(3e9, 32, true, Rounding::zero), 0x7fffffffu);
  EXPECT_EQ(f2i(-3e9, 32, true, Rounding::zero), 0x80000000u);
  EXPECT_EQ(f2i(3e9, 32, false, Rounding::zero), 3000000000u);
  EXPECT_EQ(f2i(-1, 32, false, Rounding::zero), 0u);
  EXPECT_EQ(f2i(1e30, 32, false, Rounding::zero), 0xffffffffu);
}

TEST(Values, HalvesRoundOnce) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const auto v = static_cast<uint16_t>(h);
    const bool nan = (v & 0x7fff) > 0x7c00;
    ASSERT_EQ(double_to_half(half_to_double(v)), nan ? nan16 : v) << std::hex << h;
  }
  EXPECT_EQ(double_to_half(65519.99), 0x7bff);
  EXPECT_EQ(double_to_half(65520), 0x7c00);
  EXPECT_EQ(double_to_half(0x1p-25), 0) << "halfway to the smallest: to even";
  EXPECT_EQ(double_to_half(0x1.8p-25), 1);
  EXPECT_EQ(double_to_half(2049), 0x6800) << "tie to even";
  EXPECT_EQ(double_to_half(2051), 0x6802);
  // 3 * 683 = 2049 is a tie; a bit far below it decides.
  EXPECT_EQ(hfma(0x4200, 0x6156, 0x0000), 0x6800);
  EXPECT_EQ(hfma(0x4200, 0x6156, 0x0001), 0x6801);
  EXPECT_EQ(hfma(0x4200, 0x6156, 0x8001), 0x6800);
  EXPECT_EQ(hfma(0x7800, 0x7800, 0x0001), 0x7c00);
  EXPECT_EQ(hfma(0x3c00, 0x3c00, 0x1000), 0x3c00) << "1 + 2^-11 = tie to even";
  EXPECT_EQ(hfma(0x3c00, 0x3c00, 0x1001), 0x3c01);
  EXPECT_EQ(hfma(0x7c00, 0x0000, 0x3c00), nan16);
  EXPECT_EQ(hadd(0x3c00, 0xbc00), 0x0000);
  EXPECT_EQ(hmul(0x3e00, 0x4000), 0x4200);
}

TEST(Values, DoublesInEveryRounding) {
  EXPECT_EQ(dmul(1 + 0x1p-52, 1 + 0x1p-52, Rounding::nearest), 1 + 0x1p-51);
  EXPECT_EQ(dmul(1 + 0x1p-52, 1 + 0x1p-52, Rounding::up), 1 + 0x1p-51 + 0x1p-52);
  EXPECT_EQ(dadd(1, 0x1p-60, Rounding::up), 1 + 0x1p-52);
  EXPECT_EQ(dadd(1, -0x1p-60, Rounding::down), 1 - 0x1p-53);
  EXPECT_EQ(dadd(1, -0x1p-60, Rounding::zero), 1 - 0x1p-53);
  EXPECT_EQ(dfma(1, 1, 0x1p-60, Rounding::up), 1 + 0x1p-52);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST) << "the mode is put back";
}

TEST(Values, MinimaAndComparisons) {
  EXPECT_EQ(fmnmx(0x80000000, 0, true), 0x80000000u) << "-0 < +0";
  EXPECT_EQ(fmnmx(0, 0x80000000, true), 0x80000000u);
  EXPECT_EQ(fmnmx(0x80000000, 0, false), 0u);
  EXPECT_EQ(fmnmx(0x7fc00001, 0x3f800000, true), 0x3f800000u);
  EXPECT_EQ(fmnmx(0x7fc00001, 0xffc00000, true), nan32);
  const double nan = std::nan("");
  for (unsigned code = 0; code < 16; ++code) {
    EXPECT_EQ(fcompare(code, 1.0, 2.0), (code & 1) != 0);
    EXPECT_EQ(fcompare(code, 2.0, 2.0), (code & 2) != 0);
    EXPECT_EQ(fcompare(code, 3.0, 2.0), (code & 4) != 0);
    EXPECT_EQ(fcompare(code, nan, 2.0), (code & 8) != 0);
  }
}

// 1 + sixteen equal products of 2^-e.
uint32_t one_and(int e, bool negative = false) {
  std::array<uint16_t, 16> a, b;
  const auto half = [](int exponent) { return static_cast<uint16_t>((exponent + 15) << 10); };
  a.fill(static_cast<uint16_t>(half(-13) | (negative ? 0x8000 : 0)));
  b.fill(half(13 - e));
  return hmma_f32(a, b, 0x3f800000);
}
TEST(Values, TensorCoreSumsAreCutOff25BitsBelowTheLargest) {
  EXPECT_EQ(one_and(24), 0x3f800008u) << "16 * 2^-24 = 2^-20";
  EXPECT_EQ(one_and(25), 0x3f800004u) << "the last bit that counts";
  EXPECT_EQ(one_and(26), 0x3f800000u) << "each one is cut off before they are added";
  EXPECT_EQ(one_and(25, true), 0x3f7ffff8u);
  std::array<uint16_t, 16> a{}, b{};
  a[3] = 0x8400;  // -2^-14
  b[3] = 0x1000;  // 2^-11
  EXPECT_EQ(hmma_f32(a, b, 0x3f800000), 0x3f7fffffu) << "1 - 2^-25, cut off toward zero";
  EXPECT_EQ(hmma_f32(a, b, 0), 0xb3000000u);
  a[3] = 0x0001;  // subnormal factors are exact
  b[3] = 0x0001;
  EXPECT_EQ(hmma_f32(a, b, 0), 0x27800000u) << "2^-48";
  a[3] = 0x7c00;
  EXPECT_EQ(hmma_f32(a, b, 0), 0x7f800000u);
  EXPECT_EQ(hmma_f32(a, b, 0xff800000), 0x7fffffffu) << "infinities of both signs";
  EXPECT_EQ(hmma_f32(std::array<uint16_t, 16>{}, b, 0x00000001), 1u) << "a subnormal sum";
}

// Results of an H200 [2026-11-29].
TEST(Values, SpecialFunctions) {
  EXPECT_EQ(mufu_rcp(0x40400000), 0x3eaaaaabu);
  EXPECT_EQ(mufu_rcp(0x869074b7), 0xf862d65eu);
  EXPECT_EQ(mufu_rcp(0x770fdda3), 0x07e3c493u);
  EXPECT_EQ(mufu_rcp(0), 0x7f800000u);
  EXPECT_EQ(mufu_rcp(0x80258e97), 0xff800000u) << "subnormal operands are zero";
  EXPECT_EQ(mufu_rcp(0x7f000001), 0u) << "subnormal results too";
  EXPECT_EQ(mufu_rcp(0xff800000), 0x80000000u);
  EXPECT_EQ(mufu_rcp(0xffc00001), 0x7fffffffu);
  EXPECT_EQ(mufu_rsq(0x62aa6c41), 0x2ddddc6cu);
  EXPECT_EQ(mufu_rsq(0x3fc04248), 0x3f50e1e1u);
  EXPECT_EQ(mufu_rsq(0xc0a9f37b), 0x7fffffffu);
  EXPECT_EQ(mufu_rsq(0x00258e97), 0x7f800000u);
  EXPECT_EQ(mufu_ex2(0xbf000000), 0x3f3504f2u);
  EXPECT_EQ(mufu_ex2(0xbc600000), 0x3f7d95deu);
  EXPECT_EQ(mufu_ex2(0x3eefba6e), 0x3fb11347u);
  EXPECT_EQ(mufu_ex2(0xc1500000), 0x39000000u);
  EXPECT_EQ(mufu_ex2(0x43000000), 0x7f800000u);
  EXPECT_EQ(mufu_ex2(0x869074b7), 0x3f800000u);
  EXPECT_EQ(mufu_ex2(0xff800000), 0u);
  EXPECT_EQ(mufu_sqrt(0x80000001), 0x80000000u);
  EXPECT_EQ(mufu_sqrt(0x007fffff), 0u) << "subnormal operands are zero";
  EXPECT_EQ(mufu_sqrt(0x00800000), 0x20000000u);
  EXPECT_EQ(mufu_sqrt(0x80800000), 0x7fffffffu);
  EXPECT_EQ(mufu_sqrt(0x7f7fffff), 0x5f7fffffu);
  EXPECT_EQ(mufu_sqrt(0x7f800000), 0x7f800000u);
  EXPECT_EQ(mufu_sqrt(0x4b000000), 0x453504f3u);
  EXPECT_EQ(mufu_rsq64h(0x40100000), 0x3fe00000u);
  EXPECT_EQ(mufu_rsq64h(0x62aa6c41), 0x2e919b98u);
  EXPECT_EQ(mufu_rsq64h(0x7fee3fc4), 0x1ff074e0u);
  EXPECT_EQ(mufu_rsq64h(0xc0100000), 0x7fffffffu);
  EXPECT_EQ(mufu_rcp64h(0x869074b7), 0xf94f1d09u);
  EXPECT_EQ(mufu_rcp64h(0x7fee3fc4), 0u);
  EXPECT_EQ(mufu_rcp64h(0x0000002d), 0x7ff00000u);
}

TEST(Values, Atomics) {
  EXPECT_EQ(atomic<uint32_t>(AtomOp::inc, 5, 5), 0u);
  EXPECT_EQ(atomic<uint32_t>(AtomOp::inc, 4, 5), 5u);
  EXPECT_EQ(atomic<uint32_t>(AtomOp::dec, 0, 7), 7u);
  EXPECT_EQ(atomic<uint32_t>(AtomOp::dec, 9, 7), 7u);
  EXPECT_EQ(atomic<uint32_t>(AtomOp::dec, 3, 7), 2u);
  // The compiler evaluates it: an overflow of int would not compile.
  static_assert(atomic<int32_t>(AtomOp::add, INT32_MAX, 1) == INT32_MIN);
  EXPECT_EQ(atomic<int32_t>(AtomOp::min, -1, 1), -1);
  EXPECT_EQ(atomic<uint32_t>(AtomOp::min, ~0u, 1), 1u);
  EXPECT_EQ(atomic<uint64_t>(AtomOp::add, ~0ull, 2), 1u);
  EXPECT_EQ(atomic<uint32_t>(AtomOp::exchange, 1, 2), 2u);
  EXPECT_EQ(atomic<uint32_t>(AtomOp::bit_xor, 3, 6), 5u);
}

}  // namespace
}  // namespace xtrace::interp_test
