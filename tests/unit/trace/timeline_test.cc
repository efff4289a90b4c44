// The timeline, read by an independent reader of the protobuf wire format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "output_sample.h"
#include "trace/clock_model.h"
#include "trace/perfetto_export.h"
#include "trace/varint.h"

namespace xtrace::trace {
namespace {

using testing::all;
using testing::Buffer;
using testing::diamond_loop;
using ::testing::HasSubstr;
using testing::OutputTest;
using testing::Sample;

struct Field {
  uint32_t number;
  uint64_t value = 0;
  std::string bytes;
};
std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> out;
  VarintReader in(message);
  while (!in.at_end()) {
    const uint64_t key = in.varint();
    Field f{static_cast<uint32_t>(key >> 3), 0, {}};
    if ((key & 7) == 0) {
      f.value = in.varint();
    } else if ((key & 7) == 2) {
      f.bytes = in.string();
    } else {
      ADD_FAILURE() << "wire type " << (key & 7);
    }
    EXPECT_TRUE(in.ok());
    if (!in.ok()) break;
    out.push_back(std::move(f));
  }
  return out;
}
const Field* find(const std::vector<Field>& fields, uint32_t number) {
  for (const Field& f : fields)
    if (f.number == number) return &f;
  return nullptr;
}

struct SeenSlice {
  std::string track, name;
  uint64_t begin = 0, end = 0;
  std::map<std::string, uint64_t> args;
};
struct Seen {
  std::map<uint64_t, std::string> tracks;  // uuid -> "process name/thread name"
  std::vector<SeenSlice> slices;
  std::vector<std::string> instants;  // "track: name"
};
Seen read_timeline(const std::filesystem::path& path) {
  Seen seen;
  const auto file = read_file(path);
  EXPECT_TRUE(file);
  if (!file) return seen;
  std::map<uint64_t, std::string> names, arg_names, processes;
  std::map<uint64_t, std::vector<size_t>> open;
  bool first = true;
  for (const Field& p : fields_of({reinterpret_cast<const char*>(file->data()), file->size()})) {
    EXPECT_EQ(p.number, 1u);
    const auto packet = fields_of(p.bytes);
    EXPECT_EQ(find(packet, 10)->value, 1u);
    EXPECT_EQ(find(packet, 13)->value, first ? 3u : 2u);
    first = false;
    if (const Field* interned = find(packet, 12)) {
      for (const Field& f : fields_of(interned->bytes)) {
        const auto e = fields_of(f.bytes);
        (f.number == 2 ? names : arg_names)[find(e, 1)->value] = find(e, 2)->bytes;
      }
    }
    if (const Field* d = find(packet, 60)) {
      const auto descriptor = fields_of(d->bytes);
      std::string name;
      if (const Field* process = find(descriptor, 3)) {
        const auto f = fields_of(process->bytes);
        name = processes[find(f, 1)->value] = find(f, 6)->bytes;
      }
      if (const Field* thread = find(descriptor, 4)) {
        const auto f = fields_of(thread->bytes);
        EXPECT_NE(find(f, 1)->value, find(f, 2)->value);
        name = processes.at(find(f, 1)->value) + "/" + find(f, 5)->bytes;
      }
      seen.tracks[find(descriptor, 1)->value] = name;
    }
    if (const Field* e = find(packet, 11)) {
      const auto event = fields_of(e->bytes);
      const uint64_t type = find(event, 9)->value, track = find(event, 11)->value;
      const uint64_t ns = find(packet, 8)->value;
      EXPECT_TRUE(seen.tracks.count(track)) << "an event on a track that was not described";
      if (type == 1) {
        SeenSlice s{seen.tracks[track], names.at(find(event, 10)->value), ns, 0, {}};
        for (const Field& f : event) {
          if (f.number != 4) continue;
          const auto a = fields_of(f.bytes);
          s.args[arg_names.at(find(a, 1)->value)] = find(a, 3) ? find(a, 3)->value : find(a, 7)->value;
        }
        open[track].push_back(seen.slices.size());
        seen.slices.push_back(s);
      } else if (type == 2) {
        EXPECT_FALSE(open[track].empty());
        seen.slices[open[track].back()].end = ns;
        open[track].pop_back();
      } else {
        seen.instants.push_back(seen.tracks[track] + ": " + find(event, 23)->bytes);
      }
    }
  }
  for (const auto& [track, slices] : open) EXPECT_TRUE(slices.empty()) << "a slice that never ends";
  return seen;
}

using Timeline = OutputTest;

TEST_F(Timeline, TracksSlicesArgumentsAndLosses) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  map.layout.warps_per_cta = 2;
  Buffer b(map);
  for (uint32_t w = 0; w < 4; ++w) b.start(w, 1'000'000 + 200 * w, 50'000 + 100 * w, w < 2 ? 12 : 5);
  b.block(0, 0, all, 1'000'020);
  b.block(0, 2, 0xf0, 1'000'060);
  b.block(0, 4, all, 1'000'100);
  b.exit(0, 1'000'200);
  b.block(3, 0, 7, 1'000'640);
  std::vector<WarpTrace> t;
  ASSERT_TRUE(b.decode(TraceKind::block, t));
  ClockModel clocks(map.layout, b.headers, 2.0);
  auto e = PerfettoExporter::create(file("a.pftrace"), map, TraceKind::block, clocks,
                                    block_labels(map, {"sgemm.cu:41"}), {});
  ASSERT_TRUE(e) << e.error().to_string();
  for (const WarpTrace& w : t) ASSERT_TRUE((*e)->add(w));
  const auto summary = (*e)->finish();
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->slices, 4u);
  EXPECT_EQ(summary->slices_left_out, 0u);
  EXPECT_EQ(summary->bytes, std::filesystem::file_size(file("a.pftrace")));

