// sass_dump [SM]: reads "low high [pc]" lines (hexadecimal) and prints our text, a tab, and the effects.
#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <sstream>
#include <string>

#include "instrument/sass/effects.h"
#include "instrument/sass/print.h"

namespace {

std::string registers(const xtrace::sass::RegSet& set, const char* prefix) {
  std::string s;
  for (size_t i = 0; i < set.size(); ++i)
    if (set[i]) s += fmt::format(" {}{}", prefix, i);
  return s;
}
std::string bits(unsigned set, const char* prefix) {
  std::string s;
  for (unsigned i = 0; i < 16; ++i)
    if ((set >> i & 1) != 0) s += fmt::format(" {}{}", prefix, i);
  return s;
}
std::string sides(const xtrace::sass::RegEffects& e) {
  return registers(e.gpr, "R") + registers(e.ur, "UR") + bits(e.pred, "P") + bits(e.upred, "UP") +
         bits(e.barrier, "B");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "90";
  unsigned sm = 0;
  if (std::from_chars(word.data(), word.data() + word.size(), sm).ptr != word.data() + word.size()) {
    std::cerr << "usage: sass_dump [SM] < WORDS\n";
    return 64;
  }
  const auto arch = xtrace::sass::find_arch(sm);
  if (!arch) {
    std::cerr << "sass_dump: " << arch.error().to_string() << "\n";
    return 64;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    xtrace::sass::RawInst w;
    uint32_t pc = 0;
    in >> std::hex >> w.lo >> w.hi >> pc;
    const auto e = effects(**arch, w, pc);
    std::cout << print(**arch, w, pc) << "\t" << (e.known ? sides(e.def) + " <-" + sides(e.use) : " unknown")
              << "\n";
  }
  return 0;
}
