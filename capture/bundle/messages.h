// LaunchRecord and the manifest to Cap'n Proto messages and back. message_encoder.cc runs inside the application and
// needs no library; message_decoder.cc is the only file that uses Cap'n Proto, and its exceptions end there.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::bundle {

// Where the bytes of a cubin are.
struct StoredCode {
  uint64_t size = 0;
  std::vector<Hash128> chunks;
};

// What only the finished manifest knows. All zero in `incomplete`.
struct BundleTotals {
  uint64_t launch_count = 0, launches_bytes = 0, pack_bytes = 0, chunk_count = 0;
};

struct Manifest {
  BundleInfo info;  // state is not part of the message: the name of the file is
  BundleTotals totals;
};

struct StoredLaunch {
  LaunchRecord launch;
  StoredCode code;
};

Result<Bytes> encode_manifest(const BundleInfo& info, const BundleTotals& totals);
// Refuses a bundle that needs a newer reader, or has a quirk that this one does not know.
Result<Manifest> decode_manifest(ByteView message);
// The same message with another exit status. Fields unknown to this version survive.
Result<Bytes> manifest_with_exit_status(ByteView message, int32_t status);

Result<Bytes> encode_launch(const LaunchRecord& launch, const StoredCode& code);
// Every value is checked (launch_check.h, and the code's chunk count).
Result<StoredLaunch> decode_launch(ByteView message);

}  // namespace xtrace::bundle
