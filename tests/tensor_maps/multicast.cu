// A load by one CTA of a cluster of two to those of `mask`: `bytes` of each CTA's shared memory go out behind each other.
// nvcc 13.0, -arch=sm_90 -cubin: multicast.cubin.
#include <cstdint>
#include <cuda.h>

__device__ static uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    tensor_multicast(const __grid_constant__ CUtensorMap map, uint32_t bytes, uint32_t mask, uint8_t* out) {
  __shared__ alignas(128) uint8_t box[1024];
  __shared__ alignas(8) uint64_t full;
  const uint32_t barrier = shared_address(&full), rank = blockIdx.x;
  const bool reached = (mask >> rank & 1) != 0;
  for (uint32_t i = threadIdx.x; i < bytes; i += blockDim.x) box[i] = 0xee;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (reached) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  }
  __syncthreads();
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (rank == 0 && threadIdx.x == 0)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(box)), "l"(&map), "r"(0), "r"(0), "r"(barrier),
        "h"(static_cast<uint16_t>(mask)) : "memory");
  uint32_t done = !reached;
  for (unsigned i = 0; i < 100000 && !done; ++i)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier) : "memory");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  for (uint32_t i = threadIdx.x; i < bytes; i += blockDim.x) out[rank * bytes + i] = box[i];
}
