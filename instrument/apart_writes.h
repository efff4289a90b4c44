// Uniform registers that other lanes may write. A uniform register belongs to all lanes of a warp: where lanes go different ways, one
// finds in it what another has written since. Not where no lane is elsewhere: in what all lanes that are still there execute together,
// and from one such instruction to the next.
#pragma once

#include <vector>

#include "instrument/code.h"
#include "instrument/sass/effects.h"

namespace xtrace::instrument {

class ApartWrites {
 public:
  // `whole`: by instruction, whether no counted execution of its block missed a lane (empty: not known of any).
  ApartWrites(const Code& code, const std::vector<bool>& whole);

  // What lanes elsewhere may write after a lane has executed i and before it executes n, which follows: registers that are written by
  // lanes without the others, somewhere behind the place where all were last together.
  sass::RegSet between(InstIndex i, InstIndex n) const { return together_[i] && together_[n] ? sass::RegSet() : elsewhere_[i]; }
  // All registers that lanes write without the others.
  const sass::RegSet& anywhere() const { return anywhere_; }

 private:
  std::vector<bool> together_;   // all lanes of the warp that have not ended execute it together
  std::vector<sass::RegSet> elsewhere_;
  sass::RegSet anywhere_;
};

}  // namespace xtrace::instrument
