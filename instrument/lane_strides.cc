#include "instrument/lane_strides.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <set>

#include "instrument/code.h"
#include "instrument/sass/access.h"
#include "instrument/sass/encode.h"
#include "instrument/sass/form.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;

constexpr BitRange guard_field = bits(15, 12);
constexpr uint8_t rz = 255;
constexpr unsigned warp_lanes = 32;

// What a register holds. Nobody has looked yet (unseen), anything (unknown), or what LaneStride says by the definition at `by`, or
// by whichever of several in front of the whole join that `by` names.
struct Value {
  enum class Kind : uint8_t { unseen, unknown, linear } kind = Kind::unseen;
  uint8_t guard = guard_always;
  bool varies = false;         // from one execution of `by` to the next
  uint32_t stride = 0, step = 0;
  InstIndex by = 0;
  bool is_known = false;       // it is `number`, in all lanes
  uint32_t number = 0;
  bool is_uniform() const { return kind == Kind::linear && stride == 0 && step == 0; }
  bool operator==(const Value&) const = default;
};
constexpr Value unknown{Value::Kind::unknown, guard_always, false, 0, 0, 0};
constexpr Value uniform{Value::Kind::linear, guard_always, false, 0, 0, 0};
constexpr Value known(uint32_t n) { return {Value::Kind::linear, guard_always, false, 0, 0, 0, true, n}; }
constexpr InstIndex joined = 1u << 31;   // in `by`: at the head of this instruction

Value meet(const Value& a, const Value& b, InstIndex at, bool whole) {
  if (a.kind == Value::Kind::unseen) return b;
  if (b.kind == Value::Kind::unseen || a == b) return a;
  const bool alike = a.kind == Value::Kind::linear && b.kind == Value::Kind::linear && a.guard == b.guard && a.stride == b.stride &&
                     a.step == b.step;
  return whole && alike ? Value{Value::Kind::linear, a.guard, true, a.stride, a.step, joined | at} : unknown;
}

struct State {
  std::array<Value, 256> gpr;
  std::array<Value, 64> ur;
};

// The guard of two operands: of the one, or of both where they agree.
Value linear(const Value& a, const Value& b, uint32_t stride, uint32_t step) {
  if (a.kind != Value::Kind::linear || b.kind != Value::Kind::linear) return unknown;
  const uint8_t guard = a.guard == guard_always ? b.guard : a.guard;
  if (b.guard != guard_always && b.guard != guard) return unknown;
  return {Value::Kind::linear, guard, a.varies || b.varies, stride, step, 0};
}
Value with_number(Value v, bool is_known, uint32_t number) {
  v.is_known = is_known && v.kind == Value::Kind::linear;
  v.number = v.is_known ? number : 0;
  return v;
}
Value sum(const Value& a, const Value& b) {
  return with_number(linear(a, b, a.stride + b.stride, a.step + b.step), a.is_known && b.is_known, a.number + b.number);
}
// Low words of products: a factor that is one for the warp but not known would give a stride that is not known.
Value product(const Value& a, const Value& b) {
  if (b.is_known) return with_number(linear(a, b, a.stride * b.number, a.step * b.number), a.is_known, a.number * b.number);
  if (a.is_known) return product(b, a);
  return a.is_uniform() && b.is_uniform() ? linear(a, b, 0, 0) : unknown;
}
Value times(const Value& a, uint32_t factor) { return product(a, known(factor)); }

// One instruction: what it makes of what stands in front of it.
class Step {
 public:
  Step(const Code& code, const LaunchFacts& launch, InstIndex i, const State& s)
      : arch_(*code.arch), w_(code.insts[i].raw), fx_(code.insts[i].fx), launch_(launch), block_(launch.block), s_(s),
        layout_(sass::alu_layout(sass::opcode13(w_))) {}

  // Of the first register that it writes, in the vector or the uniform file.
  Value result() const {
    if (!fx_.known) return unknown;
    const std::string_view m = fx_.mnemonic;
    Value v = unknown;
    if (m == "S2R" || m == "S2UR") v = special();
    else if (m == "MOV" && get_bits(w_, bits(75, 72)) == 15) v = s();
    else if (m == "IMAD") v = imad();
    else if (m == "IADD3" && !flag(carry_in)) v = sum(sum(a(), b()), c());
    else if (m == "VIADD" && get_bits(w_, viadd_type) == 0) v = sum(a(), s());
    else if (m == "LEA" && !flag(carry_in) && !flag(high)) v = lea();
    else if (m == "SHF") v = shf();
    else if (m == "LDC" || m == "ULDC") v = constant_load();
    else if (is_uniform_function(m)) v = of_uniform();
    return guarded(v);
  }
  // Of the others: the same operands give the same result.
  Value others() const {
    const std::string_view m = fx_.mnemonic;
    return fx_.known && (m == "IMAD" || is_uniform_function(m)) ? guarded(of_uniform()) : unknown;
  }

