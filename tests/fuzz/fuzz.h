// A fuzzer is a function that runs one round: it makes an input from a random source, gives it to the code
// under test, and returns what is wrong with the outcome (empty: nothing). Crashes and sanitizer reports stop
// the program by themselves; the seed of the round is printed before that, because every round starts from
// its own seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace xtrace::fuzz {

using Random = std::mt19937_64;

inline uint64_t below(Random& r, uint64_t limit) { return limit == 0 ? 0 : r() % limit; }

// Changes bytes, words and lengths, cuts and copies: a few of these at once.
void mutate(Random& r, Bytes& bytes);

std::string sass_round(Random& r);
std::string cubin_round(Random& r);
std::string fatbin_round(Random& r);

}  // namespace xtrace::fuzz
