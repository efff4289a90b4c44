// Timing samples of one launch: plain data that replay fills and diff reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace xtrace::diff {

// One variant of the code under timing ("clean", "block", "inst", "pair@0x120").
struct VariantSamples {
  std::string name;
  std::vector<double> microseconds;   // per launch (a batch's time divided by its size), in order of measurement
};

// Clean and variants measured in one run, interleaved: round r holds one sample of every variant, in random order.
struct InterleavedSamples {
  VariantSamples clean;
  std::vector<VariantSamples> variants;
  uint32_t launches_per_sample = 1;
  bool restored_each_launch = false;  // memory restored before every launch; else repeated launches were shown to be
                                      // idempotent first
};

}  // namespace xtrace::diff
