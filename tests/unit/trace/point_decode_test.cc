// Events of point probes, out of slots and out of a file: each way in which one can be missing, and what is refused.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "trace/implied_points.h"
#include "trace/varint.h"

namespace xtrace::trace::point_decode_test {
namespace {

using Kind = wire::Value::Kind;
constexpr uint64_t base = 0x400000000;
constexpr uint32_t lead = 16, column_record = 256, small_record = 16;

wire::Value value(Kind kind, uint32_t place) {
  wire::Value v;
  v.kind = kind;
  v.place = place;
  return v;
}

// Point 0 has a clock, lanes by a predicate and a column; 1 a clock and a uniform register; 2 has no record here; 3 leads through a table.
wire::AddressMap map_of(uint32_t warps, uint32_t slot_bytes) {
  wire::AddressMap map;
  map.blocks.resize(2);
  map.points.resize(4);
  map.points[0].record_bytes = map.points[3].record_bytes = column_record;
  map.points[0].values = {value(Kind::clock, 8), value(Kind::lanes, 12), value(Kind::vector, 128)};
  map.points[1].block = 1;
  map.points[1].record_bytes = small_record;
  map.points[1].values = {value(Kind::clock_ready, 8), value(Kind::uniform, 12)};
  map.points[3].values = {value(Kind::target, 128)};
  map.original_of_new = {wire::AddressMap::inserted, 0, wire::AddressMap::inserted, wire::AddressMap::inserted, 16};
  map.layout.slots = base;
  map.layout.slot_bytes = slot_bytes;
  map.layout.lead_bytes = lead;
  map.layout.warps = warps;
  map.layout.warps_per_cta = 1;
  return map;
}
constexpr uint32_t head_of(uint32_t point) { return wire::word0(wire::RecordKind::point, point); }

class Collector : public PointVisitor {
 public:
  Status begin(const PointWarp& w) override {
    EXPECT_FALSE(open);
    open = true;
    begun.push_back(w.warp);
    return {};
  }
  Status event(const PointEvent& e) override {
    EXPECT_TRUE(open);
    events.push_back(e);
    return {};
  }
  Status end(const PointWarp& w) override {
    EXPECT_TRUE(open) << "of a warp that did not begin";
    open = false;
    warps.push_back(w);
    return {};
  }
  bool open = false;
  std::vector<uint32_t> begun;
  std::vector<PointEvent> events;
  std::vector<PointWarp> warps;
};

struct Buffer {
  wire::AddressMap map;
  Bytes bytes;
  std::vector<wire::WarpHeader> starts;
  std::vector<uint64_t> counted;
  uint64_t at = lead;   // in the first slot

