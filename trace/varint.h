// LEB128 integers, as in protobuf: seven bits a byte, least significant first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace xtrace::trace {

inline void put_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
}
constexpr uint64_t zigzag(int64_t v) {
  return static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63);
}
constexpr int64_t unzigzag(uint64_t v) { return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1); }
inline void put_signed(std::string& out, int64_t v) { put_varint(out, zigzag(v)); }
inline void put_string(std::string& out, std::string_view s) {
  put_varint(out, s.size());
  out.append(s);
}

// Reads untrusted bytes front to back. After a failure `ok()` is false and every read gives 0.
class VarintReader {
 public:
  explicit VarintReader(std::string_view bytes) : p_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  uint64_t varint() {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && p_ != end_; shift += 7) {
      const auto b = static_cast<uint8_t>(*p_++);
      if (shift == 63 && b > 1) break;
      v |= uint64_t{b & 0x7fu} << shift;
      if ((b & 0x80) == 0) return v;
    }
    fail();
    return 0;
  }
  int64_t signed_varint() { return unzigzag(varint()); }
  uint32_t varint32() {
    const uint64_t v = varint();
    if (v > 0xffffffff) fail();
    return ok_ ? static_cast<uint32_t>(v) : 0;
  }
  // A count of things that take at least `least_bytes` each: bounded by what is left, so that it can be
  // allocated.
  uint64_t count(uint64_t least_bytes = 1) {
    const uint64_t n = varint();
    if (n > left() / least_bytes) fail();
    return ok_ ? n : 0;
  }
  std::string_view bytes(uint64_t n) {
    if (n > left()) fail();
    if (!ok_) return {};
    std::string_view s(p_, n);
    p_ += n;
    return s;
  }
  std::string string() { return std::string(bytes(count())); }

  bool ok() const { return ok_; }
  bool at_end() const { return p_ == end_; }
  uint64_t left() const { return static_cast<uint64_t>(end_ - p_); }
  void fail() {
    ok_ = false;
    p_ = end_;
  }

 private:
  const char *p_, *end_;
  bool ok_ = true;
};

}  // namespace xtrace::trace
