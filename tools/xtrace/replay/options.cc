#include "tools/xtrace/replay/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace xtrace::cli {
namespace {

using instrument::ProbeKind;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string Sample::text() const { return one_in == 1 ? "all" : fmt::format("cta:1/{}", one_in); }

Result<std::vector<ProbeKind>> parse_probes(const std::string& text) {
  std::vector<ProbeKind> probes;
  if (text == "all") {
    for (const auto& p : instrument::all_probes())
      if (p.in_all) probes.push_back(p.kind);
    return probes;
  }
  for (const std::string& name : split(text, ',')) {
    const auto all = instrument::all_probes();
    const auto row = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == name; });
    if (row == all.end()) {
      std::vector<std::string_view> names{"all"};
      for (const auto& p : all) names.push_back(p.name);
      return with_hint(bad_input("unknown probe '{}'", name), fmt::format("probes are: {}", fmt::join(names, ", ")));
    }
    if (std::find(probes.begin(), probes.end(), row->kind) == probes.end()) probes.push_back(row->kind);
  }
  return probes;
}

Result<Sample> parse_sample(const std::string& text) {
  if (text == "all") return Sample{};
  constexpr std::string_view prefix = "cta:1/";
  if (text.starts_with(prefix))
    if (const auto n = number<uint32_t>(std::string_view(text).substr(prefix.size())); n && *n >= 1) return Sample{*n};
  return with_hint(bad_input("unknown sample '{}'", text), "samples are: all, cta:1/N with N from 1");
}

Status parse_places(const std::vector<std::string>& texts, ReplayOptions& o) {
  for (const std::string& text : texts) {
    XT_TRY_STATUS(Place::parse(text));   // by itself, so that parentheses pair up
    o.at_text += o.at_text.empty() ? text : " or " + text;
  }
  if (texts.empty()) return {};
  XT_TRY(o.at, Place::parse(o.at_text));
  return {};
}

Result<BackendChoice> parse_backend(const std::string& text) {
  if (text == "auto") return BackendChoice::automatic;
  if (text == "driver") return BackendChoice::driver;
  if (text == "interp") return BackendChoice::interp;
  return with_hint(bad_input("unknown backend '{}'", text), "backends are: auto, driver, interp");
}

Result<std::vector<uint64_t>> parse_ordinals(const std::string& text) {
  std::vector<uint64_t> ordinals;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = number<uint64_t>(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : number<uint64_t>(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first > 1'000'000)
      return with_hint(bad_input("malformed launch list '{}'", text), "write ordinals of xtrace ls: 0,3-5");
    for (uint64_t n = *first; n <= *last; ++n) ordinals.push_back(n);
  }
  return ordinals;
}

}  // namespace xtrace::cli
