// xtrace: the command line. Finds the command, and gives its exit status back (table in base/status.h).
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/notice.h"
#include "base/status.h"
#include "tools/xtrace/closest.h"
#include "tools/xtrace/command.h"
#include "tools/xtrace/render_error.h"
#ifdef XTRACE_HAVE_REPLAY
#include "tools/xtrace/replay/make_backend.h"
#endif

namespace xtrace::cli {
namespace {

std::string list_of_commands() {
  std::string out = "Commands:\n";
  for (const Command& c : commands()) out += fmt::format("  {:<8} {}\n", c.name, c.summary);
  return out;
}

int print_overview() {
  fmt::print("xtrace {}: record kernel launches, replay them under probes, trust what did not change\n\n",
             XTRACE_VERSION);
  fmt::print("{}\nxtrace help COMMAND shows examples and options.\n", list_of_commands());
  return 0;
}

int unknown_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& c : commands()) names.push_back(c.name);
  const int status = usage_error("", fmt::format("unknown command '{}'", name), did_you_mean(name, names));
  notice("{}", list_of_commands());
  return status;
}

// The next file that is opened would get the number of a descriptor that was closed by who started this, and be written what is
// meant for people. What goes to a closed stdout fails, as on a full disk; to a closed stderr, it is lost.
void take_closed_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

int run(int argc, char** argv) {
#ifdef XTRACE_HAVE_REPLAY
  if (const auto status = served_as_timing_process()) return *status;
#endif
  const std::string first = argc > 1 ? argv[1] : "help";
  if (first == "--version") {
    fmt::print("xtrace {}\n", XTRACE_VERSION);
    return 0;
  }
  const bool help = first == "help" || first == "--help" || first == "-h";
  if (help && argc <= 2) return print_overview();
  const std::string name = help ? argv[2] : first;
  const Command* command = find_command(name);
  if (command == nullptr) return unknown_command(name);
  if (!help) return command->run(argc - 1, argv + 1);
  std::string flag = "--help", own_name = name;
  char* help_argv[] = {own_name.data(), flag.data(), nullptr};
  return command->run(2, help_argv);
}

}  // namespace
}  // namespace xtrace::cli

int main(int argc, char** argv) {
  using namespace xtrace;
  int status = exit_internal;
  cli::take_closed_descriptors();
  try {
    status = cli::run(argc, argv);
  } catch (const std::system_error& e) {   // of fmt::print, on a full disk, say; of a thread that can not be started
    const bool print = std::string_view(e.what()).starts_with("cannot write to file");
    return cli::report("", Error{ErrorKind::environment, print ? "can not write to stdout: " + e.code().message() : e.what(), {}, {}});
  } catch (const std::exception& e) {
    return cli::report("",
                       Error{ErrorKind::internal, fmt::format("unexpected exception: {}", e.what()), {}, {}});
  }
  // Who reads the output must not take what is missing for what was found.
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!written && (status == exit_trusted || status == exit_not_trusted || status == exit_inconclusive))
    return cli::report("", Error{ErrorKind::environment, "can not write to stdout", {}, {}});
  return status;
}
