#include "replay/interp/op_table.h"

namespace xtrace::replay::interp {

const Op* find_op(std::string_view mnemonic, uint16_t opcode) {
  for (const auto family :
       {integer_ops(), logic_ops(), shift_ops(), float32_ops(), float64_ops(), half_ops(), convert_ops(),
        predicate_ops(), move_ops(), memory_ops(), copy_ops(), mbarrier_ops(), tensor_ops(), atomic_ops(), warp_ops(),
        control_ops(), matrix_ops(), warpgroup_ops()})
    for (const Op& op : family)
      if (op.base == (opcode & 0x1ff) && op.mnemonic == mnemonic) return &op;
  return nullptr;
}

}  // namespace xtrace::replay::interp
