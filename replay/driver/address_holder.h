// Keeps recorded addresses free in this process: CUDA shares the virtual address space of its host process,
// so a PROT_NONE mapping made before cuInit keeps the driver from placing things of its own there. Dropped
// piece by piece, each right before the driver is asked for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/address_plan.h"

namespace xtrace::replay {

class AddressHolder {
 public:
  AddressHolder() = default;
  ~AddressHolder();
  AddressHolder(const AddressHolder&) = delete;
  AddressHolder& operator=(const AddressHolder&) = delete;

  // Holds what is free of the span, in pieces of 64 MiB when not all of it is. Returns the bytes held. Never
  // replaces a mapping.
  uint64_t hold(const AddressSpan& span);
  // Gives back whatever is held inside the span.
  void release(const AddressSpan& span);
  void release_all();

  uint64_t held_bytes() const;
  const std::vector<AddressSpan>& pieces() const { return pieces_; }

 private:
  bool hold_piece(const AddressSpan& span);
  std::vector<AddressSpan> pieces_;
};

// The driver's own low ranges, never held: it maps 0x204c00000-0x300200000 while it starts [measured H200],
// and the default memory pool begins at 0x302000000.
constexpr AddressSpan driver_low_range{0x200000000, 0x400000000};

// Lines of a /proc/<pid>/maps text that overlap the span, or else the nearest below and above: who sits
// there.
std::string mapping_neighbours(const std::string& maps_text, const AddressSpan& span);
std::string read_own_mappings();

}  // namespace xtrace::replay
