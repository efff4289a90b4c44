// Device memory that the application was seen to allocate: an interval map, disjoint by construction.
// Not thread-safe: the recorder calls it under its lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "capture/bundle/launch_record.h"

namespace xtrace::inject {

struct Allocation {
  uint64_t begin = 0, size = 0;
  bundle::RegionKind kind = bundle::RegionKind::device;
  uint64_t context = 0;  // that was current; 0 for mappings, which no context owns
  uint64_t end() const { return begin + size; }
};

class AllocationMap {
 public:
  // An entry that overlaps the new one is stale (it was freed by a way nobody watches) and goes. Returns how
  // many went.
  size_t add(const Allocation& a);
  // By its first byte, as cuMemFree takes it.
  std::optional<Allocation> remove(uint64_t begin);
  // Everything inside [begin, begin+size), as cuMemUnmap takes it: whole mappings.
  std::vector<Allocation> remove_range(uint64_t begin, uint64_t size);
  // Everything allocated in a context that is being destroyed.
  void remove_context(uint64_t context);

  const Allocation* find(uint64_t address) const;
  std::vector<Allocation> all() const;  // by address
  size_t size() const { return by_begin_.size(); }

 private:
  std::map<uint64_t, Allocation> by_begin_;
};

}  // namespace xtrace::inject
