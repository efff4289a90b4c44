#include "tools/xtrace/command.h"

namespace xtrace::cli {

int run_record(int argc, char** argv);
int run_ls(int argc, char** argv);
int run_info(int argc, char** argv);
int run_replay(int argc, char** argv);
int run_probes(int argc, char** argv);
int run_check(int argc, char** argv);
int run_reduce(int argc, char** argv);
int run_explain(int argc, char** argv);
int run_sass(int argc, char** argv);

namespace {

constexpr Command every_command[] = {
#ifdef XTRACE_HAVE_RECORD
    {"record", "run a program and record its kernel launches into a bundle", run_record},
#endif
    {"ls", "list the launches in a bundle", run_ls},
    {"info", "show everything a bundle holds about one launch", run_info},
#ifdef XTRACE_HAVE_REPLAY
    {"replay", "replay recorded launches, clean and under probes, and compare", run_replay},
#endif
#ifdef XTRACE_HAVE_PROBES
    {"probes", "list the probes: what each records, what it costs, what it needs", run_probes},
#endif
#ifdef XTRACE_HAVE_REDUCE
    {"reduce", "bisect a replay that diverges to the instructions whose probes do it", run_reduce},
#endif
#ifdef XTRACE_HAVE_CHECK
    {"check", "hold recordings against a policy of fidelity and overhead, for CI", run_check},
#endif
    {"explain", "say what a reason code of a replay report means", run_explain},
    {"sass", "show the machine code of a file: text, control flow, live registers, one word", run_sass},
};

}  // namespace

std::span<const Command> commands() { return every_command; }

const Command* find_command(std::string_view name) {
  for (const Command& c : every_command)
    if (c.name == name) return &c;
  return nullptr;
}

}  // namespace xtrace::cli
