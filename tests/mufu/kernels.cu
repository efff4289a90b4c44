// MUFU over ranges of operands. The word of the one MUFU in each kernel is changed to the function and type wanted (measure.cc).
__device__ __forceinline__ unsigned mufu(unsigned a) {
  unsigned r;
  asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=r"(r) : "r"(a));
  return r;
}
// tests/mufu/hash.h has the same.
__device__ __forceinline__ unsigned long long mix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// Of the operands blockIdx * 2^16 to + count, the sum of what mix() makes of operand and result, to out[operand >> shift].
extern "C" __global__ void hash(unsigned long long* out, unsigned count, unsigned shift) {
  unsigned long long sum = 0;
#pragma unroll 1
  for (unsigned k = threadIdx.x; k < count; k += blockDim.x) {
    const unsigned a = blockIdx.x << 16 | k;
    sum += mix((unsigned long long)a << 32 | mufu(a));
  }
  atomicAdd(out + ((blockIdx.x << 16) >> shift), sum);
}
// out[k] of the operand first + k, and of the number k * unit.
extern "C" __global__ void words(unsigned* out, unsigned first, unsigned count) {
  const unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k < count) out[k] = mufu(first + k);
}
extern "C" __global__ void points(unsigned* out, float unit, unsigned count) {
  const unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k < count) out[k] = mufu(__float_as_uint((float)k * unit));
}
