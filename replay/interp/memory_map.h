// The device memory of one launch as the kernel sees it: recorded regions and buffers, each at its own
// address, nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace xtrace::replay::interp {

struct Span {
  uint64_t begin = 0, end = 0;  // device addresses
  std::byte* bytes = nullptr;   // of `begin`, owned by whoever added the span
  std::string name;
};

class MemoryMap {
 public:
  // internal when it overlaps a span that is there.
  Status add(uint64_t address, std::span<std::byte> bytes, std::string name);
  void remove(uint64_t address);
  void clear() {
    spans_.clear();
    last_ = 0;
  }

  // The bytes at an address, or nullptr when the access does not lie inside one span.
  std::byte* find(uint64_t address, uint64_t bytes) {
    if (last_ < spans_.size()) {
      const Span& s = spans_[last_];
      if (address >= s.begin && address < s.end && s.end - address >= bytes)
        return s.bytes + (address - s.begin);
    }
    return search(address, bytes);
  }
  // "12 bytes behind device region 3 (0x..., 4096 bytes)": for messages.
  std::string nearest(uint64_t address) const;
  // An address of `bytes` bytes that nothing uses, not below `hint`, aligned, with unused space around it.
  uint64_t free_address(uint64_t hint, uint64_t bytes, uint64_t alignment) const;

 private:
  std::byte* search(uint64_t address, uint64_t bytes);
  std::vector<Span> spans_;  // by address, disjoint
  size_t last_ = 0;
};

}  // namespace xtrace::replay::interp
