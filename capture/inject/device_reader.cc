#include "capture/inject/device_reader.h"

#include <algorithm>

namespace xtrace::inject {

Result<CUstream> DeviceReader::stream_of(CUcontext context) {
  if (staging_[1] == nullptr) {
    for (void*& buffer : staging_) {
      if (buffer != nullptr) continue;
      if (const CUresult r = api_.cuMemHostAlloc(&buffer, piece_bytes, CU_MEMHOSTALLOC_PORTABLE);
          r != CUDA_SUCCESS) {
        buffer = nullptr;
        return device("{} bytes of page-locked memory could not be had: {}", piece_bytes, api_.name_of(r));
      }
    }
  }
  if (const auto it = streams_.find(context); it != streams_.end()) return it->second;
  CUstream stream = nullptr;
  if (const CUresult r = api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING); r != CUDA_SUCCESS)
    return device("a stream for copies could not be created: {}", api_.name_of(r));
  streams_.emplace(context, stream);
  return stream;
}

Status DeviceReader::issue(CUstream stream, unsigned buffer, uint64_t address, uint64_t size) {
  const CUresult r = api_.cuMemcpyDtoHAsync(staging_[buffer], address, size, stream);
  if (r != CUDA_SUCCESS)
    return device("{} bytes at {:#x} could not be read: {}", size, address, api_.name_of(r));
  return {};
}

Status DeviceReader::read(CUcontext context, uint64_t address, uint64_t size,
                          const std::function<Status(ByteView)>& sink) {
  XT_TRY(CUstream stream, stream_of(context));
  unsigned buffer = 0;
  uint64_t pending = std::min(size, piece_bytes);  // bytes on their way into `buffer`
  if (pending != 0) XT_TRY_STATUS(issue(stream, buffer, address, pending));
  uint64_t issued = pending;
  while (pending != 0) {
    if (const CUresult r = api_.cuStreamSynchronize(stream); r != CUDA_SUCCESS)
      return device("reading {} bytes at {:#x} failed: {}", size, address, api_.name_of(r));
    const ByteView piece(static_cast<const std::byte*>(staging_[buffer]), pending);
    pending = std::min(size - issued, piece_bytes);
    buffer ^= 1;
    if (pending != 0) XT_TRY_STATUS(issue(stream, buffer, address + issued, pending));
    issued += pending;
    if (Status s = sink(piece); !s) {
      api_.cuStreamSynchronize(stream);  // nothing may still write into the buffers
      return s;
    }
  }
  return {};
}

}  // namespace xtrace::inject
