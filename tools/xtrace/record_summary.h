// What became of a recording: read from the bundle and from what the injected library said, told to the user and, as JSON, to programs.
#pragma once

#include <sys/wait.h>

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "capture/bundle/record_settings.h"

namespace xtrace::cli {

inline constexpr char library_name[] = "libxtrace_inject.so";

// What the library wrote into the session's directory.
struct RecordMessages {
  bool claimed = false;  // some process initialised CUDA with the library inside
  std::vector<std::string> fatal, warnings;
  std::map<std::string, std::string> stats;
};
RecordMessages read_messages(const std::string& session);

struct ChildEnd {
  int status = 0;  // as waitpid gives it
  double seconds = 0;
  int32_t shell_status() const { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }
};

// Of a bundle.
struct RecordOutcome {
  uint64_t seen = 0, recorded = 0, skipped = 0, raw = 0, stored = 0;
  double recorder_seconds = 0;
  struct Skips {
    uint64_t count = 0;
    std::string first;
  };
  std::map<std::string, Skips> by_class;
  bool complete = false;
};
Result<RecordOutcome> read_outcome(const std::string& bundle);

// Why the recording is not what was asked for; success when it is.
Status as_asked(const Result<RecordOutcome>& outcome, const RecordMessages& messages, const ChildEnd& end);

void print_summary(const bundle::RecordSettings& settings, const RecordOutcome& outcome, const ChildEnd& end, const RecordMessages& messages);
// The same for a program (docs/report-schema.md). `status`: of xtrace record.
std::string summary_json(const bundle::RecordSettings& settings, const std::vector<std::string>& command, const Result<RecordOutcome>& outcome,
                         const ChildEnd& end, const RecordMessages& messages, const Status& asked, int status);

}  // namespace xtrace::cli
