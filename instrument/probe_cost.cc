#include "instrument/probe_cost.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/effects.h"

namespace xtrace::instrument {
namespace {

constexpr uint16_t stg_uniform = 0x1986;   // STG [R.U32+UR+offset], R
constexpr BitRange place_field = bits(63, 40);

// A store with a uniform base and an offset in a register hands over four words, one for each eight lanes; if it is a column (`mem`) a
// word of its own for every lane. All others store the same words in all lanes.
enum class Column : uint8_t { none, addresses, rounds };
ProbeCost cost_of(const sass::Arch& arch, const sass::RawInst& w, Column column, bool whole_sectors) {
  constexpr BitRange lane_field = bits(31, 24);
  constexpr uint64_t no_register = 255, line_bytes = 128, sector_bytes = 32, groups = 4;
  const sass::Effects fx = sass::effects(arch, w, 0);
  ProbeCost c;
  c.warp_cycles = sass::get_control(w).stall;
  c.issue_slots = fx.mnemonic == "CS2R" ? fx.def.gpr.count() > 1 ? 2 : 1 : 1;
  if (fx.kind == sass::MemKind::store) {
    const uint64_t registers = fx.access_bytes / sizeof(uint32_t);
    const bool by_lanes = sass::opcode13(w) == stg_uniform && get_bits(w, lane_field) != no_register;
    // In whole sectors only what has the same place in all lanes; heads of slots have addresses in registers.
    const bool one_place = sass::opcode13(w) == stg_uniform && !by_lanes;
    c.partial_stores = whole_sectors ? one_place : !by_lanes || column != Column::addresses;
    c.store_cycles = by_lanes && column != Column::none ? 1 : 1 + registers;
    // Under a guard: of the lanes that differ from the first, mostly none. Few lanes leave a loop at once.
    c.stored_bytes = !by_lanes                     ? whole_sectors && !one_place ? sector_bytes : fx.access_bytes
                     : column == Column::none      ? std::max(whole_sectors ? sector_bytes : 0, groups * fx.access_bytes)
                     : column == Column::addresses ? fx.guarded ? 0 : line_bytes
                                                   : sector_bytes;
  }
  return c;
}

}  // namespace

Result<ProbeCost> probe_cost(const Spliced& spliced, std::string_view kernel, std::span<const uint64_t> executions, LaunchWarps warps) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(spliced.cubin));
  XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, kernel));
  XT_TRY(const sass::Arch* arch, sass::find_arch(image.sm()));
  const Bytes& text = image.sections()[info.text_section].data;
  const std::vector<uint32_t>& origin = spliced.map.original_of_new;
  XT_CHECK(origin.size() * sass::inst_bytes == text.size(), "a map of the whole section");

  std::set<std::pair<uint32_t, uint32_t>> columns;   // of `mem`: block, byte in its record
  for (const wire::Access& a : spliced.map.accesses)
    for (uint32_t place : {a.low, a.high}) columns.insert({a.block, place});
  std::vector<uint64_t> times;       // by original instruction
  std::vector<uint32_t> block_of;    // likewise
  for (size_t b = 0; b < spliced.map.blocks.size() && b < executions.size(); ++b) {
    const wire::Block& block = spliced.map.blocks[b];
    const size_t first = block.first_pc / sass::inst_bytes;
    if (times.size() < first + block.instructions) {
      times.resize(first + block.instructions);
      block_of.resize(first + block.instructions);
    }
    for (uint32_t i = 0; i < block.instructions; ++i) {
      times[first + i] = executions[b];
      block_of[first + i] = static_cast<uint32_t>(b);
    }
  }
  ProbeCost sum;
  const auto cost_at = [&](size_t word, uint32_t block) -> Result<ProbeCost> {
    XT_TRY(const auto w, read_at<sass::RawInst>(text, word * sass::inst_bytes, "word"));
    const auto place = static_cast<uint32_t>(get_bits(w, place_field));
    const bool rounds = block < spliced.map.blocks.size() && place != 0 && spliced.map.blocks[block].rounds_at == place;
    return cost_of(*arch, w, rounds ? Column::rounds : columns.contains({block, place}) ? Column::addresses : Column::none, spliced.map.layout.whole_sectors);
  };
  const auto add = [&](size_t word, uint32_t block, uint64_t n) -> Status {
    XT_TRY(const ProbeCost c, cost_at(word, block));
    sum.issue_slots += n * c.issue_slots;
    sum.store_cycles += n * c.store_cycles;
    sum.stored_bytes += n * c.stored_bytes;
    sum.partial_stores += n * c.partial_stores;
    sum.warp_cycles += n * c.warp_cycles;
    return {};
  };
  // Inserted words belong to the original that follows them. In front of the prologue, which runs once in a traced warp, stands the
  // untouched copy, if any.
  const uint32_t prologue = spliced.claims.prologue_first, first = prologue + spliced.claims.prologue_words;
  size_t word = 0;
  for (size_t next = 0; next < prologue; ++next) {
    if (origin[next] == wire::AddressMap::inserted) continue;
    for (; word < next; ++word) XT_TRY_STATUS(add(word, 0, warps.all));
    ++word;
  }
  for (word = prologue; word < first; ++word) XT_TRY_STATUS(add(word, 0, warps.traced));
  for (size_t next = word; next < origin.size(); ++next) {
    if (origin[next] == wire::AddressMap::inserted) continue;
    const size_t original = origin[next] / sass::inst_bytes;
    const uint64_t n = original < times.size() ? times[original] : 0;
    const uint32_t block = original < block_of.size() ? block_of[original] : 0;
    for (; word < next; ++word) XT_TRY_STATUS(add(word, block, n));
    XT_TRY(const ProbeCost own, cost_at(word++, block));
    sum.kernel_slots += n * own.issue_slots;
  }
  if (spliced.map.layout.whole_sectors && !spliced.claims.records_addresses) {   // records of `mem` have room that nobody writes
    sum.stored_bytes = warps.traced * spliced.map.layout.lead_bytes;
    for (size_t b = 0; b < spliced.map.blocks.size() && b < executions.size(); ++b) sum.stored_bytes += executions[b] * spliced.map.blocks[b].record_bytes;
  }
  return sum;
}

}  // namespace xtrace::instrument
