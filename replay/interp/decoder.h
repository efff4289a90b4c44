// Reads operands of one instruction word into an Inst. The decode functions of the op table are written in
// its terms.
#pragma once

#include <optional>

#include "instrument/sass/form.h"
#include "replay/interp/fields.h"
#include "replay/interp/program.h"

namespace xtrace::replay::interp {

// What the modifier bits of an operand place mean to an operation.
enum class Mod : uint8_t {
  none,    // they must be zero
  negate,  // integer: one bit, two's complement
  invert,  // one bit, ones' complement
  fp,      // single precision: negate and absolute value
};

class Decoder : public Fields {
 public:
  Decoder(const sass::Form& form_, const sass::RawInst& w, uint32_t pc_, Program& program)
      : Fields(w),
        form(form_),
        layout(sass::alu_layout(sass::opcode13(w))),
        pc(pc_),
        program_(program),
        uniform_(form_.cls == sass::OpClass::uniform && !form_.has(sass::vector_guard)) {}

  const sass::Form& form;
  const sass::AluLayout layout;
  const uint32_t pc;

  uint16_t opcode() const { return sass::opcode13(word()); }
  bool extended() const { return (opcode() & 0x1000) != 0; }

  // --- operands of ALU forms. `n` registers wide.
  Operand a(Mod m = Mod::none) { return wide_register(24, m, nullptr, 1); }
  Operand s(Mod m = Mod::none);  // in [63:32]
  Operand t(Mod m = Mod::none) { return wide_register(64, m, nullptr, 1); }
  Operand b(Mod m = Mod::none) { return layout.s_is_c ? t(m) : s(m); }
  Operand c(Mod m = Mod::none) { return layout.s_is_c ? s(m) : t(m); }
  // Doubles: low and high word.
  void a64(Operand* out) { wide_register(24, Mod::fp, out, 2); }
  void s64(Operand* out);
  void t64(Operand* out) { wide_register(64, Mod::fp, out, 2); }
  void b64(Operand* out) { layout.s_is_c ? t64(out) : s64(out); }
  void c64(Operand* out) { layout.s_is_c ? s64(out) : t64(out); }
  // 64-bit integers in [71:64] or, for forms with C there, in [63:32].
  void c_pair(Operand* out);

  // --- registers at a place
  void gprs(Operand* out, unsigned low, unsigned n);  // source
  void urs(Operand* out, unsigned low, unsigned n);   // source; reads 6 bits
  void dst(Inst& i, unsigned n = 1);                  // at [23:16], vector or uniform as the form is
  void dst_gpr(Inst& i, unsigned n = 1);
  void dst_ur(Inst& i, unsigned n = 1);

  // --- predicates
  uint8_t pred_dst(unsigned low) { return static_cast<uint8_t>(take(low + 2, low) + (uniform_ ? 8 : 0)); }
  uint8_t no_pred_dst(unsigned low, const char* what);  // must be PT
  PredOperand pred(unsigned low, bool uniform);
  PredOperand pred(unsigned low) { return pred(low, uniform_); }
  bool is_uniform() const { return uniform_; }

  int32_t constant_row(uint32_t v) { return program_.constant_row(v); }
  Operand constant(uint32_t v) { return {program_.constant_row(v), true}; }
  // The 32-bit word of a constant bank; refuses when it lies outside.
  uint32_t bank_word(unsigned bank, uint32_t offset);
  Program& program() { return program_; }
  // Words of a constant through a handle, at [53:40] and [37:32]; what the instruction reads of it, without its operation.
  void through_handle(Operand* out, unsigned words);
  const std::optional<HandleConstant>& handle() const { return handle_; }

 private:
  Operand wide_register(unsigned low, Mod m, Operand* out, unsigned n);
  Operand gpr(unsigned index);
  Operand ur(unsigned index);
  void modify(Operand& o, Mod m, unsigned sign, unsigned absolute);

  Program& program_;
  const bool uniform_;
  std::optional<HandleConstant> handle_;
};

}  // namespace xtrace::replay::interp