 private:
  static constexpr unsigned carry_in = 74, high = 80;
  static constexpr BitRange viadd_type = bits(75, 73);
  bool flag(unsigned b) const { return get_bits(w_, bit(b)) != 0; }
  uint32_t imm() const { return static_cast<uint32_t>(get_bits(w_, bits(63, 32))); }

  // The value counts where the instruction was done; a guard in the vector file only.
  Value guarded(Value v) const {
    if (!fx_.guarded || v.kind != Value::Kind::linear) return v;
    const auto guard = static_cast<uint8_t>(get_bits(w_, guard_field));
    if (fx_.use.upred != 0 || (v.guard != guard_always && v.guard != guard)) return unknown;
    v.guard = guard;
    return v;
  }

  Value gpr(unsigned low) const {
    const auto r = static_cast<uint8_t>(get_bits(w_, bits(low + 7, low)));
    if (r == rz) return known(0);
    return fx_.use.gpr.test(r) ? s_.gpr[r] : unknown;   // else the operand is not what stands there
  }
  Value signed_by(const Value& v, unsigned sign) const {
    return flag(sign) ? times(v, ~0u) : v;
  }
  Value a() const { return signed_by(gpr(24), 72); }
  Value t() const { return signed_by(gpr(64), 75); }
  Value s() const {
    switch (layout_.s) {
      case sass::SourceS::reg: return signed_by(gpr(32), 63);
      case sass::SourceS::ur: {
        const auto u = static_cast<unsigned>(get_bits(w_, bits(32 + arch_.ur_bits - 1u, 32)));
        if (u == (1u << arch_.ur_bits) - 1) return known(0);   // URZ
        return u < s_.ur.size() && fx_.use.ur.test(u) ? s_.ur[u] : unknown;
      }
      case sass::SourceS::constant_bindless: return unknown;
      case sass::SourceS::imm: return known(imm());
      case sass::SourceS::constant: return signed_by(constant(), 63);
    }
    return unknown;
  }
  // In bits [58:54] the bank, in [53:38] the byte [sass.md 1.1]
  Value constant() const {
    constexpr BitRange bank = bits(58, 54), offset = bits(53, 38);
    const auto word = get_bits(w_, bank) == 0 ? launch_.constant(static_cast<uint32_t>(get_bits(w_, offset))) : std::nullopt;
    return word ? known(*word) : uniform;
  }
  Value constant_load() const {
    constexpr BitRange size = bits(75, 73), mode = bits(79, 78);
    constexpr uint64_t one_word = 4, two_words = 5;
    const uint64_t words = get_bits(w_, size);
    const bool plain = fx_.use.gpr.none() && fx_.use.ur.none() && get_bits(w_, mode) == 0 && (words == one_word || words == two_words);
    return plain ? constant() : of_uniform();
  }
  Value b() const { return layout_.s_is_c ? t() : s(); }
  Value c() const { return layout_.s_is_c ? s() : t(); }
  // Of B, where it is a number in the word.
  std::optional<uint32_t> known_b() const {
    if (layout_.s == sass::SourceS::imm && !layout_.s_is_c) return imm();
    return std::nullopt;
  }

  Value special() const {
    const auto sr = get_bits(w_, bits(79, 72));
    const Value lane{Value::Kind::linear, guard_always, false, 1, 0, 0}, row{Value::Kind::linear, guard_always, false, 0, 1, 0};
    const uint64_t plane = uint64_t{block_.x} * block_.y;
    const uint8_t shift = row_shift(block_);
    switch (sr) {
      case enc::sr_laneid: return lane;
      case enc::sr_tid_x:
        if (block_.x % warp_lanes == 0 || plane * block_.z == block_.x) return lane;
        return shift != 0 ? sum(lane, times(row, 0u - (1u << shift))) : unknown;
      case enc::sr_tid_y:
        if (block_.x % warp_lanes == 0 || block_.y == 1) return uniform;
        return shift != 0 && (plane % warp_lanes == 0 || block_.z == 1) ? row : unknown;
      case enc::sr_tid_z: return plane % warp_lanes == 0 || block_.z == 1 ? uniform : unknown;
      case enc::sr_ctaid_x:
      case enc::sr_ctaid_y:
      case enc::sr_ctaid_z:
      case enc::sr_cga_ctaid: return uniform;
      default: return unknown;
    }
  }

