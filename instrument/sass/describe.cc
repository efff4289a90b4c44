#include "instrument/sass/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "instrument/sass/effects.h"
#include "instrument/sass/form.h"
#include "instrument/sass/print.h"
#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

unsigned number(std::string_view s) {
  unsigned v = 0;
  std::from_chars(s.data(), s.data() + s.size(), v);
  return v;
}

class Describer {
 public:
  Describer(const Arch& arch, const RawInst& w) : arch_(arch), w_(w), form_(find_form(arch, w)) {}

  std::vector<WordField> run() {
    control();
    add(91, 91, "opcode",
        form_ == nullptr ? "high bit" : fmt::format("high bit, with [11:0] {:#06x}", opcode13(w_)));
    add(11, 0, "opcode", form_ == nullptr ? "no form" : std::string(form_->mnemonic));
    guard();
    if (form_ != nullptr) {
      for (const Slot& s : form_->defs) operand(s, "written");
      for (const Slot& s : form_->uses) operand(s, "read");
      immediate_or_constant();
      target();
      modifiers();
    }
    rest();
    std::sort(fields_.begin(), fields_.end(),
              [](const WordField& a, const WordField& b) { return a.high > b.high; });
    return std::move(fields_);
  }

 private:
  uint64_t value(unsigned high, unsigned low) const { return get_bits(w_, bits(high, low)); }

  // The first to claim a bit has it: a field that overlaps an earlier one is dropped, its meaning joined to
  // the other when they are the same bits.
  void add(unsigned high, unsigned low, std::string name, std::string meaning) {
    for (WordField& f : fields_) {
      if (f.high < low || f.low > high) continue;
      if (f.high == high && f.low == low && f.meaning != meaning && !meaning.empty() && f.name == name)
        f.meaning += ", " + meaning;
      return;
    }
    fields_.push_back({high, low, value(high, low), std::move(name), std::move(meaning)});
  }

  void control() {
    const Control c = get_control(w_);
    const auto barrier = [](uint8_t b) {
      return b == Control::no_barrier ? std::string("none") : fmt::format("SB{}", b);
    };
    add(127, 125, "-", "always zero");
    std::string reuse;
    for (unsigned i = 0; i < 3; ++i)
      if ((c.reuse >> i & 1) != 0) reuse += static_cast<char>('A' + i);
    add(124, 122, "reuse",
        c.keep_issuing ? (reuse.empty() ? "none" : reuse) : "no reuse flags while [109] is 0");
    std::string wait;
    for (unsigned i = 0; i < 6; ++i)
      if ((c.wait_mask >> i & 1) != 0) wait += fmt::format("{}SB{}", wait.empty() ? "" : " ", i);
    add(121, 116, "wait", wait.empty() ? "for nothing" : "for " + wait);
    add(115, 113, "read scoreboard", barrier(c.read_barrier));
    add(112, 110, "write scoreboard", barrier(c.write_barrier));
    add(109, 109, "issue", c.keep_issuing ? "keep this warp" : "another warp may be preferred");
    add(108, 105, "stall", fmt::format("{} cycles", c.stall));
  }

  std::string predicate(unsigned index, bool negate, bool uniform) const {
    const std::string p = index == 7 ? "PT" : fmt::format("P{}", index);
    return fmt::format("{}{}{}", negate ? "!" : "", uniform ? "U" : "", p);
  }

  void guard() {
    const bool uniform = form_ != nullptr && form_->guard_is_uniform();
    add(15, 12, "guard", "@" + predicate(static_cast<unsigned>(value(14, 12)), value(15, 15) != 0, uniform));
  }

  void registers(unsigned low, unsigned size, unsigned zero, std::string_view prefix, unsigned width,
                 std::string_view how) {
    const auto index = static_cast<unsigned>(value(low + size - 1, low));
    std::string meaning = index == zero ? fmt::format("{}Z", prefix) : fmt::format("{}{}", prefix, index);
    if (width > 1 && index != zero) meaning += fmt::format("..{}{}", prefix, index + width - 1);
    if (width == 0) {
      meaning += " not accessed";
    } else {
      meaning += fmt::format(" {}", how);
    }
    add(low + size - 1, low, prefix == "R" ? "register" : "uniform register", meaning);
  }

