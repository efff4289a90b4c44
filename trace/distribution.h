// A distribution of cycle counts that takes any number of samples in little memory: values below 512 are kept
// exactly, larger ones in 64 bins an octave (0.8 % wide at most to either side of the middle).
#pragma once

#include <cstdint>
#include <vector>

namespace xtrace::trace {

class Distribution {
 public:
  void add(uint64_t value);
  void merge(const Distribution& other);

  uint64_t count() const { return count_; }
  uint64_t min() const { return count_ ? min_ : 0; }
  uint64_t max() const { return max_; }
  double mean() const { return count_ ? sum_ / static_cast<double>(count_) : 0; }
  // The sample at rank ceil(q * count), q in [0, 1]; the middle of its bin. 0 without samples.
  double quantile(double q) const;
  double median() const { return quantile(0.5); }

 private:
  static constexpr uint64_t exact = 512;
  static constexpr unsigned exact_bits = 9, bins_bits = 6;
  static uint32_t bin_of(uint64_t value);
  static double middle_of(uint32_t bin);

  std::vector<uint64_t> bins_;  // up to the highest one used
  uint64_t count_ = 0, min_ = ~0ull, max_ = 0;
  double sum_ = 0;
};

}  // namespace xtrace::trace
