// How many registers an operand of a word has, where that depends on other fields (WidthRule).
#include <algorithm>
#include <bit>

#include "base/check.h"
#include "instrument/sass/form.h"

namespace xtrace::sass {
namespace {

unsigned field(const RawInst& w, unsigned high, unsigned low) {
  return static_cast<unsigned>(get_bits(w, bits(high, low)));
}

unsigned integer_atomic_width(const Arch& arch, const RawInst& w) {
  const unsigned type = field(w, 75, 73);
  if (arch.sm >= 90) return type == 4 ? 4 : type == 2 || type == 3 ? 2 : 1;
  return type == 2 || type == 5 || type == 6 ? 2 : 1;
}

unsigned float_atomic_width(const RawInst& w) {
  switch (field(w, 76, 73)) {
    case 1:   // F16x4
    case 4:   // BF16x4
    case 10:  // F32x2.FTZ
    case 13:  // F32x2
    case 15:  // F64
      return 2;
    case 2:   // F16x8
    case 5:   // BF16x8
    case 11:  // F32x4.FTZ
    case 14:  // F32x4
      return 4;
    default:
      return 1;
  }
}

bool is_sparse(const RawInst& w) {
  switch (opcode13(w)) {
    case 0x237:
      return field(w, 72, 72) != 0;
    case 0x27a:
      return field(w, 80, 80) != 0;
    default:
      return field(w, 73, 73) != 0;
  }
}

// HMMA: {[78],[75]} 0 = 16x8x8, 1 = 16x8x16, 2 = 16x8x4; TF32 when [83:82] = 2. Sparse shapes: upper bound.
unsigned hmma_width(WidthRule rule, const RawInst& w) {
  const unsigned shape = field(w, 78, 78) << 1 | field(w, 75, 75);
  const bool tf32 = field(w, 83, 82) == 2;
  if (rule == WidthRule::hm_d) return field(w, 76, 76) != 0 ? 4 : 2;
  if (is_sparse(w) || shape == 3) return 4;
  constexpr uint8_t half_a[] = {2, 4, 1}, half_b[] = {1, 2, 1}, tf32_a[] = {4, 4, 2}, tf32_b[] = {2, 2, 1};
  if (rule == WidthRule::hm_a) return tf32 ? tf32_a[shape] : half_a[shape];
  return tf32 ? tf32_b[shape] : half_b[shape];
}

// IMMA: {[86:85],[75]} 0 = 8x8x16, 4 = 16x8x16, 5 = 16x8x32. Others (4-bit operands): upper bound. [nvdisasm
// 13]
unsigned imma_width(WidthRule rule, const RawInst& w) {
  const unsigned shape = field(w, 86, 85) << 1 | field(w, 75, 75);
  if (is_sparse(w)) return 4;
  switch (shape) {
    case 0:  // 8816
      return rule == WidthRule::im_d ? 2 : 1;
    case 4:  // 16816
      return rule == WidthRule::im_d ? 4 : rule == WidthRule::im_a ? 2 : 1;
    case 5:  // 16832
      return rule == WidthRule::im_d ? 4 : rule == WidthRule::im_a ? 4 : 2;
    default:
      return 4;
  }
}

// QMMA: [76:75] 0 = 16x8x16, 1 = 16x8x32 (the tile sizes over 32 lanes). Others, and sparse ones: upper
// bound.
unsigned qmma_width(WidthRule rule, const RawInst& w) {
  if (rule == WidthRule::qm_d) return field(w, 77, 77) != 0 ? 4 : 2;
  const unsigned shape = field(w, 76, 75);
  if (is_sparse(w) || shape > 1) return 4;
  const unsigned b = shape == 0 ? 1 : 2;
  return rule == WidthRule::qm_a ? 2 * b : b;
}

// LDTM, STTM: 1, 2 ... 128 repetitions ([85:83]); a 128-bit lane row takes 2 registers, a 256-bit one 4. [PTX
// ISA, tcgen05.ld; register numbers in ptxas 13 output]
unsigned tensor_memory_width(const RawInst& w) {
  const unsigned shape = field(w, 87, 87) << 2 | field(w, 82, 81);
  const unsigned repeat = 1u << field(w, 85, 83);
  const unsigned each = shape == 0 ? 2 : shape == 1 ? 4 : 1;
  return std::min(each * repeat, 128u);
}

bool tld_reads_level_zero(const Arch& arch, const RawInst& w) {
  return arch.sm >= 100 ? field(w, 88, 87) == 0 : field(w, 89, 87) == 1;
}

// DMMA: [77:76] 0 = 8x8x4, 1 = 16x8x4, 2 = 16x8x8, 3 = 16x8x16.
unsigned dmma_width(WidthRule rule, const RawInst& w) {
  constexpr uint8_t d[] = {4, 8, 8, 8}, a[] = {2, 4, 8, 16}, b[] = {2, 2, 4, 8};
  const unsigned shape = field(w, 77, 76);
  return rule == WidthRule::dm_d ? d[shape] : rule == WidthRule::dm_a ? a[shape] : b[shape];
}

// Accumulator registers of a thread: 64 x N values over 128 threads, packed in pairs when they are F16.
unsigned gmma_width(const RawInst& w) {
  const unsigned kind = opcode13(w) & 0xf;
  const bool half = (kind == 0 || kind == 3) && field(w, 75, 75) == 0;
  return half ? gmma_columns(w) / 4 : gmma_columns(w) / 2;
}

bool vector_part_is_wide(const Arch& arch, const RawInst& w, bool atomic) {
  if ((opcode13(w) & 0x1000) == 0) return field(w, 72, 72) != 0;  // the vector register is the whole address
  if (!atomic) return field(w, 90, 90) != 0;
  // sm_100 and later moved the flag (bit 70 belongs to the uniform register there): take the wider reading.
  // [guess]
  return arch.sm >= 100 || field(w, 90, 90) != 0 || field(w, 70, 70) != 0;
}

}  // namespace

// N of a 64xNxK warpgroup MMA. The code differs by operand type. [nvdisasm 13, every code tried]
unsigned gmma_columns(const RawInst& w) {
  const auto from_steps = [](unsigned steps) { return steps < 4 ? (steps + 1) * 8 : (steps - 1) * 16; };
  switch (opcode13(w) & 0xf) {
    case 1:  // IGMMA: multiples of 3 count the steps 8 16 24 32 48 64 ... 256
      return from_steps(field(w, 58, 53) / 3);
    case 2:  // BGMMA: the same steps
      return from_steps(field(w, 57, 53));
    default:  // HGMMA, QGMMA
      return (field(w, 57, 53) + 1) * 8;
  }
}

unsigned slot_width(const Arch& arch, const RawInst& w, const Slot& slot) {
  switch (slot.rule) {
    case WidthRule::count:
      return slot.count;
    case WidthRule::sz: {
      const unsigned size = field(w, 75, 73);
      return size == 6 || size == 7 ? 4 : size == 5 ? 2 : 1;
    }
    case WidthRule::e:
      return vector_part_is_wide(arch, w, false) ? 2 : 1;
    case WidthRule::ae:
      return vector_part_is_wide(arch, w, true) ? 2 : 1;
    case WidthRule::e70:
      return (arch.sm >= 100 ? field(w, 83, 83) : field(w, 70, 70)) != 0 ? 2 : 1;
    case WidthRule::e90:
      return field(w, 90, 90) != 0 ? 2 : 1;
    case WidthRule::desc:
      return field(w, 76, 76) != 0 || field(w, 72, 72) != 0 ? 2 : 1;
    case WidthRule::ati:
      return integer_atomic_width(arch, w);
    case WidthRule::atf:
      return float_atomic_width(w);
    case WidthRule::mnum:
      return 1u << field(w, 73, 72);
    case WidthRule::d76:
      return field(w, 76, 75) == 3 ? 2 : 1;
    case WidthRule::s85:
      return field(w, 85, 84) == 3 ? 2 : 1;
    case WidthRule::m73:
      return field(w, 73, 73) != 0 ? 2 : 1;
    case WidthRule::cs2r:
    case WidthRule::m80:
      return field(w, 80, 80) != 0 ? 2 : 1;
    case WidthRule::hm_d:
    case WidthRule::hm_a:
    case WidthRule::hm_b:
      return hmma_width(slot.rule, w);
    case WidthRule::im_d:
    case WidthRule::im_a:
    case WidthRule::im_b:
      return imma_width(slot.rule, w);
    case WidthRule::dm_d:
    case WidthRule::dm_a:
    case WidthRule::dm_b:
      return dmma_width(slot.rule, w);
    case WidthRule::sparse:
      return is_sparse(w) ? 1 : 0;
    case WidthRule::gm_d:
      return gmma_width(w);
    case WidthRule::gm_c:
      return field(w, 90, 87) == 8 ? 0 : gmma_width(w);  // !UPT: starts from zero
    case WidthRule::cctl: {
      const unsigned op = field(w, 90, 87);
      return op == 4 || op == 6 || op == 7 || op == 8 ? 0 : 2;
    }
    case WidthRule::w74:
      return field(w, 74, 74) != 0 ? 2 : 1;
    case WidthRule::w75:
      return field(w, 75, 75) != 0 ? 2 : 1;
    case WidthRule::zd:
      return arch.sm < 80 ? field(w, 87, 87) : 0;
    case WidthRule::w72:
      return field(w, 72, 72) != 0 ? 2 : 1;
    case WidthRule::c65:
      return field(w, 65, 65);
    case WidthRule::ds76:
      return field(w, 76, 76) != 0 ? 3 : 1;
    case WidthRule::u120:
      return arch.sm >= 120 ? 2 : 0;
    case WidthRule::c84:
      return field(w, 84, 84);
    case WidthRule::tdesc:
      return field(w, 76, 76) != 0 ? 2 : 0;
    case WidthRule::dim0:
    case WidthRule::dim1:
    case WidthRule::dim2: {
      const unsigned addresses = static_cast<unsigned>(slot.rule) - static_cast<unsigned>(WidthRule::dim0);
      return std::min(field(w, 81, 79), 4u) + 1 + addresses;
    }
    case WidthRule::f2a:
      return field(w, 82, 81) == 2 ? 1 : 2;
    case WidthRule::f2b:
      return field(w, 88, 87) == 2 ? 1 : 2;
    case WidthRule::f2c:
      return field(w, 85, 84) == 2 ? 1 : 2;
    case WidthRule::h884:
      return field(w, 76, 76) != 0 && field(w, 78, 78) == 0 ? 1 : 2;
    case WidthRule::qm_d:
    case WidthRule::qm_a:
    case WidthRule::qm_b:
      return qmma_width(slot.rule, w);
    case WidthRule::tld_d:
      return std::clamp(static_cast<unsigned>(std::popcount(field(w, 75, 72))), 1u, 2u);
    case WidthRule::tld_e:
      return std::max(std::popcount(field(w, 75, 72)), 2) - 2u;
    case WidthRule::tld_a: {
      const bool plain_1d =
          field(w, 63, 61) == 0 && field(w, 78, 76) == 0 && (arch.sm < 100 || field(w, 57, 56) == 0);
      return plain_1d && tld_reads_level_zero(arch, w) ? 1 : 4;
    }
    case WidthRule::tm:
      return tensor_memory_width(w);
  }
  check_failed("slot.rule", __FILE__, __LINE__, "unknown width rule");
}

}  // namespace xtrace::sass
