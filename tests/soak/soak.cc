// Random plans on the recorded launches: fixture, probe, places, sampling and seed are drawn, the launch is replayed under the
// probe, and everything is held against the interpreter's log of the original kernel: outputs, what the counting replay
// says of every block and warp, executions and lanes of every traced block or point; no record may be lost.
//
//   soak N SEED          plans 0 .. N-1 of this seed, on the interpreter
//   soak N SEED gpu      the same on the GPU; kernels whose warps wait for others are left out
//   soak SEED:K [gpu]    plan K alone
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <set>

#include "base/log.h"
#include "instrument/instrument.h"
#include "instrument/slot_plan.h"
#include "replay/interp/interp_backend.h"
#ifdef XTRACE_HAVE_DRIVER
#include "replay/driver/driver_backend.h"
#endif
#include "tests/unit/interp/recordings.h"
#include "trace/plain_slots.h"
#include "trace/point_trace.h"

namespace xtrace {
namespace {

using instrument::ProbeKind;
using Kind = wire::Value::Kind;

struct Tally {
  uint64_t executions = 0, lanes = 0;
  void add(uint32_t mask) {
    ++executions;
    lanes += static_cast<uint64_t>(std::popcount(mask));
  }
  bool operator==(const Tally&) const = default;
};
using Tallies = std::map<uint32_t, Tally>;   // by block or point; by pc for pair

// The original kernel, warp by warp: blocks, points, one instruction.
class Witness final : public replay::interp::WitnessSink {
 public:
  Witness(const std::vector<wire::Block>& blocks, const std::vector<wire::Point>& points, uint32_t pair_pc) : pair_pc_(pair_pc) {
    for (uint32_t b = 0; b < blocks.size(); ++b) block_at_[blocks[b].first_pc] = b;
    for (uint32_t k = 0; k < points.size(); ++k)
      if (points[k].record_bytes != 0) (points[k].after ? behind_ : before_)[points[k].pc].push_back(k);
  }
  void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t) override {
    PerWarp& w = warps[warp];
    if (const auto b = block_at_.find(pc); b != block_at_.end()) w.blocks[b->second].add(active);
    if (pc == pair_pc_) w.pairs[pc].add(active);
    bool fell = pc >= 16;
    for (uint32_t m = active; m != 0; m &= m - 1) fell &= w.last[static_cast<unsigned>(std::countr_zero(m))] == pc - 16;
    if (const auto at = behind_.find(pc - 16); fell && at != behind_.end())
      for (uint32_t k : at->second) w.points[k].add(active);
    if (const auto at = before_.find(pc); at != before_.end())
      for (uint32_t k : at->second) w.points[k].add(active);
    for (uint32_t m = active; m != 0; m &= m - 1) w.last[static_cast<unsigned>(std::countr_zero(m))] = pc;
  }
  struct PerWarp {
    Tallies blocks, points, pairs;
    std::array<uint32_t, 32> last{};
  };
  std::map<uint32_t, PerWarp> warps;

 private:
  uint32_t pair_pc_;
  std::map<uint32_t, uint32_t> block_at_;
  std::map<uint32_t, std::vector<uint32_t>> before_, behind_;   // points by pc
};

struct Drawn {
  std::string kernel;
  ProbeKind probe = ProbeKind::block;
  uint32_t one_in = 1, seed = 0, pair_pc = ~0u;
  wire::Selection select;
  instrument::Sites sites;
  bool some_places = false, wraps = false;
  std::string text() const {
    std::string s = fmt::format("{} {} cta:1/{}@{} site:{}/{}", kernel, instrument::probe_info(probe).name, one_in, seed, sites.part,
                                sites.one_in);
    for (const auto& [name, ranges] : {std::pair{"cta", &select.ctas}, {"warp", &select.warps}, {"sm", &select.sms}})
      for (const auto& r : *ranges) s += fmt::format(" {}:{}-{}", name, r.first, r.last);
    if (pair_pc != ~0u) s += fmt::format(" at {:#x}", pair_pc);
    return s + (some_places ? " some places" : "") + (wraps ? " wrapping" : "");
  }
};

class Plan {
 public:
  Plan(uint32_t seed, uint32_t number, bool gpu) : random_(seed * 1'000'003ull + number), gpu_(gpu) { draw(); }
  const Drawn& drawn() const { return d_; }

