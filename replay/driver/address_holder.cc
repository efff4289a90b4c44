#include "replay/driver/address_holder.h"

#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

namespace xtrace::replay {

AddressHolder::~AddressHolder() { release_all(); }

bool AddressHolder::hold_piece(const AddressSpan& span) {
  void* at = reinterpret_cast<void*>(span.begin);
  void* got = mmap(at, span.size(), PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  if (got != at) {  // a kernel before 4.17 takes the address as a hint only
    munmap(got, span.size());
    return false;
  }
  pieces_.push_back(span);
  return true;
}

uint64_t AddressHolder::hold(const AddressSpan& span) {
  if (span.begin >= span.end) return 0;
  if (span.overlaps(driver_low_range)) {
    uint64_t bytes = 0;
    if (span.begin < driver_low_range.begin) bytes += hold({span.begin, driver_low_range.begin});
    if (span.end > driver_low_range.end) bytes += hold({driver_low_range.end, span.end});
    return bytes;
  }
  if (hold_piece(span)) return span.size();
  uint64_t bytes = 0;
  if (span.size() <= window_alignment) return 0;
  for (uint64_t at = span.begin; at < span.end; at += window_alignment) {
    const AddressSpan piece{at, std::min(at + window_alignment, span.end)};
    if (hold_piece(piece)) bytes += piece.size();
  }
  return bytes;
}

void AddressHolder::release(const AddressSpan& span) {
  std::vector<AddressSpan> kept;
  for (const AddressSpan& p : pieces_) {
    if (!p.overlaps(span)) {
      kept.push_back(p);
      continue;
    }
    const AddressSpan cut{std::max(p.begin, span.begin), std::min(p.end, span.end)};
    munmap(reinterpret_cast<void*>(cut.begin), cut.size());
    if (p.begin < cut.begin) kept.push_back({p.begin, cut.begin});
    if (cut.end < p.end) kept.push_back({cut.end, p.end});
  }
  pieces_ = std::move(kept);
}

void AddressHolder::release_all() {
  for (const AddressSpan& p : pieces_) munmap(reinterpret_cast<void*>(p.begin), p.size());
  pieces_.clear();
}

uint64_t AddressHolder::held_bytes() const {
  uint64_t bytes = 0;
  for (const AddressSpan& p : pieces_) bytes += p.size();
  return bytes;
}

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
