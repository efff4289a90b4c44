// A launch on the interpreter, original and spliced: traces are held against what the interpreter saw of the
// original kernel by itself, event by event.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>

#include "instrument/instrument.h"
#include "instrument/slot_plan.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/device_records.h"
#include "tests/unit/interp/run_as_recorded.h"
#include "trace/decode.h"
#include "trace/plain_slots.h"

namespace xtrace::interp_test {

using instrument::ProbeKind;

// How records lie in memory.
enum class Records { wrapping, plain, packed, brief, sectors };   // sectors: brief ones that fill them

struct Event {
  uint32_t block, mask;
  bool operator==(const Event&) const = default;
};
using Events = std::map<uint32_t, std::vector<Event>>;  // by warp

// Executions of blocks, by what stands at their first instruction.
class BlockWitness final : public replay::interp::WitnessSink {
 public:
  explicit BlockWitness(const std::vector<wire::Block>& blocks) {
    for (uint32_t b = 0; b < blocks.size(); ++b) by_pc_[blocks[b].first_pc] = b;
  }
  void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t) override {
    if (const auto b = by_pc_.find(pc); b != by_pc_.end()) events[warp].push_back({b->second, active});
  }
  Events events;

 private:
  std::map<uint32_t, uint32_t> by_pc_;
};

