// Point probes on the interpreter: every event, with the lanes and the values in it, is what the interpreter saw of the
// original kernel by itself; and counting replays say exactly how much each warp writes.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "instrument/instrument.h"
#include "instrument/slot_plan.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/device_records.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/interp/run_as_recorded.h"
#include "trace/plain_slots.h"
#include "trace/point_analysis.h"
#include "trace/trace_file.h"

namespace xtrace::interp_test::point_test {
namespace {

using instrument::ProbeKind;
using Kind = wire::Value::Kind;

std::vector<ProbeKind> point_probes() {
  std::vector<ProbeKind> kinds;
  for (const instrument::ProbeInfo& p : instrument::all_probes())
    if (p.points) kinds.push_back(p.kind);
  return kinds;
}
constexpr uint32_t seed = 7;

// An event without its clocks.
struct Event {
  uint32_t point = 0, active = 0;
  std::vector<uint64_t> values;   // scalars; of columns those of the active lanes
  bool operator==(const Event&) const = default;
  std::string text(const std::vector<wire::Point>& points) const {
    std::string s = fmt::format("point {} {} {:#x} lanes {:#x}:", point, points[point].after ? "behind" : "before",
                                points[point].pc, active);
    for (size_t k = 0; k < values.size() && k < 8; ++k) s += fmt::format(" {:#x}", values[k]);
    return s;
  }
};
using Events = std::map<uint32_t, std::vector<Event>>;   // by warp

bool timeless(const wire::Value& v) { return !v.is_clock() && v.kind != Kind::time; }

class PointWitness final : public replay::interp::WitnessSink {
 public:
  explicit PointWitness(const std::vector<wire::Point>& points) : points_(points) {
    for (uint32_t k = 0; k < points.size(); ++k) (points[k].after ? behind_ : before_)[points[k].pc].push_back(k);
  }
  void executed(uint32_t, uint32_t, uint32_t, uint32_t) override {}
  bool reads_registers() const override { return true; }
  void before(uint32_t warp, uint32_t pc, uint32_t active, const replay::interp::RegisterView& view) override {
    auto& last = last_.try_emplace(warp, Lanes{}).first->second;
    // Lanes that come from the instruction in front of this one have fallen through.
    bool fell = pc >= 16;
    for (uint32_t m = active; m != 0; m &= m - 1) fell &= last[static_cast<unsigned>(std::countr_zero(m))] == pc - 16;
    if (const auto at = behind_.find(pc - 16); fell && at != behind_.end()) record(warp, at->second, active, view);
    if (const auto at = before_.find(pc); at != before_.end()) record(warp, at->second, active, view);
    for (uint32_t m = active; m != 0; m &= m - 1) last[static_cast<unsigned>(std::countr_zero(m))] = pc;
  }
  Events events;

 private:
  using Lanes = std::array<uint32_t, 32>;

  void record(uint32_t warp, const std::vector<uint32_t>& numbers, uint32_t active, const replay::interp::RegisterView& view) {
    for (uint32_t k : numbers) {
      Event e{k, active, {}};
      for (const wire::Value& v : points_[k].values) {
        if (v.kind == Kind::uniform) e.values.push_back(view.uniform(v.index));
        if (v.kind == Kind::lanes) e.values.push_back((view.predicate(v.index) ^ (v.negated ? ~0u : 0u)) & active);
        if (v.is_column())
          for (uint32_t m = active; m != 0; m &= m - 1)
            e.values.push_back(view.vector(v.index, static_cast<unsigned>(std::countr_zero(m))));
      }
      events[warp].push_back(std::move(e));
    }
  }

  const std::vector<wire::Point>& points_;
  std::map<uint32_t, std::vector<uint32_t>> before_, behind_;   // by pc
  std::map<uint32_t, Lanes> last_;                              // by warp: pc that each lane executed last
};

class Collector final : public trace::PointVisitor {
 public:
  explicit Collector(const std::vector<wire::Point>& points) : points_(points) {}
  Status begin(const trace::PointWarp& w) override {
    warp_ = w.warp;
    return {};
  }
  Status event(const trace::PointEvent& e) override {
    Event out{e.point, e.active, {}};
    size_t scalar = 0, column = 0;
    for (const wire::Value& v : points_[e.point].values) {
      if (v.is_column()) {
        for (uint32_t m = e.active; m != 0; m &= m - 1)
          out.values.push_back(e.columns[column][static_cast<unsigned>(std::countr_zero(m))]);
        ++column;
        continue;
      }
      const uint64_t value = e.scalars[scalar++];
      if (timeless(v)) out.values.push_back(value);
    }
    events[warp_].push_back(std::move(out));
    return {};
  }
  Status end(const trace::PointWarp&) override { return {}; }
  Events events;

