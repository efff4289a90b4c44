// The table of operations: which decode function reads which instruction. One row a mnemonic and base opcode
// (the low nine bits; the bits above say where operands stand).
#pragma once

#include <span>
#include <string_view>

#include "replay/interp/decoder.h"

namespace xtrace::replay::interp {

struct Op {
  std::string_view mnemonic;
  uint16_t base;
  void (*decode)(Decoder&, Inst&);
};

// By family, each in the file of its name.
std::span<const Op> integer_ops();
std::span<const Op> logic_ops();
std::span<const Op> shift_ops();
std::span<const Op> float32_ops();
std::span<const Op> float64_ops();
std::span<const Op> half_ops();
std::span<const Op> convert_ops();
std::span<const Op> predicate_ops();
std::span<const Op> move_ops();
std::span<const Op> memory_ops();
std::span<const Op> copy_ops();
std::span<const Op> mbarrier_ops();
std::span<const Op> tensor_ops();
std::span<const Op> atomic_ops();
std::span<const Op> warp_ops();
std::span<const Op> control_ops();
std::span<const Op> matrix_ops();
std::span<const Op> warpgroup_ops();

// nullptr when the operation is not implemented.
const Op* find_op(std::string_view mnemonic, uint16_t opcode);

}  // namespace xtrace::replay::interp
