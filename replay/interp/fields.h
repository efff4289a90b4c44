// Reads the fields of one instruction word and remembers which bits were read. What nobody read must be zero:
// so a modifier that an operation does not model can not be passed over in silence.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/bits.h"
#include "instrument/sass/inst.h"

namespace xtrace::replay::interp {

class Fields {
 public:
  // Opcode, guard and control bits belong to the caller.
  explicit Fields(const sass::RawInst& w) : word_(w), left_(w) {
    clear(11, 0);
    clear(15, 12);
    clear(91, 91);
    clear(124, 105);
  }

  uint32_t take(unsigned high, unsigned low) {
    const auto v = static_cast<uint32_t>(get_bits(word_, bits(high, low)));
    clear(high, low);
    return v;
  }
  bool flag(unsigned b) { return take(b, b) != 0; }
  int64_t take_signed(unsigned high, unsigned low) {
    const uint64_t v = get_bits(word_, bits(high, low));
    clear(high, low);
    return sign_extend(v, high - low + 1);
  }
  // A field of which one value is modelled.
  void expect(unsigned high, unsigned low, uint32_t value, const char* what) {
    const uint32_t v = take(high, low);
    if (v != value) refuse(fmt::format("{} is {:#x} and only {:#x} is modelled", what, v, value));
  }
  // A field without effect on results: a cache or an ordering hint. At most 64 bits.
  void hint(unsigned high, unsigned low) { clear(high, low); }

  void refuse(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
  }
  // Why the instruction can not be executed; empty when it can.
  std::string problem() const {
    if (!problem_.empty()) return problem_;
    if (left_.lo == 0 && left_.hi == 0) return {};
    return fmt::format("bits {:#x}_{:016x} of it are not modelled", left_.hi, left_.lo);
  }
  const sass::RawInst& word() const { return word_; }

 private:
  void clear(unsigned high, unsigned low) { set_bits(left_, bits(high, low), 0); }

  sass::RawInst word_, left_;
  std::string problem_;
};

}  // namespace xtrace::replay::interp
