// What of the points of a block is recorded, and where in their record it lies (wire::Point, trace/wire/record.h).
#pragma once

#include <vector>

#include "instrument/points.h"

namespace xtrace::instrument {

constexpr unsigned point_words_at_once = 4;   // that are stored together, at most

bool has_columns(const std::vector<PointPlan>& points);

// Of each point that is there what others in front of it in its block tell (wire::Value::same, wire::Point::implied). The lanes are the same, as is
// what a guarded definition would have changed where there is none; a result that was under way when the one was recorded had been waited for there.
void leave_out_told(std::vector<PointPlan>& points, const PointContext& c);

// The places of all values, and the lengths of records: whole chunks, or whole sectors where some have columns. All points of a block that are there
// join in one record, in each of its executions, unless they stand `apart`.
void lay_out(std::vector<PointPlan>& points, const PointContext& c, bool apart);

}  // namespace xtrace::instrument
