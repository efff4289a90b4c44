// What warpgroups do: products of matrices whose factors lie in shared memory, and registers that move from
// warp to warp.
//
// A product is formed at once: its registers must not be touched before it is waited for, so no correct
// kernel can tell. Each warp forms its own 16 of the 64 rows.
#include <cmath>
#include <optional>
#include <span>

#include "replay/interp/address.h"
#include "replay/interp/op_table.h"
#include "replay/interp/paths.h"
#include "replay/interp/value/float.h"
#include "replay/interp/value/mma.h"

namespace xtrace::replay::interp {
namespace {

// A factor in shared memory: rows of A, columns of B. Its elements of 16 bits lie in chunks of 16 bytes: 8
// along K, or, transposed, 8 rows. [PTX ISA: wgmma matrix descriptor, canonical layouts]
struct Matrix {
  uint32_t start, leading, stride;
  unsigned swizzle;  // 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
  bool transposed;
};
Matrix matrix_of(uint32_t low, uint32_t high, bool transposed) {
  return {(low & 0x3fff) << 4, (low >> 16 & 0x3fff) << 4, (high & 0x3fff) << 4, high >> 30, transposed};
}
uint32_t element_address(const Matrix& m, unsigned row, unsigned k) {
  if (m.swizzle == 0) return m.start + row / 8 * m.stride + k / 8 * m.leading + row % 8 * 16 + k % 8 * 2;
  // Lines of `width` bytes, 8 of them together.
  const uint32_t width = 256u >> m.swizzle;
  const uint32_t at = m.transposed ? m.start + k / 8 * m.stride + k % 8 * width +
                                         row * 2 / width * m.leading + row * 2 % width
                                   : m.start + row / 8 * m.stride + row % 8 * width + k * 2;
  return at ^ (at >> 7 & (width / 16 - 1)) << 4;
}
bool read_rows(Step& s, const Operand* descriptor, bool transposed, unsigned first, unsigned rows,
               uint16_t (*out)[16]) {
  const uint32_t low = s.row(descriptor[0])[0], high = s.row(descriptor[1])[0];
  const Matrix m = matrix_of(low, high, transposed);
  const bool base_offset = (high >> 17 & 7) != 0;
  if (base_offset || (transposed && m.swizzle == 0)) {
    s.fail(ErrorKind::unsupported, base_offset
                                       ? "a base offset in the descriptor of a matrix"
                                       : "a transposed matrix without swizzle, which was not measured");
    return false;
  }
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned k = 0; k < 16; ++k) {
      const std::byte* p = shared_bytes(s, element_address(m, first + r, k), 2, 0);
      if (p == nullptr) return false;
      std::memcpy(&out[r][k], p, 2);
    }
  return true;
}

double number(uint16_t v, bool bfloat) {
  return bfloat ? value::f32(uint32_t{v} << 16) : value::half_to_double(v);
}

// As HMMA adds, what is finite. [measured H200: wgmma_rounding, wgmma_bfloat16, 8192 sums in eight steps each]
std::optional<uint32_t> sum_of_products(std::span<const uint16_t, 16> row, std::span<const uint16_t, 16> column,
                                        uint32_t addend, bool bfloat) {
  bool finite = std::isfinite(value::f32(addend));
  for (unsigned k = 0; k < 16; ++k) finite &= std::isfinite(number(row[k], bfloat) * number(column[k], bfloat));
  if (!finite) return std::nullopt;
  return value::hmma_f32(row, column, addend, bfloat ? value::brain_format : value::half_format);
}

// D = A B (+ D), as HMMA lays D out: i.type columns in registers i.op.. of this warp's 16 rows.
void hgmma(Step& s, const Inst& i) {
  if (s.mask != all_lanes)
    return s.fail(ErrorKind::unsupported, fmt::format("it needs all 32 lanes, {:#010x} take part", s.mask));
  uint16_t a[16][16], b[256][16];  // b by column
  if (i.flag[0]) {
    for (unsigned l = 0; l < lane_count; ++l)
      for (unsigned r = 0; r < 4; ++r)
        for (unsigned k = 0; k < 2; ++k)
          a[l / 4 + 8 * (r % 2)][2 * (l % 4) + k + 8 * (r / 2)] =
              static_cast<uint16_t>(s.row(i.a[r])[l] >> (16 * k));
  } else if (!read_rows(s, i.a, i.flag[2], s.warp->number % 4 * 16, 16, a)) {
    return;
  }
  if (!read_rows(s, i.b, i.flag[3], 0, i.type, b)) return;
  const bool adds = s.pred(i.pp) != 0 && i.c[0].row != s.program->layout.zero();
  for (unsigned j = 0; j < i.type / 8; ++j)
    for (unsigned r = 0; r < 4; ++r) {
      uint32_t* d = s.out(static_cast<int32_t>(i.op + 4 * j + r));
      for (unsigned l = 0; l < lane_count; ++l) {
        const uint16_t *row = a[l / 4 + 8 * (r / 2)], *column = b[8 * j + 2 * (l % 4) + r % 2];
        const auto v = sum_of_products(std::span<const uint16_t, 16>(row, 16), std::span<const uint16_t, 16>(column, 16),
                                       adds ? d[l] : 0, i.flag[1]);
        if (!v)
          return s.fail(ErrorKind::unsupported, "a sum that is not finite, which was not measured", static_cast<int>(l));
        d[l] = *v;
      }
    }
}
void decode_hgmma(Decoder& d, Inst& i) {
  d.expect(75, 75, 1, "the result type");
  const uint32_t format = d.take(77, 76);
  if (format > 1) d.refuse("the operand type");
  i.flag[1] = format == 1;
  d.expect(58, 58, 0, "the shape");
  i.type = (d.take(57, 53) + 1) * 8;
  d.expect(73, 73, 0, "a sparse factor");
  i.flag[0] = d.opcode() == 0x1df0;
  // Descriptors of A and B in four registers; those of A are not read when A stands in registers. [ptxas 13]
  Operand descriptors[4];
  d.urs(descriptors, i.flag[0] ? 32 : 24, 4);
  std::copy(descriptors + 2, descriptors + 4, i.b);
  if (i.flag[0]) {
    d.gprs(i.a, 24, 4);
  } else {
    std::copy(descriptors, descriptors + 2, i.a);
    d.expect(72, 72, 0, "a negated factor");
    i.flag[2] = d.flag(61);
  }
  d.expect(63, 63, 0, "a negated factor");
  i.flag[3] = d.flag(62);
  // Accumulators are read where they are written.
  i.op = d.take(23, 16);
  const uint32_t c = d.take(71, 64);
  if (c != i.op && c != 255) d.refuse("an accumulator in other registers than the result");
  i.c[0].row = c == 255 ? d.program().layout.zero() : static_cast<int32_t>(c);
  if (i.op + i.type / 2 > d.program().layout.gprs)
    d.refuse(fmt::format("R{} is beyond the {} registers of the kernel", i.op + i.type / 2 - 1,
                         d.program().layout.gprs));
  const uint32_t scale = d.take(90, 87);  // UPT reads as 0
  i.pp.index = static_cast<uint8_t>(upt - (scale & 7));
  i.pp.flip = (scale & 8) != 0 ? ~0u : 0;
  d.hint(86, 84);  // the group it is waited for by
  i.unit = Unit::matrix;
  i.exec = hgmma;
}

void arrive(Step& s, const Inst&) { wait_for_warpgroup(s, s.mask); }
// Products are there when they are issued: there is nothing to wait for.
void nothing(Step&, const Inst&) {}
void decode_warpgroup(Decoder& d, Inst& i) {
  const bool waits_for_products = d.flag(80);  // .DEPBAR [nvdisasm 13]
  d.hint(63, 16);
  d.hint(90, 64);
  i.exec = waits_for_products ? nothing : arrive;
}

// USETMAXREG: what warps of a CTA give away, others may take.
void release_registers(Step& s, const Inst& i) {
  if (i.imm > s.warp->registers || !take_registers(*s.cta, *s.warp, i.imm))
    return s.fail(ErrorKind::device, fmt::format("the warp holds {} registers a thread", s.warp->registers));
}
void try_registers(Step& s, const Inst& i) {
  if (i.imm < s.warp->registers)
    return s.fail(ErrorKind::device, fmt::format("the warp holds {} registers a thread", s.warp->registers));
  if (!take_registers(*s.cta, *s.warp, i.imm))
    return wait_trying(s, PathState::at_register_pool, {all_lanes, i.imm, false, i.pu});
  if (i.pu != upt) s.warp->preds[i.pu] = all_lanes;
}
void decode_registers(Decoder& d, Inst& i) {
  if (d.opcode() != 0x19c8) return d.refuse("a number of registers in a register");
  const uint32_t kind = d.take(73, 72);
  if (kind != 1 && kind != 2) d.refuse("the kind of change");
  d.expect(74, 74, 1, "a pool that is not the CTA's");
  i.pu = static_cast<uint8_t>(d.take(83, 81) + 8);
  i.imm = d.take(63, 32);
  i.exec = kind == 1 ? release_registers : try_registers;
}

constexpr Op ops[] = {
    {"HGMMA", 0x1f0, decode_hgmma},
    {"WARPGROUP", 0x1c5, decode_warpgroup},
    {"USETMAXREG", 0x1c8, decode_registers},
};

}  // namespace

std::span<const Op> warpgroup_ops() { return ops; }

}  // namespace xtrace::replay::interp
