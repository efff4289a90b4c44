// xtrace probes: what probes there are (instrument/probe.h).
#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/json.h"
#include "instrument/probe.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/render_error.h"

namespace xtrace::cli {
namespace {

std::string as_json() {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const instrument::ProbeInfo& p : instrument::all_probes())
    array.push_back({{"name", p.name}, {"records", p.summary}, {"cost", p.cost}, {"needs", p.needs}, {"in_all", p.in_all}});
  return json_text(array, 1);
}

}  // namespace

int run_probes(int argc, char** argv) {
  bool json = false;
  CommandLine line("probes", {{"xtrace probes", "the probes of xtrace replay --probes=..."},
                              {"xtrace replay run.xtr --probes=count,mem --compare", "two of them, each by itself"}});
  line.flag("--json", json, "an array with one object a probe");
  if (const auto status = line.parse(argc, argv)) return *status;
  if (json) {
    fmt::print("{}", as_json());
    return 0;
  }
  size_t width = 0;
  for (const instrument::ProbeInfo& p : instrument::all_probes()) width = std::max(width, p.name.size());
  for (const instrument::ProbeInfo& p : instrument::all_probes()) {
    fmt::print("{:<{}}  {}{}\n", p.name, width, p.summary, p.in_all ? "  (in all)" : "");
    fmt::print("{:<{}}  cost   {}\n", "", width, p.cost);
    fmt::print("{:<{}}  needs  {}\n", "", width, p.needs);
  }
  fmt::print("\nAll of them need two aligned pairs of uniform registers and one more that the kernel does not use, and a\n"
             "scoreboard on which it counts no groups. More: docs/probes.md.\n");
  return 0;
}

}  // namespace xtrace::cli
