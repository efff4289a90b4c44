// Point probes: what they cover, and the verifier's rule for their records, tested by breaking them.
#include <gtest/gtest.h>

#include <set>

#include "instrument/sass/effects.h"
#include "instrument/sass/encode.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

namespace enc = sass::enc;
using Kind = wire::Value::Kind;

const sass::Arch& arch() { return **sass::find_arch(90); }

Asked some_values() {
  Asked asked;
  asked.reg.push_back({{}, {{Kind::vector, 0}, {Kind::vector, 2}, {Kind::uniform, 4}, {Kind::lanes, 0, true}, {Kind::clock}, {Kind::time}}, {}, {}});
  return asked;
}

Case point_case(const char* kernel, ProbeKind probe, Sites sites = {}) {
  const Kernel k = fixture_kernel(kernel);
  const LaunchShape shape = small_shape();
  Case c;
  c.kernel = k;
  const auto splicer = Splicer::create(k.cubin, k.name, shape);
  EXPECT_TRUE(splicer);
  auto spliced = splicer->asked(some_values()).sparse(sites).splice(plan_of(probe), some_layout(shape, false, false));
  EXPECT_TRUE(spliced) << spliced.error().to_string();
  c.spliced = std::move(*spliced);
  c.claims = c.spliced.claims;
  EXPECT_TRUE(c.verify().empty());
  return c;
}

// Of a probe, behind the prologue.
bool of_probe(const Case& c, uint32_t k) { return k >= c.claims.prologue_words && inserted(c, k); }

// MOV R, 0 fills up a store: nobody reads it.
bool is_filling(const sass::RawInst& w) { return (w.lo & 0xfff) == 0x802 && get_bits(w, bits(63, 32)) == 0; }

const std::vector<std::pair<const char*, ProbeKind>> cases = {
    {"reduce_sum", ProbeKind::branch}, {"reduce_sum", ProbeKind::sync},    {"saxpy", ProbeKind::reg},
    {"saxpy", ProbeKind::latency},     {"switch_table", ProbeKind::branch}};

// Every word of a record matters.
TEST(PointSabotage, NoWordCanBeLeftOut) {
  for (const auto& [kernel, probe] : cases) {
    SCOPED_TRACE(fmt::format("{} {}", kernel, probe_info(probe).name));
    const Case c = point_case(kernel, probe);
    size_t left_out = 0;
    const uint32_t end = word_count(c);
    for (uint32_t k = c.claims.prologue_words; k < end; ++k) {
      const sass::Effects fx = sass::effects(arch(), word_at(c, c.spliced.cubin, k), k * 16);
      // Pauses, and what finds the lane where no register is free for the whole kernel, are the latency rules' business.
      if (!of_probe(c, k) || fx.mnemonic == "NOP" || fx.mnemonic == "S2R" || fx.mnemonic == "SHF" || fx.mnemonic == "R2UR") continue;
      // The rest of a light prologue is no record.
      if (is_filling(word_at(c, c.spliced.cubin, k)) || k < c.claims.prologue_words + 40) continue;
      const auto found = broken(c, k, [](sass::RawInst& w) {
        const sass::Control control = sass::get_control(w);
        w = enc::nop();
        sass::set_control(w, control);
      });
      EXPECT_FALSE(found.empty()) << fx.mnemonic << " at " << k;
      ++left_out;
    }
    EXPECT_GT(left_out, 5u);
  }
}

// Changes of one field of the words with a mnemonic: how many of them were found, and by which rules.
template <typename F>
void expect_found(const Case& c, std::string_view mnemonic, F change) {
  size_t changed = 0;
  for (uint32_t k = c.claims.prologue_words + 40; k < word_count(c) && changed < 12; ++k) {
    const sass::RawInst w = word_at(c, c.spliced.cubin, k);
    if (!of_probe(c, k) || is_filling(w) || sass::effects(arch(), w, k * 16).mnemonic != mnemonic) continue;
    ++changed;
    EXPECT_TRUE(broken(c, k, change).contains("value-recorded")) << mnemonic << " at " << k;
  }
  EXPECT_GT(changed, 0u) << mnemonic;
}