  // false: refused by name, or not for this backend.
  Result<bool> run(replay::Backend& backend, replay::InterpBackend& interp) {
    launch_ = interp_test::recorded_launch(d_.kernel);
    const bundle::LaunchRecord& r = launch_.record;
    XT_TRY(instrument::Splicer splicer, instrument::Splicer::create(launch_.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes}));
    if (gpu_ && splicer.waits()) return false;
    splicer = specialise(splicer);
    warps_ = static_cast<uint32_t>(r.grid.count()) * splicer.warps_per_cta();
    std::vector<wire::Point> points;
    const bool is_point = instrument::probe_info(d_.probe).points;
    if (is_point) {
      XT_TRY(points, splicer.points(d_.probe));
    }
    XT_TRY_STATUS(interp.prepare(launch_));
    if (gpu_) XT_TRY_STATUS(backend.prepare(launch_));
    Witness witness(splicer.blocks(), points, d_.pair_pc);
    interp.set_witness(&witness);
    XT_TRY_STATUS(replay(interp, launch_.code));
    interp.set_witness(nullptr);
    if (gpu_) XT_TRY_STATUS(replay(backend, launch_.code));
    const auto done = replayed(backend, splicer, points, witness);
    XT_TRY_STATUS(interp.finish());
    if (gpu_) XT_TRY_STATUS(backend.finish());
    if (!done) return tl::make_unexpected(done.error());
    return true;
  }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void draw() {
    std::vector<std::string> kernels = interp_test::recorded_kernels();
    std::erase(kernels, "function_pointers");
    d_.kernel = kernels[below(static_cast<uint32_t>(kernels.size()))];
    std::vector<ProbeKind> probes;
    for (const auto& p : instrument::all_probes())
      if (p.kind != ProbeKind::none) probes.push_back(p.kind);
    d_.probe = probes[below(static_cast<uint32_t>(probes.size()))];
    d_.seed = below(1000);
    switch (below(6)) {
      case 0: d_.one_in = 2 + below(4); break;
      case 1: d_.select.ctas = {{below(4), 4 + below(8)}}; break;
      case 2: d_.select.warps = {{below(2), 1 + below(4)}}; break;
      case 3: d_.select.sms = {{0, below(8)}, {16, 16 + below(64)}}; break;
      default: break;
    }
    const bool sparse = d_.probe == ProbeKind::inst || d_.probe == ProbeKind::mem || instrument::probe_info(d_.probe).points;
    if (sparse && below(3) == 0) d_.sites.one_in = 2 + below(7), d_.sites.part = below(d_.sites.one_in);
    d_.some_places = sparse && below(3) == 0;
    d_.wraps = d_.probe != ProbeKind::count && d_.probe != ProbeKind::mem && below(3) == 0;
  }

  instrument::Splicer specialise(const instrument::Splicer& splicer) {
    const auto all = splicer.instructions();
    const auto some = [&](auto keep) {
      instrument::Places places(splicer.section_instructions(), false);
      for (const auto& i : all) places[i.pc.value / 16] = keep(i);
      return places;
    };
    instrument::Asked asked;
    std::vector<wire::Value> values;
    for (uint32_t tries = 0; tries < 12 && values.size() < 3; ++tries) {
      const Kind kind = below(4) == 0 ? (below(2) == 0 ? Kind::uniform : Kind::lanes) : Kind::vector;
      const wire::Value v{kind, static_cast<uint8_t>(kind == Kind::lanes ? below(5) : kind == Kind::uniform ? 4 + below(6) : below(24)), kind == Kind::lanes && below(2) == 0};
      instrument::Asked one;
      one.reg.push_back({{}, {v}, {}, {}});
      if (std::find(values.begin(), values.end(), v) == values.end() && splicer.asked(one).points(ProbeKind::reg)) values.push_back(v);
    }
    std::vector<wire::Value> with_clocks = values;
    with_clocks.push_back({Kind::clock});
    const instrument::Places straight = some([&](const auto& i) { return !i.branches && below(4) == 0; });
    if (!values.empty()) asked.reg.push_back({straight, values, below(2) == 0 ? values : std::vector<wire::Value>{}, {}});
    asked.custom.push_back({straight, {{Kind::clock}, {Kind::time}}, with_clocks, {}});
    const uint32_t from = below(static_cast<uint32_t>(all.size())), size = 1 + below(static_cast<uint32_t>(all.size()));
    asked.range.push_back({some([&](const auto& i) {
                             const auto n = static_cast<uint32_t>(&i - all.data());
                             return n >= from && n < from + size;
                           }),
                           {}, {}, "drawn"});
    if (d_.probe == ProbeKind::pair) d_.pair_pc = all[below(static_cast<uint32_t>(all.size()))].pc.value;
    instrument::Splicer s = splicer.asked(asked);
    if (d_.some_places) {
      const uint32_t one_in = 2 + below(4);
      s = s.at(some([&](const auto&) { return below(one_in) == 0; }));
    }
    return s.sparse(d_.sites);
  }

