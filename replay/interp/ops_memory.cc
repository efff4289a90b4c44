// Loads and stores. Ordering, caching and prefetch modifiers have no effect here: memory is always up to
// date.
#include "replay/interp/address.h"
#include "replay/interp/op_table.h"

namespace xtrace::replay::interp {
namespace {

unsigned registers_of(const Inst& i) { return i.bytes <= 4 ? 1 : i.bytes / 4u; }

void load_lane(const Step& s, const Inst& i, unsigned l, const std::byte* p) {
  if (i.bytes >= 4) {
    for (unsigned k = 0; k < i.bytes / 4u; ++k) std::memcpy(&s.out(i.d[k])[l], p + 4 * k, 4);
    return;
  }
  uint32_t v = 0;
  std::memcpy(&v, p, i.bytes);
  s.out(i.d[0])[l] = i.flag[0] ? static_cast<uint32_t>(sign_extend(v, 8u * i.bytes)) : v;
}
void store_lane(const Step& s, const Inst& i, unsigned l, std::byte* p) {
  if (i.bytes >= 4) {
    for (unsigned k = 0; k < i.bytes / 4u; ++k) std::memcpy(p + 4 * k, &s.row(i.b[k])[l], 4);
    return;
  }
  std::memcpy(p, &s.row(i.b[0])[l], i.bytes);
}

// `where`(step, inst, lane) gives the bytes of a lane. Addresses of a load may be overwritten by it: every
// lane's own only.
template <typename Where>
void load(Step& s, const Inst& i, Where where) {
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const std::byte* p = where(s, i, l);
    if (p == nullptr) return;
    load_lane(s, i, l, p);
  }
}
template <typename Where>
void store(Step& s, const Inst& i, Where where) {
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    std::byte* p = where(s, i, l);
    if (p == nullptr) return;
    store_lane(s, i, l, p);
  }
}

std::byte* at_global(Step& s, const Inst& i, unsigned l) {
  return global_bytes(s, address64(s, i, l), i.bytes, l);
}
std::byte* at_generic(Step& s, const Inst& i, unsigned l) {
  return generic_bytes(s, address64(s, i, l), i.bytes, l);
}
std::byte* at_shared(Step& s, const Inst& i, unsigned l) {
  return shared_bytes(s, address32(s, i, l), i.bytes, l);
}
std::byte* at_local(Step& s, const Inst& i, unsigned l) {
  return local_bytes(s, address32(s, i, l), i.bytes, l);
}

void ldg(Step& s, const Inst& i) { load(s, i, at_global); }
void ld(Step& s, const Inst& i) { load(s, i, at_generic); }
void lds(Step& s, const Inst& i) { load(s, i, at_shared); }
void ldl(Step& s, const Inst& i) { load(s, i, at_local); }
void stg(Step& s, const Inst& i) { store(s, i, at_global); }
void st(Step& s, const Inst& i) { store(s, i, at_generic); }
void sts(Step& s, const Inst& i) { store(s, i, at_shared); }
void stl(Step& s, const Inst& i) { store(s, i, at_local); }

void hints(Decoder& d) {
  d.hint(86, 84);  // eviction
  d.hint(80, 77);  // order and scope
}

void decode_load_register(Decoder& d, Inst& i) {
  decode_access_size(d, i);
  d.dst_gpr(i, registers_of(i));
}
void decode_store_register(Decoder& d, Inst& i, unsigned low) {
  decode_access_size(d, i);
  d.gprs(i.b, low, registers_of(i));
}

void decode_ldg(Decoder& d, Inst& i) {
  decode_load_register(d, i);
  decode_address(d, i, {32, 90, 76, 63, 40});
  hints(d);
  d.hint(69, 68);  // prefetch size
  d.no_pred_dst(81, "a predicate result");
  d.expect(67, 64, 0, "a predicate operand");
  i.unit = Unit::global_memory;
  i.exec = ldg;
}
void decode_ld(Decoder& d, Inst& i) {
  decode_load_register(d, i);
  decode_address(d, i, d.extended() ? AddressFields{32, 90, 76, 63, 40} : AddressFields{0, 0, 0, 63, 32});
  hints(d);
  d.hint(69, 68);
  d.hint(83, 81);  // no predicate is written [measured H200]
  d.expect(67, 64, 0, "a predicate operand");
  i.unit = Unit::global_memory;
  d.program().uses_local = true;
  i.exec = ld;
}
void decode_stg(Decoder& d, Inst& i) {
  decode_store_register(d, i, 32);
  decode_address(d, i, {64, 90, 76, 63, 40});
  hints(d);
  i.unit = Unit::global_memory;
  i.exec = stg;
}
void decode_st(Decoder& d, Inst& i) {
  decode_store_register(d, i, d.extended() ? 32 : 64);
  decode_address(d, i, d.extended() ? AddressFields{64, 90, 76, 63, 40} : AddressFields{0, 0, 0, 63, 32});
  hints(d);
  i.unit = Unit::global_memory;
  d.program().uses_local = true;
  i.exec = st;
}
void decode_lds(Decoder& d, Inst& i) {
  decode_load_register(d, i);
  decode_address32(d, i, 32);
  decode_scale(d, i);
  d.hint(83, 81);  // no predicate is written [measured H200]
  i.unit = Unit::shared_memory;
  i.exec = lds;
}
void decode_sts(Decoder& d, Inst& i) {
  decode_store_register(d, i, 32);
  decode_address32(d, i, 64);
  decode_scale(d, i);
  i.unit = Unit::shared_memory;
  i.exec = sts;
}
void decode_ldl(Decoder& d, Inst& i) {
  decode_load_register(d, i);
  decode_address32(d, i, 32);
  hints(d);
  d.program().uses_local = true;
  i.unit = Unit::global_memory;
  i.exec = ldl;
}
void decode_stl(Decoder& d, Inst& i) {
  decode_store_register(d, i, 32);
  decode_address32(d, i, 64);
  hints(d);
  d.program().uses_local = true;
  i.unit = Unit::global_memory;
  i.exec = stl;
}

constexpr Op ops[] = {
    {"LDG", 0x181, decode_ldg}, {"STG", 0x186, decode_stg}, {"LD", 0x180, decode_ld},
    {"ST", 0x185, decode_st},   {"LDS", 0x184, decode_lds}, {"STS", 0x188, decode_sts},
    {"LDL", 0x183, decode_ldl}, {"STL", 0x187, decode_stl},
};

}  // namespace

std::span<const Op> memory_ops() { return ops; }

}  // namespace xtrace::replay::interp
