// From what two clocks read around an instruction to what the instruction takes without them.
//
// The first clock takes an issue slot in front of the instruction. Where the instruction then waits for a scoreboard, the slot
// passes meanwhile and adds nothing; else it adds a cycle, two in front of the pipe that clocks are read by [measured H200: chains
// of FFMA, DFMA and STS read one cycle more than they take, of LOP3, LEA and ISETP two, of LDS, SHFL, LDG and POPC none]. Where
// several warps want the issue slot, one more instruction waits for it once more: how long that is, on average over the kernel,
// follows from stretches of whole blocks, which have one clock where the pairs have one for each instruction.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace xtrace::trace {

// What pairs of clocks read at one site, as it is or extrapolated; per execution.
struct SiteTimes {
  uint32_t pc = 0, stall = 0;          // stall: the instruction's own; its successor issues no earlier
  bool waits = false;                  // it waits for a scoreboard
  double cycles = 0, error = 0;        // error: half of the 95 % interval
  static constexpr size_t shown = 24;
  std::array<double, shown> excess{};  // share of the samples that exceed `stall` by so many cycles
};

// A stretch that two clocks and one move stand in.
struct StretchTimes {
  double cycles = 0, error = 0;
  double pause = 0;                    // cycles that the probe waits between them
};

struct BlockTimes {
  double executions = 0;               // of a warp, on average
  std::vector<SiteTimes> sites;        // of its instructions but the last one if that leaves it, in order
  uint32_t unknown = 0;                // of those: not measured
  std::optional<StretchTimes> body;    // to in front of the last instruction
  std::optional<StretchTimes> block;   // to the next block
};

struct Interval {
  uint32_t pc = 0;
  double cycles = 0, error = 0;
};

// What a clock adds where nothing waits for a scoreboard: the least number of cycles that the stretches allow, between 1 and 8.
double inserted_cycles(std::span<const BlockTimes> blocks);

// Intervals of a block: each of its sites, and where both stretches are known the last instruction. Together they are what the
// stretch is, as far as their errors allow.
struct BlockIntervals {
  std::vector<Interval> sites;         // parallel to BlockTimes::sites
  std::optional<Interval> last;        // without a pc
  double together = 0;                 // of all, with those that are not known by themselves
};
BlockIntervals intervals_of(const BlockTimes& block, double inserted);

}  // namespace xtrace::trace
