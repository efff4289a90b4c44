// One copy through a tensor map in each launch. `out` gets the status of the wait (0: the copy was complete), 12 bytes of
// nothing, and what shared memory holds then. nvcc 13.0, -arch=sm_90 -cubin: kernels.cubin.
#include <cstdint>
#include <cuda.h>

struct Copy {
  uint32_t rank;       // 1 to 5
  uint32_t operation;  // of tensor_reduce: ADD MIN MAX INC DEC AND OR XOR, in this order
  int32_t at[5];       // coordinates
  uint32_t offset;     // in shared memory, of the box
  uint32_t bytes;      // of the box
  uint32_t total;      // bytes of shared memory that are filled before and written to `out`, a multiple of 16
};

extern __shared__ uint8_t dynamic_shared[];

__device__ static uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// Byte i of shared memory before the copy.
__device__ static uint8_t filling(uint32_t i) { return static_cast<uint8_t>((i * 2654435761u) >> 24); }

__device__ static uint8_t* filled(const Copy& c) {
  const uint32_t base = shared_address(dynamic_shared);
  uint8_t* shared = dynamic_shared + ((base + 1023) / 1024 * 1024 - base);
  for (uint32_t i = threadIdx.x; i < c.total; i += blockDim.x) shared[i] = filling(i);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  return shared;
}

#define COORDINATES_1 "{%2}"
#define COORDINATES_2 "{%2, %3}"
#define COORDINATES_3 "{%2, %3, %4}"
#define COORDINATES_4 "{%2, %3, %4, %5}"
#define COORDINATES_5 "{%2, %3, %4, %5, %6}"
#define OPERANDS(shared) \
  ::"r"(shared), "l"(&map), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4])

extern "C" __global__ void tensor_load(const __grid_constant__ CUtensorMap map, const __grid_constant__ Copy c, uint8_t* out) {
  __shared__ alignas(8) uint64_t full;
  uint8_t* shared = filled(c);
  const uint32_t barrier = shared_address(&full), to = shared_address(shared + c.offset);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(c.bytes) : "memory");
#define LOAD(R)                                                                                                   \
  case R:                                                                                                         \
    asm volatile("cp.async.bulk.tensor." #R                                                                       \
                 "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " COORDINATES_##R "], [%7];" \
                 OPERANDS(to), "r"(barrier) : "memory");                                                          \
    break;
    switch (c.rank) { LOAD(1) LOAD(2) LOAD(3) LOAD(4) LOAD(5) }
  }
  __syncthreads();
  uint32_t done = 0;
  for (unsigned i = 0; i < 100000 && !done; ++i)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier) : "memory");
  __syncthreads();
  if (threadIdx.x == 0) *reinterpret_cast<uint32_t*>(out) = done ? 0 : 1;
  for (uint32_t i = threadIdx.x; i < c.total; i += blockDim.x) out[16 + i] = shared[i];
}

__device__ static void finish(uint8_t* out) {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  *reinterpret_cast<uint32_t*>(out) = 0;
}

extern "C" __global__ void tensor_store(const __grid_constant__ CUtensorMap map, const __grid_constant__ Copy c, uint8_t* out) {
  const uint32_t from = shared_address(filled(c) + c.offset);
  if (threadIdx.x != 0) return;
#define STORE(R)                                                                                               \
  case R:                                                                                                      \
    asm volatile("cp.async.bulk.tensor." #R "d.global.shared::cta.tile.bulk_group [%1, " COORDINATES_##R "], [%0];" \
                 OPERANDS(from) : "memory");                                                                   \
    break;
  switch (c.rank) { STORE(1) STORE(2) STORE(3) STORE(4) STORE(5) }
  finish(out);
}

extern "C" __global__ void tensor_reduce(const __grid_constant__ CUtensorMap map, const __grid_constant__ Copy c, uint8_t* out) {
  const uint32_t from = shared_address(filled(c) + c.offset);
  if (threadIdx.x != 0) return;
#define REDUCE(N, OP)                                                                                          \
  case N:                                                                                                      \
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta." #OP ".tile.bulk_group [%1, {%2, %3}], [%0];" ::"r"(from), \
                 "l"(&map), "r"(c.at[0]), "r"(c.at[1]) : "memory");                                            \
    break;
  switch (c.operation) { REDUCE(0, add) REDUCE(1, min) REDUCE(2, max) REDUCE(3, inc) REDUCE(4, dec) REDUCE(5, and) REDUCE(6, or) REDUCE(7, xor) }
  finish(out);
}
