// Splicing, as a function of bytes: a cubin, a kernel in it and a probe plan go in; a cubin with probes and the map of
// what they write come out. No GPU.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/types.h"
#include "instrument/probe.h"
#include "instrument/sass/effects.h"
#include "instrument/slot_plan.h"
#include "instrument/verify.h"
#include "trace/wire/address_map.h"

namespace xtrace::instrument {

// Geometry of the launch: the prologue is specialised for it.
struct LaunchShape {
  Dim3 grid, block, cluster{0, 0, 0};
  uint32_t dynamic_shared_bytes = 0;
  // Decoders will know SlotLayout::memory_highs, so that `mem` leaves high words of global addresses out.
  bool low_words_tell = false;
  Bytes params{};   // of the launch, where they are known: strides of addresses may follow from them
};

// Which instructions inst, pair, mem and the point probes look at, by instruction of the section; empty: all.
using Places = std::vector<bool>;

// What the point probes reg, custom and range were told.
struct Rule {
  Places places;                       // empty: everywhere
  std::vector<wire::Value> before, behind;   // reg, custom: recorded on either side of each instruction there
  std::string name;                    // range: of the region
  bool data_before = false, data_behind = false;   // reg, custom: beside these the registers that an access stores, and those that it loads
};
struct Asked {
  std::vector<Rule> reg, custom, range;
};

// Sparse sites: instruction i of the section is looked at where i % one_in == part (inst, mem, point probes), and block b recorded where
// b % one_in == part (block; inst: where it holds such an instruction); and of each point's executions by a warp the
// first, and every nth after it, are recorded (point probes).
struct Sites {
  uint32_t one_in = 1, part = 0, nth = 1;
};

// What the two clocks of `pair` stand around.
enum class Around : uint8_t {
  instruction,   // the site
  body,          // from in front of the site, which begins a block, to in front of the block's last instruction
  block,         // from in front of the site to the block that the warp executes next, or to in front of an EXIT
  kernel,        // from in front of the site, the kernel's first instruction, to in front of each EXIT
};

struct Plan {
  ProbeKind probe = ProbeKind::none;
  std::vector<OrigPc> pair_sites{};    // pair probe only: one
  uint32_t one_in = 1, seed = 0;       // cta sampling
  // Blocks that no counting replay saw with a lane missing (by block; empty: none). Their records in plain slots are
  // shorter and hold no mask. `block`, `inst`: with a lane missing of those that the warp was launched with.
  std::vector<bool> full_blocks{};
  // Executions by a warp, of each block, in the counting replays (empty: not known).
  std::vector<uint64_t> executions{};
  // `count`: the probe whose bytes are the third sum of a warp's header: mem or a point probe.
  ProbeKind counted = ProbeKind::mem;
  wire::Selection select{};            // of what cta sampling leaves
  Around around = Around::instruction; // pair probe only; what lasts longer leaves a pair of clocks where it ends
  // Blocks whose executions leave no records under `block` and `inst`, and under `count` no bytes in the sums of a warp's header
  // (by block; empty: none): Splicer::polling().
  std::vector<bool> unrecorded{};
  uint32_t span = 1;                   // around so many instructions, the site first, none of which ends the block
  // `inst` in plain slots: at most so many stall cycles between two clocks of a block, and what clocks.h says; 0: a clock at every
  // instruction. With places or sparse sites every one of these has a clock.
  uint32_t clock_gap = 0;
  // `count`, of a kernel that leaves few uniform registers (Splicer::one_sum_a_replay()): which sum the warp's header has in `bytes`.
  enum class Sum : uint8_t { block, inst, counted };
  Sum sum = Sum::block;
  bool twice = false;                  // of stretches: what begins and what ends them stands there twice, and takes time twice
  bool last_apart = false;             // `count`: the last warp of each CTA in counters of its own, behind those of the others
  // `count`: what an execution of each block adds to the third sum of a warp's header, in place of the bytes of `counted`; empty: those.
  std::vector<uint32_t> counted_bytes{};
  // `count`, of which nothing but the counts of blocks is wanted: warps have no headers.
  bool counts_alone = false;
  uint32_t cta_part = 0;               // of one_in classes of CTAs the one that is traced
  bool rotates = false;                // the code is to be turned into that of the other classes: for_cta_part()
  bool samples() const { return one_in > 1 || !select.empty(); }
};

struct SpliceReport {
  uint32_t original_registers = 0, new_registers = 0;
  uint32_t original_code_bytes = 0, new_code_bytes = 0;
  uint32_t sites = 0;                  // probe sequences inserted
  uint32_t fresh_registers = 0;        // registers used above the kernel's own
  uint32_t spills = 0;                 // places where a register of the kernel stands aside in local memory (spill.h)
  uint32_t original_frame = 0, spill_frame = 0;   // bytes of local memory a thread; with room for it (0: there are none)
  bool costs_occupancy = false;        // fewer CTAs fit on an SM
  std::vector<std::string> notes;      // debug sections dropped, ...
};

struct Spliced {
  Bytes cubin;
  wire::AddressMap map;
  SpliceReport report;
  SpliceClaims claims;                 // what the verifier was told; it has passed
  std::vector<uint8_t> added_waits;    // by word: scoreboards for which an instruction of the kernel waits on behalf of the probe (bit mask)
};

// Plan::clock_gap where nobody says otherwise.
constexpr uint32_t usual_clock_gap = 32;

// Cycles for which a warp issues nothing in front of an instruction, more than without.
struct Delay {
  OrigPc at;
  uint32_t cycles = 0;
};

// One kernel, read and analysed once, to be spliced in many ways. Copyable handle; immutable.
class Splicer {
 public:
  // An unsupported error names the kernel, the pc and the reason when the kernel is refused.
  static Result<Splicer> create(ByteView cubin, std::string_view kernel, const LaunchShape& shape);

