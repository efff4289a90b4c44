#include "tools/xtrace/replay/sample_on_launch.h"

#include <fmt/format.h>

#include <algorithm>

namespace xtrace::cli {
namespace {

// --rotate without a sample.
constexpr uint32_t usual_classes = 16;

}  // namespace

using instrument::ProbeKind;

Result<Sample> on_launch(Sample sample, const bundle::LaunchRecord& launch, bool rotate) {
  if (sample.choose) {
    const uint64_t ctas = launch.grid.count();
    sample.one_in = static_cast<uint32_t>(std::min<uint64_t>(usual_classes, ctas));
  }
  sample.rotates_ctas = rotate && sample.one_in > 1;
  if (sample.clusters.empty()) return sample;
  const Dim3 grid = launch.grid, cluster = launch.cluster;
  if (cluster.count() == 0) return unsupported("the launch has no clusters");
  const uint32_t columns = grid.x / cluster.x, rows = grid.y / cluster.y, layers = grid.z / cluster.z;
  std::vector<wire::Selection::Range>& ctas = sample.select.ctas;
  for (uint64_t k = 0; k < uint64_t{columns} * rows * layers; ++k) {
    if (!wire::Selection::has(sample.clusters, static_cast<uint32_t>(k))) continue;
    const uint64_t x = k % columns * cluster.x, y = k / columns % rows * cluster.y, z = k / columns / rows * cluster.z;
    for (uint32_t dz = 0; dz < cluster.z; ++dz)
      for (uint32_t dy = 0; dy < cluster.y; ++dy) {
        const auto first = static_cast<uint32_t>(x + grid.x * (y + dy + grid.y * (z + dz)));
        ctas.push_back({first, first + cluster.x - 1});
      }
  }
  if (ctas.empty()) return unsupported("the launch has {} clusters, none of them is in the sample", uint64_t{columns} * rows * layers);
  ctas = joined(std::move(ctas));
  if (ctas.size() > most_ranges)
    return with_hint(unsupported("these clusters are {} separate ranges of CTAs, at most {} are told apart on the GPU", ctas.size(), most_ranges),
                     "sample fewer clusters");
  return sample;
}

Status makes_sense(ProbeKind probe, const Sample& sample) {
  if (sample.clocks && probe != ProbeKind::inst)
    return with_hint(unsupported("{} has no clock at every instruction, so there are none to leave out or to ask for", instrument::probe_info(probe).name),
                     "clocks:all and clocks:N are for inst");
  if (sample.whole_sectors && probe != ProbeKind::inst && probe != ProbeKind::mem)
    return with_hint(unsupported("records of {} are never written in whole sectors", instrument::probe_info(probe).name), "sectors:whole and sectors:part are for inst and mem");
  if (sample.rotates_ctas && probe == ProbeKind::pair)
    return with_hint(unsupported("pair rotates over its sites, in one class of CTAs: it has no part for each class"), "leave out --rotate");
  if (sample.rotates_ctas && !sample.select.sms.empty())
    return with_hint(unsupported("a CTA runs on another SM in each part: classes of those on some SMs do not add up"),
                     "sample sm without --rotate, or rotate over cta:1/N alone");
  if (sample.nth == 1 || instrument::probe_info(probe).points) return {};
  const char* why = probe == ProbeKind::count  ? "its sums are of all executions"
                    : probe == ProbeKind::pair ? "it has one instruction in each replay"
                    : probe == ProbeKind::mem  ? "its records are of whole blocks"
                                               : "its records follow the path of a warp, which would have gaps";
  return with_hint(unsupported("{} does not take every nth execution: {}", instrument::probe_info(probe).name, why),
                   "branch, reg, latency and custom do; or sample CTAs, warps or sites");
}

uint32_t parts_of(const instrument::Splicer& splicer, const Sample& sample, bool rotate) {
  return rotate ? std::min(sample.sites_one_in, static_cast<uint32_t>(splicer.section_instructions())) : 1;
}

Drawn drawn(const Sample& sample, uint32_t seed, uint32_t wave) {
  Drawn d{sample.one_in, sample.seed.value_or(seed), sample.select, sample.clocks.value_or(instrument::usual_clock_gap), sample.whole_sectors};
  d.rotates = sample.rotates_ctas;
  if (sample.wave) d.select.ctas = {{0, std::max(1u, wave) - 1}};
  return d;
}

Status selects_some(const Sample& sample, const Drawn& d, const bundle::LaunchRecord& launch, uint32_t warps_per_cta) {
  const uint64_t warps = launch.grid.count() * warps_per_cta;
  const wire::SlotLayout layout = d.layout(warps_per_cta);
  for (uint64_t w = 0; w < warps; ++w)
    if (layout.is_sampled(static_cast<uint32_t>(w))) return {};
  return with_hint(unsupported("none of the launch's {} CTAs of {} warps is in the sample {}", launch.grid.count(), warps_per_cta, sample.text()),
                   "CTAs, and the warps of a CTA, are counted from 0");
}

std::optional<std::string> tail_of(const Sample& sample, const Drawn& d, const bundle::LaunchRecord& launch, uint32_t wave,
                                   uint32_t warps_per_cta) {
  const uint64_t ctas = launch.grid.count();
  const bool some = (d.one_in > 1 && !d.rotates) || !d.select.empty();
  if (!some || wave == 0 || ctas > 2 * uint64_t{wave} || ctas % wave == 0) return std::nullopt;
  const uint64_t first = ctas / wave * wave;
  uint64_t sampled = 0;
  for (uint64_t cta = first; cta < ctas; ++cta) sampled += d.has(static_cast<uint32_t>(cta * warps_per_cta), warps_per_cta);
  if (sampled == 0) return std::nullopt;
  return fmt::format("sample-of-tail: {}: {} sampled CTAs are of the last wave, {} of the {} that fit on the GPU at once: they run with "
                     "fewer neighbours",
                     sample.text(), sampled, ctas - first, wave);
}

}  // namespace xtrace::cli
