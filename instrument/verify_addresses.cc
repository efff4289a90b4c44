// address-recorded: the stores of `mem` against the accesses of the original code.
#include <algorithm>
#include <map>
#include <optional>

#include "instrument/blocks.h"
#include "instrument/sass/access.h"
#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using Kind = AddressClaim::Kind;

using namespace fields;

constexpr uint32_t warp_lanes = 32;

LaunchFacts facts_of(const SpliceClaims& claims, const Blocks& blocks) {
  LaunchFacts facts = claims.launch;
  facts.whole = whole_instructions(blocks, claims.full_blocks);
  facts.block_of = blocks.block_of;
  return facts;
}

class Addresses {
 public:
  Addresses(SpliceView& v, const SpliceClaims& claims, Violations& out)
      : v_(v), claims_(claims), out_(out), blocks_(find_blocks(v.old)),
        lanes_(v.old, facts_of(claims, blocks_)) {}

  void run() {
    check_words(v_, claims_, blocks_, lanes_, out_);
    for (uint32_t number = 0; number < blocks_.blocks.size(); ++number) {
      const ProbeBlock& block = blocks_.blocks[number];
      if (number < claims_.full_records.size() && claims_.full_records[number]) continue;
      from_ = v_.copies[0].label[block.first];
      for (InstIndex i = block.first; i <= block.last(); ++i) {
        if (!claims_.places.empty() && !claims_.places[i]) continue;
        const auto found = accesses(v_.old, i);
        const auto* accesses = std::get_if<std::vector<sass::Access>>(&found);
        if (accesses == nullptr || accesses->empty()) continue;
        auto next = std::find_if(claims_.accesses.begin(), claims_.accesses.end(),
                                 [&](const wire::Access& w) { return w.pc == v_.old.pc(i); });
        for (const sass::Access& a : *accesses) {
          if (next == claims_.accesses.end() || next->pc != v_.old.pc(i) || next->block != number)
            fail(v_.copies[0].at[i], i, "an access that decoders do not know");
          else check(block, i, a, *next++);
        }
        const auto guard = static_cast<uint8_t>(get_bits(v_.old.insts[i].raw, guard_field));
        if (guard != always && accesses->front().form == sass::Access::Form::lanes) check(block, i, Kind::mask, guard);
      }
    }
  }

 private:
  void fail(uint32_t word, InstIndex i, std::string what) {
    out_.push_back({"address-recorded", v_.pc(word), where(v_.old, i) + ": " + std::move(what)});
  }

  void check(const ProbeBlock& block, InstIndex i, const sass::Access& a, const wire::Access& w) {
    if (!same_operands(a, w)) fail(v_.copies[0].at[i], i, "decoders take its operands for others");
    if (a.form != sass::Access::Form::lanes) {
      for (size_t k = 0; k < std::min(a.operands.size(), w.operands.size()); ++k)
        if (const uint8_t reg = a.operands[k].reg; reg != a.none && check(block, i, Kind::uniform, reg) != w.operands[k].place)
          fail(v_.copies[0].at[i], i, fmt::format("UR{} is not where decoders look for it", reg));
      const auto guard = static_cast<uint8_t>(get_bits(v_.old.insts[i].raw, guard_field));
      if (guard == always ? w.mask != w.none : check(block, i, Kind::guard, guard) != w.mask)
        fail(v_.copies[0].at[i], i, "decoders look elsewhere for whether it is made");
      return;
    }
    const bool high = a.space == sass::MemSpace::generic || !claims_.memory_high_is_known || a.uniform_low != a.none;
    if (a.low != a.none) low(block, i, a.low, w);
    if (a.high != a.none && high) check(block, i, Kind::column, a.high);
    const std::optional<uint32_t> in_offset = number_in_offset(lanes_, i, a, w);
    if (static_cast<uint32_t>(w.offset) != static_cast<uint32_t>(a.offset) + in_offset.value_or(0))
      fail(v_.copies[0].at[i], i, "another offset");
    if (w.scale != a.scale) fail(v_.copies[0].at[i], i, "another scale");
    if (a.uniform_low != a.none && !in_offset) check(block, i, Kind::uniform, a.uniform_low);
    if (a.uniform_high != a.none) check(block, i, Kind::uniform, a.uniform_high);
  }
  void low(const ProbeBlock& block, InstIndex i, uint8_t reg, const wire::Access& w) {
    const uint32_t at = v_.copies[0].at[i];
    if (w.numbers == w.none && w.base != w.none) return is_spread(block, i, reg, w) ? void() : fail(at, i, fmt::format("what R{} has more in each lane is not stored", reg));
    if (w.numbers == w.none) return void(check(block, i, Kind::column, reg));
    const auto lanes = lanes_.before(i, reg);
    if (!lanes || !are_numbers(claims_, lanes_, *lanes, w)) return fail(at, i, fmt::format("R{} is not proven to have these numbers", reg));
    if (lanes->known) return w.base == w.none ? void() : fail(at, i, fmt::format("R{} is known without a base", reg));
    if (!check_base(block, i, reg, *lanes, w)) fail(at, i, fmt::format("the base of R{} is not stored in its block", reg));
  }

  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  bool is_store(uint32_t k) const { return v_.is_inserted(k) && sass::opcode13(v_.words[k]) == stg_uniform; }

