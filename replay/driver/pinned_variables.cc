#include "replay/driver/pinned_variables.h"

#include <algorithm>

#include "replay/address_plan.h"

namespace xtrace::replay {
namespace {

AddressSpan span_of(const bundle::Region& r) { return {r.address.value, r.address.value + r.size}; }

}  // namespace

PinnedVariables find_pinned_variables(const LaunchImage& launch, const std::vector<std::optional<PointerHit>>& hits) {
  PinnedVariables found;
  const std::vector<bundle::Region>& regions = launch.record.regions;
  for (size_t i = 0; i < regions.size() && i < hits.size(); ++i) {
    const bundle::Region& r = regions[i];
    if (!hits[i] || r.kind != bundle::RegionKind::global || r.size == 0) continue;
    const auto in_the_way = std::ranges::find_if(regions, [&](const bundle::Region& o) { return is_placed(o.kind) && o.size != 0 && span_of(o).overlaps(span_of(r)); });
    const cubin::PinnedVariable variable{r.symbol, r.address.value};
    const auto edited = in_the_way == regions.end() ? cubin::with_pinned_variables(launch.code, {&variable, 1})
                                                    : Result<Bytes>(unsupported("other recorded memory overlaps it"));
    if (edited) {
      found.variables.push_back(variable);
      found.regions.push_back(i);
    } else if (found.why_not.empty()) {
      found.why_not = fmt::format("{}: {}", r.symbol, edited.error().message);
    }
  }
  return found;
}

}  // namespace xtrace::replay
