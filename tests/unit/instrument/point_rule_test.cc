// value-recorded, condition by condition, on a few words made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instrument/sass/encode.h"
#include "tests/unit/instrument/made_view.h"

namespace xtrace::instrument::test::point_rule_test {
namespace {

namespace enc = sass::enc;
using enc::Gpr, enc::Pred, enc::Ureg;
using Kind = wire::Value::Kind;
using testing::HasSubstr;

constexpr Ureg cursor{4}, counter{10}, sign{11};
constexpr Pred turn{1};
sass::RawInst stored(Gpr what, enc::Size size, int32_t place = 0, Gpr lanes = enc::RZ) { return enc::stg(enc::UniformAddress{cursor, lanes, place}, what, size); }
sass::RawInst with_bits(sass::RawInst w, BitRange range, uint64_t value) {
  set_bits(w, range, value);
  return w;
}
const sass::RawInst head = enc::mov_imm(Gpr{4}, wire::word0(wire::RecordKind::point, 0)), active = enc::vote_any_active(Gpr{5}), clock_read = enc::cs2r32(Gpr{6}, enc::sr_clock_lo);
const sass::RawInst whole = stored(Gpr{4}, enc::Size::b128), moves = enc::uiadd3_imm(cursor, cursor, 16);

wire::Value value(Kind kind, uint32_t place, uint8_t index = 0) {
  wire::Value v;
  v.kind = kind;
  v.place = place;
  v.index = index;
  return v;
}
// `record` in front of the second instruction: word 0, lanes, a value, and one word of nothing.
MadeView made(const std::vector<sass::RawInst>& record, const wire::Value& what = value(Kind::clock, 8), sass::RawInst at = enc::mov(Gpr{8}, Gpr{7})) {
  std::vector<Word> words = {own(enc::mov(Gpr{9}, Gpr{7}))};
  for (const sass::RawInst& w : record) words.push_back(ins(w));
  words.push_back(own(at));
  words.push_back(own(enc::exit()));
  MadeView m(words, {3}, {{}});
  m.v.address_store.assign(words.size(), false);
  wire::Point p;
  p.pc = sass::inst_bytes;
  p.record_bytes = 16;
  p.values = {what};
  m.claims.points = {p};
  m.claims.nth = 1;
  return m;
}
std::string found(MadeView m) {
  return m.found("value-recorded", [&](Violations& out) { check_points(m.v, m.claims, m.blocks, out); });
}

TEST(PointRule, Words) {
  EXPECT_EQ(found(made({head, active, clock_read, whole, moves})), "");
  const auto makes = [](const char* place) { return HasSubstr(std::string("makes byte ") + place + " of the record"); };
  EXPECT_THAT(found(made({with_bits(head, bits(11, 0), 0x824), active, clock_read, whole, moves})), makes("0"));          // IMAD
  EXPECT_THAT(found(made({enc::mov_imm(Gpr{4}, wire::word0(wire::RecordKind::point, 1)), active, clock_read, whole, moves})), makes("0"));
  EXPECT_THAT(found(made({head, with_bits(active, bits(11, 0), 0x802), clock_read, whole, moves})), makes("4"));          // MOV
  EXPECT_THAT(found(made({head, enc::vote_any(Gpr{5}, Pred{0}), clock_read, whole, moves})), makes("4"));
  EXPECT_THAT(found(made({head, active, with_bits(clock_read, bits(11, 0), 0x919), whole, moves})), makes("8"));          // S2R
  EXPECT_THAT(found(made({head, active, enc::cs2r32(Gpr{6}, enc::sr_globaltimer_lo), whole, moves})), makes("8"));
  EXPECT_THAT(found(made({head, active, enc::with_guard(clock_read, Pred{0}), whole, moves})), makes("8"));
  EXPECT_THAT(found(made({head, active, whole, moves})), HasSubstr("nothing here makes byte 8 of the record"));
  EXPECT_EQ(found(made({head, active, enc::cs2r32(Gpr{6}, enc::sr_globaltimer_lo), whole, moves}, value(Kind::time, 8))), "");
}

TEST(PointRule, Stores) {
  EXPECT_THAT(found(made({head, active, clock_read, whole, stored(Gpr{6}, enc::Size::b32, 8), moves})), HasSubstr("byte 8 of the record is written again"));
  EXPECT_THAT(found(made({head, active, clock_read, stored(Gpr{6}, enc::Size::b32, 0, Gpr{3}), whole, moves})), HasSubstr("byte 0 of the record is written again"));
  EXPECT_THAT(found(made({head, active, clock_read, stored(Gpr{4}, enc::Size::b64), moves})), HasSubstr("byte 8 of the record is not written"));
  EXPECT_THAT(found(made({head, active, clock_read, enc::with_guard(whole, turn), moves})), HasSubstr("not by all lanes, or not every nth time"));
  EXPECT_THAT(found(made({head, active, clock_read, whole})), HasSubstr("the cursor does not move by 16 bytes"));
  EXPECT_THAT(found(made({head, active, clock_read, whole, enc::uiadd3_imm(cursor, cursor, 32)})), HasSubstr("the cursor does not move by 16 bytes"));
  EXPECT_THAT(found(made({head, active, clock_read, whole, enc::uimad_imm(cursor, sign, 16, cursor)})), HasSubstr("the cursor does not move by 16 bytes"));   // not each time
  EXPECT_THAT(found(made({head, active, clock_read, moves, whole})), HasSubstr("the cursor does not move by 16 bytes"));
  MadeView m = made({head, active, clock_read, whole, moves});
  m.claims.points[0].pc = 0x1000;
  EXPECT_THAT(found(m), HasSubstr("point 0 is at 0x1000, the kernel has 0x30 bytes"));
  Violations out;
  m.claims.points[0].record_bytes = 0;   // not recorded: nothing is asked
  check_points(m.v, m.claims, m.blocks, out);
  EXPECT_TRUE(out.empty());
}

// The clock of a result that has arrived waits for the scoreboard of the instruction in front of it.
TEST(PointRule, ClocksOfResultsWait) {
  sass::RawInst load = enc::mov(Gpr{8}, Gpr{7});
  sass::Control c = sass::get_control(load);
  c.write_barrier = 3;
  sass::set_control(load, c);
  const auto with_wait = [&](uint8_t mask, const sass::RawInst& reads) {
    sass::RawInst w = reads;
    sass::Control waits = sass::get_control(w);
    waits.wait_mask = mask;
    sass::set_control(w, waits);
    return found(made({head, active, w, whole, moves}, value(Kind::clock_ready, 8), load));
  };
  EXPECT_EQ(with_wait(1u << 3, clock_read), "");
  EXPECT_THAT(with_wait(0, clock_read), HasSubstr("makes byte 8"));
  EXPECT_THAT(with_wait(1u << 2, clock_read), HasSubstr("makes byte 8"));
  EXPECT_THAT(with_wait(1u << 3, enc::mov_imm(Gpr{6}, 1)), HasSubstr("makes byte 8"));
  EXPECT_EQ(found(made({head, active, clock_read, whole, moves}, value(Kind::clock_ready, 8))), "");   // nothing to wait for
}

TEST(PointRule, Columns) {
  const sass::RawInst first = stored(Gpr{4}, enc::Size::b64), column = stored(Gpr{8}, enc::Size::b32, 128, Gpr{3});
  const auto record = [](std::vector<sass::RawInst> words) {
    MadeView m = made(words, value(Kind::vector, 128, 8));
    m.claims.points[0].record_bytes = 256;
    return found(m);
  };
  const sass::RawInst far = enc::uiadd3_imm(cursor, cursor, 256);
  EXPECT_EQ(record({head, active, first, column, far}), "");
  EXPECT_THAT(record({head, active, first, far}), HasSubstr("R8 is not stored"));
  EXPECT_THAT(record({head, active, first, column, column, far}), HasSubstr("byte 128 of the record is written again"));
  EXPECT_THAT(record({head, active, first, enc::mov_imm(Gpr{8}, 0), column, far}), HasSubstr("changes what is recorded"));
  EXPECT_THAT(record({head, active, first, stored(Gpr{9}, enc::Size::b32, 128, Gpr{3}), far}), HasSubstr("stands where R8 should"));
  EXPECT_THAT(record({head, active, first, stored(Gpr{8}, enc::Size::b64, 128, Gpr{3}), far}), HasSubstr("stands where R8 should"));
  EXPECT_THAT(record({head, active, first, enc::with_guard(column, turn), far}), HasSubstr("stands where R8 should"));
  EXPECT_THAT(record({head, active, first, stored(Gpr{8}, enc::Size::b32, 128), far}), HasSubstr("R8 is not stored"));   // of one lane
}

TEST(PointRule, EveryNthTime) {
  const std::vector<sass::RawInst> turns = {enc::uiadd3_imm(counter, counter, ~0u), enc::ushf_r_u32_hi_imm(sign, counter, 31), enc::uimad_imm(counter, sign, 3, counter),
                                            enc::isetp_ur(turn, enc::Compare::ne, false, enc::RZ, sign)};
  const sass::RawInst bump = enc::uimad_imm(cursor, sign, 16, cursor);
  const auto record = [&](std::vector<sass::RawInst> words, const sass::RawInst& store, const sass::RawInst& by) {
    for (const sass::RawInst& w : {head, active, clock_read, store, by}) words.push_back(w);
    MadeView m = made(words);
    m.claims.nth = 3;
    return found(m);
  };
  const sass::RawInst guarded = enc::with_guard(whole, turn);
  EXPECT_EQ(record(turns, guarded, bump), "");
  EXPECT_THAT(record(turns, whole, bump), HasSubstr("not every nth time"));
  EXPECT_THAT(record(turns, enc::with_guard(whole, Pred{2}), bump), HasSubstr("not every nth time"));
  EXPECT_THAT(record(turns, guarded, moves), HasSubstr("the cursor does not move by 16 bytes"));
  EXPECT_THAT(record(turns, guarded, enc::uimad_imm(cursor, Ureg{12}, 16, cursor)), HasSubstr("the cursor does not move with the record"));
  EXPECT_THAT(record({}, guarded, bump), HasSubstr("nothing counts to 3 here"));
  // Two points in front of one instruction, the second by these registers.
  const auto two = [&](Ureg count, Ureg signs) {
    std::vector<sass::RawInst> words = turns;
    for (const sass::RawInst& w : {head, active, clock_read, guarded, bump}) words.push_back(w);
    for (const sass::RawInst& w : {enc::uiadd3_imm(count, count, ~0u), enc::ushf_r_u32_hi_imm(signs, count, 31), enc::uimad_imm(count, signs, 3, count),
                                   enc::isetp_ur(turn, enc::Compare::ne, false, enc::RZ, signs), enc::mov_imm(Gpr{4}, wire::word0(wire::RecordKind::point, 1)), active,
                                   clock_read, guarded, enc::uimad_imm(cursor, signs, 16, cursor)})
      words.push_back(w);
    MadeView m = made(words);
    m.claims.nth = 3;
    m.claims.points.push_back(m.claims.points[0]);
    return found(m);
  };
  EXPECT_EQ(two(Ureg{14}, Ureg{15}), "");
  EXPECT_THAT(two(counter, Ureg{15}), HasSubstr("not the counter of this point alone"));
  const std::vector<std::pair<size_t, sass::RawInst>> others = {
      {0, enc::uiadd3_imm(counter, counter, 1)},           {0, enc::uiadd3_imm(counter, Ureg{12}, ~0u)},
      {1, enc::ushf_r_u32_hi_imm(sign, counter, 30)},      {1, enc::ushf_r_u32_hi_imm(sign, Ureg{12}, 31)},
      {2, enc::uimad_imm(counter, sign, 4, counter)},      {2, enc::uimad_imm(counter, Ureg{12}, 3, counter)},
      {2, enc::uimad_imm(Ureg{12}, sign, 3, counter)},     {0, with_bits(turns[0], bits(11, 0), 0x882)},
      {1, enc::uiadd3_imm(sign, counter, 31)},             {2, enc::uiadd3_imm(counter, sign, 3, counter)},
  };
  for (const auto& [at, w] : others) {
    std::vector<sass::RawInst> words = turns;
    words[at] = w;
    EXPECT_THAT(record(words, guarded, bump), HasSubstr("nothing counts to 3 here")) << at;
  }
  for (const sass::RawInst& test : {enc::isetp_ur(turn, enc::Compare::eq, false, enc::RZ, sign), enc::isetp_ur(turn, enc::Compare::ne, false, enc::RZ, counter)}) {
    std::vector<sass::RawInst> words = turns;
    words[3] = test;
    EXPECT_THAT(record(words, guarded, bump), HasSubstr("not the counter of this point alone"));
  }
}

// Two points in front of the third and the fourth instruction of a block, `between` them; the second leaves out what the first has.
class Told {
 public:
  std::vector<sass::RawInst> first{head, active, stored(Gpr{4}, enc::Size::b64), stored(Gpr{8}, enc::Size::b32, 128, Gpr{3}), enc::uiadd3_imm(cursor, cursor, 256)};
  sass::RawInst between = enc::mov(Gpr{9}, Gpr{7});
  std::vector<sass::RawInst> second{};   // nothing is left to record
  std::vector<uint32_t> counts{4};
  wire::Value what = value(Kind::vector, 128, 8);
  wire::Point late{};

