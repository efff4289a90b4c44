// What a block's record of `mem` holds and where: columns, bases, and words that are one for the warp.
#include "instrument/probes/mem_layout.h"
#include "instrument/sass/access.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;

constexpr BitRange guard_index = bits(14, 12);
constexpr unsigned guard_not = 15;

wire::Access::Space space_of(sass::MemSpace space) {
  switch (space) {
    case sass::MemSpace::generic: return wire::Access::Space::generic;
    case sass::MemSpace::shared: return wire::Access::Space::shared;
    case sass::MemSpace::local: return wire::Access::Space::local;
    default: return wire::Access::Space::global;
  }
}
wire::Access::Kind kind_of(sass::MemKind kind) {
  switch (kind) {
    case sass::MemKind::store: return wire::Access::Kind::store;
    case sass::MemKind::atomic: return wire::Access::Kind::atomic;
    case sass::MemKind::reduction: return wire::Access::Kind::reduction;
    case sass::MemKind::other: return wire::Access::Kind::prefetch;
    default: return wire::Access::Kind::load;
  }
}

wire::Access::Form form_of(sass::Access::Form form) {
  switch (form) {
    case sass::Access::Form::bulk: return wire::Access::Form::bulk;
    case sass::Access::Form::tensor: return wire::Access::Form::tensor;
    case sass::Access::Form::lanes: break;
  }
  return wire::Access::Form::lanes;
}
wire::Access::Role role_of(sass::OperandRole role) {
  static_assert(static_cast<int>(wire::Access::Role::pixels) == static_cast<int>(sass::OperandRole::pixels));
  static_assert(static_cast<int>(wire::Access::Role::map_low) == static_cast<int>(sass::OperandRole::map_low));
  return static_cast<wire::Access::Role>(role);
}

// What a register is in the first lane that executes an instruction, at a known time.
bool takes_first(const sass::Arch& arch) {
  return sass::effects(arch, enc::for_arch(arch, enc::r2ur(enc::Ureg{0}, enc::Gpr{0})), 0).fixed_latency;
}

// Collects columns and scalars, each once for as long as its register keeps its value.
class Layout {
 public:
  Layout(const Code& code, const ProbeBlock& block, const Scope& scope)
      : code_(code), block_(block), low_words_tell_(scope.low_words_tell), lanes_(scope.lanes),
        takes_first_(takes_first(*code.arch)), unit_(record_unit(scope)) {
    record_.full = block.first < scope.whole.size() && scope.whole[block.first] && takes_first_;
    for (InstIndex i = block.first; i <= block.last(); ++i) {
      const auto found = accesses(code, i);
      if (const auto* all = std::get_if<std::vector<sass::Access>>(&found); all != nullptr && scope.has(i))
        for (const sass::Access& a : *all) add(i, a);
      forget(code.insts[i].fx.def);
    }
    place();
  }
  MemRecord take() { return std::move(record_); }

 private:
  void add(InstIndex i, const sass::Access& a) {
    wire::Access w;
    w.pc = code_.pc(i);
    w.space = space_of(a.space);
    w.kind = kind_of(a.kind);
    w.form = form_of(a.form);
    if (a.form != sass::Access::Form::lanes) {
      w.pixels = a.pixels;
      for (const sass::UniformOperand& o : a.operands)
        w.operands.push_back({role_of(o.role), o.reg == a.none ? w.none : scalar({false, o.reg, false, i, 0, false, true})});
      if (index_of_guard(i) != enc::PT.index || is_negated(i)) w.mask = scalar({false, index_of_guard(i), is_negated(i), i, 0, true, true});
      record_.accesses.push_back(w);
      return;
    }
    w.bytes = a.bytes;
    w.lanes = a.lanes;
    w.wide = a.wide;
    w.scale = a.scale;
    w.offset = a.offset;
    // A sum with a uniform register tells its own high word.
    w.high_is_known = a.space == sass::MemSpace::global && low_words_tell_ && a.uniform_low == a.none;
    if (const auto lanes = a.low == a.none ? std::nullopt : base_of(lanes_.before(i, a.low))) {
      w.numbers = lanes->numbers;
      if (!lanes->known) {
        w.base = base(i, a.low, *lanes);
        w.base_of = whose(*lanes);
      }
    } else if (a.low != a.none && spreads(a)) {
      w.base = spread(i, a.low);
      w.low = record_.bases[w.base].spread;
    } else if (a.low != a.none) {
      w.low = column(i, a.low);
    }
    if (a.high != a.none && !w.high_is_known) w.high = column(i, a.high);
    const auto number = a.uniform_low == a.none || a.wide ? std::nullopt : lanes_.uniform_before(i, a.uniform_low);
    if (number) w.offset = static_cast<int32_t>(static_cast<uint32_t>(w.offset) + *number);
    else if (a.uniform_low != a.none) w.uniform_low = scalar({false, a.uniform_low, false, i, 0});
    if (a.uniform_high != a.none) w.uniform_high = scalar({false, a.uniform_high, false, i, 0});
    if (index_of_guard(i) != enc::PT.index || is_negated(i)) w.mask = scalar({true, index_of_guard(i), is_negated(i), i, 0});
    if (!record_.full && w.mask != w.none && w.base != w.none) join(i, w.mask, w.base);
    record_.accesses.push_back(w);
  }

