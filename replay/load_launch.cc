#include <algorithm>

#include "replay/address_plan.h"
#include "replay/session.h"

namespace xtrace::replay {

namespace {

Result<LaunchImage> load_images(const bundle::BundleReader& bundle, const bundle::LaunchRecord& record) {
  LaunchImage launch;
  launch.record = record;
  XT_TRY_IN(launch.code, bundle.code(record.code), "code of kernel {}", record.kernel);
  const bool has_after = std::all_of(record.regions.begin(), record.regions.end(),
                                     [](const bundle::Region& r) { return r.size == 0 || !r.after.empty(); });
  for (size_t i = 0; i < record.regions.size(); ++i) {
    const bundle::Region& r = record.regions[i];
    XT_TRY_IN(Bytes before, bundle.memory(r.before, r.size), "contents of {} before the launch",
              describe(i, r));
    launch.before.push_back(std::move(before));
    if (!has_after) continue;
    XT_TRY_IN(Bytes after, bundle.memory(r.after, r.size), "contents of {} after the launch", describe(i, r));
    launch.after.push_back(std::move(after));
  }
  XT_TRY_STATUS(check_launch(launch));
  return launch;
}

}  // namespace

Result<LaunchImage> load_launch(const bundle::BundleReader& bundle, uint64_t ordinal) {
  const std::vector<bundle::LaunchRecord>& launches = bundle.launches();
  const auto it = std::find_if(launches.begin(), launches.end(),
                               [&](const bundle::LaunchRecord& r) { return r.ordinal == ordinal; });
  if (it == launches.end()) {
    if (launches.empty()) return bad_input("{} holds no launch", bundle.directory().string());
    return with_hint(
        bad_input("{} holds no launch {}: it has {} launches, from {} to {}", bundle.directory().string(),
                  ordinal, launches.size(), launches.front().ordinal, launches.back().ordinal),
        "xtrace ls lists the recorded launches");
  }
  if (it->status == bundle::LaunchStatus::skipped)
    return unsupported("launch {} ({}) was skipped when recording: {}", ordinal, it->kernel, it->skip_reason);
  Result<LaunchImage> launch = load_images(bundle, *it);
  if (!launch)
    return tl::make_unexpected(
        std::move(launch).error().in(fmt::format("launch {} of {}", ordinal, bundle.directory().string())));
  return launch;
}

}  // namespace xtrace::replay
