// Writes a bundle while the application runs. Life of the directory:
//
//   run.xtr/incomplete   created first; holds the format version       state: recording, or its process died
//   run.xtr/pack         append-only zstd frames (chunks and cubins), written before the launch that refers to them
//   run.xtr/launches     append-only length-prefixed Cap'n Proto messages, one a launch, each complete or absent
//   run.xtr/manifest     one Cap'n Proto message, written by finish() to a temporary name and renamed; then `incomplete`
//                        is removed: the bundle is complete
//
// A reader accepts a directory that still has `incomplete`: every finished launch is there.
// Thread safety: any thread may call put_*; one thread at a time add_launch and finish. Compression runs on worker
// threads. No exception leaves this class; a full disk is an Error from the call that met it and from finish().
#pragma once

#include <filesystem>
#include <memory>

#include "base/status.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::bundle {

struct WriterOptions {
  unsigned compression_threads = 4;
  int zstd_level = 1;
  bool overwrite = false;      // replace an existing bundle (never any other directory)
};

class BundleWriter {
 public:
  static Result<std::unique_ptr<BundleWriter>> create(const std::filesystem::path& directory, const Environment& env,
                                                      const WriterOptions& options);
  ~BundleWriter();  // leaves the bundle incomplete unless finish() succeeded

  // Stores a memory image: splits into chunks, hashes, hands new chunks to the workers. `data` may be reused on return.
  Result<std::vector<Hash128>> put_memory(ByteView data);
  Result<Hash128> put_code(ByteView cubin);
  // Blocks until everything the launch refers to is on its way to the file system, then appends the launch.
  Status add_launch(const LaunchRecord& launch);
  // After a failure of the calls above: gives back the room of everything that no finished launch refers to, and with it
  // appends `skipped`, whose reason tells a reader why the bundle ends here. Nothing can be added afterwards.
  Status give_up(const LaunchRecord& skipped);
  Status finish(const BundleInfo& info);   // info.environment is ignored in favour of create()'s

  // Called by `xtrace record` after the application ended: rewrites the manifest of a complete bundle with its status.
  static Status set_application_exit_status(const std::filesystem::path& directory, int32_t status);

  uint64_t stored_bytes() const;           // compressed bytes in the pack
  uint64_t raw_bytes() const;              // uncompressed bytes offered, before deduplication

 private:
  struct Impl;
  explicit BundleWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace xtrace::bundle
