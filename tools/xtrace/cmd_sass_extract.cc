// xtrace sass extract: one function of a library as a cubin of its own.
#include "base/file.h"
#include "instrument/cubin/extract.h"
#include "tools/xtrace/cmd_sass.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {

Result<int> sass_extract(const SassOptions& options) {
  XT_TRY(const SassFunction f, find_function(options));
  XT_TRY_IN(const cubin::Extracted out, cubin::extract_function(f.cubin.bytes, f.name), "in {}",
            f.cubin.where);
  XT_TRY_STATUS(write_file(options.output, ByteView(out.cubin)));
  fmt::print("{}: {} for {}, {} bytes of {}\n", options.output, printable(f.name), f.cubin.arch->name,
             out.cubin.size(), f.cubin.bytes.size());
  for (size_t i = 1; i < out.functions.size(); ++i) fmt::print("  with {}\n", printable(out.functions[i]));
  for (const std::string& what : out.left_out) fmt::print("  without {}\n", what);
  return 0;
}

}  // namespace xtrace::cli
