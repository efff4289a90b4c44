// lent-predicate: where inserted code writes a predicate that the kernel needs, all active lanes have put its value aside in a register before,
// nothing else writes that register, and the value is back in front of the same instruction. Read by its own fields.
//
//   SEL R, RZ, 0x1, P                     0 where P holds
//   ...                                   P is the probe's
//   ISETP.EQ.U32.AND P, PT, R, RZ, PT
#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

constexpr uint16_t isetp_imm = 0x80c;
constexpr BitRange source_field = bits(90, 87);                                   // SEL; the fourth bit negates
// ISETP: the result's complement, and what it is combined with and how, carry-ins, signs.
constexpr BitRange other_field = bits(86, 84), with_field = bits(90, 87), how_field = bits(75, 74), extended_field = bits(72, 72), carry_field = bits(71, 68);
constexpr uint64_t equal_to = 2, conjunction = 0;

class Lent {
 public:
  Lent(SpliceView& v, Violations& out) : v_(v), out_(out), live_(v.old) {}

  void run() {
    v_.lent.assign(v_.words.size(), 0);
    v_.returned.assign(v_.words.size(), 0);
    std::vector<bool> entered(v_.words.size() + 1, false);   // by jumps
    for (const auto& copy : v_.copies)
      for (uint32_t label : copy.label) entered[std::min<size_t>(label, v_.words.size())] = true;
    for (uint32_t k = 0; k < v_.words.size(); ++k) {
      const bool leaves = entered[k] || !v_.is_inserted(k);
      if (leaves && aside_ && aside_->written) fail(k, "the predicate that was put aside is not back");
      if (leaves) aside_.reset();
      if (v_.is_inserted(k) && v_.next_original[k] != SpliceView::inserted && !v_.in_prologue(k)) word(k);
    }
  }

 private:
  struct Aside {
    uint8_t predicate, reg;
    bool written = false;
    sass::PredSet mask() const { return static_cast<sass::PredSet>(1u << predicate); }
  };

  void fail(uint32_t k, std::string what) {
    out_.push_back({"lent-predicate", v_.pc(k), sass::print(*v_.old.arch, v_.words[k], v_.pc(k)) + ": " + std::move(what)});
  }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }

  bool puts_aside(uint32_t k) const {
    using namespace fields;
    return sass::opcode13(v_.words[k]) == sel_imm && field(k, guard_field) == always && field(k, a_field) == no_register && field(k, imm_field) == 1 &&
           field(k, source_field) < always && field(k, result_field) != no_register;
  }
  bool gives_back(uint32_t k) const {
    using namespace fields;
    return sass::opcode13(v_.words[k]) == isetp_imm && field(k, guard_field) == always && field(k, a_field) == aside_->reg && field(k, imm_field) == 0 &&
           field(k, compare_field) == equal_to && field(k, predicate_field) == aside_->predicate && field(k, other_field) == always &&
           field(k, with_field) == always && field(k, how_field) == conjunction && field(k, extended_field) == 0 && field(k, carry_field) == always;
  }

  void word(uint32_t k) {
    const sass::Effects& fx = v_.effects[k];
    if (aside_ && gives_back(k)) {
      v_.lent[k] = v_.returned[k] = aside_->mask();
      aside_.reset();
      return;
    }
    if (aside_ && (fx.def.pred & aside_->mask()) != 0) {
      v_.lent[k] = aside_->mask();
      aside_->written = true;
    }
    if (aside_ && fx.def.gpr.test(aside_->reg)) {
      if (aside_->written) fail(k, "the register that the predicate stands aside in is gone");
      aside_.reset();
    }
    if (!aside_ && puts_aside(k)) {
      const auto predicate = static_cast<uint8_t>(field(k, source_field));
      if ((live_.settled_predicates_before(v_.next_original[k]) >> predicate & 1) == 0) return fail(k, "an earlier instruction may still write the predicate");
      aside_ = {predicate, static_cast<uint8_t>(field(k, fields::result_field))};
    }
  }

  SpliceView& v_;
  Violations& out_;
  const Liveness live_;
  std::optional<Aside> aside_;
};

}  // namespace

void check_lent(SpliceView& v, Violations& out) { Lent(v, out).run(); }

}  // namespace xtrace::instrument
