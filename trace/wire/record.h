// Layout of what probes write on the GPU and the decoder reads: the only thing that instrument/ and trace/ share.
// Plain structs, little endian, no dependency. Bump `version` with any change.
//
// Trace buffer in device memory (addresses chosen by the replay before the code is spliced, so they are literals in it):
//
//   warp headers   WarpHeader[warps]                       warp = cta_linear * warps_per_cta + thread_linear / 32;
//                                                          wrapping slots and the `count` probe only
//   slot table     SlotEntry[warps]                        table mode only
//   counters       BlockCount[blocks]                      `count` probe only
//   slots          16-byte chunks; every slot has a power-of-two size and is aligned to it
//
// Plain slots (layout.wraps = false) are for launches whose counting replays agree: a slot begins with a SlotHead, the
// records follow from lead_bytes on, and the first record whose first word is zero ends them. The buffer is zeroed before
// the launch, every slot has room for what was counted and the zero word, and unmapped memory lies behind the buffer. Under
// SlotLayout::headless there is no SlotHead, and lead_bytes is 0.
//
// Wrapping slots are for launches that take another path each time: a warp keeps a cursor c that starts at lead_bytes and
// grows by the size of each record; a record begins at slot + (c & (slot size - 1)) and may run past the end of the slot
// by less than lead_bytes, into the first lead_bytes of the next slot: those bytes of a slot hold records only after the
// cursor wrapped. So a warp that writes more than was counted overwrites its own oldest records, and WarpHeader::bytes
// still says how much it produced.
//
// A record is one or more 16-byte chunks. What a store costs is the registers that all 32 lanes hand over, not the bytes
// that arrive (docs/performance.md): so plain slots know two shorter forms as well, below.
//
//   block   { word0, mask, clock_lo, clock_hi }           clock read at the head of the block, or as near to it as
//                                                         registers are free
//   inst    { word0, mask, clock[0], clock[1] } { clock[2] ... clock[5] } ...   one 32-bit clock before each instruction
//   pair    { word0, mask, clock before, clock after }     clock before = no_begin: not begun since the last such record
//   edge    { word0, mask, clock_lo, clock_hi }            one half of a pair that spans a branch
//   mem     { word0, mask, scalars ... } { 32 words } ...  one execution of a block that accesses memory, plain slots only.
//                                                         In front scalars: what is one word for the warp (lanes whose guard
//                                                         held, uniform registers); then columns of mem_line bytes: a
//                                                         register of every lane, lane 0 first. A column serves every access
//                                                         of the block by that register until it changes. Where each is:
//                                                         wire::Access. Words of lanes that were not active, and scalars
//                                                         that stand for nothing, are unspecified
//
//                         A full block's record has no mask: behind word0 come scalars, in no order; words between them are
//                         unspecified
//
//   point   { word0, mask, values ... } { 32 words } ...   one execution of a point (wire::Point), and of all that join in its record
//                                                         (Point::joined): in front what is one word for the warp, then columns
//                                                         as in `mem`. Values of columns in lanes that were not active, and words
//                                                         between those that have a place, are unspecified. What a point in front of it in the same
//                                                         execution of the block has recorded, and nothing has changed since, is
//                                                         left out (Value::same), and so is a record of nothing else
//                                                         (Point::implied)
//
//   word0 = kind << 28 | index      index: number of the block, of the site, of the point
//
// Words of the last chunk of an `inst` record that hold no clock are unspecified.
//
// Short forms, in plain slots. Block::full says that in every counted execution of the block all 32 lanes were active (under `block`
// and `inst`: all that the warp was launched with, SlotLayout::lanes_of), so that its records need no mask.
//
//   short block record   (SlotLayout::short_records, n = index_bits)  { clock << n | block + 1 }, and the mask as a second
//                        word unless the block is full. Where lanes are often missing, full blocks leave a second word
//                        empty as well (Block::record_bytes). The 32 - n bits of
//                        clock are extended from record to record: the launch must be shorter than they can count.
//                        Blocks that followed each other in every counted execution (Block::chain) share a record of 8 or 16 bytes: the
//                        word of the first, then one whole clock for each of the others. It is written in the last of them: where
//                        lanes go elsewhere before, it is missing, and the counts say so
//                        Blocks that take a fixed time have no record (Block::implied) where the records before and after
//                        tell, lane by lane, that they were executed
//                        Nor have the rounds of a loop of one such block (Block::loop): each lane counts its own, and the record of
//                        the block that it leaves the loop for has them behind the mask, or where that would be (Block::rounds_at):
//                        a column of 32 words, or one where lanes always leave together
//                        Nor have blocks of a region that lanes leave one after another, all for one block, or end in (Block::numbered): each lane
//                        numbers the way that it takes, and the record of that block has the numbers in such a column. A lane that ends
//                        in the region leaves its number in the slot, in a column of its own (SlotLayout::ends_at)
//                        A block that forks (Block::forks) has the lanes that fall through to the next one as its second word; that one has no
//                        record, and its clock follows from this one
//                        Under SlotLayout::entry_in_head the entry block, which every warp executes once, has no record:
//                        its clock is that of the SlotHead
//   short pair record    (SlotLayout::short_pairs)  { clock before, clock after }, of one site in a full block. A record whose
//                        first clock reads zero ends the trace early: the counts then say that records are missing
//   packed inst record   (Block::clock_at not empty)  a head, the mask unless the block is full, and the clocks where
//                        clock_at says: the first whole or in the head, of most others the low half. They are extended
//                        from one to the next. The head is word0; under SlotLayout::index_bits = n > 0 it is block + 1 or
//                        clock << n | block + 1. Words that hold nothing are unspecified
//
// In whole sectors (SlotLayout::whole_sectors, `inst` and `mem` in plain slots): slots, and records, begin at multiples of 32 bytes, and one store fills
// the sectors that it writes to, by words that it writes several times: one word eight times, two that are stored together four times, four
// twice, and four of lane groups twice each, side by side. ClockPlace::byte says where the first of each clock is. The head of a slot is
// written four times. Records of blocks that are not full leave the rest of their sectors unwritten, as lanes may be missing. Under `mem`
// columns begin with a sector as well.
#pragma once

