#include "instrument/register_terms.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "instrument/sass/encode.h"
#include "instrument/sass/form.h"

namespace xtrace::instrument::register_terms {

Value meet(ThreadTerms& terms, const Value& a, const Value& b, InstIndex at, bool whole) {
  if (a.kind == Value::Kind::unseen) return b;
  if (b.kind == Value::Kind::unseen || a == b) return a;
  if (!a.is_term() || !b.is_term() || a.guard != b.guard) return unknown;
  const auto term = terms.join(a.term, b.term);
  // One definition, of which more has become known.
  if (term && a.by == b.by && a.by != by_place) return {Value::Kind::term, a.guard, a.varies || b.varies, false, a.by, *term};
  return term && whole ? Value{Value::Kind::term, a.guard, true, false, joined | at, *term} : unknown;
}

namespace {

namespace enc = sass::enc;

constexpr BitRange guard_field = bits(15, 12);
constexpr uint8_t rz = 255;
constexpr unsigned warp_lanes = ThreadTerms::warp_lanes;

Value of(Term t) { return {Value::Kind::term, guard_always, false, false, 0, t}; }

// One instruction: what it makes of what stands in front of it.
class Step {
 public:
  // `whole`: all lanes of the warp execute it together.
  Step(const Code& code, const LaunchFacts& launch, ThreadTerms& terms, InstIndex i, bool whole, const State& s)
      : arch_(*code.arch), w_(code.insts[i].raw), fx_(code.insts[i].fx), launch_(launch), terms_(terms), whole_(whole),
        relocated_(code.insts[i].relocated), s_(s),
        layout_(sass::alu_layout(sass::opcode13(w_))) {}

  // Of the first register that it writes, in the vector or the uniform file.
  Value result() const {
    if (!fx_.known) return unknown;
    const std::string_view m = fx_.mnemonic;
    for (const auto& [name, value] : rows)
      if (name == m) return guarded((this->*value)());
    return is_function(m) ? guarded(of_uniform()) : unknown;
  }
  // Of the others: the same operands give the same result.
  Value others() const {
    const std::string_view m = fx_.mnemonic;
    return fx_.known && (m == "IMAD" || m == "UIMAD" || m == "CS2R" || is_function(m)) ? guarded(m == "CS2R" ? zero() : of_uniform()) : unknown;
  }
  // Of the next one, where it is the next word of what is loaded.
  std::optional<Value> second() const {
    const std::string_view m = fx_.mnemonic;
    return fx_.known && (m == "LDC" || m == "ULDC") ? std::optional(guarded(load_constant(sizeof(uint32_t)))) : std::nullopt;
  }

 private:
  static constexpr unsigned carry_in = 74, high = 80;
  static constexpr unsigned sign_a = 72, sign_s = 63, sign_t = 75;
  bool flag(unsigned b) const { return get_bits(w_, bit(b)) != 0; }
  uint32_t imm() const { return static_cast<uint32_t>(get_bits(w_, bits(63, 32))); }

  // The value counts where the instruction was done; a guard in the vector file only.
  Value guarded(Value v) const {
    if (!fx_.guarded || !v.is_term()) return v;
    const auto guard = static_cast<uint8_t>(get_bits(w_, guard_field));
    if (fx_.use.upred != 0 || (v.guard != guard_always && v.guard != guard)) return unknown;
    v.guard = guard;
    return v;
  }
  // A term made of those of some values: where all of them have theirs.
  Value made(std::optional<Term> term, std::initializer_list<Value> of) const {
    Value v = unknown;
    v.kind = Value::Kind::term;
    for (const Value& o : of) {
      if (!term || !o.is_term() || (o.guard != guard_always && v.guard != guard_always && o.guard != v.guard)) return unknown;
      if (o.guard != guard_always) v.guard = o.guard;
      v.varies |= o.varies;
      v.passes |= o.passes;
    }
    v.term = *term;
    return v;
  }
  template <typename F>
  Value make(F f, const Value& a, const Value& b) const {
    return a.is_term() && b.is_term() ? made(f(a.term, b.term), {a, b}) : unknown;
  }
  Value known(uint32_t n) const { return of(terms_.number(n)); }
  bool is_number(const Value& v, uint32_t n) const { return v.is_term() && terms_.number_of(v.term) == n; }
  bool is_nothing(const Value& v) const { return is_number(v, 0) && v.guard == guard_always; }
  Value sum(const Value& a, const Value& b) const {
    return make([&](Term x, Term y) { return terms_.add(x, y); }, a, b);
  }
  // Whatever the other factor is, 0 makes 0 of it.
  Value product(const Value& a, const Value& b) const {
    for (const Value& v : {a, b})
      if (is_number(v, 0)) return v;
    return make([&](Term x, Term y) { return terms_.multiply(x, y); }, a, b);
  }
  Value left(const Value& a, uint32_t by) const {
    return make([&](Term x, Term y) { return terms_.shift_left(x, y); }, a, known(by));
  }
  Value right(const Value& a, const Value& by, bool is_signed) const {
    return make([&](Term x, Term y) { return terms_.shift_right(x, y, is_signed); }, a, by);
  }
  Value negated_by(const Value& v, unsigned sign) const {
    return flag(sign) && v.is_term() ? made(terms_.negate(v.term), {v}) : v;
  }

