// Copies device memory to the host through two page-locked buffers: while one is copied into, the other is
// looked at. The footprint of a launch is never held in host memory as a whole.
#pragma once

#include <functional>
#include <unordered_map>

#include "base/bytes.h"
#include "base/status.h"
#include "capture/bundle/launch_record.h"
#include "capture/inject/driver_api.h"

namespace xtrace::inject {

class DeviceReader {
 public:
  explicit DeviceReader(const DriverApi& api) : api_(api) {}

  // A multiple of the chunk size, so that the chunk lists of pieces join to the chunk list of the region.
  static constexpr uint64_t piece_bytes = 64ull << 20;
  static_assert(piece_bytes % bundle::chunk_bytes == 0);

  // Hands [address, address+size) to `sink` in pieces, in order. The context must be current and idle. An
  // error of the sink stops the copy and is returned. One thread at a time.
  Status read(CUcontext context, uint64_t address, uint64_t size,
              const std::function<Status(ByteView)>& sink);
  // One of our own buffers: page-locked memory like an application's, but nothing that a launch may read. Words that
  // happen to point there are data.
  bool owns(uint64_t address) const {
    for (const void* buffer : staging_)
      if (buffer != nullptr && address - reinterpret_cast<uint64_t>(buffer) < piece_bytes) return true;
    return false;
  }
  // The context is going away.
  void forget(CUcontext context) { streams_.erase(context); }

 private:
  Result<CUstream> stream_of(CUcontext context);
  Status issue(CUstream stream, unsigned buffer, uint64_t address, uint64_t size);

  const DriverApi& api_;
  void* staging_[2] = {nullptr,
                       nullptr};  // portable: usable in every context; given back by the end of the process
  std::unordered_map<CUcontext, CUstream> streams_;
};

}  // namespace xtrace::inject
