#include "tools/xtrace/replay/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "tools/xtrace/closest.h"

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

std::string Sample::text() const {
  std::vector<std::string> parts;
  const auto list = [&](std::string_view key, const std::vector<wire::Selection::Range>& ranges) {
    std::vector<std::string> numbers;
    for (const auto& r : ranges) numbers.push_back(r.first == r.last ? fmt::format("{}", r.first) : fmt::format("{}-{}", r.first, r.last));
    if (!ranges.empty()) parts.push_back(fmt::format("{}:{}", key, fmt::join(numbers, ",")));
  };
  if (one_in != 1) parts.push_back(fmt::format("cta:1/{}{}{}", one_in, seed ? fmt::format("@{}", *seed) : "", cta_part == 0 ? "" : fmt::format("+{}", cta_part)));
  if (wave) parts.push_back("cta:wave");
  else if (clusters.empty()) list("cta", select.ctas);
  list("warp", select.warps);
  list("sm", select.sms);
  list("cluster", clusters);
  if (nth != 1) parts.push_back(fmt::format("nth:{}", nth));
  if (sites_one_in != 1) parts.push_back(fmt::format("site:1/{}{}", sites_one_in, part == 0 ? "" : fmt::format("+{}", part)));
  if (clocks) parts.push_back(*clocks == 0 ? "clocks:all" : fmt::format("clocks:{}", *clocks));
  if (whole_sectors) parts.push_back(*whole_sectors ? "sectors:whole" : "sectors:part");
  return parts.empty() ? "all" : fmt::format("{}", fmt::join(parts, ","));
}

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
      std::vector<std::string_view> names;
      for (const auto& p : all) names.push_back(p.name);
      return with_hint(name == "all" ? bad_input("'all' among other probes: '{}'", text) : bad_input("unknown probe '{}'", name),
                       did_you_mean(name, names) + fmt::format("probes are: {}; or all alone, for block, inst and pair", fmt::join(names, ", ")));
    }
    if (std::find(probes.begin(), probes.end(), row->kind) == probes.end()) probes.push_back(row->kind);
  }
  return probes;
}

std::vector<wire::Selection::Range> joined(std::vector<wire::Selection::Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<wire::Selection::Range> out;
  for (const auto& r : ranges) {
    if (!out.empty() && r.first <= uint64_t{out.back().last} + 1) out.back().last = std::max(out.back().last, r.last);
    else out.push_back(r);
  }
  return out;
}