 private:
  const std::vector<wire::Point>& points_;
  uint32_t warp_ = 0;
};

std::string first_difference(const Events& found, const Events& expected, const std::vector<wire::Point>& points) {
  for (const auto& [warp, events] : expected) {
    const auto f = found.find(warp);
    if (f == found.end()) return fmt::format("warp {} is missing", warp);
    for (size_t k = 0; k < events.size(); ++k) {
      if (k >= f->second.size()) return fmt::format("warp {} ends after {} of {} events", warp, k, events.size());
      if (!(f->second[k] == events[k]))
        return fmt::format("warp {} event {}: {}; the witness saw {}", warp, k, f->second[k].text(points), events[k].text(points));
    }
  }
  return "more than the witness saw";
}

// A register may hold a return address: in the spliced kernel it is where that went.
void translate_code_offsets(Events& found, const Events& expected, const wire::AddressMap& map) {
  const auto original = [&](uint64_t pc) -> uint64_t {
    for (uint64_t word = pc / 16; pc % 16 == 0 && word < map.original_of_new.size(); ++word)
      if (map.original_of_new[word] != wire::AddressMap::inserted) return map.original_of_new[word];
    return pc;
  };
  for (auto& [warp, events] : found) {
    const auto e = expected.find(warp);
    for (size_t k = 0; e != expected.end() && k < events.size() && k < e->second.size(); ++k) {
      const std::vector<uint64_t>& want = e->second[k].values;
      for (size_t n = 0; n < want.size() && n < events[k].values.size(); ++n)
        if (uint64_t& v = events[k].values[n]; v != want[n] && want[n] != 0 && original(v) == want[n]) v = want[n];
    }
  }
}

// Kernels that leave no register free where a probe needs one, at the price of occupancy or at all.
const std::map<std::string, std::set<ProbeKind>> refusals = {
    {"many_registers", {ProbeKind::reg, ProbeKind::latency, ProbeKind::custom}},
    {"launch_bounds", {ProbeKind::reg, ProbeKind::range, ProbeKind::latency, ProbeKind::custom}},
};

// Kernels with a register that some lanes of a block change.
const std::set<std::string> guarded = {
    "transpose_tiled", "warp_scan", "switch_table", "double_math", "constant_global", "collatz", "group_tiles", "grid_sync", "partial_warp",
    "grid_3d", "half_math", "cluster_shared", "async_copy", "bank_conflicts"};

class PointTrace : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    launch = recorded_launch(GetParam());
    const bundle::LaunchRecord& r = launch.record;
    backend = replay::make_interp_backend();
    ASSERT_TRUE(backend->prepare(launch));
    auto made = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
    ASSERT_TRUE(made) << made.error().to_string();
    splicer = made->asked(asked(*made));
    warps = static_cast<uint32_t>(r.grid.count()) * splicer->warps_per_cta();
  }

  // The first register that an instruction names, where it is a vector register: what most of them define.
  static std::optional<uint8_t> defined(const std::string& text) {
    const size_t name = text[0] == '@' ? text.find(' ') : 0, first = text.find(' ', name + 1);   // @P0 IADD3 R5, ...
    if (first == std::string::npos || text[first + 1] != 'R' || isdigit(text[first + 2]) == 0) return std::nullopt;
    return static_cast<uint8_t>(std::stoi(text.substr(first + 2)));
  }
  // A register that lanes of a block may keep while others change it, by an instruction with a guard amid the block; all had a value before.
  static std::optional<uint8_t> changed_under_a_guard(const instrument::Splicer& s) {
    const auto all = s.instructions();
    std::map<uint8_t, uint32_t> by_all;   // register -> block in which all lanes last got a value
    for (size_t n = 0; n + 1 < all.size(); ++n) {
      const std::string text = s.text(all[n].pc);
      const auto r = all[n].kind == sass::MemKind::store ? std::nullopt : defined(text);
      if (!r) continue;
      if (text[0] != '@') by_all[*r] = all[n].block;
      else if (const auto at = by_all.find(*r); at != by_all.end() && at->second == all[n].block && all[n + 1].block == all[n].block) return r;
    }
    return std::nullopt;
  }

