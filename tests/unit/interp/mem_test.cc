// The mem probe on the interpreter: what the trace says of every memory access is what the interpreter saw of the original
// kernel by itself, access by access, lane by lane.
#include <gtest/gtest.h>

#include <map>

#include "instrument/cubin/kernel_info.h"
#include "instrument/instrument.h"
#include "instrument/sass/assemble.h"
#include "instrument/sass/print.h"
#include "instrument/slot_plan.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/device_records.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/interp/run_as_recorded.h"
#include "trace/mem_analysis.h"
#include "trace/trace_file.h"

namespace xtrace::interp_test {
namespace {

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
  std::vector<uint32_t> bytes(const instrument::Splicer& splicer) const {
    std::vector<uint32_t> sums;
    for (const auto& warp : executions_) {
      uint32_t& sum = sums.emplace_back(0);
      for (uint32_t b = 0; b < warp.size(); ++b) sum += warp[b] * splicer.record_bytes(ProbeKind::mem, b);
    }
    return sums;
  }

 private:
  std::map<uint32_t, uint32_t> by_pc_;
  std::vector<std::vector<uint32_t>> executions_;   // by warp, by block
};

MemSpace space_of(wire::Access::Space space) {
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

std::string first_difference(const Events& found, const Events& expected) {
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

std::vector<trace::MemoryRange> memory_of(const bundle::LaunchRecord& r) {
  std::vector<trace::MemoryRange> memory;
  for (const bundle::Region& region : r.regions) memory.push_back({region.address.value, region.address.value + region.size});
  std::sort(memory.begin(), memory.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  return memory;
}

struct Check {
  replay::LaunchImage launch;   // `after` is what its original code leaves
  std::string name;
  bool without_polls = false;   // of loops that wait for others

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
    std::vector<bool> unrecorded;
    if (without_polls) {
      unrecorded = splicer->polling();
      splicer = splicer->without(unrecorded);
      for (const auto& i : splicer->instructions())
        if (unrecorded[i.block]) places[i.pc.value / 16] = false;
    }
    EXPECT_TRUE(splicer->not_covered().empty());
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
    std::vector<uint32_t> bytes = blocks.bytes(*splicer);
    for (uint32_t w = 0; w < warps; ++w)
      if (!wire::cta_is_sampled(w / splicer->warps_per_cta(), one_in, seed)) bytes[w] = 0;
    instrument::SlotPlan slots = instrument::plan_slots(bytes, splicer->largest_record(ProbeKind::mem), false, splicer->mem_form(),
                                                        table ? 0 : uint64_t{1} << 30);
    ASSERT_EQ(slots.layout.table != 0, table);
    const auto buffer = place_records(*backend, slots);
    ASSERT_TRUE(buffer);
    instrument::Plan plan{ProbeKind::mem, {}, one_in, seed, {}, {}};
    plan.unrecorded = unrecorded;
    auto spliced = splicer->splice(plan, slots.layout);
    ASSERT_TRUE(spliced) << spliced.error().to_string();
    ASSERT_NO_FATAL_FAILURE(run(spliced->cubin, nullptr));
    if (high) spliced->map.layout.memory_highs = highs;

    const trace::DeviceReader read = reader_of(*backend);
    const wire::AddressMap& map = spliced->map;
    const std::vector<uint64_t> counted(bytes.begin(), bytes.end());
    Collector collected(map);
    const auto summary = trace::decode_mem(map, read, slots.entries, counted, collected);
    ASSERT_TRUE(summary) << summary.error().to_string();
    EXPECT_TRUE(summary->losses.none());
    EXPECT_EQ(summary->losses.count(trace::Loss::count_changed), 0u);
    Events expected;
    for (const auto& [warp, events] : seen)
      if (wire::cta_is_sampled(warp / splicer->warps_per_cta(), one_in, seed)) expected.insert({warp, events});
    EXPECT_FALSE(expected.empty());
    EXPECT_TRUE(collected.events == expected) << first_difference(collected.events, expected);

    // Nothing of it is impossible, and the file gives it back.
    trace::MemAnalysis analysis(map, memory);
    ASSERT_TRUE(trace::decode_mem(map, read, slots.entries, {}, analysis));
    EXPECT_EQ(analysis.impossible(), 0u) << analysis.first_impossible();
    EXPECT_GT(analysis.checked(), 0u);
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

class MemTrace : public testing::TestWithParam<std::string> {
 protected:
  void trace(uint32_t one_in, bool high, bool table, bool some = false, bool counted = false) {
    Check{recorded_launch(GetParam()), GetParam()}.trace(one_in, high, table, some, counted);
  }
};

TEST_P(MemTrace, IsTheWitness) { trace(1, false, false); }
TEST_P(MemTrace, WithoutHighWords) { trace(1, true, false); }
TEST_P(MemTrace, OfSampledCtas) { trace(2, true, false); }
TEST_P(MemTrace, InSlotsOfTheirOwnSize) { trace(1, false, true); }
TEST_P(MemTrace, AtSomePlaces) { trace(1, true, false, true); }
TEST_P(MemTrace, KnowingFullBlocks) { trace(1, true, false, false, true); }
TEST_P(MemTrace, KnowingFullBlocksOfSampledCtas) { trace(2, false, false, false, true); }
TEST_P(MemTrace, KnowingFullBlocksAtSomePlaces) { trace(1, true, true, true, true); }

// A lock and a flag that are polled.
TEST(MemWithoutPolls, IsTheRestOfTheWitness) {
  for (const char* kernel : {"spin_lock", "grid_sync"})
    for (const bool counted : {false, true}) {
      SCOPED_TRACE(kernel);
      Check{recorded_launch(kernel), kernel, true}.trace(1, true, false, false, counted);
      Check{recorded_launch(kernel), kernel, true}.trace(2, false, true, true, counted);
    }
}

// Kernels with accesses that are not covered, without any, or that are refused.
constexpr const char* not_whole[] = {"function_pointers", "many_registers", "three_instructions", "launch_bounds", "async_copy",
                                     "bulk_copy", "cluster_copy", "warp_specialised", "tensor_copy", "wgmma_gemm", "wgmma_layouts", "wgmma_rounding",
                                     "wgmma_bfloat16"};
std::vector<std::string> whole_kernels() {
  std::vector<std::string> names = recorded_kernels();
  std::erase_if(names, [](const std::string& name) {
    return std::find(std::begin(not_whole), std::end(not_whole), name) != std::end(not_whole);
  });
  return names;
}
INSTANTIATE_TEST_SUITE_P(Kernels, MemTrace, testing::ValuesIn(whole_kernels()), [](const auto& p) { return p.param; });

TEST(MemNotWhole, SaysWhatIsMissing) {
  for (const char* kernel : not_whole) {
    const replay::LaunchImage launch = recorded_launch(kernel);
    const bundle::LaunchRecord& r = launch.record;
    const auto splicer = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
    if (splicer && !splicer->not_covered().empty()) continue;
    instrument::RecordForm form;
    form.lines = true;
    instrument::SlotPlan slots = instrument::plan_slots(std::vector<uint32_t>(r.grid.count() * 64), 1024, false, form, 1 << 30);
    instrument::place(slots, 1ull << 40);
    const auto spliced = splicer ? splicer->splice({ProbeKind::mem, {}, 1, 0, {}, {}}, slots.layout)
                                 : Result<instrument::Spliced>(tl::make_unexpected(splicer.error()));
    ASSERT_FALSE(spliced) << kernel;
    EXPECT_EQ(spliced.error().kind, ErrorKind::unsupported) << kernel;
  }
}

// --- the forms that the thirteen kernels do not have: code written here, in place of saxpy's

struct Line {
  const char* text;
  uint8_t wait = 0, write = 7, read = 7, stall = 2;
};
// EXITs stay where the metadata of saxpy lists them: 0x70 and 0x120.
constexpr Line forms[] = {
    {"S2R R0, SR_TID.X", 0, 0},
    {"ULDC.64 UR4, c[0x0][0x208]"},
    {"ULDC.64 UR6, c[0x0][0x218]"},
    {"LDC.64 R2, c[0x0][0x218]", 0, 1},
    {"SHF.L.U32 R4, R0, 0x2, RZ", 0x1, 7, 7, 5},
    {"LOP3.LUT R5, R4, 0x7f, RZ, 0xc0, !PT", 0, 7, 7, 5},
    {"UMOV UR8, 0x100", 0, 7, 7, 12},
    {"@!PT EXIT"},
    {"LDG.E R6, [R4.U32+UR6+0x10]", 0, 2},                       // a register of 32 bits and a uniform base
    {"ISETP.LT.U32.AND P0, PT, R0, 0x28, PT", 0, 7, 7, 13},
    {"@!P0 LDG.E R7, desc[UR4][R2.64+0x8]", 0x2, 3},            // the address was loaded
    {"STS [R5+UR8+0x4], R6", 0x4, 7, 0},
    {"@P0 ATOMS.ADD RZ, [R5+0x200], R0", 0, 7, 0},
    {"LDGSTS.E [R5+0x300], desc[UR4][R2.64+0x10]", 0, 7, 0},
    {"SHF.L.U32 R5, R5, 0x2, RZ", 0x1, 7, 7, 5},                 // the register changes
    {"LDSM.16.M88.2 R8, [R5+UR8]", 0, 4},
    {"LD.E R6, desc[UR4][R2.64+0x4]", 0, 2},
    {"ATOMG.E.ADD.STRONG.GPU PT, R6, desc[UR4][R2.64+0x20], R0", 0x4, 2},
    {"EXIT"},
};

// What the changed code leaves is what the launch leaves.
void run_original(replay::LaunchImage& launch) {
  const auto backend = replay::make_interp_backend();
  ASSERT_TRUE(backend->prepare(launch));
  const auto module = backend->load(launch.code);
  ASSERT_TRUE(module) << module.error().to_string();
  ASSERT_TRUE(backend->restore(*module, replay::RestoreScope::all));
  const auto outcome = backend->run(*module);
  ASSERT_TRUE(outcome) << outcome.error().to_string();
  ASSERT_TRUE(outcome->completed) << outcome->failure;
  launch.after = *backend->read_regions(*module);
}

TEST(MemForms, AreTheWitness) {
  Check check{recorded_launch("saxpy"), "forms"};
  replay::LaunchImage& launch = check.launch;
  auto image = cubin::Image::parse(launch.code);
  ASSERT_TRUE(image);
  const auto info = cubin::kernel_info(*image, "saxpy");
  ASSERT_TRUE(info);
  Bytes text = image->sections()[info->text_section].data;
  uint64_t at = 0;
  for (const Line& line : forms) {
    auto w = sass::assemble(**sass::find_arch(90), line.text, static_cast<int64_t>(at));
    ASSERT_TRUE(w) << line.text << ": " << w.error().to_string();
    sass::Control c;
    c.stall = line.stall;
    c.keep_issuing = line.stall < 12;
    c.wait_mask = line.wait;
    c.write_barrier = line.write;
    c.read_barrier = line.read;
    sass::set_control(*w, c);
    write_at(std::span(text), at, *w);
    at += sass::inst_bytes;
  }
  image->set_section_data(info->text_section, std::move(text));
  ASSERT_TRUE(cubin::set_register_count(*image, *info, 24));
  launch.code = *image->write();
  launch.record.dynamic_shared_bytes = 4096;
  ASSERT_NO_FATAL_FAILURE(run_original(launch));
  for (const bool high : {false, true})
    for (const bool counted : {false, true}) check.trace(1, high, false, false, counted);
  check.trace(2, true, true);
}

// A function that calls itself, on stacks that begin at other heights: by data, in lanes of one warp.
TEST(MemForms, StackPointersOfLanesDiffer) {
  Check check{recorded_launch("recursion"), "stacks"};
  replay::LaunchImage& launch = check.launch;
  auto image = cubin::Image::parse(launch.code);
  ASSERT_TRUE(image);
  const auto info = cubin::kernel_info(*image, "recursion");
  ASSERT_TRUE(info);
  const sass::Arch& arch = **sass::find_arch(90);
  Bytes text = image->sections()[info->text_section].data;
  // In place of value % 10, the depth; R4 is the value.
  constexpr uint64_t first = 0xe0;
  uint64_t at = first;
  for (const char* line : {"LOP3.LUT R5, R4, 0x7, RZ, 0xc0, !PT", "LOP3.LUT R9, R4, 0x10, RZ, 0xc0, !PT", "IADD3 R1, R1, -R9, RZ"}) {
    auto w = sass::assemble(arch, line, static_cast<int64_t>(at));
    ASSERT_TRUE(w) << line << ": " << w.error().to_string();
    const auto old = read_at<sass::RawInst>(text, at, "word");
    ASSERT_TRUE(old);
    ASSERT_EQ(sass::print(arch, *old, at).substr(0, 4), at == first ? "IMAD" : at == first + 16 ? "SHF." : "IMAD");
    sass::set_control(*w, sass::get_control(*old));
    write_at(std::span(text), at, *w);
    at += sass::inst_bytes;
  }
  image->set_section_data(info->text_section, std::move(text));
  launch.code = *image->write();
  ASSERT_NO_FATAL_FAILURE(run_original(launch));
  const auto backend = replay::make_interp_backend();
  ASSERT_TRUE(backend->prepare(launch));
  AccessWitness witness;
  ASSERT_NO_FATAL_FAILURE(run_as_recorded(*backend, launch, launch.code, &witness));
  size_t apart = 0;
  for (const auto& [warp, events] : witness.take())
    for (const Event& e : events)
      apart += e.space == MemSpace::local && std::adjacent_find(e.addresses.begin(), e.addresses.end(), std::not_equal_to<>()) != e.addresses.end();
  EXPECT_GT(apart, 1000u);
  for (const bool high : {false, true})
    for (const bool counted : {false, true}) check.trace(1, high, false, false, counted);
  check.trace(2, true, true);
}

// Its words are held against the access that they are for.
TEST(MemForms, BrokenStackPointersAreCaught) {
  const replay::LaunchImage launch = recorded_launch("recursion");
  const bundle::LaunchRecord& r = launch.record;
  const auto splicer = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
  ASSERT_TRUE(splicer);
  instrument::SlotPlan slots = instrument::plan_slots(std::vector<uint32_t>(16, 4096), splicer->largest_record(ProbeKind::mem), false,
                                                      splicer->mem_form(), uint64_t{1} << 30);
  instrument::place(slots, 1ull << 40);
  const auto spliced = splicer->splice({ProbeKind::mem, {}, 1, 0, {}, {}}, slots.layout);
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  const auto breaks = [&](const Bytes& cubin, const instrument::SpliceClaims& claims) {
    const auto found = instrument::verify_splice(launch.code, cubin, r.kernel, claims);
    return found && std::any_of(found->begin(), found->end(), [](const auto& v) { return v.rule == "address-recorded"; });
  };
  ASSERT_FALSE(breaks(spliced->cubin, spliced->claims));
  const auto image = cubin::Image::parse(spliced->cubin);
  ASSERT_TRUE(image);
  const auto info = cubin::kernel_info(*image, r.kernel);
  ASSERT_TRUE(info);
  const Bytes& text = image->sections()[info->text_section].data;
  const auto changed = [&](uint64_t at, auto change) {
    Bytes other = text;
    auto w = *read_at<sass::RawInst>(text, at, "word");
    change(w);
    write_at(std::span(other), at, w);
    cubin::Image edited = *image;
    edited.set_section_data(info->text_section, std::move(other));
    return breaks(*edited.write(), spliced->claims);
  };
  constexpr uint16_t imad_imm = 0x824, r2ur = 0x2ca, stg = 0x1986;
  size_t products = 0, firsts = 0, guarded = 0;
  for (uint64_t at = uint64_t{spliced->claims.prologue_words} * sass::inst_bytes; at < text.size(); at += sass::inst_bytes) {
    if (spliced->map.original_of_new[at / sass::inst_bytes] != wire::AddressMap::inserted) continue;
    const auto w = *read_at<sass::RawInst>(text, at, "word");
    const bool stack = get_bits(w, sass::opcode13(w) == r2ur ? bits(31, 24) : bits(71, 64)) == 1;
    if (sass::opcode13(w) == imad_imm && stack) {
      ++products;
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(63, 32), 0xfffffffe); }));
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(71, 64), 2); }));
    } else if (sass::opcode13(w) == r2ur && stack) {
      ++firsts;
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(31, 24), 2); }));
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(83, 81), get_bits(x, bits(83, 81)) ^ 1); }));
    } else if (sass::opcode13(w) == stg && get_bits(w, bits(15, 12)) != 7) {
      ++guarded;
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(15, 12), get_bits(x, bits(15, 12)) ^ 8); })) << "the other lanes";
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(63, 40), get_bits(x, bits(63, 40)) + 128); }));
    }
  }
  EXPECT_GE(products, 2u);
  EXPECT_EQ(products, firsts);
  EXPECT_EQ(products, guarded);
  for (size_t k = 0; k < spliced->claims.accesses.size(); ++k) {
    if (spliced->claims.accesses[k].base == wire::Access::none || spliced->claims.accesses[k].low == wire::Access::none) continue;
    const auto misread = [&](auto change) {
      instrument::SpliceClaims claims = spliced->claims;
      change(claims.accesses[k]);
      return breaks(spliced->cubin, claims);
    };
    EXPECT_TRUE(misread([](wire::Access& a) { a.low += 4; }));
    EXPECT_TRUE(misread([](wire::Access& a) { a.base += 4; }));
    EXPECT_TRUE(misread([](wire::Access& a) { a.base = wire::Access::none; }));
    EXPECT_TRUE(misread([](wire::Access& a) { a.numbers = 0; }));
  }
}

}  // namespace
}  // namespace xtrace::interp_test