  // From restored memory; the outputs must be the recorded ones.
  Status replay(replay::Backend& backend, ByteView cubin) {
    XT_TRY(const replay::ModuleHandle module, backend.load(cubin));
    XT_TRY_STATUS(backend.restore(module, replay::RestoreScope::all));
    XT_TRY(const replay::RunOutcome outcome, backend.run(module));
    if (!outcome.completed) return device("{}", outcome.failure);
    XT_TRY(const std::vector<Bytes> regions, backend.read_regions(module));
    for (size_t k = 0; k < regions.size(); ++k)
      if (regions[k] != launch_.after[k]) return internal("region {} differs from what was recorded", k);
    return backend.unload(module);
  }

  bool sampled(uint32_t warp, const instrument::Splicer& s) const {
    wire::SlotLayout l;
    l.one_in = d_.one_in;
    l.seed = d_.seed;
    l.select = d_.select;
    l.warps_per_cta = s.warps_per_cta();
    return l.is_sampled(warp);
  }

  instrument::Plan plan(ProbeKind probe) const {
    instrument::Plan p;
    p.probe = probe;
    p.one_in = d_.one_in;
    p.seed = d_.seed;
    p.select = d_.select;
    if (d_.probe == ProbeKind::pair) p.pair_sites = {OrigPc{d_.pair_pc}};
    return p;
  }

  // The counting replay: blocks are those of the witness. Gives the bytes that each warp will write.
  Result<std::vector<uint32_t>> count(replay::Backend& backend, const instrument::Splicer& s, const Witness& witness) {
    const auto blocks = static_cast<uint32_t>(s.blocks().size());
    instrument::SlotPlan counters = instrument::plan_counters(warps_, blocks);
    XT_TRY(const DevPtr buffer, backend.allocate(counters.total_bytes, "counters"));
    XT_TRY_STATUS(backend.fill(buffer, counters.total_bytes, 0));
    instrument::place(counters, buffer.value);
    instrument::Plan p = plan(ProbeKind::count);
    p.pair_sites.clear();
    p.select.sms.clear();
    if (instrument::probe_info(d_.probe).points) p.counted = d_.probe;
    XT_TRY(const instrument::Spliced spliced, s.splice(p, counters.layout));
    XT_TRY_STATUS(replay(backend, spliced.cubin));
    XT_TRY(const Bytes bytes, backend.read(buffer, counters.total_bytes));
    Tallies expected, found;
    for (const auto& [warp, w] : witness.warps)
      if (sampled(warp, s))
        for (const auto& [b, t] : w.blocks) expected[b].executions += t.executions, expected[b].lanes += t.lanes;
    const uint64_t at = counters.layout.counters - counters.layout.headers;
    for (uint32_t b = 0; b < blocks; ++b) {
      XT_TRY(const auto c, read_at<wire::BlockCount>(bytes, at + b * sizeof(wire::BlockCount), "counter"));
      if (c.warps != 0) found[b] = {c.warps, c.lanes};
    }
    if (expected != found) return internal("counts of blocks differ from the interpreter's log");
    std::vector<uint32_t> out;
    for (uint32_t w = 0; w < warps_; ++w) {
      XT_TRY(const auto h, read_at<wire::WarpHeader>(bytes, w * sizeof(wire::WarpHeader), "header"));
      uint32_t n = d_.probe == ProbeKind::block ? h.bytes : d_.probe == ProbeKind::inst ? h.exit_clock_lo : h.sm;
      if (d_.probe == ProbeKind::pair) n = 2 * h.bytes;
      out.push_back(h.start_clock == 0 ? 0 : n);
    }
    XT_TRY_STATUS(backend.release(buffer));
    return out;
  }

