// A recorded launch, loaded once for many plans: on the interpreter, which says what its kernel does, and on the GPU where the plans
// run there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "instrument/instrument.h"
#include "replay/interp/interp_backend.h"
#include "replay/session.h"
#include "tests/soak/witness.h"

namespace xtrace::soak {

// Where plans run: on the interpreter itself, there with results as late as the code allows, or on a GPU.
enum class Where : uint8_t { interp, late, gpu };
// The last word of a command line may say so, and is taken away.
Where taken_from(std::vector<std::string>& words);

struct Machine {
  std::unique_ptr<replay::InterpBackend> interp;
  std::unique_ptr<replay::Backend> gpu;
  Where where = Where::interp;
  replay::Backend& backend() { return gpu ? *gpu : *interp; }
  // A GPU has nothing to offer behind an error of its own.
  bool is_lost(const Error& e) const { return gpu != nullptr && e.kind == ErrorKind::device; }
  // `environment` where there is no GPU, or where this was built without its backend.
  static Result<Machine> make(Where where);
};

// Those of tests/unit/interp/recordings.h, and of linked_launch.h, which nobody recorded and whose code is made whole first.
std::vector<std::string> kept_kernels();

class Recording {
 public:
  // The interpreter runs the kernel once; its outputs must be the recorded ones. `unsupported` where the kernel is refused.
  static Result<std::unique_ptr<Recording>> open(const std::string& kernel, Machine& machine);
  // The same of a launch that nobody recorded: its outputs (`after`, empty) are what the interpreter leaves.
  static Result<std::unique_ptr<Recording>> open(replay::LaunchImage launch, Machine& machine);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  const instrument::Splicer& splicer() const { return *splicer_; }
  const std::string& mangled() const { return launch_.record.kernel; }
  replay::Backend& backend() const { return machine_.backend(); }
  bool on_hardware() const { return machine_.gpu != nullptr; }
  uint32_t warps() const { return warps_; }
  uint32_t last_lanes() const { return static_cast<uint32_t>((launch_.record.block.count() - 1) % 32 + 1); }   // of a CTA's last warp
  const Witness& witness() const { return *witness_; }
  // Warps of it wait for others: how often they go round differs each time on hardware, and in which groups their lanes come out.
  bool waits() const { return on_hardware() && waits_; }
  bool waiting(uint32_t block) const { return on_hardware() && waiting_[block]; }
  // Lanes of a warp may come in other groups than on the interpreter, to the same places: on hardware, where they part.
  bool groups_differ(uint32_t warp) const { return on_hardware() && (waits_ || witness_->parted(warp)); }
  bool by_groups(uint32_t block) const { return by_groups_[block]; }
  // What a warp must show at an instruction, on this machine; nothing where that differs each time, or follows from the groups.
  std::optional<Expected> at(uint32_t warp, uint32_t block, uint32_t pc, bool behind = false) const;

  // From restored memory; every byte afterwards must be the recorded one, on hardware but for those in which clean replays differ
  // among themselves (float atomics). A run that does not complete is a device error.
  Status replay(ByteView cubin);

 private:
  explicit Recording(Machine& machine) : machine_(machine) {}
  Status as_recorded(replay::ModuleHandle module);

  Machine& machine_;
  replay::LaunchImage launch_;
  std::optional<instrument::Splicer> splicer_;
  std::optional<Witness> witness_;
  std::optional<replay::CleanReference> clean_;   // on hardware
  std::vector<bool> waiting_, by_groups_;   // by block
  bool waits_ = false;
  uint32_t warps_ = 0;
};

}  // namespace xtrace::soak
