// The program that the end-to-end tests record: one scenario a run. Prints what an application would, and
// exits with 7 so that its status can be told from the recorder's.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/inject/fake/fake_driver.h"
#include "tests/unit/inject/fake/scenarios.h"

namespace {

void basic() {
  const CUfunction f = function("plain", "scale");
  const CUdeviceptr data = floats(1000, 1.0f);
  floats(500, 9.0f);  // reached by nothing
  for (int i = 0; i < 3; ++i) scale(f, data, 2.0f, 1000);
  cuCtxSynchronize();
  float first;
  std::memcpy(&first, reinterpret_cast<void*>(data), 4);
  std::printf("result %g, reads while busy %u\n", first, fake_reads_while_busy());
}

// in -> hidden memory that nobody saw allocated; out is plain.
void reach() {
  const CUfunction f = function("plain", "block_sum");
  const CUdeviceptr hidden = fake_hidden_alloc(256);
  CUdeviceptr in = floats(16, 0), out = floats(4, 0);
  cuMemcpyHtoD(in, &hidden, 8);
  int n = 5;
  std::vector<char> buffer(24, '\xcc');  // by `extra`, with filth in the padding
  std::memcpy(&buffer[0], &in, 8);
  std::memcpy(&buffer[8], &out, 8);
  std::memcpy(&buffer[16], &n, 4);
  size_t size = buffer.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra);
  cuCtxSynchronize();
}

// The second launch's memory holds a word that points into the recorder's own buffer, which the first made it have.
void reach_recorder() {
  const CUfunction f = function("plain", "block_sum");
  const CUdeviceptr hidden = fake_hidden_alloc(256);
  CUdeviceptr in = floats(16, 0), out = floats(4, 0);
  cuMemcpyHtoD(in, &hidden, 8);
  int n = 16;
  void* params[] = {&in, &out, &n};
  for (int launch = 0; launch < 2; ++launch) {
    const CUdeviceptr inside = fake_last_host_memory() + 64;
    if (launch == 1) cuMemcpyHtoD(in + 8, &inside, 8);
    cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr);
    cuCtxSynchronize();
  }
}

void library_kernel() {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  cuLibraryLoadData(&library, image_of("plain").data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  cuLibraryGetKernel(&kernel, library, "scale");
  CUdeviceptr data = floats(64, 3.0f);
  float factor = 2;
  int n = 64;
  void* params[] = {&data, &factor, &n};
  CUlaunchAttribute attributes[2]{};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim = {2, 1, 1};
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[1].value.priority = 3;
  CUlaunchConfig config{};
  config.gridDimX = 4, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 16, config.blockDimY = config.blockDimZ = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), params, nullptr);
}

void variables() {
  const CUfunction f = function("variables", "variables");
  CUdeviceptr data = floats(8, 1.0f);
  int n = 8;
  void* params[] = {&data, &n};
  cuLaunchKernel(f, 1, 1, 1, 8, 1, 1, 32, nullptr, params, nullptr);
}

void late_plain() {
  fake_announce_late();
  scale(function("plain", "scale"), floats(8, 1.0f), 2.0f, 8);
}
void late_variables() {
  fake_announce_late();
  variables();
}

void capture() {
  const CUfunction f = function("plain", "scale");
  const CUdeviceptr data = floats(8, 1.0f);
  CUstream captured = nullptr, other = nullptr;
  cuStreamCreate(&captured, 0);
  cuStreamCreate(&other, 0);
  CUgraph graph = nullptr;
  cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
  scale(f, data, 2.0f, 8, captured);
  scale(f, data, 2.0f, 8, other);
  cuStreamEndCapture(captured, &graph);
  CUgraphExec exec = nullptr;
  cuGraphInstantiateWithFlags(&exec, graph, 0);
  cuGraphLaunch(exec, captured);
  cuGraphLaunch(nullptr, captured);  // made by a way that nobody watches
  scale(f, data, 2.0f, 8, captured);
  cuCtxSynchronize();
  std::printf("captured %g\n", *reinterpret_cast<float*>(data));
}

