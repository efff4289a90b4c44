#include "tools/xtrace/incomplete.h"

#include <fmt/format.h>

#include "tools/xtrace/table.h"

namespace xtrace::cli {

std::string what_is_missing(const bundle::BundleReader& reader) {
  const bundle::BundleInfo& info = reader.info();
  if (info.state == bundle::BundleState::complete) return {};
  const std::string why = info.warnings.empty() ? "its recorder did not end, or runs yet" : printable(info.warnings.front());
  const size_t held = reader.launches().size();
  return info.launches_seen > held ? fmt::format("is incomplete: it holds {} of {} launches ({})", held, info.launches_seen, why)
                                   : fmt::format("is incomplete: it holds {} launches, there may have been more ({})", held, why);
}

std::string what_it_holds(const bundle::BundleReader& reader) {
  const std::string missing = what_is_missing(reader);
  return missing.empty() ? fmt::format("holds {} launches", reader.launches().size()) : missing;
}

}  // namespace xtrace::cli
