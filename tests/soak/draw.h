// A plan drawn at random: the same one for the same seed and number.
#pragma once

#include <random>

#include "tests/soak/plan.h"

namespace xtrace::soak {

class Draw {
 public:
  Draw(uint32_t seed, uint32_t number);
  const Plan& plan() const { return plan_; }
  // Places, registers, regions: drawn from the code. Once.
  instrument::Splicer specialise(const instrument::Splicer& splicer);

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::mt19937_64 random_;
  Plan plan_;
};

}  // namespace xtrace::soak
