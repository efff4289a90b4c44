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
  handle,    // UR4:UR5 and UR8:UR9 handles of constants, R32 an offset in them
  low,       // R8 a global address below 4 GiB
  low_uniform,    // R8 an offset, UR8 and UR12 a global address below 4 GiB
  local_uniform,  // R8 an offset in the frame, UR8 and UR12 offsets to be added
  barrier,   // R8, UR8 and UR12 as for shared; memory holds mbarriers, R24 is 0 or 1
  copy,      // what copies from global to shared memory and back (frame.cc)
  control,   // control flow and barriers: registers outside of the window carry what it needs (frame.cc)
  group,     // a warpgroup of four warps: UR4:UR5 to UR10:UR11 describe matrices in its shared memory
  texture,   // UR16:UR17, R24, R32 or R8 a texture or one beside it, R8 to R31 coordinates (objects.h)
  surface,   // the same of surfaces; R8:R9 lie in the warp's row of a surface of two dimensions, which memory is
  tensor,    // as copy, with UR4:UR5 the address of a tensor map; UR8 to UR14 and UR16 to UR21 what copies by it name
  cluster,   // a CTA of two in a cluster: R40:R41 an address and a barrier in the shared memory of one of them
};
inline constexpr unsigned classes = 18;
const char* name(Class c);
constexpr bool is_local(Class c) { return c == Class::local || c == Class::local_uniform; }
constexpr bool is_shared(Class c) { return c == Class::shared || c == Class::barrier || c == Class::group; }
constexpr bool is_low(Class c) { return c == Class::low || c == Class::low_uniform; }
// Only the frame executes them, not direct.h.
constexpr bool is_framed(Class c) { return c >= Class::copy; }
// Of the GPU's own objects: only a driver makes them.
constexpr bool has_objects(Class c) { return c == Class::texture || c == Class::surface; }
// Asynchronous copies between shared and global memory.
constexpr bool is_copy(Class c) { return c == Class::copy || c == Class::tensor; }
constexpr unsigned warps_per_cta(Class c) { return c == Class::group ? 4 : 1; }
// Global memory of the warp's own.
constexpr bool is_global(Class c) { return c == Class::vector64 || c == Class::uniform || is_low(c); }
// No memory of its own: the rows of memory go out as they came.
constexpr bool is_bare(Class c) {
  return c == Class::plain || c == Class::constant || c == Class::handle || c == Class::control || c == Class::texture;
}

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
                          area_address = 0x7e5690000000, choice_address = 0x7e56a0000000,
                          maps_address = 0x7e56b0000000, low_area_address = 0x40000000;
// Of the class's memory.
constexpr uint64_t area_of(Class c) { return is_low(c) ? low_area_address : area_address; }
inline constexpr uint32_t area_bytes = 1024;  // a warp: 32 bytes a lane
inline constexpr uint32_t shared_base = 0x400, shared_copies = 16, immediate_offset = 16;
// A handle of constants: address / 64, and from bit 51 the size / 16. [Mesa's NVK; measured H200]
constexpr uint64_t handle_of(uint64_t address, uint64_t bytes) { return address >> 6 | bytes >> 4 << 51; }
inline constexpr uint32_t handle_bytes = 512;  // an operand set's constants, inside the warp's input rows of memory
// Of class copy, behind the frame's own words in shared memory.
inline constexpr uint32_t barrier_at = 0x100;
inline constexpr unsigned copy_gpr = 40;  // R40:R41: an address in shared memory, and the barrier's
// Of class tensor: maps of each warp, two of every shape (tensor_maps.h).
inline constexpr uint32_t maps_bytes = 2048;
// Of class cluster: its barrier, and the two CTAs' places in shared addresses.
inline constexpr uint32_t cluster_barrier_at = 0x2000, rank_shift = 24;
// Of class surface: a row of the surface for each warp, two of them.
inline constexpr uint32_t surface_row_bytes = 1024;

// What the frame reads before a slot: its number, and what the word there wants of its operands. While the slot is executed
// UR16, R24, R32 and R8 are (x & mask) * scale + base of the x that the state has, and UR17 is x + ur.more; of class tensor UR4
// is x + ur.base.
struct Choice {
  struct Operand {
    uint32_t base = 0, scale = 1, mask = ~0u, more = 0;
  };
  uint32_t slot = 0, none[3] = {};
  Operand ur, r24, r32, r8;
};

inline constexpr uint32_t parameter_bytes = 1024, parameter_constants = 64;  // constants behind the pointers
// At the end of them, of the code's address (JMP) and of handles (objects.h).
inline constexpr uint32_t parameter_target = parameter_bytes - 16, parameter_handles = parameter_bytes - 144;
std::vector<std::byte> parameters();

std::vector<WarpState> input_states(Class c);  // `warps` of them

}  // namespace xtrace::values
