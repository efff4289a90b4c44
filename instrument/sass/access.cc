#include "instrument/sass/access.h"

#include <algorithm>
#include <string>

#include "instrument/sass/access_uniform.h"
#include "instrument/sass/form.h"
#include "instrument/sass/print.h"

namespace xtrace::sass {
namespace {

// One row an opcode. Bit of the uniform register, which is a part of the address or, where a flag says so, a descriptor of the memory.
struct Row {
  uint16_t opcode;
  MemSpace space;
  MemKind kind;
  BitRange offset;
  uint8_t uniform = 0;   // 0: there is none
};

constexpr BitRange high24 = bits(63, 40), whole32 = bits(63, 32);
constexpr auto global = MemSpace::global, generic = MemSpace::generic, shared = MemSpace::shared, local = MemSpace::local;
constexpr auto load = MemKind::load, store = MemKind::store, atomic = MemKind::atomic, reduction = MemKind::reduction;

constexpr uint16_t increment = 0x1f8c;   // of 32 bits, without an operand

constexpr Row rows[] = {
    {0x381, global, load, high24},                       // LDG
    {0x1981, global, load, high24, 32},
    {0x980, generic, load, whole32},                     // LD
    {0x1980, generic, load, high24, 32},
    {0x386, global, store, high24},                      // STG
    {0x1986, global, store, high24, 64},
    {0x385, generic, store, whole32},                    // ST
    {0x1985, generic, store, high24, 64},
    {0x983, local, load, high24},                        // LDL
    {0x387, local, store, high24},                       // STL
    {0x984, shared, load, high24},                       // LDS
    {0x1984, shared, load, high24, 32},
    {0x388, shared, store, high24},                      // STS
    {0x1988, shared, store, high24, 64},
    {0x83b, shared, load, high24},                       // LDSM
    {0x183b, shared, load, high24, 32},
    {0x844, shared, store, high24},                      // STSM
    {0x1844, shared, store, high24, 64},
    {0x38a, generic, atomic, high24},                    // ATOM
    {0x198a, generic, atomic, high24, 64},
    {0x3a2, generic, atomic, high24},                    // ATOM of floats
    {0x19a2, generic, atomic, high24, 64},
    {0x38b, generic, atomic, high24},                    // ATOM.CAS
    {0x3a8, global, atomic, high24},                     // ATOMG
    {0x19a8, global, atomic, high24, 64},
    {0x3a3, global, atomic, high24},                     // ATOMG of floats
    {0x19a3, global, atomic, high24, 64},
    {0x3a9, global, atomic, high24},                     // ATOMG.CAS
    {0x38c, shared, atomic, high24},                     // ATOMS
    {0x198c, shared, atomic, high24, 64},
    {0x38d, shared, atomic, high24},                     // ATOMS.CAS
    {increment, shared, atomic, high24, 64},             // ATOMS.POPC.INC
    {0x98e, global, reduction, high24},                  // RED
    {0x198e, global, reduction, high24, 64},
    {0x9a6, global, reduction, high24},                  // RED of floats
    {0x19a6, global, reduction, high24, 64},
};

// Where words with a uniform register say whether the vector part has 64 bits, and whether the uniform register is a descriptor.
struct Flags {
  uint8_t wide, descriptor;
  BitRange offset;   // of atomics of sm_100, whose descriptor's flag took a bit of it
};
constexpr uint8_t always_set = 0xff, never_set = 0xfe;
Flags flags_of(const Arch& arch, const Row& row) {
  const bool is_new = arch.sm >= 100;
  if (row.kind == reduction) return {90, static_cast<uint8_t>(is_new ? 81 : 71), row.offset};
  if (row.kind == atomic) return is_new ? Flags{always_set, 63, bits(62, 40)} : Flags{70, 71, row.offset};
  return {90, arch.sm < 80 ? never_set : uint8_t{76}, row.offset};   // sm_75 knows no descriptors
}

bool flag(const RawInst& w, unsigned bit) { return bit == always_set || (bit != never_set && get_bits(w, bits(bit, bit)) != 0); }
uint8_t gpr(const RawInst& w, unsigned low) {
  const auto r = static_cast<uint8_t>(get_bits(w, bits(low + 7, low)));
  return r == 255 ? Access::none : r;
}
int32_t signed_field(const RawInst& w, BitRange field) {
  return static_cast<int32_t>(sign_extend(get_bits(w, field), field.width));
}

void set_vector(Access& a, const RawInst& w, bool pair) {
  a.low = gpr(w, 24);
  if (pair && a.low != Access::none) a.high = static_cast<uint8_t>(a.low + 1);
}
void set_uniform(Access& a, const Arch& arch, const RawInst& w, unsigned low, bool pair) {
  const auto r = static_cast<uint8_t>(get_bits(w, bits(low + arch.ur_bits - 1, low)));
  if (r == arch.urz) return;
  a.uniform_low = r;
  if (pair) a.uniform_high = static_cast<uint8_t>(r + 1);
}

std::variant<std::vector<Access>, NotCovered> ldgsts(const Arch& arch, const RawInst& w, uint8_t bytes) {
  if (get_bits(w, bits(90, 87)) != 7) return NotCovered("a predicate decides which lanes read");
  Access from, to;
  from.space = global;
  from.kind = load;
  from.bytes = to.bytes = bytes;
  from.wide = true;
  from.offset = signed_field(w, bits(43, 32));
  const bool descriptor = flag(w, 76);
  set_vector(from, w, flag(w, arch.sm >= 100 ? 83 : 70));
  if (!descriptor) set_uniform(from, arch, w, 64, true);
  to.space = shared;
  to.kind = store;
  to.low = gpr(w, 16);
  to.offset = signed_field(w, bits(63, 44));
  return std::vector{from, to};
}

}  // namespace

std::variant<std::vector<Access>, NotCovered> accesses(const Arch& arch, const RawInst& w) {
  const Form* form = find_form(arch, w);
  if (form == nullptr) return NotCovered("the instruction is not known");
  if (form->space() == MemSpace::none || form->space() == MemSpace::constant) return std::vector<Access>{};
  const uint16_t opcode = opcode13(w);
  const Effects fx = effects(arch, w, 0);
  if (opcode == 0x1fae) return ldgsts(arch, w, fx.access_bytes);
  if (const auto found = uniform_access(arch, w)) {
    if (const auto* why = std::get_if<NotCovered>(&*found)) return *why;
    return std::vector{std::get<Access>(*found)};
  }
  const Row* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.opcode == opcode; });
  if (row == std::end(rows)) return NotCovered("its addresses do not stand one a lane in a register");
  Access a;
  a.space = row->space;
  a.kind = row->kind;
  a.bytes = fx.access_bytes;
  const bool extended = row->uniform != 0;
  a.wide = row->space == global || row->space == generic;
  const bool matrix = form->kind() == MemKind::other;   // LDSM, STSM: rows of 16 bytes
  if (matrix) {
    const auto count = get_bits(w, bits(73, 72));
    if (count > 2) return NotCovered("the number of matrices is not known");
    a.bytes = 16;
    a.lanes = static_cast<uint8_t>(8u << count);
  }
  if (opcode == increment) a.bytes = 4;
  if (a.bytes == 0) return NotCovered("its width is not known");
  if (a.wide && !flag(w, 72)) return NotCovered("an address of 32 bits");
  if (!a.wide) {
    a.offset = signed_field(w, row->offset);
    set_vector(a, w, false);
    if ((!extended || arch.sm < 90) && !matrix && row->space == shared) {
      constexpr uint8_t shifts[] = {0, 2, 3, 4};   // .X4, .X8, .X16
      a.scale = shifts[get_bits(w, bits(79, 78))];
    }
    if (extended) set_uniform(a, arch, w, row->uniform, false);
    return std::vector{a};
  }
  // LDG and LD under a predicate of their own; ATOM that only some lanes execute (its predicate result says which).
  if (row->kind == load && get_bits(w, bits(67, 64)) != 0) return NotCovered("a predicate decides which lanes read");
  if (row->space == generic && row->kind == atomic && get_bits(w, bits(83, 81)) != 7)
    return NotCovered("it leaves lanes out by their addresses");
  const Flags flags = flags_of(arch, *row);
  a.offset = signed_field(w, extended ? flags.offset : row->offset);
  set_vector(a, w, !extended || flag(w, flags.wide));
  if (extended && !flag(w, flags.descriptor)) set_uniform(a, arch, w, row->uniform, true);
  return std::vector{a};
}

bool sums_floats(const Arch& arch, const RawInst& w) {
  const MemKind kind = effects(arch, w, 0).kind;
  if (kind != MemKind::atomic && kind != MemKind::reduction && kind != MemKind::async) return false;
  // The operation and its type are modifiers whose codes differ by form and architecture: the text is where all of them meet.
  const std::string text = print(arch, w, 0);
  const size_t begin = text.starts_with('@') ? text.find(' ') + 1 : 0;   // behind the guard
  const std::string_view name = std::string_view(text).substr(begin, text.find(' ', begin) - begin);
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  // UTMAREDG has its type in the tensor map.
  return has(".ADD") && (has(".F16") || has(".BF16") || has(".F32") || has(".F64") || name.starts_with("UTMAREDG"));
}

}  // namespace xtrace::sass
