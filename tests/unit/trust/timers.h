// Timing results that are made up: a clean kernel and variants with known ratios, as a quiet GPU would show them.
#pragma once

#include <functional>

#include "replay/backend.h"

namespace xtrace::cli {

struct Timer {
  double clean_us = 100, noise = 0.002, tick = 0.032;
  std::vector<double> ratios = {1, 1.01};   // by variant, clean-again first; the last one for all that follow
  double mhz = 1980;
  // A fault: changes the pair number `r` of variant `v`.
  std::function<void(replay::TimedPair& pair, size_t v, size_t r)> fault;

  replay::TimingResult operator()(const replay::TimingRequest& request) const {
    replay::TimingResult t;
    uint64_t state = request.seed * 0x9e3779b97f4a7c15ull + 1;
    const auto random = [&] {   // in [-1, 1]
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      return static_cast<double>(state >> 11) / static_cast<double>(1ull << 52) - 1;
    };
    t.tick_microseconds = tick;
    t.caches = "as a test has it";
    for (size_t v = 0; v < request.variants.size(); ++v) {
      auto& pairs = t.pairs.emplace_back();
      const double ratio = ratios[std::min(v, ratios.size() - 1)];
      for (uint32_t r = 0; r < request.pairs; ++r) {
        replay::TimedPair pair;
        pair.clean.microseconds = clean_us * (1 + noise * random());
        pair.variant.microseconds = clean_us * ratio * (1 + noise * random());
        pair.clean_first = r % 2 == 0;
        pair.clean.cycles = pair.clean.microseconds * mhz;
        pair.variant.cycles = pair.variant.microseconds * mhz;
        if (fault) fault(pair, v, r);
        pairs.push_back(pair);
      }
    }
    return t;
  }
};

}  // namespace xtrace::cli
