// Values and points that records leave out: put back from slots and from a file, or missed. Points whose values lie in the record of another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "trace/implied_points.h"
#include "trace/varint.h"

namespace xtrace::trace {
namespace {

using Kind = wire::Value::Kind;
using testing::HasSubstr;
constexpr uint64_t base = 0x400000000;
constexpr uint32_t lead = 16, same = wire::Value::same;

wire::Value value(Kind kind, uint8_t index, uint32_t place) {
  wire::Value v;
  v.kind = kind;
  v.index = index;
  v.place = place;
  return v;
}
wire::Point point(uint32_t pc, uint32_t block, uint32_t record_bytes, std::vector<wire::Value> values) {
  wire::Point p;
  p.pc = pc;
  p.block = block;
  p.record_bytes = record_bytes;
  p.implied = record_bytes == 0;
  p.values = std::move(values);
  return p;
}

// Block 0 has four instructions, a point in front of each: 0 records R5 and UR4, 1 has R5 again, 2 records P0 and a clock and has UR4 again, 3 has
// R5 and P0 again. Point 4 stands behind the last of them, and block 1 has points 5, which records R5, and 6, of which nothing is recorded here.
wire::AddressMap map_of() {
  wire::AddressMap map;
  map.blocks.resize(2);
  map.blocks[0].instructions = 4;
  map.blocks[1].first_pc = 64;
  map.blocks[1].instructions = 2;
  map.points.push_back(point(0, 0, 160, {value(Kind::uniform, 4, 8), value(Kind::vector, 5, 32)}));
  map.points.push_back(point(16, 0, 0, {value(Kind::vector, 5, same)}));
  map.points.push_back(point(32, 0, 16, {value(Kind::clock, 0, 8), value(Kind::uniform, 4, same), value(Kind::lanes, 0, 12)}));
  map.points.push_back(point(48, 0, 0, {value(Kind::lanes, 0, same), value(Kind::vector, 5, same)}));
  map.points.push_back(point(48, 0, 16, {value(Kind::lanes, 0, 8)}));
  map.points.back().after = true;
  map.points.push_back(point(64, 1, 160, {value(Kind::vector, 5, 32)}));
  map.points.push_back(point(80, 1, 0, {value(Kind::uniform, 4, 8)}));
  map.points.back().implied = false;
  map.layout.slots = base;
  map.layout.slot_bytes = 4096;
  map.layout.lead_bytes = lead;
  map.layout.warps = map.layout.warps_per_cta = 1;
  return map;
}

class Collector : public PointVisitor {
 public:
  Status begin(const PointWarp&) override { return {}; }
  Status event(const PointEvent& e) override {
    events.push_back(e);
    return {};
  }
  Status end(const PointWarp& w) override {
    warps.push_back(w);
    return {};
  }
  std::vector<PointEvent> events;
  std::vector<PointWarp> warps;
};

struct Slot {
  wire::AddressMap map = map_of();
  Bytes bytes = Bytes(4096);
  std::vector<wire::WarpHeader> starts = std::vector<wire::WarpHeader>(1);
  uint32_t at = lead;

