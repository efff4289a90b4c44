// Renders one instruction from the text of its form. Private to the room.
//
// Text notation:
//   {Name}      an operand (names of form.h) or a special token. Suffixes of an operand:
//                 - | ~   the sign, sign-and-absolute or inversion bits that belong to its place; ^ is ~ when
//                 bit 74
//                         (.X) is set, else -; + is ^ only while the operand stands in [63:32]
//                 s x f d sNN   immediate as signed, unsigned, FP32, FP64 high half, or signed when bit NN is
//                 set ?       a predicate with ", " when it is not PT !       the same, but always shown on
//                 sm_100 and later {x@h:l} bits [h:l] as hexadecimal number, {x} the bits of the enclosing <
//                 >
//   <...@h:l>   shown when bits [h:l] are not zero;  <...@h:l!v> when they are not v
//   <#t@h:l>    name number [h:l] of table t in names.def
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "instrument/sass/form.h"

namespace xtrace::sass {

inline constexpr unsigned pt = 7;  // the predicate that is always true: PT and UPT

// A table of names.def, for <#table@h:l>.
struct NameTable {
  std::string_view name;
  std::span<const std::string_view> values;
};
#define XT_NAMES(table, ...) inline constexpr std::string_view names_##table[] = {__VA_ARGS__};
#include "instrument/sass/names.def"
#undef XT_NAMES
inline constexpr NameTable name_tables[] = {
#define XT_NAMES(table, ...) {#table, names_##table},
#include "instrument/sass/names.def"
#undef XT_NAMES
};

class Printer {
 public:
  Printer(const Arch& arch, const RawInst& w, uint32_t pc, const Form& form)
      : arch_(arch), w_(w), pc_(pc), form_(form), layout_(alu_layout(opcode13(w))) {}

  // Guard, mnemonic and operands.
  std::string run();
  // What was put so far.
  std::string take() { return std::move(out_); }

  // --- for the special tokens ---
  unsigned field(unsigned high, unsigned low) const {
    return static_cast<unsigned>(get_bits(w_, bits(high, low)));
  }
  bool flag(unsigned b) const { return get_bits(w_, bit(b)) != 0; }
  bool extended() const { return flag(91); }  // uniform register form

  void put(std::string_view s) { out_ += s; }
  void put_name(std::string_view table, unsigned value);
  void hex(uint64_t v);
  void signed_hex(int64_t v);
  void render(std::string_view text);
  void gpr(unsigned index);
  void ur(unsigned index);
  void pred(unsigned index, bool negate, bool uniform);
  void gpr_at(unsigned low) { gpr(field(low + 7, low)); }
  void ur_at(unsigned low) { ur(ur_index(low)); }
  unsigned ur_index(unsigned low) const { return field(low + arch_.ur_bits - 1u, low); }
  void constant(bool bindless, std::string_view between = {});  // c[0x0][0x210]; `between` the brackets
  const Arch& arch() const { return arch_; }
  const Form& form() const { return form_; }
  const RawInst& word() const { return w_; }
  uint32_t pc() const { return pc_; }
  const AluLayout& layout() const { return layout_; }

 private:
  void guard();
  void group(std::string_view text);
  void token(std::string_view name);
  bool operand(std::string_view name);
  // Register at a place, with the modifier bits of that place ('-', '|', '~' or 0).
  void modified(unsigned low, bool uniform, char modifier);
  void source(char modifier, std::string_view style);  // operand in bits [63:32]
  void immediate(std::string_view style);

  const Arch& arch_;
  const RawInst& w_;
  const uint32_t pc_;
  const Form& form_;
  const AluLayout layout_;
  std::string out_;
  uint64_t group_value_ = 0;
};

// A special token: what {name} prints.
struct Token {
  std::string_view name;
  void (*print)(Printer&);
};
std::span<const Token> arithmetic_tokens();  // print_arithmetic.cc
std::span<const Token> matrix_tokens();      // print_matrix.cc
std::span<const Token> memory_tokens();      // print_memory.cc
std::span<const Token> texture_tokens();     // print_texture.cc
std::span<const Token> control_tokens();     // print_control.cc

void print_order(Printer& p);  // scope and order of a memory access (print_memory.cc)

// nvdisasm's notation of a floating-point immediate.
std::string print_f32(uint32_t bits);
std::string print_f64_high(uint32_t high);
std::string print_f16(uint16_t bits);
std::string print_bf16(uint16_t bits);

}  // namespace xtrace::sass
