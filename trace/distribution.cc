#include "trace/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace xtrace::trace {

uint32_t Distribution::bin_of(uint64_t value) {
  if (value < exact) return static_cast<uint32_t>(value);
  const unsigned octave = static_cast<unsigned>(std::bit_width(value)) - 1;  // >= exact_bits
  const uint64_t within = value >> (octave - bins_bits) & ((1u << bins_bits) - 1);
  return static_cast<uint32_t>(exact + ((octave - exact_bits) << bins_bits) + within);
}

double Distribution::middle_of(uint32_t bin) {
  if (bin < exact) return bin;
  const unsigned octave = exact_bits + ((bin - exact) >> bins_bits);
  const double width = std::ldexp(1.0, static_cast<int>(octave - bins_bits));
  const double low =
      std::ldexp(1.0, static_cast<int>(octave)) + width * ((bin - exact) & ((1u << bins_bits) - 1));
  return low + (width - 1) / 2;
}

void Distribution::add(uint64_t value) {
  const uint32_t bin = bin_of(value);
  if (bin >= bins_.size()) bins_.resize(bin + 1, 0);
  ++bins_[bin];
  ++count_;
  sum_ += static_cast<double>(value);
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Distribution::merge(const Distribution& other) {
  if (other.bins_.size() > bins_.size()) bins_.resize(other.bins_.size(), 0);
  for (size_t i = 0; i < other.bins_.size(); ++i) bins_[i] += other.bins_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double Distribution::quantile(double q) const {
  if (count_ == 0) return 0;
  const double want = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_));
  const uint64_t rank = std::max<uint64_t>(1, static_cast<uint64_t>(want));
  uint64_t seen = 0;
  for (uint32_t bin = 0; bin < bins_.size(); ++bin) {
    seen += bins_[bin];
    if (seen >= rank) return std::clamp(middle_of(bin), static_cast<double>(min_), static_cast<double>(max_));
  }
  return static_cast<double>(max_);
}

}  // namespace xtrace::trace
