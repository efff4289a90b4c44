// From what two clocks read to what instructions take without them.
//
// The first clock takes an issue slot in front of the instruction: a cycle, two in front of the pipe that clocks are read by, none
// where the instruction waits for a scoreboard meanwhile, and more where many warps want the slot [measured H200]. How much is
// measured, not assumed: two neighbours A and B are also measured with one pair of clocks around both, so that what lacks there
// of the sum of their two pairs is what the clock between them added. Of the first instruction of a block, and of neighbours
// that scatter too much, it is what it is for instructions of that kind.
//
// A stretch holds its first clock in a uniform register, which takes a move and a pause. What that adds is what is added again where
// all of it stands there twice.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace xtrace::trace {

// A mean, and how far chance moves it (one standard deviation).
struct Scattered {
  double cycles = 0, deviation = 0;
};

// What pairs of clocks read at one site, as it is or extrapolated; per execution.
struct SiteTimes {
  uint32_t pc = 0, stall = 0;          // stall: the instruction's own; its successor issues no earlier
  bool waits = false;                  // it waits for a scoreboard
  double cycles = 0, error = 0;        // error: half of the 95 % interval
  static constexpr size_t shown = 24;
  std::array<double, shown> excess{};  // share of the samples that exceed `stall` by so many cycles
  std::optional<Scattered> added;      // by the first clock, as this and the instruction in front of it say together
};

// A stretch between two clocks.
struct StretchTimes {
  double cycles = 0, error = 0;
  double pause = 0;                    // cycles that the probe waits between them
  std::optional<Scattered> added;      // what begins it, and what ends it, standing there twice
};

struct BlockTimes {
  double executions = 0;               // of a warp, on average
  std::vector<SiteTimes> sites;        // of its instructions but the last one, in order
  uint32_t unknown = 0;                // of those: not measured
  std::optional<StretchTimes> body;    // to in front of the last instruction
  // The last one: a site, or where lanes may part there the stretch from it to the block executed next.
  std::optional<SiteTimes> last_site;
  std::optional<StretchTimes> last;
  uint32_t last_stall = 0;
  double last_share = 1;               // of the executions: where the warp goes on behind it
};

struct Interval {
  uint32_t pc = 0;
  double cycles = 0, error = 0;
};

// What clocks add, by kind of instruction and of stretch, over a kernel.
class AddedCycles {
 public:
  explicit AddedCycles(std::span<const BlockTimes> blocks, const StretchTimes* kernel = nullptr);

  double of(const SiteTimes& site) const;
  double of(const StretchTimes& stretch, bool short_one) const;   // short: next to nothing happens meanwhile
  double where_nothing_waits() const { return mean_; }            // on average

 private:
  enum Kind { waits, one, two, kinds };
  static Kind kind_of(const SiteTimes& site);
  double sites_[kinds]{0, 1, 2}, spread_[kinds]{1, 1, 1};
  double move_ = 4;       // of a stretch, beside its pause
  double mean_ = 1;
};

// Intervals of a block: each of its sites, and the last instruction where it is known. Together they are what the stretch over them
// is, as far as their errors allow.
struct BlockIntervals {
  std::vector<Interval> sites;         // parallel to BlockTimes::sites
  std::optional<Interval> last;        // without a pc
  double body = 0;                     // of all but the last, with those that are not known by themselves
  double together(const BlockTimes& b) const { return body + (last ? last->cycles * b.last_share : 0); }
};
BlockIntervals intervals_of(const BlockTimes& block, const AddedCycles& added);

}  // namespace xtrace::trace
