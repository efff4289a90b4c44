// What one instruction makes of terms, against what the interpreter makes of the values that they stand for: words drawn at random,
// with all their modifiers, over registers of every kind of term.
#include "instrument/register_terms.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <random>

#include "instrument/sass/assemble.h"
#include "instrument/sass/encode.h"
#include "tests/unit/interp/machine.h"

namespace xtrace::interp_test {
namespace {

using instrument::Term, instrument::ThreadTerms;
using instrument::register_terms::State, instrument::register_terms::Value;

constexpr uint32_t lanes = 32;
constexpr Dim3 block{8, 4, 1}, grid{5, 3, 1};
constexpr uint32_t params_at = 0x210;
constexpr uint32_t params[] = {0x10, 0x300, 7, ~3u};

// A CTA of one warp: what each register holds, as a term and in each lane.
class Warp {
 public:
  explicit Warp(std::mt19937& random) : random_(random), terms(block) {
    code_.arch = *sass::find_arch(90);
    for (Value& v : before.gpr) v.kind = Value::Kind::unknown;
    for (Value& v : before.ur) v.kind = Value::Kind::unknown;
    Bytes& bank = m.program.banks.bytes[0];
    write_at(std::span(bank), m.program.arch->bank0_block_dim, block);
    write_at(std::span(bank), m.program.arch->bank0_grid_dim, grid);
    for (uint32_t k = 0; k < std::size(params); ++k) {
      write_at(std::span(bank), params_at + 4 * k, params[k]);
      append(facts_.params, params[k]);
    }
    facts_.grid = grid;
    facts_.block = block;
    facts_.params_at = params_at;
    for (unsigned p = 0; p < 7; ++p) m.p(p) = random();
    for (unsigned p = 0; p < 7; ++p) m.up(p) = random() % 2 == 0 ? 0 : ~0u;

    const Term uniform = terms.uniform(), even = *terms.shift_left(uniform, terms.number(6)), x = terms.thread(0);
    const Term all[] = {terms.lane(), x, terms.thread(1), uniform, even, terms.add(uniform, x), terms.add(even, x), terms.number(some_number()),
                        terms.number(random() % 40), terms.add(even, *terms.multiply(x, terms.number(4))), terms.negate(x)};
    for (unsigned r = 0; r < std::size(all); ++r) put(before.gpr[r], m.r(r), all[r]);
    const Term of_warp[] = {uniform, even, terms.number(some_number()), terms.number(random() % 40)};
    for (unsigned u = 0; u < std::size(of_warp); ++u) put(before.ur[4 + u], m.ur(4 + u), of_warp[u]);
  }
  static constexpr unsigned registers = 11, uniforms = 4;

  // Executes one word. Empty, or what is claimed and does not hold. Nothing where the interpreter does not have the word.
  std::optional<std::string> differs(const sass::RawInst& w) {
    code_.insts = {{w, sass::effects(*code_.arch, w, 0)}};
    code_.functions = {{"drawn", 0, {}, {}}};
    code_.reachable = {true};
    const sass::Effects& fx = code_.insts[0].fx;
    if (!fx.known || fx.flow != sass::Flow::next) return std::nullopt;
    const uint32_t guards[] = {m.p(0), m.p(1), m.p(2), m.p(3), m.p(4), m.p(5), m.p(6), ~0u};
    if (!m.run(w).empty()) return std::nullopt;
    State after = before;
    apply(code_, facts_, terms, 0, true, after);
    std::string wrong;
    for (unsigned r = 0; r < 255; ++r)
      if (fx.def.gpr.test(r)) wrong += check(fmt::format("R{}", r), after.gpr[r], m.r(r), guards);
    for (unsigned u = 0; u < 63; ++u)
      if (fx.def.ur.test(u)) wrong += check(fmt::format("UR{}", u), after.ur[u], m.ur(u), guards);
    return wrong;
  }
  unsigned claims = 0;