  Status replayed(replay::Backend& backend, const instrument::Splicer& s, const std::vector<wire::Point>& points, const Witness& witness) {
    XT_TRY(std::vector<uint32_t> bytes, count(backend, s, witness));
    if (d_.probe == ProbeKind::count) return {};
    instrument::RecordForm form;
    uint32_t largest = instrument::probe_info(d_.probe).points ? wire::chunk_bytes : s.largest_record(d_.probe);
    form.lines = d_.probe == ProbeKind::mem;
    for (const wire::Point& p : points) {
      largest = std::max(largest, p.record_bytes);
      for (const wire::Value& v : p.values) form.lines |= v.is_column();
    }
    const bool wraps = d_.wraps && !form.lines;
    // Packed records may take more than unpacked ones where registers are few.
    if (d_.probe == ProbeKind::inst)
      for (uint32_t& b : bytes) b *= 2;
    instrument::SlotPlan slots = instrument::plan_slots(bytes, largest, wraps, form, uint64_t{1} << 30);
    XT_TRY(const DevPtr buffer, backend.allocate(slots.total_bytes, "records"));
    XT_TRY_STATUS(backend.fill(buffer, slots.total_bytes, 0));
    instrument::place(slots, buffer.value);
    if (slots.layout.table != 0) XT_TRY_STATUS(backend.write(DevPtr{slots.layout.table}, std::as_bytes(std::span(slots.entries))));
    instrument::Plan p = plan(d_.probe);
    XT_TRY(const instrument::Spliced spliced, s.splice(p, slots.layout));
    XT_TRY_STATUS(replay(backend, spliced.cubin));
    Bytes piece;
    const trace::DeviceReader read = [&](uint64_t address, uint64_t size) -> Result<ByteView> {
      XT_TRY(piece, backend.read(DevPtr{address}, size));
      return ByteView(piece);
    };
    Found found;
    XT_TRY(const trace::DecodeSummary summary, decode(backend, spliced, slots, read, wraps, bytes, found));
    XT_TRY_STATUS(backend.release(buffer));
    if (!summary.losses.none()) return internal("records were lost: {}", first_loss(summary.losses));
    // Every warp of the sample is there, on one of its SMs; and what it did is what the interpreter saw.
    Tallies expected;
    for (const auto& [warp, w] : witness.warps) {
      const bool there = found.sms.contains(warp);
      if (there && (!sampled(warp, s) || !wire::Selection::has(d_.select.sms, found.sms[warp])))
        return internal("warp {} was traced and is not in the sample", warp);
      if (!there && sampled(warp, s) && d_.select.sms.empty()) return internal("warp {} of the sample is missing", warp);
      if (!there) continue;
      const Tallies& all = instrument::probe_info(d_.probe).points ? w.points : d_.probe == ProbeKind::pair ? w.pairs : w.blocks;
      for (const auto& [k, t] : all) {
        if (d_.probe == ProbeKind::mem && spliced.map.blocks[k].record_bytes == 0) continue;
        expected[k].executions += t.executions;
        expected[k].lanes += t.lanes;
      }
    }
    if (expected == found.tallies) return {};
    for (const auto& [k, t] : expected)
      if (const Tally f = found.tallies[k]; !(f == t))
        return internal("{} {}: {} executions with {} lanes traced, the interpreter saw {} with {}", points.empty() ? "block" : "point", k,
                        f.executions, f.lanes, t.executions, t.lanes);
    return internal("more was traced than the interpreter saw");
  }

  struct Found {
    Tallies tallies;
    std::map<uint32_t, uint32_t> sms;   // warp -> SM, of warps that left records or a head
  };
  struct MemCounter final : trace::MemVisitor {
    explicit MemCounter(Found& f) : found(f) {}
    Status block(uint32_t b, uint32_t active) override { return found.tallies[b].add(active), Status{}; }
    Status access(uint32_t, uint32_t, const trace::LaneAddresses&) override { return {}; }
    Status warp(const trace::MemWarp& w) override { return found.sms[w.warp] = w.sm, Status{}; }
    Found& found;
  };
  struct PointCounter final : trace::PointVisitor {
    explicit PointCounter(Found& f) : found(f) {}
    Status begin(const trace::PointWarp& w) override { return found.sms[w.warp] = w.sm, Status{}; }
    Status event(const trace::PointEvent& e) override { return found.tallies[e.point].add(e.active), Status{}; }
    Status end(const trace::PointWarp&) override { return {}; }
    Found& found;
  };

