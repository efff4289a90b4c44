// Tables of the point probes: one row a branch, a value, a barrier, a region, an instruction.
#pragma once

#include <functional>

#include "trace/point_analysis.h"
#include "trace/sheet.h"

namespace xtrace::trace {

struct PointTableSources {
  const wire::AddressMap* map = nullptr;
  const PointAnalysis* analysis = nullptr;
  std::function<std::string(uint32_t pc)> sass, source;
  std::vector<std::string> names;   // of sites, where they have one: regions
};

Sheet branch_table(const PointTableSources& from);
Sheet value_table(const PointTableSources& from);     // reg, custom
Sheet sync_table(const PointTableSources& from);
Sheet range_table(const PointTableSources& from);     // one row a region, and one for each SM of it
Sheet latency_table(const PointTableSources& from);

std::string name_of(const wire::Value& value);        // "R4", "!P0", "clock"

}  // namespace xtrace::trace
