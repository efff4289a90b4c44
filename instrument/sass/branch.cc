#include "instrument/sass/branch.h"

#include "instrument/sass/effects.h"

namespace xtrace::sass {
namespace {

// A target field: value = (target - (pc + 16)) / scale, signed. `low` is empty where the field has one part.
// [sass.md 2.6]
struct TargetField {
  BitRange high, low;
  unsigned scale = 4;
  unsigned width() const { return high.width + low.width; }
};

constexpr TargetField branch_field_sm75 = {bits(81, 34), {}, 4};
constexpr TargetField branch_field_sm90 = {bits(81, 34), bits(23, 16), 4};
constexpr TargetField bssy_field = {bits(63, 34), {}, 4};
constexpr TargetField lepc_field = {bits(81, 24), {}, 1};

const TargetField& branch_field(const Arch& arch) {
  return arch.branch_low_byte ? branch_field_sm90 : branch_field_sm75;
}

const TargetField* target_field(const Arch& arch, const Form& form, const RawInst& w) {
  if (form.has(rel_target)) return &branch_field(arch);
  if (form.has(bssy_target)) return &bssy_field;
  if (form.has(lepc_target)) return &lepc_field;
  if (form.has(collective_target) && get_bits(w, bits(86, 85)) == 2) return &branch_field(arch);
  return nullptr;
}

int64_t read_field(const TargetField& f, const RawInst& w) {
  uint64_t v = get_bits(w, f.high);
  if (f.low.width != 0) v = v << f.low.width | get_bits(w, f.low);
  return sign_extend(v, f.width()) * static_cast<int64_t>(f.scale);
}

Status write_field(const TargetField& f, RawInst& w, int64_t distance) {
  const int64_t scale = f.scale;
  if (distance % scale != 0)
    return unsupported("branch distance of {} bytes is not a multiple of {}", distance, scale);
  const int64_t units = distance / scale;
  const int64_t limit = int64_t{1} << (f.width() - 1);
  if (units < -limit || units >= limit)
    return unsupported("branch distance of {} bytes does not fit the {}-bit target field", distance,
                       f.width());
  const uint64_t v = static_cast<uint64_t>(units) & low_mask(f.width());
  set_bits(w, f.high, v >> f.low.width);
  if (f.low.width != 0) set_bits(w, f.low, v & low_mask(f.low.width));
  return {};
}

int64_t next_pc(uint32_t pc) { return int64_t{pc} + inst_bytes; }

// RET.REL, BRX and CALL.REL through vector registers: base = pc + 16 + immediate.
bool has_register_base(const Form& form, const RawInst& w) {
  const uint16_t opcode = opcode13(w);
  if (opcode == 0x344) return form.flow() == Flow::call_other;
  if (form.flow() == Flow::branch_indirect) return opcode == 0x949;
  return form.flow() == Flow::ret && opcode == 0x950 && get_bits(w, bit(85)) == 0;
}

}  // namespace

std::optional<int64_t> branch_target(const Arch& arch, const Form& form, const RawInst& w, uint32_t pc) {
  const TargetField* f = target_field(arch, form, w);
  if (f == nullptr) return std::nullopt;
  return next_pc(pc) + read_field(*f, w);
}

int64_t branch_immediate(const Arch& arch, const RawInst& w) { return read_field(branch_field(arch), w); }

Status set_target(const Arch& arch, RawInst& w, uint32_t pc, int64_t target) {
  const Form* form = find_form(arch, w);
  const TargetField* f = form == nullptr ? nullptr : target_field(arch, *form, w);
  if (f == nullptr)
    return internal("instruction at {:#x} (opcode {:#x}) has no target field", pc, opcode13(w));
  return write_field(*f, w, target - next_pc(pc));
}

std::optional<int64_t> register_branch_base(const Arch& arch, const RawInst& w, uint32_t pc) {
  const Form* form = find_form(arch, w);
  if (form == nullptr || !has_register_base(*form, w)) return std::nullopt;
  return next_pc(pc) + read_field(branch_field(arch), w);
}

Status set_register_branch_base(const Arch& arch, RawInst& w, uint32_t pc, int64_t base) {
  const Form* form = find_form(arch, w);
  if (form == nullptr || !has_register_base(*form, w))
    return internal("instruction at {:#x} (opcode {:#x}) is no branch relative to a register", pc,
                    opcode13(w));
  return write_field(branch_field(arch), w, base - next_pc(pc));
}

}  // namespace xtrace::sass
