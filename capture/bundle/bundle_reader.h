// Reads a bundle, complete or not. Every number from the files is checked before it is used; a truncated tail is
// dropped and named in info().warnings.
#pragma once

#include <filesystem>
#include <memory>

#include "base/status.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::bundle {

class BundleReader {
 public:
  static Result<std::unique_ptr<BundleReader>> open(const std::filesystem::path& directory);
  ~BundleReader();

  const BundleInfo& info() const;
  const std::vector<LaunchRecord>& launches() const;   // in ordinal order
  const std::filesystem::path& directory() const;

  // The chunks of one image, decompressed, hash-checked and joined. `size` is Region::size.
  Result<Bytes> memory(const std::vector<Hash128>& chunks, uint64_t size) const;
  Result<Bytes> code(const Hash128& hash) const;
  uint64_t code_size(const Hash128& hash) const;       // bytes of a cubin; 0 when no launch has it
  uint64_t pack_bytes() const;                         // file size of the pack
  uint64_t chunk_count() const;

 private:
  struct Impl;
  explicit BundleReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace xtrace::bundle
