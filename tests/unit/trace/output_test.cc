// The trace file, the table and the clock model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "base/file.h"
#include "output_sample.h"
#include "tests/json_document.h"
#include "trace/clock_model.h"
#include "trace/table.h"
#include "trace/trace_file.h"

namespace xtrace::trace {
namespace {

using testing::Buffer;
using testing::diamond_loop;
using ::testing::HasSubstr;
using testing::OutputTest;
using testing::Sample;

using TraceFile = OutputTest;

Result<std::string> write_trace(const std::filesystem::path& path, const Sample& s) {
  XT_TRY(auto w, TraceFileWriter::create(path, s.meta));
  for (const WarpTrace& t : s.traces) XT_TRY_STATUS(w->add(t));
  XT_TRY_STATUS(w->finish(s.summary));
  XT_TRY(Bytes b, read_file(path));
  EXPECT_EQ(w->bytes_written(), b.size());
  return std::string(reinterpret_cast<const char*>(b.data()), b.size());
}

TEST_F(TraceFile, RoundTripOfEveryKind) {
  for (TraceKind kind : {TraceKind::block, TraceKind::inst, TraceKind::pair}) {
    Sample s(kind);
    s.meta.map.blocks[3].unrecorded = s.meta.map.blocks[3].other_part = true;
    s.meta.map.blocks[1].placed = true;
    s.meta.map.sites_one_in = 8;
    s.meta.map.layout.cta_part = 3;
    s.meta.map.layout.all_parts = true;
    for (WarpTrace& t : s.traces) t.cta_part = 5 + t.warp;
    ASSERT_GT(s.summary.losses.count(LossSeverity::lost), 0u);
    ASSERT_TRUE(write_trace(file("a.xtt"), s));
    auto r = TraceFileReader::open(file("a.xtt"));
    ASSERT_TRUE(r) << r.error().to_string();
    const TraceMeta& m = (*r)->meta();
    EXPECT_EQ(m.identity, s.meta.identity);
    EXPECT_EQ(m.kind, kind);
    EXPECT_EQ(m.labels, s.meta.labels);
    EXPECT_EQ(m.map.sites_one_in, 8u);
    EXPECT_EQ(m.map.layout.cta_part, 3u);
    EXPECT_TRUE(m.map.layout.all_parts);
    EXPECT_EQ(m.map.original_of_new, s.meta.map.original_of_new);
    ASSERT_EQ(m.map.blocks.size(), 5u);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(m.map.blocks[i].first_pc, s.meta.map.blocks[i].first_pc);
      EXPECT_EQ(m.map.blocks[i].instructions, s.meta.map.blocks[i].instructions);
      EXPECT_EQ(m.map.blocks[i].record_bytes, s.meta.map.blocks[i].record_bytes);
      EXPECT_EQ(m.map.blocks[i].successors, s.meta.map.blocks[i].successors);
      EXPECT_EQ(m.map.blocks[i].exits, s.meta.map.blocks[i].exits);
      EXPECT_EQ(m.map.blocks[i].unrecorded, s.meta.map.blocks[i].unrecorded);
      EXPECT_EQ(m.map.blocks[i].other_part, s.meta.map.blocks[i].other_part);
      EXPECT_EQ(m.map.blocks[i].placed, s.meta.map.blocks[i].placed);
      for (uint32_t k = 0; k < m.map.blocks[i].clocks; ++k) {
        EXPECT_EQ(m.map.blocks[i].has_clock(k), s.meta.map.blocks[i].has_clock(k)) << i << " " << k;
        if (m.map.blocks[i].has_clock(k)) continue;
        EXPECT_EQ(m.map.blocks[i].clock_at[k].bytes, s.meta.map.blocks[i].clock_at[k].bytes) << i << " " << k;
      }
    }
    ASSERT_EQ(m.map.sites.size(), s.meta.map.sites.size());
    for (size_t i = 0; i < m.map.sites.size(); ++i) {
      EXPECT_EQ(m.map.sites[i].pc, s.meta.map.sites[i].pc);
      EXPECT_EQ(m.map.sites[i].edge, s.meta.map.sites[i].edge);
      EXPECT_EQ(m.map.sites[i].overhead_cycles, s.meta.map.sites[i].overhead_cycles);
      EXPECT_EQ(m.map.sites[i].least_cycles, s.meta.map.sites[i].least_cycles);
    }
    EXPECT_EQ(m.map.layout.lead_bytes, 64u);
    EXPECT_EQ(m.map.layout.slots, testing::buffer_base);
    EXPECT_TRUE(m.map.layout.wraps);
    ASSERT_EQ(m.headers.size(), 4u);
    EXPECT_EQ(m.headers[2].start_clock, s.buffer.headers[2].start_clock);
    WarpTrace t;
    for (const WarpTrace& expected : s.traces) {
      auto more = (*r)->next(t);
      ASSERT_TRUE(more) << more.error().to_string();
      ASSERT_TRUE(*more);
      EXPECT_EQ(t, expected);
    }
    EXPECT_FALSE(*(*r)->next(t));
    EXPECT_FALSE(*(*r)->next(t));
    EXPECT_EQ((*r)->summary().losses, s.summary.losses);
    EXPECT_EQ((*r)->summary().records, s.summary.records);
    EXPECT_EQ((*r)->summary().bytes_dropped, s.summary.bytes_dropped);
  }
}

TEST_F(TraceFile, CutOrDamagedAnywhereIsBadInputNeverATrace) {
  const Sample s(TraceKind::inst);
  const auto whole = write_trace(file("a.xtt"), s);
  ASSERT_TRUE(whole);
  auto read_all = [&](const std::string& bytes) -> Status {
    EXPECT_TRUE(write_file(file("b.xtt"), bytes));
    XT_TRY(auto r, TraceFileReader::open(file("b.xtt")));
    WarpTrace t;
    for (bool more = true; more;) {
      XT_TRY(more, r->next(t));
    }
    return {};
  };
  ASSERT_TRUE(read_all(*whole));
  for (size_t n = 0; n < whole->size(); n += 7) {
    const Status st = read_all(whole->substr(0, n));
    ASSERT_FALSE(st) << n;
    EXPECT_EQ(st.error().kind, ErrorKind::bad_input);
  }
  EXPECT_THAT(read_all(whole->substr(0, whole->size() - 3)).error().message, HasSubstr("4 whole warps"));
  // What nobody checks: the version of the records, and four reserved bytes of each frame's header.
  std::set<size_t> unchecked{12, 13, 14, 15};
  for (size_t frame = 16; frame < whole->size();) {
    for (size_t k = 4; k < 8; ++k) unchecked.insert(frame + k);
    uint64_t compressed = 0;
    std::memcpy(&compressed, whole->data() + frame + 8, sizeof compressed);
    frame += 24 + compressed;
  }
  std::mt19937 rng(2);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = *whole;
    const size_t at = 8 + rng() % (bytes.size() - 8);
    bytes[at] ^= static_cast<char>(1 + rng() % 255);
    if (!unchecked.contains(at)) {
      EXPECT_FALSE(read_all(bytes)) << at;
    }
  }
  std::string newer = *whole;
  newer[8] = 99;
  EXPECT_THAT(read_all(newer).error().message, HasSubstr("version 99, this program reads version 8"));
}

