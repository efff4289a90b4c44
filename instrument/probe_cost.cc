#include "instrument/probe_cost.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/effects.h"

namespace xtrace::instrument {
namespace {

constexpr uint16_t stg_uniform = 0x1986;   // STG [R.U32+UR+offset], R
constexpr BitRange place_field = bits(63, 40), lane_field = bits(31, 24);

// A store with a uniform base and an offset in a register hands over four words, one for each eight lanes, or two of them (`pair`); if it is a
// column (an address of `mem`, a register of `reg` or `custom`) a word of its own for every lane. All others store the same words in all lanes.
// Of lanes that end (`ends`) there is none, mostly.
enum class Column : uint8_t { none, pair, addresses, rounds, ends };
ProbeCost cost_of(const sass::Arch& arch, const sass::RawInst& w, Column column, bool whole_sectors) {
  constexpr uint64_t no_register = 255, line_bytes = 128, line_cycles = 4, sector_bytes = 32, groups = 4;
  const sass::Effects fx = sass::effects(arch, w, 0);
  ProbeCost c;
  c.warp_cycles = sass::get_control(w).stall;
  c.issue_slots = fx.mnemonic == "CS2R" ? fx.def.gpr.count() > 1 ? 2 : 1 : 1;
  if (fx.kind == sass::MemKind::store) {
    const uint64_t registers = fx.access_bytes / sizeof(uint32_t);
    const bool by_lanes = sass::opcode13(w) == stg_uniform && get_bits(w, lane_field) != no_register;
    // In whole sectors only what has the same place in all lanes; heads of slots have addresses in registers.
    const bool one_place = sass::opcode13(w) == stg_uniform && !by_lanes;
    const bool hardly = by_lanes && column == Column::ends && fx.guarded;
    c.partial_stores = whole_sectors ? one_place : !by_lanes || (column != Column::addresses && !hardly);
    c.store_cycles = by_lanes && column == Column::addresses && !fx.guarded ? line_cycles : by_lanes && column > Column::pair ? 1 : 1 + registers;
    // Under a guard: of the lanes that differ from the first, mostly none. Few lanes leave a loop at once.
    c.stored_bytes = !by_lanes                     ? whole_sectors && !one_place ? sector_bytes : fx.access_bytes
                     : column == Column::none      ? std::max(whole_sectors ? sector_bytes : 0, groups * fx.access_bytes)
                     : column == Column::pair      ? 2 * fx.access_bytes
                     : hardly                      ? 0
                     : column == Column::addresses ? fx.guarded ? 0 : line_bytes
                                                   : sector_bytes;
  }
  return c;
}

// What the waits cost that the probe adds, were the traced copy executed from one end to the other: those of inserted words and those that an
// instruction of the kernel has on the probe's behalf. What the kernel waits for itself costs nothing.
class WaitClock {
 public:
  // Cycles that a word waits for `scoreboards` on behalf of the probe; `own` are those that the kernel waits for there.
  uint64_t pass(const sass::Arch& arch, const sass::RawInst& w, uint8_t added, uint8_t own) {
    const sass::Control c = sass::get_control(w);
    uint64_t ready = now_;
    for (unsigned sb = 0; sb < ready_.size(); ++sb)
      if (added >> sb & 1) ready = std::max(ready, ready_[sb]);
    const uint64_t waited = ready - now_;
    now_ = ready;
    for (unsigned sb = 0; sb < ready_.size(); ++sb)
      if ((added | own) >> sb & 1) ready_[sb] = 0;
    const sass::Effects fx = sass::effects(arch, w, 0);
    const bool memory = (fx.kind == sass::MemKind::load || fx.kind == sass::MemKind::atomic) && fx.space != sass::MemSpace::constant &&
                        fx.space != sass::MemSpace::shared;
    if (c.write_barrier < ready_.size()) signal(c.write_barrier, memory ? memory_cycles : special_cycles);
    if (c.read_barrier < ready_.size()) signal(c.read_barrier, read_cycles);
    now_ += c.stall;
    return waited;
  }

 private:
  // How long after its issue an instruction releases its scoreboards, without others in its way [measured H200, docs/performance.md
  // "What a wait costs"].
  static constexpr uint64_t read_cycles = 13, special_cycles = 23, memory_cycles = 273;

