// Which uniform registers say what. [code of nvcc 13.0 for each instruction of PTX; executed on an H200, docs/isa.md; positions as nvdisasm
// 13.0 prints them]
#include "instrument/sass/access_uniform.h"

#include <algorithm>

namespace xtrace::sass {
namespace {

constexpr uint8_t low_register = 24, high_register = 32, third_register = 64;
constexpr unsigned to_shared = 73, from_shared = 74, multicast = 75, im2col = 82;
constexpr uint64_t never = 15;   // @!UPT
constexpr BitRange guard_bits = bits(15, 12), dimensions_field = bits(81, 79);

enum class What : uint8_t { copy, reduce, prefetch, box_load, box_store, box_reduction, box_prefetch };
struct UniformRow {
  uint16_t opcode;
  What what;
  bool third;      // a third register
};
constexpr UniformRow uniform_rows[] = {
    {0x13ba, What::copy, true},           // UBLKCP
    {0x13bb, What::reduce, true},      // UBLKRED
    {0x13bc, What::prefetch, true},       // UBLKPF
    {0x15b4, What::box_load, false},      // UTMALDG
    {0x13b4, What::box_load, true},
    {0x13b5, What::box_store, false},     // UTMASTG
    {0x13b6, What::box_reduction, false}, // UTMAREDG
    {0x15b8, What::box_prefetch, false},  // UTMAPF
    {0x13b8, What::box_prefetch, true},
};

bool has_bit(const RawInst& w, unsigned bit) { return get_bits(w, bits(bit, bit)) != 0; }

class Reader {
 public:
  Reader(const Arch& arch, const RawInst& w, Access& a) : arch_(arch), w_(w), a_(a) {}
  void add(OperandRole role, unsigned field, unsigned behind = 0) {
    const auto first = static_cast<uint16_t>(get_bits(w_, bits(field + arch_.ur_bits - 1, field)));
    const auto r = static_cast<uint16_t>(first + behind);
    // Registers behind URZ are none.
    a_.operands.push_back({role, first == arch_.urz || r >= arch_.urz ? Access::none : static_cast<uint8_t>(r)});
  }
  void pair(OperandRole low, OperandRole high, unsigned field) {
    add(low, field);
    add(high, field, 1);
  }

 private:
  const Arch& arch_;
  const RawInst& w_;
  Access& a_;
};

std::variant<Access, NotCovered> bulk(const Arch& arch, const RawInst& w, What what) {
  using enum OperandRole;
  Access a;
  a.form = Access::Form::bulk;
  a.space = MemSpace::global;
  Reader in(arch, w, a);
  if (what == What::prefetch) {
    a.kind = MemKind::other;
    in.pair(global_low, global_high, low_register);
    in.add(size, third_register);
    return a;
  }
  const bool to = has_bit(w, to_shared), from = has_bit(w, from_shared);
  if (!to && !from) return NotCovered("a copy from global to global memory");
  if (to && !from && what == What::reduce) return NotCovered("a reduction of global into shared memory");
  a.kind = what == What::reduce ? MemKind::reduction : to && !from ? MemKind::load : MemKind::store;
  if (to && from) a.space = MemSpace::shared;
  if (to) in.pair(shared, barrier, high_register);
  else in.pair(global_low, global_high, high_register);
  if (from) in.add(to ? shared_from : shared, low_register);
  else in.pair(global_low, global_high, low_register);
  in.add(what == What::copy && has_bit(w, multicast) ? size_ctas : size, third_register);
  return a;
}

std::variant<Access, NotCovered> tensor(const Arch& arch, const RawInst& w, What what, bool third) {
  using enum OperandRole;
  constexpr unsigned most_dimensions = 5;
  Access a;
  a.form = Access::Form::tensor;
  a.space = MemSpace::global;
  a.kind = what == What::box_load ? MemKind::load : what == What::box_store ? MemKind::store : what == What::box_reduction ? MemKind::reduction : MemKind::other;
  a.pixels = has_bit(w, im2col);
  const auto dimensions = static_cast<unsigned>(get_bits(w, dimensions_field)) + 1;
  if (dimensions > most_dimensions) return NotCovered("the number of dimensions is not known");
  Reader in(arch, w, a);
  in.pair(map_low, map_high, low_register);
  unsigned next = 0;
  if (what != What::box_prefetch) in.add(shared, high_register, next++);
  if (what == What::box_load) in.add(barrier, high_register, next++);
  for (unsigned d = 0; d < dimensions; ++d) in.add(coordinate, high_register, next++);
  if (third) in.add(what == What::box_load && has_bit(w, multicast) ? ctas : pixels, third_register);
  return a;
}

}  // namespace

std::optional<std::variant<Access, NotCovered>> uniform_access(const Arch& arch, const RawInst& w) {
  const UniformRow* row = std::find_if(std::begin(uniform_rows), std::end(uniform_rows), [&](const UniformRow& r) { return r.opcode == opcode13(w); });
  if (row == std::end(uniform_rows)) return std::nullopt;
  if (get_bits(w, guard_bits) == never) return NotCovered("it is never made");
  return row->what <= What::prefetch ? bulk(arch, w, row->what) : tensor(arch, w, row->what, row->third);
}

}  // namespace xtrace::sass