TEST(PointSabotage, WrongWordsAreFound) {
  const Case reg = point_case("saxpy", ProbeKind::reg);
  expect_found(reg, "MOV", [](sass::RawInst& w) {   // the number of the point; another uniform register
    if ((w.lo & 0xfff) == 0x802) set_bits(w, bits(63, 32), get_bits(w, bits(63, 32)) ^ 1);
    else set_bits(w, bits(37, 32), get_bits(w, bits(37, 32)) ^ 1);
  });
  expect_found(reg, "CS2R", [](sass::RawInst& w) { set_bits(w, bits(79, 72), get_bits(w, bits(79, 72)) == 80 ? 82 : 80); });
  expect_found(reg, "VOTE", [](sass::RawInst& w) { set_bits(w, bit(90), get_bits(w, bit(90)) ^ 1); });
  expect_found(reg, "VOTE", [](sass::RawInst& w) { set_bits(w, bits(73, 72), 0); });   // all instead of any
  expect_found(reg, "STG", [](sass::RawInst& w) { set_bits(w, bits(63, 40), get_bits(w, bits(63, 40)) + 4); });
  expect_found(reg, "STG", [](sass::RawInst& w) { set_bits(w, bits(14, 12), 0); });    // by some lanes
  expect_found(reg, "UIADD3", [](sass::RawInst& w) { set_bits(w, bits(63, 32), get_bits(w, bits(63, 32)) + 16); });
  const Case sync = point_case("reduce_sum", ProbeKind::sync);
  expect_found(sync, "CS2R", [](sass::RawInst& w) { set_bits(w, bits(79, 72), 82); });
}

// Every nth execution: what counts, and who follows it.
TEST(PointSabotage, WrongCountersAreFound) {
  for (const auto& [kernel, probe, sites] : {std::tuple{"reduce_sum", ProbeKind::branch, Sites{1, 0, 5}}, {"saxpy", ProbeKind::reg, Sites{4, 1, 5}}}) {
    SCOPED_TRACE(kernel);
    const Case c = point_case(kernel, probe, sites);
    for (const char* mnemonic : {"UIADD3", "USHF", "UIMAD", "ISETP"})
      expect_found(c, mnemonic, [](sass::RawInst& w) {
        const sass::Control control = sass::get_control(w);
        w = enc::nop();
        sass::set_control(w, control);
      });
    expect_found(c, "UIADD3", [](sass::RawInst& w) { set_bits(w, bits(63, 32), 0xfffffffe); });   // counts by two
    expect_found(c, "USHF", [](sass::RawInst& w) { set_bits(w, bits(36, 32), 30); });
    expect_found(c, "UIMAD", [](sass::RawInst& w) { set_bits(w, bits(63, 32), get_bits(w, bits(63, 32)) + 1); });   // to six; a longer record
    expect_found(c, "ISETP", [](sass::RawInst& w) { set_bits(w, bits(78, 76), 2); });             // equal: all but every fifth
    expect_found(c, "STG", [](sass::RawInst& w) { set_bits(w, bits(14, 12), 7); });               // every time
    expect_found(c, "STG", [](sass::RawInst& w) { set_bits(w, bit(15), get_bits(w, bit(15)) ^ 1); });
  }
}

// A register that somebody else is still writing.
TEST(PointSabotage, ValuesAreWaitedFor) {
  const Case c = point_case("spmv", ProbeKind::reg);
  size_t waits = 0, found = 0;
  for (uint32_t k = c.claims.prologue_words + 40; k < word_count(c); ++k) {
    const sass::RawInst w = word_at(c, c.spliced.cubin, k);
    if (!of_probe(c, k) || sass::effects(arch(), w, k * 16).mnemonic != "STG" || sass::get_control(w).wait_mask == 0) continue;
    ++waits;
    found += broken(c, k, [](sass::RawInst& x) {
                sass::Control control = sass::get_control(x);
                control.wait_mask = 0;
                sass::set_control(x, control);
              }).contains("result-too-early");
  }
  EXPECT_GT(waits, 0u);
  EXPECT_GT(found, 0u);
}

