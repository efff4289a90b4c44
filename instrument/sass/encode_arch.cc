// Words of probe code for other architectures than the sm_90 that they are made for.
#include "base/check.h"
#include "instrument/sass/branch.h"
#include "instrument/sass/effects.h"
#include "instrument/sass/encode.h"
#include "instrument/sass/form.h"

namespace xtrace::sass::enc {
namespace {
constexpr unsigned sm90_ur_bits = 6;
constexpr uint16_t r2ur_opcode = 0x2ca, old_r2ur_opcode = 0x3c2;

// A uniform-register field of an sm_90 word: URZ is all ones in any width.
void widen(RawInst& w, unsigned low, unsigned width) {
  if (get_bits(w, bits(low + sm90_ur_bits - 1, low)) == URZ.index) set_bits(w, bits(low + width - 1, low), low_mask(width));
}

// Order and scope of an access, [80:77]: sm_75 has other codes. [ptxas 13 output]
constexpr BitRange order_field = bits(80, 77);
struct OrderCode {
  uint8_t sm90, sm75;
};
constexpr OrderCode order_codes[] = {{0, 7}, {7, 10}};   // none; .STRONG.GPU
bool is_sm75(const Arch& arch) { return arch.group == 0; }

RawInst with_order_of(const Arch& arch, const Form& form, RawInst w) {
  if (!is_sm75(arch) || form.space() != MemSpace::global) return w;
  for (const OrderCode& code : order_codes)
    if (get_bits(w, order_field) == code.sm90) {
      set_bits(w, order_field, code.sm75);
      return w;
    }
  XT_CHECK(false, "an access of probe code in an order that sm_75 is not known to have");
}

RawInst with_opcode_of(const Arch& arch, RawInst w) {
  if (opcode13(w) == r2ur_opcode && find_form(arch, w) == nullptr) set_bits(w, bits(11, 0), old_r2ur_opcode);
  return w;
}
}  // namespace

RawInst for_arch(const Arch& arch, RawInst w) {
  static const Arch& sm90 = **find_arch(90);
  const Opcode* opcode = find_opcode(sm90, w);
  XT_CHECK(opcode != nullptr, "a word that no constructor made");
  if (arch.ur_bits != sm90_ur_bits) {
    for (const Opcode::Single& s : {opcode->ur_read[0], opcode->ur_read[1], opcode->ur_read[2], opcode->ur_write})
      if (s.present != 0) widen(w, s.at * 8u, arch.ur_bits);
    for (const Slot& s : opcode->other_reads)
      if (s.kind == SlotKind::ur) widen(w, s.low, arch.ur_bits);
    for (const Slot& s : opcode->other_writes)
      if (s.kind == SlotKind::ur) widen(w, s.low, arch.ur_bits);
  }
  w = with_order_of(arch, *opcode->form, with_opcode_of(arch, w));
  if (opcode->form->has(rel_target) && !arch.branch_low_byte) {
    const auto target = branch_target(sm90, *opcode->form, w, 0);
    set_bits(w, bits(23, 16), 0);
    XT_CHECK(target && set_target(arch, w, 0, *target), "a branch of probe code is too long");
  }
  const Form* form = find_form(arch, w);
  XT_CHECK(form != nullptr && form->mnemonic == opcode->form->mnemonic, "the architecture lacks an instruction of probe code");
  return w;
}

bool exists(const Arch& arch, const RawInst& w) {
  const Form* form = find_form(arch, with_opcode_of(arch, w));
  // sm_75 has no memory descriptors.
  return form != nullptr && !(is_sm75(arch) && form->space() == MemSpace::global && get_bits(w, bit(76)) != 0);
}

}  // namespace xtrace::sass::enc