  Told() {
    late.pc = 2 * sass::inst_bytes;
    late.implied = true;
    late.values = {value(Kind::vector, wire::Value::same, 8)};
  }
  std::string found(bool early_is_recorded = true) const {
    std::vector<Word> words = {own(enc::mov(Gpr{9}, Gpr{7}))};
    for (const sass::RawInst& w : first) words.push_back(ins(w));
    words.push_back(own(between));
    for (const sass::RawInst& w : second) words.push_back(ins(w));
    words.push_back(own(enc::mov(Gpr{9}, Gpr{7})));
    words.push_back(own(enc::exit()));
    MadeView m(words, counts, {{}, {}});
    m.v.address_store.assign(words.size(), false);
    wire::Point early;
    early.pc = sass::inst_bytes;
    early.record_bytes = early_is_recorded ? 256 : 0;
    early.values = {what};
    m.claims.points = {early, late};
    m.claims.nth = 1;
    return point_rule_test::found(m);
  }
};

TEST(PointRule, WhatIsLeftOutIsTold) {
  EXPECT_EQ(Told().found(), "");
  const auto changes = HasSubstr("changes what point 1 leaves out");
  const auto with = [](auto change) {
    Told t;
    change(t);
    return t.found();
  };
  // A definition in between, by all lanes or by some, of one register or of four; by what is inserted; behind the other point's instruction.
  EXPECT_THAT(with([](Told& t) { t.between = enc::mov(Gpr{8}, Gpr{7}); }), changes);
  EXPECT_THAT(with([](Told& t) { t.between = enc::with_guard(enc::mov(Gpr{8}, Gpr{7}), turn); }), changes);
  const sass::RawInst load = enc::ldg(Gpr{8}, enc::UniformAddress{cursor, enc::RZ, 0}, enc::Size::b128);
  EXPECT_THAT(with([&](Told& t) { t.between = load; }), changes);
  EXPECT_THAT(with([&](Told& t) {
                t.between = load;
                t.what.index = 11;
                t.first[3] = stored(Gpr{11}, enc::Size::b32, 128, Gpr{3});
                t.late.values[0].index = 11;
              }),
              changes);
  EXPECT_EQ(with([](Told& t) { t.between = enc::mov(Gpr{10}, Gpr{8}); }), "");
  EXPECT_THAT(with([](Told& t) { t.second = {enc::mov_imm(Gpr{8}, 1)}; }), changes);
  EXPECT_THAT(with([](Told& t) { t.late.after = true, t.late.pc = sass::inst_bytes, t.between = enc::mov(Gpr{8}, Gpr{7}); }), changes);
  EXPECT_EQ(with([](Told& t) { t.late.after = true, t.late.pc = sass::inst_bytes; }), "");
  // A word that nobody knows may define anything.
  EXPECT_THAT(with([](Told& t) { t.between = with_bits(t.between, bits(11, 0), 0xfff); }), changes);
}

TEST(PointRule, WhatIsLeftOutIsToldInTheSameBlock) {
  const auto nobody = HasSubstr("no point in front of it has what point 1 leaves out");
  const auto with = [](auto change, bool recorded = true) {
    Told t;
    change(t);
    return t.found(recorded);
  };
  EXPECT_THAT(with([](Told& t) { t.counts = {2, 2}, t.late.block = 1; }), nobody);
  EXPECT_THAT(with([](Told& t) { t.counts = {2, 2}; }), HasSubstr("is said to be in block 0"));
  EXPECT_THAT(with([](Told&) {}, false), nobody);   // not in this replay
  // Behind a block's last instruction others may come out.
  EXPECT_THAT(with([](Told& t) { t.counts = {3, 1}, t.late.after = true; }), HasSubstr("is said to be in block 0"));
  EXPECT_THAT(with([](Told& t) { t.late.values[0].index = 9; }), nobody);
  EXPECT_THAT(with([](Told& t) { t.late.values[0].kind = Kind::uniform; }), nobody);
  EXPECT_THAT(with([](Told& t) { t.late.values[0].negated = true; }), nobody);
  for (const Kind kind : {Kind::clock, Kind::clock_before, Kind::clock_ready, Kind::time, Kind::target})
    EXPECT_THAT(with([&](Told& t) { t.late.values[0].kind = t.what.kind = kind; }), HasSubstr("what is another each time is left out"));
}

TEST(PointRule, PointsWithoutARecordStoreNothing) {
  const auto with = [](auto change) {
    Told t;
    change(t);
    return t.found();
  };
  EXPECT_THAT(with([](Told& t) { t.second = {t.first[3]}; }), HasSubstr("stands where point 1 stores nothing"));
  EXPECT_THAT(with([](Told& t) { t.late.values.push_back(value(Kind::clock, 8)); }), HasSubstr("point 1 has no record, and something to record"));
  EXPECT_THAT(with([](Told& t) { t.late.values.clear(); }), HasSubstr("point 1 has no record, and something to record"));
  EXPECT_THAT(with([](Told& t) { t.late.record_bytes = 16; }), HasSubstr("point 1 has no record, and something to record"));
  // A record of what is left: a clock.
  const auto clock = [](Told& t, const sass::RawInst& reads) {
    t.late.implied = false;
    t.late.record_bytes = 16;
    t.late.values.insert(t.late.values.begin(), value(Kind::clock, 8));
    t.second = {enc::mov_imm(Gpr{4}, wire::word0(wire::RecordKind::point, 1)), active, reads, whole, moves};
  };
  EXPECT_EQ(with([&](Told& t) { clock(t, clock_read); }), "");
  EXPECT_THAT(with([&](Told& t) { clock(t, enc::cs2r32(Gpr{6}, enc::sr_globaltimer_lo)); }), HasSubstr("makes byte 8"));
  EXPECT_THAT(with([&](Told& t) { clock(t, clock_read), t.between = enc::mov(Gpr{8}, Gpr{7}); }), HasSubstr("changes what point 1 leaves out"));
}

// Uniform registers and predicates.
TEST(PointRule, OtherRegistersThatAreLeftOut) {
  const sass::RawInst copied = enc::mov_from_ur(Gpr{6}, Ureg{9}), voted = enc::vote_any(Gpr{6}, Pred{2});
  const auto with = [](const sass::RawInst& makes, const wire::Value& what, const sass::RawInst& between) {
    Told t;
    t.first = {head, active, makes, whole, enc::uiadd3_imm(cursor, cursor, 256)};
    t.what = t.late.values[0] = what;
    t.late.values[0].place = wire::Value::same;
    t.between = between;
    return t.found();
  };
  const auto changes = HasSubstr("changes what point 1 leaves out");
  const sass::RawInst other = enc::mov(Gpr{9}, Gpr{7});
  EXPECT_EQ(with(copied, value(Kind::uniform, 8, 9), other), "");
  EXPECT_THAT(with(copied, value(Kind::uniform, 8, 9), enc::umov_imm(Ureg{9}, 1)), changes);
  EXPECT_EQ(with(copied, value(Kind::uniform, 8, 9), enc::umov_imm(Ureg{12}, 1)), "");
  EXPECT_EQ(with(voted, value(Kind::lanes, 8, 2), other), "");
  EXPECT_THAT(with(voted, value(Kind::lanes, 8, 2), enc::isetp_ur(Pred{2}, enc::Compare::ne, false, enc::RZ, sign)), changes);
  EXPECT_EQ(with(voted, value(Kind::lanes, 8, 2), enc::isetp_ur(Pred{3}, enc::Compare::ne, false, enc::RZ, sign)), "");
}

// One record of three points: in front of the second, the third and the fourth instruction, which is the last of the block.
class Joined {
 public:
  const sass::RawInst column = stored(Gpr{8}, enc::Size::b32, 128, Gpr{3}), word = stored(Gpr{6}, enc::Size::b32, 8);
  std::vector<sass::RawInst> first{head, active, stored(Gpr{4}, enc::Size::b64), column};
  std::vector<sass::RawInst> second{clock_read, word};
  std::vector<sass::RawInst> third{stored(Gpr{9}, enc::Size::b32, 256, Gpr{3}), enc::uiadd3_imm(cursor, cursor, 384)};
  std::vector<uint32_t> counts{4};
  std::vector<wire::Point> points = std::vector<wire::Point>(3);
  uint32_t nth = 1;

