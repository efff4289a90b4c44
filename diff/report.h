// What `xtrace replay` says about one launch, as a struct, as a table for people, and as JSON
// (docs/report-schema.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "diff/interval_fidelity.h"
#include "diff/floor.h"
#include "diff/verdict.h"

namespace xtrace::diff {

struct LossCount {
  std::string name, severity;  // as in trace/loss.def
  uint64_t count = 0, bytes = 0;
};

struct Artefact {
  std::string kind;  // "trace", "timeline", "table"
  std::string path;
};

// One probe at one sampling rate, replayed and compared.
struct ConfigReport {
  std::string probe;    // "block"
  std::string sample;   // "all", "cta:1/16"
  std::string refused;  // not empty: the splicer or the backend refused, with reason; nothing else is filled
  Judgement judgement;
  double budget = default_budget;
  std::optional<SemanticEvidence> semantics;
  std::optional<TimingEvidence> timing;
  std::optional<SpatialEvidence> space;
  std::optional<IntervalFidelity> intervals;  // pair
  double microseconds = 0;  // median; 0 = not measured
  std::optional<Floor> floor;  // of the ratio
  uint64_t records = 0;
  uint64_t events = 0;      // that the records of one launch hold: executions of a block, or of an instruction for `inst`
  std::vector<LossCount> losses;
  std::vector<Artefact> artefacts;  // empty unless the trace earned it
  // What the probe found, where that is a table (count, mem, point probes): lines for people (may be fewer), and a JSON array of all.
  // Empty unless earned.
  std::string table_text, table_json;
  std::vector<std::string> not_covered;  // mem: executed instructions that touch memory and are not in the trace
};

// How the times of a launch were measured, the same for all configurations.
struct TimingConditions {
  uint32_t processes = 0;             // that gave samples
  uint32_t launches_per_sample = 1;
  double sample_microseconds = 0;     // median of the clean code's
  double tick_microseconds = 0;       // step of the event clock; 0 = not known
  double clock_mhz = 0;               // SM clock meanwhile; 0 = not read
  std::string caches;                 // what a sample finds in the L2
  double seconds = 0;                 // that measuring took
  RatioEstimate clean_again;          // A/A
  double order_effect = 0;            // of its pairs: what the second sample takes more than the first
};

// A part of sparse sites, timed by itself.
struct RotatedPart {
  std::string sample;       // "site:1/8+3"
  uint64_t records = 0;
  std::optional<TimingEvidence> timing;
  std::optional<Floor> floor;
};
// All parts of one probe at one rate (--rotate): what each costs, and the median of them.
struct Rotation {
  std::string probe, sample;          // "mem", "site:1/8"
  std::vector<RotatedPart> parts;     // those that hold something
  std::optional<TimingEvidence> timing;   // of each round the median part
  std::optional<Floor> floor;             // that of the part in the middle
};

struct ReplayReport {
  static constexpr uint32_t schema_version = 1;
  std::string bundle;
  uint64_t launch = 0;      // ordinal
  std::string kernel;       // mangled
  std::string kernel_text;  // demangled; may be empty
  Dim3 grid, block;
  std::string backend, device, driver;
  uint32_t clean_replays = 0;
  uint64_t unstable_bytes = 0, written_bytes = 0, memory_bytes = 0;
  std::optional<SampleStats> clean_time;
  std::optional<double> noise_floor;
  std::optional<TimingConditions> timing;
  std::string at;           // places that probes were limited to (--at); empty: everywhere
  std::vector<ConfigReport> configs;
  std::vector<Rotation> rotations;
  std::vector<std::string> warnings;
  std::vector<std::string> not_written;   // why trusted traces could not be, where the machine is to blame: in warnings as well

  // A search over the configurations (diff/frontier.h): its table and JSON, and the configuration that it chose.
  bool searched = false;
  std::string frontier_text, frontier_json;
  std::optional<size_t> chosen;

  // The worst of the configurations that were not refused; inconclusive without any. Of a search: that of the configuration it
  // chose, inconclusive when it chose none.
  Verdict verdict() const;
};

// At most 120 columns; longer words (paths, kernel names) are kept whole on lines of their own.
std::string render_text(const ReplayReport& report);
std::string render_json(const ReplayReport& report);

}  // namespace xtrace::diff
