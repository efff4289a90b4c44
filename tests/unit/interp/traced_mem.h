// A launch on the interpreter under the mem probe: what the trace says of every memory access is held against what the interpreter saw
// of the original kernel by itself, access by access, lane by lane.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "instrument/instrument.h"
#include "instrument/slot_plan.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/device_records.h"
#include "tests/unit/interp/run_as_recorded.h"
#include "trace/mem_analysis.h"
#include "trace/trace_file.h"

namespace xtrace::interp_test::traced_mem {

using instrument::ProbeKind;
using sass::MemSpace;

struct Event {
  uint32_t pc = 0;
  MemSpace space = MemSpace::none;
  uint32_t bytes = 0, mask = 0;
  std::vector<uint64_t> addresses;   // of the lanes in the mask
  bool operator==(const Event&) const = default;
  std::string text() const {
    return fmt::format("{:#x} space {} bytes {} mask {:#x} first {:#x}", pc, static_cast<int>(space), bytes, mask,
                       addresses.empty() ? 0 : addresses[0]);
  }
};
using Events = std::map<uint32_t, std::vector<Event>>;   // by warp

// What is made once for the warp: what it says, in place of addresses.
inline Event event_of(uint32_t pc, const trace::WarpAccess& w) {
  Event e{pc, MemSpace::none, w.bytes, 0, {w.global, w.map, w.ctas, w.dimensions}};
  for (const auto& address : {w.shared, w.shared_from, w.barrier}) e.addresses.push_back(address ? *address : ~uint64_t{0});
  for (unsigned d = 0; d < w.dimensions; ++d) e.addresses.push_back(static_cast<uint32_t>(w.at[d]));
  return e;
}

// Accesses by instruction: lanes of one space together, global before shared where an instruction does both.
class AccessWitness final : public replay::interp::WitnessSink {
 public:
  void executed(uint32_t warp, uint32_t pc, uint32_t, uint32_t) override {
    flush();
    warp_ = warp;
    pc_ = pc;
  }
  void accessed(MemSpace space, uint32_t lane, uint64_t address, uint32_t bytes) override {
    auto at = std::find_if(open_.begin(), open_.end(), [&](const Event& e) { return e.space == space; });
    if (at == open_.end()) at = open_.insert(open_.end(), Event{pc_, space, bytes, 0, {}});
    at->mask |= 1u << lane;
    at->addresses.push_back(address);
  }
  void moved(const replay::interp::Moved& m) override {
    trace::WarpAccess w;
    w.global = m.global.value_or(0);
    w.map = m.map.value_or(0);
    w.shared = m.shared;
    w.shared_from = m.shared_from;
    w.barrier = m.barrier;
    w.bytes = m.bytes;
    w.ctas = m.ctas;
    w.dimensions = static_cast<unsigned>(m.at.size());
    std::copy(m.at.begin(), m.at.end(), w.at.begin());
    open_.push_back(event_of(pc_, w));
  }
  Events take() {
    flush();
    return std::move(events_);
  }

 private:
  void flush() {
    for (Event& e : open_) events_[warp_].push_back(std::move(e));
    open_.clear();
  }
  uint32_t warp_ = 0, pc_ = 0;
  std::vector<Event> open_;
  Events events_;
};

// Executions of blocks, as counting replays would see them.
class BlockWitness final : public replay::interp::WitnessSink {
 public:
  BlockWitness(const instrument::Splicer& splicer, uint32_t warps)
      : full(splicer.blocks().size(), true), executions_(warps, std::vector<uint32_t>(splicer.blocks().size(), 0)) {
    for (uint32_t b = 0; b < splicer.blocks().size(); ++b) by_pc_[splicer.blocks()[b].first_pc] = b;
  }
  void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t) override {
    const auto b = by_pc_.find(pc);
    if (b == by_pc_.end()) return;
    ++executions_[warp][b->second];
    if (active != ~0u) full[b->second] = false;
  }
  std::vector<bool> full;   // by block: never a lane missing
  std::vector<uint64_t> executions() const {
    std::vector<uint64_t> sums(full.size(), 0);
    for (const auto& warp : executions_)
      for (uint32_t b = 0; b < warp.size(); ++b) sums[b] += warp[b];
    return sums;
  }
  // `lengths`: of records, by block.
  std::vector<uint32_t> bytes(const std::vector<uint32_t>& lengths) const {
    std::vector<uint32_t> sums;
    for (const auto& warp : executions_) {
      uint32_t& sum = sums.emplace_back(0);
      for (uint32_t b = 0; b < warp.size(); ++b) sum += warp[b] * lengths[b];
    }
    return sums;
  }

