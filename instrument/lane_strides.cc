#include "instrument/lane_strides.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>

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

// What a register holds. Nobody has looked yet (unseen), anything (unknown), or what LaneStride says by the definition at `by`.
struct Value {
  enum class Kind : uint8_t { unseen, unknown, linear } kind = Kind::unseen;
  uint8_t guard = guard_always;
  uint32_t stride = 0, step = 0;
  InstIndex by = 0;
  bool is_uniform() const { return kind == Kind::linear && stride == 0 && step == 0; }
  bool operator==(const Value&) const = default;
};
constexpr Value unknown{Value::Kind::unknown, guard_always, 0, 0, 0};
constexpr Value uniform{Value::Kind::linear, guard_always, 0, 0, 0};

Value meet(const Value& a, const Value& b) {
  if (a.kind == Value::Kind::unseen) return b;
  if (b.kind == Value::Kind::unseen || a == b) return a;
  return unknown;
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
  return {Value::Kind::linear, guard, stride, step, 0};
}
Value sum(const Value& a, const Value& b) { return linear(a, b, a.stride + b.stride, a.step + b.step); }
Value times(const Value& a, uint32_t factor) { return linear(a, uniform, a.stride * factor, a.step * factor); }

// One instruction: what it makes of what stands in front of it.
class Step {
 public:
  Step(const Code& code, const Dim3& block, InstIndex i, const State& s)
      : arch_(*code.arch), w_(code.insts[i].raw), fx_(code.insts[i].fx), block_(block), s_(s), layout_(sass::alu_layout(sass::opcode13(w_))) {}

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
    if (r == rz) return uniform;
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
        if (u == (1u << arch_.ur_bits) - 1) return uniform;   // URZ
        return u < s_.ur.size() && fx_.use.ur.test(u) ? s_.ur[u] : unknown;
      }
      case sass::SourceS::constant_bindless: return unknown;
      default: return uniform;   // an immediate, a constant bank
    }
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
    const Value lane{Value::Kind::linear, guard_always, 1, 0, 0}, row{Value::Kind::linear, guard_always, 0, 1, 0};
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

  // Low words of products: a factor that is one for the warp but not known would give a stride that is not known.
  Value product(const Value& x, const Value& y, std::optional<uint32_t> known) const {
    if (known) return times(x, *known);
    return x.is_uniform() && y.is_uniform() ? linear(x, y, 0, 0) : unknown;
  }
  Value imad() const {
    constexpr uint16_t operation = 0x1ff, low_word = 0x024, wide = 0x025;
    const auto op = static_cast<uint16_t>(sass::opcode13(w_) & operation);
    if ((op != low_word && op != wide) || flag(carry_in)) return unknown;
    const bool b_in_s = layout_.s == sass::SourceS::reg && !layout_.s_is_c;
    const bool moves = get_bits(w_, bits(31, 24)) == rz || (b_in_s && get_bits(w_, bits(39, 32)) == rz);
    return sum(moves ? uniform : product(gpr(24), b(), known_b()), c());
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
  const Dim3& block_;
  const State& s_;
  const sass::AluLayout layout_;
};

void apply(const Code& code, const Dim3& block, InstIndex i, State& s) {
  const sass::RegEffects& def = code.insts[i].fx.def;
  const Step step(code, block, i, s);
  const Value first = step.result(), others = step.others();
  const auto put = [&](const sass::RegSet& written, auto& file) {
    if (!written.any()) return;
    const Value* next = &first;
    for (size_t r = 0; r < file.size(); ++r) {
      if (!written.test(r)) continue;
      file[r] = *next;
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

}  // namespace

uint8_t row_shift(const Dim3& block) {
  const bool rows = std::has_single_bit(block.x) && block.x > 1 && block.x < warp_lanes;
  return rows ? static_cast<uint8_t>(std::countr_zero(block.x)) : 0;
}

LaneStrides::LaneStrides(const Code& code, const Dim3& block) {
  // States stand where paths meet or part; between them they are carried along.
  std::vector<uint32_t> entries(code.insts.size(), 0);
  const InstIndex start = code.functions.at(0).entry;
  entries[start] = 2;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i]) continue;
    const auto next = code.successors(i);
    for (InstIndex n : next) entries[n] += next.size() == 1 && n == i + 1 ? 1 : 2;
  }
  std::map<InstIndex, State> at;
  State first;
  for (Value& v : first.gpr) v = unknown;
  for (Value& v : first.ur) v = unknown;
  at[start] = first;
  std::deque<InstIndex> work{start};
  const auto look = [&](InstIndex i, const State& s) {
    const sass::RawInst& w = code.insts[i].raw;
    const auto found = sass::accesses(*code.arch, w);
    const auto* all = std::get_if<std::vector<sass::Access>>(&found);
    if (all == nullptr) return;
    const auto guard = static_cast<uint8_t>(get_bits(w, guard_field));
    for (const sass::Access& a : *all) {
      if (a.low == a.none) continue;
      const Value& v = s.gpr[a.low];
      const bool holds = v.kind == Value::Kind::linear && (v.guard == guard_always || v.guard == guard);
      if (holds) at_[{i, a.low}] = {v.stride, v.step, v.guard};
      else at_.erase({i, a.low});
    }
  };
  while (!work.empty()) {
    InstIndex i = work.front();
    work.pop_front();
    State s = at[i];
    while (true) {
      look(i, s);
      apply(code, block, i, s);
      const auto next = code.successors(i);
      if (next.size() == 1 && entries[next[0]] == 1) {
        i = next[0];
        continue;
      }
      for (InstIndex n : next) {
        const auto [found, added] = at.try_emplace(n, s);
        bool changed = added;
        if (!added) {
          State& old = found->second;
          for (size_t r = 0; r < s.gpr.size(); ++r) {
            const Value v = meet(old.gpr[r], s.gpr[r]);
            changed |= !(v == old.gpr[r]);
            old.gpr[r] = v;
          }
          for (size_t r = 0; r < s.ur.size(); ++r) {
            const Value v = meet(old.ur[r], s.ur[r]);
            changed |= !(v == old.ur[r]);
            old.ur[r] = v;
          }
        }
        if (changed && std::find(work.begin(), work.end(), n) == work.end()) work.push_back(n);
      }
      break;
    }
  }
}

}  // namespace xtrace::instrument
