// The bytes around the payloads of a bundle: file magics, names, and the header in front of every record and
// frame. All integers are little-endian, as on every host CUDA runs on.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"

namespace xtrace::bundle {

constexpr uint32_t format_version = 2;          // what this writer writes
constexpr uint32_t minimum_reader_version = 1;  // who can read it
constexpr uint32_t reader_version = 1;          // what this reader understands

constexpr const char* incomplete_name = "incomplete";
constexpr const char* manifest_name = "manifest";
constexpr const char* launches_name = "launches";
constexpr const char* pack_name = "pack";

// The first eight bytes of a file say what it is. `incomplete` and `manifest` share one.
constexpr uint64_t magic_bytes = 8;
constexpr std::string_view manifest_magic = "XTRMANIF";
constexpr std::string_view launches_magic = "XTRLNCHS";
constexpr std::string_view pack_magic = "XTRCHUNK";

// In front of a Cap'n Proto message (`record_tag`) and of a zstd frame (`frame_tag`), 32 bytes. `check`
// covers the other fields, so that a size is believed only if the header is whole.
struct Header {
  uint32_t tag = 0;
  uint32_t check = 0;
  uint32_t raw_size = 0;                 // frame: bytes after decompression; record: 0
  uint32_t stored_size = 0;              // bytes that follow the header
  uint64_t hash_low = 0, hash_high = 0;  // frame: of the decompressed bytes; record: of the message

  Hash128 hash() const { return {hash_low, hash_high}; }
};
static_assert(sizeof(Header) == 32);

constexpr uint32_t record_tag = 0x44524358;  // "XCRD"
constexpr uint32_t frame_tag = 0x4d464358;   // "XCFM"

Header make_header(uint32_t tag, uint32_t raw_size, uint32_t stored_size, const Hash128& hash);
// bad_input when tag or check do not fit.
Status verify_header(const Header& header, uint32_t tag);

// Header and message, ready to append. Error when the message does not fit the 32-bit size.
Result<Bytes> frame_message(ByteView message);
// Magic, header, message: a whole `manifest` or `incomplete`.
Result<Bytes> manifest_file(ByteView message);
// The message inside, hash-checked.
Result<Bytes> manifest_message(ByteView file);

}  // namespace xtrace::bundle