  // Registers that the kernel mentions, low ones and high ones; everywhere, on both sides where that can be.
  static instrument::Asked asked(const instrument::Splicer& s) {
    std::vector<wire::Value> values;
    const auto take = [&](Kind kind, std::initializer_list<uint8_t> indices, size_t most) {
      for (uint8_t index : indices) {
        instrument::Asked one;
        one.reg.push_back({{}, {{kind, index}}, {}, {}});
        if (most != 0 && s.asked(one).points(ProbeKind::reg)) {
          values.push_back({kind, index});
          --most;
        }
      }
    };
    if (const auto r = changed_under_a_guard(s)) take(Kind::vector, {*r}, 1);
    take(Kind::vector, {0, 5, 9, 2}, 2);
    take(Kind::uniform, {4, 6}, 1);
    take(Kind::lanes, {0, 1}, 1);
    if (!values.empty() && values.back().kind == Kind::lanes) values.back().negated = true;
    instrument::Places falls(s.section_instructions(), false), third = falls, fourth = falls, middle = falls;
    const auto all = s.instructions();
    for (size_t n = 0; n < all.size(); ++n) {
      const uint32_t i = all[n].pc.value / 16;
      falls[i] = !all[n].branches;
      third[i] = falls[i] && n % 3 == 1;
      fourth[i] = n % 4 == 2;
      middle[i] = n >= all.size() / 4 && n < all.size() / 2;
    }
    instrument::Asked out;
    out.reg.push_back({{}, values, {}, {}});
    out.custom.push_back({third, {}, values, {}});
    out.custom.push_back({third, {{Kind::clock}, {Kind::time}}, {{Kind::clock}}, {}});
    out.custom.push_back({fourth, {}, {}, {}, true, true});   // what accesses store, and what they load
    out.range.push_back({middle, {}, {}, "middle"});
    return out;
  }

  void run(ByteView cubin, replay::interp::WitnessSink* sink) { run_as_recorded(*backend, launch, cubin, sink); }

  // What the probe would write, by warp, as counted on the spliced kernel.
  void count(const instrument::Splicer& s, ProbeKind probe, uint32_t one_in, const wire::Selection& select,
             std::vector<uint32_t>& bytes) {
    instrument::SlotPlan plan = instrument::plan_counters(warps, static_cast<uint32_t>(s.blocks().size()));
    const auto buffer = backend->allocate(plan.total_bytes, "counters");
    ASSERT_TRUE(buffer);
    instrument::place(plan, buffer->value);
    instrument::Plan counting;
    counting.probe = ProbeKind::count;
    counting.counted = probe;
    counting.one_in = one_in;
    counting.seed = seed;
    counting.select = {select.ctas, select.warps, {}};
    const auto spliced = s.splice(counting, plan.layout);
    ASSERT_TRUE(spliced) << spliced.error().to_string();
    ASSERT_NO_FATAL_FAILURE(run(spliced->cubin, nullptr));
    const auto headers = backend->read(DevPtr{plan.layout.headers}, uint64_t{warps} * sizeof(wire::WarpHeader));
    ASSERT_TRUE(headers);
    for (uint32_t w = 0; w < warps; ++w) bytes.push_back(read_at<wire::WarpHeader>(*headers, w * sizeof(wire::WarpHeader), "header")->sm);
    ASSERT_TRUE(backend->release(*buffer));
  }