 private:
  uint32_t random() { return random_(); }
  uint32_t some_number() {
    const uint32_t numbers[] = {0, 1, 4, 7, 0x1c, 0x80, 0xfffc, 0x55555556, ~0u, ~3u, 0x80000000, random()};
    return numbers[random() % std::size(numbers)];
  }
  void put(Value& value, uint32_t* lane, Term term) {
    value = {Value::Kind::term, instrument::guard_always, false, false, 0, term};
    value.settle();
    const uint32_t base = random() & term.unknown;
    for (uint32_t l = 0; l < lanes; ++l) lane[l] = base + terms.at(term, l);
  }
  std::string check(const std::string& name, const Value& v, const uint32_t* lane, const uint32_t (&guards)[8]) {
    if (!v.is_term()) return {};
    ++claims;
    const uint32_t where = (v.guard & 8) != 0 ? ~guards[v.guard & 7] : guards[v.guard & 7];
    std::optional<uint32_t> base;
    for (uint32_t l = 0; l < lanes; ++l) {
      if ((where >> l & 1) == 0) continue;
      const uint32_t of_lane = lane[l] - terms.at(v.term, l);
      if (!base) base = of_lane;
      if (of_lane != *base || (of_lane & ~v.term.unknown) != 0)
        return fmt::format("{} in lane {} is {:#x}, claimed {:#x} and one of the bits {:#x}, the same in all lanes ({:#x})\n", name, l, lane[l],
                           terms.at(v.term, l), v.term.unknown, *base);
    }
    return {};
  }

