// sector-filled, condition by condition, on a few words made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instrument/sass/encode.h"
#include "instrument/scratch.h"
#include "tests/unit/instrument/made_view.h"

namespace xtrace::instrument::test::sector_rule_test {
namespace {

namespace enc = sass::enc;
using enc::Gpr, enc::Pred, enc::Ureg;
using testing::HasSubstr;

constexpr Gpr place{20}, part{21}, lane{3}, data{4};
sass::RawInst stored(Gpr by, enc::Size size) { return enc::stg(enc::UniformAddress{Ureg{4}, by}, data, size); }
sass::RawInst mask(Gpr to, Gpr of, uint32_t bits_kept) { return enc::lop3_imm(to, of, bits_kept, enc::RZ, 0xc0); }
sass::RawInst with_bits(sass::RawInst w, BitRange range, uint64_t value) {
  set_bits(w, range, value);
  return w;
}
const sass::RawInst makes = mask(place, lane, 28), halves = mask(part, place, 24), quarters = mask(part, place, 16);
const sass::RawInst one = stored(place, enc::Size::b32), two = stored(part, enc::Size::b64), four = stored(part, enc::Size::b128);

// The place is made in front of block 0; `record` is of block 1, which is full, `behind` of block 2, which is not.
MadeView made(const std::vector<Word>& record, const std::vector<Word>& behind = {}, const std::vector<Word>& entry = {ins(makes)}) {
  std::vector<Word> words = entry;
  words.push_back(own(enc::mov(Gpr{8}, Gpr{7})));
  words.insert(words.end(), record.begin(), record.end());
  words.push_back(own(enc::mov(Gpr{8}, Gpr{7})));
  words.insert(words.end(), behind.begin(), behind.end());
  words.push_back(own(enc::exit()));
  const auto originals = [](const std::vector<Word>& block) { return 1 + static_cast<uint32_t>(std::count_if(block.begin(), block.end(), [](const Word& w) { return !w.inserted; })); };
  MadeView m(words, {originals(entry), originals(record), originals(behind)}, {{1}, {2}, {}});
  m.v.old_registers = 16 + reserved_registers;
  m.claims.sector_word = place.index;
  m.claims.sector_full = {false, true, false};
  return m;
}
std::string found(const MadeView& m) {
  return m.found("sector-filled", [&](Violations& out) { check_sectors(m.v, m.claims, m.blocks, out); });
}

TEST(SectorRule, RecordsAsTheyShouldBe) {
  EXPECT_EQ(found(made({ins(one), ins(halves), ins(two), ins(quarters), ins(four)})), "");
  EXPECT_EQ(found(made({ins(one)}, {ins(stored(enc::RZ, enc::Size::b64))})), "");                              // its lanes may be missing
  EXPECT_EQ(found(made({own(enc::stg(enc::VectorAddress{Gpr{2}}, data, enc::Size::b32)), ins(one)})), "");    // the kernel's
}

TEST(SectorRule, Claims) {
  MadeView m = made({ins(one)});
  m.claims.sector_full.pop_back();
  EXPECT_THAT(found(m), HasSubstr("not a claim for each block"));
  m = made({ins(one)});
  m.v.old_registers = place.index + 1 + reserved_registers;
  EXPECT_THAT(found(m), HasSubstr("is in a register of the kernel"));
  m.v.old_registers = place.index + reserved_registers;
  EXPECT_EQ(found(m), "");
}

TEST(SectorRule, ThePlaceIsMadeOnce) {
  EXPECT_THAT(found(made({ins(one)}, {}, {})), HasSubstr("the place in a sector is made 0 times"));
  EXPECT_THAT(found(made({ins(one)}, {}, {ins(makes), ins(makes)})), HasSubstr("the place in a sector is made 2 times"));
  const char* wrong = "writes the place in a sector";
  EXPECT_THAT(found(made({ins(makes), ins(one)})), HasSubstr(wrong));                      // in a block that may be executed again
  EXPECT_THAT(found(made({ins(one)}, {}, {own(makes)})), HasSubstr(wrong));               // by the kernel
  EXPECT_THAT(found(made({ins(one)}, {}, {ins(mask(place, lane, 24))})), HasSubstr(wrong));
  EXPECT_THAT(found(made({ins(one)}, {}, {ins(enc::with_guard(makes, Pred{1}))})), HasSubstr(wrong));
  EXPECT_THAT(found(made({ins(one)}, {}, {ins(with_bits(makes, bits(11, 0), 0x810))})), HasSubstr(wrong));      // IADD3
  EXPECT_THAT(found(made({ins(one)}, {}, {ins(with_bits(makes, bits(71, 64), 5))})), HasSubstr(wrong));         // and something of R5
  EXPECT_THAT(found(made({ins(one)}, {}, {ins(with_bits(makes, bits(79, 72), 0xfc))})), HasSubstr(wrong));      // or
  MadeView m = made({ins(makes), ins(one)}, {}, {});   // or in the prologue, wherever it stands
  m.v.prologue_first = 1;
  m.v.prologue_words = 1;
  EXPECT_EQ(found(m), "");
}

TEST(SectorRule, EveryStoreFillsItsSectors) {
  const char* wrong = "writes a sector in part";
  const auto record = [](std::vector<Word> words) { return found(made(words)); };
  EXPECT_THAT(record({ins(stored(enc::RZ, enc::Size::b32))}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(stored(enc::RZ, enc::Size::b64))}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(stored(place, enc::Size::b64))}), HasSubstr(wrong));                   // at words that overlap
  EXPECT_THAT(record({ins(halves), ins(stored(part, enc::Size::b32))}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(quarters), ins(two)}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(halves), ins(four)}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(mask(part, lane, 24)), ins(two)}), HasSubstr(wrong));                  // of another register
  EXPECT_THAT(record({own(halves), ins(two)}), HasSubstr(wrong));
  EXPECT_THAT(record({ins(halves), ins(enc::mov_imm(part, 0)), ins(two)}), HasSubstr(wrong));    // the last write counts
  EXPECT_THAT(record({ins(two)}), HasSubstr(wrong));                                             // nobody made it
  const sass::RawInst shifted = with_bits(quarters, bits(11, 0), 0x819), predicates = with_bits(quarters, bits(11, 0), 0x803);
  for (const sass::RawInst& groups : {shifted, predicates}) {   // sixteen words go by the lane group
    EXPECT_EQ(record({ins(groups), ins(four)}), "");
    EXPECT_THAT(record({ins(groups), ins(two)}), HasSubstr(wrong));
    EXPECT_THAT(record({own(groups), ins(four)}), HasSubstr(wrong));
  }
}

}  // namespace
}  // namespace xtrace::instrument::test::sector_rule_test
