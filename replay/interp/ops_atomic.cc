// Atomics and reductions: lane after lane, in the order of lanes. Float additions therefore add up in one
// fixed order, which is one of those that hardware may take.
#include "replay/interp/address.h"
#include "replay/interp/op_table.h"
#include "replay/interp/program.h"
#include "replay/interp/special.h"
#include "replay/interp/value/atomic.h"
#include "replay/interp/value/narrow.h"

namespace xtrace::replay::interp {
namespace {

using namespace value;

// Integer types of sm_90, as the field codes them, then those of float additions.
enum Type : uint32_t { u32, s32, u64, s64, f32_ftz, f32, f64, f16x2, bf16x2 };

template <typename T, typename F>
T update(std::byte* p, F f) {
  T old;
  std::memcpy(&old, p, sizeof old);
  const T now = f(old);
  std::memcpy(p, &now, sizeof now);
  return old;
}

bool in_window(uint64_t address) { return in_shared_window(address) || in_local_window(address); }

// Applies one lane's operation to the word at p, and gives the old value.
uint64_t apply(Step& s, const Inst& i, unsigned l, std::byte* p) {
  const uint32_t lo = s.row(i.b[0])[l];
  const uint64_t both = i.bytes == 8 ? uint64_t{s.row(i.b[1])[l]} << 32 | lo : lo;
  const auto op = static_cast<AtomOp>(i.op);
  switch (i.type) {
    case u32:
      return update<uint32_t>(p, [&](uint32_t v) { return atomic(op, v, lo); });
    case s32:
      return static_cast<uint32_t>(
          update<int32_t>(p, [&](int32_t v) { return atomic(op, v, static_cast<int32_t>(lo)); }));
    case u64:
      return update<uint64_t>(p, [&](uint64_t v) { return atomic(op, v, both); });
    case s64:
      return static_cast<uint64_t>(
          update<int64_t>(p, [&](int64_t v) { return atomic(op, v, static_cast<int64_t>(both)); }));
    case f32_ftz:
      return update<uint32_t>(p, [&](uint32_t v) { return flush(fadd(flush(v), flush(lo))); });
    case f32:
      return update<uint32_t>(p, [&](uint32_t v) { return fadd(v, lo); });
    case f64:
      return update<uint64_t>(p, [&](uint64_t v) {
        const double old = std::bit_cast<double>(v), operand = std::bit_cast<double>(both), sum = old + operand;
        if (sum == sum) return std::bit_cast<uint64_t>(sum);
        // The operand first, and unlike in registers it does not become quiet. [measured H200]
        if (operand != operand) return both;
        return old != old ? v : nan64;
      });
    default:
      return update<uint32_t>(p, [&](uint32_t v) {
        const Narrow& n = i.type == bf16x2 ? brain_format : half_format;
        const auto sum = [&](unsigned k) {
          return uint32_t{narrow_add(static_cast<uint16_t>(v >> k), static_cast<uint16_t>(lo >> k), n)} << k;
        };
        return sum(16) | sum(0);
      });
  }
}

template <typename Where>
void each_lane(Step& s, const Inst& i, bool returns, Where where) {
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    std::byte* p = where(l);
    if (p == nullptr) return;
    const uint64_t old = apply(s, i, l, p);
    if (!returns) continue;
    s.out(i.d[0])[l] = static_cast<uint32_t>(old);
    if (i.bytes == 8) s.out(i.d[1])[l] = static_cast<uint32_t>(old >> 32);
  }
}
void atom(Step& s, const Inst& i) {
  each_lane(s, i, true, [&](unsigned l) { return generic_bytes(s, address64(s, i, l), i.bytes, l); });
}
// With a predicate: true in the lanes whose address is global, for the others code behind it takes over.
// [vendor code: atomics that shared memory has not, through a pointer of any kind]
void atom_if_global(Step& s, const Inst& i) {
  const uint32_t global = test(s, [&](unsigned l) { return !in_window(address64(s, i, l)); });
  const uint32_t mask = s.mask;
  s.mask = global;
  atom(s, i);
  s.mask = mask;
  s.set_pred(i.pu, global);
}
void red(Step& s, const Inst& i) {
  each_lane(s, i, false, [&](unsigned l) { return global_bytes(s, address64(s, i, l), i.bytes, l); });
}
void atomg(Step& s, const Inst& i) {
  each_lane(s, i, true, [&](unsigned l) { return global_bytes(s, address64(s, i, l), i.bytes, l); });
}
void atoms(Step& s, const Inst& i) {
  each_lane(s, i, true, [&](unsigned l) { return shared_bytes(s, address32(s, i, l), i.bytes, l); });
}

// --- compare and swap: b is compared with memory, c replaces it when they are equal
template <typename T>
T swap_if(std::byte* p, T expected, T now) {
  return update<T>(p, [&](T old) { return old == expected ? now : old; });
}
template <typename Where>
void compare_swap(Step& s, const Inst& i, Where where) {
  const auto pair = [&](const Operand* o, unsigned l) {
    return i.bytes == 8 ? uint64_t{s.row(o[1])[l]} << 32 | s.row(o[0])[l] : uint64_t{s.row(o[0])[l]};
  };
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    std::byte* p = where(l);
    if (p == nullptr) return;
    const uint64_t expected = pair(i.b, l), now = pair(i.c, l);
    const uint64_t old =
        i.bytes == 8 ? swap_if<uint64_t>(p, expected, now)
                     : swap_if<uint32_t>(p, static_cast<uint32_t>(expected), static_cast<uint32_t>(now));
    // .CAST gives 1 where it swapped, else 0. Hardware may leave it undone although the values agree. [measured H200]
    const uint64_t result = i.flag[0] ? old == expected : old;
    s.out(i.d[0])[l] = static_cast<uint32_t>(result);
    if (i.bytes == 8) s.out(i.d[1])[l] = static_cast<uint32_t>(result >> 32);
  }
}
void cas_global(Step& s, const Inst& i) {
  const uint64_t offset = static_cast<uint64_t>(i.offset);
  compare_swap(s, i, [&](unsigned l) {
    const uint64_t base = uint64_t{s.row(i.a[1])[l]} << 32 | s.row(i.a[0])[l];
    return global_bytes(s, base + offset, i.bytes, l);
  });
}
void cas_generic(Step& s, const Inst& i) {
  compare_swap(s, i, [&](unsigned l) {
    const uint64_t base = uint64_t{s.row(i.a[1])[l]} << 32 | s.row(i.a[0])[l];
    return generic_bytes(s, base + static_cast<uint64_t>(i.offset), i.bytes, l);
  });
}
void cas_shared(Step& s, const Inst& i) {
  compare_swap(s, i, [&](unsigned l) {
    return shared_bytes(s, s.row(i.a[0])[l] + static_cast<uint32_t>(i.offset), i.bytes, l);
  });
}
void decode_swap_operands(Decoder& d, Inst& i) {
  i.type = d.take(75, 73);
  if (i.type != u32 && i.type != u64) d.refuse("the operand type");
  i.bytes = i.type == u64 ? 8 : 4;
  d.dst_gpr(i, i.bytes / 4u);
  d.gprs(i.b, 32, i.bytes / 4u);
  d.gprs(i.c, 64, i.bytes / 4u);
  i.offset = d.take_signed(63, 40);
  i.unit = Unit::global_memory;
}
// .SPIN in [87], a hint; .CAST in [88].
void decode_swap_kind(Decoder& d, Inst& i) {
  d.hint(87, 87);
  i.flag[0] = d.flag(88);
}
void decode_cas64(Decoder& d, Inst& i, Exec exec) {
  decode_swap_operands(d, i);
  i.a[1] = Operand{d.program().layout.zero()};
  d.gprs(i.a, 24, d.flag(72) ? 2 : 1);
  d.no_pred_dst(81, "a predicate result");
  d.hint(86, 84);
  d.hint(80, 77);
  i.exec = exec;
}
void decode_cas_global(Decoder& d, Inst& i) { decode_cas64(d, i, cas_global); }
void decode_cas_generic(Decoder& d, Inst& i) {
  decode_swap_kind(d, i);
  decode_cas64(d, i, cas_generic);
  d.program().uses_local = true;
}
void decode_cas_shared(Decoder& d, Inst& i) {
  decode_swap_operands(d, i);
  d.gprs(i.a, 24, 1);
  decode_swap_kind(d, i);
  i.unit = Unit::shared_memory;
  i.exec = cas_shared;
}

