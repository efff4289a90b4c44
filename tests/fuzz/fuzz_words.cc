// Random instruction words: everything that reads one must come back with something sensible, and what is
// written back must be what was read.
#include <fmt/format.h>

#include "instrument/sass/describe.h"
#include "instrument/sass/effects.h"
#include "instrument/sass/form.h"
#include "instrument/sass/print.h"
#include "tests/fuzz/fuzz.h"

namespace xtrace::fuzz {
namespace {

using namespace sass;

// Mostly with an opcode of the table, so that the fields behind it are read.
RawInst random_word(Random& r, const Arch& arch) {
  RawInst w{r(), r()};
  if (below(r, 8) == 0) w = {0, 0};
  if (below(r, 8) == 0) return w;
  const std::span<const Form> forms = all_forms();
  const Form& f = forms[below(r, forms.size())];
  if ((f.archs >> arch_group(arch) & 1) == 0) return w;
  uint64_t n = 0;
  while (n < f.opcodes.size() && f.opcodes[n] != 0) ++n;
  const uint16_t opcode = f.opcodes[below(r, n)];
  w.lo = (w.lo & ~0xfffull) | (opcode & 0xfff);
  w.hi = (w.hi & ~(1ull << 27)) | uint64_t{opcode} >> 12 << 27;
  return w;
}

std::string check(const Arch& arch, const RawInst& w, uint32_t pc) {
  RawInst copy = w;
  set_control(copy, get_control(w));
  if (!(copy == w)) return "the control word is not written back";
  const Effects e = effects(arch, w, pc);
  if (e.known != (find_form(arch, w) != nullptr)) return "known without a form";
  if (e.use.gpr[255] || e.def.gpr[255]) return "RZ in the effects";
  for (unsigned u = arch.urz; u < 256; ++u)
    if (e.use.ur[u] || e.def.ur[u]) return "URZ in the effects";
  if (e.known && e.target) {
    if (!set_target(arch, copy, pc, *e.target)) return "its own target does not fit";
    if (!(copy == w)) return "the target is not written back";
  }
  if (const auto base = register_branch_base(arch, w, pc)) {
    if (!set_register_branch_base(arch, copy, pc, *base)) return "its own base does not fit";
    if (!(copy == w)) return "the base is not written back";
  }
  if (print(arch, w, pc).empty()) return "no text";
  if (print_control(w).empty()) return "no control text";
  unsigned next = 128;
  for (const WordField& f : describe_word(arch, w)) {
    if (f.high + 1 != next) return "fields with gaps";
    next = f.low;
  }
  return next == 0 ? "" : "fields do not reach bit 0";
}

}  // namespace

std::string sass_round(Random& r) {
  const auto archs = all_archs();
  const Arch& arch = archs[below(r, archs.size())];
  const RawInst w = random_word(r, arch);
  const auto pc = static_cast<uint32_t>(below(r, 1 << 20) * inst_bytes);
  const std::string finding = check(arch, w, pc);
  return finding.empty()
             ? ""
             : fmt::format("{}: {:016x}_{:016x} on {} at {:#x}", finding, w.hi, w.lo, arch.name, pc);
}

}  // namespace xtrace::fuzz