namespace {

constexpr uint32_t most_clock_gap = 1000;      // stall cycles: longer than any block that is no exception
constexpr uint32_t most_between = 1u << 30;   // executions: the sign of a counter says when

tl::unexpected<Error> unknown_sample(const std::string& part) {
  if (part.starts_with("lane:"))
    return with_hint(bad_input("lanes are not sampled: a store costs as much for one lane as for 32"), "sample CTAs, warps or sites");
  if (part.starts_with("time:") || part.starts_with("window:"))
    return with_hint(bad_input("a launch is traced from its first cycle to its last: a probe that asks the clock whether to record costs as much "
                               "as the record"),
                     "sample CTAs, warps, sites or every nth execution, and cut the trace by its times");
  if (part.starts_with("cluster:1/"))
    return with_hint(bad_input("clusters are sampled by list: cta:1/N takes CTAs, whatever cluster they are of"), "write cluster:0,5-7");
  if (part.starts_with("warp:1/") || part.starts_with("sm:1/"))
    return with_hint(bad_input("'{}': warps of a CTA and SMs are sampled by list", part), "write warp:0-3, sm:0,4; one CTA in N: cta:1/N");
  if (part == "all") return with_hint(bad_input("'all' among other samples"), "all stands alone; what limits it needs no all beside it");
  return with_hint(bad_input("unknown sample '{}'", part),
                   "samples are: all, cta:1/N, cta:1/N@SEED, cta:0,5-7, cta:wave, cluster:0, warp:0-3, sm:0, site:1/N, nth:N, clocks:all, clocks:N with N from 1, sectors:whole, sectors:part; "
                   "joined by commas");
}

// "0,5-7", sorted and joined where they touch.
std::optional<std::vector<wire::Selection::Range>> ranges_of(const std::string& text) {
  std::vector<wire::Selection::Range> ranges;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = number<uint32_t>(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : number<uint32_t>(std::string_view(part).substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    ranges.push_back({*first, *last});
  }
  return joined(std::move(ranges));
}

Status add_sample(const std::string& part, Sample& sample) {
  const size_t colon = part.find(':');
  const std::string key = part.substr(0, colon), value = colon == std::string::npos ? "" : part.substr(colon + 1);
  if (value.starts_with("1/") && (key == "cta" || key == "site")) {
    const size_t at = key == "cta" ? value.find('@') : std::string::npos;
    const auto n = number<uint32_t>(std::string_view(value).substr(2, at == std::string::npos ? at : at - 2));
    const auto seed = at == std::string::npos ? std::optional<uint32_t>() : number<uint32_t>(std::string_view(value).substr(at + 1));
    if (!n || *n < 1 || (at != std::string::npos && !seed)) return unknown_sample(part);
    (key == "cta" ? sample.one_in : sample.sites_one_in) = *n;
    if (seed) sample.seed = seed;
    return {};
  }
  if (key == "nth") {
    const auto n = number<uint32_t>(value);
    if (!n || *n < 1 || *n > most_between) return unknown_sample(part);
    sample.nth = *n;
    return {};
  }
  if (key == "clocks") {
    const auto n = value == "all" ? std::optional<uint32_t>(0) : number<uint32_t>(value);
    if (!n || (*n == 0 && value != "all") || *n > most_clock_gap) return unknown_sample(part);
    sample.clocks = *n;
    return {};
  }
  if (key == "sectors") {
    if (value != "whole" && value != "part") return unknown_sample(part);
    sample.whole_sectors = value == "whole";
    return {};
  }
  if (part == "cta:wave") {
    sample.wave = true;
    return {};
  }
  auto* to = key == "cta" ? &sample.select.ctas : key == "warp" ? &sample.select.warps : key == "sm" ? &sample.select.sms
             : key == "cluster" ? &sample.clusters : nullptr;
  const auto ranges = ranges_of(value);
  if (to == nullptr || !ranges) return unknown_sample(part);
  if (key != "cluster" && ranges->size() > most_ranges)
    return with_hint(bad_input("{}: {} separate ranges, at most {} are told apart on the GPU", part, ranges->size(), most_ranges),
                     "write ranges: cta:0-7,32-39");
  *to = *ranges;
  return {};
}

}  // namespace

Result<Sample> parse_sample(const std::string& text) {
  if (text == "all") return Sample{};
  Sample sample;
  std::vector<std::string> parts;
  for (const std::string& word : split(text, ',')) {   // what has no key belongs to the list in front of it
    if (word.find(':') == std::string::npos && !parts.empty()) parts.back() += "," + word;
    else parts.push_back(word);
  }
  for (const std::string& part : parts) XT_TRY_STATUS(add_sample(part, sample));
  if (sample.wave + !sample.select.ctas.empty() + !sample.clusters.empty() > 1)
    return bad_input("'{}': more than one of cta:wave, a list of CTAs, and a list of clusters", text);
  return sample;
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
  if (text == "interp-late") return BackendChoice::interp_late;
  return with_hint(bad_input("unknown backend '{}'", text), "backends are: auto, driver, interp, interp-late");
}

Status device_fits(const ReplayOptions& o) {
  if (o.device == 0 || (o.backend != BackendChoice::interp && o.backend != BackendChoice::interp_late)) return {};
  return with_hint(bad_input("--device {} on the CPU interpreter", o.device), "--device is the ordinal of a GPU: leave it out, or --backend");
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
