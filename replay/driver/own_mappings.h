// The host mappings of this process, as text for messages: CUDA shares the virtual address space of its host
// process, so they say who sits at an address that could not be reserved.
#pragma once

#include <string>

#include "replay/address_plan.h"

namespace xtrace::replay {

// Lines of a /proc/<pid>/maps text that overlap the span, or else the nearest below and above: who sits
// there.
std::string mapping_neighbours(const std::string& maps_text, const AddressSpan& span);
std::string read_own_mappings();

}  // namespace xtrace::replay
