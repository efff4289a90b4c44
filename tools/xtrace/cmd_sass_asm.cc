// xtrace sass asm: the word of one instruction's text.
#include "instrument/sass/assemble.h"
#include "tools/xtrace/cmd_sass.h"

namespace xtrace::cli {

Result<int> sass_asm(const SassOptions& options) {
  constexpr unsigned default_sm = 90;
  XT_TRY(const sass::Arch* arch,
         sass::find_arch(options.sm == 0 ? default_sm : static_cast<unsigned>(options.sm)));
  XT_TRY(const sass::RawInst w, sass::assemble(*arch, options.input, static_cast<int64_t>(options.pc)));
  fmt::print("{:016x}_{:016x}\n", w.hi, w.lo);
  return 0;
}

}  // namespace xtrace::cli
