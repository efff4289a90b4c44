// Kernels of gpu_replay_test, compiled to one cubin.
#include <cstdint>

// In place: a second launch on its own results gives something else.
extern "C" __global__ void accumulate(const float* in, float* out, int n, float k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += in[i] * k;
}

// Addresses come from memory only: table[0] -> source, table[1] -> destination.
extern "C" __global__ void follow(int** table, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) table[1][i] = table[0][i] * 3 + 1;
}

// Runs for this long, whatever the clock rate.
extern "C" __global__ void spin(unsigned long long nanoseconds, unsigned* out) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
  if (threadIdx.x == 0) out[blockIdx.x] = 1;
}

__device__ unsigned counter[4] = {1, 2, 3, 4};
__constant__ unsigned factor = 5;

// Reads and changes module variables.
extern "C" __global__ void variables(unsigned* out) {
  const unsigned i = threadIdx.x;
  if (i < 4) {
    out[i] = counter[i] * factor;
    counter[i] += 100;
  }
}

extern "C" __global__ void cluster_rank(unsigned* out) {
  unsigned rank, size;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  if (threadIdx.x == 0) out[blockIdx.x] = size * 100 + rank;
}

extern "C" __global__ void dynamic_shared(unsigned* out, unsigned words) {
  extern __shared__ unsigned buffer[];
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) buffer[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = buffer[words - 1];
}

extern "C" __global__ void wild_store() { *reinterpret_cast<volatile int*>(uintptr_t{64}) = 1; }