void decode_integer(Decoder& d, Inst& i, unsigned op_high, unsigned op_low) {
  i.type = d.take(75, 73);
  i.op = d.take(op_high, op_low);
  if (i.type == 3 && d.program().arch->sm < 90) {  // .F32.FTZ.RN, which has a form of its own later
    if (i.op != static_cast<uint32_t>(AtomOp::add)) d.refuse("the operation");
    i.type = f32_ftz;
    i.bytes = 4;
    i.unit = Unit::global_memory;
    return;
  }
  if (i.type > s64) d.refuse("the operand type");
  i.bytes = i.type >= u64 ? 8 : 4;
  if (i.op > static_cast<uint32_t>(AtomOp::exchange)) d.refuse("the operation");
  i.unit = Unit::global_memory;
}

void decode_red(Decoder& d, Inst& i) {
  decode_integer(d, i, 89, 87);
  d.gprs(i.b, 32, i.bytes / 4u);
  decode_address(d, i, {64, 90, 71, 63, 40});
  d.hint(86, 84);
  d.hint(80, 77);
  i.exec = red;
}
// .ADD of floats, the operation in [op_high:88].
void decode_float(Decoder& d, Inst& i, unsigned op_high) {
  d.expect(op_high, 88, 0, "the operation");
  i.bytes = 4;
  switch (d.take(76, 73)) {
    case 0:
      i.type = f16x2;
      break;
    case 3:
      i.type = bf16x2;
      break;
    case 9:
      i.type = f32_ftz;
      break;
    case 12:
      i.type = f32;
      break;
    case 15:
      i.type = f64;
      i.bytes = 8;
      break;
    default:
      d.refuse("the operand type");
      break;
  }
  d.gprs(i.b, 32, i.bytes / 4u);
  d.hint(86, 84);
  d.hint(80, 77);
  i.unit = Unit::global_memory;
}
void decode_red_float(Decoder& d, Inst& i) {
  decode_float(d, i, 89);
  d.expect(87, 87, 0, "the operation");
  decode_address(d, i, {64, 90, 71, 63, 40});
  i.exec = red;
}
void decode_atomg_float(Decoder& d, Inst& i) {
  decode_float(d, i, 90);
  d.expect(87, 87, 0, "the operation");
  d.dst_gpr(i, i.bytes / 4u);
  decode_address(d, i, {64, 70, 71, 63, 40});
  d.no_pred_dst(81, "a predicate result");
  i.exec = atomg;
}
void decode_atom_float(Decoder& d, Inst& i) {
  decode_float(d, i, 90);
  d.expect(87, 87, 0, "the operation");
  d.dst_gpr(i, i.bytes / 4u);
  decode_address(d, i, {64, 70, 71, 63, 40});
  i.pu = d.pred_dst(81);
  d.program().uses_local = true;
  i.exec = i.pu == pt ? atom : atom_if_global;
}
void decode_atom(Decoder& d, Inst& i) {
  decode_integer(d, i, 90, 87);
  d.dst_gpr(i, i.bytes / 4u);
  d.gprs(i.b, 32, i.bytes / 4u);
  decode_address(d, i, {64, 70, 71, 63, 40});
  i.pu = d.pred_dst(81);
  d.hint(86, 84);
  d.hint(80, 77);
  d.program().uses_local = true;
  i.exec = i.pu == pt ? atom : atom_if_global;
}
void decode_atomg(Decoder& d, Inst& i) {
  decode_integer(d, i, 90, 87);
  d.dst_gpr(i, i.bytes / 4u);
  d.gprs(i.b, 32, i.bytes / 4u);
  decode_address(d, i, {64, 70, 71, 63, 40});
  d.no_pred_dst(81, "a predicate result");
  d.hint(86, 84);
  d.hint(80, 77);
  i.exec = atomg;
}
// ATOMS.POPC.INC.32: one more for every lane. [measured H200, without a result]
void popc_inc(Step& s, const Inst& i) {
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    std::byte* p = shared_bytes(s, address32(s, i, l), 4, l);
    if (p == nullptr) return;
    update<uint32_t>(p, [](uint32_t v) { return v + 1; });
  }
}
void decode_popc_inc(Decoder& d, Inst& i) {
  d.expect(23, 16, 255, "the result");
  decode_address32(d, i, 64);
  d.hint(90, 87);
  i.bytes = 4;
  i.unit = Unit::shared_memory;
  i.exec = popc_inc;
}
void decode_atoms(Decoder& d, Inst& i) {
  if (d.opcode() == 0x1f8c) return decode_popc_inc(d, i);
  decode_integer(d, i, 90, 87);
  d.dst_gpr(i, i.bytes / 4u);
  d.gprs(i.b, 32, i.bytes / 4u);
  decode_address32(d, i, 64);
  decode_scale(d, i);
  i.unit = Unit::shared_memory;
  i.exec = atoms;
}

