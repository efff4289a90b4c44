// Timing samples of one launch: plain data that replay fills and diff reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace xtrace::diff {

// One launch of a sample, on average.
struct Sample {
  double microseconds = 0;
  double cycles = 0;   // of the SM clock meanwhile; 0 = not read
};

// The clean code and a variant, one right after the other, from the same restored memory.
struct SamplePair {
  Sample clean, variant;
  bool clean_first = true;
};

// Everything measured of one variant ("block all", "clean-again"): by process, in order of measurement. Round r of a process
// holds one pair of every variant.
struct VariantPairs {
  std::string name;
  std::vector<std::vector<SamplePair>> processes;
};

}  // namespace xtrace::diff