  Slot() { write_at(std::span(bytes), 0, uint32_t{77}); }
  void put(uint32_t offset, uint32_t v) { write_at(std::span(bytes), at + offset, v); }
  void record(uint32_t point, uint32_t active, std::vector<uint32_t> words, uint32_t r5 = 0) {
    put(0, wire::word0(wire::RecordKind::point, point));
    put(4, active);
    for (uint32_t k = 0; k < words.size(); ++k) put(8 + 4 * k, words[k]);
    for (uint32_t lane = 0; lane < 32 && map.points[point].record_bytes > 32; ++lane) put(32 + 4 * lane, r5 + lane);
    at += map.points[point].record_bytes;
  }
  // Block 0 once.
  void block(uint32_t active, uint32_t r5, uint32_t ur4, uint32_t p0, uint32_t clock) {
    record(0, active, {ur4}, r5);
    record(2, active, {clock, p0});
  }
  Result<DecodeSummary> decode(Collector& c) const { return decode_points(map, starts, buffer_reader(base, bytes), {}, {}, 0, c); }
};

PointEvent event(uint32_t point, uint32_t active, std::vector<uint64_t> scalars, std::vector<uint32_t> columns = {}) {
  PointEvent e{point, active, std::move(scalars), {}};
  for (const uint32_t first : columns) {
    LaneValues& lanes = e.columns.emplace_back();
    for (uint32_t lane = 0; lane < 32; ++lane) lanes[lane] = active >> lane & 1 ? first + lane : 0;
  }
  return e;
}

Slot two_rounds() {
  Slot s;
  s.block(0xf, 100, 7, 0x3, 1000);
  s.block(0x6, 200, 8, 0x5, 1010);   // the same block again, by others
  s.record(4, 0xf, {0x1});
  s.record(5, 0x1, {}, 300);
  return s;
}
std::vector<PointEvent> events_of_two_rounds() {
  return {event(0, 0xf, {7}, {100}),  event(1, 0xf, {}, {100}),  event(2, 0xf, {1000, 7, 0x3}), event(3, 0xf, {0x3}, {100}), event(0, 0x6, {8}, {200}), event(1, 0x6, {}, {200}),
          event(2, 0x6, {1010, 8, 0x4}), event(3, 0x6, {0x4}, {200}), event(4, 0xf, {0x1}),     event(5, 0x1, {}, {300})};
}

TEST(ImpliedPoints, ArePutBackFromSlots) {
  const Slot s = two_rounds();
  Collector c;
  const auto summary = s.decode(c);
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_TRUE(summary->losses.none());
  EXPECT_EQ(c.events, events_of_two_rounds());
  EXPECT_EQ(summary->records, 10u);
  EXPECT_EQ(summary->clocks, 2u);
  EXPECT_EQ(summary->bytes_written, 2u * (160 + 16) + 16 + 160);
}

TEST(ImpliedPoints, ArePutBackFromFiles) {
  const wire::AddressMap map = map_of();
  const std::vector<PointEvent> events = events_of_two_rounds();
  PointEncoder encoder(map);
  PointWarp warp;
  encoder.begin(warp);
  for (const PointEvent& e : events) encoder.event(e);
  std::string text, longer;
  EXPECT_EQ(encoder.end(warp, text), events.size());
  // They are not in it.
  wire::AddressMap apart = map;
  for (wire::Point& p : apart.points) {
    p.record_bytes = 1024;
    p.implied = false;
    for (wire::Value& v : p.values) v.place = 512;
  }
  PointEncoder all(apart);
  all.begin(warp);
  for (const PointEvent& e : events) all.event(e);
  all.end(warp, longer);
  EXPECT_LT(text.size() + 4 * 6, longer.size());
  ImpliedPoints implied(map);
  for (int twice = 0; twice < 2; ++twice) {
    VarintReader in(text);
    Collector c;
    const auto records = decode_point_warp(in, map, implied, c);
    ASSERT_TRUE(records && in.ok());
    EXPECT_EQ(*records, events.size());
    EXPECT_EQ(c.events, events);
  }
  // A point that has no event of its own has one; a record whose teller is missing.
  const auto whole = [&](std::vector<PointEvent> some) {
    std::string damaged;
    PointEncoder writer(apart);
    writer.begin(warp);
    for (const PointEvent& e : some) writer.event(e);
    writer.end(warp, damaged);
    VarintReader in(damaged);
    Collector c;
    EXPECT_TRUE(decode_point_warp(in, map, implied, c));
    return in.ok();
  };
  EXPECT_FALSE(whole({events[0], events[1]}));
  EXPECT_FALSE(whole({event(2, 1, {1, 1, 1})}));
}

TEST(ImpliedPoints, WhatNobodyTellsIsLost) {
  const auto mark_of = [](auto change) {
    Slot s;
    change(s);
    Collector c;
    const auto summary = s.decode(c);
    EXPECT_TRUE(summary);
    if (c.warps.at(0).marks.empty()) return std::string();
    EXPECT_EQ(summary->losses.count(c.warps[0].marks[0].loss), 1u);
    EXPECT_FALSE(summary->losses.none());
    EXPECT_EQ(summary->records, c.events.size());
    return fmt::format("{} at {} of {} bytes", loss_info(c.warps[0].marks[0].loss).name, c.warps[0].marks[0].record, c.warps[0].marks[0].bytes);
  };
  EXPECT_EQ(mark_of([](Slot& s) { s.block(1, 1, 1, 1, 1); }), "");
  EXPECT_EQ(mark_of([](Slot& s) { s.record(2, 1, {1, 1}); }), "value_untold at 0 of 16 bytes");
  // What another execution of the block has recorded tells nothing.
  EXPECT_EQ(mark_of([](Slot& s) { s.block(1, 1, 1, 1, 1), s.record(2, 1, {1, 1}); }), "value_untold at 4 of 16 bytes");
  EXPECT_EQ(mark_of([](Slot& s) { s.record(0, 1, {1}, 1), s.record(5, 1, {}, 1), s.record(2, 1, {1, 1}); }), "value_untold at 3 of 16 bytes");
}

// What check_points() says of a map whose points were changed.
template <typename F>
std::string problem_of(wire::AddressMap map, F change) {
  change(map.points);
  const Status s = check_points(map);
  return s ? std::string() : s.error().message;
}

TEST(ImpliedPoints, MapsThatTellTooLittleAreRefused) {
  const auto problem = [](auto change) { return problem_of(map_of(), change); };
  using Points = std::vector<wire::Point>;
  EXPECT_EQ(problem([](Points&) {}), "");
  const auto untold = [](int n) { return HasSubstr(fmt::format("point {} leaves out a value that no point in front of it in its block tells", n)); };
  EXPECT_THAT(problem([](Points& p) { p[1].values[0].index = 6; }), untold(1));
  EXPECT_THAT(problem([](Points& p) { p[3].values[0].negated = true; }), untold(3));
  EXPECT_THAT(problem([](Points& p) { p[5].values[0].index = 6, p[5].values.push_back(value(Kind::uniform, 4, same)); }), untold(5));
  EXPECT_THAT(problem([](Points& p) { p[2].values[0].place = same; }), untold(2));       // a clock
  EXPECT_THAT(problem([](Points& p) { p[5].values[0].place = same; }), untold(5));       // another block
  EXPECT_THAT(problem([](Points& p) { p[4].values[0].place = same; }), untold(4));       // behind the block's last instruction
  EXPECT_THAT(problem([](Points& p) { p[6].values[0] = value(Kind::vector, 5, same); }), untold(6));   // is not recorded here
  EXPECT_THAT(problem([](Points& p) { p[2].record_bytes = 0; }), untold(3));             // nor is who tells
  const auto recorded = [](int n) { return HasSubstr(fmt::format("point {} has no record, and points in front of it do not tell all of it", n)); };
  EXPECT_THAT(problem([](Points& p) { p[1].record_bytes = 160; }), recorded(1));
  EXPECT_THAT(problem([](Points& p) { p[1].values.push_back(value(Kind::clock, 0, 8)); }), recorded(1));
  EXPECT_THAT(problem([](Points& p) { p[5].implied = true, p[5].record_bytes = 0, p[5].values.clear(); }), recorded(5));
  EXPECT_THAT(problem([](Points& p) { p[4].implied = true, p[4].record_bytes = 0, p[4].values.clear(); }), recorded(4));
}

// Block 0 once more, in one record: 0 records UR4 and R5, 1 a clock, 2 has R5 again, 3 records R6 and has UR4 again. Block 1 is not recorded.
Slot joined_slot() {
  Slot s;
  s.map.points = {point(0, 0, 320, {value(Kind::uniform, 4, 8), value(Kind::vector, 5, 32)}), point(16, 0, 0, {value(Kind::clock, 0, 12)}),
                  point(32, 0, 0, {value(Kind::vector, 5, same)}), point(48, 0, 0, {value(Kind::uniform, 4, same), value(Kind::vector, 6, 160)}),
                  point(64, 1, 0, {value(Kind::uniform, 4, 8)})};
  s.map.points[1].implied = s.map.points[3].implied = s.map.points[4].implied = false;
  s.map.points[1].joined = s.map.points[3].joined = true;
  return s;
}
void put_joined(Slot& s, uint32_t active, uint32_t ur4, uint32_t clock, uint32_t r5, uint32_t r6) {
  for (uint32_t lane = 0; lane < 32; ++lane) s.put(160 + 4 * lane, r6 + lane);
  s.record(0, active, {ur4, clock}, r5);
}

TEST(JoinedPoints, AreReadFromTheRecordOfAnother) {
  Slot s = joined_slot();
  s.starts[0].start_clock = 900;
  put_joined(s, 0xf, 7, 1000, 100, 500);
  put_joined(s, 0x6, 8, 1010, 200, 600);
  Collector c;
  const auto summary = s.decode(c);
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_TRUE(summary->losses.none());
  EXPECT_EQ(c.events, (std::vector<PointEvent>{event(0, 0xf, {7}, {100}), event(1, 0xf, {1000}), event(2, 0xf, {}, {100}), event(3, 0xf, {7}, {500}),
                                               event(0, 0x6, {8}, {200}), event(1, 0x6, {1010}), event(2, 0x6, {}, {200}), event(3, 0x6, {8}, {600})}));
  EXPECT_EQ(summary->records, 8u);
  EXPECT_EQ(summary->clocks, 2u);
  EXPECT_EQ(summary->bytes_written, 640u);
  EXPECT_EQ(summary->bytes_kept, 640u);
  s.put(0, wire::word0(wire::RecordKind::point, 1));   // it has no record
  Collector damaged;
  const auto lost = s.decode(damaged);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->losses.count(Loss::unknown_index), 1u);
  EXPECT_EQ(damaged.events.size(), 8u);
}

TEST(JoinedPoints, MapsThatContradictThemselves) {
  const auto problem = [](auto change) { return problem_of(joined_slot().map, change); };
  using Points = std::vector<wire::Point>;
  EXPECT_EQ(problem([](Points&) {}), "");
  const auto alone = [](int n) { return HasSubstr(fmt::format("point {} is joined to the record of another, and there is none in front of it in its block", n)); };
  EXPECT_THAT(problem([](Points& p) { p.erase(p.begin()); }), alone(0));
  EXPECT_THAT(problem([](Points& p) { p[0].record_bytes = 0; }), alone(1));
  EXPECT_THAT(problem([](Points& p) { p[4].joined = true; }), alone(4));                           // of another block
  EXPECT_THAT(problem([](Points& p) { p[3].after = true; }), alone(3));                            // behind the block's last instruction
  EXPECT_THAT(problem([](Points& p) { p[0].after = true, p[0].pc = 48; }), alone(1));
  EXPECT_THAT(problem([](Points& p) { p[1].record_bytes = 16; }), alone(1));
  EXPECT_THAT(problem([](Points& p) { p[1].implied = true; }), alone(1));
  EXPECT_THAT(problem([](Points& p) { p[3].values[1].place = 196; }), HasSubstr("point 3 has a value up to byte 324 of a record of 320"));
}

}  // namespace
}  // namespace xtrace::trace
