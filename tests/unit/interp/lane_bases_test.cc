// What LaneBases claims of registers, against what the interpreter computes: straight code drawn at random, executed word by word for
// every warp of CTAs of several shapes.
#include "instrument/lane_bases.h"

#include <gtest/gtest.h>

#include <random>

#include "instrument/code.h"
#include "instrument/sass/assemble.h"
#include "instrument/sass/encode.h"
#include "tests/unit/interp/machine.h"

namespace xtrace::interp_test::lane_bases_test {
namespace {

using instrument::InstIndex;

constexpr unsigned registers = 12, instructions = 14;
constexpr uint32_t params_at = 0x210;

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(random_); }
  template <typename T, size_t n>
  T one(const T (&of)[n]) {
    return of[below(n)];
  }
  unsigned reg() { return below(registers); }
  uint32_t number() {
    const uint32_t numbers[] = {1, 2, 3, 4, 7, 0xc, 0x1c, 0x1f, 0x40, 0x7c, 0x80, 0xff, 0x400, 0xfffc, 0x55555556, ~0u, ~3u, 0xffffffe0, below(1u << 31)};
    return one(numbers);
  }
  // As sums and products print it.
  std::string signed_number() {
    const auto n = static_cast<int32_t>(number());
    return n < 0 ? fmt::format("-{:#x}", 0u - static_cast<uint32_t>(n)) : fmt::format("{:#x}", n);
  }
  std::string guard() {
    const char* guards[] = {"", "", "", "", "", "@P0 ", "@!P0 "};
    return one(guards);
  }
  // One that reads and writes registers.
  std::string instruction() {
    const unsigned d = reg(), a = reg(), b = reg(), c = reg();
    const auto text = [&]() -> std::string {
      switch (below(22)) {
        case 0: return fmt::format("IADD3 R{}, {}R{}, {}, R{}", d, below(3) == 0 ? "-" : "", a, signed_number(), c);
        case 1: return fmt::format("IADD3 R{}, R{}, R{}, -R{}", d, a, b, c);
        case 2: return fmt::format("IMAD R{}, R{}, {}, R{}", d, a, signed_number(), c);
        case 3: return fmt::format("IMAD R{}, R{}, R{}, R{}", d, a, b, c);
        case 4: return fmt::format("IMAD.HI.U32 R{}, R{}, {:#x}, RZ", d, a, number() >> 1);
        case 5: return fmt::format("LEA R{}, R{}, R{}, {:#x}", d, a, b, below(12));
        case 6: return fmt::format("LEA.HI R{}, R{}, R{}, RZ, {:#x}", d, a, b, 1 + below(31));
        case 7: return fmt::format("SHF.L.U32 R{}, R{}, {:#x}, RZ", d, a, below(34));
        case 8: return fmt::format("SHF.R.U32.HI R{}, RZ, {:#x}, R{}", d, below(34), a);
        case 9: return fmt::format("SHF.R.S32.HI R{}, RZ, {:#x}, R{}", d, below(34), a);
        case 10: return fmt::format("LOP3.LUT R{}, R{}, {:#x}, RZ, 0xc0, !PT", d, a, number());
        case 11: return fmt::format("LOP3.LUT R{}, R{}, R{}, R{}, {:#x}, !PT", d, a, b, c, below(256));
        case 12: return fmt::format("LOP3.LUT R{}, R{}, {:#x}, R{}, {:#x}, !PT", d, a, number(), c, below(256));
        case 13: return fmt::format("LOP3.LUT R{}, R{}, R{}, RZ, {:#x}, !PT", d, a, b, below(2) == 0 ? 0x3c : 0xfc);
        case 14: return fmt::format("PRMT R{}, R{}, {:#x}, R{}", d, a, below(0x10000), c);
        case 15: return fmt::format("VIADD R{}, R{}, {:#x}", d, a, number());
        case 16: return fmt::format("SHF.R.U32.HI R{}, RZ, R{}, R{}", d, b, a);
        case 17: return fmt::format("SHF.L.U32 R{}, R{}, R{}, RZ", d, a, b);
        case 18: return fmt::format("MOV R{}, R{}", d, a);
        case 19: return fmt::format("IMAD R{}, R{}, c[0x0][{:#x}], R{}", d, a, below(2) == 0 ? params_at + 4 * below(4) : 4 * below(6), c);
        case 20: return fmt::format("LEA.HI R{}, R{}, R{}, R{}, {:#x}", d, a, b, c, 1 + below(31));
        default: return fmt::format("POPC R{}, R{}", d, a);
      }
    }();
    return below(10) == 0 ? fmt::format("ISETP.LT.U32.AND P0, PT, R{}, {:#x}, PT", a, number()) : guard() + text;
  }
  // One of all lanes together.
  std::string of_the_warp() {
    return below(2) == 0 ? fmt::format("SHFL.IDX PT, R{}, R{}, {:#x}, 0x1f", reg(), reg(), below(32)) : fmt::format("R2UR UR4, R{}", reg());
  }

 private:
  std::mt19937 random_;
};