  Value imad() const {
    constexpr uint16_t operation = 0x1ff, low_word = 0x024, wide = 0x025;
    const auto op = static_cast<uint16_t>(sass::opcode13(w_) & operation);
    if ((op != low_word && op != wide) || flag(carry_in)) return unknown;
    const bool b_in_s = layout_.s == sass::SourceS::reg && !layout_.s_is_c;
    const bool moves = get_bits(w_, bits(31, 24)) == rz || (b_in_s && get_bits(w_, bits(39, 32)) == rz);
    return sum(moves ? known(0) : product(gpr(24), b()), c());
  }
  Value lea() const {
    const auto shift = static_cast<unsigned>(get_bits(w_, bits(79, 75)));
    const Value x = gpr(24);
    // B takes its own sign; bits [79:75] are the shift, so that T has none here.
    const Value y = layout_.s_is_c ? gpr(64) : s();
    if (flag(72)) return unknown;
    return sum(times(x, 1u << shift), y);
  }
  // A shift to the left, of a register that is alone.
  Value shf() const {
    constexpr unsigned right = 76;
    const auto shift = known_b();
    if (flag(right) || flag(high) || !shift || get_bits(w_, bits(71, 64)) != rz) return of_uniform();
    return *shift >= 32 ? unknown : times(gpr(24), 1u << *shift);
  }

  // The same operands give the same result, whatever it is.
  static bool is_uniform_function(std::string_view m) {
    constexpr std::string_view names[] = {"LOP3",  "PRMT",  "LDC",   "ULDC",  "UMOV",  "UIADD3", "ULEA", "UIMAD",
                                          "USHF",  "ULOP3", "UPRMT", "IABS",  "POPC",  "FLO",    "BREV", "SGXT",
                                          "BMSK",  "UFLO",  "UPOPC", "UBREV", "USGXT", "UBMSK"};
    return std::find(std::begin(names), std::end(names), m) != std::end(names);
  }
  // Every register that is read is the same in all lanes, and no predicate but the guard is.
  Value of_uniform() const {
    sass::PredSet preds = fx_.use.pred;
    if (fx_.guarded) {
      const auto guard = static_cast<unsigned>(get_bits(w_, guard_field) & 7);
      preds = static_cast<sass::PredSet>(preds & ~(1u << guard));
    }
    if (preds != 0 || fx_.use.upred != 0) return unknown;
    Value all = uniform;
    for (size_t r = 0; r < s_.gpr.size(); ++r)
      if (fx_.use.gpr.test(r)) all = s_.gpr[r].is_uniform() ? linear(all, s_.gpr[r], 0, 0) : unknown;
    for (size_t r = 0; r < fx_.use.ur.size(); ++r)
      if (fx_.use.ur.test(r)) all = r < s_.ur.size() ? linear(all, s_.ur[r], 0, 0) : unknown;
    return all;
  }

  const sass::Arch& arch_;
  const sass::RawInst& w_;
  const sass::Effects& fx_;
  const LaunchFacts& launch_;
  const Dim3& block_;
  const State& s_;
  const sass::AluLayout layout_;
};

// `whole`: all lanes execute i together.
void apply(const Code& code, const LaunchFacts& launch, InstIndex i, bool whole, State& s) {
  const sass::RegEffects& def = code.insts[i].fx.def;
  const Step step(code, launch, i, s);
  const Value first = step.result(), others = step.others();
  const auto put = [&](const sass::RegSet& written, auto& file) {
    if (!written.any()) return;
    const Value* next = &first;
    for (size_t r = 0; r < file.size(); ++r) {
      if (!written.test(r)) continue;
      // Lanes that came past at different times would have it from different executions.
      file[r] = next->varies && !whole ? unknown : *next;
      if (file[r].kind == Value::Kind::linear) file[r].by = i;
      next = &others;
    }
  };
  put(def.gpr, s.gpr);
  put(def.ur, s.ur);
  if (def.pred == 0) return;
  for (Value& v : s.gpr)
    if (v.guard != guard_always && (def.pred >> (v.guard & 7) & 1) != 0) v = unknown;
}

// Forward, to a fixed point. States stand where paths meet or part; between them they are carried along.
class Flow {
 public:
  using Found = std::map<std::pair<InstIndex, uint8_t>, LaneStride>;

