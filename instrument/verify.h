// The splice verifier: takes the original cubin, the spliced one, and the splicer's claim of which word came from where, and
// checks that the second does what the first did. It decodes both again, shares no state with the splicer, and runs on
// every splice. Rules, by name:
//
//   original-order      every original instruction is there, once per copy, in order
//   original-bits       and unchanged but for: reuse bits, added waits, branch immediates, return addresses in MOVs,
//                       offsets of jump-table loads
//   branch-target       every relative target is the label of the original target
//   entry-repeated      traced warps that branch off, once, out of the other copy have executed nothing of it that can not be
//                       executed twice, and begin the kernel anew when all of that is done
//   return-address      every return address is where the call's continuation went
//   jump-table          every entry of every copied table is the label of the original entry
//   pointer-followed    calls through function pointers have one base in each copy; as far from it as a function was from the beginning of the
//                       section lies its label, of all of them, or behind all copies a branch to it, and traps where no function was
//   register-clobber    inserted code writes no register that is live, may still be read by an earlier instruction, or
//                       awaits a result; no uniform register and no predicate that the original uses
//   register-limit      no register at or above the register count less the two reserved ones; the count stays where the
//                       kernel changes its register limit while it runs
//   scoreboard-count    inserted code signals no scoreboard that DEPBAR counts in groups
//   store-overwritten   no register of an inserted store is written before its scoreboard was waited for, and no wait stands one cycle
//                       behind the inserted instruction that takes the scoreboard
//   record-clobbered    no original instruction writes a register between a probe's value and the store of it
//   address-recorded    `mem`: every register of every covered address, and its guard as a mask of lanes, is stored in front
//                       of its access, in the same block, by all active lanes, to the place that is claimed; nothing in
//                       between writes it, and no other store goes to that place; or, of a register that is a base and a
//                       number for each thread, the base is, by the lanes of the access, and decoders add these numbers. In records of full blocks: what decoders
//                       take from each place is what was stored there, and nothing else went to it
//   record-length       `mem`: a block's record is as long as is claimed, in whole sectors where records are: the cursor moves by that, once, behind
//                       the last store, and no store goes beyond; blocks without a record store nothing and leave the cursor alone
//   value-recorded      point probes: every word of every record is what the map says it is, is stored once, at its place, by all
//                       active lanes, at that point; the cursor moves by the record's size; of every nth execution, where that was
//                       asked for, by a counter of its own. What a record leaves out a point in front of it in the same block has, and no
//                       word between the two defines it; a point without a record leaves out all it has, and stores nothing
//   spilled-register  a register of the kernel that inserted code writes while the kernel needs it was stored in local memory before, below all
//                     that the kernel's stack may take, and is loaded back and has arrived in front of the same instruction
//   lent-predicate      a predicate of the kernel that inserted code writes while the kernel needs it was put aside in a register before, by
//                       all active lanes, and is back in front of the same instruction
//   rounds-counted      `block`: where the rounds of a loop of one block are counted instead of recorded, each lane's counter is 0 when it
//                       comes to the loop, or another way to the block that lanes leave it for; it grows by one a round and nowhere
//                       else; and that block's record holds it, of each lane or of any where they leave together, at the place that is claimed
//   ways-numbered       `block`: where lanes number their ways through a region instead of leaving records, it is entered from one block alone, leads to
//                       one alone, which is entered from nowhere else, and not back; what inserted words do to the number makes it another one for
//                       each way to that block, whose record has it, and for each way to a lane's end; lanes that end store it, and no others, to
//                       their place in front of where the records began; and nothing else writes the number or those places
//   sector-filled       records in whole sectors: the register that says which word of a sector a lane stores is made once, by the
//                       prologue, and nothing else writes it; every store of a full block's record takes its places from it; under `mem` all
//                       words of the sectors that it writes to are among those that the lanes store
//   fork-recorded       `block`: where a block's record says which lanes fall through to the next block, it has a vote, in front of the branch,
//                       of those that the branch's predicate leaves there, stored once as its second word; nobody comes to the next block
//                       another way, and that one has no record
//   stored-by-lanes     `block`: the predicate that says which of two words a lane stores is made once, by the prologue, of the lane's number, and
//                       nothing else writes it; what is stored has been made in the lanes of each word, and goes to the place of that word
//   result-too-early    inserted code reads no result before its latency or scoreboard allows it, nor does the kernel a predicate that inserted
//                       code gives back; a wait one cycle behind what takes the
//                       scoreboard does not see it
//   control-word        legal stall, yield and reuse combinations; no reuse in front of an insertion
//   metadata            EXIT offsets list every EXIT; register count, symbol and section sizes agree
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "instrument/lane_bases.h"
#include "trace/wire/address_map.h"

