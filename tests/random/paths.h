// How lanes part and meet: which blocks a warp executed, with which lanes, in order.
#pragma once

#include <map>

#include "tests/random/launches.h"

namespace xtrace::random_kernels {

struct BlockExecution {
  uint32_t pc = 0, lanes = 0;
  bool operator==(const BlockExecution&) const = default;
};
using Paths = std::map<uint32_t, std::vector<BlockExecution>>;  // by warp of the launch

// By the records of `block` probes that are spliced in: on a GPU too. The launch must be prepared on the backend.
Result<Paths> traced_paths(replay::Backend& backend, const replay::LaunchImage& launch, const Bytes& cubin);

// By the interpreter's own log of the kernel as it stands; `failure`: why it did not end, with the paths up to there.
Result<Paths> logged_paths(const replay::LaunchImage& launch, const Bytes& cubin, std::string& failure);

}  // namespace xtrace::random_kernels