  // --- operands

  bool is_of_uniform_unit() const { return fx_.mnemonic[0] == 'U'; }
  Value uniform_register(unsigned low) const {
    const auto u = static_cast<unsigned>(get_bits(w_, bits(low + arch_.ur_bits - 1u, low)));
    if (u == (1u << arch_.ur_bits) - 1) return known(0);   // URZ
    return u < s_.ur.size() && fx_.use.ur.test(u) ? s_.ur[u] : unknown;
  }
  Value reg(unsigned low) const {
    if (is_of_uniform_unit()) return uniform_register(low);
    const auto r = static_cast<uint8_t>(get_bits(w_, bits(low + 7, low)));
    if (r == rz) return known(0);
    return fx_.use.gpr.test(r) ? s_.gpr[r] : unknown;   // else the operand is not what stands there
  }
  // In [31:24], [63:32] and [71:64], without their signs.
  Value a() const { return reg(24); }
  Value t() const { return reg(64); }
  Value s() const {
    switch (layout_.s) {
      case sass::SourceS::reg: return reg(32);
      case sass::SourceS::ur: return uniform_register(32);
      case sass::SourceS::constant_bindless: return unknown;
      case sass::SourceS::imm: return relocated_ ? of(terms_.uniform()) : known(imm());
      case sass::SourceS::constant: return constant();
    }
    return unknown;
  }
  // An immediate has its sign in itself.
  Value signed_s() const { return layout_.s == sass::SourceS::imm ? s() : negated_by(s(), sign_s); }
  Value signed_t() const { return negated_by(t(), sign_t); }
  Value b() const { return layout_.s_is_c ? t() : s(); }
  Value c() const { return layout_.s_is_c ? s() : t(); }
  Value signed_b() const { return layout_.s_is_c ? signed_t() : signed_s(); }
  Value signed_c() const { return layout_.s_is_c ? signed_s() : signed_t(); }

  // C and the register behind it, of operations that add 64 bits.
  bool pair_c_is_nothing() const {
    const auto r = static_cast<uint8_t>(get_bits(w_, bits(71, 64)));
    if (layout_.s_is_c || !is_nothing(c())) return false;
    return r == rz || is_nothing(s_.gpr[r + 1u]);
  }

  // In bits [58:54] the bank, in [53:38] the byte [sass.md 1.1]
  Value constant(uint32_t behind = 0) const {
    constexpr BitRange bank = bits(58, 54), offset = bits(53, 38);
    if (relocated_) return of(terms_.uniform());
    const auto word = get_bits(w_, bank) == 0 ? bank0(static_cast<uint32_t>(get_bits(w_, offset)) + behind) : std::nullopt;
    return word ? known(*word) : of(terms_.uniform());
  }
  std::optional<uint32_t> bank0(uint32_t byte) const {
    for (const auto& [at, dim] : {std::pair(arch_.bank0_block_dim, &launch_.block), std::pair(arch_.bank0_grid_dim, &launch_.grid)})
      for (unsigned axis = 0; axis < 3; ++axis)
        if (byte == at + 4u * axis) return axis == 0 ? dim->x : axis == 1 ? dim->y : dim->z;
    if (byte < launch_.params_at || byte - launch_.params_at + sizeof(uint32_t) > launch_.params.size()) return std::nullopt;
    return *read_at<uint32_t>(launch_.params, byte - launch_.params_at, "parameter");
  }

  // --- by instruction

