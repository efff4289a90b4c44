// What `xtrace record` tells the injected library, and how it travels: by environment variables, from the one
// table at the end of this file, written by the command and read by the library. Also the two small grammars
// of its options, so that a bad option stops the command before the application starts.
//
// The session directory is a private directory of the command, outside the bundle, so that it works on a full
// disk and before a bundle exists. It holds:
//   owner     created with O_EXCL by the first process that initialises CUDA: this process records, all
//   others leave messages  appended by the library, one line a message: <kind> TAB <text>; kinds are
//   message_* below
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace xtrace::bundle {

// Kinds of messages. `fatal`: recording could not start or had to stop; `warning`: something is worth
// knowing; `stat`: "name value".
inline constexpr char message_fatal[] = "fatal";
inline constexpr char message_warning[] = "warning";
inline constexpr char message_stat[] = "stat";

// A skip reason of a launch is "<class>: <details>"; the classes are grouped in the summary.

struct RecordSettings {
  std::string output;                // absolute path of the bundle directory
  std::string session;               // absolute path of the session directory
  std::string kernel;                // POSIX extended regular expression; empty = every kernel
  std::string launches;              // LaunchSpec; empty = every launch
  std::string scope = "reachable";   // or "all"
  uint64_t max_bytes = 32ull << 30;  // memory of one launch; 0 = no limit
  uint64_t zstd_level = 1;
  uint64_t overwrite = 0;  // 0 or 1
  uint64_t drain_timeout_ms = 10000;
  std::string cupti;        // path of libcupti given by the user; empty = look around
  std::string cupti_paths;  // colon-separated directories to look in
};

// --- launches: "0,5-9,every:100,skip:10,max:20"
//
// Ordinals are counted from 0 over the launches whose kernel matches --kernel (all launches without it).
//   N, N-M     these ordinals (inclusive)
//   every:N    each N-th launch, counted from the first that is not skipped
//   skip:N     never the first N
//   max:N      at most N launches are taken (whether they could then be recorded or not)
// N, N-M and every:N add up; without any of them every launch is taken.
struct LaunchSpec {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // inclusive
  uint64_t every = 0;                                 // 0 = not given
  uint64_t skip = 0;
  uint64_t max = UINT64_MAX;

  static Result<LaunchSpec> parse(std::string_view text);
  // Whether ordinal `n` is asked for, `max` apart.
  bool covers(uint64_t n) const {
    if (n < skip) return false;
    if (ranges.empty() && every == 0) return true;
    if (every != 0 && (n - skip) % every == 0) return true;
    return std::any_of(ranges.begin(), ranges.end(), [n](auto& r) { return r.first <= n && n <= r.second; });
  }
  // No ordinal from `n` on is asked for.
  bool over_at(uint64_t n) const {
    if (every != 0 || ranges.empty()) return false;
    return std::all_of(ranges.begin(), ranges.end(), [n](auto& r) { return r.second < n; });
  }
};

inline Result<uint64_t> parse_count(std::string_view text, std::string_view what) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    return bad_input("{}: expected a whole number, found '{}'", what, text);
  return value;
}

inline Result<LaunchSpec> LaunchSpec::parse(std::string_view text) {
  LaunchSpec spec;
  if (text.empty()) return spec;
  bool more = true;
  while (more) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    if (const size_t colon = item.find(':'); colon != std::string_view::npos) {
      const std::string_view word = item.substr(0, colon);
      uint64_t* target = word == "every"  ? &spec.every
                         : word == "skip" ? &spec.skip
                         : word == "max"  ? &spec.max
                                          : nullptr;
      if (target == nullptr)
        return with_hint(bad_input("launches: unknown word '{}'", word),
                         "known are every:N, skip:N and max:N");
      XT_TRY(const uint64_t n, parse_count(item.substr(colon + 1), fmt::format("launches: {}", word)));
      if (n == 0 && word != "skip")
        return bad_input("launches: {}:0 would take nothing; expected 1 or more", word);
      *target = n;
      continue;
    }
    const size_t dash = item.find('-');
    XT_TRY(const uint64_t first, parse_count(item.substr(0, dash), "launches"));
    uint64_t last = first;
    if (dash != std::string_view::npos) {
      XT_TRY(const uint64_t n, parse_count(item.substr(dash + 1), "launches"));
      last = n;
    }
    if (last < first) return bad_input("launches: range {}-{} is empty; expected first-last", first, last);
    spec.ranges.emplace_back(first, last);
  }
  return spec;
}

