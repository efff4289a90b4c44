// What may be borrowed where. Three analyses over the original code, all conservative (a predicated definition never
// kills; unknown instructions were refused by read_code):
//
//   liveness       registers and predicates whose value may still be read
//   late reads     vector registers that an earlier memory, XU or branch-unit instruction may not have read yet: dead,
//                  but not writable (sass.md 5.3). Strict form: only a wait on the reader's own scoreboard ends it;
//                  a reader without a scoreboard poisons its sources for the whole kernel
//   dead results   registers written by an instruction whose result nobody reads: the write may still be in flight
#pragma once

#include <array>
#include <vector>

#include "instrument/code.h"

namespace xtrace::instrument {

struct LiveSet {
  sass::RegSet gpr, ur;
  sass::PredSet pred = 0, upred = 0;
  bool operator==(const LiveSet&) const = default;
};

class Liveness {
 public:
  explicit Liveness(const Code& code);

  // Live immediately before instruction i.
  const LiveSet& before(InstIndex i) const { return live_in_[i]; }
  // Vector registers that a probe placed immediately before i may write: dead, no pending late read, no result in
  // flight. Only registers below `limit`.
  sass::RegSet writable_before(InstIndex i, uint32_t limit) const;
  // Predicates (bit mask) that a probe placed immediately before i may write.
  sass::PredSet writable_predicates_before(InstIndex i) const;
  // Uniform registers that no reachable instruction mentions.
  sass::RegSet untouched_uniform() const;
  // Scoreboards that an original instruction may have outstanding immediately before i (bit mask).
  uint8_t outstanding_before(InstIndex i) const { return outstanding_[i]; }

 private:
  using Pending = std::array<sass::RegSet, 6>;   // by scoreboard
  void find_live(const Code& code);
  void find_pending(const Code& code);

  std::vector<LiveSet> live_in_;
  std::vector<sass::RegSet> pending_reads_;   // before each instruction, union over scoreboards
  std::vector<uint8_t> outstanding_;
  sass::RegSet poisoned_, mentioned_ur_;
  sass::PredSet poisoned_pred_ = 0;
};

}  // namespace xtrace::instrument
