// What the actions of `xtrace sass` share: their options, and the cubins of a file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "instrument/cubin/image.h"
#include "instrument/sass/arch.h"

namespace xtrace::cli {

struct SassOptions {
  std::string action, input, kernel, output;
  uint64_t sm = 0;  // 0: any
  uint64_t pc = 0;
  bool json = false, dot = false;
};

// One cubin of a file, unwrapped.
struct SassCubin {
  std::string where;  // "libx.so entry 3"
  Bytes bytes;
  cubin::Image image;
  const sass::Arch* arch = nullptr;
};

// Calls `visit` for every cubin of the file that --sm selects, in file order, until it returns false. Cubins
// of unknown architectures are passed over; an error when none is left, naming what the file holds.
Status for_each_cubin(const SassOptions& options, const std::function<Result<bool>(SassCubin&)>& visit);

// Names of the functions of an image that have a .text section of their own, in file order.
std::vector<std::string> functions_of(const cubin::Image& image);

// The one cubin that holds --kernel, and the full name. A name is taken as mangled, as demangled, or as a
// part of either that only one function has. bad_input when there is none, or several (with --sm as the hint
// when architectures differ).
struct SassFunction {
  SassCubin cubin;
  std::string name;
};
Result<SassFunction> find_function(const SassOptions& options);

// The actions: each returns the exit status or an error.
Result<int> sass_dump(const SassOptions& options);
Result<int> sass_cfg(const SassOptions& options);
Result<int> sass_explain(const SassOptions& options);
Result<int> sass_asm(const SassOptions& options);
Result<int> sass_liveness(const SassOptions& options);
Result<int> sass_extract(const SassOptions& options);

}  // namespace xtrace::cli
