// What one launch of the frame (frame.h) feeds to an instruction and what comes back: the state of each warp,
// as rows of 32 lanes. Input states are a function of the class of the instruction and of nothing else, so
// every machine makes the same.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace xtrace::values {

// The window: the registers that instructions under test may name, all of them random before and read back
// after.
inline constexpr unsigned first_gpr = 8, gprs = 44, first_ur = 4, urs = 24;

// Rows of a warp's state, in its order in memory: the window, 32 bytes of memory a lane, P0..P6 as bits, and
// one row with the uniform registers in lanes 0..23 and UP0..UP6 as bits in lane 24.
inline constexpr unsigned memory_row = gprs, memory_words = 8, predicate_row = memory_row + memory_words,
                          uniform_row = predicate_row + 1, rows = uniform_row + 1, up_lane = urs;
struct WarpState {
  std::array<std::array<uint32_t, 32>, rows> row{};

  uint32_t* gpr(unsigned index) { return row[index - first_gpr].data(); }
  uint32_t& ur(unsigned index) { return row[uniform_row][index - first_ur]; }
};
inline constexpr uint32_t warp_bytes = sizeof(WarpState);

// What the instruction needs of its registers so that it stays inside memory of its own.
enum class Class : uint8_t {
  plain,     // everything is random
  vector64,  // R8:R9 is a global address
  uniform,   // R8 (and R9 = 0) an offset, UR8:UR9 and UR12:UR13 a global address
  shared,    // R8 an offset in shared memory, UR8 and UR12 offsets
  local,     // R8 an offset in the frame
  constant,  // R8 and UR4 offsets in the block of parameters
};
inline constexpr unsigned classes = 6;
const char* name(Class c);

// Warps 0..319 carry the 10,240 operand sets. Behind them, for each input that can be changed alone, four
// warps: those of variant_base(k) with that input drawn again.
inline constexpr unsigned set_warps = 320, operand_sets = set_warps * 32, variant_warps = 4;

// One input or output: a register of the window, a predicate, or memory.
struct Place {
  enum class Kind : uint8_t { gpr, ur, pred, upred, memory } kind = Kind::gpr;
  uint8_t index = 0;  // R8 is 8
  bool operator==(const Place&) const = default;
};
inline constexpr unsigned places = gprs + urs + 7 + 7 + 1;
Place place(unsigned number);  // 0..places-1; the last one is memory
std::string text(Place p);     // "R8", "UP3", "memory"
// Places by number.
using PlaceSet = std::array<bool, places>;
std::string text(const PlaceSet& set);  // "R40 R41 P4"; "-" when empty
// True where the two states differ in a place, in some lane.
bool differs(const WarpState& a, const WarpState& b, unsigned place_number);

inline constexpr unsigned variants = places - 1;
inline constexpr unsigned warps = set_warps + variants * variant_warps;
inline constexpr unsigned variant_warp(unsigned place_number, unsigned k) {
  return set_warps + place_number * variant_warps + k;
}
// The warp whose input a variant starts from.
inline constexpr unsigned variant_base(unsigned k) { return k == 3 ? 7 : k; }
// False where an input of the class can not be changed alone: the upper word of an address.
bool can_change(Class c, Place p);

// Device addresses of the frame's memory, and the layout of its own.
inline constexpr uint64_t input_address = 0x7e5670000000, output_address = 0x7e5680000000,
                          area_address = 0x7e5690000000, choice_address = 0x7e56a0000000;
inline constexpr uint32_t area_bytes = 1024;  // a warp: 32 bytes a lane
inline constexpr uint32_t shared_base = 0x400, shared_copies = 16, immediate_offset = 16;
inline constexpr uint32_t parameter_bytes = 1024, parameter_constants = 64;  // constants behind the pointers
std::vector<std::byte> parameters();

std::vector<WarpState> input_states(Class c);  // `warps` of them

}  // namespace xtrace::values
