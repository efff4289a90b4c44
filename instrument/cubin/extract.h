// Cuts one function out of a cubin: a small cubin with the function, what its relocations reach (functions,
// variables), its per-function sections and what belongs to the whole module (user constants, address tables,
// notes). All indices in headers, symbols, relocations, EIATTR records and the call graph are mapped.
//
// Left out: other functions, debug sections, mercury capsules (sm_100 and later: they describe the whole
// module) and program headers (the driver accepts a cubin without any [public notes on the format; sm_90]).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace xtrace::cubin {

struct Extracted {
  Bytes cubin;
  std::vector<std::string> functions;  // with a .text section in the result; the one asked for comes first
  std::vector<std::string>
      left_out;  // kinds of sections dropped although they said something about the function
};

// Which variables of the module come along: those that the function's relocations reach, or all, so that they have addresses in
// whatever is loaded.
enum class Variables : uint8_t { reached, all };

// bad_input when there is no such function; unsupported, naming section or attribute, for what holds indices
// in a way that is not known.
Result<Extracted> extract_function(ByteView cubin, std::string_view function, Variables variables = Variables::reached);

}  // namespace xtrace::cubin
