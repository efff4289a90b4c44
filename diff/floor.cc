#include "diff/floor.h"

#include <algorithm>
#include <array>

namespace xtrace::diff {
namespace {

constexpr std::array known = {
    // 4.8 TB/s [vendor's data sheet; a copy inside device memory was seen to move 4.3 TB/s]; 132 SMs and 1.98 GHz [measured H200:
    // driver, nvidia-smi under load]; 4 schedulers [CUDA C++ programming guide, compute capability 9.0]; 0.07 ns a line, the least that kernels
    // of our own showed of which one CTA in sixteen writes lines of its own [measured H200, docs/performance.md "Lines written here and there"]
    DeviceRates{"NVIDIA H200", 4.8e6, 132, 4, 1980, 0.00007},
};

}  // namespace

std::optional<DeviceRates> device_rates(std::string_view device) {
  for (const DeviceRates& rates : known)
    if (rates.device == device) return rates;
  return std::nullopt;
}

std::optional<Floor> floor_of(const DeviceRates& rates, const ProbeWork& work, double clean_us) {
  if (!(clean_us > 0)) return std::nullopt;
  Floor f;
  f.bytes_us = static_cast<double>(work.stored_bytes) / rates.bytes_per_us;
  // A CTA goes to an SM that has none while there is one, and a warp has one scheduler.
  const auto ctas = static_cast<double>(work.ctas), warps = static_cast<double>(work.ctas * work.warps_per_cta);
  const auto sms_of = [&](double n) { return n == 0 ? rates.sms : std::min(rates.sms, n); };
  const double sms = sms_of(ctas), storing = work.traced_ctas == 0 ? sms : sms_of(static_cast<double>(work.traced_ctas));
  const double storing_at_once = work.traced_at_once == 0 ? storing : std::min(storing, static_cast<double>(work.traced_at_once));
  const double schedulers = warps == 0 ? rates.sms * rates.schedulers : std::min(sms * rates.schedulers, warps);
  const double slots_per_us = schedulers * rates.cycles_per_us;
  f.issue_us = static_cast<double>(work.issue_slots) / slots_per_us;
  const double all_issue_us = static_cast<double>(work.issue_slots + work.kernel_slots) / slots_per_us;
  f.store_us = static_cast<double>(work.store_cycles) / (storing_at_once * rates.cycles_per_us);
  const double least_store_us = static_cast<double>(work.store_cycles) / (storing * rates.cycles_per_us);
  f.ratio = std::max({1.0, f.bytes_us / clean_us, least_store_us / clean_us, all_issue_us / clean_us});
  f.latency_us = work.longest_cycles / rates.cycles_per_us;
  const double most = std::max({f.bytes_us, f.issue_us, f.store_us, f.latency_us});
  f.bound = most == f.bytes_us ? "bytes" : most == f.store_us ? "stores" : most == f.issue_us ? "issue" : "latency";
  f.added = 1 + most / clean_us;
  constexpr double sector_bytes = 32;
  f.fill_us = static_cast<double>(work.partial_sectors) * sector_bytes / rates.bytes_per_us;
  f.line_us = static_cast<double>(work.lines) * rates.us_per_line;
  f.in_turn = 1 + (f.bytes_us + f.issue_us + f.store_us + f.latency_us + f.fill_us + f.line_us) / clean_us;
  return f;
}

std::optional<Floor> median_of(std::vector<Floor> floors) {
  if (floors.empty()) return std::nullopt;
  const auto middle = floors.begin() + static_cast<std::ptrdiff_t>(floors.size() / 2);
  std::nth_element(floors.begin(), middle, floors.end(), [](const auto& a, const auto& b) { return a.added < b.added; });
  return *middle;
}

}  // namespace xtrace::diff
