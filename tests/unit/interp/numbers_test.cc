// Forms of numeric instructions beside the plain ones: 16-bit formats, conversions, packed and wide integers.
// What is expected is computed here from the definitions of the PTX ISA.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "tests/unit/interp/row.h"

namespace xtrace::interp_test {
namespace {

void set64(Machine& m, unsigned r, uint64_t v) {
  m.set(r, static_cast<uint32_t>(v));
  m.set(r + 1, static_cast<uint32_t>(v >> 32));
}
uint64_t get64(Machine& m, unsigned r, unsigned lane = 9) {
  return uint64_t{m.r(r + 1)[lane]} << 32 | m.r(r)[lane];
}

// A 16-bit format by its table of all positive values: rounding is a search for the nearest one.
struct Format {
  explicit Format(bool brain) {
    for (uint32_t v = 0; v < 0x8000; ++v) {
      const uint32_t bits = brain ? v << 16 : 0;
      const int exponent = static_cast<int>(v >> 10), fraction = static_cast<int>(v & 0x3ff);
      const double half = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                          : exponent == 0 ? fraction * 0x1p-24
                                          : (1024 + fraction) * std::pow(2.0, exponent - 25);
      values.push_back(brain ? double{std::bit_cast<float>(bits)} : half);
      if (std::isinf(values.back())) infinity = v;
    }
  }
  long double value(uint32_t v) const { return v & 0x8000 ? -values[v & 0x7fff] : values[v & 0x7fff]; }
  uint32_t round(long double x) const {
    if (x != x) return 0x7fff;
    const uint32_t sign = std::signbit(x) ? 0x8000 : 0;
    x = std::fabs(x);
    uint32_t low = 0, high = infinity;  // values[low] <= x
    while (high - low > 1) (values[(low + high) / 2] <= x ? low : high) = (low + high) / 2;
    if (x >= values[infinity - 1]) {  // the place of infinity is one step further
      const long double step = values[infinity - 1] - values[infinity - 2];
      return sign | (x - values[infinity - 1] >= step / 2 ? infinity : infinity - 1);
    }
    const long double below = x - values[low], above = values[high] - x;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
  }
  std::vector<double> values;
  uint32_t infinity = 0;
};

struct Words {
  uint64_t lo, hi;
  const char* text;
};

// Both halves of random operands through add, multiply and multiply-add, against exact sums.
TEST(Numbers, SixteenBitArithmetic) {
  for (const bool brain : {false, true}) {
    const Format format(brain);
    const Words add = brain ? Words{0x0000000807097230, 0x000fe20000200000, "HADD2.BF16_V2 R9, R7, R8"}
                            : Words{0x0000000807097230, 0x000fe20000000000, "HADD2 R9, R7, R8"};
    const Words mul = brain ? Words{0x0000000807097232, 0x000fe20000200000, "HMUL2.BF16_V2 R9, R7, R8"}
                            : Words{0x0000000807097232, 0x000fe20000000000, "HMUL2 R9, R7, R8"};
    const Words fma = brain ? Words{0x0000000807097231, 0x000fe2000020000a, "HFMA2.BF16_V2 R9, R7, R8, R10"}
                            : Words{0x0000000807097231, 0x000fe2000000000a, "HFMA2 R9, R7, R8, R10"};
    std::mt19937 random(3);
    unsigned exact = 0;
    for (int round = 0; round < 400; ++round) {
      Machine m;
      // Exponents near each other, so that sums are exact in 64 bits; every eighth round any pattern at all.
      const uint32_t near = round % 8 == 0 ? 0xffff : brain ? 0x83ff : 0xffff;
      const uint32_t base = round % 8 == 0 ? 0 : brain ? (random() % 30) << 10 : 0;
      for (unsigned r : {7u, 8u, 10u})
        m.set_each(r, [&](unsigned) {
          const uint32_t v = static_cast<uint32_t>(random());
          return ((v & near) | base) | (((v >> 16 & near) | base) << 16);
        });
      for (const Words& w : {add, mul, fma}) {
        ASSERT_EQ(m.run(w.lo, w.hi, w.text), "");
        for (unsigned l = 0; l < 32; ++l)
          for (unsigned k : {0u, 16u}) {
            const uint32_t a = m.r(7)[l] >> k & 0xffff, b = m.r(8)[l] >> k & 0xffff,
                           c = m.r(10)[l] >> k & 0xffff;
            const long double x = format.value(a), y = format.value(b), z = format.value(c);
            long double sum;
            if (w.lo == mul.lo) {
              sum = x * y;
            } else {
              const long double p = w.lo == fma.lo ? x * y : x, q = w.lo == fma.lo ? z : y;
              sum = p + q;
              const long double back = sum - p, error = (p - (sum - back)) + (q - back);
              if (std::isfinite(sum) && error != 0) continue;
            }
            ++exact;
            EXPECT_EQ(m.r(9)[l] >> k & 0xffff, format.round(sum))
                << w.text << std::hex << " of " << a << " " << b << " " << c;
          }
      }
    }
    EXPECT_GT(exact, 50000u);
  }
}

TEST(Numbers, SixteenBitForms) {
  Machine m;
  m.set(6, 0xbc003c00);  // -1, 1
  m.set(7, 0x38004400);  // 0.5, 4
  EXPECT_EQ(m.run(0x0000000706097230, 0x000fe20000002000, "HADD2.SAT R9, R6, R7"), "");
  EXPECT_EQ(m.r(9)[4], 0x00003c00u);
  m.set(12, 0);
  EXPECT_EQ(m.run(0x0000000706097231, 0x000fe2000380800c, "HFMA2.RELU R9, R6, R7, R12"), "");
  EXPECT_EQ(m.r(9)[4], 0x00004400u);
  // Minimum and maximum: a number wins, -0 is below +0, .NAN makes what is not a number win.
  m.set(6, 0x7e018000);
  m.set(7, 0x40000000);
  EXPECT_EQ(m.run(0x0000000706197240, 0x0c0fe40003800000, "HMNMX2 R25, R6, R7, PT"), "");
  EXPECT_EQ(m.r(25)[4], 0x40008000u);
  EXPECT_EQ(m.run(0x00000007061b7240, 0x000fc40007800000, "HMNMX2 R27, R6, R7, !PT"), "");
  EXPECT_EQ(m.r(27)[4], 0x40000000u);
  EXPECT_EQ(m.run(0x00000007060b7240, 0x001fc60003820000, "HMNMX2.NAN R11, R6, R7, PT"), "");
  EXPECT_EQ(m.r(11)[4], 0x7fff8000u);
  m.set(7, 0x3f80c000);  // bfloat16 1, -2
  m.set(8, 0x40003f80);  // 2, 1
  EXPECT_EQ(m.run(0x00000008070f7240, 0x0c0fe20003a00000, "HMNMX2.BF16_V2 R15, R7, R8, PT"), "");
  EXPECT_EQ(m.r(15)[4], 0x3f80c000u);
  // Comparisons: masks, ones, predicates by half.
  EXPECT_EQ(m.run(0x00000008071b7233, 0x140fe20003803002, "HSET2.BF16_V2.LE.AND R27, R7, R8, PT"), "");
  EXPECT_EQ(m.r(27)[4], 0xffffffffu);
  EXPECT_EQ(m.run(0x0000000807197233, 0x140fe40003804082, "HSET2.BF16_V2.BF.GT.AND R25, R7, R8, PT"), "");
  EXPECT_EQ(m.r(25)[4], 0u);
  m.set(6, 0x44003c00);
  m.set(7, 0x40007e00);
  EXPECT_EQ(m.run(0x00000007061d7233, 0x000fe20003804080, "HSET2.BF.GT.AND R29, R6, R7, PT"), "");
  EXPECT_EQ(m.r(29)[4], 0x3c000000u) << "4 > 2, and nothing is greater than what is not a number";
  EXPECT_EQ(m.run(0x00000007060b7233, 0x150fe40003809000, "HSET2.LTU.AND R11, R6, R7, PT"), "");
  EXPECT_EQ(m.r(11)[4], 0x0000ffffu) << "unordered";
  m.set(7, 0x40003800);
  EXPECT_EQ(m.run(0x3000000706007234, 0x040fe40003f24800, "HSETP2.GT.AND P1, PT, R6.H0_H0, R7.H1_H1, PT"),
            "");
  EXPECT_EQ(m.p(1), 0u) << "1 > 2";
  EXPECT_EQ(m.run(0x0000000706007234, 0x000fe40003844000, "HSETP2.GT.AND P2, P0, R6, R7, PT"), "");
  EXPECT_EQ(m.p(2), ~0u) << "1 > 0.5";
  EXPECT_EQ(m.p(0), ~0u) << "4 > 2";
  // Two singles to halves, towards zero.
  m.set(26, f(1 + 0x1p-10f + 0x1p-12f));
  m.set(27, f(1e10f));
  EXPECT_EQ(m.run(0x0000001aff0a723e, 0x000fe400000180ff, "F2FP.F16.F32.PACK_AB.RZ R10, RZ, R26"), "");
  EXPECT_EQ(m.r(10)[4], 0x3c01u);
  EXPECT_EQ(m.run(0x0000001a1b13723e, 0x000fe400000180ff, "F2FP.F16.F32.PACK_AB.RZ R19, R27, R26"), "");
  EXPECT_EQ(m.r(19)[4], 0x7bff3c01u) << "the largest number, not infinity";
  EXPECT_EQ(m.run(0x0000001aff12723e, 0x000fe200000190ff, "F2FP.BF16.F32.PACK_AB.RZ R18, RZ, R26"), "");
  EXPECT_EQ(m.r(18)[4], 0x3f80u);
}

TEST(Numbers, Conversions) {
  Machine m;
  struct Case {
    Words words;
    uint64_t in;   // of R26, R27
    uint64_t out;  // of the result
    bool wide;
  };
  const auto d = [](double v) { return std::bit_cast<uint64_t>(v); };
  const Case cases[] = {
      {{0x0000001a000a7311, 0x000ef0000020d900, "F2I.S64.TRUNC R10, R26"}, f(-3.75f), ~uint64_t{2}, true},
      {{0x0000001a000a7311, 0x000ef0000020d900, nullptr}, f(1e30f), 0x7fffffffffffffff, true},
      {{0x0000001a000a7311, 0x000ef0000020d900, nullptr}, 0x7fc00000, 0x8000000000000000, true},
      {{0x0000001a000a7311, 0x001ff0000020d800, "F2I.U64.TRUNC R10, R26"}, f(-1), 0, true},
      {{0x0000001a000a7311, 0x001ff0000020d800, nullptr}, f(0x1p63f), 0x8000000000000000, true},
      {{0x0000001a000a7311, 0x001e300000301100, "F2I.F64 R10, R26"}, d(2.5), 2, false},
      {{0x0000001a000a7311, 0x001e300000301100, nullptr}, d(-3.5), 0xfffffffc, false},
      {{0x0000001a000a7311, 0x001e300000301100, nullptr}, d(NAN), 0x80000000, false},
      {{0x0000001a000a7311, 0x000e70000030d000, "F2I.U32.F64.TRUNC R10, R26"},
       d(4294967295.9),
       0xffffffff,
       false},
      {{0x0000001a000a7311, 0x002e30000030d900, "F2I.S64.F64.TRUNC R10, R26"},
       d(-0x1p62),
       0xc000000000000000,
       true},
      {{0x0000001a000a7305, 0x004e24000010f100, "F2I.F16.TRUNC.NTZ R10, R26"}, 0xffffc580, 0xfffffffb, false},
      {{0x0000001a000a7305, 0x000eb0000020f100, "F2I.TRUNC.NTZ R10, R26"}, 0x7fc00000, 0, false},
      {{0x0000001a000a7305, 0x001e30000020b100, "F2I.CEIL.NTZ R10, R26"}, f(1.25f), 2, false},
      {{0x0000001a000a7312, 0x004e240000301400, "I2F.S64 R10, R26"}, ~uint64_t{0}, f(-1), false},
      {{0x0000001a000a7312, 0x004e640000301000, "I2F.U64 R10, R26"}, ~uint64_t{0}, f(0x1p64f), false},
      {{0x0000001a000a7306, 0x004e640000101400, "I2F.S16 R10, R26"}, 0x1234fffe, f(-2), false},
      {{0x0000001a000a7312, 0x004e640000201c00, "I2F.F64 R10, R26"}, 0x80000000, d(-2147483648.0), true},
      {{0x0000001a000a7312, 0x001e240000201800, "I2F.F64.U32 R10, R26"}, 0x80000000, d(2147483648.0), true},
      {{0x0000001a000a7312, 0x004ea40000301c00, "I2F.F64.S64 R10, R26"},
       0x8000000000000000,
       d(-0x1p63),
       true},
      {{0x0000001a000a7312, 0x008ee40000301800, "I2F.F64.U64 R10, R26"},
       0xfffffffffffffbff,
       d(0x1p64 - 2048),
       true},
      {{0x0000001a000a7310, 0x000f26000030d000, "F2F.F32.F64.RZ R10, R26"},
       d(1 + 0x1p-23 + 0x1p-24 + 0x1p-40),
       0x3f800001,
       false},
      {{0x0000001a000a7310, 0x000e620000301000, "F2F.F32.F64 R10, R26"},
       d(1 + 0x1p-23 + 0x1p-24 + 0x1p-40),
       0x3f800002,
       false},
      {{0x0000001a000a7307, 0x000e220000201000, "FRND R10, R26"}, f(2.5f), f(2), false},
      {{0x0000001a000a7307, 0x001ff00000205000, "FRND.FLOOR R10, R26"}, f(-0.5f), f(-1), false},
      {{0x0000001a000a7307, 0x000ee20000209000, "FRND.CEIL R10, R26"}, f(2.0001f), f(3), false},
      {{0x0000001a000a7307, 0x000f22000020d000, "FRND.TRUNC R10, R26"}, f(-7.9f), f(-7), false},
      {{0x0000001a000a7313, 0x000e660000301800, "FRND.F64 R10, R26"}, d(3.5), d(4), true},
      {{0x0000001a000a7313, 0x000ea20000309800, "FRND.F64.CEIL R10, R26"}, d(-3.5), d(-3), true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(sass::print(*m.program.arch, {c.words.lo, c.words.hi}, 0));
    set64(m, 26, c.in);
    EXPECT_EQ(m.run(c.words.lo, c.words.hi, c.words.text), "");
    EXPECT_EQ(c.wide ? get64(m, 10) : m.r(10)[9], c.out);
  }
  m.set(26, 0x00000123);
  m.set(27, 0xfff00456);
  EXPECT_EQ(m.run(0x0000001a000a7313, 0x000e660000301800), "");
  EXPECT_EQ(get64(m, 10), 0xfff8045600000123u) << "the payload stays, quiet";
}

TEST(Numbers, IntegerForms) {
  std::mt19937_64 random(5);
  Machine m;
  for (int round = 0; round < 200; ++round) {
    const auto a = static_cast<uint32_t>(random()), b = static_cast<uint32_t>(random()),
               c = static_cast<uint32_t>(random()), n = static_cast<uint32_t>(random()) & 3;
    m.set(4, a);
    m.set(5, b);
    m.set(24, c);
    int32_t dot = static_cast<int32_t>(c), low = dot, high = dot;
    for (unsigned k = 0; k < 4; ++k)
      dot = static_cast<int32_t>(
          static_cast<uint32_t>(dot) +
          static_cast<uint32_t>(static_cast<int8_t>(b >> 8 * k) * static_cast<int8_t>(a >> 8 * k)));
    for (unsigned k = 0; k < 2; ++k) {
      low = static_cast<int32_t>(
          static_cast<uint32_t>(low) +
          static_cast<uint32_t>(static_cast<int16_t>(b >> 16 * k) * static_cast<int8_t>(a >> 8 * k)));
      high = static_cast<int32_t>(
          static_cast<uint32_t>(high) +
          static_cast<uint32_t>(static_cast<int16_t>(b >> 16 * k) * static_cast<int8_t>(a >> (8 * k + 16))));
    }
    EXPECT_EQ(m.run(0x0000000405147226, 0x010fc40000000618, "IDP.4A.S8.S8 R20, R5, R4, R24"), "");
    EXPECT_EQ(m.r(20)[3], static_cast<uint32_t>(dot));
    EXPECT_EQ(m.run(0x0000000405167226, 0x000fe20000001618, "IDP.2A.LO.S16.S8 R22, R5, R4, R24"), "");
    EXPECT_EQ(m.r(22)[3], static_cast<uint32_t>(low));
    EXPECT_EQ(m.run(0x00000004051a7226, 0x000fe20000003618, "IDP.2A.HI.S16.S8 R26, R5, R4, R24"), "");
    EXPECT_EQ(m.r(26)[3], static_cast<uint32_t>(high));
    // Bytes by the modes of prmt: as the rows of the table in the PTX ISA, byte 3 first.
    struct Mode {
      uint64_t hi;
      const char* text;
      uint32_t rows[4];
    };
    const Mode modes[] = {
        {0x000fe20000000118, "PRMT.F4E R20, R5, R4, R24", {0x3210, 0x4321, 0x5432, 0x6543}},
        {0x000fe20000000218, "PRMT.B4E R20, R5, R4, R24", {0x5670, 0x6701, 0x7012, 0x0123}},
        {0x000fe20000000318, "PRMT.RC8 R20, R5, R4, R24", {0x0000, 0x1111, 0x2222, 0x3333}},
        {0x000fe20000000418, "PRMT.ECL R20, R5, R4, R24", {0x3210, 0x3211, 0x3222, 0x3333}},
        {0x000fe20000000518, "PRMT.ECR R20, R5, R4, R24", {0x0000, 0x1110, 0x2210, 0x3210}},
        {0x000fe20000000618, "PRMT.RC16 R20, R5, R4, R24", {0x1010, 0x3232, 0x1010, 0x3232}}};
    m.set(4, n);
    for (const Mode& mode : modes) {
      EXPECT_EQ(m.run(0x0000000405147216, mode.hi, mode.text), "");
      uint32_t want = 0;
      for (unsigned k = 0; k < 4; ++k) {
        const uint32_t from = mode.rows[n] >> 4 * k & 0xf;
        want |= ((from < 4 ? b >> 8 * from : c >> 8 * (from - 4)) & 0xff) << 8 * k;
      }
      EXPECT_EQ(m.r(20)[3], want) << mode.text << " " << n;
    }
    // Products with carries, against 128-bit arithmetic.
    m.set(4, a);
    set64(m, 30, random());
    const uint64_t summand = get64(m, 30);
    m.p(1) = 0xff00;
    EXPECT_EQ(m.run(0x00000005043a7225, 0x000fe200008e041e, "IMAD.WIDE.U32.X R58, R4, R5, R30, P1"), "");
    EXPECT_EQ(get64(m, 58, 9), uint64_t{a} * b + summand + 1);
    EXPECT_EQ(get64(m, 58, 3), uint64_t{a} * b + summand);
    const bool over = (static_cast<unsigned __int128>(uint64_t{a} * b) + summand) >> 64 != 0;
    EXPECT_EQ(m.run(0x00000005043a7227, 0x000fe2000780001e, "IMAD.HI.U32 R58, P0, R4, R5, R30"), "");
    EXPECT_EQ(m.r(58)[9], static_cast<uint32_t>((uint64_t{a} * b + summand) >> 32));
    EXPECT_EQ(m.p(0), over ? ~0u : 0u);
    EXPECT_EQ(m.run(0x0000000504147214, 0x000fe200000e0018, "VABSDIFF.U32 R20, R4, R5, R24"), "");
    EXPECT_EQ(m.r(20)[3], (a > b ? a - b : b - a) + c);
    const int64_t difference = int64_t{static_cast<int32_t>(a)} - static_cast<int32_t>(b);
    EXPECT_EQ(m.run(0x0000000504147214, 0x000fe200000e0218, "VABSDIFF R20, R4, R5, R24"), "");
    EXPECT_EQ(m.r(20)[3], static_cast<uint32_t>(std::abs(difference)) + c);
    const auto largest =
        std::max({static_cast<int32_t>(a), static_cast<int32_t>(b), static_cast<int32_t>(c)});
    EXPECT_EQ(m.run(0x000000040515720f, 0x000fe20007800118, "VIMNMX3 R21, R5, R4, R24, !PT"), "");
    EXPECT_EQ(m.r(21)[3], static_cast<uint32_t>(largest));
    const auto least16 = [&](unsigned k) {
      return static_cast<uint16_t>(std::min(static_cast<int16_t>(a >> k), static_cast<int16_t>(b >> k)));
    };
    EXPECT_EQ(m.run(0x0000000504147248, 0x000fe20003fe0300, "VIMNMX.S16x2 R20, R4, R5, PT"), "");
    EXPECT_EQ(m.r(20)[3], least16(0) | uint32_t{least16(16)} << 16);
    const auto relu = std::max(0, std::min(static_cast<int32_t>(a + b), static_cast<int32_t>(c)));
    EXPECT_EQ(m.run(0x0000000504147246, 0x000fe20003801118, "VIADDMNMX.RELU R20, R4, R5, R24, PT"), "");
    EXPECT_EQ(m.r(20)[3], static_cast<uint32_t>(relu));
  }
}

TEST(Numbers, MinimumThatKeepsWhatIsNotANumber) {
  Machine m;
  m.set(40, 0x7fc01234);
  m.set(159, f(1));
  EXPECT_EQ(m.run(0x0000009f28087209, 0x000fe20003820000, "FMNMX.NAN R8, R40, R159, PT"), "");
  EXPECT_EQ(m.r(8)[2], 0x7fffffffu);
  m.set(40, f(-2));
  EXPECT_EQ(m.run(0x0000009f28087209, 0x000fe20003820000), "");
  EXPECT_EQ(m.r(8)[2], f(-2));
}

// Wherever FCHK lets the quick division stand, its steps, done here in exact arithmetic, have exact
// remainders.
TEST(Numbers, DivisionsThatMayBeQuick) {
  Machine m;
  std::mt19937 random(7);
  unsigned quick = 0;
  for (int round = 0; round < 300; ++round) {
    m.set_each(0, [&](unsigned) { return static_cast<uint32_t>(random()); });
    m.set_each(3, [&](unsigned) { return static_cast<uint32_t>(random()); });
    ASSERT_EQ(m.run(0x0000000300007302, 0x008ea20000000000, "FCHK P0, R0, R3"), "");
    for (unsigned l = 0; l < 32; ++l) {
      if ((m.p(0) >> l & 1) != 0) continue;
      ++quick;
      const float a = std::bit_cast<float>(m.r(0)[l]), b = std::bit_cast<float>(m.r(3)[l]);
      ASSERT_TRUE(std::isnormal(a) && std::isnormal(b)) << a << " / " << b;
      const float q = a / b;
      ASSERT_TRUE(std::isnormal(q)) << a << " / " << b;
      const double remainder = double{a} - double{q} * b;
      EXPECT_EQ(remainder, static_cast<float>(remainder)) << a << " / " << b;
      EXPECT_TRUE(std::isnormal(1 / b));
    }
  }
  EXPECT_GT(quick, 3000u);
  m.set(0, 0);
  EXPECT_EQ(m.run(0x0000000300007302, 0x008ea20000000000), "");
  EXPECT_EQ(m.p(0), ~0u) << "zero";
}

}  // namespace
}  // namespace xtrace::interp_test
