// What the user asked `xtrace replay` for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "instrument/probe.h"
#include "tools/xtrace/replay/asked.h"
#include "tools/xtrace/replay/places.h"

namespace xtrace::cli {

struct Sample {
  uint32_t one_in = 1;               // cta:1/N
  std::optional<uint32_t> seed{};    // cta:1/N@SEED; else that of the replay
  wire::Selection select{};          // cta:0,5-7 warp:0 sm:3
  bool wave = false;                 // cta:wave: those that fit on the GPU at once; replaces select.ctas
  uint32_t sites_one_in = 1;         // site:1/N
  uint32_t nth = 1;                  // nth:N, of a site's executions
  std::optional<uint32_t> clocks{};  // clocks:all (0), clocks:N: Plan::clock_gap of inst
  std::optional<bool> whole_sectors{};   // sectors:whole, sectors:part
  std::vector<wire::Selection::Range> clusters{};   // cluster:0,5-7
  uint32_t part = 0;                 // which of them, where the parts are not merged
  uint32_t cta_part = 0;             // which class of CTAs, where one of a rotation is meant
  bool rotates_ctas = false;         // of cta:1/N all classes, one after the other
  bool choose = false;               // a rate that suits the launch: --rotate alone
  std::string text() const;          // "all" or "cta:1/16,site:1/8"
};

// Where launches run: on a GPU through its driver, on the CPU, there with results as late as the code allows, or whichever there is of the
// first two.
enum class BackendChoice : uint8_t { automatic, driver, interp, interp_late };

struct ReplayOptions {
  std::filesystem::path bundle;
  std::filesystem::path traces;      // where artefacts go
  std::filesystem::path keep_code;   // where spliced cubins go; empty: nowhere
  std::vector<instrument::ProbeKind> probes;
  std::vector<Sample> samples;
  bool sampled = false;              // they were asked for: else pair chooses one of its own
  AskedTexts asked;                  // for reg, custom and range
  bool rotate = false;               // sparse sites and classes of CTAs: all of them, one after the other
  std::optional<Place> at;           // for inst, pair, mem and the point probes; none: everywhere
  std::string at_text;
  bool search = false;               // emit the richest configuration that stays trusted within the budget, and no other
  bool compare = false;
  bool emit = true;                  // what trusted traces leave behind; false: nobody asks for more than the verdict
  bool quiet = false;
  std::string announced_by = "replay";   // the command that says on stderr which backend it took; empty: nobody
  double budget = 1.05;
  std::vector<double> more_budgets;  // that timing should decide as well, where it can
  uint32_t clean_replays = 3, rounds = 50, seed = 1;
  uint32_t processes = 5;            // that time a launch, this one included
  double time_limit_seconds = 10;    // for timing a launch; a round that was begun is ended
  uint32_t pair_sites = 512;         // most sites of the pair rotation
  uint32_t interval_sites = 16;      // of them measured at several sampling rates
  uint64_t max_slices = 2'000'000;
  double watchdog_seconds = 10;
  bool test_repeat = true;           // whether a launch can run on what it left behind; false: it was found that it can not
  int device = 0;
  BackendChoice backend = BackendChoice::automatic;
};

// Ranges that the prologue tells apart: each costs three instructions and their latency.
inline constexpr size_t most_ranges = 16;
// In order, without those that touch.
std::vector<wire::Selection::Range> joined(std::vector<wire::Selection::Range> ranges);

// "all", "block,inst", ...: usage errors list what there is.
Result<std::vector<instrument::ProbeKind>> parse_probes(const std::string& text);
Result<Sample> parse_sample(const std::string& text);
// Several are joined by or; the text of all goes into `o`.
Status parse_places(const std::vector<std::string>& texts, ReplayOptions& o);
// "auto", "driver", "interp" or "interp-late".
Result<BackendChoice> parse_backend(const std::string& text);
// A GPU was named, and the CPU as well?
Status device_fits(const ReplayOptions& o);
// "0,3-5" as a set of ordinals.
Result<std::vector<uint64_t>> parse_ordinals(const std::string& text);

}  // namespace xtrace::cli
