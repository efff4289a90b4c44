// What may be borrowed where. Three analyses over the original code, all conservative (a predicated definition never
// kills; unknown instructions were refused by read_code):
//
//   liveness       registers and predicates whose value may still be read
//   late reads     vector registers that an earlier memory or XU instruction may not have read yet: dead, but not
//                  writable. What ends it is a wait on the reader's own scoreboard or, the queues being in order, on one
//                  that a later instruction of the same queue set: the rule that vendor code itself keeps (sass.md 5.3:
//                  256,720 pairs of the memory queue, 2 exceptions). Late readers of other units count by their own
//                  scoreboard only, and poison their sources for the whole kernel when they have none
//   registers held where the kernel gives registers away (setmaxnreg): the fewest that it may hold there or, as a store may
//                  still be reading them, later on. Those that it takes are not counted: the taking may fail
//   results        registers and predicates whose last writer may still be in flight where nobody reads them any more: a result that
//                  nobody reads at all (the high half of an IMAD.WIDE, say), or one that is read on another path only (what a loop
//                  loads for its next round, behind its end). Until its scoreboard was waited for, its latency has passed, or an
//                  instruction of the kernel has read or written it, which had to wait
//   untold results those of variable latency without a scoreboard. Vendor code reads such results of LDS, MOVM and F2F once it has
//                  waited for a later one of the same kind: they come in order. Registers of other instructions are poisoned for the
//                  whole kernel (read_code() has given a scoreboard to the LDC R1 that kernels without a stack begin with)
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "instrument/code.h"

namespace xtrace::instrument {

struct LiveSet {
  sass::RegSet gpr, ur;
  sass::PredSet pred = 0, upred = 0;
  bool operator==(const LiveSet&) const = default;
};

// Kinds of instructions whose results come in order, so that one may do without a scoreboard where a later one has one.
enum class InOrder : uint8_t { shared, transpose, convert };
constexpr size_t kinds_in_order = 3;
std::optional<InOrder> comes_in_order(const sass::Effects& fx);

class Liveness {
 public:
  explicit Liveness(const Code& code);

  // Live immediately before instruction i.
  const LiveSet& before(InstIndex i) const { return live_in_[i]; }
  // Vector registers that a probe placed immediately before i may write: dead, held, no pending late read, no result in
  // flight. Only registers below `limit`.
  sass::RegSet writable_before(InstIndex i, uint32_t limit) const;
  // Vector registers below `limit` that no earlier instruction may still read or write there, when these scoreboards (bit mask) were waited
  // for: their value has arrived, live or not.
  sass::RegSet settled_before(InstIndex i, uint32_t limit, uint8_t scoreboards) const;
  // writable_before() for a probe that first waits for scoreboards (bit mask).
  sass::RegSet writable_after_wait(InstIndex i, uint32_t limit, uint8_t scoreboards) const;
  // writable_before() at every point "immediately before i" for i in [from, to].
  sass::RegSet writable_between(InstIndex from, InstIndex to, uint32_t limit) const;
  // Predicates (bit mask) that a probe placed immediately before i may write.
  sass::PredSet writable_predicates_before(InstIndex i) const;
  // Those whose value has arrived there, needed or not.
  sass::PredSet settled_predicates_before(InstIndex i) const { return static_cast<sass::PredSet>(~(taken_pred_[i] | poisoned_pred_) & 0x7f); }
  // Uniform registers that no reachable instruction mentions.
  sass::RegSet untouched_uniform() const;
  // Predicates that no reachable instruction mentions (bit mask).
  sass::PredSet untouched_predicates() const { return static_cast<sass::PredSet>(~mentioned_pred_ & 0x7f); }
  // Scoreboards that an original instruction may have outstanding immediately before i (bit mask).
  uint8_t outstanding_before(InstIndex i) const { return outstanding_[i]; }

 private:
  // Registers that are not free when they are dead: by the scoreboard whose wait ends it, and those that no wait of a probe's ends.
  struct Taken {
    std::array<sass::RegSet, 6> scoreboard;
    sass::RegSet otherwise, all;
  };
  // The same while it is found, with the queue for instructions without a scoreboard, and the cycles that it takes at most.
  struct Pending {
    std::array<sass::RegSet, 6> scoreboard;   // late reads
    std::array<sass::RegSet, 2> queue;        // likewise: lsu, xu
    std::array<uint8_t, 256> cycles{};        // until they are read
    std::array<sass::RegSet, 6> results;
    std::array<sass::RegSet, kinds_in_order> untold;
    std::array<uint8_t, 256> latency{};       // until they are written
    std::array<sass::PredSet, 6> predicates{};
    std::array<uint8_t, 7> predicate_latency{};
  };
  static void pass_results(const CodeInst& inst, Pending& pending);
  static Taken taken(const Pending& pending);
  void find_live(const Code& code);
  void find_pending(const Code& code);
  void find_held(const Code& code);

  sass::RegSet writable(InstIndex i, uint32_t limit, const sass::RegSet& taken) const;
  sass::RegSet below(InstIndex i, uint32_t limit, sass::RegSet set) const;
  sass::RegSet taken_after_wait(InstIndex i, uint8_t scoreboards) const;

  std::vector<LiveSet> live_in_;
  std::vector<Taken> taken_;            // before each instruction
  std::vector<sass::PredSet> taken_pred_;
  std::vector<uint8_t> outstanding_;
  std::vector<uint32_t> held_;          // registers a thread, the reserved ones among them
  sass::RegSet poisoned_, mentioned_ur_;
  sass::PredSet poisoned_pred_ = 0, mentioned_pred_ = 0;
};

}  // namespace xtrace::instrument
