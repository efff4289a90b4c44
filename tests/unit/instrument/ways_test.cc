// Regions in which lanes number their ways: which there are, and what the verifier says when numbers or stores are broken.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/assemble.h"
#include "instrument/sass/encode.h"
#include "tests/unit/instrument/sabotage.h"
#include "tests/unit/ways_code.h"

namespace xtrace::instrument::test {
namespace {

using Lines = std::vector<std::string>;

// collatz with these lines in place of its own.
Kernel assembled(Lines lines) {
  Kernel k = fixture_kernel("collatz");
  auto image = *cubin::Image::parse(k.cubin);
  const auto info = *cubin::kernel_info(image, k.name);
  Bytes text = image.sections()[info.text_section].data;
  lines.resize(0x29, "NOP");
  lines.push_back("EXIT");
  uint64_t at = 0;
  for (const std::string& line : lines) {
    auto w = sass::assemble(sm_90(), line, static_cast<int64_t>(at));
    EXPECT_TRUE(w) << line;
    sass::Control c;
    c.stall = 15;
    c.keep_issuing = false;
    c.wait_mask = line.find(", R4, ") != std::string::npos ? 1 : 0;
    if (line.starts_with("S2R")) c.write_barrier = 0;
    sass::set_control(*w, c);
    write_at(std::span(text), at, *w);
    at += sass::inst_bytes;
  }
  image.set_section_data(info.text_section, std::move(text));
  k.cubin = *image.write();
  return k;
}

bool inside(const wire::Block& b) { return (b.first_pc >= 0x60 && b.first_pc < 0x1f0) || b.first_pc == 0x290; }

// Under `block` with short records. `executions`: of blocks of the region; of all others 8.
Case ways_case(const Lines& lines, uint64_t executions = 100, bool table = false, bool full = false) {
  Case c{assembled(lines), {}, {}};
  const auto splicer = Splicer::create(c.kernel.cubin, c.kernel.name, small_shape());
  EXPECT_TRUE(splicer);
  wire::SlotLayout layout = some_layout(small_shape(), table, false);
  layout.index_bits = splicer->index_bits();
  layout.short_records = true;
  layout.lead_bytes = sizeof(wire::SlotHead);
  Plan plan = plan_of(ProbeKind::block);
  for (const wire::Block& b : splicer->blocks()) {
    plan.executions.push_back(inside(b) ? executions : 8);
    plan.full_blocks.push_back(full && b.first_pc == 0x1f0);
  }
  auto spliced = splicer->splice(plan, layout);
  EXPECT_TRUE(spliced) << (spliced ? "" : spliced.error().to_string());
  if (spliced) c.spliced = std::move(*spliced);
  c.claims = c.spliced.claims;
  return c;
}
uint32_t block_at(const Case& c, uint32_t pc) {
  const auto& blocks = c.spliced.map.blocks;
  return static_cast<uint32_t>(std::ranges::find_if(blocks, [pc](const wire::Block& b) { return b.first_pc == pc; }) - blocks.begin());
}

TEST(Ways, AreNumbered) {
  for (const bool table : {false, true}) {
    const Case c = ways_case(code_with_ways(), 100, table);
    ASSERT_TRUE(c.claims.ways);
    EXPECT_TRUE(c.verify().empty());
    std::set<uint32_t> numbered, numbers;
    for (const wire::Block& b : c.spliced.map.blocks) {
      EXPECT_EQ(b.numbered, inside(b)) << b.first_pc;
      EXPECT_EQ(b.has_ways, b.first_pc == 0x1f0);
      EXPECT_EQ(b.way_adds != 0, b.first_pc == 0x1d0 || b.first_pc == 0x290) << b.first_pc;
      if (b.numbered) { EXPECT_TRUE(b.implied && b.record_bytes == 0) << b.first_pc; }
      if (b.way_number != 0) numbered.insert(b.first_pc);
      numbers.insert(b.way_number);
    }
    // A number is enough for a way to the BSYNC, one to 0x1d0 and one to the last EXIT: these two add what tells them.
    EXPECT_EQ(numbered, (std::set<uint32_t>{0x10, 0xc0, 0x120, 0x180, 0x1c0}));
    EXPECT_EQ(numbers.size(), 6u);
    const wire::Block &from = c.spliced.map.blocks[block_at(c, 0x10)], &to = c.spliced.map.blocks[block_at(c, 0x1f0)];
    EXPECT_NE(from.way_number, 0u);
    EXPECT_EQ(from.record_bytes, 8u);
    EXPECT_EQ(to.rounds_at, 8u);
    EXPECT_EQ(to.record_bytes, 8 + wire::column_bytes);
    EXPECT_EQ(c.spliced.map.layout.ends_at, sizeof(wire::SlotHead));
  }
  EXPECT_EQ(ways_case(code_with_ways(), 100, false, true).spliced.map.blocks[block_at(ways_case(code_with_ways()), 0x1f0)].rounds_at, 4u);
}

// A column, and a store wherever lanes may end, cost something.
TEST(Ways, WhereItPays) {
  EXPECT_FALSE(ways_case(code_with_ways(), 1).claims.ways);
  EXPECT_TRUE(ways_case(code_with_ways(), 16).claims.ways);
}

TEST(Ways, WhatIsNoRegion) {
  const auto is_one = [](size_t line, const char* instead) {
    Lines lines = code_with_ways();
    lines[line] = instead;
    const Case c = ways_case(lines);
    EXPECT_TRUE(c.verify().empty()) << instead;
    return c.claims.ways.has_value();
  };
  EXPECT_TRUE(is_one(0x1c, "IADD3 R8, RZ, 0x2, RZ"));
  EXPECT_FALSE(is_one(0x1c, "S2R R8, SR_LANEID"));     // goes through a queue
  EXPECT_FALSE(is_one(0x1c, "IADD3 R8, R4, R4, RZ"));  // waits
  EXPECT_FALSE(is_one(0x1c, "WARPSYNC.ALL"));          // lanes meet
  EXPECT_FALSE(is_one(0x1e, "NOP"));                   // leads back to the block in front of it alone
  EXPECT_FALSE(is_one(0x20, "BRA 0xc0"));              // is entered in the middle
  EXPECT_FALSE(is_one(0x19, "@P0 BRA 0x100"));         // leads back
  EXPECT_FALSE(is_one(0x1b, "@P0 BRA 0x200"));         // leads to two places
}

class SabotageWays : public testing::Test {
 protected:
  void SetUp() override {
    c = ways_case(code_with_ways());
    ASSERT_TRUE(c.claims.ways);
    ASSERT_TRUE(c.verify().empty());
  }
  template <typename F>
  uint32_t word(F test) {
    return find_word(c, [&](uint32_t k, const sass::Effects& fx) { return inserted(c, k) && test(fx, word_at(c, c.spliced.cubin, k)); });
  }
  uint32_t number(unsigned which = 0) {
    return word([&](const sass::Effects& fx, const auto&) { return fx.mnemonic == "MOV" && fx.def.gpr.test(*c.claims.ways) && which-- == 0; });
  }
  uint32_t add() {
    return word([&](const sass::Effects& fx, const auto&) { return fx.mnemonic == "IADD3" && fx.def.gpr.test(*c.claims.ways); });
  }
  // Of lanes that end, in front of the EXIT with a guard; of lanes behind the region.
  uint32_t end() {
    return word([&](const sass::Effects& fx, const auto&) { return fx.kind == sass::MemKind::store && fx.use.ur.test(*c.claims.ends); });
  }
  uint32_t store() {
    return word([&](const sass::Effects& fx, const auto&) {
      return fx.kind == sass::MemKind::store && fx.use.gpr.test(*c.claims.ways) && !fx.use.ur.test(*c.claims.ends);
    });
  }
  template <typename F>
  bool found(uint32_t k, F change) {
    return broken(c, k, change).contains("ways-numbered");
  }
  template <typename F>
  bool denied(F change) {
    Case other = c;
    change(other.claims);
    return rules(other.verify()).contains("ways-numbered");
  }
  static void leave_out(sass::RawInst& w) {
    sass::Control kept = sass::get_control(w);
    w = sass::enc::nop();
    kept.read_barrier = kept.write_barrier = sass::Control::no_barrier;
    sass::set_control(w, kept);
  }
  template <typename F>
  static auto changed(BitRange field, F change) {
    return [=](sass::RawInst& w) { set_bits(w, field, change(get_bits(w, field))); };
  }
  static constexpr BitRange guard = bits(15, 12), imm = bits(63, 32), to = bits(23, 16), a = bits(31, 24), b = bits(39, 32), place = bits(63, 40), ur = bits(69, 64);
  Case c;
};

TEST_F(SabotageWays, Numbers) {
  for (const unsigned which : {0u, 1u, 4u}) {
    EXPECT_TRUE(found(number(which), leave_out)) << which;
    EXPECT_TRUE(found(number(which), changed(imm, [](uint64_t n) { return n + 1; })));
    EXPECT_TRUE(found(number(which), changed(guard, [](uint64_t) { return 0; })));
    EXPECT_TRUE(found(number(which), changed(to, [](uint64_t r) { return r ^ 1; })));
  }
  EXPECT_TRUE(found(add(), leave_out));
  EXPECT_TRUE(found(add(), changed(imm, [](uint64_t n) { return n + 1; })));
  EXPECT_TRUE(found(add(), changed(a, [](uint64_t r) { return r ^ 1; })));
  EXPECT_TRUE(found(add(), changed(guard, [](uint64_t) { return 8; })));
}

// Two ways with one number, and said to be so.
TEST_F(SabotageWays, WaysAlike) {
  const uint32_t first = block_at(c, 0xc0), second = block_at(c, 0x120);
  ASSERT_NE(c.claims.way_numbers[first].number, 0u);
  ASSERT_NE(c.claims.way_numbers[second].number, 0u);
  const uint32_t number = c.claims.way_numbers[second].number, same = c.claims.way_numbers[first].number;
  const uint32_t k = word([&](const sass::Effects& fx, const sass::RawInst& w) { return fx.mnemonic == "MOV" && fx.def.gpr.test(*c.claims.ways) && get_bits(w, imm) == number; });
  Case other = c;
  other.claims.way_numbers[second].number = same;
  EXPECT_TRUE(broken(other, k, changed(imm, [same](uint64_t) { return same; })).contains("ways-numbered"));
  // The same with another number of its own is right.
  other.claims.way_numbers[second].number = number + 1000;
  EXPECT_TRUE(broken(other, k, changed(imm, [number](uint64_t) { return number + 1000; })).empty());
  // Nor may the sum be 0.
  const uint32_t through = block_at(c, 0x1d0);
  other = c;
  other.claims.way_numbers[through].adds = 0;
  EXPECT_TRUE(broken(other, add(), leave_out).contains("ways-numbered"));
}

TEST_F(SabotageWays, LanesThatEnd) {
  EXPECT_TRUE(found(end(), leave_out));
  EXPECT_TRUE(found(end(), changed(guard, [](uint64_t p) { return p ^ 8; })));
  EXPECT_TRUE(found(end(), changed(guard, [](uint64_t) { return 7; })));
  EXPECT_TRUE(found(end(), changed(place, [](uint64_t p) { return p + 4; })));
  EXPECT_TRUE(found(end(), changed(a, [](uint64_t r) { return r ^ 1; })));
  EXPECT_TRUE(found(end(), changed(b, [](uint64_t r) { return r ^ 1; })));
  EXPECT_TRUE(found(end(), changed(ur, [](uint64_t r) { return r ^ 2; })));
  EXPECT_TRUE(found(end(), changed(bits(75, 73), [](uint64_t) { return 5; })));   // 64 bits
}
TEST_F(SabotageWays, LanesBehind) {
  EXPECT_TRUE(found(store(), leave_out));
  EXPECT_TRUE(found(store(), changed(guard, [](uint64_t) { return 0; })));
  EXPECT_TRUE(found(store(), changed(place, [](uint64_t p) { return p + 4; })));
  EXPECT_TRUE(found(store(), changed(a, [](uint64_t r) { return r ^ 1; })));
  EXPECT_TRUE(found(store(), changed(b, [](uint64_t r) { return r ^ 1; })));
  EXPECT_TRUE(found(store(), changed(ur, [](uint64_t r) { return r ^ 2; })));
}

// Nobody else writes to the places of lanes that end, the number, or what the prologue has set.
TEST_F(SabotageWays, Elsewhere) {
  const uint32_t record = word([&](const sass::Effects& fx, const auto&) { return fx.kind == sass::MemKind::store && !fx.use.gpr.test(*c.claims.ways); });
  EXPECT_TRUE(found(record, changed(ur, [&](uint64_t) { return *c.claims.ends; })));
  const uint32_t vote = word([&](const sass::Effects& fx, const auto&) { return fx.mnemonic == "VOTE"; });
  EXPECT_TRUE(found(vote, changed(to, [&](uint64_t) { return *c.claims.ways; })));
  EXPECT_TRUE(found(number(3), changed(to, [&](uint64_t) { return *c.claims.lane_offset; })));
  const uint32_t moves = word([&](const sass::Effects& fx, const auto&) { return fx.mnemonic == "UIADD3"; });
  EXPECT_TRUE(found(moves, changed(bits(21, 16), [&](uint64_t) { return *c.claims.ends; })));
  EXPECT_TRUE(found(moves, changed(bits(21, 16), [&](uint64_t) { return *c.claims.ends + 1; })));
}

// By the prologue: where lanes that end store is where the first record goes.
TEST_F(SabotageWays, PlaceOfLanesThatEnd) {
  for (const bool table : {false, true}) {
    c = ways_case(code_with_ways(), 100, table);
    std::vector<uint32_t> words;
    for (uint32_t k = 0; k < word_count(c); ++k)
      if (const sass::Effects fx = effects_at(c, k); inserted(c, k) && (fx.def.ur.test(*c.claims.ends) || fx.def.ur.test(*c.claims.ends + 1u))) words.push_back(k);
    ASSERT_EQ(words.size(), table ? 3u : 2u);
    for (const uint32_t k : words) {
      EXPECT_TRUE(found(k, leave_out));
      EXPECT_TRUE(found(k, [&](sass::RawInst& w) {
        const bool moves = effects_at(c, k).mnemonic == "R2UR";
        set_bits(w, moves ? a : imm, get_bits(w, moves ? a : imm) + 1);
      }));
    }
  }
}

TEST_F(SabotageWays, OtherClaims) {
  const uint32_t first = block_at(c, 0x60), behind = block_at(c, 0x1f0), from = block_at(c, 0x10);
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.numbered[first] = false; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.numbered[behind] = true; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.numbered[from] = true; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.ways_at[behind] = 0; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.ways_at[behind] += 4; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.ways_at[from] = 8; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.way_numbers[from].number += 1; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.way_numbers[from].adds = 1; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.ways = 0; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { *s.ends -= 2; }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.ends.reset(); }));
  EXPECT_TRUE(denied([&](SpliceClaims& s) { s.numbered.pop_back(); }));
}

}  // namespace
}  // namespace xtrace::instrument::test
