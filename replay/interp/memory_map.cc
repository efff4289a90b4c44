#include "replay/interp/memory_map.h"

#include <algorithm>

namespace xtrace::replay::interp {

Status MemoryMap::add(uint64_t address, std::span<std::byte> bytes, std::string name) {
  if (bytes.empty()) return {};
  Span s{address, address + bytes.size(), bytes.data(), std::move(name)};
  const auto at = std::lower_bound(spans_.begin(), spans_.end(), s.begin,
                                   [](const Span& x, uint64_t v) { return x.begin < v; });
  if ((at != spans_.end() && at->begin < s.end) || (at != spans_.begin() && std::prev(at)->end > s.begin))
    return internal("{} at {:#x} overlaps other memory", s.name, address);
  spans_.insert(at, std::move(s));
  last_ = 0;
  return {};
}

void MemoryMap::remove(uint64_t address) {
  std::erase_if(spans_, [&](const Span& s) { return s.begin == address; });
  last_ = 0;
}

std::byte* MemoryMap::search(uint64_t address, uint64_t bytes) {
  const auto at = std::upper_bound(spans_.begin(), spans_.end(), address,
                                   [](uint64_t v, const Span& x) { return v < x.begin; });
  if (at == spans_.begin()) return nullptr;
  const Span& s = *std::prev(at);
  if (address >= s.end || s.end - address < bytes) return nullptr;
  last_ = static_cast<size_t>(&s - spans_.data());
  return s.bytes + (address - s.begin);
}

std::string MemoryMap::nearest(uint64_t address) const {
  const Span* best = nullptr;
  uint64_t best_distance = ~0ull;
  for (const Span& s : spans_) {
    const uint64_t distance = address < s.begin ? s.begin - address : address >= s.end ? address - s.end : 0;
    if (distance < best_distance) best = &s, best_distance = distance;
  }
  if (best == nullptr) return "there is no memory";
  if (address >= best->begin && address < best->end)
    return fmt::format("it runs over the end of {} at {:#x}", best->name, best->end);
  return fmt::format("{} bytes {} {}", best_distance,
                     address < best->begin ? "in front of" : "behind the end of", best->name);
}

uint64_t MemoryMap::free_address(uint64_t hint, uint64_t bytes, uint64_t alignment) const {
  uint64_t at = align_up(hint, alignment);
  for (const Span& s : spans_)  // by address: one pass
    if (s.begin < at + bytes + alignment && s.end + alignment > at)
      at = align_up(s.end + alignment, alignment);
  return at;
}

}  // namespace xtrace::replay::interp
