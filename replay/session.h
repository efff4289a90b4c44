// From a recording to a launch at hand, and from a launch to its reference: what the unchanged kernel does
// when it is replayed several times. Everything later compared against (outputs, unstable bytes, noise) comes
// from here.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "capture/bundle/bundle_reader.h"
#include "replay/backend.h"
#include "replay/byte_ranges.h"

namespace xtrace::replay {

// Loads code and memory of the launch with this ordinal. bad_input: no such launch, or images that contradict
// the record; unsupported: the launch was skipped when recording (the reason is repeated).
Result<LaunchImage> load_launch(const bundle::BundleReader& bundle, uint64_t ordinal);

// The part of load_launch that judges plain data: sizes, parameters, geometry.
Status check_launch(const LaunchImage& launch);

struct Mismatch {
  size_t region = 0;              // index into record.regions
  uint64_t offset = 0;            // first differing byte
  uint64_t bytes = 0;             // how many bytes of this region differ
  std::byte expected{}, found{};  // at `offset`
};

// A difference that n replays do not show among themselves may still be the kernel's own: a sum that depends on the order of
// atomics, which is much the same in replays alike. So more of them are made before a difference counts, every other one beside
// other work on the device: this many, and while the last `settled_after` of them still found unstable bytes, more.
inline constexpr uint32_t most_clean_replays = 32, settled_after = 16, most_unsettled_replays = 256;

// Results of n clean replays, each from `before`.
struct CleanReference {
  ModuleHandle module = 0;
  uint32_t replays = 0;
  // Contents of each region after the first replay. Empty for a region that no replay changed: its contents
  // are `before`. Use output_of().
  std::vector<Bytes> output;
  std::vector<ByteRanges> unstable;  // per region: bytes that differed among the replays
  std::vector<bool> written;         // per region: some replay changed it
  std::vector<double> microseconds;  // per undisturbed replay; zeros when the backend does not measure time

  // Against the recorded contents after the live launch, outside the unstable bytes.
  bool has_recorded_after = false;
  bool matches_recorded_after = false;  // false without a recorded `after`
  std::vector<Mismatch> mismatches;     // one per region that differs, in order

  // A launch on top of the previous one's memory gave the same outputs (outside the unstable bytes). Then
  // several launches may share one restore in timing.
  bool idempotent = false;
  std::optional<Mismatch> repeat_difference;  // why not

  uint64_t unstable_bytes() const;
  uint32_t last_found = 0;           // the replay that last added unstable bytes
  bool exhausted() const {
    return replays >= most_unsettled_replays || (replays >= most_clean_replays && replays >= last_found + settled_after);
  }
  // What a comparison of this region has to leave out: the unstable bytes; once no more replays are to come, the whole
  // elements of 4 bytes that they are in, since a carry moves the next byte of a float once in 256 times.
  ByteRanges ignored(size_t region) const;
  ByteView output_of(const LaunchImage& launch, size_t region) const {
    return written[region] ? ByteView(output[region]) : ByteView(launch.before[region]);
  }
};

// In the message of the error when the launch did not complete on what it had left behind: without that test it can be replayed.
inline constexpr std::string_view not_repeatable = "a launch repeated without restore";

// Replays the module n >= 1 times with everything restored in between (n > 1: more, see above, while they differ from the
// recording), then (test_repeat) once more without restoring: a kernel that hangs or faults on its own results takes the
// backend with it, so the caller can leave that out. The backend must be prepared with `launch`; it is told which regions are
// written; its memory is left dirty. A replay that does not complete is a device error. Memory: the outputs of the written
// regions plus one region.
Result<CleanReference> clean_replays(Backend& backend, const LaunchImage& launch, ModuleHandle module,
                                     uint32_t n, bool test_repeat = true);

// One more clean replay from restored memory, taken into `reference`; memory is left dirty. False, and nothing done: it
// is exhausted, or made from one replay, which the caller chose.
Result<bool> replay_once_more(Backend& backend, const LaunchImage& launch, CleanReference& reference);

// Compares what the backend's memory holds now against the reference, outside its unstable bytes: one
// Mismatch per region that differs.
Result<std::vector<Mismatch>> compare_outputs(Backend& backend, const LaunchImage& launch,
                                              ModuleHandle module, const CleanReference& reference);

}  // namespace xtrace::replay
