// Which cubin a kernel handle runs. The driver hands over every cubin it loads, but says of none which module
// or library it became; this index puts them together:
//   1. a cubin loaded inside the call that made a handle belongs to that handle (associate);
//   2. otherwise every loaded cubin that defines the kernel is a candidate;
//   3. candidates with equal code and metadata of the kernel are one;
//   4. what is left is told apart by what the driver says about the function (registers, shared memory);
//   5. and by which kernels the driver finds beside it: a name that one candidate alone defines tells that it is loaded there
//      (a library of many translation units has a template's kernel in several of them);
//   6. what is still ambiguous is not guessed: the launch is refused.
// Pure: no CUDA. Not thread-safe: the recorder calls it under its lock.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::inject {

// What a cubin says about one of its kernels.
struct KernelFacts {
  Hash128 contents;  // of the code, metadata and constant banks of the kernel alone
  int32_t registers = -1, static_shared = -1;
  std::vector<bundle::Param> layout;  // by offset
};

// A variable of the module.
struct ModuleVariable {
  std::string name;
  bundle::RegionKind kind = bundle::RegionKind::global;
  uint64_t size = 0;
};

// What has to be known of a cubin's contents; the recorder passes cubin_facts.h, tests pass tables.
struct CubinReader {
  std::function<Result<std::vector<std::string>>(ByteView)> kernels;
  std::function<Result<KernelFacts>(ByteView, const std::string& kernel)> facts;
};

// What the driver says about the function being launched; -1 = not known.
struct ObservedFunction {
  int32_t registers = -1, static_shared = -1;
  std::set<std::string> beside{};   // telling_names() that the driver finds in the function's module or library
};

class CubinIndex {
 public:
  explicit CubinIndex(CubinReader reader) : reader_(std::move(reader)) {}

  // Copies the bytes (once for equal contents). An error names a cubin that could not be read; it is then no
  // candidate.
  Result<Hash128> loaded(uint32_t module_id, ByteView cubin);
  void unloaded(uint32_t module_id);
  // `handle` is a CUmodule, CUlibrary, CUfunction or CUkernel.
  void associate(uint64_t handle, const Hash128& cubin);
  // Handles are reused after an unload: forget what is known of all of them.
  void forget_handles() { by_handle_.clear(); }

  // Whether any loaded cubin defines the kernel.
  bool defines(const std::string& kernel) const;

  struct Choice {
    Hash128 cubin;
    std::shared_ptr<const Bytes> bytes;
    KernelFacts facts;
  };
  // Kernels to ask the driver for, in the module or library of the function, where nothing else tells which cubin runs: each is
  // defined by the candidates with one and the same code of `kernel` alone. Empty where nothing has to be asked.
  std::vector<std::string> telling_names(const std::string& kernel, std::span<const uint64_t> handles,
                                         const ObservedFunction& observed);
  // `handles` in order of trust: function, kernel, module, library. An error says what stood in the way.
  Result<Choice> choose(const std::string& kernel, std::span<const uint64_t> handles,
                        const ObservedFunction& observed);

  size_t cubins() const { return cubins_.size(); }

 private:
  struct Cubin {
    std::shared_ptr<const Bytes> bytes;
    std::unordered_set<std::string> kernels;
    std::map<std::string, KernelFacts> facts;  // of kernels that were asked for
    unsigned loads = 0;
  };
  Result<const KernelFacts*> facts_of(const Hash128& key, const std::string& kernel);

  using Groups = std::map<Hash128, std::vector<Hash128>>;  // contents of the kernel -> cubins with them, facts known
  Result<Groups> groups_of(const std::string& kernel, std::span<const uint64_t> handles, const ObservedFunction& observed);
  // Drops groups whose figure is known and is neither the observed one nor that and `reserved` more.
  void keep_equal(Groups& groups, const std::string& kernel, int32_t KernelFacts::*figure, int32_t observed,
                  int32_t reserved) const;
  // Of each cubin of a group a kernel that none of another group defines.
  std::vector<std::string> own_names(const Groups& groups, const Hash128& contents) const;

  CubinReader reader_;
  std::unordered_map<Hash128, Cubin> cubins_;
  std::unordered_map<uint32_t, Hash128> by_module_id_;
  std::unordered_map<uint64_t, std::set<Hash128>> by_handle_;
};

}  // namespace xtrace::inject