  // One replay. `seen`: what the original kernel does at the points, all of them.
  void replay(ProbeKind probe, uint32_t one_in, instrument::Sites sites, bool wraps, const std::vector<wire::Point>& points,
              const Events& seen, const wire::Selection& select = {}) {
    SCOPED_TRACE(fmt::format("{} cta 1/{} sites {}/{}{}", instrument::probe_info(probe).name, one_in, sites.part, sites.one_in,
                             wraps ? " wrapping" : ""));
    const instrument::Splicer s = splicer->sparse(sites);
    const auto present = s.points(probe);
    ASSERT_TRUE(present);
    if (sites.nth > 1 && counters_are_refused(s, probe)) return;
    Events expected;
    std::vector<uint32_t> expected_bytes(warps, 0);
    for (const auto& [warp, events] : seen) {
      wire::SlotLayout sample;
      sample.one_in = one_in;
      sample.seed = seed;
      sample.select = select;
      sample.warps_per_cta = s.warps_per_cta();
      if (!sample.is_sampled(warp)) continue;
      std::vector<uint32_t> executions(points.size());
      for (const Event& e : events) {
        if (!(*present)[e.point].is_present() || executions[e.point]++ % sites.nth != 0) continue;
        const uint32_t sm = warp / s.warps_per_cta() % backend->info().sm_count;   // as the interpreter places CTAs
        if (wire::Selection::has(select.sms, sm)) expected[warp].push_back(e);
        expected_bytes[warp] += (*present)[e.point].record_bytes;
      }
    }
    std::vector<uint32_t> bytes;
    ASSERT_NO_FATAL_FAILURE(count(s, probe, one_in, select, bytes));
    EXPECT_EQ(bytes, expected_bytes);

    uint32_t largest = 16;
    for (const wire::Point& p : *present) {
      largest = std::max(largest, p.record_bytes);
      implied += p.implied;
      for (const wire::Value& v : p.values) left_out += !v.is_recorded();
    }
    const instrument::RecordForm form = instrument::form_of(*present);
    if (wraps && (form.lines || form.sectors)) return;
    instrument::SlotPlan slots = instrument::plan_slots(bytes, largest, wraps, form, uint64_t{1} << 30);
    const auto buffer = place_records(*backend, slots);
    ASSERT_TRUE(buffer);
    instrument::Plan plan;
    plan.probe = probe;
    plan.one_in = one_in;
    plan.seed = seed;
    plan.select = select;
    const auto spliced = s.splice(plan, slots.layout);
    const auto refused_as = [&](std::string_view reason) {
      return !spliced && spliced.error().kind == ErrorKind::unsupported && spliced.error().message.starts_with(reason);
    };
    if (refused_as("no register is free") || (sites.nth > 1 && refused_as("every nth execution: no predicate is free"))) {
      if (sites.nth == 1) refused.insert(probe);
      ASSERT_TRUE(backend->release(*buffer));
      return;
    }
    ASSERT_TRUE(spliced) << spliced.error().to_string();
    ASSERT_NO_FATAL_FAILURE(run(spliced->cubin, nullptr));

    const trace::DeviceReader read = reader_of(*backend);
    std::vector<wire::WarpHeader> starts(warps);
    if (wraps) {
      const auto headers = backend->read(DevPtr{slots.layout.headers}, uint64_t{warps} * sizeof(wire::WarpHeader));
      ASSERT_TRUE(headers);
      std::memcpy(starts.data(), headers->data(), headers->size());
    } else {
      auto heads = trace::warp_starts(spliced->map, read, slots.entries);
      ASSERT_TRUE(heads) << heads.error().to_string();
      starts = std::move(*heads);
    }
    const std::vector<uint64_t> counted(bytes.begin(), bytes.end());
    Collector found(points);
    const auto summary = trace::decode_points(spliced->map, starts, read, slots.entries, counted, sites.part, found);
    ASSERT_TRUE(summary) << summary.error().to_string();
    EXPECT_TRUE(summary->losses.none());
    EXPECT_EQ(summary->losses.count(trace::Loss::count_changed), 0u);
    translate_code_offsets(found.events, expected, spliced->map);
    EXPECT_TRUE(found.events == expected) << first_difference(found.events, expected, points);

    // Its times can be, and the file gives everything back.
    trace::PointAnalysis analysis(spliced->map, {});
    ASSERT_TRUE(trace::decode_points(spliced->map, starts, read, slots.entries, counted, sites.part, analysis));
    EXPECT_EQ(analysis.impossible(), 0u) << analysis.first_impossible();
    const auto path = std::filesystem::temp_directory_path() / fmt::format("xtrace-points-{}-{}.xtrace", GetParam(), getpid());
    trace::TraceMeta meta;
    meta.kind = trace::TraceKind::point;
    meta.map = spliced->map;
    {
      const auto file = trace::TraceFileWriter::create(path, meta);
      ASSERT_TRUE(file) << file.error().to_string();
      ASSERT_TRUE(trace::decode_points(spliced->map, starts, read, slots.entries, counted, sites.part, (*file)->points()));
      ASSERT_TRUE((*file)->finish(*summary));
    }
    const auto reader = trace::TraceFileReader::open(path);
    ASSERT_TRUE(reader) << reader.error().to_string();
    Collector reread((*reader)->meta().map.points);
    for (;;) {
      const auto more = (*reader)->next(reread);
      ASSERT_TRUE(more) << more.error().to_string();
      if (!*more) break;
    }
    translate_code_offsets(reread.events, expected, spliced->map);
    EXPECT_TRUE(reread.events == expected) << first_difference(reread.events, expected, points);
    std::filesystem::remove(path);
    ASSERT_TRUE(backend->release(*buffer));
    ++replayed;
    replayed_nth += sites.nth > 1;
  }

