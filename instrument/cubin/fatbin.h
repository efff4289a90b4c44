// Device code inside host files: finds the entries of every fatbin in an executable, a shared library, an object file or
// a bare fatbin, and unwraps them on demand. Nothing is decompressed before unwrap().
//
// A fatbin [measured, CUDA 13.0 libraries] is {u32 0xBA55ED50, u16 1, u16 header bytes, u64 bytes that follow}, then
// entries {u16 kind, u16 0x101, u32 header bytes, u64 stored bytes with padding, u32 compressed bytes @16, u32 SM @28,
// u64 flags @40, u64 uncompressed bytes @56}. A host ELF file keeps its fatbins in .nv_fatbin (and __nv_relfatbin).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace xtrace::cubin {

struct FatbinEntry {
  enum class Kind : uint16_t { ptx = 1, cubin = 2, other = 0 };
  enum class Compression : uint8_t { none, zstd, lz4 };
  Kind kind = Kind::other;
  uint16_t raw_kind = 0;
  unsigned sm = 0;
  // 'a': code for exactly this SM, 'f': for its family, 0: neither [nvcc 13: sm_90a, sm_100a set flag 0x100000, sm_100f
  // sets 0x200000].
  char sm_suffix = 0;
  uint64_t flags = 0;
  Compression compression = Compression::none;
  uint64_t offset = 0;              // of the stored bytes in the file
  uint64_t stored_bytes = 0;        // without padding where the entry says so
  uint64_t uncompressed_bytes = 0;  // 0 when not compressed
};

// A file that is a cubin itself gives one entry. bad_input for a file that is none of these, a fatbin that is malformed,
// or a host file without device code.
Result<std::vector<FatbinEntry>> fatbin_entries(ByteView file);

// The bytes of an entry of this file. PTX ends with a NUL byte as stored.
Result<Bytes> unwrap(ByteView file, const FatbinEntry& entry);

// The kernels of a cubin entry (unwraps it).
Result<std::vector<std::string>> kernel_names(ByteView file, const FatbinEntry& entry);

}  // namespace xtrace::cubin