  void signal(uint8_t scoreboard, uint64_t cycles) { ready_[scoreboard] = std::max(ready_[scoreboard], now_ + cycles); }
  uint64_t now_ = 0;
  std::array<uint64_t, 6> ready_{};
};

}  // namespace

Result<ProbeCost> probe_cost(const Spliced& spliced, std::string_view kernel, std::span<const uint64_t> executions, LaunchWarps warps) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(spliced.cubin));
  XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, kernel));
  XT_TRY(const sass::Arch* arch, sass::find_arch(image.sm()));
  const Bytes& text = image.sections()[info.text_section].data;
  const std::vector<uint32_t>& origin = spliced.map.original_of_new;
  XT_CHECK(origin.size() * sass::inst_bytes == text.size(), "a map of the whole section");
  XT_CHECK(spliced.added_waits.size() == origin.size(), "waits of the whole section");

  std::set<std::pair<uint32_t, uint32_t>> columns;   // of `mem`: block, byte in its record
  for (const wire::Access& a : spliced.map.accesses)
    for (uint32_t place : {a.low, a.high}) columns.insert({a.block, place});
  const bool points = !spliced.map.points.empty();   // whose columns alone are stored by lanes
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
  const bool places_words = spliced.claims.odd_lanes.has_value();
  sass::RegSet pairs;   // registers with the places of the words of pairs
  if (spliced.claims.word_place) pairs.set(*spliced.claims.word_place);
  const auto cost_at = [&](size_t word, uint32_t block) -> Result<ProbeCost> {
    XT_TRY(const auto w, read_at<sass::RawInst>(text, word * sass::inst_bytes, "word"));
    const auto place = static_cast<uint32_t>(get_bits(w, place_field));
    const bool known = block < spliced.map.blocks.size();
    const bool rounds = known && place != 0 && spliced.map.blocks[block].rounds_at == place;
    const bool pair = sass::opcode13(w) == stg_uniform && pairs.test(get_bits(w, lane_field));
    const Column column = known && spliced.map.blocks[block].numbered  ? Column::ends
                          : pair                                       ? Column::pair
                          : rounds                                     ? Column::rounds
                          : columns.contains({block, place}) || points ? Column::addresses
                                                                       : Column::none;
    // A place that is made in front of its store is known by how.
    const sass::Effects fx = sass::effects(*arch, w, 0);
    if (fx.def.gpr.count() == 1) pairs = fx.mnemonic == "SEL" && places_words ? pairs | fx.def.gpr : pairs & ~fx.def.gpr;
    if (spliced.claims.word_place) pairs.set(*spliced.claims.word_place);
    return cost_of(*arch, w, column, spliced.map.layout.whole_sectors);
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
  WaitClock clock;
  const auto wait_at = [&](size_t k, uint8_t added, uint8_t own, uint64_t n) -> Status {
    XT_TRY(const auto w, read_at<sass::RawInst>(text, k * sass::inst_bytes, "word"));
    sum.warp_cycles += n * clock.pass(*arch, w, added, own);
    return {};
  };
  const auto mask_at = [&](size_t k) -> Result<uint8_t> {
    XT_TRY(const auto w, read_at<sass::RawInst>(text, k * sass::inst_bytes, "word"));
    return sass::get_control(w).wait_mask;
  };
  for (word = prologue; word < first; ++word) {
    XT_TRY_STATUS(add(word, 0, warps.traced));
    XT_TRY(const uint8_t mask, mask_at(word));
    XT_TRY_STATUS(wait_at(word, mask, 0, warps.traced));
  }
  for (size_t next = word; next < origin.size(); ++next) {
    if (origin[next] == wire::AddressMap::inserted) continue;
    const size_t original = origin[next] / sass::inst_bytes;
    const uint64_t n = original < times.size() ? times[original] : 0;
    const uint32_t block = original < block_of.size() ? block_of[original] : 0;
    XT_TRY(const uint8_t all, mask_at(next));
    const auto own = static_cast<uint8_t>(all & ~spliced.added_waits[next]);
    for (; word < next; ++word) {
      XT_TRY_STATUS(add(word, block, n));
      XT_TRY(const uint8_t mask, mask_at(word));
      if (n != 0) XT_TRY_STATUS(wait_at(word, static_cast<uint8_t>(mask & ~own), static_cast<uint8_t>(mask & own), n));
    }
    if (n != 0) XT_TRY_STATUS(wait_at(word, spliced.added_waits[next], own, n));
    XT_TRY(const ProbeCost of_kernel, cost_at(word++, block));
    sum.kernel_slots += n * of_kernel.issue_slots;
  }
  if (spliced.map.layout.whole_sectors && !spliced.claims.records_addresses) {   // records of `mem` have room that nobody writes
    sum.stored_bytes = warps.traced * spliced.map.layout.lead_bytes;
    for (size_t b = 0; b < spliced.map.blocks.size() && b < executions.size(); ++b) sum.stored_bytes += executions[b] * spliced.map.blocks[b].record_bytes;
  }
  return sum;
}

}  // namespace xtrace::instrument
