// stored-by-lanes: where some lanes store one word and the others another one, under `block`, predicate and place are those of the lanes, and the
// register that is stored has a word in all of them.
#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using namespace fields;

constexpr uint64_t odd_bit = 4;   // of the lane's number
constexpr BitRange any_field = bits(83, 81), input_field = bits(90, 87);    // of LOP3: predicate of a result that is not 0, or of that one
constexpr uint8_t never = 15, negated = 8;

class LaneWordsChecker {
 public:
  LaneWordsChecker(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out)
      : v_(v), claims_(claims), blocks_(blocks), out_(out), odd_(*claims.odd_lanes) {}

  void run() {
    if (claims_.word_place && *claims_.word_place < v_.old_registers - std::min(v_.old_registers, reserved_registers))
      fail(0, "the place of a lane's word is in a register of the kernel");
    made_once();
    for (uint32_t k = v_.prologue_first; k < v_.words.size(); ++k)
      if (v_.is_inserted(k) && sass::opcode13(v_.words[k]) == stg_uniform) check_store(k);
  }

 private:
  void fail(uint32_t word, std::string what) { out_.push_back({"stored-by-lanes", v_.pc(word), std::move(what)}); }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  uint16_t opcode(uint32_t k) const { return sass::opcode13(v_.words[k]) & 0xfff; }   // [11:0]
  std::string text(uint32_t k) const { return sass::print(*v_.old.arch, v_.words[k], v_.pc(k)); }
  bool is_and(uint32_t k, uint64_t mask) const {
    return v_.is_inserted(k) && opcode(k) == lop3_imm && field(k, guard_field) == always && field(k, imm_field) == mask && field(k, c_field) == no_register &&
           field(k, lut_field) == lut_and;
  }
  // The blocks that the kernel begins with, one behind the other: the rest of the prologue stands there.
  bool early(uint32_t k) const {
    if (v_.in_prologue(k)) return true;
    const uint32_t next = v_.is_inserted(k) ? v_.next_original[k] : SpliceView::inserted;
    if (next == SpliceView::inserted) return false;
    const uint32_t b = blocks_.block_of[next];
    return b == 0 || (b == 1 && blocks_.runs_once(0) && blocks_.successors[0] == std::vector<uint32_t>{1} && entered_once(1));
  }
  bool entered_once(uint32_t b) const {
    size_t ways = 0;
    for (const auto& next : blocks_.successors)
      for (uint32_t s : next) ways += s == b;
    return ways == 1;
  }

  // The predicate, and with it the place, in front of everything that may be executed twice; the kernel itself leaves it alone.
  void made_once() {
    uint32_t made = 0;
    for (uint32_t k = v_.prologue_first; k < v_.words.size(); ++k) {
      const bool sets = v_.effects[k].def.pred >> odd_ & 1, places = claims_.word_place && v_.effects[k].def.gpr.test(*claims_.word_place);
      if (!sets && !places) continue;
      const bool right = early(k) && is_and(k, odd_bit) && field(k, any_field) == odd_ && field(k, input_field) == never &&
                         (!claims_.word_place || field(k, result_field) == *claims_.word_place);
      if (!right) fail(k, fmt::format("{} writes what says which word a lane stores", text(k)));
      ++made;
    }
    if (made != 1) fail(v_.prologue_first, fmt::format("the lanes of P{} are made {} times", odd_, made));
  }

  void check_store(uint32_t k) {
    const auto lanes = static_cast<uint8_t>(field(k, a_field));
    if (lanes == no_register || is_column(k, lanes)) return;
    const auto right = is_place(k, lanes);
    if (!right) return;   // by lane groups
    if (!*right) return fail(k, fmt::format("{} goes to a place that is not the lane's", text(k)));
    if (field(k, size_field) != size_32 || v_.effects[k].guarded || !has_two(k, static_cast<uint8_t>(field(k, b_field))))
      fail(k, fmt::format("{} has no word for some lanes", text(k)));
  }

  // Of counts or numbers, a word of each lane.
  bool is_column(uint32_t k, uint8_t lanes) const {
    const auto data = static_cast<uint8_t>(field(k, b_field));
    return claims_.lane_offset == lanes && (claims_.rounds == data || claims_.ways == data);
  }

  // Nothing: of a P2R, or of a shift of one.
  std::optional<bool> is_place(uint32_t store, uint8_t lanes) const {
    if (claims_.word_place && lanes == *claims_.word_place) return true;
    for (uint32_t k = store; k-- > v_.prologue_first;) {
      if (!v_.effects[k].def.gpr.test(lanes)) continue;
      if (v_.is_inserted(k) && (opcode(k) == p2r || opcode(k) == shf_imm)) return std::nullopt;
      return v_.is_inserted(k) && opcode(k) == sel_imm && !v_.effects[k].guarded && field(k, a_field) == no_register && field(k, imm_field) == odd_bit &&
             field(k, input_field) == (odd_ | negated);
    }
    return false;
  }

  // The word in front of `k` that writes the register last, if a probe does.
  std::optional<uint32_t> written(uint32_t k, uint8_t reg) const {
    while (k-- > v_.prologue_first)
      if (v_.effects[k].def.gpr.test(reg)) return v_.is_inserted(k) ? std::optional(k) : std::nullopt;
    return std::nullopt;
  }
  // By some lanes of the predicate, and before that by all, or by the others.
  bool has_two(uint32_t k, uint8_t reg) const {
    const auto last = written(k, reg);
    if (!last || (field(*last, guard_field) & ~uint64_t{negated}) != odd_) return false;
    const auto first = written(*last, reg);
    return first && (!v_.effects[*first].guarded || field(*first, guard_field) == (field(*last, guard_field) ^ negated));
  }
  const SpliceView& v_;
  const SpliceClaims& claims_;
  const Blocks& blocks_;
  Violations& out_;
  const uint8_t odd_;
};

}  // namespace

void check_lane_words(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out) {
  if (claims.odd_lanes) LaneWordsChecker(v, claims, blocks, out).run();
}

}  // namespace xtrace::instrument
