// Bounded reading and writing of little-endian structures in untrusted bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace xtrace {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

// Copies a T from `offset`; bad_input with offset and sizes when it does not fit.
template <typename T>
Result<T> read_at(ByteView bytes, uint64_t offset, std::string_view what) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
    return bad_input("truncated {}: needs {} bytes at offset {:#x}, the data has {:#x}", what, sizeof(T), offset,
                     bytes.size());
  T t;
  std::memcpy(&t, bytes.data() + offset, sizeof(T));
  return t;
}

inline Result<ByteView> slice(ByteView bytes, uint64_t offset, uint64_t size, std::string_view what) {
  if (offset > bytes.size() || bytes.size() - offset < size)
    return bad_input("{} lies outside the data: offset {:#x} size {:#x}, the data has {:#x}", what, offset, size,
                     bytes.size());
  return bytes.subspan(offset, size);
}

// Writes a T at `offset`. The caller guarantees the room: out of range is an internal error.
template <typename T>
void write_at(std::span<std::byte> bytes, uint64_t offset, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  XT_CHECK(offset <= bytes.size() && bytes.size() - offset >= sizeof(T), "write outside a buffer");
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

template <typename T>
void append(Bytes& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* p = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), p, p + sizeof(T));
}

constexpr uint64_t align_up(uint64_t v, uint64_t a) { return a <= 1 ? v : (v + a - 1) / a * a; }
constexpr uint64_t align_down(uint64_t v, uint64_t a) { return a <= 1 ? v : v / a * a; }

}  // namespace xtrace
