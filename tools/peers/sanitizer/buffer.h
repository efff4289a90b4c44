// Where records of the peer lie: a count for each warp of each SM, then a slot for each of them, which wraps.
#pragma once

#include <cstdint>

namespace xtrace::peer {
constexpr uint32_t sms = 256;             // %smid stays below
constexpr uint32_t warps_per_sm = 64;     // %warpid stays below
constexpr uint32_t slots = sms * warps_per_sm;
constexpr uint32_t slot_bytes = 1 << 16;  // all slots together do not fit into L2
constexpr uint64_t counts_bytes = slots * sizeof(uint32_t);
constexpr uint64_t buffer_bytes = counts_bytes + static_cast<uint64_t>(slots) * slot_bytes;
constexpr uint32_t lanes_record_bytes = 256;   // the head and, in a line of their own, 32 words
}  // namespace xtrace::peer