  Flow(const Code& code, const LaunchFacts& launch)
      : code_(code), launch_(launch), entries_(code.insts.size(), 0), whole_join_(code.insts.size(), true),
        start_(code.functions.at(0).entry) {
    entries_[start_] = 2;
    for (InstIndex i = 0; i < code.insts.size(); ++i) {
      if (!code.reachable[i]) continue;
      const auto next = code.successors(i);
      for (InstIndex n : next) {
        entries_[n] += next.size() == 1 && n == i + 1 ? 1 : 2;
        if (!is_whole(i) || !is_whole(n)) whole_join_[n] = false;
      }
    }
  }

  // A value that turns out to be one of several at a whole join is that from the beginning in the next round: else what was
  // derived of the first of them would be taken for another value where paths meet behind it.
  Found run() {
    for (size_t known = 0;; known = joins_.size()) {
      at_.clear();
      found_.clear();
      pass();
      if (joins_.size() == known) return std::move(found_);
    }
  }

 private:
  bool is_whole(InstIndex i) const { return i < launch_.whole.size() && launch_.whole[i]; }

  void pass() {
    State first;
    for (Value& v : first.gpr) v = unknown;
    for (Value& v : first.ur) v = unknown;
    at_[start_] = first;
    work_.push_back(start_);
    while (!work_.empty()) {
      InstIndex i = work_.front();
      work_.pop_front();
      State s = at_[i];
      while (true) {
        look(i, s);
        apply(code_, launch_, i, is_whole(i), s);
        const auto next = code_.successors(i);
        if (next.size() == 1 && entries_[next[0]] == 1) {
          i = next[0];
          continue;
        }
        for (InstIndex n : next)
          if (arrive(n, s) && std::find(work_.begin(), work_.end(), n) == work_.end()) work_.push_back(n);
        break;
      }
    }
  }

  // Whether the state at n has changed.
  bool arrive(InstIndex n, const State& s) {
    const auto [found, added] = at_.try_emplace(n);
    bool changed = added;
    const auto merge = [&](auto& old, const auto& in, unsigned file) {
      for (size_t r = 0; r < in.size(); ++r) {
        Value v = meet(old[r], in[r], n, whole_join_[n]);
        const auto place = std::pair(n, static_cast<uint32_t>(file + r));
        if (v.kind == Value::Kind::linear && v.by != (joined | n) && joins_.contains(place)) {
          v.by = joined | n;
          v.varies = true;
        }
        if (v.kind == Value::Kind::linear && v.by == (joined | n)) joins_.insert(place);
        changed |= !(v == old[r]);
        old[r] = v;
      }
    };
    merge(found->second.gpr, s.gpr, 0);
    merge(found->second.ur, s.ur, static_cast<unsigned>(s.gpr.size()));
    return changed;
  }

  void look(InstIndex i, const State& s) {
    const sass::RawInst& w = code_.insts[i].raw;
    const auto accesses = sass::accesses(*code_.arch, w);
    const auto* all = std::get_if<std::vector<sass::Access>>(&accesses);
    if (all == nullptr) return;
    const auto guard = static_cast<uint8_t>(get_bits(w, guard_field));
    for (const sass::Access& a : *all) {
      if (a.low == a.none) continue;
      const Value& v = s.gpr[a.low];
      const bool holds = v.kind == Value::Kind::linear && (v.guard == guard_always || v.guard == guard);
      if (holds) found_[{i, a.low}] = {v.stride, v.step, v.guard};
      else found_.erase({i, a.low});
    }
  }

  const Code& code_;
  const LaunchFacts& launch_;
  std::vector<uint32_t> entries_;
  std::vector<bool> whole_join_;   // all blocks that lead here are whole, and so is this one
  const InstIndex start_;
  std::map<InstIndex, State> at_;
  std::set<std::pair<InstIndex, uint32_t>> joins_;   // instruction; register, or 256 and uniform register
  std::deque<InstIndex> work_;
  Found found_;
};

}  // namespace

uint8_t row_shift(const Dim3& block) {
  const bool rows = std::has_single_bit(block.x) && block.x > 1 && block.x < warp_lanes;
  return rows ? static_cast<uint8_t>(std::countr_zero(block.x)) : 0;
}

std::optional<uint32_t> LaunchFacts::constant(uint32_t byte) const {
  if (byte < params_at || byte - params_at + sizeof(uint32_t) > params.size()) return std::nullopt;
  return *read_at<uint32_t>(params, byte - params_at, "parameter");
}

LaneStrides::LaneStrides(const Code& code, const LaunchFacts& launch) : at_(Flow(code, launch).run()) {}

}  // namespace xtrace::instrument
