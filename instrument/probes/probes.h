// One file per probe in this folder: what it inserts where. instrument/probes.def is the table of them.
#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "instrument/blocks.h"
#include "instrument/instrument.h"
#include "instrument/lane_bases.h"
#include "instrument/prologue.h"
#include "instrument/relocate.h"
#include "instrument/scratch.h"
#include "instrument/sequence.h"
#include "instrument/way_numbers.h"

namespace xtrace::instrument {

// What of a kernel is looked at.
struct Scope {
  const LaunchShape& shape;
  const Places& places;
  const LaneBases& lanes;
  const Asked& asked;
  // By instruction: its block was seen with a lane missing in no counting replay (`mem`; empty: nothing is known).
  const std::vector<bool>& whole;
  // `mem`: records are whole lines, because some have columns; else whole chunks.
  bool lines = true;
  // Sparse sites: of every so many instructions one is looked at (inst, mem and point probes), of so many blocks one (block).
  Sites sites{};
  bool low_words_tell = false;   // `mem`: the high word of a global address
  bool sectors = false;          // `mem`: records, and their columns, begin at whole sectors
  bool is_sparse() const { return sites.one_in > 1; }
  bool samples(InstIndex i) const { return i % sites.one_in == sites.part; }
  bool covers(InstIndex i) const { return places.empty() || places[i]; }
  bool has(InstIndex i) const { return covers(i) && samples(i); }
  bool samples(const ProbeBlock& block) const { return block.number % sites.one_in == sites.part; }
  // Sparse sites: it holds one of this part; else any block.
  bool holds_site(const ProbeBlock& block) const;
};

// What a probe's inserter works with. It adds sequences to `out` and takes registers from `scratch`, nothing else.
struct ProbeContext {
  const Code& code;
  const Blocks& blocks;
  const Liveness& liveness;
  const Scope& scope;
  const Plan& plan;
  const wire::SlotLayout& layout;
  Scratch& scratch;
  Insertions& out;
  std::optional<HeldHead>& held_head;   // for the prologue
  std::optional<sass::enc::Gpr>& lane_offset;   // for the prologue: a register that it sets to 4 * lane
  std::optional<LaneMasks>& lane_masks;         // likewise
  const std::optional<sass::enc::Gpr>& sector_word;   // set where records fill sectors: 4 * (lane / 4)
  std::optional<LaneWords>& lane_words;         // for the prologue, where something of it is used
  std::vector<sass::enc::Ureg>& counters;       // for the prologue: uniform registers that it sets to 0
  bool& chains_by_groups;               // some chain's words lie in lane groups
  std::vector<uint32_t>& not_taken;     // for the verifier (SpliceClaims)
  std::optional<sass::enc::Gpr>& rounds;        // likewise: in which lanes count the rounds of loops without records
  std::optional<sass::enc::Gpr>& ways;          // likewise: in which they number their ways through regions without records
  wire::AddressMap& map;  // sites; of blocks record_bytes, clocks, chain, implied, gathered, loop, rounds_at, numbered and what belongs to it, full, clock_at; of
                          // the layout entry_in_head, ends_at and short_pairs
  // Block b leads to b + 1 alone (but may end the warp), which is entered from b alone, stands behind it, and was executed as
  // often; both are full and not implied.
  bool always_follows(uint32_t b) const;
  // Block b goes on to b + 1 alone (but may end the warp), which is entered from b alone and stands behind it; all lanes are in both.
  bool runs_into(uint32_t b) const;
  // Block b falls through to b + 1, which is entered from b alone; all lanes are in both.
  bool leads_alone(uint32_t b) const;
  // ... and was executed as often: whoever was in b went there, whatever else b may lead to.
  bool followed(uint32_t b) const;
  // What b and the blocks behind it have in common in one record: b, and the first recorded blocks that followed it, `most` at most.
  std::vector<uint32_t> links_from(uint32_t b, uint32_t most) const;
  // `links` have one record, of so many bytes, which is written in the last of them.
  void claim_chain(const std::vector<uint32_t>& links, uint32_t bytes);
  // A predicate for the one lane that stores for all, free at every point in [from, to]; nothing where there is no ELECT.
  std::optional<sass::enc::Pred> leader(InstIndex from, InstIndex to) const;
  // Plain slots, and no lane of the block was missing in any counted execution.
  bool full(uint32_t block) const {
    return !layout.wraps && block < plan.full_blocks.size() && plan.full_blocks[block] && !unrecorded(block);
  }
  // Sparse sites: other parts record it.
  bool other_part(uint32_t block) const {
    const ProbeBlock& b = blocks.blocks[block];
    return (plan.probe == ProbeKind::block && !scope.samples(b)) || (plan.probe == ProbeKind::inst && !scope.holds_site(b));
  }
  // `inst`: records of this block fill sectors, as no lane is missing from their stores.
  bool fills_sectors(uint32_t block) const { return sector_word && full(block); }
  // Bytes that records are a multiple of, at least.
  uint32_t alignment(uint32_t usual) const { return sector_word ? wire::sector_bytes : usual; }
  bool unrecorded(uint32_t block) const { return (block < plan.unrecorded.size() && plan.unrecorded[block]) || other_part(block); }
};

struct ProbeBody {
  ProbeKind kind;
  Status (*insert)(ProbeContext&);
  uint32_t (*record_bytes)(const Code& code, const ProbeBlock& block, const Scope& scope);   // of one execution
};
std::span<const ProbeBody> probe_bodies();

struct PointContext;
struct PointPlan;
struct PointProbe {
  ProbeKind kind;
  Result<std::vector<PointPlan>> (*points)(const PointContext&);
};
std::span<const PointProbe> point_probes();

// Of each probe: puts its code into c.out, and gives the bytes that one execution of a block writes, at most.
#define XTRACE_PROBE(name, in_all, records, cost, needs) \
  Status insert_##name(ProbeContext& c);                 \
  uint32_t name##_record_bytes(const Code& code, const ProbeBlock& block, const Scope& scope);
#define XTRACE_POINT_PROBE(name, in_all, records, cost, needs) Result<std::vector<PointPlan>> name##_points(const PointContext& c);
#include "instrument/probes.def"
#undef XTRACE_PROBE

// The record of one block under `inst` in plain slots (plain_inst.cc); fills the block's clock_at. `previous`: the holder used
// last. Nothing was inserted when it gives false: too few registers are free.
bool insert_plain_inst(ProbeContext& c, uint32_t block, std::optional<Holder>& previous);
// Of each block whether no counted execution missed a lane (block.cc).
std::vector<bool> full_blocks(const ProbeContext& c);
// Of blocks that may not be implied (implied.h): those around blocks without records (block.cc).
void keep_beside_unrecorded(const ProbeContext& c, std::vector<bool>& recorded);
// Words of short records under `block`. Where lanes are seldom missing, full blocks write one word and the others two, by two
// stores; else all take two, so that they stay aligned for one store of 64 bits.
struct ShortForm {
  bool aligned = false;    // records are multiples of 8 bytes
  bool by_lanes = false;   // else: two words of blocks that no lane is missing in are stored by lanes (LaneWords)
  bool two_words() const { return aligned || by_lanes; }   // by one store
  uint32_t bytes(const wire::Block& block) const {
    const uint32_t bytes = (block.full ? 4 : 8) + block.rounds_bytes();
    return aligned ? (bytes + 7) / 8 * 8 : bytes;
  }
};
// The short record of one block (short_block.cc).
Status insert_short_block(ProbeContext& c, uint32_t block, ShortForm form, std::optional<Holder>& previous);
// The record of block 1, which always follows the entry, stored together with the SlotHead, and with the clock of the block that followed
// where there is one. Gives the last block that it passes over; 0: nothing was inserted.
uint32_t insert_with_head(ProbeContext& c, ShortForm form, std::optional<Holder>& previous);
// One record for `block` and up to three that followed it (chain.cc), or for the two by a store of two words (pair_chain.cc), which needs
// no lane groups. Gives how many blocks it passes over; 0: nothing was inserted.
uint32_t insert_chain(ProbeContext& c, uint32_t block, std::optional<Holder>& previous);
uint32_t insert_pair_chain(ProbeContext& c, uint32_t block, ShortForm form, std::optional<Holder>& previous);
// Blocks whose record could say who falls through to the next, which then has none (fork.cc), where that pays. Nothing was inserted when
// insert_fork gives false.
std::vector<bool> fork_blocks(const ProbeContext& c);
bool insert_fork(ProbeContext& c, uint32_t block, ShortForm form, std::optional<Holder>& previous);
// Where lanes number their ways: the numbers, and the stores of those that end, in all numbered blocks (ways.cc). What `regions` are goes to the map,
// before anything is inserted.
void describe_ways(ProbeContext& c, const std::vector<WayRegion>& regions);
void insert_ways(ProbeContext& c);

// What one execution of a block writes under `mem` (mem.cc).
struct MemRecord {
  struct Column {             // one register of every lane
    uint8_t reg = 0;
    InstIndex access = 0;     // the first that needs it
    InstIndex at = 0;         // stored in front of this
    uint32_t place = 0;       // byte in the record
    bool spread = false;      // what lanes have more than the first lane, by those that have another value; else nothing is stored
  };
  struct Scalar {             // lanes whose guard holds, a uniform register, or whether a uniform guard holds: 1, else 0
    bool is_mask = false;
    uint8_t index = 0;        // of the predicate, of the uniform register
    bool negated = false;
    InstIndex at = 0;
    uint32_t place = 0;
    bool is_guard = false;    // of the uniform predicate `index`
    bool is_operand = false;  // first of an access that is made once for the warp: such words of one place stand side by side
    bool with_base = false;   // a mask: stored together with a base, in the word before it; where no lane is in it, neither is
  };
  struct Base {               // a register that is a base and a number for each lane: the base, for all lanes
    static constexpr uint32_t alone = 0xffffffff;
    uint8_t reg = 0;
    LaneBase lanes;
    InstIndex at = 0;
    uint32_t place = 0;
    uint32_t mask = alone;    // number of the scalar that it is stored with
    uint32_t spread = alone;  // number of the column with what lanes have more: nothing is proven, but it is mostly one for all
  };
  bool full = false;          // of a full block: words lie where the writer puts them
  std::vector<Column> columns;
  std::vector<Base> bases;
  std::vector<Scalar> scalars;
  std::vector<wire::Access> accesses;   // without block numbers
  uint32_t bytes = 0;         // 0: no access, no record
  struct Busy {               // registers that words of a full record are put together in, from what stands in front of `from` to
    InstIndex from, to;       // what stands in front of `to`
    sass::RegSet registers;
  };
  std::vector<Busy> busy;
  // Registers that are stored later than their access: they hold what is to be stored even where the kernel is done with them.
  sass::RegSet held() const {
    sass::RegSet set;
    for (const Column& c : columns)
      if (c.at != c.access) set.set(c.reg);
    return set;
  }
};
// What a spilled register may not be one of: what goes into the record in front of `at`. Empty where none is spilled.
sass::RegSet recorded_registers(const ProbeContext& c, const MemRecord& record, InstIndex at);
// In front of `at`, around the use of a holder; nothing where it is not spilled. The stack's top is in the header's register, which plain slots do not need.
void put_aside(ProbeContext& c, InstIndex at, const Holder& h);
void put_back(ProbeContext& c, InstIndex at, const Holder& h);
MemRecord mem_record(const Code& code, const ProbeBlock& block, const Scope& scope);
// Uniform registers that plain slots do not need, for what goes through one on its way into a record.
std::vector<sass::enc::Ureg> uniform_on_the_way(const ProbeContext& c);
// From R2UR to an instruction in the vector file that reads its result [vendor code; 15 to memory]. What it gives is the value of the
// first lane that executes it, under a guard too [measured H200: 208 masks].
constexpr unsigned r2ur_to_vector = 13;
// Inserts the words of a full record, and says where each of them lies (mem_words.cc).
Status insert_mem_words(ProbeContext& c, uint32_t block, MemRecord& record, std::optional<Holder>& previous);

// --- shared pieces. Waits for registers that a store has yet to read are added afterwards (waits.h).

// Every head takes at least this long from its first instruction to its first store.
constexpr unsigned least_head_cycles = latency::vector_to_memory;

// First word of a record of a block: word0, or where the layout says so the block number alone.
uint32_t record_head(const ProbeContext& c, wire::RecordKind kind, uint32_t block);

// Moves the cursor by `bytes`: the part that may stand early (bump_cursor), and the part that changes where the next
// record goes (bump_address), after the last store that uses the old value. `until_next_store`: cycles from behind
// bump_address to the next store, at least; what they lack, bump_address waits.
void bump_cursor(ProbeContext& c, Sequence& seq, uint32_t bytes);
void bump_address(ProbeContext& c, Sequence& seq, uint32_t bytes, unsigned until_next_store);

// Stores the first `words` (1, 2 or 4) of h at the record address + offset, by the lane under `guard` or by all active
// lanes, which then store the same words to the same place.
void store_words(ProbeContext& c, Sequence& seq, const Holder& h, unsigned words, uint32_t offset,
                 std::optional<sass::enc::Pred> guard = std::nullopt);
// The register with the place of each lane's word in a store of two words by lanes, LaneWords: `spare` where none is held for it, which is
// written then. The store follows no earlier than a vector result takes to an address.
sass::enc::Gpr word_place(ProbeContext& c, Sequence& seq, sass::enc::Gpr spare);
// Stores one register at the record address + offset + place.
void store_by_lanes(ProbeContext& c, Sequence& seq, sass::enc::Gpr data, sass::enc::Gpr place, int32_t offset, uint8_t scoreboard);
// Stores one register to all eight words of the sector at the record address + offset; where its lane groups hold words of their own, each
// to two of them, or of two groups to four.
void store_sector(ProbeContext& c, Sequence& seq, const Holder& h, uint32_t offset);
// How the words of one store lie in its registers and in the record: word k in register k % registers of lane group k / registers (mem), or
// by groups first (inst).
struct StoreShape {
  unsigned registers = 1;          // 1, 2 or 4
  unsigned groups = 1;             // words in each: 1, or by lane groups 2 or 4
  bool whole = false;              // it fills its sectors
  uint32_t words_bytes() const { return 4 * registers * groups; }
  uint32_t bytes() const { return whole ? std::max(wire::sector_bytes, words_bytes()) : words_bytes(); }
  // From the words of a lane group to those of the next. Sixteen words fill two sectors by lane / 8 alone.
  uint32_t group_step() const { return whole ? std::max(wire::sector_bytes / LaneGroups::groups, 4 * registers) : 4 * registers; }
  bool offset_by_groups() const { return groups > 1 && (!whole || registers == 4); }
  bool offset_by_mask() const { return whole && registers > 1 && !offset_by_groups(); }
};
// For the stores of 2 or 4 registers: what of ProbeContext::sector_word says where in the sector a lane's words go.
constexpr uint32_t sector_place_mask(unsigned registers) { return wire::sector_bytes - 4 * registers; }
// place := sector_word & that mask. The store follows no earlier than a vector result takes to an address.
sass::RawInst sector_place(const ProbeContext& c, sass::enc::Gpr place, unsigned registers);

// What a store of 1, 2 or 4 registers takes: their shape, its width, and the logarithm.
constexpr Holder::Shape shape_of(unsigned registers) {
  return registers == 4 ? Holder::Shape::quad : registers == 2 ? Holder::Shape::pair : Holder::Shape::single;
}
constexpr sass::enc::Size size_of(unsigned registers) {
  return registers == 4 ? sass::enc::Size::b128 : registers == 2 ? sass::enc::Size::b64 : sass::enc::Size::b32;
}
constexpr unsigned log2_of(unsigned registers) { return registers == 4 ? 2 : registers == 2 ? 1 : 0; }

// Records are written once and read by the host: their stores say that these lines may go first.
sass::RawInst with_record_policy(sass::RawInst store);

// The first place at or behind `from`, where something issued in one cycle, with `cycles` between them by the stall counts of
// the code; at `limit` what lacks is waited for.
InstIndex settled(ProbeContext& c, InstIndex from, unsigned cycles, InstIndex limit);
// Lanes may leave or rejoin behind it, so that one record can not hold a clock on either side (pair.cc).
bool parts_lanes(const sass::Effects& fx);
// Sum of the stall counts of instructions [from, to).
unsigned stall_cycles(const Code& code, InstIndex from, InstIndex to);

// In front of every EXIT of a kernel whose slots wrap, and of every kernel under `count`: this warp's WarpHeader gets
// the bytes written so far and the clock (`count`: the three sums of bytes).
Status insert_exit_headers(ProbeContext& c);

}  // namespace xtrace::instrument
