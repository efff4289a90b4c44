// Kernels of gpu_timing_test.
#include <cstdint>

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
  out[i] = chain_of(static_cast<float>(i), n);
}

// Memory bandwidth.
extern "C" __global__ void stream(const float4* in, float4* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float4 v = in[i];
    v.x += 1;
    out[i] = v;
  }
}

// In place: no launch may be repeated without restoring.
extern "C" __global__ void in_place(float* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i] = chain_of(data[i] + 1, n);
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

// Stretches that the kernel times itself, with clocks of its own: chains of links that depend on each other, each kind three times,
// two short ones and a long one. What one link takes is what the long one takes longer than the second, over the number of links
// that it has more: both begin behind a chain like themselves. Straight code, each link one instruction; then barriers for which
// the first warp waits.
// `near` and `far` hold addresses of their own words, round and round.
#define TIMED(...)                    \
  {                                   \
    const unsigned long long t = clock_now(); \
    __VA_ARGS__;                      \
    *to++ = clock_now() - t;          \
  }
#define CHAIN(n, ...) TIMED(_Pragma("unroll") for (int i = 0; i < n; ++i) { __VA_ARGS__; })
#define CHAINS(n, m, ...) CHAIN(n, __VA_ARGS__) CHAIN(n, __VA_ARGS__) CHAIN(m, __VA_ARGS__)
extern "C" __global__ void known(const unsigned long long* near, const unsigned long long* far, unsigned long long* out, unsigned) {
  constexpr unsigned ring_words = 256, barriers = 4;
  __shared__ unsigned ring[ring_words];
  const unsigned ring_at = static_cast<unsigned>(__cvta_generic_to_shared(ring));
  for (unsigned i = threadIdx.x; i < ring_words; i += blockDim.x) ring[i] = ring_at + (i + 1) % ring_words * 4;
  __syncthreads();
  const unsigned warp = threadIdx.x / 32;
  volatile unsigned long long* to = out + (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 64;
  float x = static_cast<float>(threadIdx.x), y = x * 1e-9f;
  double d = x;
  unsigned a = threadIdx.x, b = threadIdx.x + 7, c = threadIdx.x, s = ring_at, h = threadIdx.x;
  unsigned long long l = reinterpret_cast<unsigned long long>(near);
  unsigned long long g = reinterpret_cast<unsigned long long>(far + blockIdx.x * 512);
#pragma unroll
  for (int i = 0; i < 16; ++i) asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(l));   // into the L1
  // Ready before the first clock.
  asm volatile("" : "+f"(x), "+f"(y), "+d"(d), "+r"(a), "+r"(b), "+r"(c), "+r"(s), "+r"(h), "+l"(l), "+l"(g));
  CHAINS(8, 24, asm volatile("fma.rn.f32 %0, %0, 0f3F7FBE77, 0f3A83126F;" : "+f"(x)))
  CHAINS(8, 24, asm volatile("mad.lo.u32 %0, %0, %1, %0;" : "+r"(a) : "r"(b)))
  CHAINS(8, 24, asm volatile("lop3.b32 %0, %0, %1, %0, 0x3c;" : "+r"(c) : "r"(b)))
  CHAINS(4, 12, asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(y)))
  CHAINS(4, 12, asm volatile("fma.rn.f64 %0, %0, %0, %0;" : "+d"(d)))
  CHAINS(4, 12, asm volatile("popc.b32 %0, %0;" : "+r"(b)))
  CHAINS(4, 12, asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;" : "+r"(h)))
  CHAINS(4, 12, asm volatile("ld.shared.u32 %0, [%0];" : "+r"(s)))
  CHAINS(4, 12, asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(l)))
  CHAINS(4, 12, asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(g)))
#pragma unroll
  for (int r = 0; r < barriers; ++r) {
    if (warp != 0) {
#pragma unroll
      for (int i = 0; i < 100 * (r + 1); ++i) asm volatile("fma.rn.f32 %0, %0, 0f3F7FBE77, 0f3A83126F;" : "+f"(x));
    }
    TIMED(asm volatile("bar.sync 0;" ::: "memory");   // the warp is held a few cycles behind it
          _Pragma("unroll") for (int i = 0; i < 4; ++i) asm volatile("fma.rn.f32 %0, %0, 0f3F7FBE77, 0f3A83126F;" : "+f"(x)))
  }
  // Keeps the chains alive.
  if (x == 0.125f) *to = s + static_cast<unsigned>(l + g) + a + b + c + h + static_cast<unsigned>(d + y);
}
