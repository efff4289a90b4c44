// What `xtrace check` demands of a kernel (docs/check.md). A policy file is [default] and any number of
// [kernel."regex"] sections; what a later matching section sets replaces what an earlier one set.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tools/xtrace/check/toml.h"
#include "base/kernel_pattern.h"

namespace xtrace::check {

constexpr size_t probe_count = 3;
constexpr std::array<std::string_view, probe_count> probe_names{"block", "inst", "pair"};
std::optional<size_t> probe_index(std::string_view name);

// What is held against a baseline.
enum class Metric : uint8_t { ratio, registers, occupancy, code_bytes, records, trace_bytes };
constexpr size_t metric_count = 6;
constexpr std::array<std::string_view, metric_count> metric_names{"ratio",      "registers", "occupancy",
                                                                  "code_bytes", "records",   "trace_bytes"};

using PerProbe = std::array<std::optional<double>, probe_count>;  // no value: no limit

struct Limits {
  std::vector<std::string> require{"block"};  // probes to replay under; empty: the kernel is not checked
  std::string sample = "all";                 // as --sample of replay
  bool semantics = true;                      // must be trusted
  bool occupancy = true;                      // not fewer CTAs per SM
  bool local_memory = true;                   // not more bytes per thread
  bool timing_required = false;               // a time that was not measured is a doubt
  PerProbe budget;                            // largest ratio of times
  PerProbe code_growth;                       // largest ratio of code bytes
  PerProbe bytes_per_record;  // most trace bytes per record; not for pair: its records are of many replays
  std::optional<double> added_registers;  // most per thread
  // Largest relative change against a baseline: 0.02 = 2 %.
  std::array<double, metric_count> drift{0.02, 0.02, 0.02, 0.02, 0.02, 0.02};

  std::optional<double> of(const PerProbe& limit, std::string_view probe) const;
};

class Policy {
 public:
  // `name` heads error messages: "overhead.toml: line 3: unknown key ...". Unknown sections, unknown keys and
  // values out of range are refused.
  static Result<Policy> parse(std::string_view text, const std::string& name);

  // A section applies when its regular expression matches within the mangled or the demangled name.
  Limits limits_for(const std::string& kernel, const std::string& kernel_text) const;
  // Regular expressions of the sections that none of these kernels (mangled and demangled) matches.
  std::vector<std::string> idle_sections(const std::map<std::string, std::string>& kernels) const;

 private:
  struct Setting {
    size_t row = 0;                // of the table of keys
    std::optional<size_t> member;  // budget.block: 0; none: of all members
    TomlValue value;
  };
  struct Section {
    std::optional<KernelPattern> kernel;  // none: [default]
    std::string text;                     // of that
    std::vector<Setting> settings;
  };
  static Result<Setting> setting_of(const TomlEntry& entry);
  std::vector<Section> sections_;  // [default] first, then in the order of the file
};

}  // namespace xtrace::check
