// A peer to compare xtrace with: the vendor's patching interface (sanitizer.h of Compute Sanitizer) at memory accesses, loaded
// into a program by CUDA_INJECTION64_PATH or LD_PRELOAD. measure.py runs it.
//
//   XTRACE_PEER_MODE  what is patched, a row of `modes`
//   XTRACE_PEER_OUT   JSON is written there when the context ends: for each kernel launches and, where there are, records
//
// Whatever fails ends the program with a message: a peer that patched less than it says would look fast.
#include <sanitizer.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "buffer.h"

// patches.cu, compiled.
__asm__(".section .rodata\n.balign 16\n.global xtrace_peer_patches\nxtrace_peer_patches:\n.incbin \"" XTRACE_PEER_FATBIN
        "\"\n.previous\n");
extern "C" __attribute__((visibility("hidden"))) const char xtrace_peer_patches[];

namespace {

using namespace xtrace::peer;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "peer: %s\n", why.c_str());
  std::_Exit(70);
}
void check(SanitizerResult result, const char* call) {
  if (result == SANITIZER_SUCCESS) return;
  const char* text = nullptr;
  sanitizerGetResultString(result, &text);
  stop(std::string(call) + ": " + (text ? text : "unknown error"));
}
const char* variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) stop(std::string(name) + " is not set");
  return value;
}

struct Patch {
  Sanitizer_InstructionId at;
  const char* function;
};
struct Mode {
  const char* name;
  bool records;
  std::vector<Patch> patches;
};

std::vector<Patch> at_accesses(const char* function) {
  return {{SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS, function},
          {SANITIZER_INSTRUCTION_SHARED_MEMORY_ACCESS, function},
          {SANITIZER_INSTRUCTION_LOCAL_MEMORY_ACCESS, function}};
}
std::vector<Patch> at_all() {
  std::vector<Patch> all = at_accesses("xtrace_empty_access");
  for (const Patch& p : std::initializer_list<Patch>{{SANITIZER_INSTRUCTION_BLOCK_ENTER, "xtrace_empty_enter"},
                                                     {SANITIZER_INSTRUCTION_BLOCK_EXIT, "xtrace_empty_enter"},
                                                     {SANITIZER_INSTRUCTION_BARRIER, "xtrace_empty_barrier"},
                                                     {SANITIZER_INSTRUCTION_SYNCWARP, "xtrace_empty_syncwarp"},
                                                     {SANITIZER_INSTRUCTION_SHFL, "xtrace_empty_enter"},
                                                     {SANITIZER_INSTRUCTION_CALL, "xtrace_empty_call"},
                                                     {SANITIZER_INSTRUCTION_RET, "xtrace_empty_enter"},
                                                     {SANITIZER_INSTRUCTION_MEMCPY_ASYNC, "xtrace_empty_copy"},
                                                     {SANITIZER_INSTRUCTION_MATRIX_MEMORY_ACCESS, "xtrace_empty_matrix"}})
    all.push_back(p);
  return all;
}

const std::vector<Mode>& modes() {
  static const std::vector<Mode> rows{
      {"loaded", false, {}},                                // the library alone
      {"empty", false, at_accesses("xtrace_empty_access")}, // a call that does nothing at each access
      {"all", false, at_all()},                             // the same at every event the interface knows
      {"base", true, at_accesses("xtrace_base")},           // 16 bytes an access, by one lane
      {"lanes", true, at_accesses("xtrace_lanes")},         // every lane's address, as `mem`
  };
  return rows;
}
const Mode& mode_of(const char* name) {
  for (const Mode& m : modes())
    if (std::strcmp(m.name, name) == 0) return m;
  stop(std::string("no mode ") + name);
}

struct Kernel {
  uint64_t launches = 0, records = 0;
};

