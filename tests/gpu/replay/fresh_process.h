// Parts of the GPU test that need a process of their own: another address layout, or a context that is lost
// afterwards.
#pragma once

#include <string>
#include <vector>

namespace xtrace::replay {

struct ProcessResult {
  int exit_status = -1;  // 128 + signal when it was killed
  std::string output;    // stdout
};

// Runs this program again with the arguments; without address space randomisation when `aslr` is false.
ProcessResult run_self(const std::vector<std::string>& arguments, bool aslr = true);

// The other face of the program: carries out "--allocate", "--place" or "--give-up" (see fresh_process.cc);
// the exit status.
int fresh_process_main(const std::vector<std::string>& arguments);

}  // namespace xtrace::replay
