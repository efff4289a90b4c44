// spilled-register: where inserted code writes a register that the kernel needs, it has stored it in local memory before, at a place that
// the kernel's own stack does not reach, and loads it back from there, in front of the same instruction. Read by its own fields.
#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

constexpr uint16_t stl_uniform = 0x1987, ldl_uniform = 0x1983, uldc = 0xab9;   // the last: bits [11:0]
constexpr BitRange load_uniform_field = bits(37, 32), store_uniform_field = bits(69, 64), constant_field = bits(53, 38), bank_field = bits(58, 54);
constexpr uint64_t stack_top = 0x28, frame_alignment = 16;

class Spills {
 public:
  Spills(SpliceView& v, const SpliceClaims& claims, Violations& out) : v_(v), claims_(claims), out_(out), live_(v.old) {}

  void run() {
    v_.spill_save.assign(v_.words.size(), false);
    v_.spilled_write.assign(v_.words.size(), false);
    v_.aside.assign(v_.words.size(), SpliceView::none_aside);
    std::vector<bool> entered(v_.words.size() + 1, false);   // by jumps
    for (const auto& copy : v_.copies)
      for (uint32_t label : copy.label) entered[std::min<size_t>(label, v_.words.size())] = true;
    for (uint32_t k = 0; k < v_.words.size(); ++k) {
      if (entered[k] || !v_.is_inserted(k)) waited_ = 0;
      if (v_.is_inserted(k)) waited_ |= seen(k);
      if (saved_ && (entered[k] || !v_.is_inserted(k))) fail(k, "the register that was put aside is not back");
      if (entered[k] || !v_.is_inserted(k)) top_ = saved_ = std::nullopt;
      if (v_.is_inserted(k) && v_.next_original[k] != SpliceView::inserted) word(k);
    }
  }

 private:
  void fail(uint32_t k, std::string what) {
    out_.push_back({"spilled-register", v_.pc(k), sass::print(*v_.old.arch, v_.words[k], v_.pc(k)) + ": " + std::move(what)});
  }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  // At the claimed place, by the register with the stack's top, by every lane.
  bool at_the_place(uint32_t k, BitRange uniform) {
    using namespace fields;
    const bool good = claims_.spill_frame != 0 && top_ && field(k, uniform) == *top_ && field(k, a_field) == no_register &&
                      field(k, guard_field) == always && field(k, size_field) == size_32 &&
                      field(k, place_field) == ((0u - claims_.spill_frame) & 0xffffff);
    if (!good) fail(k, "local memory that is not known to be free");
    return good;
  }

  // Scoreboards that the word waits for, but what was taken one cycle in front of it.
  uint8_t seen(uint32_t k) const {
    uint8_t waits = sass::get_control(v_.words[k]).wait_mask;
    if (k == 0) return waits;
    const sass::Control before = sass::get_control(v_.words[k - 1]);
    for (const uint8_t sb : {before.write_barrier, before.read_barrier})
      if (sb < 6 && before.stall < 2) waits &= static_cast<uint8_t>(~(1u << sb));
    return waits;
  }

  void word(uint32_t k) {
    using namespace fields;
    const sass::Effects& fx = v_.effects[k];
    const uint16_t op = sass::opcode13(v_.words[k]);
    v_.aside[k] = saved_.value_or(SpliceView::none_aside);
    if (op == stl_uniform) {
      const auto reg = static_cast<uint8_t>(field(k, b_field));
      if (!at_the_place(k, store_uniform_field)) return;
      if (saved_) return fail(k, "another register is there");
      const uint32_t own = v_.old_registers > reserved_registers ? v_.old_registers - reserved_registers : 0;
      if (!live_.settled_before(v_.next_original[k], own, waited_).test(reg)) fail(k, "an earlier instruction may still read or write the register");
      saved_ = reg;
      v_.spill_save[k] = true;
      return;
    }
    if (op == ldl_uniform) {
      if (!at_the_place(k, load_uniform_field)) return;
      if (!saved_ || field(k, result_field) != *saved_) return fail(k, "another register is there");
      v_.spilled_write[k] = true;
      saved_.reset();
      return;
    }
    if (fx.space == sass::MemSpace::local && fx.kind != sass::MemKind::none) return fail(k, "local memory that is not known to be free");
    const bool loads_top = (op & 0xfff) == uldc && field(k, bank_field) == 0 && field(k, constant_field) == stack_top && field(k, guard_field) == always &&
                           field(k, size_field) == size_32;
    if (loads_top && !saved_) top_ = static_cast<uint8_t>(field(k, to_uniform_field));
    else if (top_ && fx.def.ur.test(*top_)) {
      if (saved_) fail(k, "the stack's top is gone");
      top_.reset();
    }
    if (saved_ && fx.def.gpr.test(*saved_)) v_.spilled_write[k] = true;
  }

  SpliceView& v_;
  const SpliceClaims& claims_;
  Violations& out_;
  const Liveness live_;
  uint8_t waited_ = 0;                  // for these scoreboards, since the last original word, on every way
  std::optional<uint8_t> top_, saved_;   // uniform register with the stack's top; register that was put aside
};

// The stack pointer is loaded once, and moved once.
bool stack_is_known(const Code& code) {
  constexpr uint8_t stack_pointer = 1;
  unsigned loads = 0, sums = 0;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i] || !code.insts[i].fx.def.gpr.test(stack_pointer)) continue;
    const std::string_view m = code.insts[i].fx.mnemonic;
    if (m != "LDC" && m != "IADD3" && m != "VIADD") return false;
    (m == "LDC" ? loads : sums) += 1;
  }
  return loads <= 1 && sums <= 1;
}

}  // namespace

void check_spills(SpliceView& v, const SpliceClaims& claims, const cubin::KernelInfo& old_info, const cubin::KernelInfo& new_info, Violations& out) {
  const uint32_t own = std::max(old_info.frame_bytes, old_info.min_stack_bytes);
  const auto fail = [&](std::string what) { out.push_back({"spilled-register", 0, std::move(what)}); };
  if (claims.spill_frame == 0) {
    if (new_info.frame_bytes != old_info.frame_bytes || new_info.min_stack_bytes != old_info.min_stack_bytes) fail("the frame has another size");
  } else {
    if (new_info.frame_bytes != claims.spill_frame || new_info.min_stack_bytes != claims.spill_frame) fail("the frame is not as large as claimed");
    if (claims.spill_frame < own + sizeof(uint32_t) || claims.spill_frame % frame_alignment != 0) fail("the place is in the kernel's own frame");
    if (v.old.functions.size() > 1 || (own != 0 && !stack_is_known(v.old))) fail("how deep the kernel's stack gets is not known");
  }
  Spills(v, claims, out).run();
}

}  // namespace xtrace::instrument