  void operand(const Slot& s, std::string_view how) {
    const AluLayout layout = alu_layout(opcode13(w_));
    const unsigned width = slot_width(arch_, w_, s);
    const auto gpr = [&](unsigned low) { registers(low, 8, 255, "R", width, how); };
    const auto ur = [&](unsigned low) { registers(low, arch_.ur_bits, arch_.urz, "UR", width, how); };
    const auto source = [&] {
      if (layout.s == SourceS::reg) gpr(32);
      if (layout.s == SourceS::ur || layout.s == SourceS::constant_bindless) ur(32);
    };
    const auto uniform_source = [&] {
      if (layout.s == SourceS::ur) ur(32);
    };
    const auto pred = [&](bool uniform) {
      const auto index = static_cast<unsigned>(value(s.low + 2u, s.low));
      const bool is_written = how == "written";
      const unsigned high = is_written ? s.low + 2u : s.low + 3u;
      add(high, s.low, uniform ? "uniform predicate" : "predicate",
          predicate(index, !is_written && value(s.low + 3u, s.low + 3u) != 0, uniform) + " " +
              std::string(how));
    };
    switch (s.kind) {
      case SlotKind::gpr:
        return gpr(s.low);
      case SlotKind::ur:
        return ur(s.low);
      case SlotKind::alu_b:
        return layout.s_is_c ? gpr(64) : source();
      case SlotKind::alu_c:
        return layout.s_is_c ? source() : gpr(64);
      case SlotKind::alu_s:
        return source();
      case SlotKind::uniform_b:
        return layout.s_is_c ? ur(64) : uniform_source();
      case SlotKind::uniform_c:
        return layout.s_is_c ? uniform_source() : ur(64);
      case SlotKind::uniform_s:
        return uniform_source();
      case SlotKind::pred:
      case SlotKind::upred:
        return pred(s.kind == SlotKind::upred);
      case SlotKind::load_pred:
      case SlotKind::mma_pred: {
        const auto v = static_cast<unsigned>(value(s.low + 3u, s.low));
        return add(
            s.low + 3u, s.low, s.kind == SlotKind::mma_pred ? "uniform predicate" : "predicate",
            predicate(7 - (v & 7), (v & 8) != 0, s.kind == SlotKind::mma_pred) + " read (7 minus the value)");
      }
      case SlotKind::plop3_third:
        return add(71, 67, "predicate",
                   predicate(static_cast<unsigned>(value(70, 68)), value(71, 71) != 0, value(67, 67) != 0) +
                       " read");
      case SlotKind::bra_upred:
        return add(27, 24, "uniform predicate",
                   predicate(static_cast<unsigned>(value(26, 24)), value(27, 27) != 0, true) + " read");
      case SlotKind::pred_mask:
      case SlotKind::upred_mask:
        return add(38, 32, "predicate mask", fmt::format("{:#x} {}", value(38, 32), how));
      case SlotKind::barrier:
        return s.low == 16 ? add(19, 16, "barrier", fmt::format("B{} {}", value(19, 16), how))
                           : add(28, 24, "barrier", fmt::format("{} {}", value(28, 24), how));
      case SlotKind::none:
      case SlotKind::bar_pred:
      case SlotKind::relu_pred:
      case SlotKind::pred_all:
      case SlotKind::upred_all:
      case SlotKind::barrier_all:
        return;
    }
  }

