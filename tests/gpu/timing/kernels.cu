// Kernels of gpu_timing_test. Compiled several times: work is EXTRA percent more than in the first.
#include <cstdint>

#ifndef EXTRA
#define EXTRA 0
#endif
__device__ constexpr int more(int n) { return n * (100 + EXTRA) / 100; }

__device__ float chain_of(float x, int n) {
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int k = 0; k < 20; ++k) x = fmaf(x, 0.999f, 0.001f);
  }
  return x;
}

// Dependent arithmetic: 20 n instructions one after the other.
extern "C" __global__ void chain(float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = chain_of(static_cast<float>(i), more(n));
}

// Memory bandwidth.
extern "C" __global__ void stream(const float4* in, float4* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < more(n); i += gridDim.x * blockDim.x) {
    float4 v = in[i];
    v.x += 1;
    out[i] = v;
  }
}

// In place: no launch may be repeated without restoring.
extern "C" __global__ void in_place(float* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i] = chain_of(data[i] + 1, more(n));
}

// Every other launch takes longer; `state` is not restored.
extern "C" __global__ void two_modes(float* out, unsigned* state, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = chain_of(static_cast<float>(i), n + n / 5 * (*state / 3 % 2));
  if (i == 0) atomicAdd(state, 1);
}

// Every launch takes longer than the one before.
extern "C" __global__ void drifting(float* out, unsigned* state, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = chain_of(static_cast<float>(i), n + *state);
  if (i == 0) atomicAdd(state, 1);
}

// Tensor cores without pause, on numbers that flip many bits: the power limit may lower the clock.
extern "C" __global__ void burn(float* out, int n) {
  unsigned a[4], b[2];
  float c[4] = {0, 0, 0, 0};
  const unsigned seed = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u;
  for (int k = 0; k < 4; ++k) a[k] = ((seed * (k + 3)) & 0x83ff83ffu) | 0x38003800u;
  for (int k = 0; k < 2; ++k) b[k] = ((seed * (k + 11)) & 0x83ff83ffu) | 0x38003800u;
#pragma unroll 4
  for (int i = 0; i < n; ++i) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    a[i & 3] ^= 0x01550155u;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}

struct Hop {
  uint64_t received, sent;   // SM clock: behind the load that saw the turn, in front of the store that passes it on
  uint64_t sm;
};
// A token goes round the CTAs, one an SM: hop t is by CTA t mod the grid.
extern "C" __global__ void ring(volatile unsigned* turn, Hop* hops, unsigned n) {
  if (threadIdx.x != 0) return;
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  for (unsigned t = blockIdx.x; t < n; t += gridDim.x) {
    while (*turn != t) {
    }
    uint64_t received, sent;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(received)::"memory");
    hops[t].received = received;
    hops[t].sm = sm;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(sent)::"memory");
    *turn = t + 1;
    hops[t].sent = sent;
  }
}

__device__ unsigned long long clock_now() {
  unsigned long long c;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(c)::"memory");
  return c;
}

// Stretches that the kernel times itself, with clocks of its own: dependent arithmetic, and chases through shared memory, the
// L1, the L2; then a barrier. Straight code, so that each instruction has one interval.
// `near` and `far` hold their own index plus one step, round and round.
constexpr unsigned stretches = 5, near_words = 256;
extern "C" __global__ void known(const unsigned* near, const unsigned* far, unsigned long long* out, unsigned) {
  __shared__ unsigned ring[near_words];
  for (unsigned i = threadIdx.x; i < near_words; i += blockDim.x) ring[i] = near[i];
  __syncthreads();
  unsigned long long t[stretches + 1];
  float x = static_cast<float>(near[threadIdx.x & 31]);
  unsigned s = near[0], l = near[1], g = blockIdx.x * 1024;
#pragma unroll
  for (int i = 0; i < 8; ++i) l = near[l & (near_words - 1)];   // into the L1
  t[0] = clock_now();
#pragma unroll
  for (int i = 0; i < 24; ++i) asm volatile("fma.rn.f32 %0, %0, 0f3F7FBE77, 0f3A83126F;" : "+f"(x));
  t[1] = clock_now();
#pragma unroll
  for (int i = 0; i < 6; ++i) s = *const_cast<volatile unsigned*>(&ring[s]);
  t[2] = clock_now();
#pragma unroll
  for (int i = 0; i < 6; ++i) asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(l) : "l"(near + l));
  t[3] = clock_now();
#pragma unroll
  for (int i = 0; i < 6; ++i) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(g) : "l"(far + g));
  t[4] = clock_now();
  __syncthreads();
  t[5] = clock_now();
  const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0)
    for (unsigned k = 0; k < stretches; ++k) out[warp * 8 + k] = t[k + 1] - t[k];
  if (x == 0.125f) out[warp * 8 + 7] = s + l + g;   // keeps them alive
}
