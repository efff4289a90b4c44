// Scalar types that must not be mixed up. Each wraps one integer; conversion is explicit.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace xtrace {

// A device virtual address. Never dereferenced on the host.
struct DevPtr {
  uint64_t value = 0;
  auto operator<=>(const DevPtr&) const = default;
  DevPtr operator+(uint64_t bytes) const { return {value + bytes}; }
  uint64_t operator-(DevPtr other) const { return value - other.value; }
};

// Byte offset of an instruction inside a kernel's .text section: in the original code, and in the spliced code.
struct OrigPc {
  uint32_t value = 0;
  auto operator<=>(const OrigPc&) const = default;
};
struct NewPc {
  uint32_t value = 0;
  auto operator<=>(const NewPc&) const = default;
};

// SM clock cycles, and nanoseconds.
struct Cycles {
  uint64_t value = 0;
  auto operator<=>(const Cycles&) const = default;
};
struct Nanoseconds {
  double value = 0;
  auto operator<=>(const Nanoseconds&) const = default;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Dim3&) const = default;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

}  // namespace xtrace

template <>
struct std::hash<xtrace::OrigPc> {
  size_t operator()(const xtrace::OrigPc& pc) const noexcept { return pc.value; }
};
