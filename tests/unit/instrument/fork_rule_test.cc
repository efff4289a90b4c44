// fork-recorded, condition by condition, on a few words made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instrument/sass/encode.h"
#include "tests/unit/instrument/made_view.h"

namespace xtrace::instrument::test::fork_rule_test {
namespace {

namespace enc = sass::enc;
using enc::Gpr, enc::Pred, enc::Ureg;
using testing::HasSubstr;

const sass::RawInst other_cursor = enc::uiadd3_imm(Ureg{6}, Ureg{6}, 8);   // of the kernel
const sass::RawInst head = enc::mov_imm(Gpr{4}, 7), moves = enc::uiadd3_imm(Ureg{4}, Ureg{4}, 8);
const sass::RawInst store = enc::stg(enc::UniformAddress{Ureg{4}}, Gpr{4}, enc::Size::b64);
const sass::RawInst branch = enc::with_guard(enc::bra(0x10, 0x30), Pred{0});
sass::RawInst with_bits(sass::RawInst w, BitRange range, uint64_t value) {
  set_bits(w, range, value);
  return w;
}
const sass::RawInst votes = with_bits(enc::vote_any(Gpr{5}, Pred{0}), bit(90), 1);   // lanes in which P0 does not hold

// Block 0 forks to 1 and to 2, which 1 leads to as well. `record`: what is inserted in front of the branch.
MadeView with(const std::vector<Word>& record, const std::vector<Word>& next = {own(enc::mov(Gpr{9}, Gpr{8}))}) {
  std::vector<Word> words = {own(other_cursor)};
  words.insert(words.end(), record.begin(), record.end());
  words.push_back(own(branch));
  words.insert(words.end(), next.begin(), next.end());
  words.push_back(own(enc::exit()));
  uint32_t originals = 0;
  for (const Word& w : next) originals += !w.inserted;
  for (const Word& w : record) originals += 0x100u * !w.inserted;
  MadeView m(words, {2 + originals / 0x100, originals % 0x100, 1}, {{1, 2}, {2}, {}});
  m.claims.forks = {0};
  return m;
}
const std::vector<Word> record = {ins(head), ins(votes), ins(store), ins(moves)};
std::string found(const MadeView& m) {
  return m.found("fork-recorded", [&](Violations& out) { check_forks(m.v, m.claims, m.blocks, out); });
}
template <typename F>
std::string found_after(F change) {
  MadeView m = with(record);
  change(m);
  return found(m);
}

TEST(ForkRule, ARecordAsItShouldBe) { EXPECT_EQ(found(with(record)), ""); }

TEST(ForkRule, TheNextBlockHasNoRecord) {
  EXPECT_THAT(found(with(record, {ins(enc::stg(enc::UniformAddress{Ureg{4}}, Gpr{4}, enc::Size::b32)), own(enc::mov(Gpr{9}, Gpr{8}))})),
              HasSubstr("block 1 has a record of its own"));
  EXPECT_EQ(found(with(record, {ins(enc::mov(Gpr{10}, Gpr{8})), own(enc::mov(Gpr{9}, Gpr{8}))})), "");              // that is no store
  EXPECT_EQ(found(with(record, {own(enc::stg(enc::VectorAddress{Gpr{2}}, Gpr{8}, enc::Size::b32)), own(enc::mov(Gpr{9}, Gpr{8}))})), "");   // the kernel's
}

TEST(ForkRule, OnlyAGuardedBranchForks) {
  const auto branch_with = [](auto change) { return found_after([&](MadeView& m) { change(m.v.old.insts[1].fx); }); };
  EXPECT_THAT(branch_with([](sass::Effects& fx) { fx.flow = sass::Flow::next; }), HasSubstr("block 0 does not fork"));
  EXPECT_THAT(branch_with([](sass::Effects& fx) { fx.guarded = false; }), HasSubstr("block 0 does not fork"));
  EXPECT_THAT(branch_with([](sass::Effects& fx) { fx.falls_through = false; }), HasSubstr("block 0 does not fork"));
  EXPECT_THAT(branch_with([](sass::Effects& fx) { fx.use.upred = 1; }), HasSubstr("block 0 does not fork"));
  EXPECT_THAT(branch_with([](sass::Effects& fx) { fx.use.ur.set(3); }), HasSubstr("block 0 does not fork"));
  EXPECT_THAT(branch_with([](sass::Effects& fx) { fx.use.pred = 3; }), HasSubstr("not one predicate alone decides"));
}

TEST(ForkRule, ToTheNextBlockAndNobodyElseComesThere) {
  const auto ways = [](std::vector<std::vector<uint32_t>> successors) { return found_after([&](MadeView& m) { m.blocks.successors = std::move(successors); }); };
  EXPECT_THAT(ways({{1, 2, 0}, {2}, {}}), HasSubstr("block 0 does not fork"));
  EXPECT_THAT(ways({{1}, {2}, {}}), HasSubstr("block 0 does not fork"));
  EXPECT_THAT(ways({{2, 0}, {2}, {}}), HasSubstr("block 0 does not fork"));
  EXPECT_THAT(ways({{1, 2}, {2}, {1}}), HasSubstr("block 2 leads to block 1, too"));
  EXPECT_THAT(found_after([](MadeView& m) { m.blocks.blocks[1].first = 3; }), HasSubstr("block 0 does not fork"));   // code that nobody reaches lies between
  EXPECT_THAT(found_after([](MadeView& m) { m.claims.forks = {2}; }), HasSubstr("there is no block behind block 2"));
}

TEST(ForkRule, WhoFallsThrough) {
  const auto recorded = [](std::vector<Word> words) { return found(with(words)); };
  const char* wrong = "is not who falls through behind block 0";
  EXPECT_THAT(recorded({ins(head), ins(with_bits(votes, bits(11, 0), 0x802)), ins(store), ins(moves)}), HasSubstr(wrong));     // MOV
  EXPECT_THAT(recorded({ins(head), ins(with_bits(votes, bits(73, 72), 0)), ins(store), ins(moves)}), HasSubstr(wrong));        // VOTE.ALL
  EXPECT_THAT(recorded({ins(head), ins(enc::vote_any(Gpr{5}, Pred{0})), ins(store), ins(moves)}), HasSubstr(wrong));           // who does not
  EXPECT_THAT(recorded({ins(head), ins(enc::with_guard(votes, Pred{1})), ins(store), ins(moves)}), HasSubstr(wrong));
  EXPECT_THAT(recorded({ins(head), ins(enc::mov_imm(Gpr{5}, 1)), ins(store), ins(moves)}), HasSubstr(wrong));
  EXPECT_THAT(recorded({ins(head), ins(votes), ins(enc::mov_imm(Gpr{5}, 1)), ins(store), ins(moves)}), HasSubstr(wrong));
  EXPECT_THAT(recorded({ins(head), ins(votes), ins(enc::isetp_imm(Pred{0}, enc::Compare::lt, false, Gpr{5}, 7)), ins(store), ins(moves)}), HasSubstr(wrong));
  EXPECT_THAT(recorded({ins(head), ins(votes), own(enc::mov(Gpr{8}, Gpr{7})), ins(store), ins(moves)}), HasSubstr(wrong));     // lanes may change there
  EXPECT_EQ(recorded({own(enc::mov(Gpr{8}, Gpr{7})), ins(head), ins(votes), ins(store), ins(moves)}), "");
}

TEST(ForkRule, OneStoreOfTheWholeRecord) {
  const auto stored_by = [](const sass::RawInst& w) { return found(with({ins(head), ins(votes), ins(w), ins(moves)})); };
  const char* wrong = "is not who falls through behind block 0";
  EXPECT_THAT(stored_by(enc::with_guard(store, Pred{1})), HasSubstr(wrong));
  EXPECT_THAT(stored_by(with_bits(store, bits(11, 0), 0x987)), HasSubstr(wrong));   // STL
  EXPECT_THAT(stored_by(enc::stg(enc::UniformAddress{Ureg{4}}, Gpr{4}, enc::Size::b32)), HasSubstr(wrong));
  EXPECT_THAT(stored_by(enc::stg(enc::UniformAddress{Ureg{4}, enc::RZ, 8}, Gpr{4}, enc::Size::b64)), HasSubstr(wrong));
  EXPECT_THAT(stored_by(enc::stg(enc::UniformAddress{Ureg{4}, Gpr{6}}, Gpr{4}, enc::Size::b64)), HasSubstr(wrong));
  EXPECT_THAT(stored_by(enc::stg(enc::UniformAddress{Ureg{4}}, Gpr{6}, enc::Size::b64)), HasSubstr(wrong));
  EXPECT_THAT(stored_by(enc::stg(enc::UniformAddress{Ureg{6}}, Gpr{4}, enc::Size::b64)), HasSubstr(wrong));   // where another register points
  EXPECT_THAT(found(with({ins(head), ins(votes), ins(moves)})), HasSubstr("0 stores in block 0"));
  EXPECT_THAT(found(with({ins(head), ins(votes), ins(store), ins(store), ins(moves)})), HasSubstr("2 stores in block 0"));
  EXPECT_THAT(found(with({ins(head), ins(votes), ins(store)})), HasSubstr(wrong));   // nothing moves
  EXPECT_THAT(found(with({ins(head), ins(votes), ins(store), ins(enc::uiadd3_imm(Ureg{4}, Ureg{4}, 16))})), HasSubstr(wrong));
  EXPECT_THAT(found(with({ins(head), ins(votes), ins(store), ins(enc::with_guard(moves, Pred{1}))})), HasSubstr(wrong));
}

}  // namespace
}  // namespace xtrace::instrument::test::fork_rule_test
