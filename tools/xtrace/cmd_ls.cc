// xtrace ls: what is in a bundle.
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "capture/bundle/bundle_reader.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/launch_summary.h"
#include "tools/xtrace/quantity.h"
#include "tools/xtrace/render_error.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

using bundle::BundleReader;
using bundle::BundleState;
using bundle::LaunchRecord;
using bundle::LaunchStatus;
using nlohmann::json;

const char* name_of(BundleState state) { return state == BundleState::complete ? "complete" : "incomplete"; }

// What the launches refer to, as if nothing were shared or compressed.
uint64_t raw_bytes(const BundleReader& reader) {
  uint64_t total = 0;
  for (const LaunchRecord& l : reader.launches()) {
    total += reader.code_size(l.code);
    for (const bundle::Region& r : l.regions) total += r.size * (r.after.empty() ? 1 : 2);
  }
  return total;
}

uint64_t recorded_count(const BundleReader& reader) {
  return static_cast<uint64_t>(
      std::count_if(reader.launches().begin(), reader.launches().end(),
                    [](const auto& l) { return l.status == LaunchStatus::recorded; }));
}

std::string gpu_line(const bundle::Environment& e) {
  return fmt::format("{}, sm_{}, {} SMs, {}; driver {}{}, recorder built with CUDA {}",
                     e.gpu_name.empty() ? "unknown" : printable(e.gpu_name), e.sm, e.sm_count,
                     human_bytes(e.memory_bytes), cuda_version(e.driver_version),
                     e.kernel_driver.empty() ? "" : fmt::format(" ({})", printable(e.kernel_driver)),
                     cuda_version(e.toolkit_version));
}

void print_header(const BundleReader& reader) {
  const bundle::BundleInfo& info = reader.info();
  const bundle::Environment& e = info.environment;
  const uint64_t raw = raw_bytes(reader), stored = reader.pack_bytes();
  fmt::print("{}: {}, {} of {} launches recorded\n", reader.directory().string(), name_of(info.state),
             recorded_count(reader), info.launches_seen);
  fmt::print(
      "  program   {}{}\n", printable(shell_quoted(e.command)),
      info.application_exit_status < 0 ? "" : fmt::format(" (exit status {})", info.application_exit_status));
  fmt::print("  recorded  {} on {}\n", printable(e.started_at), printable(e.hostname));
  fmt::print("  GPU       {}\n", gpu_line(e));
  fmt::print("  stored    {} in {} chunks for {} of memory and code", human_bytes(stored),
             reader.chunk_count(), human_bytes(raw));
  if (raw != 0 && stored != 0)
    fmt::print(": {:.1f} times smaller", static_cast<double>(raw) / static_cast<double>(stored));
  fmt::print("\n");
  for (const std::string& w : info.warnings) fmt::print("  warning   {}\n", printable(with_readable_names(w)));
}

// "graph 3, node 17"; empty for a kernel launched by itself.
std::string graph_cell(const LaunchRecord& l) {
  return l.graph.any() ? fmt::format("graph {}, node {}", l.graph.launch, l.graph.node) : "";
}

std::vector<std::string> row(const LaunchRecord& l) {
  const std::string kernel = l.kernel.empty() ? "-" : demangled(l.kernel);
  if (l.status == LaunchStatus::skipped)
    return {fmt::format("{}", l.ordinal),
            kernel,
            human_dim(l.grid),
            human_dim(l.block),
            human_dim(l.cluster),
            human_bytes(l.dynamic_shared_bytes),
            "-",
            "-",
            "-",
            "-",
            "skipped",
            graph_cell(l)};
  const MemorySums sums = memory_sums(l);
  return {fmt::format("{}", l.ordinal),
          kernel,
          human_dim(l.grid),
          human_dim(l.block),
          human_dim(l.cluster),
          human_bytes(l.dynamic_shared_bytes),
          human_bytes(l.param_block.size()),
          fmt::format("{}", l.regions.size()),
          human_bytes(sums.bytes),
          has_after(l) ? human_bytes(sums.changed) : "-",
          has_after(l) ? "recorded" : "recorded, failed",
          graph_cell(l)};
}

// One line a reason: a program that launches graphs has thousands of launches skipped for the same one.
void print_skip_reasons(const BundleReader& reader) {
  constexpr size_t shown = 8;
  std::map<std::string, std::vector<uint64_t>> reasons;
  for (const LaunchRecord& l : reader.launches())
    if (l.status == LaunchStatus::skipped) reasons[l.skip_reason].push_back(l.ordinal);
  if (!reasons.empty()) fmt::print("\n");
  for (const auto& [reason, ordinals] : reasons) {
    const size_t listed = std::min(shown, ordinals.size());
    fmt::print("skipped: {} (launch {}{})\n", printable(with_readable_names(reason)),
               fmt::join(ordinals.begin(), ordinals.begin() + static_cast<ptrdiff_t>(listed), ", "),
               listed < ordinals.size() ? fmt::format(" and {} more", ordinals.size() - listed) : "");
  }
}

