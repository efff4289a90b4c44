// The frame around the instruction under test (tests/values/frame.cc): its code is replaced, what stays is the metadata of a
// kernel with one block of parameters, 16 KiB of shared memory, a stack and all barriers.
//   nvcc -cubin -arch=sm_90 -o slot.cubin slot.cu
struct Block {
  unsigned words[256];
};
extern "C" __global__ void slot(Block block) {
  __shared__ unsigned shared[4096];
  volatile unsigned local[64];
  for (unsigned i = 0; i < 64; ++i) local[i] = shared[i] = block.words[i];
  asm volatile("bar.sync %0;" ::"r"(block.words[0]));
  unsigned* to = *reinterpret_cast<unsigned**>(block.words);
  to[threadIdx.x] = local[threadIdx.x % 64] + shared[threadIdx.x];
}
