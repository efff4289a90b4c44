// fuzz sass|cubin|fatbin [--seconds S] [--rounds N] [--seed S]: runs rounds until the time or the number is
// up. Exit status 1 at the first finding, with the seed that repeats it: fuzz cubin --seed THAT --rounds 1.
#include "tests/fuzz/fuzz.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace xtrace::fuzz {
namespace {

struct Fuzzer {
  std::string_view name;
  std::string (*round)(Random&);
};
constexpr Fuzzer fuzzers[] = {{"sass", sass_round}, {"cubin", cubin_round}, {"fatbin", fatbin_round}};

// Says which round was running when the program is stopped by a signal.
volatile uint64_t current_seed = 0;
void on_abort(int) {
  char text[64];
  const int n = std::snprintf(text, sizeof text, "fuzz: stopped in the round of seed %llu\n",
                              static_cast<unsigned long long>(current_seed));
  if (write(2, text, static_cast<size_t>(n)) < 0) _exit(3);
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

int run(const Fuzzer& f, double seconds, uint64_t rounds, uint64_t seed) {
  std::signal(SIGABRT, on_abort);
  const auto start = std::chrono::steady_clock::now();
  uint64_t done = 0;
  for (; rounds == 0 || done < rounds; ++done) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (seconds > 0 && took.count() >= seconds) break;
    current_seed = seed + done;
    Random random(current_seed);
    if (const std::string finding = f.round(random); !finding.empty()) {
      fmt::print(stderr, "fuzz {}: {} (repeat with --seed {} --rounds 1)\n", f.name, finding, seed + done);
      return 1;
    }
  }
  fmt::print("fuzz {}: {} rounds without a finding\n", f.name, done);
  return 0;
}

}  // namespace

void mutate(Random& r, Bytes& bytes) {
  constexpr uint64_t interesting[] = {0,
                                      1,
                                      0x7f,
                                      0x80,
                                      0xff,
                                      0xffff,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      0x100000000,
                                      0x7fffffffffffffff,
                                      0xffffffffffffffff,
                                      16,
                                      64,
                                      128};
  for (uint64_t n = 1 + below(r, 4); n > 0 && !bytes.empty(); --n) {
    // Half of the changes go to the head of the file, where the headers are.
    const uint64_t limit = below(r, 2) == 0 ? std::min<uint64_t>(bytes.size(), 512) : bytes.size();
    const uint64_t at = below(r, limit);
    const uint64_t width = uint64_t{1} << below(r, 4);
    switch (below(r, 6)) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1u << below(r, 8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(below(r, 256));
        break;
      case 2: {
        uint64_t v = interesting[below(r, std::size(interesting))];
        if (below(r, 3) == 0) v = bytes.size() - below(r, 64);
        std::memcpy(&bytes[at], &v, std::min<uint64_t>(width, bytes.size() - at));
        break;
      }
      case 3: {  // a number a little larger or smaller
        uint64_t v = 0;
        const uint64_t size = std::min<uint64_t>(width, bytes.size() - at);
        std::memcpy(&v, &bytes[at], size);
        v += below(r, 33) - 16;
        std::memcpy(&bytes[at], &v, size);
        break;
      }
      case 4:
        bytes.resize(below(r, 4) == 0 ? at : bytes.size() - below(r, std::min<uint64_t>(bytes.size(), 64)));
        break;
      default: {  // one place looks like another
        const uint64_t from = below(r, bytes.size());
        const uint64_t size = std::min({uint64_t{1} + below(r, 64), bytes.size() - at, bytes.size() - from});
        std::memmove(&bytes[at], &bytes[from], size);
        break;
      }
    }
  }
}

}  // namespace xtrace::fuzz

int main(int argc, char** argv) {
  using namespace xtrace::fuzz;
  double seconds = 0;
  uint64_t rounds = 0, seed = 1;
  std::string what;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--seconds" && i + 1 < argc) {
      seconds = std::stod(argv[++i]);
    } else if (a == "--rounds" && i + 1 < argc) {
      rounds = std::stoull(argv[++i]);
    } else if (a == "--seed" && i + 1 < argc) {
      seed = std::stoull(argv[++i]);
    } else {
      what = a;
    }
  }
  for (const Fuzzer& f : fuzzers)
    if (f.name == what && (seconds > 0 || rounds > 0)) return run(f, seconds, rounds, seed);
  std::fputs("usage: fuzz sass|cubin|fatbin [--seconds S] [--rounds N] [--seed S]\n", stderr);
  return 64;
}
