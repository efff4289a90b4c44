#include "tools/xtrace/replay/cta_rotation.h"

#include <algorithm>
#include <set>

#include "instrument/cta_part.h"

namespace xtrace::cli {

std::vector<uint32_t> cta_parts_of(const LaunchContext& c, const Drawn& drawn) {
  if (!drawn.rotates) return {0};
  std::set<uint32_t> parts;
  for (uint32_t w = 0; w < c.warps; ++w)
    if (drawn.has(w, c.warps_per_cta)) parts.insert(wire::part_of_cta(w / c.warps_per_cta, drawn.one_in, drawn.seed));
  return {parts.begin(), parts.end()};
}

Result<std::vector<CtaPart>> load_cta_parts(LaunchContext& c, const Drawn& drawn, instrument::Spliced first) {
  std::vector<CtaPart> parts;
  for (const uint32_t number : cta_parts_of(c, drawn)) {
    CtaPart part;
    part.number = number;
    if (parts.empty()) {
      XT_CHECK(first.map.layout.cta_part == number, "spliced for the first class");
      part.spliced = std::move(first);
    } else {
      XT_TRY(part.spliced, instrument::for_cta_part(parts.front().spliced, c.launch.record.kernel, number));
    }
    XT_TRY(part.module, c.backend.load(part.spliced.cubin));
    parts.push_back(std::move(part));
  }
  return parts;
}

Status unload(LaunchContext& c, std::vector<CtaPart>& parts) {
  for (const CtaPart& part : parts) XT_TRY_STATUS(c.backend.unload(part.module));
  parts.clear();
  return {};
}

std::vector<wire::BlockCount> less(const std::vector<wire::BlockCount>& now, const std::vector<wire::BlockCount>& before) {
  std::vector<wire::BlockCount> out = now;
  for (size_t b = 0; b < before.size(); ++b) {
    out[b].warps -= before[b].warps;
    out[b].lanes -= before[b].lanes;
  }
  return out;
}

tl::unexpected<Error> parts_differ() {
  return with_hint(unsupported("the launch takes another path in each replay: parts of a rotation over CTAs would not be parts of one launch"),
                   "leave out --rotate, or sample sites: --sample=site:1/N --rotate");
}

}  // namespace xtrace::cli