  // The word that takes the value out of the kernel: the store itself, or what the probe makes a register of.
  bool takes(uint32_t k, Kind kind, uint8_t index) const {
    if (!v_.is_inserted(k)) return false;
    switch (kind) {
      case Kind::column: return is_store(k) && field(k, a_field) != no_register && field(k, b_field) == index && v_.aside[k] != index;
      case Kind::uniform: return sass::opcode13(v_.words[k]) == mov_ur && field(k, ur_field) == index;
      case Kind::guard: return is_guard(k, index);
      case Kind::base: return false;   // check_base()
      case Kind::mask:
        return sass::opcode13(v_.words[k]) == vote && field(k, mode_field) == vote_any && field(k, vote_field) == index;
    }
    return false;
  }
  bool writes(uint32_t k, Kind kind, uint8_t index) const {
    const sass::RegEffects& def = v_.effects[k].def;
    switch (kind) {
      case Kind::column:
      case Kind::base: return changes(k, index);
      case Kind::uniform: return def.ur.test(index);
      case Kind::mask: return (def.pred >> (index & 7) & 1) != 0;
      case Kind::guard: return (def.upred >> (index & 7) & 1) != 0;
    }
    return false;
  }

  // Whether the MOV at k takes what is 0, and 1 where the uniform predicate holds, from just in front of it.
  bool is_guard(uint32_t k, uint8_t index) const {
    if (sass::opcode13(v_.words[k]) != mov_ur) return false;
    const auto through = static_cast<unsigned>(field(k, ur_field));
    const auto made_by = [&](uint32_t before) -> std::optional<uint32_t> {
      for (uint32_t at = before; at-- > from_ && v_.is_inserted(at);)
        if (v_.effects[at].def.ur.test(through)) return (sass::opcode13(v_.words[at]) & 0xfff) == umov_imm ? std::optional(at) : std::nullopt;
      return std::nullopt;
    };
    const auto one = made_by(k);
    if (!one || field(*one, guard_field) != index || field(*one, imm_field) != 1) return false;
    const auto zero = made_by(*one);
    if (!zero || field(*zero, guard_field) != always || field(*zero, imm_field) != 0) return false;
    v_.access_guard[*one] = true;
    return true;
  }

  // What stands aside comes back.
  bool changes(uint32_t k, uint8_t reg) const { return v_.effects[k].def.gpr.test(reg) && !v_.spilled_write[k]; }
  bool writes_predicate(uint32_t k, uint8_t guard) const {
    return guard != guard_always && (v_.effects[k].def.pred >> (guard & 7) & 1) != 0;
  }

