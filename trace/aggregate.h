// Sums over a trace: how often each block and instruction was executed, by warps and by lanes, and how long
// after each instruction the next one was issued.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/distribution.h"
#include "trace/record_gaps.h"
#include "trace/warp_trace.h"

namespace xtrace::trace {

constexpr uint32_t inst_bytes = 16;

// Two CS2R.32 in a row read 2 cycles apart: what reading the clock itself adds to an interval. [measured
// H200]
constexpr uint64_t clock_read_cycles = 2;

// From block and inst traces. Times are *ungraded*: a clock at every instruction moves waits from one
// instruction to another (measured: single intervals off by factors of two to ten), so they show where, never
// how long.
class Aggregate {
 public:
  Aggregate(const wire::AddressMap& map, TraceKind kind);
  Aggregate(const wire::AddressMap&& map, TraceKind kind) = delete;   // it must outlive this
  void add(const WarpTrace& trace);
  void set_counts(std::span<const wire::BlockCount> blocks);  // of the count probe, in place of a trace

  struct Instruction {
    uint32_t pc = 0, block = 0;
    Distribution ungraded;  // clock of the next instruction minus clock of this one, nothing subtracted
    uint64_t from_implied = 0;   // of those: intervals that begin where the stall counts say, as the clock there was not read. The
                                 // instruction is the only one that waits since the last clock that was; what else held these up is in it
    uint64_t unattributed =
        0;  // executions without such an interval: the warp went on with other lanes, or ended, or may have gone through blocks
            // without records
    double offset_sum = 0;       // over the executions: clock of this one minus clock of the block's first
  };
  const std::vector<wire::BlockCount>& blocks() const { return blocks_; }
  const std::vector<Instruction>& instructions() const {
    return instructions_;
  }  // in order of block, then pc
  const wire::BlockCount& count_of(const Instruction& i) const { return blocks_[i.block]; }
  uint64_t warp_instructions() const;    // executed, each by a warp (ncu: smsp__inst_executed)
  uint64_t thread_instructions() const;  // by active lanes; predicates do not count

 private:
  void add_intervals(const WarpTrace& trace);
  enum class Ends : uint8_t { read, implied, unknown };
  // What is known of the time from instruction k of a block to the clock of the next one; `next_read`: that one was read.
  static Ends ends_of(const wire::Block& block, size_t k, bool next_read);

  const wire::AddressMap& map_;
  const TraceKind kind_;
  std::vector<wire::BlockCount> blocks_;
  std::vector<Instruction> instructions_;
  std::vector<uint32_t> first_instruction_;  // by block, in instructions_
  const RecordGaps gaps_;
};

// The fingerprint of a path: block counts of a trace against the counters of a counting replay of the same
// sample.
struct CountComparison {
  bool equal = true;
  // All differences are of the kind that waiting for others makes: in loops that wait, any; elsewhere the same lanes in other
  // groups, as they came out of such loops.
  bool waited = true;
  uint64_t waiting_blocks = 0;  // of the different ones
  uint64_t different_blocks = 0;
  struct Mismatch {
    uint32_t block = 0;
    wire::BlockCount counted, traced;
  };
  std::optional<Mismatch> first;
  std::string text() const;                          // "equal in 12 blocks" or the first mismatch
  uint64_t compared_blocks = 0, skipped_blocks = 0;  // skipped: no records to count
  uint64_t unrecorded_blocks = 0;                    // of the skipped ones: wire::Block::unrecorded, as they wait for others
  uint64_t other_blocks = 0;                         // of the skipped ones: wire::Block::other_part
  uint32_t sites_one_in = 1;                         // of so many parts
};
// `waiting`, by block: it lies in a loop that waits for others; empty: none does. bad_input when the sizes differ.
Result<CountComparison> compare_counts(const wire::AddressMap& map,
                                       std::span<const wire::BlockCount> counters,
                                       std::span<const wire::BlockCount> traced,
                                       const std::vector<bool>& waiting = {});

// From pair traces, any number of them (other sites, other sampling rates): the time of single instructions
// with nothing else in the kernel. clock_read_cycles and Site::overhead_cycles are subtracted, down to
// Site::least_cycles.
class GradedTimes {
 public:
  struct Key {
    uint32_t pc = 0, one_in = 1;  // one_in: CTA sampling of the trace
    auto operator<=>(const Key&) const = default;
  };
  struct Samples {
    Distribution cycles;    // of pairs, and of edges followed at once
    Distribution deferred;  // edges whose lanes went on only after other lanes of the warp had run
    uint64_t unmatched_begin =
        0;  // edges never seen to end: the lanes left the kernel, or records are missing
  };
  // `map` is that of the replay which wrote the trace.
  void add(const wire::AddressMap& map, const WarpTrace& trace);
  const std::map<Key, Samples>& all() const { return samples_; }

  // What a table shows for an instruction: the sparsest sampling with enough samples, and how far the rates
  // disagree.
  struct Grade {
    uint32_t one_in = 1;
    double median = 0, p25 = 0, p75 = 0, mean = 0, p90 = 0;  // cycles
    uint64_t samples = 0;
    uint32_t rates = 0;      // sampling rates with enough samples
    double rate_spread = 0;  // (largest - smallest median) / the median above; 0 with one rate
  };
  std::optional<Grade> grade(uint32_t pc, uint64_t enough_samples = 30) const;

 private:
  std::map<Key, Samples> samples_;
};

}  // namespace xtrace::trace