  // Blocks of the original code, without probes: record sizes are zero.
  const std::vector<wire::Block>& blocks() const;
  // Largest record of a probe on this kernel, and bytes of one execution of block b.
  uint32_t record_bytes(ProbeKind probe, uint32_t block) const;
  uint32_t largest_record(ProbeKind probe) const;
  // For SlotLayout::index_bits: bits that hold every block number plus one.
  uint32_t index_bits() const;
  bool cyclic() const;                          // some warp may execute a block twice
  // By block: it lies in a loop in which warps wait for others, however often (waiting.h).
  std::vector<bool> waiting() const;
  bool waits() const;                           // some block does
  std::vector<bool> polling() const;            // by block: it lies in one that does nothing but ask again
  // By block: of a function that calls itself.
  std::vector<bool> recursive() const;
  // Whether the counting replay adds up one of its three sums a replay, as the kernel leaves few uniform registers; no slot of such
  // a kernel wraps.
  bool one_sum_a_replay() const;
  // Whether records of `inst` can fill sectors (SlotLayout::whole_sectors): every warp has all its lanes, and a register is free at no cost in
  // occupancy. `samples`: Plan::samples().
  bool can_fill_sectors(bool samples) const;
  bool sums_floats() const;                     // a reachable instruction does (sass/access.h)
  std::string text(OrigPc pc) const;            // SASS
  // Reachable instructions that touch memory and that `mem` leaves out, and why.
  struct NotCovered {
    OrigPc pc;
    std::string_view reason;
  };
  std::vector<NotCovered> not_covered() const;
  // What places are chosen by. Reachable code only.
  struct Instruction {
    OrigPc pc;
    std::string_view function;         // mangled
    uint32_t block = 0;
    sass::MemSpace space = sass::MemSpace::none;
    sass::MemKind kind = sass::MemKind::none;
    bool branches = false;             // leaves the order of the code
    bool parts = false;                // behind it lanes may part or meet, so that no pair of clocks stands around it
  };
  std::vector<Instruction> instructions() const;
  // The same kernel, seen at some places only. Records of `inst` keep the clock at the head of each block.
  Splicer at(Places places) const;
  // The same, with what reg, custom and range record; and with sparse sites, for block, inst, mem and the point probes.
  Splicer asked(Asked what) const;
  Splicer sparse(Sites sites) const;
  // The same, for `mem`, knowing which blocks (by number) no counting replay saw with a lane missing, and how often a warp executed
  // each. Records of addresses then take other bytes, so that these are counted anew.
  Splicer counted(std::vector<bool> full_blocks, std::span<const uint64_t> executions) const;
  // The same, without accesses to memory in these blocks.
  Splicer without(const std::vector<bool>& blocks) const;
  // The same, with the high words of global addresses in the records of `mem`, whatever LaunchShape::low_words_tell says.
  Splicer with_high_words() const;
  RecordForm mem_form() const;                  // of its records of addresses
  // Points of a point probe, in order of code, with the layout of their records.
  Result<std::vector<wire::Point>> points(ProbeKind probe) const;
  // The same as if each was recorded by itself: of events that several sparse replays recorded, or one of them.
  Result<std::vector<wire::Point>> points_apart(ProbeKind probe) const;
  std::vector<std::string> region_names(ProbeKind probe) const;   // range: by site; else none
  size_t section_instructions() const;   // reachable or not: the size of Places
  bool covers(OrigPc pc) const;
  uint32_t warps_per_cta() const;

  // The result has passed verify_splice. With ProbeKind::none it is the input, byte for byte.
  // `mem` spills where it would be refused for want of registers, or cost a CTA an SM.
  Result<Spliced> splice(const Plan& plan, const wire::SlotLayout& layout) const;
  // The kernel without probes, slower by NOPs: for whoever tests that a slowdown is seen. It has passed verify_splice, too.
  Result<Spliced> delayed(const std::vector<Delay>& delays) const;

 private:
  struct Impl;
  Result<Spliced> splice_once(const Plan& plan, const wire::SlotLayout& layout, bool spills) const;
  Result<std::vector<wire::Point>> points(ProbeKind probe, bool apart) const;
  std::shared_ptr<const Impl> impl_;
  Places places_;
  std::shared_ptr<const Asked> asked_;
  Sites sites_;
  bool low_words_tell_ = false;
  struct Counted;
  std::shared_ptr<const Counted> counted_;
};

// The same in one call.
Result<Spliced> splice(ByteView cubin, std::string_view kernel, const LaunchShape& shape, const Plan& plan,
                       const wire::SlotLayout& layout);

}  // namespace xtrace::instrument