void hang() {
  const CUfunction f = function("plain", "scale");
  const CUdeviceptr data = floats(8, 1.0f);
  fake_hang();
  scale(f, data, 2.0f, 8);
  scale(f, data, 2.0f, 8);
  fake_release();
  usleep(50000);
  scale(f, data, 2.0f, 8);
}

void failing_launch() {
  fake_fail_launch(CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS);
  std::printf("launch %d\n", scale(function("plain", "scale"), floats(8, 1.0f), 2.0f, 8));
}
void peer() {
  const CUdeviceptr data = floats(8, 1.0f);
  fake_set_device(data, 1);
  scale(function("plain", "scale"), data, 2.0f, 8);
}

void freed() {
  const CUfunction f = function("plain", "scale");
  const CUdeviceptr data = floats(8, 1.0f), gone = floats(8, 1.0f);
  cuMemcpyHtoD(data, &gone, 8);  // a stale pointer in reached memory
  cuMemFree(gone);
  scale(f, data, 2.0f, 8);
}

void threads() {
  const CUfunction f = function("plain", "scale");
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([f] {
      const CUdeviceptr data = floats(100, 1.0f);
      for (int i = 0; i < 25; ++i) {
        const CUdeviceptr other = floats(10, 0);
        scale(f, data, 1.0f, 100);
        cuMemFree(other);
      }
    });
  for (std::thread& t : all) t.join();
  std::printf("reads while busy %u\n", fake_reads_while_busy());
}

void forked() {
  const CUfunction f = function("plain", "scale");
  const CUdeviceptr data = floats(8, 1.0f);
  scale(f, data, 2.0f, 8);
  const pid_t child = fork();
  if (child == 0) {
    scale(f, data, 2.0f, 8);
    std::exit(0);  // with exit handlers
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) std::exit(1);
  scale(f, data, 2.0f, 8);
}

void early_exit() {
  basic();
  std::fflush(stdout);
  _exit(7);
}
void killed() {
  basic();
  std::fflush(stdout);
  raise(SIGKILL);
}

// Two launches: one over memory that fits a small disk, one over a megabyte that does not compress.
void noisy() {
  const CUfunction f = function("plain", "scale");
  scale(f, floats(8, 1.0f), 2.0f, 8);
  std::vector<uint64_t> noise(1 << 17);
  uint64_t x = 1;
  for (uint64_t& v : noise) v = (x = x * 6364136223846793005u + 1442695040888963407u) ^ (x >> 32);
  CUdeviceptr data = 0;
  cuMemAlloc(&data, noise.size() * 8);
  cuMemcpyHtoD(data, noise.data(), noise.size() * 8);
  scale(f, data, 2.0f, 8);
  std::printf("noisy\n");
}

void none() {}

const Scenarios plain_scenarios = {
    {"basic", basic},
    {"reach", reach},
    {"reach_recorder", reach_recorder},
    {"library", library_kernel},
    {"variables", variables},
    {"late_plain", late_plain},
    {"late_variables", late_variables},
    {"capture", capture},
    {"hang", hang},
    {"failing_launch", failing_launch},
    {"peer", peer},
    {"freed", freed},
    {"threads", threads},
    {"forked", forked},
    {"early_exit", early_exit},
    {"killed", killed},
    {"noisy", noisy},
    {"none", none},
};

}  // namespace

int main(int argc, char** argv) {
  auto scenarios = plain_scenarios;
  scenarios.insert(graph_scenarios().begin(), graph_scenarios().end());
  const auto it = argc > 1 ? scenarios.find(argv[1]) : scenarios.end();
  if (it == scenarios.end()) return 2;
  if (argc > 2) {  // a signal handler of the application, and a wait for it
    signal(SIGTERM, [](int) { _exit(55); });
    std::printf("ready\n");
    std::fflush(stdout);
    pause();
  }
  cuInit(0);
  it->second();
  return 7;
}
