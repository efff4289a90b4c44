// Numbers of the thread and its CTA that the kernel has loaded itself in its entry block: what the prologue need not load again.
#pragma once

#include <array>
#include <optional>

#include "instrument/blocks.h"
#include "instrument/relocate.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {

// A number of the thread or its CTA that the kernel has loaded itself, and that is still there.
struct OwnNumber {
  std::optional<sass::enc::Gpr> vector;
  sass::enc::Ureg uniform;   // without one
  uint8_t wait = 0;    // scoreboards that it has to be waited for on
};
using OwnNumbers = std::array<std::optional<OwnNumber>, 6>;   // x, y, z of the thread and of the CTA

// What of these numbers the kernel has loaded in front of `rest`, where registers in `taken` are a probe's by then. `loads`: our own stand between.
OwnNumbers own_numbers(const Code& code, const Insertions& insertions, InstIndex rest, bool loads, uint8_t usable_scoreboards, const sass::RegSet& taken);

// In the entry block, in front of what follows the kernel's last load of a special register that it issues before `rest`.
InstIndex behind_own_loads(const Code& code, const ProbeBlock& entry, InstIndex rest);

}  // namespace xtrace::instrument