  uint8_t index_of_guard(InstIndex i) const { return static_cast<uint8_t>(get_bits(code_.insts[i].raw, guard_index)); }
  bool is_negated(InstIndex i) const { return get_bits(code_.insts[i].raw, bit(guard_not)) != 0; }

  // Where lanes may be missing, what a product does not take away is left to the first lane, if there is a way to ask for it.
  std::optional<LaneBase> base_of(const std::optional<LaneBase>& lanes) const {
    if (!lanes || lanes->known || record_.full || takes_first_ || by_product(lanes_.strided(*lanes))) return lanes;
    return std::nullopt;
  }
  wire::Access::BaseOf whose(const LaneBase& lanes) const {
    using enum wire::Access::BaseOf;
    if (!record_.full && by_product(lanes_.strided(lanes))) return first_of_warp;
    if (lanes.guard != guard_always) return first_of_mask;
    return record_.full ? first_of_warp : first_active;
  }

  bool spreads(const sass::Access& a) const {
    constexpr uint8_t stack_pointer = 1;
    return a.space == sass::MemSpace::local && a.low == stack_pointer && takes_first_ && !record_.full;
  }

  // Where a register of the access at i is stored: behind it, while it is on its way, if it has its value until then. A store in
  // front of a load delays it.
  InstIndex behind(InstIndex i, uint8_t reg) const {
    const InstIndex quiet = quiet_place(code_, block_, i);
    for (InstIndex k = i; k < quiet; ++k)
      if (code_.insts[k].fx.def.gpr.test(reg)) return k;
    return quiet;
  }

  // Numbers, until place() makes them bytes.
  uint32_t base(InstIndex i, uint8_t reg, const LaneBase& lanes) {
    for (uint32_t k = 0; k < record_.bases.size(); ++k)
      if (current_base_[k] && record_.bases[k].reg == reg && record_.bases[k].spread == MemRecord::Base::alone && record_.bases[k].lanes == lanes) return k;
    record_.bases.push_back({reg, lanes, i, 0});
    current_base_.push_back(true);
    return static_cast<uint32_t>(record_.bases.size() - 1);
  }
  uint32_t spread(InstIndex i, uint8_t reg) {
    for (uint32_t k = 0; k < record_.bases.size(); ++k)
      if (current_base_[k] && record_.bases[k].reg == reg && record_.bases[k].spread != MemRecord::Base::alone) return k;
    record_.bases.push_back({reg, {}, i, 0});
    current_base_.push_back(true);
    record_.bases.back().spread = static_cast<uint32_t>(record_.columns.size());
    record_.columns.push_back({reg, i, i, 0, true});
    current_column_.push_back(false);
    return static_cast<uint32_t>(record_.bases.size() - 1);
  }
  uint32_t column(InstIndex i, uint8_t reg) {
    for (uint32_t k = 0; k < record_.columns.size(); ++k)
      if (current_column_[k] && record_.columns[k].reg == reg) return k;
    record_.columns.push_back({reg, i, behind(i, reg), 0});
    current_column_.push_back(true);
    return static_cast<uint32_t>(record_.columns.size() - 1);
  }
  uint32_t scalar(const MemRecord::Scalar& s) {
    for (uint32_t k = 0; k < record_.scalars.size(); ++k) {
      const MemRecord::Scalar& o = record_.scalars[k];
      if (current_scalar_[k] && o.is_mask == s.is_mask && o.is_guard == s.is_guard && o.index == s.index && o.negated == s.negated) return k;
    }
    record_.scalars.push_back(s);
    current_scalar_.push_back(true);
    return static_cast<uint32_t>(record_.scalars.size() - 1);
  }

