// For tests that break spliced code on purpose.
#pragma once

#include <gtest/gtest.h>

#include "instrument/sass/effects.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {

inline const sass::Arch& sm_90() { return **sass::find_arch(90); }

inline sass::Effects effects_at(const Case& c, uint32_t k) {
  return sass::effects(sm_90(), word_at(c, c.spliced.cubin, k), k * sass::inst_bytes);
}

// The first word of the primary copy for which `test` holds.
template <typename F>
uint32_t find_word(const Case& c, F test) {
  for (uint32_t k = c.claims.prologue_words; k < word_count(c); ++k)
    if (test(k, effects_at(c, k))) return k;
  ADD_FAILURE() << "no such word";
  return 0;
}

template <typename F>
void change_control(sass::RawInst& w, F change) {
  sass::Control control = sass::get_control(w);
  change(control);
  sass::set_control(w, control);
}

}  // namespace xtrace::instrument::test