// "512M", "4G", "123": bytes, with K, M, G or T for powers of 1024.
inline Result<uint64_t> parse_size(std::string_view text) {
  constexpr std::string_view suffixes = "KMGT";
  unsigned shift = 0;
  std::string_view digits = text;
  if (!text.empty()) {
    const char c = static_cast<char>(text.back() & ~0x20);
    if (const size_t i = suffixes.find(c); i != std::string_view::npos && (text.back() & 0x40) != 0) {
      shift = 10 * static_cast<unsigned>(i + 1);
      digits.remove_suffix(1);
    }
  }
  auto n = parse_count(digits, "size");
  if (!n) return bad_input("size: expected a number with K, M, G or T, found '{}'", text);
  if (*n > (UINT64_MAX >> shift)) return bad_input("size: '{}' does not fit 64 bits", text);
  return *n << shift;
}

// --- the table
struct RecordVariable {
  const char* name;
  std::variant<std::string RecordSettings::*, uint64_t RecordSettings::*> field;
};
inline constexpr char record_output_variable[] = "XTRACE_RECORD_OUTPUT";
inline constexpr RecordVariable record_variables[] = {
    {record_output_variable, &RecordSettings::output},
    {"XTRACE_RECORD_SESSION", &RecordSettings::session},
    {"XTRACE_RECORD_KERNEL", &RecordSettings::kernel},
    {"XTRACE_RECORD_LAUNCHES", &RecordSettings::launches},
    {"XTRACE_RECORD_SCOPE", &RecordSettings::scope},
    {"XTRACE_RECORD_MAX_BYTES", &RecordSettings::max_bytes},
    {"XTRACE_RECORD_ZSTD_LEVEL", &RecordSettings::zstd_level},
    {"XTRACE_RECORD_OVERWRITE", &RecordSettings::overwrite},
    {"XTRACE_RECORD_DRAIN_TIMEOUT_MS", &RecordSettings::drain_timeout_ms},
    {"XTRACE_CUPTI", &RecordSettings::cupti},
    {"XTRACE_CUPTI_PATHS", &RecordSettings::cupti_paths},
};

inline std::vector<std::pair<std::string, std::string>> to_environment(const RecordSettings& settings) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const RecordVariable& v : record_variables) {
    if (auto text = std::get_if<std::string RecordSettings::*>(&v.field))
      out.emplace_back(v.name, settings.*(*text));
    else
      out.emplace_back(v.name, std::to_string(settings.*std::get<uint64_t RecordSettings::*>(v.field)));
  }
  return out;
}

// `get` is getenv, or a stand-in in tests. Variables that are not set keep their defaults; output and session
// must be.
template <typename Get>
Result<RecordSettings> settings_from_environment(Get&& get) {
  RecordSettings settings;
  for (const RecordVariable& v : record_variables) {
    const char* value = get(v.name);
    if (value == nullptr) continue;
    if (auto text = std::get_if<std::string RecordSettings::*>(&v.field)) {
      settings.*(*text) = value;
    } else {
      XT_TRY(const uint64_t n, parse_count(value, v.name));
      settings.*std::get<uint64_t RecordSettings::*>(v.field) = n;
    }
  }
  if (settings.output.empty() || settings.session.empty())
    return with_hint(bad_input("{} or XTRACE_RECORD_SESSION is not set", record_output_variable),
                     "start the application with: xtrace record -o run.xtr -- ./app");
  if (settings.scope != "reachable" && settings.scope != "all")
    return bad_input("scope: expected 'reachable' or 'all', found '{}'", settings.scope);
  return settings;
}

}  // namespace xtrace::bundle
