// SM clocks against the common clock, from readings before and after a launch: for each SM a line, and how far the readings
// lie from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace xtrace::trace {

// The SM clock and GLOBALTIMER (ns) of one SM, read where GLOBALTIMER stepped.
struct ClockReading {
  uint32_t sm = 0;
  uint64_t clock = 0, nanoseconds = 0;
};

class ClockFit {
 public:
  // device: not the same SMs on both sides with two readings at least of each, or a clock that did not go forward. Says which.
  static Result<ClockFit> of(std::span<const ClockReading> before, std::span<const ClockReading> after);

  bool covers(uint32_t sm) const { return sm < lines_.size() && lines_[sm].used; }
  // ns since the first reading. The low 32 bits of a clock between the readings are enough, when fewer than 2^32 cycles lie
  // between them.
  double nanoseconds(uint32_t sm, uint64_t clock) const;
  double ghz(uint32_t sm) const { return lines_[sm].ghz; }
  // The largest distance of a reading from its SM's line, ns. Readings of one SM share no error with those of another, so times
  // on two SMs compare to twice this.
  double residual() const { return residual_; }
  uint32_t sms() const { return used_; }

 private:
  struct Line {
    bool used = false;
    uint64_t clock = 0;          // of the first reading
    double ns = 0, ghz = 0;      // the line's value there, and its slope
  };
  std::vector<Line> lines_;
  double residual_ = 0;
  uint32_t used_ = 0;
};

}  // namespace xtrace::trace