struct Drawn {
  std::vector<std::string> lines;
  instrument::Code code;
};
Drawn drawn(uint32_t seed, bool whole) {
  Draw draw(seed);
  Drawn d;
  d.lines = {"S2R R0, SR_TID.X", "S2R R1, SR_TID.Y", "S2R R2, SR_TID.Z", "S2R R3, SR_LANEID", "S2R R4, SR_CTAID.X", "LDC R5, c[0x0][0x210]",
             "LDC.64 R6, c[0x0][0x218]", "S2R R8, SR_CTAID.Y", fmt::format("IMAD R9, R4, {:#x}, R0", 4u << draw.below(8)), "ISETP.LT.U32.AND P0, PT, R3, 0x9, PT"};
  for (unsigned k = 0; k < instructions; ++k) d.lines.push_back(whole && draw.below(8) == 0 ? draw.of_the_warp() : draw.instruction());
  if (whole) d.lines.push_back("MOV R11, UR4");
  for (unsigned r = 0; r < registers; ++r) d.lines.push_back(draw.guard() + fmt::format("LDS R40, [R{}]", r));
  d.lines.push_back("EXIT");
  d.code.arch = *sass::find_arch(90);
  d.code.kernel = "drawn";
  // A few have another name, as IMAD by 1, and are left out.
  std::erase_if(d.lines, [&](const std::string& line) {
    const auto w = sass::assemble(*d.code.arch, line, static_cast<int64_t>(d.code.bytes()));
    if (w) d.code.insts.push_back({*w, sass::effects(*d.code.arch, *w, d.code.bytes())});
    return !w;
  });
  EXPECT_GE(d.lines.size() + 3, 10u + instructions + (whole ? 1 : 0) + registers + 1);
  d.code.functions = {{"drawn", 0, {}, {}}};
  d.code.reachable.assign(d.code.insts.size(), true);
  return d;
}

struct Tally {
  unsigned asked = 0, claimed = 0, known = 0;
};

// Every claim of one piece of code in one shape of CTA.
void check(uint32_t seed, const Dim3& block, bool params_known, Tally& tally) {
  const bool whole = block.count() % 32 == 0;
  const Drawn d = drawn(seed, whole);
  std::string all;
  for (const std::string& line : d.lines) all += "\n  " + line;
  SCOPED_TRACE(fmt::format("seed {} of {} x {} x {}:{}", seed, block.x, block.y, block.z, all));
  const Dim3 grid{5, 3, 1};
  Bytes params;
  for (uint32_t word : {0x10u, 0x300u, 0x7u, 0x1234u}) append(params, word);
  instrument::LaunchFacts facts{grid, block, {0, 0, 0}, {}, {}, params_known ? params : Bytes{}, params_at};
  facts.whole.assign(d.code.insts.size(), whole);
  const instrument::LaneBases lanes(d.code, facts);

  for (const Dim3 cta : {Dim3{0, 0, 0}, Dim3{1, 0, 0}, Dim3{3, 2, 0}})
    for (uint32_t number = 0; number * 32 < block.count(); ++number) {
      Machine m;
      write_at(std::span(m.program.banks.bytes[0]), m.program.arch->bank0_block_dim, block);
      write_at(std::span(m.program.banks.bytes[0]), m.program.arch->bank0_grid_dim, grid);
      for (uint32_t k = 0; k < 4; ++k) write_at(std::span(m.program.banks.bytes[0]), params_at + 4 * k, *read_at<uint32_t>(params, 4 * k, "parameter"));
      m.warp.number = number;
      m.cta.index = cta;
      const auto present = static_cast<uint32_t>(block.count() - number * 32 >= 32 ? ~0u : (1u << (block.count() - number * 32)) - 1);
      m.warp.paths[0].mask = present;
      for (InstIndex i = 0; i + 1 < d.code.insts.size(); ++i) {
        const std::string& line = d.lines[i];
        const auto load = line.find("LDS");
        if (load == std::string::npos) {
          ASSERT_EQ(m.run(d.code.insts[i].raw), "") << line;
          continue;
        }
        const auto reg = static_cast<uint8_t>(std::stoi(line.substr(line.find("[R") + 2)));
        const uint32_t guard = line[0] != '@' ? ~0u : line[1] == '!' ? ~m.p(0) : m.p(0);
        ++tally.asked;
        const auto claim = lanes.before(i, reg);
        if (!claim) continue;
        ++tally.claimed;
        tally.known += claim->known;
        const std::vector<uint32_t>& table = lanes.tables()[claim->numbers];
        std::optional<uint32_t> base;
        for (uint32_t lanes_left = present & guard; lanes_left != 0; lanes_left &= lanes_left - 1) {
          const auto lane = static_cast<unsigned>(std::countr_zero(lanes_left));
          const uint32_t of_lane = m.r(reg)[lane] - table[table.size() == 32 ? lane : number * 32 + lane];
          if (!base) base = claim->known ? 0 : of_lane;
          ASSERT_EQ(of_lane, *base) << line << " in lane " << lane << " of warp " << number;
        }
      }
    }
}

TEST(LaneBases, AreWhatIsComputed) {
  Tally tally;
  uint32_t seed = 0;
  for (const Dim3& block : {Dim3{32, 1, 1}, Dim3{256, 1, 1}, Dim3{16, 16, 1}, Dim3{32, 8, 1}, Dim3{10, 3, 2}, Dim3{48, 2, 1}, Dim3{20, 1, 1}, Dim3{4, 4, 8}})
    for (uint32_t k = 0; k < 25; ++k, ++seed) {
      check(seed, block, k % 2 == 0, tally);
      if (HasFatalFailure()) return;
    }
  EXPECT_GT(tally.claimed, tally.asked / 2);
  EXPECT_GT(tally.known, tally.claimed / 4);
  EXPECT_GT(tally.claimed - tally.known, tally.claimed / 4);
}

}  // namespace
}  // namespace xtrace::interp_test::lane_bases_test