 private:
  std::map<uint32_t, uint32_t> by_pc_;
  std::vector<std::vector<uint32_t>> executions_;   // by warp, by block
};

inline MemSpace space_of(wire::Access::Space space) {
  constexpr MemSpace spaces[] = {MemSpace::global, MemSpace::generic, MemSpace::shared, MemSpace::local};
  return spaces[static_cast<size_t>(space)];
}

// Everything of a trace, by warp.
class Collector final : public trace::MemVisitor {
 public:
  explicit Collector(const wire::AddressMap& map) : map_(map) {}
  Status block(uint32_t, uint32_t) override { return {}; }
  Status access(uint32_t index, uint32_t mask, const trace::LaneAddresses& addresses) override {
    if (mask == 0) return {};
    const wire::Access& a = map_.accesses[index];
    Event e{a.pc, space_of(a.space), a.bytes, mask, {}};
    for (uint32_t m = mask; m != 0; m &= m - 1) e.addresses.push_back(addresses[static_cast<unsigned>(std::countr_zero(m))]);
    open_.push_back(std::move(e));
    return {};
  }
  Status operands(uint32_t index, uint32_t active, std::span<const uint32_t> words) override {
    if (active == 0) return {};
    open_.push_back(event_of(map_.accesses[index].pc, trace::warp_access(map_.accesses[index], words)));
    return {};
  }
  Status warp(const trace::MemWarp& w) override {
    if (!open_.empty()) events[w.warp] = std::move(open_);
    open_.clear();
    return {};
  }
  Events events;

 private:
  const wire::AddressMap& map_;
  std::vector<Event> open_;
};

inline std::string first_difference(const Events& found, const Events& expected) {
  for (const auto& [warp, events] : expected) {
    const auto f = found.find(warp);
    if (f == found.end()) return fmt::format("warp {} is missing", warp);
    for (size_t k = 0; k < events.size(); ++k) {
      if (k >= f->second.size()) return fmt::format("warp {} ends after {} of {} accesses", warp, k, events.size());
      if (!(f->second[k] == events[k]))
        return fmt::format("warp {} access {}: {}; the witness saw {}", warp, k, f->second[k].text(), events[k].text());
    }
  }
  return "more than the witness saw";
}

