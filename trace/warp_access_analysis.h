// What accesses that are made once for the warp move: bulk copies by the size that they were given, boxes by their tensor map, where
// that is known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trace/warp_access.h"

namespace xtrace::trace {

using MemoryRange = wire::HighWords::Range;

// From the first byte to behind the last.
struct Extent {
  uint64_t begin = ~uint64_t{0}, end = 0;
  bool empty() const { return begin >= end; }
  void add(uint64_t from, uint64_t to) {
    if (from >= to) return;
    begin = from < begin ? from : begin;
    end = to > end ? to : end;
  }
  bool operator==(const Extent&) const = default;
};

// What a copy through a tensor map moves.
struct Box {
  uint64_t bytes = 0;                 // of the box, those outside of the tensor included
  uint32_t shared_bytes = 0;          // that it takes in shared memory, with the gaps between its rows
  std::vector<MemoryRange> rows;      // of the tensor in global memory: by their first bytes, none empty
};

// Tensor maps of a launch.
class TensorMaps {
 public:
  struct NotKnown {
    std::string why;                  // completes "the tensor map is not known: ..."
  };
  struct Impossible {
    std::string what;                 // that no launch that completes can do
  };
  using Found = std::variant<Box, NotKnown, Impossible>;
  virtual ~TensorMaps() = default;
  virtual Found box(const wire::Access& access, const WarpAccess& what) = 0;
  // The map at this address in words, for people.
  virtual std::string text(uint64_t address) = 0;
};

// Shared memory of a CTA, what is reserved of it included, and CTAs of a cluster. 0 bytes: not known, and nothing is checked.
struct SharedMemory {
  uint32_t bytes = 0, ctas = 1;
};

struct MovedStats {
  uint64_t bytes = 0;                 // of a .MULTICAST once
  uint64_t outside = 0;               // of these, outside of the tensor: they are not in memory
  uint64_t copies = 0;                // CTAs that got them, or gave them
  Extent global, shared;              // shared: offsets in a CTA's
  uint64_t not_known = 0;             // executions through maps that are not known: in no number above but copies
  std::string why_not_known;          // of the first
  std::map<uint64_t, uint64_t> maps;  // tensor: address of the map, executions
  bool operator==(const MovedStats&) const = default;
};

// Whether all bytes [begin, end) are in `memory` (disjoint, in order of address).
bool holds(const std::vector<MemoryRange>& memory, uint64_t begin, uint64_t end);
// Distinct 32-byte pieces of ranges that are in order of their first bytes.
uint64_t sectors_of_ranges(const std::vector<MemoryRange>& ranges);

class WarpAccessAnalysis {
 public:
  explicit WarpAccessAnalysis(SharedMemory shared = {}, TensorMaps* maps = nullptr) : shared_(shared), maps_(maps) {}
  struct Seen {
    uint64_t sectors = 0;
    uint32_t checked = 0;             // addresses
    std::optional<std::string> impossible;
  };
  Seen add(const wire::Access& access, const WarpAccess& what, const std::vector<MemoryRange>& memory, MovedStats& stats) const;

 private:
  SharedMemory shared_;
  TensorMaps* maps_;
};

}  // namespace xtrace::trace