  explicit Buffer(uint32_t slot_bytes, uint32_t warps = 1) : map(map_of(warps, slot_bytes)), bytes(uint64_t{warps} * slot_bytes), starts(warps) {
    for (uint32_t w = 0; w < warps; ++w) {
      word(uint64_t{w} * slot_bytes, 77);
      starts[w].start_clock = 0x1'ffff'fff0;
    }
  }
  void word(uint64_t offset, uint32_t v) { write_at(std::span(bytes), offset, v); }
  void small(uint32_t clock) {
    for (const uint32_t v : {head_of(1), 0xfu, clock, 5u}) word(at, v), at += 4;
  }
  Result<DecodeSummary> decode(Collector& c) const { return decode_points(map, starts, buffer_reader(base, bytes), {}, counted, 0, c); }
};

TEST(PointTrace, EventsOfASlot) {
  Buffer b(1024);
  b.word(lead, head_of(0));
  b.word(lead + 4, 0x5);
  b.word(lead + 8, 0xfffffff8);
  b.word(lead + 12, 0xc);   // of lanes 2 and 3 the first is active
  for (uint32_t lane = 0; lane < 32; ++lane) b.word(lead + 128 + 4 * lane, 100 + lane);
  b.at = lead + column_record;
  b.small(0x10);            // the clock's low word came round
  b.small(0x8);             // read earlier, stored later
  b.word(b.at, head_of(3));
  b.word(b.at + 4, 1);
  b.word(b.at + 128, 32);   // to probes in front of the original 16
  b.counted = {2 * column_record + 2 * small_record};
  Collector c;
  const auto summary = b.decode(c);
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_TRUE(summary->losses.none());
  EXPECT_EQ(summary->records, 4u);
  EXPECT_EQ(summary->clocks, 3u);
  EXPECT_EQ(summary->bytes_written, b.counted[0]);
  EXPECT_EQ(summary->bytes_dropped, 0u);
  ASSERT_EQ(c.events.size(), 4u);
  EXPECT_EQ(c.events[0].scalars, (std::vector<uint64_t>{0x1'ffff'fff8, 0x4}));
  ASSERT_EQ(c.events[0].columns.size(), 1u);
  EXPECT_EQ(c.events[0].columns[0][0], 100u);
  EXPECT_EQ(c.events[0].columns[0][1], 0u);   // was not active
  EXPECT_EQ(c.events[0].columns[0][2], 102u);
  EXPECT_EQ(c.events[1].scalars, (std::vector<uint64_t>{0x2'0000'0010, 5}));
  EXPECT_EQ(c.events[2].scalars, (std::vector<uint64_t>{0x2'0000'0008, 5}));
  EXPECT_EQ(c.events[3].columns[0][0], 16u);
  EXPECT_TRUE(c.warps[0].marks.empty());
}

TEST(PointTrace, LossesInPlainSlots) {
  const struct {
    const char* what;
    uint32_t slot_bytes, records, behind;   // small records, and the word behind them
    Loss loss;
    uint64_t written;
  } rows[] = {
      {"no room for the end", lead + 2 * small_record, 2, 0, Loss::guard_overrun, 2 * small_record},
      {"half a record", lead + 2 * small_record + 8, 2, head_of(1), Loss::guard_overrun, 3 * small_record},
      {"of another probe", 256, 1, wire::word0(wire::RecordKind::mem, 1), Loss::kind_mismatch, small_record},
      {"of no probe", 256, 1, 8u << 28, Loss::unknown_kind, small_record},
      {"a point that there is not", 256, 1, head_of(4), Loss::unknown_index, small_record},
      {"a point without records", 256, 0, head_of(2), Loss::unknown_index, 0},
  };
  for (const auto& row : rows) {
    Buffer b(row.slot_bytes);
    for (uint32_t k = 0; k < row.records; ++k) b.small(0x10 + k);
    if (row.behind != 0) b.word(b.at, row.behind);
    Collector c;
    const auto summary = b.decode(c);
    ASSERT_TRUE(summary) << row.what;
    EXPECT_EQ(c.events.size(), row.records) << row.what;
    ASSERT_EQ(c.warps.at(0).marks.size(), 1u) << row.what;
    EXPECT_EQ(c.warps[0].marks[0].loss, row.loss) << row.what;
    EXPECT_EQ(c.warps[0].marks[0].record, row.records) << row.what;
    EXPECT_EQ(summary->bytes_written, row.written) << row.what;
    EXPECT_EQ(summary->bytes_written - summary->bytes_dropped, row.records * small_record) << row.what;
    EXPECT_EQ(summary->losses.count(row.loss), 1u) << row.what;
    EXPECT_FALSE(summary->losses.none()) << row.what;
  }
  // What fits to the byte, with the zero behind it, is no loss.
  Buffer b(lead + small_record + 4);
  b.small(0x10);
  Collector c;
  EXPECT_TRUE(b.decode(c)->losses.none());
}

TEST(PointTrace, WarpsThatDidNotStartAndCountsThatChanged) {
  Buffer b(64, 3);
  b.small(0x10);
  b.word(64, 0);
  b.counted = {small_record, 0, small_record};
  Collector c;
  const auto summary = b.decode(c);
  ASSERT_TRUE(summary);
  EXPECT_EQ(c.begun, (std::vector<uint32_t>{0, 1, 2}));
  ASSERT_EQ(c.warps.size(), 3u);
  EXPECT_EQ(c.warps[1].marks.at(0).loss, Loss::never_started);
  EXPECT_EQ(c.warps[2].marks.at(0).loss, Loss::count_changed);
  EXPECT_EQ(summary->losses.count(LossSeverity::lost), 1u);
}

// Wrapping slots, read by the bytes that the headers tell.
TEST(PointTrace, WrappingSlots) {
  const auto mark_of = [](Buffer b, auto change) {
    b.map.layout.wraps = true;
    b.small(0x10);
    b.small(0x20);
    b.starts[0].bytes = 2 * small_record;
    change(b);
    Collector c;
    const auto summary = b.decode(c);
    EXPECT_TRUE(summary);
    EXPECT_LE(c.warps.size(), 1u);
    const std::string name = !summary ? "" : c.warps.empty() || c.warps[0].marks.empty() ? "" : std::string(loss_info(c.warps[0].marks[0].loss).name);
    if (summary && summary->losses.count(Loss::unsampled_records) != 0) return std::string("unsampled_records");
    return name + " " + std::to_string(c.events.size());
  };
  const Buffer b(lead + 2 * small_record);
  EXPECT_EQ(mark_of(b, [](Buffer&) {}), " 2");   // to the last byte of the slot
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.starts[0].bytes = small_record; }), " 1");
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.starts[0].bytes = 0; }), " 0");
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.starts[0].bytes += 1; }), "wrapped 0");
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.starts[0].bytes -= 4; }), "guard_overrun 1");
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.starts[0].bytes = small_record + 2; }), "guard_overrun 1");
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.starts[0].bytes = wire::not_exited; }), "not_exited 0");
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.starts[0].start_clock = 0; }), "never_started 0");
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.word(lead + small_record, 0); }), "kind_mismatch 1");   // a zero is no end here
  const auto unsampled = [](Buffer& x) { x.map.layout.select.ctas = {{5, 5}}; };
  EXPECT_EQ(mark_of(b, unsampled), "unsampled_records");
  EXPECT_EQ(mark_of(b, [&](Buffer& x) { unsampled(x), x.starts[0].start_clock = 0; }), " 0");
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.map.layout.select.sms = {{5, 5}}; }), " 2");
  EXPECT_EQ(mark_of(b, [](Buffer& x) { x.map.layout.select.sms = {{5, 5}}, x.starts[0].start_clock = 0; }), " 0");   // ran elsewhere
}

