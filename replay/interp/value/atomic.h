// What atomics and reductions do to a word in memory. Names are those of the instructions.
#pragma once

#include <cstdint>
#include <type_traits>

namespace xtrace::replay::interp::value {

enum class AtomOp : uint8_t {
  add,
  min,
  max,
  inc,
  dec,
  bit_and,
  bit_or,
  bit_xor,
  exchange
};  // as the field codes them

template <typename T>
constexpr T atomic(AtomOp op, T old, T operand) {
  switch (op) {
    case AtomOp::add:  // wraps around, signed or not
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(operand));
    case AtomOp::min:
      return operand < old ? operand : old;
    case AtomOp::max:
      return operand > old ? operand : old;
    case AtomOp::inc:
      return old >= operand ? T{0} : static_cast<T>(old + 1);  // [PTX ISA]
    case AtomOp::dec:
      return old == 0 || old > operand ? operand : static_cast<T>(old - 1);  // [PTX ISA]
    case AtomOp::bit_and:
      return static_cast<T>(old & operand);
    case AtomOp::bit_or:
      return static_cast<T>(old | operand);
    case AtomOp::bit_xor:
      return static_cast<T>(old ^ operand);
    case AtomOp::exchange:
      return operand;
  }
  return old;
}

}  // namespace xtrace::replay::interp::value