#include <cstdint>

namespace xtrace::wire {

constexpr uint32_t version = 9;
constexpr uint32_t chunk_bytes = 16;
constexpr uint32_t sector_bytes = 32;   // what memory is read and written by [vendor's manuals]
constexpr uint32_t column_bytes = 4 * 32;   // a word of each lane

enum class RecordKind : uint32_t { none = 0, block = 1, inst = 2, pair = 3, edge_begin = 4, edge_end = 5, mem = 6, point = 7 };

constexpr uint32_t index_mask = 0x0fffffff;
constexpr uint32_t word0(RecordKind kind, uint32_t index) {
  return static_cast<uint32_t>(kind) << 28 | (index & index_mask);
}
constexpr RecordKind kind_of(uint32_t word0) { return static_cast<RecordKind>(word0 >> 28); }
constexpr uint32_t index_of(uint32_t word0) { return word0 & index_mask; }

constexpr uint32_t no_begin = 1;   // in the place of a clock of 32 bits

struct Chunk {
  uint32_t word[4];
};
static_assert(sizeof(Chunk) == chunk_bytes);

// A column of a `mem` record, and what such records and their slots are aligned to: one line of the L1 cache, so that the
// store of a column touches one.
constexpr uint32_t mem_line = 128;

// Slot of one warp (table mode).
struct SlotEntry {
  uint64_t address;         // aligned to its size
  uint32_t mask;            // size - 1
  uint32_t unused;
};
static_assert(sizeof(SlotEntry) == 16);

// Bytes of an `inst` record with this many clocks: word0 and mask, the clocks, rounded up to whole chunks.
constexpr uint32_t inst_record_bytes(uint32_t clocks) {
  return (2 * 4 + 4 * clocks + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
}

// First words of a plain slot, written by the prologue. All zero: the warp never started.
//
// SR_VIRTID has the warp slot on the SM in bits [14:8] and what SR_VIRTUALSMID gives in [28:20] [measured H200]; one load of a
// slow special register instead of two. The bits of `place` that it does not need hold bits [23:8] of GLOBALTIMER, in units of
// 256 ns: [15:8] in [7:0], [19:16] as they are, [23:20] in [31:28].
struct SlotHead {
  uint32_t start_clock;     // low word of the SM clock
  uint32_t place;

  static constexpr uint32_t virtid_bits = 0x0ff0ff00;
  constexpr uint32_t sm() const { return place >> 20 & 0xff; }
  constexpr uint32_t hardware_slot() const { return place >> 8 & 0x7f; }
  constexpr uint32_t start_time() const { return (place & 0xff) | (place >> 8 & 0xf00) | (place >> 16 & 0xf000); }
};
static_assert(sizeof(SlotHead) == 8);
constexpr unsigned head_time_shift = 8;

// Written by the prologue (start_*, sm, hardware_slot) and at every EXIT (bytes, exit_clock_lo).
struct WarpHeader {
  uint32_t bytes;           // bytes of records this warp produced, kept or not; `not_exited` until its first EXIT.
                            // `count` probe: bytes that the `block` probe would produce
  uint32_t exit_clock_lo;   // low word of the SM clock at the last EXIT.
                            // `count` probe: bytes that the `inst` probe would produce
  uint32_t sm;              // SR_VIRTUALSMID.
                            // `count` probe: bytes that the `mem` probe would produce
  uint32_t hardware_slot;   // SR_VIRTID: warp slot on the SM in bits [14:8]
  uint64_t start_clock;     // SM clock in the prologue
  uint64_t start_time;      // GLOBALTIMER in the prologue, ns
};
static_assert(sizeof(WarpHeader) == 32);
constexpr uint32_t not_exited = 0xffffffff;

// `count` probe: one 64-bit counter a block, by one reduction of every execution by a warp.
struct BlockCount {
  uint64_t warps;    // executions by a warp
  uint64_t lanes;    // sum of active lanes
  bool operator==(const BlockCount&) const = default;
};
// Executions by a warp that a counter of 32 bits holds, lanes included.
constexpr uint64_t narrow_executions = 1ull << 27;
// Executions that a packed counter holds: they are its high half, and their lanes, at most 32 each, its low half.
constexpr uint64_t packed_executions = 1ull << 27;
constexpr BlockCount unpacked(uint64_t counter) { return {counter >> 32, counter & 0xffffffff}; }
// The same in 32 bits.
constexpr unsigned narrow_lane_bits = 18;
constexpr uint64_t narrow_packed_executions = 1ull << 13;
static_assert((narrow_packed_executions - 1) * 32 < 1ull << narrow_lane_bits && (narrow_packed_executions - 1) << narrow_lane_bits < 1ull << 32);
constexpr BlockCount unpacked_narrow(uint64_t counter) { return {counter >> narrow_lane_bits, counter & ((1u << narrow_lane_bits) - 1)}; }

// Is this CTA traced under cta:1/N sampling? The same expression stands in the spliced code
// (instrument/decision.cc).
constexpr uint32_t sample_multiplier = 0x9e3779b1u;
// cta:1/N cuts the values that the sum can have into N classes, as even as can be; a part takes one of them, and every CTA is in one.
constexpr uint32_t class_begin(uint32_t one_in, uint32_t part) { return static_cast<uint32_t>((uint64_t{part} << 32) / one_in); }   // 0 behind the last
constexpr uint32_t class_width(uint32_t one_in, uint32_t part) { return class_begin(one_in, part + 1) - class_begin(one_in, part); }
constexpr bool cta_is_sampled(uint32_t cta_linear, uint32_t one_in, uint32_t seed, uint32_t part = 0) {
  if (one_in <= 1) return true;
  const uint32_t h = cta_linear * sample_multiplier + seed;
  return h - class_begin(one_in, part) < class_width(one_in, part);
}
constexpr uint32_t part_of_cta(uint32_t cta_linear, uint32_t one_in, uint32_t seed) {
  if (one_in <= 1) return 0;
  const uint32_t h = cta_linear * sample_multiplier + seed;
  const auto part = static_cast<uint32_t>(uint64_t{h} * one_in >> 32);   // or, at a limit that is no whole number, the next
  return cta_is_sampled(cta_linear, one_in, seed, part) ? part : part + 1;
}

}  // namespace xtrace::wire
