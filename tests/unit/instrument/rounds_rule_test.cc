// rounds-counted, condition by condition, on a few words made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instrument/sass/encode.h"
#include "instrument/scratch.h"
#include "tests/unit/instrument/made_view.h"

namespace xtrace::instrument::test::rounds_rule_test {
namespace {

namespace enc = sass::enc;
using enc::Gpr, enc::Ureg;
using testing::HasSubstr;

constexpr Gpr counter{20}, lanes{21}, data{4};
sass::RawInst stored(Ureg base, int32_t place, Gpr what, enc::Size size = enc::Size::b32) { return enc::stg(enc::UniformAddress{base, enc::RZ, place}, what, size); }
const sass::RawInst zero = enc::mov_imm(counter, 0), one_more = enc::iadd3_imm(counter, counter, 1, enc::RZ), moves = enc::uiadd3_imm(Ureg{4}, Ureg{4}, 16);
const sass::RawInst head = stored(Ureg{4}, 0, data), counts = stored(Ureg{4}, 8, counter);

struct Blocks3 {
  std::vector<Word> entry{ins(zero), own(enc::mov(Gpr{8}, Gpr{7}))};
  std::vector<Word> loop{ins(one_more), own(enc::bra(0x10, 0x10))};
  // Words that only look like what is checked: a copy of the counter, a store that is no head, one of the kernel.
  std::vector<Word> record{ins(stored(Ureg{6}, 16, data)), own(stored(Ureg{6}, 0, data)), ins(head), ins(enc::mov(Gpr{22}, counter)), ins(counts), ins(zero), ins(moves),
                           own(enc::exit())};
  std::vector<std::vector<uint32_t>> successors{{1}, {1, 2}, {}};
};
MadeView made(const Blocks3& b) {
  std::vector<Word> words;
  std::vector<uint32_t> originals;
  for (const auto* block : {&b.entry, &b.loop, &b.record}) {
    words.insert(words.end(), block->begin(), block->end());
    originals.push_back(static_cast<uint32_t>(std::count_if(block->begin(), block->end(), [](const Word& w) { return !w.inserted; })));
  }
  MadeView m(words, originals, b.successors);
  m.v.old_registers = 16 + reserved_registers;
  m.claims.rounds = counter.index;
  m.claims.loops = {false, true, false};
  m.claims.rounds_at = {0, 0, 8};
  m.claims.rounds_alike = {false, false, true};
  return m;
}
std::string found(const MadeView& m) {
  return m.found("rounds-counted", [&](Violations& out) { check_rounds(m.v, m.claims, m.blocks, out); });
}
template <typename F>
std::string with_code(F change) {
  Blocks3 b;
  change(b);
  return found(made(b));
}
template <typename F>
std::string with_claims(F change) {
  MadeView m = made(Blocks3());
  change(m);
  return found(m);
}

TEST(RoundsRule, CountsAsTheyShouldBe) { EXPECT_EQ(found(made(Blocks3())), ""); }

TEST(RoundsRule, Claims) {
  EXPECT_THAT(with_claims([](MadeView& m) { m.claims.loops.pop_back(); }), HasSubstr("not a claim for each block"));
  EXPECT_THAT(with_claims([](MadeView& m) { m.claims.rounds_at.pop_back(); }), HasSubstr("not a claim for each block"));
  EXPECT_THAT(with_claims([](MadeView& m) { m.claims.rounds_alike.pop_back(); }), HasSubstr("not a claim for each block"));
  EXPECT_THAT(with_claims([](MadeView& m) { m.v.old_registers = counter.index + 1 + reserved_registers; }), HasSubstr("is a register of the kernel"));
  EXPECT_EQ(with_claims([](MadeView& m) { m.v.old_registers = counter.index + reserved_registers; }), "");
  EXPECT_THAT(with_claims([](MadeView& m) { m.v.prologue_words = 1; }), HasSubstr("the prologue writes the counter"));
}

TEST(RoundsRule, NothingElseWritesTheCounter) {
  const auto in_loop = [](const Word& w) { return with_code([&](Blocks3& b) { b.loop.insert(b.loop.begin(), w); }); };
  const char* wrong = "writes the counter";
  EXPECT_THAT(in_loop(own(one_more)), HasSubstr(wrong));                                    // the kernel's
  EXPECT_THAT(in_loop(ins(enc::iadd3_imm(counter, Gpr{3}, 0, enc::RZ))), HasSubstr(wrong));
  EXPECT_THAT(in_loop(ins(enc::iadd3_imm(counter, counter, 2, enc::RZ))), HasSubstr(wrong));
  EXPECT_THAT(in_loop(ins(enc::mov_imm(counter, 1))), HasSubstr(wrong));
  EXPECT_THAT(in_loop(ins(enc::with_guard(one_more, enc::Pred{1}))), HasSubstr(wrong));
  sass::RawInst and_more = one_more;
  set_bits(and_more, bits(71, 64), 3);   // and R3
  EXPECT_THAT(in_loop(ins(and_more)), HasSubstr(wrong));
  sass::RawInst other = one_more;
  set_bits(other, bits(11, 0), 0x812);   // LOP3
  EXPECT_THAT(in_loop(ins(other)), HasSubstr(wrong));
  EXPECT_THAT(in_loop(ins(one_more)), HasSubstr("one more 2 times in block 1, expected 1"));
  EXPECT_THAT(with_code([](Blocks3& b) { b.loop.erase(b.loop.begin()); }), HasSubstr("one more 0 times in block 1"));
}

TEST(RoundsRule, OnlyLoopsOfOneBlockThatARecordFollows) {
  const char* none = "block 1 is no loop that could be counted";
  EXPECT_THAT(with_code([](Blocks3& b) { b.successors[1] = {1, 2, 0}; }), HasSubstr(none));
  EXPECT_THAT(with_code([](Blocks3& b) { b.successors[1] = {2, 0}; }), HasSubstr(none));
  EXPECT_THAT(with_code([](Blocks3& b) { b.loop.insert(b.loop.begin(), ins(zero)); }), HasSubstr(none));
  EXPECT_THAT(with_claims([](MadeView& m) { m.claims.rounds_at[2] = 0; }), HasSubstr("lanes leave block 1 for block 2, which does not record their rounds"));
  EXPECT_THAT(with_code([](Blocks3& b) { b.entry.erase(b.entry.begin()); }), HasSubstr("the counter may not be 0 on the way from block 0 to block 1"));
  EXPECT_THAT(with_code([](Blocks3& b) { b.entry.erase(b.entry.begin()), b.successors[0] = {1, 2}; }), HasSubstr("on the way from block 0 to block 2"));
  MadeView m = made({.entry = {ins(one_more), own(enc::bra(0, 0))}, .loop = {own(enc::mov(Gpr{8}, Gpr{7}))}, .successors = {{0, 2}, {2}, {}}});
  m.claims.loops = {true, false, false};
  EXPECT_THAT(found(m), HasSubstr("nobody has set the counter to 0 in front of the kernel"));
}

TEST(RoundsRule, TheRecord) {
  const auto record = [](std::vector<Word> words) {
    return with_code([&](Blocks3& b) {
      b.record = std::move(words);
      b.record.push_back(own(enc::exit()));
    });
  };
  EXPECT_EQ(record({ins(head), ins(counts), ins(zero), ins(moves)}), "");
  const char* wrong = "is not the counts of block 2";
  EXPECT_THAT(record({ins(head), ins(zero), ins(counts), ins(moves)}), HasSubstr(wrong));    // no longer the counter
  EXPECT_THAT(record({ins(head), ins(moves), ins(counts), ins(zero)}), HasSubstr(wrong));    // into the next record
  EXPECT_THAT(record({ins(counts), ins(zero), ins(moves)}), HasSubstr(wrong));               // behind no head
  EXPECT_THAT(record({ins(head), ins(stored(Ureg{4}, 12, counter)), ins(zero), ins(moves)}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(head), ins(stored(Ureg{6}, 8, counter)), ins(zero), ins(moves)}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(head), ins(stored(Ureg{4}, 8, counter, enc::Size::b64)), ins(zero), ins(moves)}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(head), ins(enc::with_guard(counts, enc::Pred{1})), ins(zero), ins(moves)}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(head), ins(enc::stg(enc::UniformAddress{Ureg{4}, lanes, 8}, counter, enc::Size::b32)), ins(zero), ins(moves)}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(head), ins(zero), ins(moves)}), HasSubstr("the counter is stored 0 times in block 2"));
  EXPECT_THAT(record({ins(head), ins(counts), ins(counts), ins(zero), ins(moves)}), HasSubstr("the counter is stored 2 times in block 2"));
}

