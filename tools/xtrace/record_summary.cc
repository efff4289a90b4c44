#include "tools/xtrace/record_summary.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/notice.h"
#include "capture/bundle/bundle_reader.h"
#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/quantity.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

namespace fs = std::filesystem;
using bundle::RecordSettings;

// What to do about launches that were skipped, by the class of the reason (recorder_launch.cc).
struct Advice {
  std::string_view reason, text;
};
constexpr Advice advice[] = {
    {"graph launch", "kernels of this graph can be recorded where the program runs without CUDA graphs (PyTorch: no CUDAGraph, no "
                     "mode=\"reduce-overhead\"; JAX: XLA_FLAGS=--xla_gpu_enable_command_buffer=)"},
    {"size limit", "--max-bytes 0 lifts the limit; a program that takes most of the GPU at once may be told to take less (JAX: "
                   "XLA_PYTHON_CLIENT_PREALLOCATE=false), --kernel and --launches choose few launches"},
    {"busy device", "--drain-timeout waits longer; a kernel that waits for the host can not be recorded"},
    {"other device", "record the program once more with CUDA_VISIBLE_DEVICES naming that device alone"},
    {"code", "--kernel and --launches choose another launch of the kernel"},
};

std::string_view advice_for(std::string_view reason) {
  for (const Advice& a : advice)
    if (a.reason == reason) return a.text;
  return {};
}

// As it can be typed here.
std::string shown(const std::string& absolute) {
  std::error_code none;
  const fs::path here = fs::path(absolute).lexically_relative(fs::current_path(none));
  return here.empty() || here.native().starts_with("..") ? absolute : here.string();
}

uint64_t captured_count(const RecordMessages& messages) {
  const auto it = messages.stats.find("captured");
  return it == messages.stats.end() ? 0 : std::strtoull(it->second.c_str(), nullptr, 10);
}

std::string how_it_ended(const ChildEnd& end) {
  return WIFSIGNALED(end.status) ? fmt::format("was ended by signal {}", WTERMSIG(end.status))
                                 : fmt::format("ended with exit status {}", WEXITSTATUS(end.status));
}

}  // namespace

RecordMessages read_messages(const std::string& session) {
  RecordMessages m;
  std::error_code ec;
  m.claimed = fs::exists(session + "/owner", ec);
  std::ifstream in(session + "/messages");
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    const std::string kind = line.substr(0, tab), text = line.substr(tab + 1);
    if (kind == bundle::message_fatal) m.fatal.push_back(text);
    if (kind == bundle::message_warning) m.warnings.push_back(text);
    if (kind == bundle::message_stat)
      if (const size_t space = text.find(' '); space != std::string::npos)
        m.stats[text.substr(0, space)] = text.substr(space + 1);
  }
  return m;
}

Result<RecordOutcome> read_outcome(const std::string& output) {
  XT_TRY(const auto reader, bundle::BundleReader::open(output));
  RecordOutcome o;
  o.complete = reader->info().state == bundle::BundleState::complete;
  o.seen = reader->info().launches_seen;
  o.stored = reader->pack_bytes();
  for (const bundle::LaunchRecord& l : reader->launches()) {
    o.recorder_seconds += l.snapshot_seconds;
    if (l.status == bundle::LaunchStatus::skipped) {
      ++o.skipped;
      RecordOutcome::Skips& s = o.by_class[l.skip_reason.substr(0, l.skip_reason.find(": "))];
      if (s.count++ == 0) s.first = l.skip_reason;
      continue;
    }
    ++o.recorded;
    for (const bundle::Region& r : l.regions) o.raw += r.size * (r.after.empty() ? 1 : 2);
  }
  o.seen = std::max(o.seen, o.recorded + o.skipped);
  return o;
}

void print_summary(const RecordSettings& settings, const RecordOutcome& o, const ChildEnd& end,
                   const RecordMessages& messages) {
  if (o.complete)
    notice("xtrace record: {}: {} launches seen, {} recorded, {} skipped, {} not asked for\n",
           shown(settings.output), o.seen, o.recorded, o.skipped, o.seen - o.recorded - o.skipped);
  else  // nobody counted what came after the end
    notice("xtrace record: {}: incomplete, {} launches recorded, {} skipped\n", shown(settings.output),
           o.recorded, o.skipped);
  notice("  memory   {} stored as {}\n", human_bytes(o.raw), human_bytes(o.stored));
  notice("  time     {:.1f} s, of which {:.1f} s for recording\n", end.seconds, o.recorder_seconds);
  if (const uint64_t captured = captured_count(messages); captured != 0)
    notice("  captured {} {} into graphs: kernels of a graph count when it is launched\n", captured, captured == 1 ? "launch went" : "launches went");
  for (const auto& [name, skips] : o.by_class) {
    notice("  skipped  {} {}: {}\n", skips.count, skips.count == 1 ? "launch" : "launches",
           printable(with_readable_names(skips.first)));
    if (const std::string_view hint = advice_for(name); !hint.empty()) notice("           hint: {}\n", hint);
  }
  for (const std::string& w : messages.warnings) notice("  warning  {}\n", printable(with_readable_names(w)));
}

