// How decoders read records that a backend holds.
#pragma once

#include <memory>

#include "replay/backend.h"
#include "trace/decode.h"

namespace xtrace::interp_test {

// A view holds until the next read.
inline trace::DeviceReader reader_of(replay::Backend& backend) {
  return [&backend, piece = std::make_shared<Bytes>()](uint64_t address, uint64_t bytes) -> Result<ByteView> {
    XT_TRY(*piece, backend.read(DevPtr{address}, bytes));
    return ByteView(*piece);
  };
}

}  // namespace xtrace::interp_test
