// Random plans on the recorded launches: fixture, probe, places, sampling and seed are drawn, the launch is replayed under the probe,
// and everything is held against the interpreter's log of the original kernel (docs/testing.md).
//
//   soak N SEED [late | gpu]    plans 0 .. N-1 of this seed: on the interpreter, there with results that come late, or on the GPU
//   soak SEED:K [late | gpu]    plan K alone
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <map>

#include "tests/soak/draw.h"

namespace xtrace::soak {
namespace {

class Soak {
 public:
  Soak(Machine& machine, uint32_t seed) : machine_(machine), seed_(seed) {}

  // Recording by recording, so that each is loaded once. False: the GPU is lost, and with it what was to come.
  bool run(uint32_t from, uint32_t to) {
    std::map<std::string, std::vector<uint32_t>> by_kernel;
    for (uint32_t k = from; k < to; ++k) by_kernel[Draw(seed_, k).plan().kernel].push_back(k);
    for (const auto& [kernel, numbers] : by_kernel) {
      auto recording = Recording::open(kernel, machine_);
      if (!recording) {
        fmt::print("FAILED {}: {}\n", kernel, recording.error().to_string());
        failed += static_cast<uint32_t>(numbers.size());
        if (machine_.is_lost(recording.error())) return false;
        continue;
      }
      for (uint32_t k : numbers)
        if (!one(**recording, k)) return false;
    }
    return true;
  }

  uint32_t replayed = 0, failed = 0;
  std::map<std::string, uint32_t> refused;   // by reason

 private:
  bool one(Recording& recording, uint32_t number) {
    Draw draw(seed_, number);
    const instrument::Splicer splicer = draw.specialise(recording.splicer());
    const Status done = run_plan(recording, splicer, draw.plan());
    if (done) {
      ++replayed;
    } else if (done.error().kind == ErrorKind::unsupported) {
      const std::string& why = done.error().message;
      ++refused[why.starts_with("every nth execution of") ? "every nth execution: too few uniform registers" : why.substr(0, why.find(" at "))];
    } else {
      ++failed;
      fmt::print("FAILED {}\n  {}\n  repeat: soak {}:{}{}\n", draw.plan().text(), done.error().to_string(), seed_, number,
                 machine_.where == Where::interp ? "" : machine_.where == Where::late ? " late" : " gpu");
      std::fflush(stdout);
      if (machine_.is_lost(done.error())) return false;
    }
    return true;
  }

  Machine& machine_;
  uint32_t seed_;
};

int soak(uint32_t seed, uint32_t from, uint32_t to, Where where) {
  auto machine = Machine::make(where);
  if (!machine) {
    fmt::print(stderr, "soak: {}\n", machine.error().to_string());
    return 77;
  }
  const auto begin = std::chrono::steady_clock::now();
  Soak s(*machine, seed);
  const bool whole = s.run(from, to);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  uint32_t refused = 0;
  for (const auto& [reason, n] : s.refused) refused += n;
  fmt::print("soak: seed {} on {}: {} plans replayed, {} refused, {} failed{}; {:.1f} s\n", seed, machine->backend().info().device, s.replayed,
             refused, s.failed, whole ? "" : ", the rest not tried: the GPU is lost", seconds);
  for (const auto& [reason, n] : s.refused) fmt::print("  {:>5} refused: {}\n", n, reason);
  std::fflush(stdout);
  return whole && s.failed == 0 && s.replayed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace xtrace::soak

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const xtrace::soak::Where where = xtrace::soak::taken_from(words);
  unsigned seed = 0, number = 0, count = 0;
  char behind = 0;
  if (words.size() == 1 && std::sscanf(words[0].c_str(), "%u:%u%c", &seed, &number, &behind) == 2)
    return xtrace::soak::soak(seed, number, number + 1, where);
  if (words.size() == 2 && std::sscanf(words[0].c_str(), "%u%c", &count, &behind) == 1 &&
      std::sscanf(words[1].c_str(), "%u%c", &seed, &behind) == 1)
    return xtrace::soak::soak(seed, 0, count, where);
  fmt::print(stderr, "usage: soak N SEED [late | gpu] | soak SEED:K [late | gpu]\n");
  return 64;
}