Status as_asked(const Result<RecordOutcome>& outcome, const RecordMessages& messages, const ChildEnd& end) {
  if (!messages.fatal.empty()) {
    // The lines of an Error, joined by the library: the message, then perhaps a hint.
    constexpr std::string_view joint = " |   hint: ";
    const std::string& text = messages.fatal.front();
    const size_t end_of_message = text.find(joint);
    if (end_of_message == std::string::npos) return environment("{}", text);
    return with_hint(environment("{}", text.substr(0, end_of_message)), text.substr(end_of_message + joint.size()));
  }
  if (!messages.claimed)
    return with_hint(environment("nothing was recorded: the program, which {}, did not initialise CUDA, or its driver did not load {}",
                                 how_it_ended(end), library_name),
                     "does it use a GPU when it runs by itself? a child of its first CUDA process is not followed");
  if (!outcome)
    return messages.stats.contains("seen") && messages.stats.at("seen") == "0"
               ? Status(environment("the program launched no kernel: nothing was recorded"))
               : Status(tl::make_unexpected(outcome.error()));
  if (!outcome->complete)
    return with_hint(
        environment("the bundle is incomplete: the program ended by {} without its exit handlers",
                    WIFSIGNALED(end.status) ? fmt::format("signal {}", WTERMSIG(end.status)) : "_exit"),
        "launches that were finished before can be used");
  if (outcome->recorded == 0 && outcome->skipped == 0)
    return with_hint(environment("nothing was recorded: of the {} launches that the program made none was asked for", outcome->seen),
                     "--kernel and --launches choose: a recording without them shows the names (xtrace ls)");
  if (outcome->recorded == 0) return environment("nothing was recorded: all {} launches that were asked for were skipped", outcome->skipped);
  if (outcome->skipped != 0)
    return environment("{} launches that were asked for were not recorded", outcome->skipped);
  return {};
}

std::string summary_json(const RecordSettings& settings, const std::vector<std::string>& command, const Result<RecordOutcome>& outcome,
                         const ChildEnd& end, const RecordMessages& messages, const Status& asked, int status) {
  using Json = nlohmann::ordered_json;
  const auto text_or_null = [](std::string_view text) { return text.empty() ? Json() : Json(text); };
  const auto counted = [&](auto member) { return outcome ? Json((*outcome).*member) : Json(); };
  // Of an incomplete bundle nobody counted what came after the end.
  const bool complete = outcome && outcome->complete;
  Json j{{"schema", "xtrace-record-summary"}, {"schema_version", 1}, {"bundle", settings.output}, {"complete", complete}};
  j["launches"] = {{"seen", complete ? Json(outcome->seen) : Json()},
                   {"recorded", outcome ? outcome->recorded : 0},
                   {"skipped", outcome ? outcome->skipped : 0},
                   {"not_asked_for", complete ? Json(outcome->seen - outcome->recorded - outcome->skipped) : Json()},
                   {"captured", complete ? Json(captured_count(messages)) : Json()}};
  j["memory_bytes"] = counted(&RecordOutcome::raw);
  j["stored_bytes"] = counted(&RecordOutcome::stored);
  j["seconds"] = end.seconds;
  j["recorder_seconds"] = counted(&RecordOutcome::recorder_seconds);
  j["skipped"] = Json::array();
  if (outcome)
    for (const auto& [name, skips] : outcome->by_class)
      j["skipped"].push_back({{"reason", name}, {"count", skips.count}, {"first", skips.first}, {"hint", text_or_null(advice_for(name))}});
  j["warnings"] = messages.warnings;
  j["program"] = {{"command", command},
                  {"exit_status", WIFSIGNALED(end.status) ? Json() : Json(WEXITSTATUS(end.status))},
                  {"signal", WIFSIGNALED(end.status) ? Json(WTERMSIG(end.status)) : Json()}};
  j["error"] = asked ? Json() : Json(asked.error().message);
  j["hint"] = asked ? Json() : text_or_null(asked.error().hint);
  j["exit_status"] = status;
  return json_text(j, 2);
}

}  // namespace xtrace::cli
