// Sums over the regions of a launch, shared by ls and info.
#pragma once

#include <algorithm>

#include "capture/bundle/launch_record.h"

namespace xtrace::cli {

inline uint64_t changed_chunks(const bundle::Region& r) {
  uint64_t n = 0;
  for (size_t i = 0; i < r.after.size(); ++i) n += r.before[i] != r.after[i];
  return n;
}

// Bytes of the chunks that differ: at least one byte of each changed.
inline uint64_t changed_bytes(const bundle::Region& r) {
  uint64_t n = 0;
  for (size_t i = 0; i < r.after.size(); ++i)
    if (r.before[i] != r.after[i])
      n += std::min<uint64_t>(bundle::chunk_bytes, r.size - i * bundle::chunk_bytes);
  return n;
}

struct MemorySums {
  uint64_t bytes = 0, changed = 0;
};
inline MemorySums memory_sums(const bundle::LaunchRecord& launch) {
  MemorySums s;
  for (const bundle::Region& r : launch.regions) {
    s.bytes += r.size;
    s.changed += changed_bytes(r);
  }
  return s;
}

inline bool has_after(const bundle::LaunchRecord& launch) {
  return std::all_of(launch.regions.begin(), launch.regions.end(),
                     [](const bundle::Region& r) { return !r.after.empty(); });
}

}  // namespace xtrace::cli