void print_table(const BundleReader& reader) {
  if (reader.launches().empty()) {
    fmt::print("\nno launches\n");
    return;
  }
  // Only a program that launches graphs has the last column.
  const bool graphs = std::any_of(reader.launches().begin(), reader.launches().end(), [](const LaunchRecord& l) { return l.graph.any(); });
  std::vector<Column> columns({{"launch", Align::right},
               {"kernel", Align::left, shorten_kernel},
               {"grid"},
               {"block"},
               {"cluster"},
               {"dynamic", Align::right},
               {"params", Align::right},
               {"regions", Align::right},
               {"memory", Align::right},
               {"changed", Align::right},
               {"status"}});
  if (graphs) columns.push_back({"from"});
  Table table(columns);
  for (const LaunchRecord& l : reader.launches()) {
    std::vector<std::string> cells = row(l);
    cells.resize(columns.size());
    table.add_row(cells);
  }
  fmt::print("\n{}", table.render(terminal_width()));
  print_skip_reasons(reader);
}

json json_of(const Dim3& d) { return {d.x, d.y, d.z}; }

json json_of(const LaunchRecord& l) {
  const MemorySums sums = memory_sums(l);
  json j = {{"ordinal", l.ordinal},
            {"status", l.status == LaunchStatus::recorded ? "recorded" : "skipped"},
            {"kernel", l.kernel},
            {"kernel_demangled", demangled(l.kernel)},
            {"grid", json_of(l.grid)},
            {"block", json_of(l.block)},
            {"cluster", json_of(l.cluster)},
            {"dynamic_shared_bytes", l.dynamic_shared_bytes},
            {"param_bytes", l.param_block.size()},
            {"regions", l.regions.size()},
            {"memory_bytes", sums.bytes},
            {"snapshot_seconds", l.snapshot_seconds}};
  // The memory after the launch is known only if it succeeded.
  j["changed_bytes"] = has_after(l) ? json(sums.changed) : json();
  if (l.graph.any()) j["graph"] = {{"launch", l.graph.launch}, {"node", l.graph.node}};
  if (l.status == LaunchStatus::skipped) j["skip_reason"] = l.skip_reason;
  return j;
}

json json_of(const BundleReader& reader) {
  const bundle::BundleInfo& info = reader.info();
  const bundle::Environment& e = info.environment;
  json launches = json::array();
  for (const LaunchRecord& l : reader.launches()) launches.push_back(json_of(l));
  return {{"bundle", reader.directory().string()},
          {"state", name_of(info.state)},
          {"format_version", info.format_version},
          {"launches_seen", info.launches_seen},
          {"application_exit_status", info.application_exit_status},
          {"environment",
           {{"gpu_name", e.gpu_name},
            {"gpu_uuid", e.gpu_uuid},
            {"sm", e.sm},
            {"sm_count", e.sm_count},
            {"memory_bytes", e.memory_bytes},
            {"l2_bytes", e.l2_bytes},
            {"sm_clock_khz", e.sm_clock_khz},
            {"memory_clock_khz", e.memory_clock_khz},
            {"driver_version", e.driver_version},
            {"kernel_driver", e.kernel_driver},
            {"toolkit_version", e.toolkit_version},
            {"hostname", e.hostname},
            {"started_at", e.started_at},
            {"command", e.command}}},
          {"pack_bytes", reader.pack_bytes()},
          {"chunk_count", reader.chunk_count()},
          {"raw_bytes", raw_bytes(reader)},
          {"warnings", info.warnings},
          {"launches", launches}};
}

}  // namespace

int run_ls(int argc, char** argv) {
  std::string path;
  bool as_json = false;
  CommandLine line("ls", {{"xtrace ls run.xtr", "the bundle and its launches, one line each"},
                          {"xtrace ls run.xtr --json", "the same for a program, sizes in bytes"},
                          {"xtrace ls run.xtr | grep gemm", "launches of kernels with 'gemm' in the name"}});
  line.positional("BUNDLE", path, "directory written by xtrace record");
  line.flag("--json", as_json, "print one JSON object");
  if (const auto status = line.parse(argc, argv)) return *status;

  const auto reader = BundleReader::open(path);
  if (!reader) return report("ls", reader.error());
  if (as_json) {
    // Names and arguments come from the application and need not be UTF-8.
    fmt::print("{}", json_text(json_of(**reader), 2));
    return 0;
  }
  print_header(**reader);
  print_table(**reader);
  return 0;
}

}  // namespace xtrace::cli
