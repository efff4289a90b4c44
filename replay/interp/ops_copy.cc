// Copies from global to shared memory, and matrices of 16-bit elements between shared memory and the lanes of
// a warp.
//
// An asynchronous copy is made at once: its destination must not be read before the copy is waited for, so no
// correct kernel can tell.
#include <algorithm>

#include "replay/interp/address.h"
#include "replay/interp/op_table.h"

namespace xtrace::replay::interp {
namespace {

// LDGSTS: i.d[0] is the row with the shared address, i.b[0] its uniform part, i.imm its offset. Lanes whose predicate does not hold
// read nothing, and zeros arrive. [ptxas 13: cp.async with a source of no bytes]
void ldgsts(Step& s, const Inst& i) {
  const std::byte* from[lane_count] = {};
  for (uint32_t m = s.mask & s.pred(i.pp); m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    from[l] = global_bytes(s, address64(s, i, l), i.bytes, l);
    if (from[l] == nullptr) return;
  }
  const uint32_t base = s.row(i.b[0])[0] + i.imm;
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    std::byte* to = shared_bytes(s, s.out(i.d[0])[l] + base, i.bytes, l);
    if (to == nullptr) return;
    if (from[l] == nullptr)
      std::memset(to, 0, i.bytes);
    else
      std::memcpy(to, from[l], i.bytes);
  }
}
void decode_ldgsts(Decoder& d, Inst& i) {
  const bool uniform_shared = d.opcode() == 0x1dae;  // [nvdisasm 13]
  if (d.opcode() != 0x1fae && !uniform_shared) return d.refuse("its addresses");
  const unsigned to = d.take(23, 16);
  i.d[0] = to == 255 ? d.program().layout.zero() : static_cast<int32_t>(to);
  if (to != 255 && to >= d.program().layout.gprs)
    d.refuse(fmt::format("R{} is beyond the {} registers of the kernel", to, d.program().layout.gprs));
  i.imm = static_cast<uint32_t>(d.take_signed(63, 44));
  const auto zero = Operand{d.program().layout.zero()};
  i.b[0] = i.c[2] = i.c[3] = zero;
  i.offset = d.take_signed(43, 32);
  const bool wide = d.flag(70), descriptor = d.flag(76);
  d.gprs(i.a, 24, wide ? 2 : 1);
  if (!wide) i.a[1] = zero;
  if (descriptor && !wide) d.refuse("a descriptor with a 32-bit address");
  Operand uniform[2];
  d.urs(uniform, 64, uniform_shared ? 1 : 2);
  if (uniform_shared) i.b[0] = uniform[0];
  if (uniform_shared && descriptor) d.refuse("a descriptor");
  if (!descriptor && !uniform_shared) i.c[2] = uniform[0], i.c[3] = uniform[1];
  decode_access_size(d, i);
  if (i.bytes < 4) d.refuse("the access size");
  d.hint(72, 71);  // prefetch size
  d.hint(81, 77);  // order, .BYPASS
  d.expect(82, 82, 0, ".ZFILL");
  d.hint(86, 84);  // eviction
  i.pp = d.pred(87);
  i.unit = Unit::global_memory;
  i.exec = ldgsts;
}

// LDSM, STSM: lane 8 m + r gives the address of row r of matrix m, 8 elements; lane l holds of each matrix
// row l / 4, columns 2 (l % 4) and the next; transposed: these of column l / 4. [PTX ISA: ldmatrix, stmatrix]
bool matrix_rows(Step& s, const Inst& i, std::byte* (&rows)[lane_count]) {
  if (s.mask != all_lanes) {
    s.fail(ErrorKind::unsupported, fmt::format("it needs all 32 lanes, {:#010x} take part", s.mask));
    return false;
  }
  for (unsigned l = 0; l < 8 * i.imm; ++l) {
    rows[l] = shared_bytes(s, address32(s, i, l), 16, l);
    if (rows[l] == nullptr) return false;
  }
  return true;
}
std::byte* element(const Inst& i, std::byte* const (&rows)[lane_count], unsigned matrix, unsigned l,
                   unsigned k) {
  const unsigned row = l / 4, column = 2 * (l % 4) + k;
  return i.flag[0] ? rows[8 * matrix + column] + 2 * row : rows[8 * matrix + row] + 2 * column;
}
void ldsm(Step& s, const Inst& i) {
  std::byte* rows[lane_count];
  if (!matrix_rows(s, i, rows)) return;
  uint16_t half[2];
  for (unsigned m = 0; m < i.imm; ++m)
    for (unsigned l = 0; l < lane_count; ++l) {
      for (unsigned k = 0; k < 2; ++k) std::memcpy(&half[k], element(i, rows, m, l, k), 2);
      s.out(i.d[m])[l] = half[0] | uint32_t{half[1]} << 16;
    }
}
void stsm(Step& s, const Inst& i) {
  std::byte* rows[lane_count];
  if (!matrix_rows(s, i, rows)) return;
  for (unsigned m = 0; m < i.imm; ++m)
    for (unsigned l = 0; l < lane_count; ++l)
      for (unsigned k = 0; k < 2; ++k) {
        const auto half = static_cast<uint16_t>(s.row(i.b[m])[l] >> (16 * k));
        std::memcpy(element(i, rows, m, l, k), &half, 2);
      }
}
void decode_matrices(Decoder& d, Inst& i) {
  const uint32_t count = d.take(73, 72);
  if (count > 2) d.refuse("the number of matrices");
  i.imm = 1u << std::min(count, 2u);
  i.flag[0] = d.flag(78);
  d.expect(79, 79, 0, "the shape");
  i.unit = Unit::shared_memory;
}
void decode_ldsm(Decoder& d, Inst& i) {
  decode_matrices(d, i);
  d.dst_gpr(i, i.imm);
  decode_address32(d, i, 32);
  i.exec = ldsm;
}
void decode_stsm(Decoder& d, Inst& i) {
  decode_matrices(d, i);
  d.gprs(i.b, 32, i.imm);
  decode_address32(d, i, 64);
  i.exec = stsm;
}

constexpr Op ops[] = {
    {"LDGSTS", 0x1ae, decode_ldgsts},
    {"LDSM", 0x03b, decode_ldsm},
    {"STSM", 0x044, decode_stsm},
};

}  // namespace

std::span<const Op> copy_ops() { return ops; }

}  // namespace xtrace::replay::interp