  Result<trace::DecodeSummary> decode(replay::Backend& backend, const instrument::Spliced& spliced, const instrument::SlotPlan& slots,
                                      const trace::DeviceReader& read, bool wraps, const std::vector<uint32_t>& bytes, Found& found) {
    if (d_.probe == ProbeKind::mem) {
      MemCounter counter(found);
      return trace::decode_mem(spliced.map, read, slots.entries, {}, counter);
    }
    Bytes headers;
    if (wraps) {
      XT_TRY(headers, backend.read(DevPtr{slots.layout.headers}, uint64_t{warps_} * sizeof(wire::WarpHeader)));
    }
    if (instrument::probe_info(d_.probe).points) {
      std::vector<wire::WarpHeader> starts(warps_);
      if (wraps) std::memcpy(starts.data(), headers.data(), headers.size());
      else {
        XT_TRY(starts, trace::warp_starts(spliced.map, read, slots.entries));
      }
      const std::vector<uint64_t> counted(bytes.begin(), bytes.end());
      PointCounter counter(found);
      return trace::decode_points(spliced.map, starts, read, slots.entries, counted, d_.sites.part, counter);
    }
    trace::RecordView view{spliced.map, std::move(headers), slots.entries, read, 0, 0};
    if (!wraps) {
      XT_TRY(view, trace::view_plain_slots(spliced.map, read, slots.entries));
    }
    const trace::TraceKind kind = d_.probe == ProbeKind::inst   ? trace::TraceKind::inst
                                  : d_.probe == ProbeKind::pair ? trace::TraceKind::pair
                                                                : trace::TraceKind::block;
    return trace::decode(view.map, kind, view.headers, view.read, {view.table, true, {}}, [&](const trace::WarpTrace& t) -> Status {
      found.sms[t.warp] = t.sm;
      for (uint32_t k = 0; k < t.records(); ++k)
        if (t.kind[k] != wire::RecordKind::edge_end) found.tallies[kind == trace::TraceKind::pair ? d_.pair_pc : t.index[k]].add(t.mask[k]);
      return {};
    });
  }

  static std::string first_loss(const trace::LossCounts& losses) {
    for (const trace::LossInfo& info : trace::all_losses())
      if (info.severity != trace::LossSeverity::note && losses.count(info.loss) != 0) return std::string(info.name);
    return {};
  }

  std::mt19937_64 random_;
  bool gpu_;
  Drawn d_;
  replay::LaunchImage launch_;
  uint32_t warps_ = 0;
};

int soak(uint32_t seed, uint32_t from, uint32_t to, bool gpu) {
  std::unique_ptr<replay::InterpBackend> interp = replay::make_interp_backend();
  std::unique_ptr<replay::Backend> device;
#ifdef XTRACE_HAVE_DRIVER
  if (gpu) {
    auto made = replay::make_driver_backend(replay::DriverOptions{});
    if (!made) {
      fmt::print(stderr, "soak: {}\n", made.error().to_string());
      return 77;
    }
    device = std::move(*made);
  }
#else
  if (gpu) {
    fmt::print(stderr, "soak: built without the GPU backend\n");
    return 77;
  }
#endif
  std::map<std::string, uint32_t> refused;
  uint32_t replayed = 0, failed = 0, left_out = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t k = from; k < to; ++k) {
    Plan plan(seed, k, gpu);
    const auto done = plan.run(gpu ? *device : *interp, *interp);
    interp->set_witness(nullptr);
    if (!done && done.error().kind == ErrorKind::unsupported) {
      ++refused[done.error().message.substr(0, done.error().message.find(" at "))];
      (void)interp->finish();
      if (gpu) (void)device->finish();
    } else if (!done) {
      ++failed;
      fmt::print("FAILED {}\n  {}\n  repeat: soak {}:{}{}\n", plan.drawn().text(), done.error().to_string(), seed, k, gpu ? " gpu" : "");
      std::fflush(stdout);
      if (gpu) break;   // the device may be gone
      interp = replay::make_interp_backend();
    } else {
      ++(*done ? replayed : left_out);
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  uint32_t all_refused = 0;
  for (const auto& [reason, n] : refused) all_refused += n;
  fmt::print("soak: seed {}: {} plans replayed, {} refused, {} left out, {} failed; {:.1f} s\n", seed, replayed, all_refused, left_out, failed,
             seconds);
  for (const auto& [reason, n] : refused) fmt::print("  {:>5} refused: {}\n", n, reason);
  return failed == 0 && replayed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace xtrace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool gpu = !words.empty() && words.back() == "gpu";
  if (gpu) words.pop_back();
  unsigned seed = 0, number = 0, count = 0;
  char behind = 0;
  if (words.size() == 1 && std::sscanf(words[0].c_str(), "%u:%u%c", &seed, &number, &behind) == 2)
    return xtrace::soak(seed, number, number + 1, gpu);
  if (words.size() == 2 && std::sscanf(words[0].c_str(), "%u%c", &count, &behind) == 1 &&
      std::sscanf(words[1].c_str(), "%u%c", &seed, &behind) == 1)
    return xtrace::soak(seed, 0, count, gpu);
  fmt::print(stderr, "usage: soak N SEED [gpu] | soak SEED:K [gpu]\n");
  return 64;
}
