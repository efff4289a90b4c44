// The recorded regions of one launch in device memory, each at its recorded address, with a pristine copy to
// restore from. Module variables are not here: they live where the loader puts them (loaded_module.h).
#pragma once

#include <optional>
#include <vector>

#include "replay/address_plan.h"
#include "replay/backend.h"
#include "replay/driver/launch_stream.h"
#include "replay/driver/physical.h"

namespace xtrace::replay {

class PlacedMemory {
 public:
  // What nobody recorded inside a mapped granule holds this byte: neither zero nor a plausible pointer.
  static constexpr uint8_t poison = 0xa5;

  PlacedMemory(const DriverApi& api, const CUdevice& device, DeviceBuffers& buffers, LaunchStream& stream)
      : api_(api), device_(device), buffers_(buffers), stream_(stream) {}
  PlacedMemory(const PlacedMemory&) = delete;
  PlacedMemory& operator=(const PlacedMemory&) = delete;

  // `regions` without chunk lists, `before` parallel to it. Reserves and maps everything, poisons the gaps, uploads `before`, makes the pristine copies: in device
  // memory as long as `keep_free` bytes stay free, in pinned host memory beyond. All or nothing: a failure
  // unmaps what was done.
  Status place(const std::vector<bundle::Region>& regions, const std::vector<Bytes>& before, uint64_t keep_free);

  // Queues the copies that bring the chosen regions (and the poison between them) back, without waiting.
  Status restore_all();
  Status restore_written();
  void set_written(const std::vector<bool>& written);

  Status remove();
  // Forgets everything without calling the driver.
  void abandon();

  uint64_t mapped_bytes() const { return plan_.mapped_bytes; }
  uint64_t pristine_host_bytes() const { return pristine_host_bytes_; }
  bool uses_pool() const { return pool_allocation_.has_value(); }

 private:
  struct Pristine {
    CUdeviceptr device = 0;  // same layout as the run
    void* host = nullptr;    // pinned, when device is 0
  };
  struct Copy {
    size_t run = 0;
    AddressSpan span;
  };

  Status reserve();
  // True when one reservation that covers `needed` was obtained; else last_refusal_ says what came back.
  Result<bool> reserve_span(const AddressSpan& needed);
  bool reserved(const AddressSpan& span) const;
  // Runs that no reservation reaches may lie where the default memory pool begins; the pool then yields them
  // again. Erases from `unplaced` what it placed.
  Status place_in_pool(std::vector<size_t>& unplaced);
  tl::unexpected<Error> refuse(size_t run);
  Status map();
  Status upload(const std::vector<Bytes>& before);
  Status make_pristine(uint64_t keep_free);
  Status queue(const std::vector<Copy>& copies);
  Status settle(const char* what);

  const DriverApi& api_;
  const CUdevice& device_;  // the backend knows it only after cuInit
  DeviceBuffers& buffers_;
  LaunchStream& stream_;

  std::vector<bundle::Region> regions_;  // without chunk lists
  AddressPlan plan_;
  std::vector<AddressSpan> reservations_, mappings_;
  std::optional<AddressSpan> pool_allocation_;
  std::string last_refusal_;        // "asked for X, obtained Y": the last reservation that failed
  std::vector<Pristine> pristine_;  // parallel to plan_.runs
  uint64_t pristine_host_bytes_ = 0;
  std::vector<Copy> copy_all_, copy_written_;
};

}  // namespace xtrace::replay