  // Operand B (or C) of an ALU form.
  void immediate_or_constant() {
    const bool alu = form_->cls == OpClass::alu || form_->cls == OpClass::fp64 ||
                     form_->cls == OpClass::uniform || form_->cls == OpClass::xu;
    const bool takes_source = std::any_of(form_->uses.begin(), form_->uses.end(), [](const Slot& s) {
      return s.kind == SlotKind::alu_b || s.kind == SlotKind::alu_c || s.kind == SlotKind::alu_s ||
             s.kind == SlotKind::uniform_b || s.kind == SlotKind::uniform_c || s.kind == SlotKind::uniform_s;
    });
    if (!alu || !takes_source) return;
    switch (alu_layout(opcode13(w_)).s) {
      case SourceS::imm:
        return add(63, 32, "immediate", fmt::format("{:#x}", value(63, 32)));
      case SourceS::constant:
        add(58, 54, "constant bank", fmt::format("c[{:#x}]", value(58, 54)));
        return add(53, 40, "constant offset",
                   fmt::format("[{:#x}] (times 4)", sign_extend(value(53, 40), 14) * 4));
      case SourceS::constant_bindless:
        return add(53, 40, "constant offset",
                   fmt::format("[{:#x}] (times 4)", sign_extend(value(53, 40), 14) * 4));
      case SourceS::reg:
      case SourceS::ur:
        return;
    }
  }

  void target() {
    const Effects e = effects(arch_, w_, 0);
    if (!e.target) return;
    const std::string meaning = fmt::format("this instruction {} {:#x}", *e.target < 0 ? "-" : "+",
                                            *e.target < 0 ? -*e.target : *e.target);
    if (form_->has(bssy_target)) return add(63, 34, "target", meaning);
    if (form_->has(lepc_target)) return add(81, 24, "target", meaning);
    add(81, 34, "target", meaning);
    if (arch_.branch_low_byte) add(23, 16, "target", "low byte");
  }

  // "<.FTZ@80>" and "<#round@79:78>" of the form's text.
  void modifiers() {
    std::string_view text = form_->text;
    while (!text.empty()) {
      const size_t open = text.find('<');
      if (open == std::string_view::npos) return;
      const size_t close = text.find('>', open);
      std::string_view body = text.substr(open + 1, close - open - 1);
      text.remove_prefix(close + 1);
      const size_t at = body.rfind('@');
      if (at == std::string_view::npos || (body[0] != '.' && body[0] != '#'))
        continue;  // an operand that comes and goes
      std::string_view where = body.substr(at + 1);
      where = where.substr(0, where.find('!'));
      const size_t colon = where.find(':');
      const unsigned high = number(where.substr(0, colon));
      const unsigned low = colon == std::string_view::npos ? high : number(where.substr(colon + 1));
      Printer p(arch_, w_, 0, *form_);
      const std::string group = "<" + std::string(body) + ">";
      p.render(group);
      const std::string shown = p.take();
      add(high, low, "modifier",
          shown.empty() ? fmt::format("shows nothing of {}", body.substr(0, at)) : shown);
    }
  }

  void rest() {
    uint64_t claimed_lo = 0, claimed_hi = 0;
    for (const WordField& f : fields_)
      for (unsigned b = f.low; b <= f.high; ++b)
        (b < 64 ? claimed_lo : claimed_hi) |= uint64_t{1} << (b & 63);
    const auto claimed = [&](unsigned b) {
      return ((b < 64 ? claimed_lo : claimed_hi) >> (b & 63) & 1) != 0;
    };
    for (unsigned b = 0; b < 128; ++b) {
      if (claimed(b)) continue;
      unsigned high = b;
      while (high + 1 < 128 && !claimed(high + 1)) ++high;
      const uint64_t v = high - b < 64 ? value(high, b) : 0;
      fields_.push_back(
          {high, b, v, v == 0 ? "-" : "?", v == 0 ? "" : "read by the form's text as a whole, or unknown"});
      b = high;
    }
  }

  const Arch& arch_;
  const RawInst& w_;
  const Form* form_;
  std::vector<WordField> fields_;
};

}  // namespace

std::vector<WordField> describe_word(const Arch& arch, const RawInst& w) { return Describer(arch, w).run(); }

}  // namespace xtrace::sass