  const Seen seen = read_timeline(file("a.pftrace"));
  ASSERT_EQ(seen.slices.size(), 4u);
  const SeenSlice& first = seen.slices[0];
  EXPECT_EQ(first.track, "SM 12/CTA 0 warp 0");
  EXPECT_EQ(first.name, "B0 sgemm.cu:41");
  EXPECT_EQ(first.begin, 10u);  // 20 cycles at 2 GHz
  EXPECT_EQ(first.end, 30u);    // where the next one begins
  EXPECT_EQ(first.args.at("pc"), 0u);
  EXPECT_EQ(first.args.at("mask"), all);
  EXPECT_EQ(first.args.at("instructions"), 3u);
  EXPECT_EQ(seen.slices[1].name, "B2 0x0050");
  EXPECT_EQ(seen.slices[1].args.at("mask"), 0xf0u);
  EXPECT_EQ(seen.slices[2].end, 100u);  // the warp's exit
  EXPECT_EQ(seen.slices[3].track, "SM 5/CTA 1 warp 1");
  EXPECT_EQ(seen.slices[3].begin, 320u);  // both SMs started together by GLOBALTIMER and clock
  EXPECT_THAT(seen.instants, ::testing::Contains("SM 5/CTA 1 warp 1: loss: not_exited"));
  EXPECT_THAT(seen.instants[0],
              HasSubstr("xtrace: ns = SM cycles / 2.000 GHz; 2 SM clocks aligned by the GLOBALTIMER"));
}

// B1 is of another part: B0 may have led there, and what stands last was not followed by the warp's exit as far as anybody knows.
TEST_F(Timeline, SlicesOfAPartLastAsLongAsTheyMust) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  map.layout.warps_per_cta = 2;
  map.sites_one_in = 8;
  map.blocks[1].unrecorded = map.blocks[1].other_part = true;
  map.blocks[2].least_cycles = 30;
  Buffer b(map);
  for (uint32_t w = 0; w < 4; ++w) b.start(w, 1'000'000, 50'000, 12);
  b.block(0, 0, all, 1'000'020);
  b.block(0, 2, all, 1'000'060);
  b.block(0, 3, 0xf0, 1'000'200);
  b.block(0, 4, all, 1'000'300);
  for (uint32_t w = 0; w < 4; ++w) b.exit(w, 1'000'400);
  std::vector<WarpTrace> t;
  const auto decoded = b.decode(TraceKind::block, t);
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->losses.none()) << "a warp may meet nothing of its part";
  auto e = PerfettoExporter::create(file("p.pftrace"), map, TraceKind::block, ClockModel(map.layout, b.headers, 1.0), {}, {});
  ASSERT_TRUE(e) << e.error().to_string();
  for (const WarpTrace& w : t) ASSERT_TRUE((*e)->add(w));
  ASSERT_TRUE((*e)->finish());
  const Seen seen = read_timeline(file("p.pftrace"));
  ASSERT_EQ(seen.slices.size(), 4u);
  const uint64_t expected[][2] = {{20, 23}, {60, 200}, {200, 201}, {300, 311}};   // B2 leads to B3 alone, and took all lanes there
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(seen.slices[i].begin, expected[i][0]) << i;
    EXPECT_EQ(seen.slices[i].end, expected[i][1]) << i;
  }
  EXPECT_THAT(seen.instants, ::testing::Contains(HasSubstr("one part of site:1/8")));
}