TEST_F(TraceFile, AnUnfinishedFileLeavesNothingBehind) {
  const Sample s(TraceKind::block);
  {
    auto w = TraceFileWriter::create(file("a.xtt"), s.meta);
    ASSERT_TRUE(w);
    ASSERT_TRUE((*w)->add(s.traces[0]));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
  EXPECT_FALSE(TraceFileWriter::create(dir_ / "no" / "such" / "folder", s.meta));
}

TEST(ClockModel, AlignsSmsByTheLargestLowerBound) {
  wire::SlotLayout l;
  l.warps = 4;
  l.warps_per_cta = 1;
  std::vector<wire::WarpHeader> h(4);
  // SM 0's true offset: clock 1000 = 500 ns. GLOBALTIMER ticks every 32 ns and reads the last tick.
  h[0] = {0, 0, 0, 0, 1000, 10'000 + 480};
  h[1] = {0, 0, 0, 0, 1024, 10'000 + 512};  // 1000 + 24 cycles at 2 GHz = 12 ns later: exactly on a tick
  h[2] = {0, 0, 3, 0, 7'000'000, 10'000};
  h[3] = {0, 0, 9, 0, 0, 0};  // never started
  const ClockModel m(l, h, 2.0);
  EXPECT_EQ(m.sms(), 2u);
  EXPECT_DOUBLE_EQ(m.nanoseconds(3, 7'000'000), 0);
  EXPECT_DOUBLE_EQ(m.nanoseconds(3, 7'000'010), 5);
  EXPECT_DOUBLE_EQ(m.nanoseconds(0, 1000), 500);
  EXPECT_DOUBLE_EQ(m.nanoseconds(0, 900), 450);
  EXPECT_DOUBLE_EQ(m.alignment_spread(), 20);
}

TEST(ClockModel, EstimatesTheClockFromStartsThatLieFarApart) {
  wire::SlotLayout l;
  l.warps = 3;
  l.warps_per_cta = 1;
  std::vector<wire::WarpHeader> h(3);
  h[0] = {0, 0, 1, 0, 1'000'000, 5'000};
  h[1] = {0, 0, 1, 0, 1'000'000 + 170'000, 5'000 + 100'000};
  h[2] = {0, 0, 2, 0, 900, 5'000};
  ASSERT_TRUE(ClockModel::estimate_ghz(l, h));
  EXPECT_DOUBLE_EQ(*ClockModel::estimate_ghz(l, h), 1.7);
  h[1].start_time = 5'000 + 40'000;
  EXPECT_FALSE(ClockModel::estimate_ghz(l, h));
}

TEST(Table, RowsReasonsAndRenderings) {
  wire::AddressMap map = diamond_loop(TraceKind::inst);
  map.layout.warps = map.layout.warps_per_cta = 1;
  Buffer b(map);
  uint64_t clock = 100;
  b.start(0, clock);
  for (uint32_t i : {0u, 1u, 3u, 4u}) b.inst_run(0, i, 0xff, clock, 4);
  b.exit(0, clock + 1);
  std::vector<WarpTrace> t;
  ASSERT_TRUE(b.decode(TraceKind::inst, t));
  Aggregate counts(map, TraceKind::inst);
  counts.add(t[0]);

  GradedTimes times;
  wire::AddressMap pair_map = diamond_loop(TraceKind::pair);
  pair_map.layout.warps = pair_map.layout.warps_per_cta = 1;
  pair_map.sites = {{0x10, false, 0}, {0x20, false, 0}};
  pair_map.layout.slot_bytes = 4096;
  Buffer p(pair_map);
  p.start(0, 10);
  for (uint64_t i = 0; i < 40; ++i) p.pair(0, 0, 1, 100 + 100 * i, 100 + 100 * i + 32 + i % 3);
  p.pair(0, 1, 1, 9000, 9010);
  p.exit(0, 10'000);
  ASSERT_TRUE(p.decode(TraceKind::pair, t));
  times.add(pair_map, t[0]);

  TableSources sources;
  sources.map = &map;
  sources.counts = &counts;
  sources.times = &times;
  sources.sass = [](uint32_t pc) { return pc == 0x10 ? "FFMA R0, R1, R2, R0" : "NOP"; };
  sources.source = [](uint32_t pc) { return pc == 0x10 ? "say \"hi\", a.cu:3" : ""; };
  sources.refusal = [](uint32_t pc) { return pc == 0x30 ? "inside a wgmma group" : ""; };
  const auto rows = instruction_table(sources);
  ASSERT_EQ(rows.size(), 24u);
  EXPECT_EQ(rows[1].pc, 0x10u);
  EXPECT_EQ(rows[1].warps, 1u);
  EXPECT_EQ(rows[1].threads, 8u);
  EXPECT_EQ(rows[1].ungraded_mean, 4.0);
  ASSERT_TRUE(rows[1].graded);
  EXPECT_EQ(rows[1].graded->median, 31.0);
  EXPECT_EQ(rows[0].no_grade, "not measured");
  EXPECT_EQ(rows[2].no_grade, "1 samples, 30 wanted");
  EXPECT_EQ(rows[3].no_grade, "inside a wgmma group");
  EXPECT_EQ(rows[6].no_grade, "not executed");

  wire::AddressMap waits = map;     // B2 is a loop that waits for others
  waits.blocks[2].unrecorded = true;
  TableSources polled = sources;
  polled.map = &waits;
  const auto polls = instruction_table(polled);
  const auto poll = std::find_if(polls.begin(), polls.end(), [](const InstructionRow& r) { return r.block == 2; });
  ASSERT_NE(poll, polls.end());
  EXPECT_EQ(poll->no_grade, "not recorded: a loop that waits for others");
  EXPECT_THAT(render_text({*poll}), HasSubstr("    B2            -              -         - "));
  EXPECT_THAT(render_csv({*poll}), HasSubstr(fmt::format("{:#x},2,,,,,,", poll->pc)));
  EXPECT_THAT(render_json({*poll}), HasSubstr("\"warps\": null"));

  wire::AddressMap part = waits;    // another part records it
  part.blocks[2].other_part = true;
  part.sites_one_in = 8;
  polled.map = &part;
  const auto others = instruction_table(polled);
  const auto other = std::find_if(others.begin(), others.end(), [](const InstructionRow& r) { return r.block == 2; });
  ASSERT_NE(other, others.end());
  EXPECT_EQ(other->no_grade, "not recorded: not of this part (site:1/8)");
  EXPECT_THAT(render_json({*other}), HasSubstr("\"warps\": null"));

  TableSources doubted = sources;   // measured, and not to be shown
  doubted.hidden = [](uint32_t pc) { return pc == 0x10 ? "not converged" : ""; };
  const auto without = instruction_table(doubted);
  EXPECT_FALSE(without[1].graded);
  EXPECT_EQ(without[1].no_grade, "not converged");
  EXPECT_EQ(without[3].no_grade, "inside a wgmma group");

  const std::string text = render_text(rows);
  EXPECT_THAT(
      text,
      HasSubstr("   0x10    B0            1              8       4.0         31 [30 32]      40 say \"hi\", "
                "a.cu:3           FFMA R0, R1, R2, R0\n"));
  EXPECT_THAT(text, HasSubstr("NOP  (inside a wgmma group)"));
  const std::string csv = render_csv(rows);
  EXPECT_THAT(csv, HasSubstr("0x10,0,1,8,read,4.000,4.000,0,31.000,30.000,32.000,32.000,"));
  EXPECT_THAT(csv, HasSubstr(",\"say \"\"hi\"\", a.cu:3\",\"FFMA R0, R1, R2, R0\"\n"));
  for (size_t at = 0, line = 0; line < 3;
       ++line) {  // as many commas in a row without quotes as in the first line
    const size_t end = csv.find('\n', at);
    if (line != 2) {
      EXPECT_EQ(std::count(csv.begin() + at, csv.begin() + end, ','), 19) << csv.substr(at, end - at);
    }
    at = end + 1;
  }
  const auto json = JsonDocument(render_json(rows));
  ASSERT_EQ(json.size(""), 24);
  EXPECT_EQ(json.at("/1/graded/median_cycles"), "31.0");
  EXPECT_EQ(json.at("/1/graded/samples"), "40");
  EXPECT_EQ(json.at("/0/graded"), "null");
  EXPECT_EQ(json.text("/3/no_grade"), "inside a wgmma group");
  EXPECT_EQ(json.at("/6/ungraded_mean_cycles"), "null");
}

// Clocks that nobody read: which they are, and which intervals are known nevertheless.
TEST(Table, ImpliedClocksAreMarked) {
  wire::AddressMap map = diamond_loop(TraceKind::inst);
  map.layout.warps = map.layout.warps_per_cta = 1;
  using P = wire::ClockPlace;
  // Of B0: the second waits, and the clock behind it was read; of B4: one had no register, the last but one is one of two that wait.
  map.blocks[0].clock_at = {{0, 4, 4, false}, {0, P::implied, 4, true}, {0, 4, 4, false}};
  for (uint8_t bytes : {uint8_t{4}, P::implied, P::implied, uint8_t{4}, P::absent, uint8_t{4}, P::implied, P::implied, uint8_t{4}, uint8_t{4}, uint8_t{4}})
    map.blocks[4].clock_at.push_back({0, bytes, 4, false});
  map.blocks[4].clock_at[6].waits = map.blocks[4].clock_at[7].waits = true;
  Buffer b(map);
  uint64_t clock = 100;
  b.start(0, clock);
  for (uint32_t i : {0u, 1u, 3u, 4u}) b.inst_run(0, i, 0xff, clock, 4);
  b.exit(0, clock + 1);
  std::vector<WarpTrace> t;
  ASSERT_TRUE(b.decode(TraceKind::inst, t));
  Aggregate counts(map, TraceKind::inst);
  counts.add(t[0]);
  TableSources sources;
  sources.map = &map;
  sources.counts = &counts;
  const auto rows = instruction_table(sources);
  ASSERT_EQ(rows.size(), 24u);
  EXPECT_EQ(rows[0].clock, "read");
  EXPECT_FALSE(rows[0].ungraded_mean) << "the clock behind it is implied";
  EXPECT_EQ(rows[1].clock, "implied");
  EXPECT_EQ(rows[1].ungraded_mean, 4.0);
  EXPECT_TRUE(rows[1].ungraded_from_implied);
  EXPECT_EQ(rows[1].offset_mean, 4.0);
  EXPECT_EQ(rows[2].ungraded_mean, 4.0);
  EXPECT_FALSE(rows[2].ungraded_from_implied);
  const size_t b4 = 13;
  EXPECT_EQ(rows[b4 + 4].clock, "none");
  for (size_t k : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u}) EXPECT_FALSE(rows[b4 + k].ungraded_mean) << k;
  EXPECT_EQ(rows[b4 + 8].ungraded_mean, 4.0);
  EXPECT_EQ(rows[b4 + 10].offset_mean, 40.0);
  const std::string text = render_text(rows), csv = render_csv(rows);
  EXPECT_THAT(text, HasSubstr("   0x10    B0            1              8      4.0~ "));
  EXPECT_THAT(text, HasSubstr("  0x110    B4            1              8         ~ "));
  EXPECT_THAT(text, HasSubstr("    0x0    B0            1              8         - "));
  EXPECT_THAT(csv, HasSubstr("0x10,0,1,8,implied,4.000,4.000,1,"));
  EXPECT_THAT(csv, HasSubstr("0x110,4,1,8,none,16.000,,,"));
  const auto json = JsonDocument(render_json(rows));
  EXPECT_EQ(json.text("/1/clock"), "implied");
  EXPECT_EQ(json.at("/1/ungraded_from_implied"), "true");
  EXPECT_EQ(json.at("/2/ungraded_from_implied"), "false");
  EXPECT_EQ(json.at("/1/offset_mean_cycles"), "4.0");

  // Of a whole block whose clocks are implied no interval is known.
  map.blocks[1].implied = true;
  Aggregate placed(map, TraceKind::inst);
  placed.add(t[0]);
  EXPECT_EQ(placed.instructions()[2].ungraded.count(), 0u) << "in front of it";
  EXPECT_EQ(placed.instructions()[3].ungraded.count(), 0u);
  EXPECT_EQ(placed.instructions()[4].ungraded.count(), 0u);
}

}  // namespace
}  // namespace xtrace::trace