  Value load_constant() const { return load_constant(0); }
  Value load_constant(uint32_t behind) const {
    constexpr BitRange size = bits(75, 73), mode = bits(79, 78);
    constexpr uint64_t one_word = 4, two_words = 5;
    const uint64_t words = get_bits(w_, size);
    const bool plain = fx_.use.gpr.none() && fx_.use.ur.none() && get_bits(w_, mode) == 0 && (words == one_word || words == two_words);
    return plain ? constant(behind) : of_uniform();
  }
  Value special() const {
    const auto sr = get_bits(w_, bits(79, 72));
    switch (sr) {
      case enc::sr_laneid: return of(terms_.lane());
      case enc::sr_tid_x:
      case enc::sr_tid_y:
      case enc::sr_tid_z: return of(terms_.thread(static_cast<unsigned>(sr - enc::sr_tid_x)));
      case enc::sr_ctaid_x:
      case enc::sr_ctaid_y:
      case enc::sr_ctaid_z: return of(terms_.uniform());
      // Without clusters it is 0 [measured H200: 100,000 CTAs, grids of three dimensions].
      case enc::sr_cga_ctaid: return launch_.cluster.count() <= 1 ? known(0) : of(terms_.uniform());
      default: return unknown;
    }
  }
  Value zero() const { return get_bits(w_, bits(79, 72)) == enc::sr_zero ? known(0) : unknown; }
  Value move() const { return get_bits(w_, bits(75, 72)) == 15 ? s() : unknown; }
  Value move_uniform() const { return s(); }
  Value add3() const {
    return flag(carry_in) ? unknown : sum(sum(negated_by(a(), sign_a), signed_b()), signed_c());
  }
  Value add() const {
    constexpr BitRange type = bits(75, 73);
    return get_bits(w_, type) == 0 ? sum(a(), signed_s()) : unknown;
  }
  Value multiply_add() const {
    constexpr uint16_t operation = 0x1ff, low_word = 0x024, wide = 0x025, high_word = 0x027, uniform_low = 0x0a4, uniform_wide = 0x0a5;
    constexpr unsigned is_signed = 73;
    const auto op = static_cast<uint16_t>(sass::opcode13(w_) & operation);
    if (flag(carry_in)) return unknown;
    if (op == high_word) {
      if (!pair_c_is_nothing()) return of_uniform();
      return make([&](Term x, Term y) { return terms_.high_product(x, y, flag(is_signed)); }, a(), b());
    }
    return op == low_word || op == wide || op == uniform_low || op == uniform_wide ? sum(product(a(), b()), signed_c()) : unknown;
  }
  // (A << shift) + B, or the high word of C:A << shift. B takes its own sign; bits [79:75] are the shift, so that T has none here.
  Value shift_add() const {
    constexpr unsigned extends_sign = 73;
    const auto shift = static_cast<uint32_t>(get_bits(w_, bits(79, 75)));
    if (flag(carry_in) || flag(sign_a)) return unknown;
    const Value y = layout_.s_is_c ? t() : signed_s();
    if (!flag(high)) return sum(left(a(), shift), y);
    if (!flag(extends_sign) && !is_nothing(c())) return of_uniform();
    return sum(right(a(), known(32 - shift), flag(extends_sign)), y);
  }
  Value shift() const {
    constexpr unsigned to_the_right = 76, wraps = 75;
    constexpr BitRange type = bits(74, 73);   // S64 U64 S32 U32
    constexpr uint64_t s32 = 2;
    const Value by = b();
    const auto n = by.is_term() ? terms_.number_of(by.term) : std::nullopt;
    if (get_bits(w_, type) < s32 || (flag(wraps) && (!n || *n >= 32))) return of_uniform();
    if (flag(to_the_right)) return flag(high) ? right(c(), by, get_bits(w_, type) == s32) : of_uniform();
    return flag(high) ? of_uniform() : make([&](Term x, Term y) { return terms_.shift_left(x, y); }, a(), by);
  }
  Value logic() const {
    const auto table = static_cast<uint8_t>(get_bits(w_, bits(79, 72)));
    const Value x = a(), y = b(), z = c();
    if (!x.is_term() || !y.is_term() || !z.is_term()) return unknown;
    return made(terms_.logic(table, x.term, y.term, z.term), {x, y, z});
  }
  Value permute() const {
    const Value x = a(), y = b(), z = c();
    if (get_bits(w_, bits(74, 72)) != 0 || !x.is_term() || !y.is_term() || !z.is_term()) return of_uniform();
    return made(terms_.permute(x.term, y.term, z.term), {x, y, z});
  }
  // That of the first lane: lane 0 where all are there.
  Value first_lane() const {
    const Value x = a();
    if (!x.is_term()) return unknown;
    return terms_.is_uniform(x.term) && x.guard == guard_always ? x : from_lane(x, 0);
  }
  Value from_lane(const Value& x, uint32_t lane) const {
    return x.is_term() && whole_ && !fx_.guarded && x.guard == guard_always ? made(terms_.of_lane(x.term, lane), {x}) : unknown;
  }
  Value shuffle() const {
    constexpr BitRange mode = bits(59, 58), lane_field = bits(57, 53), clamp_field = bits(52, 40);
    constexpr uint16_t of_register = 0x589, of_number = 0xf89;   // the lane; the clamp is in the word
    constexpr uint64_t by_index = 0, whole_warp = 0x1f;
    const uint16_t op = sass::opcode13(w_);
    if ((op != of_register && op != of_number) || get_bits(w_, mode) != by_index || get_bits(w_, clamp_field) != whole_warp) return unknown;
    const Value by = op == of_number ? known(static_cast<uint32_t>(get_bits(w_, lane_field))) : reg(32);
    const auto lane = by.is_term() && by.guard == guard_always ? terms_.number_of(by.term) : std::nullopt;
    return lane ? from_lane(a(), *lane & (warp_lanes - 1)) : unknown;
  }