class SplicedLaunch : public testing::Test {
 protected:
  // Runs the original kernel and keeps what it did. `after` is what every run has to leave.
  void observe(replay::LaunchImage image) {
    launch = std::move(image);
    const bundle::LaunchRecord& r = launch.record;
    backend = replay::make_interp_backend();
    ASSERT_TRUE(backend->prepare(launch));
    auto made = instrument::Splicer::create(launch.code, r.kernel,
                                            {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
    ASSERT_TRUE(made) << made.error().to_string();
    splicer = std::move(*made);
    warps = static_cast<uint32_t>(r.grid.count()) * splicer->warps_per_cta();
    BlockWitness witness(splicer->blocks());
    run(launch.code, &witness);
    seen = std::move(witness.events);
    ASSERT_EQ(seen.size(), warps);
  }
  bool slots_of_their_own = false;   // a size for each warp
  bool any_refusal = false;   // of kernels of which it is not known what they are refused for
  // How the reason begins for which this splice is refused; nullptr: it must not be refused.
  virtual const char* refusal(ProbeKind probe, std::optional<Records> records) const = 0;

  void run(ByteView cubin, replay::interp::WitnessSink* sink = nullptr) { run_as_recorded(*backend, launch, cubin, sink); }

  std::vector<uint32_t> bytes_of(ProbeKind probe) const {
    std::vector<uint32_t> bytes(warps, 0);
    for (const auto& [warp, events] : seen)
      for (const Event& e : events)
        if (!leaves_out(e.block) && !of_other_part(probe, e.block)) bytes[warp] += splicer->record_bytes(probe, e.block);
    return bytes;
  }
  bool leaves_out(uint32_t block) const { return !left_out.empty() && left_out[block]; }
  bool of_other_part(ProbeKind probe, uint32_t block) const {
    if (probe == ProbeKind::block) return block % parts != part;
    const wire::Block& b = splicer->blocks()[block];
    bool any = parts == 1 || probe != ProbeKind::inst;
    for (uint32_t k = 0; k < b.instructions; ++k) any |= (b.first_pc / 16 + k) % parts == part;
    return !any;
  }
  // Room for packed records, which may take more than unpacked ones where registers are few, and have counts of rounds.
  static constexpr uint32_t largest_packed_record = 8 + 4 * 32;   // of what takes a chunk unpacked
  std::vector<uint32_t> stored(ProbeKind probe) const {
    std::vector<uint32_t> bytes = bytes_of(probe);
    for (uint32_t& b : bytes) b = b / wire::chunk_bytes * largest_packed_record;
    return bytes;
  }
  // Blocks that all 32 lanes executed whenever they were executed; `launched`: all that the warp was launched with.
  std::vector<bool> full_blocks(bool launched) const {
    const auto threads = static_cast<uint32_t>(launch.record.block.count());
    std::vector<bool> full(splicer->blocks().size(), true);
    for (const auto& [warp, events] : seen) {
      const bool partial = launched && threads % 32 != 0 && (warp + 1) % splicer->warps_per_cta() == 0;
      for (const Event& e : events)
        if (e.mask != (partial ? (1u << threads % 32) - 1 : ~0u)) full[e.block] = false;
    }
    return full;
  }

  std::vector<uint64_t> executions() const {
    std::vector<uint64_t> executions(splicer->blocks().size());
    for (const auto& [warp, events] : seen)
      for (const Event& e : events) ++executions[e.block];
    return executions;
  }

  // The result of a splice, or nothing: it was refused as refusal() says, or a failure was reported.
  std::optional<instrument::Spliced> spliced(const instrument::Plan& plan, const wire::SlotLayout& layout,
                                             std::optional<Records> records) const {
    auto result = splicer->splice(plan, layout);
    const char* reason = refusal(plan.probe, records);
    if (result && reason == nullptr) return std::move(*result);
    if (any_refusal && !result && result.error().kind == ErrorKind::unsupported) return std::nullopt;
    if (result)
      ADD_FAILURE() << "expected to be refused: " << reason;
    else if (reason == nullptr || result.error().kind != ErrorKind::unsupported ||
             !result.error().message.starts_with(reason))
      ADD_FAILURE() << result.error().to_string();
    return std::nullopt;
  }

  void trace(ProbeKind probe, trace::TraceKind kind, Records records, uint32_t one_in = 1, const wire::Selection& select = {}) {
    instrument::Plan plan;
    plan.probe = probe;
    plan.one_in = one_in;
    plan.seed = 7;
    plan.select = select;
    plan.unrecorded = left_out;
    plan.clock_gap = clock_gap;
    const bool brief = records == Records::brief || records == Records::sectors;
    if (brief || records == Records::packed) plan.full_blocks = full_blocks(probe != ProbeKind::mem);
    instrument::RecordForm form;
    if (brief) form = {splicer->index_bits(), probe == ProbeKind::block};
    form.whole_sectors = records == Records::sectors;
    if (brief || records == Records::packed) plan.executions = executions();
    instrument::SlotPlan slots = instrument::plan_slots(
        stored(probe), splicer->largest_record(probe), records == Records::wrapping, form, slots_of_their_own ? 0 : uint64_t{1} << 30);
    const auto buffer = place_records(*backend, slots);
    ASSERT_TRUE(buffer);
    const auto result = spliced(plan, slots.layout, records);
    if (!result) {
      ASSERT_TRUE(backend->release(*buffer));
      return;
    }
    if (form.whole_sectors) { ASSERT_NO_FATAL_FAILURE(fills_sectors(*result, *buffer, slots)); }
    ASSERT_NO_FATAL_FAILURE(run(result->cubin));

    const trace::DeviceReader read = reader_of(*backend);
    trace::RecordView view{result->map, {}, slots.entries, read, 0, 0};
    if (records == Records::wrapping) {
      auto headers = backend->read(DevPtr{slots.layout.headers}, uint64_t{warps} * sizeof(wire::WarpHeader));
      ASSERT_TRUE(headers);
      view.headers = std::move(*headers);
    } else {
      auto plain = trace::view_plain_slots(result->map, read, slots.entries);
      ASSERT_TRUE(plain) << plain.error().to_string();
      view = std::move(*plain);
    }
    Events decoded;
    uint64_t backwards = 0;
    const auto summary = trace::decode(view.map, kind, view.headers, view.read, {view.table, true, {}},
                                       [&](const trace::WarpTrace& t) -> Status {
                                         for (uint32_t k = 0; k < t.records(); ++k)
                                           decoded[t.warp].push_back({t.index[k], t.mask[k]});
                                         uint64_t last = t.start_clock;
                                         for (uint64_t c : t.clock) backwards += c < last, last = c;
        if (look) look(t, view.map, *result);
                                         return {};
                                       });
    ASSERT_TRUE(summary) << summary.error().to_string();
    EXPECT_EQ(summary->losses.count(trace::LossSeverity::lost), 0u);
    EXPECT_EQ(summary->losses.count(trace::LossSeverity::distrust), 0u);
    EXPECT_EQ(backwards, 0u) << "modelled clocks never run backwards";
    Events expected;
    for (const auto& [warp, events] : seen)
      if (result->map.layout.is_sampled(warp) &&
          wire::Selection::has(select.sms, warp / splicer->warps_per_cta() % backend->info().sm_count))
        expected.insert({warp, events});
    for (auto& [warp, events] : expected) {
      std::erase_if(events, [&](const Event& e) { return leaves_out(e.block) || of_other_part(probe, e.block); });
      events = with_implied_behind(with_rounds_in_front(events, view.map), view.map);
    }
    if (parts > 1) std::erase_if(expected, [](const auto& warp) { return warp.second.empty(); });   // it has a head, and no record
    EXPECT_TRUE(decoded == expected) << first_difference(decoded, expected);
    ASSERT_TRUE(backend->release(*buffer));
  }

  // Of each sector of the slots that is written all is, where no record has a mask. Leaves the buffer zeroed.
  void fills_sectors(const instrument::Spliced& result, DevPtr buffer, const instrument::SlotPlan& slots) {
    constexpr uint8_t pattern = Sectors::pattern;
    ASSERT_TRUE(backend->fill(buffer, slots.total_bytes, pattern));
    const uint64_t table = uint64_t{slots.entries.size()} * sizeof(wire::SlotEntry);
    if (table != 0) { ASSERT_TRUE(backend->write(DevPtr{slots.layout.table}, std::as_bytes(std::span(slots.entries)))); }
    ASSERT_NO_FATAL_FAILURE(run(result.cubin));
    bool all_full = true;
    for (const wire::Block& b : result.map.blocks) all_full &= b.full || b.record_bytes == 0;
    const uint64_t at = slots.layout.slots - buffer.value, end = slots.total_bytes;
    const auto bytes = backend->read(buffer, end);
    ASSERT_TRUE(bytes);
    const auto [written, in_part] = Sectors::of(ByteView(*bytes).subspan(at));
    EXPECT_GE(written, result.map.layout.one_in == 1 ? warps : 1);
    // The head of each slot fills its own, whatever lanes the blocks have.
    uint64_t heads = 0;
    for (uint32_t w = 0; w < warps; ++w) {
      const bool own = slots.layout.table != 0;
      if (own && slots.entries[w].address == 0) continue;   // not traced
      const uint64_t head = own ? slots.entries[w].address - buffer.value : at + uint64_t{w} * slots.layout.slot_bytes;
      const auto left = std::ranges::count(ByteView(*bytes).subspan(head, wire::sector_bytes), std::byte{pattern});
      EXPECT_TRUE(left == 0 || left == wire::sector_bytes) << "warp " << w << ": " << left << " bytes of its head's sector are left";
      heads += left == 0;
    }
    EXPECT_GE(heads, result.map.layout.one_in == 1 ? warps : 1);
    if (all_full) { EXPECT_EQ(in_part, 0u) << "of " << written << " sectors"; }
    ASSERT_TRUE(backend->fill(buffer, slots.total_bytes, 0));
    if (table != 0) { ASSERT_TRUE(backend->write(DevPtr{slots.layout.table}, std::as_bytes(std::span(slots.entries)))); }
  }

  // Executions of implied blocks behind those from which their lanes came, as decoders put them: each behind what its lanes did
  // before, and of two ways that by the block with the lower number first. Gathered blocks, and rounds of loops, stand where they were executed.
  static std::vector<Event> with_implied_behind(const std::vector<Event>& events, const wire::AddressMap& map) {
    const auto implied = [&](const Event& e) { return map.blocks[e.block].implied && !map.blocks[e.block].gathered && !map.blocks[e.block].loop; };
    std::vector<std::vector<std::pair<std::vector<uint32_t>, Event>>> behind(events.size());   // with the way to it
    for (size_t i = 0; i < events.size(); ++i) {
      if (!implied(events[i])) continue;
      const uint32_t lane = events[i].mask & -events[i].mask;
      std::vector<uint32_t> way{events[i].block};
      size_t from = i;
      while (from-- > 0) {
        if ((events[from].mask & lane) == 0) continue;
        if (!implied(events[from])) break;
        way.insert(way.begin(), events[from].block);
      }
      behind.at(from).push_back({way, events[i]});
    }
    std::vector<Event> sorted;
    for (size_t i = 0; i < events.size(); ++i) {
      if (!implied(events[i])) sorted.push_back(events[i]);
      std::stable_sort(behind[i].begin(), behind[i].end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [way, event] : behind[i]) sorted.push_back(event);
    }
    return sorted;
  }

  // Rounds of loops in front of what any of their lanes did next, as decoders put them: while some lanes go round, others may have left
  // and wait behind the loop for their turn.
  static std::vector<Event> with_rounds_in_front(const std::vector<Event>& events, const wire::AddressMap& map) {
    std::vector<std::vector<Event>> in_front(events.size() + 1);
    for (size_t i = 0; i < events.size(); ++i) {
      size_t to = i;
      if (map.blocks[events[i].block].loop)
        for (to = i + 1; to < events.size(); ++to)
          if ((events[to].mask & events[i].mask) != 0 && events[to].block != events[i].block) break;
      in_front[to].push_back(events[i]);
    }
    std::vector<Event> sorted;
    for (size_t i = 0; i < in_front.size(); ++i) {
      // What was executed there itself comes last.
      const auto own = i < events.size() && !map.blocks[events[i].block].loop ? std::optional(events[i]) : std::nullopt;
      for (const Event& e : in_front[i])
        if (map.blocks[e.block].loop) sorted.push_back(e);
      if (own) sorted.push_back(*own);
    }
    return sorted;
  }

  static std::string first_difference(const Events& decoded, const Events& expected) {
    for (const auto& [warp, events] : expected) {
      const auto found = decoded.find(warp);
      if (found == decoded.end()) return fmt::format("warp {} is missing", warp);
      for (size_t k = 0; k < events.size(); ++k) {
        if (k >= found->second.size())
          return fmt::format("warp {} ends after {} of {} events", warp, k, events.size());
        const Event &d = found->second[k], &e = events[k];
        if (!(d == e))
          return fmt::format("warp {} event {}: block {} mask {:#x}, the witness saw block {} mask {:#x}",
                             warp, k, d.block, d.mask, e.block, e.mask);
      }
    }
    return "more than the witness saw";
  }

  replay::LaunchImage launch;
  std::unique_ptr<replay::InterpBackend> backend;
  std::optional<instrument::Splicer> splicer;
  uint32_t warps = 0;
  Events seen;  // of the original kernel
  uint32_t clock_gap = 0;      // Plan::clock_gap
  std::function<void(const trace::WarpTrace&, const wire::AddressMap&, const instrument::Spliced&)> look;   // at each warp's trace
  uint32_t parts = 1, part = 0;   // of sparse sites, where `splicer` is told so: who records what
  std::vector<bool> left_out;  // blocks whose executions are not recorded, and not expected; empty: none
};

}  // namespace xtrace::interp_test