// QSPC: whether a generic address is global, local, shared, or in the shared memory of another CTA.
void qspc(Step& s, const Inst& i) {
  enum Kind : uint32_t { global, local, shared, distributed };
  uint32_t lanes = 0;
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint64_t a = address64(s, i, l);
    const bool is_local = in_local_window(a), in_cluster = in_shared_window(a),
               is_shared = in_cluster && (a - shared_window) >> rank_shift == s.cta->rank;
    if (i.op == distributed && is_shared)
      return s.fail(ErrorKind::unsupported,
                    "whether the CTA's own shared memory counts as distributed, which was not measured",
                    static_cast<int>(l));
    const bool kinds[] = {!in_cluster && !is_local, is_local, is_shared, in_cluster && !is_shared};
    const bool yes = kinds[i.op];
    lanes |= static_cast<uint32_t>(yes) << l;
  }
  s.set_pred(i.pu, lanes);
}
void decode_qspc(Decoder& d, Inst& i) {
  if (d.extended()) return d.refuse("an address with a uniform part");
  d.expect(23, 16, 255, "the register result");
  decode_address(d, i, {0, 0, 0, 63, 40});
  i.op = d.take(74, 73);
  i.pu = d.pred_dst(81);
  i.exec = qspc;
}

constexpr Op ops[] = {
    {"RED", 0x18e, decode_red},
    {"RED", 0x1a6, decode_red_float},
    {"ATOMG", 0x1a8, decode_atomg},
    {"ATOMG", 0x1a3, decode_atomg_float},
    {"ATOM", 0x18a, decode_atom},
    {"ATOM", 0x1a2, decode_atom_float},
    {"ATOM.CAS", 0x18b, decode_cas_generic},
    {"QSPC", 0x1aa, decode_qspc},
    {"ATOMS", 0x18c, decode_atoms},
    {"ATOMG.CAS", 0x1a9, decode_cas_global},
    {"ATOMS.CAS", 0x18d, decode_cas_shared},
};

}  // namespace

std::span<const Op> atomic_ops() { return ops; }

}  // namespace xtrace::replay::interp