  // A base that is new at i goes out in one store with the lanes of its access, which may have been asked for before: they are the
  // same here. One store is one write transaction, whatever it holds.
  void join(InstIndex i, uint32_t mask, uint32_t base) {
    MemRecord::Base& b = record_.bases[base];
    MemRecord::Scalar& m = record_.scalars[mask];
    const bool same_lanes = b.lanes.guard == guard_always || b.lanes.guard == (m.index | (m.negated ? 8 : 0));
    if (b.at != i || b.mask != b.alone || b.spread != b.alone || m.with_base || !same_lanes) return;
    b.mask = mask;
    m.with_base = true;
    m.at = i;
  }

  void forget(const sass::RegEffects& written) {
    for (size_t k = 0; k < record_.columns.size(); ++k)
      if (written.gpr.test(record_.columns[k].reg)) current_column_[k] = false;
    for (size_t k = 0; k < record_.bases.size(); ++k) {
      const LaneBase& lanes = record_.bases[k].lanes;
      const bool other_lanes = lanes.guard != guard_always && (written.pred >> (lanes.guard & 7) & 1) != 0;
      if (written.gpr.test(record_.bases[k].reg) || other_lanes) current_base_[k] = false;
    }
    for (size_t k = 0; k < record_.scalars.size(); ++k) {
      const MemRecord::Scalar& s = record_.scalars[k];
      const bool changes = s.is_mask ? (written.pred >> s.index & 1) != 0 : s.is_guard ? (written.upred >> s.index & 1) != 0 : written.ur.test(s.index);
      if (changes) current_scalar_[k] = false;
    }
  }

  void place() {
    if (record_.accesses.empty()) return;
    auto at = static_cast<uint32_t>((record_.full ? 1 : 2) * sizeof(uint32_t));   // behind word0 and mask
    const auto next = [&at](uint32_t& place) {
      place = at;
      at += sizeof(uint32_t);
    };
    for (MemRecord::Base& b : record_.bases) {   // pairs first: they are aligned
      if (b.mask == b.alone) continue;
      next(record_.scalars[b.mask].place);
      next(b.place);
    }
    for (MemRecord::Scalar& s : record_.scalars)   // before words that might leave them misaligned
      if (s.is_operand) next(s.place);
    for (MemRecord::Scalar& s : record_.scalars)
      if (!s.with_base && !s.is_operand) next(s.place);
    for (MemRecord::Base& b : record_.bases)
      if (b.mask == b.alone) next(b.place);
    if (record_.full) at += LaneGroups::groups * sizeof(uint32_t);   // lane groups that carry nothing
    at = static_cast<uint32_t>(align_up(at, unit_));
    for (MemRecord::Column& c : record_.columns) {
      c.place = at;
      at += wire::mem_line;
    }
    record_.bytes = at;   // in whole sectors of a full block: the writer knows how many its words take
    for (wire::Access& a : record_.accesses) {
      for (uint32_t* n : {&a.low, &a.high})
        if (*n != a.none) *n = record_.columns[*n].place;
      if (a.base != a.none) a.base = record_.bases[a.base].place;
      for (uint32_t* n : {&a.uniform_low, &a.uniform_high, &a.mask})
        if (*n != a.none) *n = record_.scalars[*n].place;
      for (wire::Access::Operand& o : a.operands)
        if (o.place != a.none) o.place = record_.scalars[o.place].place;
    }
  }

  const Code& code_;
  const ProbeBlock& block_;
  const bool low_words_tell_;
  const LaneBases& lanes_;
  const bool takes_first_;
  const uint32_t unit_;        // bytes that a record, and what stands in front of its columns, is a multiple of
  MemRecord record_;
  std::vector<bool> current_column_, current_scalar_, current_base_;
};

}  // namespace

MemRecord mem_record(const Code& code, const ProbeBlock& block, const Scope& scope) {
  return Layout(code, block, scope).take();
}

}  // namespace xtrace::instrument