TEST_F(Timeline, LimitIsReportedInTheSummaryAndInTheTimeline) {
  const Sample s(TraceKind::block);
  PerfettoOptions o;
  o.max_slices = 10;
  auto e = PerfettoExporter::create(file("a.pftrace"), s.buffer.map, TraceKind::block,
                                    ClockModel(s.buffer.map.layout, s.buffer.headers, 1.98), {}, o);
  ASSERT_TRUE(e);
  for (const WarpTrace& w : s.traces) ASSERT_TRUE((*e)->add(w));
  const auto summary = (*e)->finish();
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->slices, 10u);
  EXPECT_EQ(summary->slices_left_out, s.summary.records - 10);
  const Seen seen = read_timeline(file("a.pftrace"));
  EXPECT_EQ(seen.slices.size(), 10u);
  EXPECT_THAT(seen.instants.back(), HasSubstr("limit of 10 slices reached"));
}

TEST_F(Timeline, ImpliedBlocksAreSlicesThatSayWhoPlacedThem) {
  wire::AddressMap map = diamond_loop(TraceKind::block);
  map.blocks[1].implied = true;
  map.layout.warps = map.layout.warps_per_cta = 1;
  WarpTrace t;
  t.index = {0, 1, 2};
  t.mask = {all, all, all};
  t.kind.assign(3, wire::RecordKind::block);
  t.clock = {110, 140, 150};
  t.clock_begin = {0, 1, 2, 3};
  t.start_clock = 100;
  t.exited = true;
  t.exit_clock = 200;
  std::vector<wire::WarpHeader> headers(1);
  headers[0].start_clock = 100;
  auto e = PerfettoExporter::create(file("a.pftrace"), map, TraceKind::block, ClockModel(map.layout, headers, 1.0), {}, {});
  ASSERT_TRUE(e);
  ASSERT_TRUE((*e)->add(t));
  ASSERT_TRUE((*e)->finish());
  const Seen seen = read_timeline(file("a.pftrace"));
  ASSERT_EQ(seen.slices.size(), 3u);
  EXPECT_EQ(seen.slices[0].end, 40u);
  EXPECT_EQ(seen.slices[1].begin, 40u);
  EXPECT_EQ(seen.slices[1].end, 50u);
  EXPECT_EQ(seen.slices[1].name, block_labels(map, {})[1] + " (placed)");
  EXPECT_EQ(seen.slices[0].name, block_labels(map, {})[0]);
}

TEST_F(Timeline, PairsAndEdgesAreSlicesOfTheirSites) {
  wire::AddressMap map = diamond_loop(TraceKind::pair);
  map.layout.warps = map.layout.warps_per_cta = 1;
  Buffer b(map);
  b.start(0, 100, 1, 0);
  b.pair(0, 0, all, 110, 150);
  b.edge(0, true, 1, all, 160);
  b.edge(0, false, 1, all, 200);
  b.exit(0, 300);
  std::vector<WarpTrace> t;
  ASSERT_TRUE(b.decode(TraceKind::pair, t));
  auto e = PerfettoExporter::create(file("a.pftrace"), map, TraceKind::pair,
                                    ClockModel(map.layout, b.headers, 1.0), {}, {});
  ASSERT_TRUE(e);
  ASSERT_TRUE((*e)->add(t[0]));
  ASSERT_TRUE((*e)->finish());
  const Seen seen = read_timeline(file("a.pftrace"));
  ASSERT_EQ(seen.slices.size(), 2u);
  EXPECT_EQ(seen.slices[0].name, "0x0010");
  EXPECT_EQ(seen.slices[0].begin, 10u);
  EXPECT_EQ(seen.slices[0].end, 50u);
  EXPECT_EQ(seen.slices[1].name, "0x0040");
  EXPECT_EQ(seen.slices[1].begin, 60u);
  EXPECT_EQ(seen.slices[1].end, 100u);
  EXPECT_FALSE(PerfettoExporter::create(file("b.pftrace"), map, TraceKind::pair,
                                        ClockModel(map.layout, b.headers, 1.0), {"one"}, {}));
}

}  // namespace
}  // namespace xtrace::trace
