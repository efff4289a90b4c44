// One kernel name, one shape, two codes: compiled with -DADD=1 and -DADD=2 (record_test.py).
extern "C" __global__ void twin(float* data) { data[threadIdx.x] += ADD; }