  // More points than the kernel leaves uniform registers, or points where lanes come and go on: of every nth execution nothing is recorded.
  bool counters_are_refused(const instrument::Splicer& s, ProbeKind probe) {
    instrument::SlotPlan slots = instrument::plan_counters(warps, static_cast<uint32_t>(s.blocks().size()));
    instrument::place(slots, 1ull << 40);
    instrument::Plan counting;
    counting.probe = ProbeKind::count;
    counting.counted = probe;
    const auto spliced = s.splice(counting, slots.layout);
    if (spliced) return false;
    EXPECT_EQ(spliced.error().kind, ErrorKind::unsupported) << spliced.error().to_string();
    EXPECT_TRUE(spliced.error().message.starts_with("every nth execution")) << spliced.error().to_string();
    return true;
  }

  void check(ProbeKind probe) {
    const auto points = splicer->points(probe);
    if (!points) {
      EXPECT_EQ(points.error().kind, ErrorKind::unsupported) << points.error().to_string();
      return;
    }
    PointWitness witness(*points);
    ASSERT_NO_FATAL_FAILURE(run(launch.code, &witness));
    ASSERT_NO_FATAL_FAILURE(replay(probe, 1, {}, false, *points, witness.events));
    ASSERT_NO_FATAL_FAILURE(replay(probe, 1, {}, true, *points, witness.events));
    ASSERT_NO_FATAL_FAILURE(replay(probe, 4, {}, false, *points, witness.events));
    if (probe == ProbeKind::branch) {
      const std::vector<wire::Selection> selections = {
          {{{0, 0}, {2, 3}, {9, 9}}, {}, {}}, {{}, {{0, 0}, {3, 5}}, {}}, {{}, {}, {{0, 2}, {5, 5}}}, {{{0, 7}}, {{1, 2}}, {{0, 3}}}};
      for (const wire::Selection& select : selections)
        for (bool wraps : {false, true})
          ASSERT_NO_FATAL_FAILURE(replay(probe, wraps ? 2 : 1, {}, wraps, *points, witness.events, select));
    }
    // Two of eight parts where all would take minutes.
    const bool dense = probe == ProbeKind::reg || probe == ProbeKind::latency || probe == ProbeKind::custom;
    for (uint32_t part = 0; part < 8; part += dense ? 5 : 1)
      ASSERT_NO_FATAL_FAILURE(replay(probe, 1, {8, part}, false, *points, witness.events));
    // Every third execution, and every second of some CTAs.
    ASSERT_NO_FATAL_FAILURE(replay(probe, 1, {dense ? 16u : 1u, 1u % (dense ? 16u : 1u), 3}, false, *points, witness.events));
    ASSERT_NO_FATAL_FAILURE(replay(probe, 2, {16, 3, 2}, true, *points, witness.events));
  }

  replay::LaunchImage launch;
  std::unique_ptr<replay::InterpBackend> backend;
  std::optional<instrument::Splicer> splicer;
  uint32_t warps = 0, replayed = 0, replayed_nth = 0, implied = 0, left_out = 0;   // points and values that others tell
  std::set<ProbeKind> refused;
};

TEST_P(PointTrace, IsTheWitness) {
  for (ProbeKind probe : point_probes()) ASSERT_NO_FATAL_FAILURE(check(probe));
  EXPECT_GT(replayed, 0u);
  EXPECT_EQ(changed_under_a_guard(*splicer).has_value(), guarded.contains(GetParam()));
  EXPECT_EQ(implied > 0 && left_out >= implied, GetParam() != "three_instructions") << implied << " points and " << left_out << " values told by others";
  EXPECT_GE(replayed_nth, 1u) << "nothing of every nth execution";
  EXPECT_EQ(refused, refusals.contains(GetParam()) ? refusals.at(GetParam()) : std::set<ProbeKind>{});
}

INSTANTIATE_TEST_SUITE_P(Kernels, PointTrace, testing::ValuesIn(recorded_kernels()), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace xtrace::interp_test::point_test