  uint64_t words_of(uint32_t store) const {
    const uint64_t size = field(store, size_field);
    return size == size_128 ? 4 : size == size_64 ? 2 : 1;
  }
  // Where a store of words that are one for the warp puts register `reg`.
  std::optional<uint32_t> place_of(uint32_t store, uint64_t reg) const {
    if (!is_store(store) || field(store, a_field) != no_register) return std::nullopt;
    const uint64_t first = field(store, b_field);
    if (reg < first || reg >= first + words_of(store)) return std::nullopt;
    return static_cast<uint32_t>(field(store, place_field) + (reg - first) * sizeof(uint32_t));
  }

  // Where a store puts a base, and whether it is as the first lane has it.
  struct Stored {
    uint32_t place = 0;
    bool of_first = false;
  };

  // Whether a base of `reg` is claimed for the access at i; then it is checked.
  bool check_base(const ProbeBlock& block, InstIndex i, uint8_t reg, const LaneBase& lanes, const wire::Access& w) {
    using enum wire::Access::BaseOf;
    const uint32_t access = v_.copies[0].at[i];
    for (const AddressClaim& c : claims_.addresses) {
      const InstIndex at = v_.old.index(c.pc);
      if (c.kind != Kind::base || c.index != reg || at < block.first || at > i || c.place != w.base || c.lanes.guard != lanes.guard) continue;
      // The store of it, and between that and the access nothing that changes the register or the lanes.
      uint32_t store = v_.copies[0].at[at];
      std::optional<Stored> found;
      while (!found && store-- > from_) {
        if (is_store(store)) found = base_in(store, reg, lanes);
        if (found && found->place != c.place) found = std::nullopt;
      }
      if (!found) continue;
      bool kept = true;
      for (uint32_t k = store + 1; k < access; ++k) kept &= !changes(k, reg) && !writes_predicate(k, lanes.guard);
      if (!kept) continue;
      const auto whose = !found->of_first ? first_of_warp : lanes.guard == guard_always ? first_active : first_of_mask;
      if (field(store, guard_field) != lanes.guard) {
        fail(store, i, fmt::format("{} is not done by the lanes that R{} is proven for", text(store), reg));
      } else if (w.base_of != whose) {
        fail(store, i, fmt::format("{} is the base of another lane", text(store)));
      } else {
        v_.access_guard[store] = true;
        if (field(store, b_field) == reg) v_.address_store[store] = true;
        check_place(block, i, store, c.place);
      }
      return true;
    }
    return false;
  }
  // The place where a store puts the base of `reg`: the register itself, or what the inserted words before the store make of it.
  std::optional<Stored> base_in(uint32_t store, uint8_t reg, const LaneBase& lanes) const {
    const auto stored = [&](uint64_t result, bool of_first) {
      const auto place = place_of(store, result);
      return place ? std::optional(Stored{*place, of_first}) : std::nullopt;
    };
    if (lanes_.is_uniform(lanes) && field(store, b_field) == reg && v_.aside[store] != reg) return stored(reg, false);
    const uint32_t last = store - 1;
    if (!v_.is_inserted(last) || v_.aside[last] == reg) return std::nullopt;
    const uint64_t result = field(last, result_field);
    if (result == reg) return std::nullopt;
    uint32_t first = last;
    // Where the rest of the prologue stands in front of it, not what that makes 4 * lane of.
    const auto sets_lanes = [&](uint32_t k) { return claims_.lane_offset && v_.effects[k].def.gpr.test(*claims_.lane_offset); };
    while (first > from_ && v_.is_inserted(first - 1) && !sets_lanes(first - 1)) --first;
    if (sass::opcode13(v_.words[last]) == mov_ur) return is_of_first(first, last, reg, lanes.guard) ? stored(result, true) : std::nullopt;
    const std::vector<uint32_t>& numbers = lanes_.tables()[lanes.numbers];
    if (field(last, c_field) != reg || numbers.size() != warp_lanes) return std::nullopt;
    for (uint32_t lane = 0; lane < warp_lanes; ++lane)
      for (const uint32_t value : {0u, 0x12345678u})
        if (result_of(first, last, lane, reg, value) != value - numbers[lane]) return std::nullopt;
    return stored(result, false);
  }
  // Whether the MOV at `last` takes what R2UR has made of `reg` in the first lane of these.
  bool is_of_first(uint32_t first, uint32_t last, uint8_t reg, uint8_t guard) const {
    if (v_.effects[last].guarded) return false;
    const auto through = static_cast<unsigned>(field(last, ur_field));
    for (uint32_t k = last; k-- > first;) {
      if (v_.effects[k].def.gpr.test(reg)) return false;
      if (!v_.effects[k].def.ur.test(through)) continue;
      const bool takes = sass::opcode13(v_.words[k]) == r2ur && v_.aside[k] != reg && field(k, a_field) == reg && field(k, guard_field) == guard &&
                         field(k, to_uniform_field) == through;
      if (takes) v_.access_guard[k] = true;
      return takes;
    }
    return false;
  }
  // Whether the register goes out as the first lane has it, and what lanes have more, by all of them or by those that differ.
  bool is_spread(const ProbeBlock& block, InstIndex i, uint8_t reg, const wire::Access& w) {
    const uint32_t access = v_.copies[0].at[i];
    for (uint32_t store = access; store-- > from_;) {
      if (!is_store(store)) {
        if (changes(store, reg)) return false;
        continue;
      }
      const auto first = static_cast<uint8_t>(field(store, b_field));
      if (place_of(store, first) != w.base || v_.effects[store].guarded) continue;
      uint32_t move = store;
      while (move > from_ && v_.is_inserted(move - 1) && !v_.effects[move].def.gpr.test(first)) --move;
      if (sass::opcode13(v_.words[move]) != mov_ur) return false;
      uint32_t begin = move;
      while (begin > from_ && v_.is_inserted(begin - 1)) --begin;
      uint32_t take = move;
      while (take > begin && sass::opcode13(v_.words[take]) != r2ur) --take;
      if (!is_of_first(begin, move, reg, guard_always)) return false;
      const auto differs = static_cast<uint8_t>(field(take, predicate_field));
      for (uint32_t k = store + 1; k < access && v_.is_inserted(k); ++k) {
        if (!is_store(k) || field(k, place_field) != w.low || field(k, a_field) == no_register || field(k, size_field) != size_32) continue;
        const auto guard = static_cast<uint8_t>(field(k, guard_field));
        if (guard != always && guard != differs) return false;
        uint32_t made = k;
        while (made > store && !v_.effects[made].def.gpr.test(static_cast<unsigned>(field(k, b_field)))) --made;
        const bool less = sass::opcode13(v_.words[made]) == imad_imm && !v_.effects[made].guarded && v_.aside[made] != reg && field(made, a_field) == first &&
                          field(made, imm_field) == ~uint32_t{0} && field(made, c_field) == reg;
        if (!less) return false;
        if (guard == differs) v_.access_guard[k] = true;
        check_place(block, i, store, w.base);
        check_place(block, i, k, w.low);
        return true;
      }
      return false;
    }
    return false;
  }
  // What the word at `last` gives in one lane, when the words from `first` on are done and `reg` holds `value`; nothing when a word
  // is none of those that `mem` computes by.
  std::optional<uint32_t> result_of(uint32_t first, uint32_t last, uint32_t lane, uint8_t reg, uint32_t value) const {
    std::map<uint64_t, std::optional<uint32_t>> values{{no_register, 0u}, {reg, value}};
    if (claims_.lane_offset) values[*claims_.lane_offset] = 4 * lane;
    const auto read = [&](uint32_t k, BitRange where_to) -> std::optional<uint32_t> {
      const auto found = values.find(field(k, where_to));
      return found == values.end() ? std::nullopt : found->second;
    };
    for (uint32_t k = first; k <= last; ++k) {
      const sass::RegEffects& def = v_.effects[k].def;
      if (def.gpr.none()) continue;
      const auto imm = static_cast<uint32_t>(field(k, imm_field));
      const auto a = read(k, a_field), c = read(k, c_field);
      std::optional<uint32_t> result;
      const uint16_t op = sass::opcode13(v_.words[k]);
      if (v_.effects[k].guarded) result = std::nullopt;
      else if (op == s2r && field(k, special_field) == lane_number) result = lane;
      else if (op == imad_imm && a && c) result = *a * imm + *c;
      else if (op == lop3_imm && a && field(k, lut_field) == lut_and) result = *a & imm;
      else if (op == shf_imm && c && field(k, a_field) == no_register && field(k, shf_field) == shf_r_u32_hi) result = *c >> imm;
      for (uint64_t r = 0; r < no_register; ++r)
        if (def.gpr.test(r)) values[r] = result;
    }
    return values[field(last, result_field)];
  }
  bool covers(uint32_t store, uint32_t place) const {
    const uint64_t from = field(store, place_field), words = field(store, a_field) == no_register ? words_of(store) : 1;
    return place >= from && place < from + words * sizeof(uint32_t);
  }
  void check_place(const ProbeBlock& block, InstIndex i, uint32_t store, uint32_t place) {
    for (uint32_t other = from_; other < v_.copies[0].at[block.last()]; ++other)
      if (other != store && is_store(other) && covers(other, place))
        fail(other, i, fmt::format("{} goes to the same place", text(other)));
  }

