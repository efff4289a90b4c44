// What both halves of the verifier look at: the original code, the new words, and where each original went.
#pragma once

#include "instrument/blocks.h"
#include "instrument/liveness.h"
#include "instrument/sass/access.h"
#include "instrument/verify.h"

namespace xtrace::instrument {

struct Copy {                       // one copy of the original code in the new section
  std::vector<uint32_t> at;         // by old instruction: index of its word
  std::vector<uint32_t> label;      // by old instruction: index of the word where jumps to it arrive
};

struct SpliceView {
  Code old;
  std::vector<sass::RawInst> words;
  std::vector<sass::Effects> effects;             // of words, with targets as byte offsets in the new section
  std::vector<uint32_t> origin;                   // by word: old instruction, or `inserted`
  std::vector<uint32_t> copy_of;                  // by word: number of its copy (originals only)
  std::vector<uint32_t> next_original;            // by word: old instruction that follows an inserted word, or `inserted`
  std::vector<Copy> copies;                       // [0] of traced warps; [1], if there is one, in front of it
  std::vector<bool> address_store;                // by word: stores a register of the kernel, as claimed and checked
  std::vector<bool> access_guard;                 // by word: has the guard of the access that it is for, as claimed and checked
  std::vector<bool> spill_save, spilled_write;    // by word: stores a register of the kernel aside; writes one that is stored aside, as checked
  std::vector<uint8_t> aside;                     // by word: the register that is stored aside there, and holds whatever; none: none is
  static constexpr uint8_t none_aside = 255;
  std::vector<sass::PredSet> lent, returned;      // by word: predicate of the kernel that it may write, as its value stands aside; that it writes back
  uint32_t prologue_first = 0, prologue_words = 0;   // as in SpliceClaims
  std::vector<bool> not_taken;                    // by old instruction: as claimed
  std::optional<uint8_t> rounds;                  // register that counts rounds, as claimed: who sets it to 0 need not have read it
  std::optional<uint8_t> ways;                    // that numbers ways: who sets it need not have read it either
  uint32_t old_registers = 0, new_registers = 0;
  static constexpr uint32_t inserted = 0xffffffff;

  bool is_inserted(uint32_t word) const { return origin[word] == inserted; }
  uint32_t pc(uint32_t word) const { return word * sass::inst_bytes; }
  bool samples() const { return copies.size() > 1; }
  // No original instruction has run yet, or none whose results anybody needs.
  bool in_prologue(uint32_t word) const {
    return (word >= prologue_first && word < prologue_first + prologue_words) || (samples() && word < copies[1].at[0]);
  }
};

using Violations = std::vector<Violation>;

// verify_addresses.cc: address-recorded. Fills address_store and access_guard.
void check_addresses(SpliceView& v, const SpliceClaims& claims, Violations& out);
// A uniform register that decoders do not ask for: what it holds belongs to their offset.
std::optional<uint32_t> number_in_offset(const LaneBases& lanes, InstIndex i, const sass::Access& a, const wire::Access& w);
// Whether decoders take each operand of an access that is made once for the warp for what it is.
bool same_operands(const sass::Access& a, const wire::Access& w);
// Whether decoders add these numbers.
bool are_numbers(const SpliceClaims& claims, const LaneBases& lanes, const LaneBase& base, const wire::Access& w);
// verify_words.cc: the same of the records of full blocks.
void check_words(SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, const LaneBases& lanes, Violations& out);
// verify_lengths.cc: record-length.
void check_lengths(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out);
// verify_points.cc: value-recorded. Adds to address_store.
void check_points(SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out);
// verify_pointers.cc: pointer-followed.
void check_pointers(const SpliceView& v, Violations& out);
// verify_rounds.cc: rounds-counted.
void check_rounds(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out);
// verify_ways.cc: ways-numbered.
void check_ways(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out);
// The blocks that a kernel begins with, one behind the other, up to the first that `uses` something that the prologue has set: its rest may stand there.
std::vector<bool> beginning_blocks(const Blocks& blocks, const std::vector<bool>& uses);
// verify_sectors.cc: sector-filled.
void check_sectors(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out);
// verify_forks.cc: fork-recorded.
void check_forks(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out);
// verify_lane_words.cc: stored-by-lanes.
void check_lane_words(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out);
// verify_spills.cc: spilled-register. Fills spill_save and spilled_write.
void check_spills(SpliceView& v, const SpliceClaims& claims, const cubin::KernelInfo& old_info, const cubin::KernelInfo& new_info, Violations& out);
// verify_lent.cc: lent-predicate. Fills lent and returned.
void check_lent(SpliceView& v, Violations& out);
// verify_hazards.cc: store-overwritten, record-clobbered, result-too-early.
void check_hazards(const SpliceView& v, Violations& out);

}  // namespace xtrace::instrument
