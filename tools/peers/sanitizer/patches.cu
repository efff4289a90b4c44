// Device code of the peer: what the vendor's patching interface calls at the instructions that it can patch. Built by nvcc as
// a patch (CMakeLists.txt), called by the code that the interface puts around an instruction, in each lane that executes it.
#include <sanitizer_patching.h>

#include "buffer.h"

namespace {

using namespace xtrace::peer;

__device__ __forceinline__ uint32_t sm() {
  uint32_t value;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(value));
  return value;
}
__device__ __forceinline__ uint32_t warp_of_sm() {
  uint32_t value;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(value));
  return value;
}
__device__ __forceinline__ uint32_t lane() {
  uint32_t value;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(value));
  return value;
}

// A warp has a slot of its own, so that no atomic is needed: the same as xtrace's slots, but for the wrap.
struct Place {
  uint32_t mask;
  uint32_t lane;
  bool leads;
  uint8_t* record;
};
__device__ __forceinline__ Place next_place(void* userdata, uint32_t bytes) {
  Place p;
  p.mask = __activemask();
  p.lane = lane();
  const int leader = __ffs(p.mask) - 1;
  p.leads = p.lane == leader;
  const uint32_t slot = sm() * warps_per_sm + warp_of_sm();
  uint32_t number = 0;
  if (p.leads) {
    uint32_t* count = static_cast<uint32_t*>(userdata) + slot;
    number = *count;
    *count = number + 1;
  }
  number = __shfl_sync(p.mask, number, leader);
  const uint64_t offset = (static_cast<uint64_t>(number) * bytes) & (slot_bytes - 1);
  p.record = static_cast<uint8_t*>(userdata) + counts_bytes + static_cast<uint64_t>(slot) * slot_bytes + offset;
  return p;
}

}  // namespace

#define PATCH extern "C" __device__ __noinline__ SanitizerPatchResult

PATCH xtrace_empty_access(void*, uint64_t, void*, uint32_t, uint32_t, const void*) { return SANITIZER_PATCH_SUCCESS; }

// 16 bytes an access: low word of the pc, lanes, and the address of the first lane.
PATCH xtrace_base(void* userdata, uint64_t pc, void* address, uint32_t, uint32_t, const void*) {
  const Place p = next_place(userdata, sizeof(uint4));
  const auto where = reinterpret_cast<uint64_t>(address);
  if (p.leads)
    *reinterpret_cast<uint4*>(p.record) =
        make_uint4(static_cast<uint32_t>(pc), p.mask, static_cast<uint32_t>(where), static_cast<uint32_t>(where >> 32));
  return SANITIZER_PATCH_SUCCESS;
}

// The low word of every lane's address: what `mem` records where high words are known. The first word of the line is the pc's
// and the second the lanes'; they lie in front, as in a record of `mem`.
PATCH xtrace_lanes(void* userdata, uint64_t pc, void* address, uint32_t, uint32_t, const void*) {
  const Place p = next_place(userdata, lanes_record_bytes);
  if (p.leads) *reinterpret_cast<uint2*>(p.record) = make_uint2(static_cast<uint32_t>(pc), p.mask);
  reinterpret_cast<uint32_t*>(p.record + lanes_record_bytes / 2)[p.lane] =
      static_cast<uint32_t>(reinterpret_cast<uint64_t>(address));
  return SANITIZER_PATCH_SUCCESS;
}

// The other events that the interface knows in these kernels; nothing in it stands for a basic block or any instruction.
PATCH xtrace_empty_enter(void*, uint64_t) { return SANITIZER_PATCH_SUCCESS; }
PATCH xtrace_empty_barrier(void*, uint64_t, uint32_t, uint32_t, uint32_t) { return SANITIZER_PATCH_SUCCESS; }
PATCH xtrace_empty_syncwarp(void*, uint64_t, uint32_t) { return SANITIZER_PATCH_SUCCESS; }
PATCH xtrace_empty_call(void*, uint64_t, uint64_t, uint32_t) { return SANITIZER_PATCH_SUCCESS; }
PATCH xtrace_empty_copy(void*, uint64_t, void*, uint32_t, uint32_t) { return SANITIZER_PATCH_SUCCESS; }
PATCH xtrace_empty_matrix(void*, uint64_t, uint32_t, uint32_t, uint32_t, uint32_t, const void*) {
  return SANITIZER_PATCH_SUCCESS;
}