class Peer {
 public:
  Peer() : mode_(mode_of(variable("XTRACE_PEER_MODE"))), out_(variable("XTRACE_PEER_OUT")) {
    Sanitizer_SubscriberHandle handle;
    check(sanitizerSubscribe(&handle, called, this), "sanitizerSubscribe");
    check(sanitizerEnableDomain(1, handle, SANITIZER_CB_DOMAIN_RESOURCE), "sanitizerEnableDomain");
    check(sanitizerEnableDomain(1, handle, SANITIZER_CB_DOMAIN_LAUNCH), "sanitizerEnableDomain");
  }

 private:
  static void called(void* self, Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id, const void* data) {
    auto& peer = *static_cast<Peer*>(self);
    if (domain == SANITIZER_CB_DOMAIN_RESOURCE && id == SANITIZER_CBID_RESOURCE_MODULE_LOADED)
      peer.module_loaded(*static_cast<const Sanitizer_ResourceModuleData*>(data));
    else if (domain == SANITIZER_CB_DOMAIN_LAUNCH && id == SANITIZER_CBID_LAUNCH_BEGIN)
      peer.launch(*static_cast<const Sanitizer_LaunchData*>(data));
    else if (domain == SANITIZER_CB_DOMAIN_RESOURCE && id == SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
      peer.finish();
  }

  void module_loaded(const Sanitizer_ResourceModuleData& m) {
    if (mode_.patches.empty()) return;
    if (patched_.insert(m.context).second) check(sanitizerAddPatches(xtrace_peer_patches, m.context), "sanitizerAddPatches");
    for (const Patch& p : mode_.patches) check(sanitizerPatchInstructions(p.at, m.module, p.function), p.function);
    check(sanitizerPatchModule(m.module), "sanitizerPatchModule");
  }

  void launch(const Sanitizer_LaunchData& l) {
    if (l.functionName != current_) {
      collect();
      current_ = l.functionName;
    }
    ++kernels_[current_].launches;
    if (!mode_.records) return;
    if (buffer_ == nullptr) {
      check(sanitizerAlloc(l.context, &buffer_, buffer_bytes), "sanitizerAlloc");
      check(sanitizerMemset(buffer_, 0, counts_bytes, l.hStream), "sanitizerMemset");
    }
    stream_ = l.hStream;
    if (told_.insert(l.function).second) check(sanitizerSetCallbackData(l.function, buffer_), "sanitizerSetCallbackData");
  }

  // What the kernel that ran until now has counted.
  void collect() {
    if (buffer_ == nullptr || current_.empty()) return;
    std::vector<uint32_t> counts(slots);
    check(sanitizerMemcpyDeviceToHost(counts.data(), buffer_, counts_bytes, stream_), "sanitizerMemcpyDeviceToHost");
    check(sanitizerMemset(buffer_, 0, counts_bytes, stream_), "sanitizerMemset");
    kernels_[current_].records += std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  }

  void finish() {
    collect();
    std::FILE* file = std::fopen(out_, "w");
    if (file == nullptr) stop(std::string("can not write ") + out_);
    std::fprintf(file, "{\"mode\": \"%s\", \"kernels\": [", mode_.name);
    const char* comma = "";
    for (const auto& [name, k] : kernels_) {
      std::fprintf(file, "%s\n  {\"kernel\": \"%s\", \"launches\": %llu, \"records\": %llu}", comma, name.c_str(),
                   static_cast<unsigned long long>(k.launches), static_cast<unsigned long long>(k.records));
      comma = ",";
    }
    std::fprintf(file, "\n]}\n");
    std::fclose(file);
  }

  const Mode& mode_;
  const char* out_;
  std::set<CUcontext> patched_;    // have the patches
  std::set<CUfunction> told_;      // know the buffer
  std::map<std::string, Kernel> kernels_;
  std::string current_;
  void* buffer_ = nullptr;
  Sanitizer_StreamHandle stream_ = nullptr;
};

}  // namespace

// The driver calls it (CUDA_INJECTION64_PATH); under LD_PRELOAD the constructor does.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  static Peer* peer = new Peer;
  (void)peer;
  return 1;
}
__attribute__((constructor)) static void start() { InitializeInjection(); }
