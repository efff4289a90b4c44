#include "capture/bundle/framing.h"

#include <algorithm>
#include <cstring>

namespace xtrace::bundle {
namespace {

uint32_t check_of(Header header) {
  header.check = 0;
  return static_cast<uint32_t>(hash128(std::as_bytes(std::span(&header, 1))).low);
}

}  // namespace

Header make_header(uint32_t tag, uint32_t raw_size, uint32_t stored_size, const Hash128& hash) {
  Header h{tag, 0, raw_size, stored_size, hash.low, hash.high};
  h.check = check_of(h);
  return h;
}

Status verify_header(const Header& header, uint32_t tag) {
  if (header.tag != tag) return bad_input("no header: expected tag {:#x}, found {:#x}", tag, header.tag);
  if (const uint32_t check = check_of(header); header.check != check)
    return bad_input("damaged header: expected check {:#x}, found {:#x}", check, header.check);
  return {};
}

Result<Bytes> frame_message(ByteView message) {
  if (message.size() > UINT32_MAX)
    return unsupported("message of {} bytes: a bundle record holds at most {} bytes", message.size(),
                       UINT32_MAX);
  Bytes out(sizeof(Header) + message.size());
  write_at(out, 0, make_header(record_tag, 0, static_cast<uint32_t>(message.size()), hash128(message)));
  std::copy(message.begin(), message.end(), out.begin() + sizeof(Header));
  return out;
}

Result<Bytes> manifest_file(ByteView message) {
  XT_TRY(const Bytes record, frame_message(message));
  Bytes out(magic_bytes + record.size());
  std::memcpy(out.data(), manifest_magic.data(), magic_bytes);
  std::copy(record.begin(), record.end(), out.begin() + magic_bytes);
  return out;
}

Result<Bytes> manifest_message(ByteView file) {
  if (file.size() < magic_bytes + sizeof(Header))
    return bad_input("not the manifest of a bundle: expected at least {} bytes, found {}",
                     magic_bytes + sizeof(Header), file.size());
  if (std::memcmp(file.data(), manifest_magic.data(), magic_bytes) != 0)
    return bad_input("not the manifest of a bundle: expected it to begin with {}", manifest_magic);
  XT_TRY(const Header header, read_at<Header>(file, magic_bytes, "record header"));
  XT_TRY_STATUS(verify_header(header, record_tag));
  XT_TRY(const ByteView message, slice(file, magic_bytes + sizeof(Header), header.stored_size, "manifest"));
  if (const Hash128 found = hash128(message); found != header.hash())
    return bad_input("damaged manifest: expected hash {}, found {}", header.hash().hex(), found.hex());
  return Bytes(message.begin(), message.end());
}

}  // namespace xtrace::bundle
