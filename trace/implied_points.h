// What records of point probes leave out (wire::Value::same, wire::Point::implied), put back: for events that come out of slots and for those
// that come out of a trace file.
#pragma once

#include <vector>

#include "trace/point_trace.h"

namespace xtrace::trace {

// bad_input: a value or a point is left out, and no point in front of it in its block tells it.
Status check_implied(const wire::AddressMap& map);

class ImpliedPoints {
 public:
  explicit ImpliedPoints(const wire::AddressMap& map);   // that passes check_implied(), and outlives this
  explicit ImpliedPoints(const wire::AddressMap&& map) = delete;
  void begin();   // of a warp
  // The next event that was recorded, with anything in the place of values that were not. Visits it, whole, and the events of the points
  // behind it that have no record, and adds their number to `visited`. false: an event that should tell a value is missing.
  Result<bool> visit(PointEvent& event, PointVisitor& visitor, uint64_t& visited);

 private:
  struct Source {             // of a value that was left out
    uint32_t point = 0;       // the one that recorded it
    uint32_t from = 0, to = 0;   // which of that one's scalars or columns it is, and which of this one's
    bool column = false;
  };
  struct Known {
    uint32_t run = 0;         // points of one run are in one block, one behind the other
    uint32_t next = 0;        // the point behind this one, where that has no record; else 0
    bool tells = false;
    PointShape shape;
    std::vector<Source> sources;
  };
  struct Kept {
    uint64_t execution = 0;   // of a block; 0: none
    PointEvent event;
  };
  bool complete(PointEvent& event) const;
  void keep(const PointEvent& event);

  std::vector<Known> points_;
  std::vector<Kept> kept_;    // by point, of those that tell: its last event
  uint64_t execution_ = 0;
  uint32_t run_ = 0, last_ = 0;   // of the last event
  PointEvent implied_;
};

}  // namespace xtrace::trace