// A register that the kernel's next instruction reads as well: that one may do so sooner than a store.
TEST(PointSabotage, StoresTakeLongerThanTheNextReader) {
  size_t shared = 0;
  for (const char* kernel : {"saxpy", "sgemm", "spmv", "collatz"}) {
    const Case c = point_case(kernel, ProbeKind::reg);
    for (uint32_t k = c.claims.prologue_words + 40; k + 2 < word_count(c); ++k) {
      const auto effects = [&](uint32_t word) { return sass::effects(arch(), word_at(c, c.spliced.cubin, word), word * 16); };
      const sass::Effects made = effects(k);
      if (of_probe(c, k) || !made.fixed_latency) continue;
      uint32_t store = k + 1, next = k + 1;   // the first store behind it, and the kernel's next instruction
      while (next + 1 < word_count(c) && of_probe(c, next)) ++next;
      while (store < next && effects(store).mnemonic != "STG") ++store;
      const sass::RegSet read = made.def.gpr & effects(store).use.gpr & effects(next).use.gpr;
      if (store == next || read.none() || store - k > 3) continue;
      ++shared;
      Bytes cubin = c.spliced.cubin;   // no pause between them
      for (uint32_t w = k; w < store; ++w) {
        sass::RawInst word = word_at(c, cubin, w);
        sass::Control control = sass::get_control(word);
        control.stall = 1;
        sass::set_control(word, control);
        set_word(c, cubin, w, word);
      }
      EXPECT_TRUE(rules(c.verify(cubin)).contains("result-too-early")) << kernel << " word " << k;
    }
  }
  EXPECT_GT(shared, 0u);
}

TEST(Points, AreRefusedByName) {
  const Kernel k = fixture_kernel("saxpy");
  const auto s = Splicer::create(k.cubin, k.name, small_shape());
  ASSERT_TRUE(s);
  const auto message = [&](const Splicer& splicer, ProbeKind probe) {
    const auto points = splicer.points(probe);
    return points ? std::string("points") : points.error().message;
  };
  EXPECT_EQ(message(*s, ProbeKind::reg), "reg was told no registers");
  EXPECT_EQ(message(*s, ProbeKind::custom), "custom was told nothing");
  EXPECT_EQ(message(*s, ProbeKind::range), "range was told no region");
  Asked asked;
  asked.reg.push_back({{}, {{Kind::vector, 200}}, {}, {}});
  EXPECT_EQ(message(s->asked(asked), ProbeKind::reg), "no instruction of kernel saxpy mentions R200");
  asked.reg[0] = {{}, {}, {{Kind::vector, 0}}, {}};
  EXPECT_TRUE(message(s->asked(asked), ProbeKind::reg).starts_with("nothing is executed behind saxpy@"));
  EXPECT_EQ(message(*s, ProbeKind::sync), "kernel saxpy has nothing there that sync records");
}

// Where barriers are left, each way round.
TEST(Points, StandOnBothSidesOfWhatLanesMayJoinAt) {
  const Kernel k = fixture_kernel("reduce_sum");
  const auto s = Splicer::create(k.cubin, k.name, small_shape());
  ASSERT_TRUE(s);
  const auto points = s->points(ProbeKind::sync);
  ASSERT_TRUE(points);
  size_t alone = 0, both = 0;
  for (const wire::Point& p : *points) {
    const bool bar = s->text(OrigPc{p.pc}).find("BAR") != std::string::npos;
    EXPECT_EQ(p.role == wire::Point::Role::single, bar) << s->text(OrigPc{p.pc});
    (bar ? alone : both) += 1;
    if (bar) {
      EXPECT_TRUE(p.after);
      ASSERT_EQ(p.values.size(), 2u);
      EXPECT_EQ(p.values[0].kind, Kind::clock_before);
    }
  }
  EXPECT_GT(alone, 0u);
  EXPECT_EQ(both % 2, 0u);
}

}  // namespace
}  // namespace xtrace::instrument::test