  struct Row {
    std::string_view name;
    Value (Step::*value)() const;
  };
  static const std::array<Row, 22> rows;

  // The same operands give the same result, whatever it is.
  static bool is_function(std::string_view m) {
    constexpr std::string_view names[] = {"IABS", "POPC", "FLO", "BREV", "SGXT", "BMSK", "UFLO", "UPOPC", "UBREV", "USGXT", "UBMSK", "I2F",
                                          "I2FP", "F2I", "MUFU", "FADD", "FMUL", "FFMA", "HFMA2", "IMNMX", "VIMNMX", "SEL"};
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
    Value all = of(terms_.uniform());
    const auto with = [&](const Value& v) {
      all = v.is_term() && terms_.is_uniform(v.term) ? made(terms_.uniform(), {all, v}) : unknown;
    };
    for (size_t r = 0; r < s_.gpr.size(); ++r)
      if (fx_.use.gpr.test(r)) with(s_.gpr[r]);
    for (size_t r = 0; r < fx_.use.ur.size(); ++r)
      if (fx_.use.ur.test(r)) with(r < s_.ur.size() ? s_.ur[r] : unknown);
    return all;
  }

  const sass::Arch& arch_;
  const sass::RawInst& w_;
  const sass::Effects& fx_;
  const LaunchFacts& launch_;
  ThreadTerms& terms_;
  const bool whole_;
  const bool relocated_;       // what the word says of immediates and constants is not what it executes with
  const State& s_;
  const sass::AluLayout layout_;
};

constexpr std::array<Step::Row, 22> Step::rows{{{"S2R", &Step::special},
                                                {"S2UR", &Step::special},
                                                {"CS2R", &Step::zero},
                                                {"MOV", &Step::move},
                                                {"UMOV", &Step::move_uniform},
                                                {"IADD3", &Step::add3},
                                                {"UIADD3", &Step::add3},
                                                {"VIADD", &Step::add},
                                                {"IMAD", &Step::multiply_add},
                                                {"UIMAD", &Step::multiply_add},
                                                {"LEA", &Step::shift_add},
                                                {"ULEA", &Step::shift_add},
                                                {"SHF", &Step::shift},
                                                {"USHF", &Step::shift},
                                                {"LOP3", &Step::logic},
                                                {"ULOP3", &Step::logic},
                                                {"PRMT", &Step::permute},
                                                {"UPRMT", &Step::permute},
                                                {"LDC", &Step::load_constant},
                                                {"ULDC", &Step::load_constant},
                                                {"R2UR", &Step::first_lane},
                                                {"SHFL", &Step::shuffle}}};

}  // namespace

void apply(const Code& code, const LaunchFacts& launch, ThreadTerms& terms, InstIndex i, bool whole, State& s) {
  const sass::RegEffects& def = code.insts[i].fx.def;
  const Step step(code, launch, terms, i, whole, s);
  const Value first = step.result(), others = step.second().value_or(step.others());
  const auto put = [&](const sass::RegSet& written, auto& file, bool of_warp) {
    if (!written.any()) return;
    const Value* next = &first;
    for (size_t r = 0; r < file.size(); ++r) {
      if (!written.test(r)) continue;
      Value v = *next;
      if (v.is_term()) v.by = i;
      v.settle();
      // Lanes that came past at different times would have it from different executions.
      v.passes |= v.varies && !whole;
      const bool holds = v.is_term() && (!of_warp || (!v.passes && v.guard == guard_always && terms.is_uniform(v.term)));
      file[r] = holds ? v : unknown;
      next = &others;
    }
  };
  put(def.gpr, s.gpr, false);
  put(def.ur, s.ur, true);
  if (def.pred == 0) return;
  for (Value& v : s.gpr)
    if (v.guard != guard_always && (def.pred >> (v.guard & 7) & 1) != 0) v = unknown;
}

}  // namespace xtrace::instrument::register_terms
