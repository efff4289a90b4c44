// The executions of blocks by one warp, in order. Those of blocks without records are put among those that have one (wire::Block::implied), and
// all become the chunks that decode() reads.
#pragma once

#include <array>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "trace/implied_blocks.h"
#include "trace/lane_calls.h"

namespace xtrace::trace {

class Executions {
 public:
  struct Execution {
    uint32_t block, mask;
    uint64_t clock, last;   // of its first instruction, and of its last one if that has one
    size_t clocks = 0;      // `inst`: where its clocks begin in clocks_
  };

  Executions(const wire::AddressMap& map, const ImpliedBlocks& implied, uint32_t all_lanes) : map_(map), implied_(implied), all_lanes_(all_lanes) {
    latest_.fill(nowhere);
  }
  // Chunks go there; nullptr: they are counted alone.
  void write_to(Bytes* out) { out_ = out; }

  // One of a block with clocks (`inst`), yet to be read: where they are until it is added.
  Execution begin(uint32_t block, uint32_t mask) {
    const Execution e{block, mask, 0, 0, clocks_.size()};
    clocks_.resize(clocks_.size() + map_.blocks[block].clocks);
    return e;
  }
  std::span<uint64_t> clocks_of(const Execution& e) { return {clocks_.data() + e.clocks, map_.blocks[e.block].clocks}; }
  void add(const Execution& e) {
    if (implied_.any()) {
      for (uint32_t lane = 0; lane < 32; ++lane)
        if (e.mask >> lane & 1) latest_[lane] = executions_.size();
      return executions_.push_back(e);
    }
    emit(e);
    clocks_.clear();
  }
  // The next execution, at `clock`, is of lanes that may have counted rounds of a loop in front of it. False: what they counted can not be.
  bool leave_loops(uint32_t block, uint32_t mask, const std::array<uint32_t, 32>& rounds, uint64_t clock);
  // The next execution is of lanes that have numbered their ways to it: by lane. False: these can not be.
  bool come_by_ways(uint32_t block, uint32_t mask, const std::array<uint32_t, 32>& numbers);
  // Before finish(): by lane, the number of the way on which it ended; 0: it was on none. False: these can not be.
  bool end_on_ways(const std::array<uint32_t, 32>& numbers);
  // Puts the executions of implied blocks among the others, and emits all that were added.
  void finish();
  void put(const wire::Chunk& c) {
    bytes_ += wire::chunk_bytes;
    if (out_ != nullptr) append(*out_, c);
  }

  uint32_t bytes() const { return bytes_; }             // of chunks
  uint64_t last_clock() const { return last_clock_; }   // of the last execution that was emitted

 private:
  using NextEnds = std::array<ImpliedBlocks::End, 32>;   // by lane: where its way ends
  // Lanes of an execution that came from a counted loop, to which they came together from an execution with a record.
  using Origin = std::pair<size_t, uint32_t>;   // that one, in executions_, and the loop
  struct Leaving {
    size_t execution;           // in executions_
    Origin origin;
    uint32_t mask;
    std::array<uint32_t, 32> rounds;   // by lane
    uint32_t first, most;       // of their rounds those up to `first` are in front of an earlier leaving
  };
  static constexpr size_t nowhere = ~size_t{0};
  struct Coming {
    size_t execution;           // in executions_
    std::array<uint32_t, 32> numbers;   // by lane: of its way there
  };
  struct Behind {
    std::vector<uint32_t> lanes;   // by step; of loops none
    uint64_t cycles = 0;           // of the blocks that lanes went through
  };
  void emit(const Execution& e);
  void behind(const Execution& e, const ImpliedBlocks::Ways& ways, NextEnds& next, std::vector<Execution>& all);
  void behind_return(const Execution& e, const LaneCalls::Targets& targets, NextEnds& next, std::vector<Execution>& all);
  void put_rounds(const std::vector<Leaving>& leavings, const NextEnds& next, std::vector<Execution>& all);
  void gather(const Execution& e, const ImpliedBlocks::Ways& ways, NextEnds& next, std::vector<Execution>& all);
  Behind lanes_behind(const Execution& e, const ImpliedBlocks::Ways& ways, const NextEnds& next) const;
  bool leads(uint32_t lane, ImpliedBlocks::End to) const;
  void through(const Execution& e, const ImpliedBlocks::Ways& ways, const NextEnds& next, std::vector<Execution>& all);
  uint64_t end_of(const Execution& e) const;

  const wire::AddressMap& map_;
  const ImpliedBlocks& implied_;
  const uint32_t all_lanes_;            // of the warp
  std::vector<Execution> executions_;   // not yet emitted
  std::vector<Leaving> leavings_;       // of those
  std::vector<Coming> comings_;         // likewise
  std::array<uint32_t, 32> ended_{};    // by lane: number of the way on which it ended
  std::array<size_t, 32> latest_;       // by lane: its last one so far
  std::map<Origin, uint32_t> most_rounds_;   // in front of leavings so far
  std::vector<uint64_t> clocks_;        // of instructions, of those
  Bytes* out_ = nullptr;
  uint32_t bytes_ = 0;
  uint64_t last_clock_ = 0;
};

}  // namespace xtrace::trace
