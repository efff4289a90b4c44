// A driver of our own behind the DriverApi table: address space, memory, modules, one stream that runs its
// queue when it is polled. It follows the measured rules of cuMemAddressReserve (1 GiB reservations at their
// hint rounded up to 64 MiB, small ones in a heap of their own, nothing above 2^47).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "replay/address_plan.h"
#include "replay/driver/driver_api.h"

namespace xtrace::replay {

class FakeDriver {
 public:
  // The kernel of a module; returns microseconds, or a negative number: never ends.
  using Kernel = std::function<double(FakeDriver&, ByteView params)>;
  struct Variable {
    CUdeviceptr address = 0;
    size_t size = 0;
  };
  struct Code {
    std::string kernel = "kernel";
    Kernel run;
    std::map<std::string, Variable> variables;
  };
  struct Launch {
    CUlaunchConfig config{};
    std::vector<CUlaunchAttribute> attributes;
    Bytes params;
  };

  FakeDriver();
  ~FakeDriver();
  DriverApi api();
  // A cubin that loads `code`.
  Bytes add_code(Code code);

  // Device memory, mapped or in a variable; XT_CHECK when nothing is there.
  std::byte* at(CUdeviceptr address, size_t size);
  bool is_mapped(CUdeviceptr address);

  // What a test may set.
  std::vector<AddressSpan> taken;  // by the driver itself
  CUdeviceptr pool_base = 0x302000000;
  size_t total_bytes = 1ull << 30;
  int devices = 1;
  bool pinned_memory = true;
  CUresult launch_result = CUDA_SUCCESS;  // of cuLaunchKernelEx
  CUresult sticky = CUDA_SUCCESS;         // of everything that waits
  CUresult init_result = CUDA_SUCCESS;
  double mhz = 1980;                      // of the SM clock

  // What a test may ask.
  size_t used_bytes() const;
  size_t reservations() const { return reserved_.size(); }
  size_t modules() const { return loaded_.size(); }
  size_t pinned_blocks() const { return pinned_.size(); }
  size_t gates = 0;  // StreamWaitValue32 calls
  size_t calls = 0;  // of any function
  std::vector<Launch> launches;
  std::map<std::pair<CUfunction, int>, int> function_attributes;

  struct Api;  // the functions

 private:
  struct Operation {
    std::function<bool()> run;  // false: not yet
  };
  struct Module {
    size_t code = 0;
    std::map<std::string, Bytes> memory;  // of variables
  };
  void pump();
  CUresult own_kernel(CUfunction function, const CUlaunchConfig& config, void** extra);
  bool free_range(const AddressSpan& span) const;
  CUdeviceptr place(uint64_t from, uint64_t size) const;

  std::vector<Code> codes_;
  std::map<uint64_t, AddressSpan> reserved_;
  std::map<uint64_t, Bytes> mapped_;  // by address; includes pool allocations
  std::set<uint64_t> pool_;
  std::map<CUmemGenericAllocationHandle, size_t> physical_;
  std::set<void*> pinned_;
  std::map<CUmodule, Module> loaded_;
  std::map<CUevent, double> events_;  // time; negative: not reached
  std::deque<Operation> queue_;
  double clock_ = 0;
  uint64_t next_ = 1;
};

}  // namespace xtrace::replay