  // What the access at i needs is in the record of its block: at this byte.
  std::optional<uint32_t> check(const ProbeBlock& block, InstIndex i, Kind kind, uint8_t index) {
    const auto fail = [&](uint32_t word, InstIndex at, std::string what) {
      this->fail(word, at, std::move(what));
      return std::nullopt;
    };
    const uint32_t access = v_.copies[0].at[i];
    uint32_t k = access;
    bool found = false;
    while (!found && k-- > from_) {
      found = takes(k, kind, index);
      if (found || !writes(k, kind, index)) continue;
      if (kind == Kind::mask || kind == Kind::column) break;
      return fail(k, i, fmt::format("{} changes what was to be recorded", text(k)));
    }
    // Lanes and columns may be stored later in the block, while predicate or register stand.
    const uint32_t last = v_.copies[0].at[block.last()];
    if (!found && (kind == Kind::mask || kind == Kind::column))
      for (k = access; k < last && !found; ++k) {
        found = takes(k, kind, index);
        if (found) break;
        if (writes(k, kind, index)) return fail(k, i, fmt::format("{} changes what was to be recorded", text(k)));
      }
    if (!found) return fail(access, i, fmt::format("{} is not stored in its block", name(kind, index)));
    if (v_.effects[k].guarded) return fail(k, i, fmt::format("{} is not done by all lanes", text(k)));
    uint32_t store = k;
    std::optional<uint32_t> where_to = static_cast<uint32_t>(field(store, place_field));
    if (kind != Kind::column) {   // until the value is stored nothing else may go there; the dataflow rules watch the register
      const uint64_t reg = field(k, result_field);
      do where_to = place_of(++store, reg);
      while (store < last && !where_to);
      if (!where_to) return fail(k, i, fmt::format("what {} gives is not stored", text(k)));
      // A mask by its own lanes: where there are none the word stays 0.
      if (v_.effects[store].guarded && !(kind == Kind::mask && field(store, guard_field) == index))
        return fail(store, i, fmt::format("{} is not done by all lanes", text(store)));
    }
    const uint32_t place = *where_to;
    const bool claimed = std::any_of(claims_.addresses.begin(), claims_.addresses.end(), [&](const AddressClaim& c) {
      const InstIndex at = v_.old.index(c.pc);
      const InstIndex latest = kind == Kind::mask || kind == Kind::column ? block.last() : i;
      return c.kind == kind && c.index == index && c.place == place && at >= block.first && at <= latest &&
             v_.copies[0].at[at] > store;
    });
    if (!claimed)
      return fail(store, i, fmt::format("{} goes to byte {} of the record, which nobody claims", name(kind, index), place));
    check_place(block, i, store, place);
    if (kind != Kind::column) return place;
    if (!goes_by_lane(store)) fail(store, i, fmt::format("{} does not go by 4 * the lane's number", text(store)));
    v_.address_store[store] = true;
    return place;
  }
  // Whether the register that a column goes by holds 4 * lane: the one that the prologue sets, or one that is made in the block.
  bool goes_by_lane(uint32_t store) const {
    const auto reg = static_cast<uint8_t>(field(store, a_field));
    if (claims_.lane_offset == reg) return true;
    const auto made_by = [&](uint32_t before, uint8_t r) -> std::optional<uint32_t> {
      for (uint32_t k = before; k-- > from_;)
        if (v_.effects[k].def.gpr.test(r)) return v_.is_inserted(k) && !v_.effects[k].guarded ? std::optional(k) : std::nullopt;
      return std::nullopt;
    };
    const auto shift = made_by(store, reg);
    if (!shift || sass::opcode13(v_.words[*shift]) != shf_imm || field(*shift, shf_field) != shf_l_u32 || field(*shift, shift_field) != 2 ||
        field(*shift, c_field) != no_register)
      return false;
    const auto lane = made_by(*shift, static_cast<uint8_t>(field(*shift, a_field)));
    return lane && sass::opcode13(v_.words[*lane]) == s2r && field(*lane, special_field) == lane_number;
  }