TEST(PointTrace, MapsThatContradictThemselves) {
  const auto refused = [](auto change) {
    Buffer b(64);
    change(b);
    Collector c;
    return !b.decode(c);
  };
  EXPECT_FALSE(refused([](Buffer&) {}));
  EXPECT_TRUE(refused([](Buffer& b) { b.map.points[1].block = 2; }));
  EXPECT_TRUE(refused([](Buffer& b) { b.map.points[1].values[1].place = 16; }));
  EXPECT_TRUE(refused([](Buffer& b) { b.map.points[0].values[2].place = 129; }));
  EXPECT_TRUE(refused([](Buffer& b) { b.map.points[1].values.clear(), b.map.points[1].record_bytes = 4; }));
  EXPECT_FALSE(refused([](Buffer& b) { b.map.points[2].values = {value(Kind::clock, 8)}; }));   // is not recorded
  EXPECT_TRUE(refused([](Buffer& b) { b.starts.clear(); }));
}

struct InFile {
  wire::AddressMap map = map_of(1, 64);
  PointWarp warp;
  std::string text;
  std::vector<PointEvent> events;

  InFile() {
    warp.start_clock = 1000;
    warp.marks = {{Loss::count_changed, 2, 0}};
    PointEvent e;
    e.point = 0;
    e.active = 0x7;
    e.scalars = {1010, 0x3};
    e.columns.resize(1);
    for (uint32_t lane = 0; lane < 3; ++lane) e.columns[0][lane] = lane * lane;
    events.push_back(e);
    e.active = 0;
    e.columns[0] = {};
    events.push_back(e);   // nobody was active: no column
    events.push_back({1, 1, {1005, 9}, {}});
    PointEncoder encoder(map);
    encoder.begin(warp);
    for (const PointEvent& event : events) encoder.event(event);
    EXPECT_EQ(encoder.end(warp, text), events.size());
  }
  // Whether it was read to the end, and the events up to there.
  std::pair<bool, std::vector<PointEvent>> read(std::string_view bytes) const {
    VarintReader in(bytes);
    Collector c;
    ImpliedPoints implied(map);
    const auto records = decode_point_warp(in, map, implied, c);
    EXPECT_TRUE(records);
    EXPECT_EQ(c.warps.size(), in.ok() ? 1u : 0u) << "what is damaged is no warp";
    return {in.ok(), c.events};
  }
};

TEST(PointFile, GivesBackWhatWasWritten) {
  const InFile f;
  const auto [whole, events] = f.read(f.text);
  EXPECT_TRUE(whole);
  EXPECT_EQ(events, f.events);
}

TEST(PointFile, DamagedWarpsAreRefused) {
  const InFile f;
  for (size_t n = 0; n < f.text.size(); ++n) EXPECT_FALSE(f.read(f.text.substr(0, n)).first) << n;
  const size_t first = f.text.find(std::string("\1\0\7\0\0\0", 6));   // tag, point, lanes
  ASSERT_NE(first, std::string::npos);
  const auto with = [&](size_t at, char c) {
    std::string text = f.text;
    text[first + at] = c;
    return f.read(text).first;
  };
  EXPECT_FALSE(with(0, 2));   // no such tag
  EXPECT_FALSE(with(1, 4));   // no such point
  const size_t shape = 6 + 1 + 1;   // behind a clock and a word of one byte each
  ASSERT_EQ(f.text[first + shape], 2);
  EXPECT_FALSE(with(shape, 3));
}

}  // namespace
}  // namespace xtrace::trace::point_decode_test
