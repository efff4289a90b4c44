#include "replay/driver/device_kernels.h"

namespace xtrace::replay {
namespace {

// Every kernel takes an address and a number.
constexpr char ptx[] = R"(
.version 7.0
.target sm_80
.address_size 64

// number stamps for each CTA. Several wait until all have begun, by a counter of 32 bits behind the stamps: one that is done before the
// last begins would leave its SM to that one. After 2^20 looks (the others hold no SM) they go on.
.visible .entry xtrace_clocks(.param .u64 out, .param .u64 number)
{
  .reg .b64 %o, %n, %before, %ticks, %now, %place64, %group64, %bytes, %meet;
  .reg .b32 %place, %group, %groups, %begun, %looks;
  .reg .pred %again, %alone;
  ld.param.u64 %o, [out];
  ld.param.u64 %n, [number];
  mov.u32 %group, %ctaid.x;
  cvt.u64.u32 %group64, %group;
  mul.lo.u64 %bytes, %n, 24;
  mov.u32 %groups, %nctaid.x;
  cvt.u64.u32 %meet, %groups;
  mad.lo.u64 %meet, %meet, %bytes, %o;
  mad.lo.u64 %o, %group64, %bytes, %o;
  mov.u32 %place, %smid;
  cvt.u64.u32 %place64, %place;
  setp.eq.u32 %alone, %groups, 1;
  @%alone bra ROUND;
  atom.global.add.u32 %begun, [%meet], 1;
  mov.u32 %looks, 0;
MEET:
  ld.volatile.global.u32 %begun, [%meet];
  add.u32 %looks, %looks, 1;
  setp.lt.u32 %again, %begun, %groups;
  setp.lt.and.u32 %again, %looks, 0x100000, %again;
  @%again bra MEET;
ROUND:
  mov.u64 %before, %globaltimer;
TICK:
  mov.u64 %ticks, %clock64;
  mov.u64 %now, %globaltimer;
  setp.eq.u64 %again, %now, %before;
  @%again bra TICK;
  st.global.u64 [%o], %place64;
  st.global.u64 [%o+8], %ticks;
  st.global.u64 [%o+16], %now;
  add.u64 %o, %o, 24;
  sub.u64 %n, %n, 1;
  setp.ne.u64 %again, %n, 0;
  @%again bra ROUND;
  ret;
}

// reads number bytes, a multiple of 16, through the L2
.visible .entry xtrace_sweep(.param .u64 from, .param .u64 number)
{
  .reg .b64 %p, %n, %at, %step, %t64;
  .reg .b32 %group, %groups, %thread, %width, %t, %a, %b, %c, %d, %sum;
  .reg .pred %done, %never;
  ld.param.u64 %p, [from];
  ld.param.u64 %n, [number];
  mov.u32 %group, %ctaid.x;
  mov.u32 %groups, %nctaid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %width, %ntid.x;
  mad.lo.u32 %t, %group, %width, %thread;
  mul.wide.u32 %at, %t, 16;
  mul.lo.u32 %t, %groups, %width;
  mul.wide.u32 %step, %t, 16;
  mov.u32 %sum, 0;
NEXT:
  setp.ge.u64 %done, %at, %n;
  @%done bra END;
  add.u64 %t64, %p, %at;
  ld.global.cg.v4.u32 {%a, %b, %c, %d}, [%t64];
  or.b32 %a, %a, %b;
  or.b32 %c, %c, %d;
  or.b32 %a, %a, %c;
  or.b32 %sum, %sum, %a;
  add.u64 %at, %at, %step;
  bra NEXT;
END:
  // The memory is zero: the store keeps the loads alive and is never made.
  setp.ne.u32 %never, %sum, 0;
  @%never st.global.u32 [%p], %sum;
  ret;
}
)";

constexpr uint32_t sweep_threads = 512;

}  // namespace

Status DeviceKernels::open() {
  if (module_ != nullptr) return {};
  if (Status s = api_.check(api_.ModuleLoadData(&module_, ptx), "cuModuleLoadData"); !s) {
    module_ = nullptr;
    return tl::make_unexpected(std::move(s).error().in(fmt::format("compiling the kernels that read clocks")));
  }
  XT_CU(api_, ModuleGetFunction, &sweep_, module_, "xtrace_sweep");
  XT_CU(api_, ModuleGetFunction, &clocks_, module_, "xtrace_clocks");
  return {};
}

void DeviceKernels::close() {
  if (module_ != nullptr) api_.ModuleUnload(module_);
  module_ = nullptr;
}

Status DeviceKernels::launch(CUfunction function, CUstream stream, uint32_t ctas, uint32_t threads, uint32_t shared,
                             CUdeviceptr address, uint64_t number) const {
  CUlaunchConfig config{};
  config.gridDimX = ctas;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = shared;
  config.hStream = stream;
  uint64_t params[2] = {address, number};
  size_t size = sizeof params;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  return api_.check(api_.LaunchKernelEx(&config, function, nullptr, extra), "cuLaunchKernelEx");
}

Status DeviceKernels::stamp(CUstream stream, CUdeviceptr out) const { return launch(clocks_, stream, 1, 1, 0, out, 1); }

Status DeviceKernels::sweep(CUstream stream, CUdeviceptr from, uint64_t bytes, uint32_t ctas) const {
  return launch(sweep_, stream, ctas, sweep_threads, 0, from, bytes);
}

Status DeviceKernels::clocks(CUstream stream, CUdeviceptr out, uint32_t rounds, uint32_t ctas, uint32_t shared_bytes) const {
  XT_CU(api_, FuncSetAttribute, clocks_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(shared_bytes));
  return launch(clocks_, stream, ctas, 1, shared_bytes, out, rounds);
}

}  // namespace xtrace::replay
