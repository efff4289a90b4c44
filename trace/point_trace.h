// Events of point probes (wire::Point): from slots or a trace file, one at a time, in the order in which each warp made them.
#pragma once

#include <span>
#include <vector>

#include "trace/mem_trace.h"

namespace xtrace::trace {

struct PointWarp : MemWarp {
  uint64_t start_clock = 0, start_time = 0;
  uint32_t part = 0;             // of how many sparse replays (AddressMap::sites_one_in) this is one
  bool operator==(const PointWarp&) const = default;
};

struct PointEvent {
  uint32_t point = 0;            // in AddressMap::points
  uint32_t active = 0;           // lanes
  // Values of the point that are one for the warp, in its order: clocks extended to 64 bits, the rest as it was read.
  std::vector<uint64_t> scalars;
  std::vector<LaneValues> columns;   // values of every lane, in order
  bool operator==(const PointEvent&) const = default;
};

class PointVisitor {
 public:
  virtual ~PointVisitor() = default;
  virtual Status begin(const PointWarp& warp) = 0;   // bytes and marks are not known yet
  virtual Status event(const PointEvent& event) = 0;
  virtual Status end(const PointWarp& warp) = 0;
};

// Numbers of scalar values and of columns of a point.
struct PointShape {
  uint32_t scalars = 0, columns = 0;
};
PointShape shape_of(const wire::Point& point);
// bad_input: a place outside its record, a block that does not exist, a value that is left out and that nobody tells.
Status check_points(const wire::AddressMap& map);

// Decodes the slots of a launch. `starts`: of each warp (warp_starts(); of wrapping slots the headers as read back).
// DecodeSummary::records counts events, clocks the clocks in them. Of a wrapping slot that was written past its end nothing
// is kept (Loss::wrapped).
Result<DecodeSummary> decode_points(const wire::AddressMap& map, std::span<const wire::WarpHeader> starts,
                                    const DeviceReader& read, std::span<const wire::SlotEntry> table,
                                    std::span<const uint64_t> counted_bytes, uint32_t part, PointVisitor& visitor);

// The warps of a trace file (docs/trace-format.md).
class PointEncoder {
 public:
  explicit PointEncoder(const wire::AddressMap& map);
  explicit PointEncoder(const wire::AddressMap&& map) = delete;   // it must outlive this
  void begin(const PointWarp& warp);
  void event(const PointEvent& event);
  // Appends the warp to `out` and begins the next one. Gives its number of events.
  uint64_t end(const PointWarp& warp, std::string& out);

 private:
  const wire::AddressMap& map_;
  std::string events_;
  uint64_t records_ = 0, clock_ = 0;
  std::vector<std::vector<uint64_t>> last_;   // by point and value
};
class ImpliedPoints;   // implied_points.h: of this map
// Visits the warp that stands at `in`; gives its number of events. What is damaged fails `in`.
Result<uint64_t> decode_point_warp(VarintReader& in, const wire::AddressMap& map, ImpliedPoints& implied, PointVisitor& visitor);

}  // namespace xtrace::trace
