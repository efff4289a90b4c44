// What `xtrace check` found out: one row per launch, probe and sampling rate. Pure data; filled by evaluate.h
// and drift.h, shown by table.h, json.h and junit.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diff/verdict.h"

namespace xtrace::check {

// Where the launches were replayed. Numbers of two environments are not comparable.
struct Environment {
  std::string backend, device, driver;
  bool operator==(const Environment&) const = default;
};
std::string text_of(const Environment& e);  // "driver on NVIDIA H200, driver 13.0 (580.159.04)"

struct Change {
  uint64_t before = 0, after = 0;  // in the clean and in the instrumented kernel
  bool operator==(const Change&) const = default;
};

// Measured on hardware; of whole launches, instrumented / clean.
struct Time {
  double ratio = 0, low = 0, high = 0;  // 95 %; low and high not finite: too few rounds
  uint64_t rounds = 0;
  std::optional<double> noise_floor;
  uint32_t processes = 0;               // this and the rest: diff::TimingEvidence
  uint64_t pairs = 0, throttled = 0;
  double sample_ticks = 0;
};

struct Metrics {
  std::optional<Time> time;                              // none: not measured
  Change registers, occupancy, local_bytes, code_bytes;  // occupancy: CTAs per SM, 0 = not known
  uint64_t trace_bytes = 0, records = 0;
};

// One reason for a row's verdict. The codes are listed in docs/check.md.
struct Finding {
  std::string code;
  diff::Verdict verdict = diff::Verdict::trusted;  // trusted: a note, moves nothing
  std::string text;
};

struct Row {
  std::string bundle;  // the name of its folder: paths differ between machines
  uint64_t launch = 0;
  std::string kernel, kernel_text;  // mangled, demangled
  std::array<uint32_t, 3> grid{}, block{};
  std::string probe, sample;
  std::string refused;  // not empty: why the probe was not tried; then there are no metrics
  std::optional<Metrics> metrics;
  diff::Verdict semantics = diff::Verdict::inconclusive;
  std::optional<diff::Verdict> timing;  // none: not judged, and `timing_why` says why
  std::string timing_why;
  std::string reasons;  // codes of `xtrace explain` that speak against semantics
  std::vector<Finding> findings;

  diff::Verdict verdict() const;  // worst of the findings
  void add(std::string code, diff::Verdict verdict, std::string text);
};

struct RunError {
  std::string where;  // "run.xtr launch 3", "baseline"
  std::string message;
  int exit = 3;
};

struct CheckRun {
  std::optional<Environment> environment;  // none: no launch was replayed
  std::string baseline;                    // path; empty without
  std::vector<Row> rows;
  std::vector<Finding> findings;  // about no single row
  std::vector<RunError> errors;

  bool timing_judged() const;     // of any row
  diff::Verdict verdict() const;  // worst of rows and findings; inconclusive when nothing was checked
  int exit_status() const;        // an error outweighs the verdict
};

// "run.xtr launch 3 sgemm, block all"
std::string where(const Row& row);

}  // namespace xtrace::check
