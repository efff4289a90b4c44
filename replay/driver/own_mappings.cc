#include "replay/driver/own_mappings.h"

#include <fmt/format.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

namespace xtrace::replay {

std::string mapping_neighbours(const std::string& maps_text, const AddressSpan& span) {
  std::istringstream in(maps_text);
  std::string line, overlapping, below, above;
  size_t shown = 0;
  while (std::getline(in, line)) {
    AddressSpan m;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &m.begin, &m.end) != 2) continue;
    // The columns between the addresses and the file name say nothing here.
    const size_t name = line.find_first_of("/[");
    const std::string text = fmt::format("{:#x}-{:#x} {}", m.begin, m.end,
                                         name == std::string::npos ? "anonymous" : line.substr(name));
    if (m.overlaps(span)) {
      if (shown++ < 4) overlapping += (overlapping.empty() ? "" : ", ") + text;
    } else if (m.end <= span.begin) {
      below = text;
    } else if (above.empty()) {
      above = text;
    }
  }
  if (!overlapping.empty())
    return "taken by " + overlapping + (shown > 4 ? fmt::format(" and {} more", shown - 4) : "");
  return fmt::format("no host mapping overlaps it; nearest: {} below, {} above",
                     below.empty() ? "none" : below, above.empty() ? "none" : above);
}

std::string read_own_mappings() {
  std::ifstream in("/proc/self/maps");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace xtrace::replay