inline std::vector<trace::MemoryRange> memory_of(const bundle::LaunchRecord& r) {
  std::vector<trace::MemoryRange> memory;
  for (const bundle::Region& region : r.regions) memory.push_back({region.address.value, region.address.value + region.size});
  std::sort(memory.begin(), memory.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  return memory;
}

struct Check {
  replay::LaunchImage launch;   // `after` is what its original code leaves
  std::string name;
  bool without_polls = false;   // of loops that wait for others
  bool whole = true;            // every access is covered; else those that the splicer names are left out
  bool exact = true;            // lanes come out of waiting loops in the same groups each time, so that every warp writes what was counted
  bool of_lanes = false;        // accesses that are made once for the warp are left out
  bool sectors = false;         // records in whole sectors, of kernels that leave a register for that: `filled` says which did
  uint64_t copies = 0;          // bulk copies and boxes that the last trace held against the witness
  uint64_t filled = 0;          // sectors, of launches without a record of a block that is not full

  // `high`: leave out the high words of global addresses. `table`: a size for each slot. `some`: every second access only. `counted`:
  // knowing which blocks are full, and the parameters.
  void trace(uint32_t one_in, bool high, bool table, bool some = false, bool counted_blocks = false) {
    const bundle::LaunchRecord& r = launch.record;
    const auto backend = replay::make_interp_backend();
    ASSERT_TRUE(backend->prepare(launch));
    instrument::LaunchShape shape{r.grid, r.block, r.cluster, r.dynamic_shared_bytes};
    if (counted_blocks) shape.params = r.param_block;
    const std::vector<trace::MemoryRange> memory = memory_of(r);
    const wire::HighWords highs = wire::HighWords::of(memory);
    if (high) {
      ASSERT_FALSE(memory.empty());
      shape.low_words_tell = highs.known();
      ASSERT_TRUE(shape.low_words_tell) << "low words of the recording's memory tell the high ones";
    }
    auto splicer = instrument::Splicer::create(launch.code, r.kernel, shape);
    ASSERT_TRUE(splicer) << splicer.error().to_string();
    instrument::Places places(splicer->section_instructions(), !some);
    if (some) {
      uint32_t n = 0;
      for (const auto& i : splicer->instructions())
        if (i.space != MemSpace::none && i.space != MemSpace::constant) places[i.pc.value / 16] = n++ % 2 == 0;
      splicer = splicer->at(places);
    }
    if (of_lanes) {
      for (const auto& i : splicer->instructions())
        if (i.kind == sass::MemKind::async && splicer->text(i.pc).find("UBLK") != std::string::npos) places[i.pc.value / 16] = false;
      splicer = splicer->at(places);
    }
    std::vector<bool> unrecorded;
    if (without_polls) {
      unrecorded = splicer->polling();
      splicer = splicer->without(unrecorded);
      for (const auto& i : splicer->instructions())
        if (unrecorded[i.block]) places[i.pc.value / 16] = false;
    }
    EXPECT_TRUE(!whole || splicer->not_covered().empty());
    for (const auto& n : splicer->not_covered()) places[n.pc.value / 16] = false;
    const uint32_t warps = static_cast<uint32_t>(r.grid.count()) * splicer->warps_per_cta();
    const auto run = [&](ByteView cubin, replay::interp::WitnessSink* sink) {
      run_as_recorded(*backend, launch, cubin, sink);
    };
    AccessWitness witness;
    ASSERT_NO_FATAL_FAILURE(run(launch.code, &witness));
    Events seen = witness.take();
    for (auto& [warp, events] : seen) std::erase_if(events, [&](const Event& e) { return !places[e.pc / 16]; });
    std::erase_if(seen, [](const auto& w) { return w.second.empty(); });
    BlockWitness blocks(*splicer, warps);
    ASSERT_NO_FATAL_FAILURE(run(launch.code, &blocks));

    if (counted_blocks) splicer = splicer->counted(blocks.full, blocks.executions());

    constexpr uint32_t seed = 7;
    instrument::Plan plan{ProbeKind::mem, {}, one_in, seed, {}, {}};
    plan.unrecorded = unrecorded;
    instrument::RecordForm form = splicer->mem_form();
    if (!exact) form.spare_bytes = 64 << 10;
    form.whole_sectors = sectors && splicer->can_fill_sectors(plan.samples());
    std::vector<uint32_t> lengths;
    for (uint32_t b = 0; b < splicer->blocks().size(); ++b) lengths.push_back(splicer->record_bytes(ProbeKind::mem, b));
    if (form.whole_sectors) {
      instrument::SlotPlan nowhere = instrument::plan_slots(std::vector<uint32_t>(warps, 0), 0, false, form, uint64_t{1} << 30);
      instrument::place(nowhere, uint64_t{1} << 40);
      const auto trial = splicer->splice(plan, nowhere.layout);
      ASSERT_TRUE(trial) << trial.error().to_string();
      for (uint32_t b = 0; b < lengths.size(); ++b) lengths[b] = trial->map.blocks[b].record_bytes;
    }
    std::vector<uint32_t> bytes = blocks.bytes(lengths);
    for (uint32_t w = 0; w < warps; ++w)
      if (!wire::cta_is_sampled(w / splicer->warps_per_cta(), one_in, seed)) bytes[w] = 0;
      else if (!exact) bytes[w] = 2 * bytes[w] + wire::mem_line;   // warps without records leave a head
    instrument::SlotPlan slots = instrument::plan_slots(bytes, splicer->largest_record(ProbeKind::mem), false, form,
                                                        table ? 0 : uint64_t{1} << 30);
    ASSERT_EQ(slots.layout.table != 0, table);
    const auto buffer = place_records(*backend, slots);
    ASSERT_TRUE(buffer);
    auto spliced = splicer->splice(plan, slots.layout);
    ASSERT_TRUE(spliced) << spliced.error().to_string();
    for (uint32_t b = 0; b < lengths.size(); ++b) EXPECT_EQ(spliced->map.blocks[b].record_bytes, lengths[b]) << "block " << b;
    if (form.whole_sectors) {
      const auto pattern_run = [&] {
        ASSERT_TRUE(backend->fill(DevPtr{slots.layout.slots}, buffer->value + slots.total_bytes - slots.layout.slots, Sectors::pattern));
        ASSERT_NO_FATAL_FAILURE(run(spliced->cubin, nullptr));
        const auto bytes_there = backend->read(DevPtr{slots.layout.slots}, buffer->value + slots.total_bytes - slots.layout.slots);
        ASSERT_TRUE(bytes_there);
        const Sectors seen = Sectors::of(*bytes_there);
        bool all_full = true;
        for (const wire::Block& b : spliced->map.blocks) all_full &= b.full || b.record_bytes == 0;
        if (all_full) {
          EXPECT_EQ(seen.in_part, 0u) << "of " << seen.written << " sectors";
          filled += seen.written;
        }
        ASSERT_TRUE(backend->fill(DevPtr{slots.layout.slots}, buffer->value + slots.total_bytes - slots.layout.slots, 0));
      };
      ASSERT_NO_FATAL_FAILURE(pattern_run());
    }
    ASSERT_NO_FATAL_FAILURE(run(spliced->cubin, nullptr));
    if (high) spliced->map.layout.memory_highs = highs;

    const trace::DeviceReader read = reader_of(*backend);
    const wire::AddressMap& map = spliced->map;
    const std::vector<uint64_t> counted = exact ? std::vector<uint64_t>(bytes.begin(), bytes.end()) : std::vector<uint64_t>();
    Collector collected(map);
    const auto summary = trace::decode_mem(map, read, slots.entries, counted, collected);
    ASSERT_TRUE(summary) << summary.error().to_string();
    for (const trace::LossInfo& info : trace::all_losses())
      EXPECT_EQ(summary->losses.count(info.loss), 0u) << info.name << ", first in warp " << summary->losses.row(info.loss).first_warp;
    EXPECT_EQ(summary->losses.count(trace::Loss::count_changed), 0u);
    Events expected;
    for (const auto& [warp, events] : seen)
      if (wire::cta_is_sampled(warp / splicer->warps_per_cta(), one_in, seed)) expected.insert({warp, events});
    EXPECT_TRUE(!whole || !expected.empty());
    EXPECT_TRUE(collected.events == expected) << first_difference(collected.events, expected);
    copies = 0;
    for (const auto& [warp, events] : expected)
      for (const Event& e : events) copies += e.space == MemSpace::none;

    // Nothing of it is impossible, and the file gives it back.
    trace::MemAnalysis analysis(map, memory);
    constexpr uint32_t most_shared = 228 << 10;
    analysis.set_moved({most_shared, static_cast<uint32_t>(std::max<uint64_t>(r.cluster.count(), 1))}, nullptr);
    ASSERT_TRUE(trace::decode_mem(map, read, slots.entries, {}, analysis));
    EXPECT_EQ(analysis.impossible(), 0u) << analysis.first_impossible();
    EXPECT_TRUE(!whole || analysis.checked() > 0);
    const auto path = std::filesystem::temp_directory_path() / fmt::format("xtrace-mem-{}-{}.xtrace", name, getpid());
    trace::TraceMeta meta;
    meta.kind = trace::TraceKind::mem;
    meta.map = map;
    {
      const auto file = trace::TraceFileWriter::create(path, meta);
      ASSERT_TRUE(file) << file.error().to_string();
      ASSERT_TRUE(trace::decode_mem(map, read, slots.entries, {}, (*file)->mem()));
      ASSERT_TRUE((*file)->finish(*summary));
    }
    const auto reader = trace::TraceFileReader::open(path);
    ASSERT_TRUE(reader) << reader.error().to_string();
    Collector reread((*reader)->meta().map);
    for (;;) {
      const auto more = (*reader)->next(reread);
      ASSERT_TRUE(more) << more.error().to_string();
      if (!*more) break;
    }
    EXPECT_TRUE(reread.events == expected) << first_difference(reread.events, expected);
    std::filesystem::remove(path);
  }
};

}  // namespace xtrace::interp_test::traced_mem
