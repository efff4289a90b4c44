// The commands of the program: one row each in commands.cc, one file each (cmd_<name>.cc).
#pragma once

#include <span>
#include <string_view>

namespace xtrace::cli {

struct Command {
  std::string_view name, summary;
  int (*run)(int argc,
             char** argv);  // argv[0] is the name of the command; returns the exit status (base/status.h)
};

std::span<const Command> commands();
const Command* find_command(std::string_view name);  // null when there is none

}  // namespace xtrace::cli
