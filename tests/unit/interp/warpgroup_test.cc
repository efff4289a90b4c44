// Products of warpgroups, registers that move between warps, and branches of a warp as one.
#include "replay/interp/value/float.h"
#include "replay/interp/value/mma.h"
#include "tests/unit/interp/engine_fixture.h"
#include "tests/unit/interp/machine.h"

namespace xtrace::interp_test {
namespace {

using interp::value::bits32, interp::value::double_to_half;

// A and B in shared memory, 8 columns: element (row, k) of A is row + 2 k, of B (k, column) is k - column.
// `place` gives the offset of 8 elements from k on.
class Product : public testing::Test {
 protected:
  static int a(int row, int k) { return row + 2 * k; }
  static int b(int k, int column) { return k - column; }
  template <typename Place>
  void fill(Place place) {
    m.cta.shared.resize(32768);
    for (int row = 0; row < 64; ++row)
      for (int k = 0; k < 16; ++k) {
        const auto put = [&](unsigned from, int v) {
          write_at<uint16_t>(std::span(m.cta.shared), from + place(row, k / 8) + k % 8 * 2,
                             double_to_half(v));
        };
        put(0, a(row, k));
        if (row < 8) put(16384, b(k, row));
      }
  }
  void describe(uint32_t k_step, uint32_t row_step, uint32_t swizzle) {
    m.set_ur(8, k_step >> 4 << 16);
    m.set_ur(9, row_step >> 4 | swizzle << 30);
    m.set_ur(10, 16384 >> 4 | k_step >> 4 << 16);
    m.set_ur(11, row_step >> 4 | swizzle << 30);
  }
  void expect(unsigned warp, int more) {
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned r = 0; r < 4; ++r) {
        const int row = static_cast<int>(16 * warp + l / 4 + 8 * (r / 2)),
                  column = static_cast<int>(2 * (l % 4) + r % 2);
        int sum = more;
        for (int k = 0; k < 16; ++k) sum += a(row, k) * b(k, column);
        EXPECT_EQ(m.r(24 + r)[l], bits32(static_cast<float>(sum))) << "row " << row << " column " << column;
      }
  }
  Machine m;
};

constexpr uint64_t hgmma_lo = 0x00000000081879f0, hgmma_hi = 0x08700818;

// Rows contiguous, in lines of 128, 64 or 32 bytes; further rows in further blocks.
TEST_F(Product, OfTransposedFactors) {
  for (unsigned swizzle = 1; swizzle < 4; ++swizzle) {
    SCOPED_TRACE(swizzle);
    const unsigned width = 256 >> swizzle;
    m.cta.shared.assign(32768, std::byte{0});
    const auto at = [&](int row, int k) {
      const unsigned a = k * width + row * 2 / width * 16 * width + row * 2 % width;
      return a ^ (a >> 7 & (width / 16 - 1)) << 4;
    };
    for (int k = 0; k < 16; ++k)
      for (int row = 0; row < 64; ++row) {
        write_at<uint16_t>(std::span(m.cta.shared), at(row, k), double_to_half(a(row, k)));
        if (row < 8)
          write_at<uint16_t>(std::span(m.cta.shared), 16384 + at(row, k), double_to_half(b(k, row)));
      }
    describe(16 * width, 8 * width, swizzle);
    m.warp.number = 2;
    EXPECT_EQ(m.run(hgmma_lo | 3ull << 61, hgmma_hi | 8ull << 23,
                    "HGMMA.64x8x16.F32 R24, gdesc[UR8].tnspA.tnspB, R24, !UPT"),
              "");
    expect(2, 0);
  }
}

TEST_F(Product, OfSharedMemory) {
  for (unsigned swizzle = 0; swizzle < 4; ++swizzle) {
    SCOPED_TRACE(swizzle);
    const unsigned row_bytes = swizzle == 0 ? 16 : 256 >> swizzle;
    fill([&](int row, int chunk) {
      if (swizzle == 0) return row / 8 * 256u + chunk * 128u + row % 8 * 16u;
      const unsigned at = row / 8 * 8 * row_bytes + row % 8 * row_bytes + chunk * 16u;
      return at ^ (at >> 7 & (row_bytes / 16 - 1)) << 4;
    });
    describe(128, swizzle == 0 ? 256 : 8 * row_bytes, swizzle);
    for (unsigned warp : {0u, 3u, 5u}) {
      m.warp.number = warp;
      for (unsigned r = 0; r < 4; ++r) m.set(24 + r, bits32(100.0f));
      EXPECT_EQ(m.run(hgmma_lo, hgmma_hi, "HGMMA.64x8x16.F32 R24, gdesc[UR8], R24"), "");
      expect(warp % 4, 100);
      EXPECT_EQ(m.run(hgmma_lo, hgmma_hi | 8ull << 23, "HGMMA.64x8x16.F32 R24, gdesc[UR8], R24, !UPT"), "");
      expect(warp % 4, 0);
    }
  }
}

TEST_F(Product, OfRegisters) {
  fill([](int row, int chunk) { return row / 8 * 256u + chunk * 128u + row % 8 * 16u; });
  describe(128, 256, 0);
  for (unsigned r = 0; r < 4; ++r)
    m.set_each(4 + r, [&](unsigned l) {
      const int row = static_cast<int>(l / 4 + 8 * (r % 2)), k = static_cast<int>(2 * (l % 4) + 8 * (r / 2));
      return double_to_half(a(row, k)) | uint32_t{double_to_half(a(row, k + 1))} << 16;
    });
  EXPECT_EQ(m.run(0x0000000804187df0, 0x087008ff, "HGMMA.64x8x16.F32 R24, R4, gdesc[UR8], RZ"), "");
  expect(0, 0);
}

TEST_F(Product, RefusesWhatWasNotMeasured) {
  fill([](int row, int chunk) { return row / 8 * 256u + chunk * 128u + row % 8 * 16u; });
  describe(128, 256, 0);
  for (unsigned r = 0; r < 4; ++r) m.set(24 + r, 0x7f800000);
  EXPECT_NE(m.run(hgmma_lo, hgmma_hi).find("not finite"), std::string::npos);
  for (unsigned r = 0; r < 4; ++r) m.set(24 + r, 0);
  m.set_ur(9, 256 >> 4 | 1 << 17);
  EXPECT_NE(m.run(hgmma_lo, hgmma_hi).find("base offset"), std::string::npos);
  m.set_ur(9, 256 >> 4);
  EXPECT_NE(m.run(hgmma_lo | 1ull << 61, hgmma_hi).find("transposed"), std::string::npos);
  EXPECT_NE(m.run(hgmma_lo | 1ull << 63, hgmma_hi).find("negated"), std::string::npos);
}

// --- registers

sass::RawInst release(uint32_t n) { return word(uint64_t{n} << 32 | 0x79c8, 0x080e0500); }
sass::RawInst try_alloc(uint32_t n) { return word(uint64_t{n} << 32 | 0x79c8, 0x08000600); }  // UP0

class RegisterTest : public EngineTest {
 protected:
  // As decode_program() has it for a kernel of 24 registers.
  Result<EngineResult> run_with_24(const std::vector<sass::RawInst>& words) {
    program = {};
    program.arch = *sass::find_arch(90);
    program.kernel = launch.record.kernel;
    program.layout.gprs = 40;
    program.registers = 24;
    program.changes_registers = true;
    Bytes& bank = program.banks.bytes[0] = Bytes(0x210);
    write_at(std::span(bank), 0, launch.record.block);
    program.words = words;
    replay::interp::decode_words(program);
    return execute(program, launch, memory, options);
  }
};

// Warp 0 wants 32 registers and gets them when warp 1 has given 8 away; neither may use what it does not
// hold.
TEST_F(RegisterTest, MoveBetweenWarps) {
  launch.record.block = {64, 1, 1};
  const Gpr tid{0};
  const auto kernel = [&](uint8_t taker_uses, uint8_t giver_uses) {
    std::vector<sass::RawInst> k{
        enc::s2r(tid, enc::sr_tid_x),
        enc::isetp_imm(Pred{0}, enc::Compare::ge, false, tid, 32),
        enc::with_guard(enc::bra(0x20, 0x60), Pred{0}),
        try_alloc(32),
        enc::mov_imm({taker_uses}, 1),
        enc::bra(0x50, 0x80),
        release(16),  // 0x60
        enc::mov_imm({giver_uses}, 2),
        enc::exit(),  // 0x80
    };
    return k;
  };
  EXPECT_TRUE(run_with_24(kernel(31, 15)));
  auto r = run_with_24(kernel(32, 15));
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message.find("R32 is used, and the warp holds 32 registers"), std::string::npos)
      << r.error().message;
  r = run_with_24(kernel(31, 16));
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message.find("R16 is used, and the warp holds 16 registers"), std::string::npos)
      << r.error().message;
}

// --- BRA.U.ANY: all lanes branch when the condition holds in one.
TEST_F(EngineTest, BranchesOfAWarpAsOne) {
  const Gpr tid{0}, way{3};
  for (const unsigned lane : {7u, 99u}) {
    std::vector<sass::RawInst> k{
        enc::s2r(tid, enc::sr_tid_x),
        enc::isetp_imm(Pred{0}, enc::Compare::eq, false, tid, lane),
        enc::mov_imm(way, 1),
        enc::with_guard(branch_word(1ull << 32 | 0x7947, 0x03900000, 0x30, 0x50), Pred{0}),
        enc::mov_imm(way, 2),
    };
    store_cell(k, way, tid, {4});
    k.push_back(enc::exit());
    const auto r = run(k);
    ASSERT_TRUE(r) << r.error().to_string();
    EXPECT_EQ(cell(7), lane == 7 ? 1u : 2u);
    EXPECT_EQ(cell(8), lane == 7 ? 1u : 2u);
  }
}

}  // namespace
}  // namespace xtrace::interp_test