// Where lanes leave one by one, each stores its own: at four times its number, which the prologue sets, in blocks that are executed once.
TEST(RoundsRule, PlacesOfLanes) {
  const auto with_lanes = [](auto change) {
    Blocks3 b;
    for (Word& w : b.record)
      if (w.w == counts) w.w = enc::stg(enc::UniformAddress{Ureg{4}, lanes, 8}, counter, enc::Size::b32);
    change(b);
    MadeView m = made(b);
    m.claims.rounds_alike = {false, false, false};
    m.claims.lane_offset = lanes.index;
    return found(m);
  };
  const Word sets = ins(enc::mov_imm(lanes, 4));
  const auto first = [&](std::vector<Word> Blocks3::*block) { return [=](Blocks3& b) { (b.*block).insert((b.*block).begin(), sets); }; };
  EXPECT_EQ(with_lanes([](Blocks3&) {}), "");
  EXPECT_EQ(with_lanes(first(&Blocks3::entry)), "");   // the rest of the prologue
  const char* wrong = "what the prologue has set to 4 * lane is written again";
  EXPECT_THAT(with_lanes(first(&Blocks3::loop)), HasSubstr(wrong));
  EXPECT_THAT(with_lanes(first(&Blocks3::record)), HasSubstr(wrong));
  EXPECT_THAT(with_lanes([&](Blocks3& b) { first(&Blocks3::loop)(b), b.successors[0] = {1, 2}; }), HasSubstr(wrong));
}

}  // namespace
}  // namespace xtrace::instrument::test::rounds_rule_test
