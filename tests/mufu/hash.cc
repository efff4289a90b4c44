#include "tests/mufu/hash.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace xtrace::mufu {

// A line: name, first exponent in hex, eight sums; of 16-bit types name and sum.
std::vector<Recorded> recorded() {
  std::ifstream in(XTRACE_SOURCE_DIR "/tests/mufu/h200.txt");
  std::vector<Recorded> all;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string name, first;
    fields >> name;
    const bool narrow = name.find('.') != std::string::npos;
    if (!narrow) fields >> first;
    if (all.empty() || all.back().name != name) all.push_back({name, {}});
    std::vector<uint64_t>& sums = all.back().sums;
    if (!narrow && std::stoul(first, nullptr, 16) != sums.size()) throw std::runtime_error("h200.txt: not in order: " + line);
    for (std::string sum; fields >> sum;) sums.push_back(std::stoull(sum, nullptr, 16));
  }
  for (const Recorded& r : all)
    if (r.sums.size() != (r.name.find('.') == std::string::npos ? exponents : 1))
      throw std::runtime_error("h200.txt: " + r.name + " is not complete");
  return all;
}

uint64_t sum_of(const Function& f, unsigned exponent) {
  uint64_t sum = 0;
  for (uint32_t k = 0; k < 1u << 23; ++k) {
    const uint32_t a = exponent << 23 | k;
    sum += mix(uint64_t{a} << 32 | f.value(a));
  }
  return sum;
}

uint64_t narrow_sum_of(const Function& f, unsigned type) {
  uint64_t sum = 0;
  for (uint32_t a = 0; a < 65536; ++a)
    sum += mix(uint64_t{a} << 32 | value::mufu_narrow(f.value, static_cast<uint16_t>(a),
                                                      type == 1 ? value::half_format : value::brain_format));
  return sum;
}

}  // namespace xtrace::mufu