namespace xtrace::instrument {

struct Violation {
  std::string_view rule;
  uint32_t new_pc = 0;
  std::string text;        // what was expected, what was found
};

// `mem`: what a part of a block's record holds.
struct AddressClaim {
  enum class Kind : uint8_t { column, uniform, mask, guard, base } kind = Kind::column;   // guard: whether a uniform one holds
  uint32_t pc = 0;         // of the first access that needs it
  uint8_t index = 0;       // of the register, of the uniform register, of the predicate, uniform or not, and its negation (as in bits [15:12])
  uint32_t place = 0;      // byte in the record
  LaneBase lanes{};        // base: what the register is proven to be
};

// What the splicer says it did.
struct SpliceClaims {
  std::vector<uint32_t> original_of_new;         // as in wire::AddressMap, all copies
  uint32_t prologue_first = 0;                   // word; not 0: behind the copy for warps that are not traced
  uint32_t prologue_words = 0;                   // from there to the first label of the copy for those that are
  std::map<uint32_t, uint32_t> words_behind;     // original offset -> inserted words behind it that jumps do not reach
  bool records_addresses = false;                // `mem`
  LaunchFacts launch{};                          // without `whole` and `block_of`
  std::vector<bool> full_blocks{};               // by block: a counting replay has shown that no lane is ever missing
  std::optional<uint8_t> lane_offset{};          // register that the prologue sets to 4 * lane
  // Registers and predicates that it sets by lane / 8 (LaneMasks, LaneGroups): bit 0, bit 1, both; empty: none.
  std::vector<uint8_t> lane_masks{}, lane_groups{};
  std::vector<bool> full_records{};              // by block: its record is that of a full block
  std::vector<wire::Access> accesses{};          // what decoders make of records
  std::vector<std::vector<uint32_t>> lane_numbers{};   // of which these speak
  bool memory_high_is_known = false;             // high words of global addresses are not recorded
  uint32_t spill_frame = 0;                      // bytes of the frame, at whose lower end registers of the kernel stand aside; 0: none does
  std::vector<bool> places{};                    // by instruction, those whose accesses are recorded; empty: all
  std::vector<AddressClaim> addresses{};
  std::vector<uint32_t> record_bytes{};          // `mem`, by block: of its record; 0: it has none
  std::vector<wire::Point> points{};             // point probes: what is recorded where
  uint32_t nth = 1;                              // and how often: every so many executions
  std::vector<uint32_t> not_taken{};             // conditional branches that no counted execution took: what a chain of blocks has put
                                                 // together so far is lost where one is
  std::optional<uint8_t> rounds{};               // register in which lanes count the rounds of loops
  std::vector<bool> loops{};                     // by block: of these, each of one block
  std::vector<uint32_t> rounds_at{};             // by block: byte in its record where the counts are; 0: it has none
  std::vector<bool> rounds_alike{};              // by block: one word for all lanes
  std::optional<uint8_t> ways{};                 // register in which lanes number their ways through regions without records
  std::vector<bool> numbered{};                  // by block: of such a region
  struct WayNumber {
    uint32_t number = 0, adds = 0;               // as in wire::Block
  };
  std::vector<WayNumber> way_numbers{};          // by block
  std::vector<uint32_t> ways_at{};               // by block: byte in its record where the numbers are; 0: it has none
  std::optional<uint8_t> ends{};                 // uniform register, of a pair: the end of the column for lanes that end on their way
  std::optional<uint8_t> sector_word{};          // register that the prologue sets to 4 * (lane / 4)
  std::vector<bool> sector_full{};               // by block: with that, stores there fill sectors
  std::vector<uint32_t> forks{};                 // blocks whose record says who falls through to the next one
  std::optional<uint8_t> odd_lanes{};            // predicate that the prologue sets to bit 2 of the lane's number
  std::optional<uint8_t> word_place{};           // register that it sets to 4 * that
};

// An Error only when a cubin can not be read at all.
Result<std::vector<Violation>> verify_splice(ByteView original, ByteView spliced, std::string_view kernel,
                                             const SpliceClaims& claims);

}  // namespace xtrace::instrument