  Joined() {
    for (uint32_t n = 0; n < 3; ++n) points[n].pc = (n + 1) * sass::inst_bytes, points[n].joined = n > 0;
    points[0].record_bytes = 384;
    points[0].values = {value(Kind::vector, 128, 8)};
    points[1].values = {value(Kind::clock, 8)};
    points[2].values = {value(Kind::vector, 256, 9)};
  }
  std::string found() const {
    std::vector<Word> words = {own(enc::mov(Gpr{9}, Gpr{7}))};
    for (const auto* record : {&first, &second, &third}) {
      for (const sass::RawInst& w : *record) words.push_back(ins(w));
      words.push_back(own(record == &third ? enc::exit() : enc::mov(Gpr{10}, Gpr{7})));
    }
    MadeView m(words, counts, std::vector<std::vector<uint32_t>>(counts.size()));
    m.v.address_store.assign(words.size(), false);
    m.claims.points = points;
    m.claims.nth = nth;
    return point_rule_test::found(m);
  }
};

TEST(PointRule, PointsOfABlockJoinInOneRecord) {
  const auto with = [](auto change) {
    Joined j;
    change(j);
    return j.found();
  };
  EXPECT_EQ(with([](Joined&) {}), "");
  // Another has not been recorded, or is implied: its values are not there.
  EXPECT_EQ(with([](Joined& j) { j.second.clear(), j.points[1].joined = false; }), "");
  EXPECT_EQ(with([](Joined& j) { j.second.clear(), j.points[1].joined = false, j.points[1].implied = true, j.points[1].values = {value(Kind::vector, wire::Value::same, 8)}; }), "");
  // Its values are where they should be, of the right making, each byte once.
  EXPECT_THAT(with([](Joined& j) { j.second = {}; }), HasSubstr("byte 8 of the record is not written"));
  EXPECT_THAT(with([](Joined& j) { j.second[0] = enc::cs2r32(Gpr{6}, enc::sr_globaltimer_lo); }), HasSubstr("makes byte 8"));
  EXPECT_THAT(with([](Joined& j) { j.third[0] = j.column; }), HasSubstr("byte 128 of the record is written again"));
  EXPECT_THAT(with([](Joined& j) { j.second.push_back(stored(Gpr{6}, enc::Size::b64, 0)); }), HasSubstr("byte 0 of the record is written again"));
  EXPECT_THAT(with([](Joined& j) { j.second.push_back(stored(Gpr{6}, enc::Size::b32, 384)); }), HasSubstr("stores behind the record of 384 bytes"));
  EXPECT_THAT(with([](Joined& j) { j.second[1] = stored(Gpr{6}, enc::Size::b32, 132), j.points[1].values[0].place = 132; }), HasSubstr("byte 132 of the record is written again"));
  // The cursor moves behind the last of them, by the whole record, and nowhere else.
  const sass::RawInst far = enc::uiadd3_imm(cursor, cursor, 384);
  EXPECT_THAT(with([&](Joined& j) { j.third.pop_back(); }), HasSubstr("the cursor does not move by 384 bytes"));
  EXPECT_THAT(with([&](Joined& j) { j.third[1] = enc::uiadd3_imm(cursor, cursor, 128); }), HasSubstr("the cursor does not move by 384 bytes"));
  EXPECT_THAT(with([&](Joined& j) { j.first.push_back(far); }), HasSubstr("the cursor moves, and point 2 joins in the record"));
  EXPECT_THAT(with([&](Joined& j) { j.second.push_back(far); }), HasSubstr("the cursor moves, and point 2 joins in the record"));
  EXPECT_THAT(with([&](Joined& j) { std::swap(j.third[0], j.third[1]); }), HasSubstr("the cursor does not move"));
  EXPECT_THAT(with([&](Joined& j) { j.points[1].joined = false, j.second = {far}; }), HasSubstr("the cursor moves, and point 2 joins in the record"));   // no point is there
  // In front of it in its block stands the point that has the record, and each execution is recorded.
  const auto none = [](int n) { return HasSubstr(fmt::format("point {} joins in a record, and there is none in front of it in its block", n)); };
  EXPECT_THAT(with([](Joined& j) { j.counts = {2, 2}; }), none(1));
  EXPECT_THAT(with([](Joined& j) { j.counts = {2, 2}, j.points[1].block = j.points[2].block = 1; }), none(1));
  EXPECT_THAT(with([](Joined& j) { j.points[1].block = 7; }), none(1));
  EXPECT_THAT(with([](Joined& j) { j.points[0].joined = true, j.points[0].record_bytes = 0; }), none(0));
  EXPECT_THAT(with([](Joined& j) { j.points[1].values.clear(); }), none(1));
  EXPECT_THAT(with([](Joined& j) { j.points[1].record_bytes = 384; }), none(1));
  EXPECT_THAT(with([](Joined& j) { j.nth = 3; }), none(1));
  EXPECT_THAT(with([](Joined& j) { j.points[2].after = true, j.third = {}, j.second.push_back(enc::uiadd3_imm(cursor, cursor, 384)); }), none(2));   // behind its last instruction
}

// Two of a record at one place.
TEST(PointRule, PointsAtOnePlaceJoin) {
  Joined j;
  j.points[2].pc = j.points[1].pc;
  j.second.insert(j.second.end(), j.third.begin(), j.third.end());
  j.third.clear();
  EXPECT_EQ(j.found(), "");
  std::swap(j.second[1], j.second[2]);
  EXPECT_EQ(j.found(), "");
  j.second = {clock_read, j.word, stored(Gpr{9}, enc::Size::b32, 256, Gpr{3})};
  EXPECT_THAT(j.found(), HasSubstr("the cursor does not move by 384 bytes"));
  j.second = {clock_read, j.word, enc::uiadd3_imm(cursor, cursor, 384), stored(Gpr{9}, enc::Size::b32, 256, Gpr{3})};
  EXPECT_THAT(j.found(), HasSubstr("R9 is not stored"));
}

}  // namespace
}  // namespace xtrace::instrument::test::point_rule_test
