// Private to this room: bounded reading of the encodings DWARF uses.
#pragma once

#include <algorithm>
#include <string_view>

#include "base/bytes.h"

namespace xtrace::cubin {

class DwarfCursor {
 public:
  // Reads [begin, end) of `section`; positions are offsets in the section. `what` names it in errors.
  DwarfCursor(ByteView section, uint64_t begin, uint64_t end, std::string_view what)
      : bytes_(section.first(std::min<uint64_t>(end, section.size()))), at_(begin), what_(what) {}

  uint64_t at() const { return at_; }
  bool done() const { return at_ >= bytes_.size(); }
  uint64_t end() const { return bytes_.size(); }
  void seek(uint64_t at) { at_ = at; }

  template <typename T>
  Result<T> fixed() {
    XT_TRY(const T value, read_at<T>(bytes_, at_, what_));
    at_ += sizeof(T);
    return value;
  }
  Status skip(uint64_t count) {
    XT_TRY_STATUS(slice(bytes_, at_, count, what_));
    at_ += count;
    return {};
  }
  Result<uint64_t> uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      XT_TRY(const uint8_t b, fixed<uint8_t>());
      if (shift >= 64 || (shift == 63 && (b & 0x7e) != 0))
        return bad_input("{}: a LEB128 number before {:#x} exceeds 64 bits", what_, at_);
      value |= uint64_t{b & 0x7fu} << shift;
      if ((b & 0x80) == 0) return value;
    }
  }
  Result<int64_t> sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      XT_TRY(const uint8_t b, fixed<uint8_t>());
      if (shift >= 64) return bad_input("{}: a LEB128 number before {:#x} exceeds 64 bits", what_, at_);
      value |= uint64_t{b & 0x7fu} << shift;
      if ((b & 0x80) != 0) continue;
      if ((b & 0x40) != 0 && shift + 7 < 64) value |= ~uint64_t{0} << (shift + 7);
      return static_cast<int64_t>(value);
    }
  }
  Result<std::string_view> string() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + std::min(at_, end()),
                                end() - std::min(at_, end()));
    const size_t length = rest.find('\0');
    if (length == std::string_view::npos)
      return bad_input("{}: a string at {:#x} is not terminated", what_, at_);
    at_ += length + 1;
    return rest.substr(0, length);
  }
  // The initial length of a unit: 4 bytes, or 0xffffffff and 8 bytes. Gives the end of the unit.
  struct Unit {
    uint64_t length_at = 0, end = 0;
    bool wide = false;  // 64-bit DWARF
  };
  Result<Unit> unit() {
    Unit u;
    u.length_at = at_;
    XT_TRY(uint64_t length, fixed<uint32_t>());
    if (length == 0xffffffff) {
      u.wide = true;
      XT_TRY(length, fixed<uint64_t>());
    }
    if (length > end() - at_)
      return bad_input("{}: the unit at {:#x} claims {:#x} bytes, {:#x} are left", what_, u.length_at, length,
                       end() - at_);
    u.end = at_ + length;
    return u;
  }
  Result<uint64_t> offset(bool wide) {
    if (wide) return fixed<uint64_t>();
    XT_TRY(const uint32_t value, fixed<uint32_t>());
    return value;
  }

 private:
  ByteView bytes_;
  uint64_t at_ = 0;
  std::string_view what_;
};

inline void append_uleb(Bytes& out, uint64_t value) {
  do {
    const uint8_t b = value & 0x7f;
    value >>= 7;
    append(out, static_cast<uint8_t>(value != 0 ? b | 0x80 : b));
  } while (value != 0);
}

inline void append_sleb(Bytes& out, int64_t value) {
  for (bool more = true; more;) {
    const uint8_t b = value & 0x7f;
    value >>= 7;
    more = !((value == 0 && (b & 0x40) == 0) || (value == -1 && (b & 0x40) != 0));
    append(out, static_cast<uint8_t>(more ? b | 0x80 : b));
  }
}

}  // namespace xtrace::cubin