  static std::string name(Kind kind, uint8_t index) {
    switch (kind) {
      case Kind::column:
      case Kind::base: return fmt::format("R{}", index);
      case Kind::uniform: return fmt::format("UR{}", index);
      case Kind::mask: return fmt::format("{}P{}", (index & 8) != 0 ? "!" : "", index & 7);
      case Kind::guard: return fmt::format("{}UP{}", (index & 8) != 0 ? "!" : "", index & 7);
    }
    return {};
  }
  std::string text(uint32_t word) const { return sass::print(*v_.old.arch, v_.words[word], v_.pc(word)); }

  SpliceView& v_;
  const SpliceClaims& claims_;
  Violations& out_;
  const Blocks blocks_;
  const LaneBases lanes_;
  uint32_t from_ = 0;          // first word of the block
};

}  // namespace

std::optional<uint32_t> number_in_offset(const LaneBases& lanes, InstIndex i, const sass::Access& a, const wire::Access& w) {
  if (a.wide || a.uniform_low == a.none || w.uniform_low != w.none) return std::nullopt;
  return lanes.uniform_before(i, a.uniform_low);
}

bool same_operands(const sass::Access& a, const wire::Access& w) {
  if (static_cast<int>(a.form) != static_cast<int>(w.form) || a.pixels != w.pixels || a.operands.size() != w.operands.size()) return false;
  return std::ranges::equal(a.operands, w.operands, [&](const sass::UniformOperand& o, const wire::Access::Operand& p) {
    return static_cast<int>(o.role) == static_cast<int>(p.role) && (o.reg == a.none) == (p.place == w.none);
  });
}

bool are_numbers(const SpliceClaims& claims, const LaneBases& lanes, const LaneBase& base, const wire::Access& w) {
  return w.numbers < claims.lane_numbers.size() && claims.lane_numbers[w.numbers] == lanes.tables()[base.numbers];
}

void check_addresses(SpliceView& v, const SpliceClaims& claims, Violations& out) {
  v.address_store.assign(v.words.size(), false);
  v.access_guard.assign(v.words.size(), false);
  if (claims.records_addresses) Addresses(v, claims, out).run();
}

}  // namespace xtrace::instrument
