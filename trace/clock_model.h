// SM clocks on one time axis. Every SM counts its own cycles from its own zero; GLOBALTIMER is common to all
// and coarse. Readings of both around the launch (ClockFit) tie them together; without any, each warp reads both in its
// prologue, which ties its SM to the common axis as closely as GLOBALTIMER's ticks allow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/clock_fit.h"
#include "trace/wire/address_map.h"
#include "trace/wire/record.h"

namespace xtrace::trace {

class ClockModel {
 public:
  // Time 0 is the earliest start on any SM. GLOBALTIMER reads the last tick, so each warp gives a lower bound
  // for the time at which its SM's clock stood where it did: the largest of them is taken. Headers of warps
  // that did not start and of CTAs outside the sample are ignored.
  ClockModel(const wire::SlotLayout& layout, std::span<const wire::WarpHeader> headers, double sm_clock_ghz);

  // Time 0 as above. An SM that the fit does not cover counts from 0.
  ClockModel(const ClockFit& fit, const wire::SlotLayout& layout, std::span<const wire::WarpHeader> headers);

  // ns since time 0; clocks of an SM without a started warp count from 0.
  double nanoseconds(uint32_t sm, uint64_t clock) const;
  double sm_clock_ghz() const { return ghz_; }
  // How far times on two SMs may be off against each other, ns. With a fit: twice its residual; else the widest disagreement
  // between warps of one SM: ticks of GLOBALTIMER plus the error of sm_clock_ghz.
  double alignment_spread() const { return spread_; }
  uint32_t sms() const { return used_; }
  // One sentence for the reader of a timeline.
  std::string statement() const;

  // The clock rate during the launch, from the two starts on one SM that lie furthest apart; nothing when
  // they are less than 50 us apart, where the ticks of GLOBALTIMER (up to 1 us) are more than 2 %.
  static std::optional<double> estimate_ghz(const wire::SlotLayout& layout,
                                            std::span<const wire::WarpHeader> headers);

 private:
  struct Sm {
    bool used = false;
    uint64_t base_clock = 0;  // smallest start clock
    double base_ns = 0;       // its time
    double ghz = 0;
  };
  std::vector<Sm> sm_;
  double ghz_;
  bool fitted_ = false;
  double spread_ = 0;
  double tick_spread_ = 0;  // fitted: of GLOBALTIMER at the starts of warps around the fitted times
  uint32_t used_ = 0;
};

}  // namespace xtrace::trace
