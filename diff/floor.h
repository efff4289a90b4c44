// What a probe can not cost less: the bytes that it writes, the issue slots and the cycles of the memory pipe that its instructions
// take, each over what the device can do; and what its instructions delay their own warp, which is all of it where few warps run. Of the
// kernel itself only its instructions are known, so its own bytes and accesses count as nothing: the floor is low for a kernel that is
// bound by memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace xtrace::diff {

struct DeviceRates {
  std::string_view device;          // as the driver names it
  double bytes_per_us = 0;          // of device memory
  double sms = 0, schedulers = 0;   // schedulers of an SM: each issues one instruction a cycle
  double cycles_per_us = 0;         // highest clock of an SM
  double us_per_line = 0;           // by which a line that is written here and there delays a kernel that reads through the L2
};
// Nothing for a device whose figures nobody has entered: no floor is better than a guessed one.
std::optional<DeviceRates> device_rates(std::string_view device);

// What all inserted instructions of one launch need.
struct ProbeWork {
  uint64_t stored_bytes = 0;
  uint64_t issue_slots = 0;         // of a warp
  uint64_t store_cycles = 0;        // of the memory pipe of an SM
  uint64_t kernel_slots = 0;        // issue slots of the kernel's own instructions
  uint64_t ctas = 0, warps_per_cta = 0;   // of the launch; 0: it fills the device
  double longest_cycles = 0;        // by which the inserted instructions delay the warps that one place on an SM runs one after another,
                                    // by their stall counts and what they wait for
  uint64_t traced_ctas = 0;         // those that store; 0: all
  uint64_t partial_sectors = 0;     // that are written, and by no store as a whole
  uint64_t traced_at_once = 0;      // of these, on the device at a time, where traced and other CTAs come mixed; 0: all
  uint64_t lines = 0;               // of 128 bytes, that the records of some CTAs are written to while what the kernel reads does not fit into the L2
};

struct Floor {
  double bytes_us = 0, issue_us = 0, store_us = 0;   // what the probe needs, spread evenly over the SMs that have a CTA
  double latency_us = 0;            // delay of the longest warp
  double ratio = 1;                 // lower bound: everything overlaps but what the same part of the device must do
  double added = 1;                 // the largest of the four overlaps with nothing
  double in_turn = 1;               // nor do the others, the fills and the lines, with the kernel or with each other
  // Reads of sectors that are written in part, where the L2 no longer has them: kernels that stream through it pay for these
  // [measured H200, docs/performance.md "Sectors written in part"].
  double fill_us = 0;
  // Of the first word written to a line, beside reads that miss the L2 [measured H200, docs/performance.md "Lines written here and there"].
  double line_us = 0;
  std::string_view bound;           // "bytes", "issue", "stores", "latency": the largest
};
// Nothing when the clean time is not known.
std::optional<Floor> floor_of(const DeviceRates& rates, const ProbeWork& work, double clean_us);

// The one in the middle, by `added`; nothing without any.
std::optional<Floor> median_of(std::vector<Floor> floors);

}  // namespace xtrace::diff
