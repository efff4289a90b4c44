// What the decoder must know about the spliced code: blocks, sites, and how records lie in the buffer. Filled by
// instrument/, read by trace/ and by the report. Plain data in terms of the *original* code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/wire/high_words.h"
#include "trace/wire/record.h"

namespace xtrace::wire {

// A probe block: a run of instructions that a set of lanes executes together, with no point inside where a diverged warp
// could continue with another path.
struct ClockPlace {
  uint16_t byte = 0;           // in the record
  uint8_t bytes = 4;           // 2: its low half only; in_head: above the block number; implied: not read, as the clocks around it
                               // and the stall counts tell it; absent: not read, as no register was free
  uint8_t stall = 1;           // of the instruction: the next one issues no earlier
  bool waits = false;          // the next one may issue later than that even if no other warp does
  static constexpr uint8_t in_head = 0, implied = 0xfe, absent = 0xff;
};

struct Block {
  uint32_t first_pc = 0;       // byte offset in the original .text
  uint32_t instructions = 0;
  uint32_t least_cycles = 0;   // sum of the stall counts of its instructions
  uint32_t record_bytes = 0;   // bytes that one execution writes; 0: no probe, in the record of a chain, implied, or unrecorded
  uint32_t clocks = 0;         // inst: clocks in the record (= instructions); block: 0
  std::vector<uint32_t> successors;  // block numbers; empty and indirect = true when not known
  bool indirect = false;       // leaves by RET, BRX or an unknown call
  bool exits = false;          // may end the warp (EXIT)
  static constexpr uint32_t none = 0xffffffff;
  uint32_t behind_call = none; // it calls: where a lane goes on that returns (none: it does not, or nobody returns)
  bool returns = false;        // behind the lane's last call that it has not returned from
  std::vector<uint32_t> chain; // short records: blocks that followed this one in every counted execution; their clocks are in its record
  bool implied = false;        // short records: none, since every lane that was in it is seen before and behind it, and no other
                               // way leads from there to here. Decoders put its executions behind that of the block
                               // with the record before it, as late as the warp's next clock allows
  bool gathered = false;       // implied, and all lanes of the warp execute it together, however they came: one execution for all of
                               // their ways to it, behind the last of them
  bool loop = false;           // implied: a loop of this block alone, of which nothing is recorded a round. Lanes count their rounds,
                               // and the block that they leave it for, which has a record, says how many each of them did
  uint32_t rounds_at = 0;      // short records: byte in the record where these counts are, a column of 32 words; 0: there are none. Lanes
                               // that came another way have counted none; words of lanes that were not active say nothing
  bool rounds_alike = false;   // in every counted execution of loop and block all lanes were active: one word for all of them
  uint32_t rounds_bytes() const { return rounds_at == 0 ? 0 : rounds_alike ? 4 : column_bytes; }
  bool numbered = false;       // implied: of a region without records, from the block in front of it to the one that all ways through it lead to.
                               // Each lane numbers the way that it takes. That block's record has the numbers, and a lane that ends on its way
                               // leaves its own in the slot (SlotLayout::ends_at)
  uint32_t way_number = 0;     // numbered, or in front of a region: the lane's number from here on; 0: what it was
  uint32_t way_adds = 0;       // numbered: and so much more than it was
  bool has_ways = false;       // what stands at rounds_at are such numbers, and no counts
  bool forks = false;          // short records: it ends in a branch, and the second word of its record has the lanes that fall through to the next
                               // block, which has no record of its own and begins so many cycles behind the clock of this one
  uint32_t fork_cycles = 0;
  bool placed = false;         // the clock of its executions follows from that of the block in front
  bool unrecorded = false;     // of a loop in which warps wait for others: left out, as it goes round more or less often each time.
                               // The block in front of it lasts until the one behind it. Or of another part
  bool other_part = false;     // unrecorded, as other ones of AddressMap::sites_one_in sparse replays record it. How long the block in
                               // front of it lasted is not known
  bool narrow_count = false;   // `count`: its counters have 32 bits, and are right below narrow_executions
  bool packed_count = false;   // `count`: BlockCount::warps has both, as packed_executions says; right below packed_executions; or narrow,
                               // and in each copy below narrow_packed_executions
  bool full = false;           // records without a mask: in every counted execution all lanes were active, under `block` and `inst`
                               // of those that the warp was launched with; `mem`: and their words are anywhere
  bool grouped = false;        // words of its records lie in lane groups (known to the splicer alone)
  // The clock of this instruction was read. Decoders place the others by the stall counts: plain_slots.h.
  bool has_clock(size_t i) const { return !implied && (clock_at.empty() || clock_at[i].bytes < ClockPlace::implied); }
  std::vector<ClockPlace> clock_at;  // packed inst record: where each clock is; empty: as in record.h
};

struct Site {                  // pair probe
  uint32_t pc = 0;             // original offset of the instruction between the clocks
  bool edge = false;           // the instruction ends a block: edge_begin / edge_end records
  uint32_t overhead_cycles = 0;// edge: cycles of probe code between the first clock and the instruction, at least
  uint32_t least_cycles = 0;   // the instruction's stall count: its successor issues no earlier
};

// `mem` probe: one memory access of an instruction (LDGSTS makes two). The address of a lane is
//
//   low + column(high) << 32 + scalar(uniform_low) + scalar(uniform_high) << 32 + offset
//
// modulo 2^64, or 2^32 where the address has 32 bits. Places are byte offsets in the record of the block; `none` counts as 0. The low
// word is scalar(base) + column(low), where what was not written of the column is 0; or, where the code proves how lanes differ, with n
// from the table of numbers, modulo 2^32,
//
//   scalar(base) + n(lane) - n(the lane that the base is of),   or n(lane) alone.
//
// Of accesses that are made once for the warp no lane has an address: operands are what the instruction reads from uniform registers, each a
// scalar, and of what is below only pc, block, space, kind and mask say something; the word at `mask` is 0 where it was not made.
struct Access {
  enum class Space : uint8_t { global, generic, shared, local };
  enum class Kind : uint8_t { load, store, atomic, reduction, prefetch };
  enum class Form : uint8_t {
    lanes,         // by each lane, at an address of its own
    bulk,          // a piece of memory
    tensor,        // a box of a tensor, through a tensor map
  };
  // sass::OperandRole, in the same order.
  enum class Role : uint8_t { global_low, global_high, shared, shared_from, barrier, size, size_ctas, map_low, map_high, coordinate, ctas, pixels };
  struct Operand {
    Role role = Role::global_low;
    uint32_t place = 0xffffffff;   // none: 0
    bool operator==(const Operand&) const = default;
  };
  Form form = Form::lanes;
  std::vector<Operand> operands;   // not of lanes
  bool pixels = false;             // tensor: the map is one of pixels (im2col)
  uint32_t pc = 0, block = 0;
  Space space = Space::global;
  Kind kind = Kind::load;
  uint8_t bytes = 0;           // of one lane
  uint8_t lanes = 32;          // the first so many lanes give addresses (matrix loads and stores: 8, 16 or 32)
  bool wide = false;           // an address of 64 bits
  bool high_is_known = false;  // ... whose low word tells the high one: SlotLayout::memory_highs
  uint8_t scale = 0;           // left shift of what lanes have of their own, in 32 bits
  int32_t offset = 0;
  static constexpr uint32_t none = 0xffffffff;
  uint32_t low = none, high = none;                    // columns: 32 words, one a lane
  uint32_t uniform_low = none, uniform_high = none;    // scalars: one word
  uint32_t base = none;        // scalar; says nothing where the mask is 0
  enum class BaseOf : uint8_t { first_of_warp, first_active, first_of_mask } base_of = BaseOf::first_of_warp;
  uint32_t numbers = none;     // of AddressMap::lane_numbers
  uint32_t mask = none;        // scalar: lanes whose guard held; none: all active ones. Not written where there are none: slots
                               // are zeroed
};
constexpr std::string_view name_of(Access::Space space) {
  constexpr std::string_view names[] = {"global", "generic", "shared", "local"};
  return names[static_cast<size_t>(space)];
}
constexpr std::string_view name_of(Access::Kind kind) {
  constexpr std::string_view names[] = {"load", "store", "atomic", "reduction", "prefetch"};
  return names[static_cast<size_t>(kind)];
}

constexpr std::string_view name_of(Access::Form form) {
  constexpr std::string_view names[] = {"lanes", "bulk", "tensor"};
  return names[static_cast<size_t>(form)];
}

// Point probes (branch, reg, sync, ...): what is recorded, and where. All words have 32 bits.
struct Value {
  enum class Kind : uint8_t {
    clock,          // low word of the SM clock, at the point
    clock_before,   // the same in front of the instruction, in a record behind it
    clock_ready,    // the same once the instruction's results have arrived
    time,           // low word of GLOBALTIMER, at the point
    lanes,          // in which a predicate holds, of the active ones
    uniform,        // a uniform register
    vector,         // a vector register: a column, one word a lane
    target,         // likewise, of an indirect branch: decoders make an original offset of it
  };
  Kind kind = Kind::clock;
  uint8_t index = 0;           // of the register or predicate
  bool negated = false;        // lanes: in which it does not hold
  uint32_t place = 0;          // byte in the record, or `same`
  // Not in the record: the value of the last point in front of this one, in the same execution of the block, that has this value.
  static constexpr uint32_t same = 0xffffffff;
  bool operator==(const Value&) const = default;
  bool is_column() const { return kind >= Kind::vector; }
  bool is_clock() const { return kind <= Kind::clock_ready; }
  bool is_recorded() const { return place != same; }
  bool is_register() const { return kind == Kind::lanes || kind == Kind::uniform || kind == Kind::vector; }
  bool same_register(const Value& o) const { return is_register() && kind == o.kind && index == o.index && negated == o.negated; }
};

// Immediately in front of an instruction, or behind it where lanes fall through. Points of one site belong together.
struct Point {
  enum class Role : uint8_t {
    single,         // an event by itself
    begin, end,     // lanes arrive or enter, and are released or leave
  };
  uint32_t pc = 0, block = 0;  // of the instruction
  bool after = false;
  Role role = Role::single;
  uint32_t site = 0;           // numbers from 0
  uint32_t record_bytes = 0;   // 0: not recorded in this replay, or joined or implied
  bool joined = false;         // no record of its own: its values lie in that of the last point in front of it in its block that has one, where
                               // their places are counted from. Executed whenever that is, and by the same lanes
  bool implied = false;        // no record, as points in front of it in its block tell all of its values: executed whenever these are, and
                               // its event stands behind that of the point in front of it
  uint32_t overhead_cycles = 0;   // of probe code between the clock of a point in front of an instruction and that, at least
  std::vector<Value> values;   // clocks and times in the order in which they are read, columns last
  bool is_present() const { return record_bytes != 0 || joined || implied; }
  // Behind the last instruction of its block others may come out than went in: it is not of the block's executions.
  bool is_behind(const Block& b) const { return after && pc == b.first_pc + (b.instructions - 1) * 16; }
};

// What is traced beside cta:1/N: numbers in one of the ranges; an empty list takes all.
struct Selection {
  struct Range {
    uint32_t first = 0, last = 0;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ctas;     // of the grid, linear
  std::vector<Range> warps;    // of their CTA
  std::vector<Range> sms;      // where a warp runs is known on the GPU alone
  bool empty() const { return ctas.empty() && warps.empty() && sms.empty(); }
  static bool has(const std::vector<Range>& ranges, uint32_t n) {
    for (const Range& r : ranges)
      if (n >= r.first && n <= r.last) return true;
    return ranges.empty();
  }
  bool operator==(const Selection&) const = default;
};

struct SlotLayout {
  uint64_t headers = 0;        // device addresses; 0: plain slots, each with its SlotHead
  uint64_t table = 0;          // 0: stride mode, else SlotEntry[warps]
  uint64_t counters = 0;       // 0: no count probe
  uint32_t counter_copies = 1; // `count`: warp w adds to copy w % counter_copies, a power of two; BlockCount[blocks] each, copy_bytes apart
  uint32_t copy_bytes = 0;
  uint64_t slots = 0;          // stride mode: slot of warp w at slots + w * slot_bytes
  uint32_t slot_bytes = 0;     // stride mode: size of a slot; a power of two where slots wrap
  uint32_t lead_bytes = 0;     // where the first record stands: behind the SlotHead; in wrapping slots at least the
                               // largest record
  bool wraps = false;          // see record.h
  uint32_t index_bits = 0;     // short and packed records: bits of the block number in their first word; 0: word0
  bool short_records = false;  // `block`: see record.h
  bool headless = false;       // plain slots without a SlotHead: nobody asks where and when the warp started
  bool short_pairs = false;    // pair records of two words (filled by the splicer)
  bool entry_in_head = false;  // short block records: block 0 has none (filled by the splicer)
  bool whole_sectors = false;  // `inst` and `mem` in plain slots: see record.h
  uint32_t ends_at = 0;        // short block records: byte in the slot of a column of words, of lanes that end on a way that they number; the next
                               // record stands behind it; 0: there is none (filled by the splicer)
  uint32_t warps = 0, warps_per_cta = 0;
  uint32_t last_lanes = 32;          // threads of the last warp of each CTA (filled by the splicer)
  uint32_t one_in = 1, seed = 0;     // cta sampling
  uint32_t cta_part = 0;             // of one_in classes the one that is traced
  bool all_parts = false;            // of several replays, one for each class: no CTA is left out
  Selection select{};                // and what is left of that
  HighWords memory_highs{};          // `mem`: of global addresses, where Access::high_is_known
  // On some SM, where Selection::sms names some: then a warp that left nothing was on another.
  bool is_sampled(uint32_t warp) const {
    const uint32_t per_cta = warps_per_cta == 0 ? 1 : warps_per_cta, cta = warp / per_cta;
    return (all_parts || cta_is_sampled(cta, one_in, seed, cta_part)) && Selection::has(select.ctas, cta) && Selection::has(select.warps, warp % per_cta);
  }
  // Lanes that the warp was launched with.
  uint32_t lanes_of(uint32_t warp) const {
    return last_lanes == 32 || (warp + 1) % warps_per_cta != 0 ? ~0u : (1u << last_lanes) - 1;
  }
  bool by_sm() const { return !select.sms.empty(); }
};

struct AddressMap {
  std::vector<Block> blocks;
  std::vector<Site> sites;
  std::vector<Access> accesses;      // `mem`: in order of blocks, and in order of execution inside one
  std::vector<std::vector<uint32_t>> lane_numbers;   // `mem`: by lane, or by thread of the CTA
  std::vector<Point> points;         // point probes: in order of code
  uint32_t sites_one_in = 1;         // point probes: sparse replays that the events come from; together they cover every site.
                                     // `block`, `inst`: so many there are, of which this is one
  SlotLayout layout;
  // Original offset of each word of the spliced section, or `inserted`. With CTA sampling the untouched copy comes
  // first and the instrumented code behind it: an original offset then stands twice.
  static constexpr uint32_t inserted = 0xffffffff;
  std::vector<uint32_t> original_of_new;
};

}  // namespace xtrace::wire
