// Point probes: each says at which points of a kernel it records which values (wire::Point), and nothing else. What one
// record looks like, which registers it takes, how long it waits, and how many bytes a warp writes is the same for all of
// them, here.
#pragma once

#include <vector>

#include "instrument/probes/probes.h"

namespace xtrace::instrument {

// A point as a probe asks for it: places and sizes are filled in by find_points.
struct PointPlan {
  InstIndex at = 0;
  wire::Point point;
  InstIndex site_at = 0;       // sparse sites (Scope::sites) are chosen by this instruction
  bool present = true;         // false: not among the sparse sites of this replay; it keeps its number
};

struct PointContext {
  const Code& code;
  const Blocks& blocks;
  const Liveness& liveness;
  const Scope& scope;
};

// `values` in front of instruction i, or behind it where it falls through.
PointPlan point_at(InstIndex i, bool after, std::vector<wire::Value> values);
// The numbers of their sites: one for each point, in order.
void number_sites(std::vector<PointPlan>& points);

// One clock when lanes come to an instruction, and one when they go on: in one record behind it, or, where lanes may come
// one group after another and go on together, in a record on either side. Appends to `points`, as site `site`.
void add_passage(const PointContext& c, InstIndex i, uint32_t site, std::vector<wire::Value> behind, std::vector<PointPlan>& points);

// The points of a probe on this kernel, in order of code, each with the layout of its record. Unless they stand `apart` (or every nth
// execution is recorded) nothing is recorded twice in a block: what a point in front of another has recorded, and no instruction between
// the two may have changed, the other leaves out (wire::Value::same, wire::Point::implied). unsupported: none, or one that can not be.
Result<std::vector<PointPlan>> find_points(ProbeKind probe, const PointContext& c, bool apart = false);
// For the counting replay: adds the bytes of each record where it is written.
Status count_points(ProbeContext& c, const std::vector<PointPlan>& points);
// Writes the records.
Status insert_points(ProbeContext& c);

}  // namespace xtrace::instrument