  std::mt19937& random_;
  ThreadTerms terms;
  State before;
  Machine m;
  instrument::Code code_;
  instrument::LaunchFacts facts_;
};

// A word of each instruction that has a rule, one of those that are functions of their operands, and forms by where S comes from.
std::string drawn_text(std::mt19937& random) {
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  const auto reg = [&] { return fmt::format("R{}", below(Warp::registers + 1) == 0 ? 255u : below(Warp::registers)); };
  const auto r = [&] {
    const std::string name = reg();
    return name == "R255" ? std::string("RZ") : name;
  };
  const auto ur = [&] { return fmt::format("UR{}", 4 + below(Warp::uniforms)); };
  const auto imm = [&] { return fmt::format("{:#x}", below(2) == 0 ? below(64) : static_cast<unsigned>(random()) >> 1); };
  const auto s = [&]() -> std::string {
    switch (below(4)) {
      case 0: return imm();
      case 1: return fmt::format("c[0x0][{:#x}]", below(2) == 0 ? params_at + 4 * below(4) : 4 * below(6));
      case 2: return ur();
      default: return r();
    }
  };
  switch (below(26)) {
    case 0: return fmt::format("IADD3 R20, {}, {}, {}", r(), s(), r());
    case 1: return fmt::format("IMAD R20, {}, {}, {}", r(), s(), r());
    case 2: return fmt::format("IMAD R20, {}, {}, {}", r(), r(), s());
    case 3: return fmt::format("IMAD.HI.U32 R20, {}, {}, {}", r(), s(), r());
    case 4: return fmt::format("IMAD.HI R20, {}, {}, {}", r(), s(), r());
    case 5: return fmt::format("IMAD.WIDE R20, {}, {}, R{}", r(), s(), 2 * below(5));
    case 6: return fmt::format("LEA R20, {}, {}, {:#x}", r(), s(), below(32));
    case 7: return fmt::format("LEA.HI R20, {}, {}, {}, {:#x}", r(), s(), r(), below(32));
    case 8: return fmt::format("SHF.L.U32 R20, {}, {}, {}", r(), s(), r());
    case 9: return fmt::format("SHF.R.U32.HI R20, {}, {}, {}", r(), s(), r());
    case 10: return fmt::format("SHF.R.S32.HI R20, {}, {}, {}", r(), s(), r());
    case 11: return fmt::format("LOP3.LUT R20, {}, {}, {}, {:#x}, !PT", r(), s(), r(), below(256));
    case 12: return fmt::format("PRMT R20, {}, {:#x}, {}", r(), below(0x10000), r());
    case 13: return fmt::format("PRMT R20, {}, {}, {}", r(), r(), r());
    case 14: return fmt::format("VIADD R20, {}, {}", r(), s());
    case 15: return fmt::format("MOV R20, {}", s());
    case 16: return fmt::format("SHFL.IDX PT, R20, {}, {:#x}, 0x1f", r(), below(32));
    case 17: return fmt::format("R2UR UR20, {}", r());
    case 18: return fmt::format("UIADD3 UR20, {}, {}, {}", ur(), below(2) == 0 ? ur() : imm(), ur());
    case 19: return fmt::format("UIMAD UR20, {}, {}, {}", ur(), below(2) == 0 ? ur() : imm(), ur());
    case 20: return fmt::format("ULEA UR20, {}, {}, {:#x}", ur(), below(2) == 0 ? ur() : imm(), below(32));
    case 21: return fmt::format("USHF.L.U32 UR20, {}, {}, {}", ur(), below(2) == 0 ? ur() : imm(), ur());
    case 22: return fmt::format("ULOP3.LUT UR20, {}, {}, {}, {:#x}, !UPT", ur(), below(2) == 0 ? ur() : imm(), ur(), below(256));
    case 23: return fmt::format("IABS R20, {}", r());
    case 24: return fmt::format("SEL R20, {}, {}, P{}", r(), s(), below(7));
    default: return fmt::format("POPC R20, {}", r());
  }
}

TEST(RegisterTerms, AreWhatIsComputedByEveryModifier) {
  constexpr uint32_t texts = 6'000, words_of_a_text = 12;
  const sass::Arch& arch = **sass::find_arch(90);
  std::mt19937 random(1);
  std::map<std::string_view, unsigned> claimed;
  unsigned executed = 0;
  for (uint32_t k = 0; k < texts; ++k) {
    const std::string text = drawn_text(random);
    const auto assembled = sass::assemble(arch, text, 0);
    if (!assembled) continue;   // some have another name, as IMAD by 1
    Warp warp(random);
    for (uint32_t variant = 0; variant < words_of_a_text; ++variant) {
      sass::RawInst w = *assembled;
      // Signs, carries, widths, high words, modes: [91:72] and, of a register, [63:58]; and a guard.
      for (unsigned n = random() % 4; n != 0; --n) w.hi ^= uint64_t{1} << (8 + random() % 20);
      if (random() % 4 == 0 && text.find("0x") == std::string::npos) w.lo ^= uint64_t{1} << (58 + random() % 6);
      if (random() % 4 == 0 && text.starts_with("SHFL")) w.lo ^= uint64_t{1} << (40 + random() % 20);   // clamp, lane, mode
      if (random() % 4 == 0) w.lo = (w.lo & ~(uint64_t{15} << 12)) | uint64_t{random() % 16} << 12;
      const unsigned before = warp.claims;
      const auto wrong = warp.differs(w);
      if (!wrong) continue;
      ++executed;
      claimed[sass::effects(arch, w, 0).mnemonic] += warp.claims - before;
      ASSERT_EQ(*wrong, "") << sass::print(arch, w, 0) << " from " << text;
    }
  }
  EXPECT_GT(executed, texts * words_of_a_text / 3);
  for (std::string_view name : {"IADD3", "IMAD", "LEA", "SHF", "LOP3", "PRMT", "VIADD", "MOV", "SHFL", "R2UR", "UIADD3", "UIMAD", "ULEA", "USHF", "ULOP3"})
    EXPECT_GT(claimed[name], 100u) << name;
}

}  // namespace
}  // namespace xtrace::interp_test
