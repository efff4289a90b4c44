// address-recorded, of full blocks under `mem`: the inserted words of a block are done lane by lane on what is known of every
// register, up to what each lane stores where; that is held against what decoders will take from there. In whole sectors (sector-filled)
// each store must fill those that it writes to.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "instrument/sass/access.h"
#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

constexpr unsigned lanes_of_warp = 32;
using namespace fields;

// A value of 32 bits: a number, or that of a register of the kernel as its `version`-th definition in the block left it, plus a
// number. A vector register's is that of one lane, or of the first lane of a guard.
struct Value {
  enum class Kind : uint8_t { unknown, number, mask, guard, uniform, in_lane, in_first } kind = Kind::unknown;
  uint8_t index = 0;         // register; mask: predicate and negation; guard: the same of a uniform one, 1 where it holds and else 0
  uint8_t lane = 0;          // in_lane; in_first: the guard
  uint32_t version = 0, predicate_version = 0;
  uint32_t number = 0;
  bool operator==(const Value&) const = default;
};
Value number(uint32_t n) { return {Value::Kind::number, 0, 0, 0, 0, n}; }
using Lanes = std::array<Value, lanes_of_warp>;

class Words {
 public:
  Words(SpliceView& v, const SpliceClaims& claims, const LaneBases& lanes, Violations& out)
      : v_(v), claims_(claims), lanes_(lanes), out_(out) {}

  void run(const ProbeBlock& block, uint32_t number_of_block) {
    block_ = &block;
    number_ = number_of_block;
    gpr_.clear();
    ur_.clear();
    groups_.clear();
    gpr_version_ = {};
    ur_version_ = {};
    pred_version_ = {};
    upred_version_ = {};
    record_.clear();
    expected_.clear();
    prepare_lanes();
    const Copy& copy = v_.copies[0];
    for (uint32_t k = copy.label[block.first]; k <= copy.at[block.last()]; ++k) {
      if (v_.is_inserted(k)) {
        i_ = v_.next_original[k];
        step(k);
        continue;
      }
      i_ = v_.origin[k];
      expect();
      const sass::RegEffects& def = v_.effects[k].def;
      for (unsigned r = 0; r < no_register; ++r)
        if (def.gpr.test(r)) {
          ++gpr_version_[r];
          gpr_.erase(static_cast<uint8_t>(r));
        }
      for (unsigned r = 0; r < 63; ++r)
        if (def.ur.test(r)) {
          ++ur_version_[r];
          ur_.erase(static_cast<uint8_t>(r));
        }
      for (unsigned p = 0; p < 7; ++p) {
        if (def.pred >> p & 1) ++pred_version_[p];
        if (def.upred >> p & 1) ++upred_version_[p];
      }
    }
    Value head = number(wire::word0(wire::RecordKind::mem, number_));
    i_ = block.first;
    compare(0, head, "the head");
    for (const Expected& e : expected_) {
      i_ = e.at;
      compare(e.place, e.value, e.name);
    }
  }

 private:
  struct Expected {
    InstIndex at;
    uint32_t place;
    Value value;
    std::string name;
  };

  void fail(std::string what) {
    out_.push_back({"address-recorded", v_.pc(v_.copies[0].at[i_]), where(v_.old, i_) + ": " + std::move(what)});
  }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  std::string text(uint32_t k) const { return sass::print(*v_.old.arch, v_.words[k], v_.pc(k)); }

  // What the prologue sets.
  void prepare_lanes() {
    const auto group = [](unsigned lane, unsigned which) {
      const unsigned g = lane / 8;
      return which == 0 ? (g & 1) != 0 : which == 1 ? (g & 2) != 0 : g == 3;
    };
    for (unsigned lane = 0; lane < lanes_of_warp; ++lane) {
      for (unsigned which = 0; which < claims_.lane_masks.size(); ++which)
        gpr_[claims_.lane_masks[which]][lane] = number(group(lane, which) ? ~0u : 0);
      if (claims_.lane_offset) gpr_[*claims_.lane_offset][lane] = number(4 * lane);
      if (claims_.sector_word) gpr_[*claims_.sector_word][lane] = number(4 * (lane / 4));
    }
    for (unsigned which = 0; which < claims_.lane_groups.size(); ++which)
      for (unsigned lane = 0; lane < lanes_of_warp; ++lane) groups_[claims_.lane_groups[which]][lane] = group(lane, which);
  }

  bool is_held(uint8_t reg) const {
    const std::vector<uint8_t>& masks = claims_.lane_masks;
    return claims_.lane_offset == reg || claims_.sector_word == reg || std::find(masks.begin(), masks.end(), reg) != masks.end();
  }

  // A register of the kernel in one lane; as lane 0 has it, where it is known how they differ.
  Value original(uint8_t reg, unsigned lane) const {
    const auto known = lanes_.before(i_, reg);
    Value v{Value::Kind::in_lane, reg, static_cast<uint8_t>(lane), gpr_version_[reg], 0, 0};
    if (!known || known->guard != guard_always) return v;
    const std::vector<uint32_t>& numbers = lanes_.tables()[known->numbers];
    if (numbers.size() != lanes_of_warp) return v;   // other ones in each warp
    v.lane = 0;
    v.number = numbers[lane] - numbers[0];
    return v;
  }
  Value read(uint8_t reg, unsigned lane) const {
    if (reg == no_register) return number(0);
    const auto found = gpr_.find(reg);
    return found == gpr_.end() ? original(reg, lane) : found->second[lane];
  }
  Value read_uniform(uint8_t ur) const {
    const auto found = ur_.find(ur);
    return found == ur_.end() ? Value{Value::Kind::uniform, ur, 0, ur_version_[ur], 0, 0} : found->second;
  }
  Value mask(uint8_t guard) const {
    return {Value::Kind::mask, guard, 0, 0, (guard & 7) == always ? 0 : pred_version_[guard & 7], 0};
  }
  Value uniform_guard(uint8_t guard) const { return {Value::Kind::guard, guard, 0, 0, upred_version_[guard & 7], 0}; }
  static Value sum(Value a, uint32_t n) {
    if (a.kind != Value::Kind::number && a.kind != Value::Kind::in_lane) return {};
    a.number += n;
    return a;
  }

  void step(uint32_t k) {
    const sass::Effects& fx = v_.effects[k];
    const uint16_t op = sass::opcode13(v_.words[k]);
    const auto guard = static_cast<uint8_t>(field(k, guard_field));
    if (op == stg_uniform) return store(k, guard);
    if (v_.spilled_write[k] && fx.kind == sass::MemKind::load) {   // the kernel's value is back
      for (unsigned r = 0; r < no_register; ++r)
        if (fx.def.gpr.test(r)) gpr_.erase(static_cast<uint8_t>(r));
      return;
    }
    if (fx.def.ur.any()) return uniform(k, op, guard);
    for (uint8_t p = 0; p < 7; ++p)
      if (number_ != 0 && (fx.def.pred >> p & 1)) groups_.erase(p);
    if (fx.def.gpr.none()) return;
    const auto group = groups_.find(guard);
    for (unsigned r = 0; r < no_register; ++r) {
      if (!fx.def.gpr.test(r)) continue;
      const auto reg = static_cast<uint8_t>(r);
      if (number_ == 0 && is_held(reg)) continue;   // the rest of the prologue stands in the entry
      Lanes to{};
      for (unsigned lane = 0; lane < lanes_of_warp; ++lane) {
        const bool done = guard == always || (group != groups_.end() && group->second[lane]);
        const bool maybe = guard != always && group == groups_.end();
        if (!maybe) to[lane] = done ? result(k, op, lane) : read(reg, lane);
      }
      gpr_[reg] = to;
    }
  }

  Value result(uint32_t k, uint16_t op, unsigned lane) const {
    const auto imm = static_cast<uint32_t>(field(k, imm_field));
    const Value a = read(static_cast<uint8_t>(field(k, a_field)), lane), c = read(static_cast<uint8_t>(field(k, c_field)), lane);
    const bool known_a = a.kind == Value::Kind::number, known_c = c.kind == Value::Kind::number;
    switch (op) {
      case mov_imm: return number(imm);
      case mov_reg: return read(static_cast<uint8_t>(field(k, b_field)), lane);
      case mov_ur: return read_uniform(static_cast<uint8_t>(field(k, ur_field)));
      case vote: return votes(k) ? mask(static_cast<uint8_t>(field(k, vote_field))) : Value{};
      case s2r: return field(k, special_field) == lane_number ? number(lane) : Value{};
      case imad_imm: return known_a ? sum(c, a.number * imm) : Value{};
      case shf_imm:
        if (field(k, shf_field) == shf_r_u32_hi && field(k, a_field) == no_register && known_c) return number(c.number >> (imm & 31));
        if (field(k, shf_field) == shf_l_u32 && field(k, c_field) == no_register && known_a) return number(a.number << (imm & 31));
        return {};
      case p2r: {
        uint32_t bits = 0;
        for (uint8_t p = 0; p < 7; ++p) {
          if (!(imm >> p & 1)) continue;
          const auto group = groups_.find(p);
          if (group == groups_.end()) return {};
          bits |= static_cast<uint32_t>(group->second[lane]) << p;
        }
        return number(bits);
      }
      case lop3_imm: return logic(field(k, lut_field), a, number(imm), c);
      case lop3_reg: return logic(field(k, lut_field), a, read(static_cast<uint8_t>(field(k, b_field)), lane), c);
      case lop3_ur: return logic(field(k, lut_field), a, read_uniform(static_cast<uint8_t>(field(k, ur_field))), c);
      default: return {};
    }
  }
  bool votes(uint32_t k) const { return field(k, mode_field) == vote_any && field(k, guard_field) == always; }
  static Value logic(uint64_t lut, const Value& a, const Value& b, const Value& c) {
    if (a.kind != Value::Kind::number) return {};
    if (lut == lut_select && (a.number == 0 || a.number == ~0u)) return a.number != 0 ? b : c;
    if (b.kind != Value::Kind::number || c.kind != Value::Kind::number) return {};
    if (lut == lut_and) return number(a.number & b.number);
    if (lut == lut_and_or) return number((a.number & b.number) | c.number);
    return {};
  }

  void uniform(uint32_t k, uint16_t op, uint8_t guard) {
    const auto to = static_cast<uint8_t>(field(k, to_uniform_field));
    Value value;
    if ((op & 0xfff) == umov_imm) {
      const auto imm = static_cast<uint32_t>(field(k, imm_field));
      if (guard == always) value = number(imm);
      else if (imm == 1 && read_uniform(to) == number(0)) value = uniform_guard(guard), v_.access_guard[k] = true;
    }
    if (op == voteu && votes(k)) value = mask(static_cast<uint8_t>(field(k, vote_field)));
    if (op == r2ur) {
      const auto reg = static_cast<uint8_t>(field(k, a_field));
      const auto known = gpr_.contains(reg) ? std::nullopt : lanes_.before(i_, reg);
      if (guard == always) {
        value = read(reg, 0);
      } else if (known && known->guard == guard) {
        value = {Value::Kind::in_first, reg, guard, gpr_version_[reg], pred_version_[guard & 7], 0};
        v_.access_guard[k] = true;
      }
    }
    for (unsigned r = 0; r < 63; ++r)
      if (v_.effects[k].def.ur.test(r)) ur_[static_cast<uint8_t>(r)] = r == to ? value : Value{};
  }

  void store(uint32_t k, uint8_t guard) {
    const auto lane_register = static_cast<uint8_t>(field(k, a_field)), data = static_cast<uint8_t>(field(k, b_field));
    const auto place = static_cast<uint32_t>(field(k, place_field));
    const uint64_t size = field(k, size_field);
    const unsigned words = size == 6 ? 4 : size == 5 ? 2 : 1;
    if (guard != always) return fail(fmt::format("{} is not done by all lanes", text(k)));
    std::map<uint32_t, Value> here;
    for (unsigned lane = 0; lane < lanes_of_warp; ++lane) {
      const Value offset = read(lane_register, lane);
      if (offset.kind != Value::Kind::number) return fail(fmt::format("{} goes nobody knows where", text(k)));
      for (unsigned w = 0; w < words; ++w) {
        const Value value = read(static_cast<uint8_t>(data + w), lane);
        const auto [at, first] = here.try_emplace(place + offset.number + 4 * w, value);
        if (!first && !(at->second == value)) at->second = {};
      }
    }
    if (claims_.sector_word) fills(k, here);
    for (const auto& [at, value] : here) {
      const auto [found, first] = record_.try_emplace(at, value);
      if (!first) {
        found->second = {};
        fail(fmt::format("{} goes to the same place as another store", text(k)));
      }
    }
    if (!gpr_.contains(data)) v_.address_store[k] = true;   // a column, if anything
  }

  // Of each sector that it writes to it writes every word. Slots and records begin with a sector.
  void fills(uint32_t k, const std::map<uint32_t, Value>& here) {
    for (const auto& [at, value] : here)
      for (uint32_t word = at / wire::sector_bytes * wire::sector_bytes, last = word + wire::sector_bytes; word < last; word += sizeof(uint32_t))
        if (!here.contains(word)) {
          out_.push_back({"sector-filled", v_.pc(k), where(v_.old, i_) + ": " + text(k) + " writes a sector in part"});
          return;
        }
  }

  // What decoders take from the record for the accesses of i_.
  void expect() {
    if (!claims_.places.empty() && !claims_.places[i_]) return;
    const auto found = accesses(v_.old, i_);
    const auto* accesses = std::get_if<std::vector<sass::Access>>(&found);
    if (accesses == nullptr) return;
    const auto guard = static_cast<uint8_t>(field(v_.copies[0].at[i_], guard_field));
    auto next = std::find_if(claims_.accesses.begin(), claims_.accesses.end(),
                             [&](const wire::Access& w) { return w.pc == v_.old.pc(i_); });
    for (const sass::Access& a : *accesses) {
      if (next == claims_.accesses.end() || next->pc != v_.old.pc(i_) || next->block != number_)
        return fail("an access that decoders do not know");
      const wire::Access& w = *next++;
      if (!same_operands(a, w)) return fail("decoders take its operands for others");
      for (size_t k = 0; k < a.operands.size(); ++k) uniform(a.operands[k].reg, a.none, w.operands[k].place);
      if (a.form != sass::Access::Form::lanes) {
        if (guard != always) expected_.push_back({i_, w.mask, uniform_guard(guard), "whether it is made"});
        else if (w.mask != w.none) fail("what is always made asks whether it is");
        continue;
      }
      if (a.low != a.none) low(a.low, w, guard);
      else if (w.low != w.none || w.base != w.none || w.numbers != w.none) fail("an address without a register has one");
      const bool may_lack = a.space == sass::MemSpace::global && claims_.memory_high_is_known && a.uniform_low == a.none;
      if (w.high_is_known && !may_lack) fail("its high word is not known");
      if (a.high != a.none && !w.high_is_known) column(a.high, w.high, "the high word");
      const std::optional<uint32_t> in_offset = number_in_offset(lanes_, i_, a, w);
      if (static_cast<uint32_t>(w.offset) != static_cast<uint32_t>(a.offset) + in_offset.value_or(0)) fail("another offset");
      if (w.scale != a.scale) fail("another scale");
      if (!in_offset) uniform(a.uniform_low, a.none, w.uniform_low);
      uniform(a.uniform_high, a.none, w.uniform_high);
      if (guard == always) {
        if (w.mask != w.none) fail("lanes of an access without a guard");
      } else {
        expected_.push_back({i_, w.mask, mask(guard), "the lanes"});
      }
    }
  }
  void low(uint8_t reg, const wire::Access& w, uint8_t guard) {
    if (w.numbers == w.none) return column(reg, w.low, "the address");
    const auto known = lanes_.before(i_, reg);
    if (!known || !are_numbers(claims_, lanes_, *known, w)) return fail(fmt::format("R{} is not proven to have these numbers", reg));
    if (known->known) return w.base == w.none ? void() : fail(fmt::format("R{} is known without a base", reg));
    const bool of_first = known->guard != guard_always;
    const auto whose = of_first ? wire::Access::BaseOf::first_of_mask : wire::Access::BaseOf::first_of_warp;
    if (w.base_of != whose || (of_first && known->guard != guard)) return fail(fmt::format("R{} is proven for other lanes", reg));
    const Value value = of_first ? Value{Value::Kind::in_first, reg, guard, gpr_version_[reg], pred_version_[guard & 7], 0}
                                 : Value{Value::Kind::in_lane, reg, 0, gpr_version_[reg], 0, 0};
    expected_.push_back({i_, w.base, value, "the base"});
  }
  void column(uint8_t reg, uint32_t place, std::string_view name) {
    if (place == wire::Access::none) return fail(fmt::format("{} (R{}) is not stored", name, reg));
    for (unsigned lane = 0; lane < lanes_of_warp; ++lane)
      expected_.push_back({i_, place + 4 * lane, original(reg, lane), std::string(name)});
  }
  void uniform(uint8_t ur, uint8_t none, uint32_t place) {
    if (ur == none) return;
    expected_.push_back({i_, place, {Value::Kind::uniform, ur, 0, ur_version_[ur], 0, 0}, fmt::format("UR{}", ur)});
  }

  void compare(uint32_t place, const Value& value, std::string_view name) {
    const auto found = record_.find(place);
    if (place == wire::Access::none || found == record_.end()) return fail(fmt::format("{} is not stored in its block", name));
    if (!(found->second == value)) fail(fmt::format("{} is not what goes to byte {} of the record", name, place));
  }

  SpliceView& v_;
  const SpliceClaims& claims_;
  const LaneBases& lanes_;
  Violations& out_;
  const ProbeBlock* block_ = nullptr;
  uint32_t number_ = 0;
  InstIndex i_ = 0;                                     // at which we are, or in front of which
  std::map<uint8_t, Lanes> gpr_;                        // what probes have written
  std::map<uint8_t, Value> ur_;
  std::map<uint8_t, std::array<bool, lanes_of_warp>> groups_;   // by predicate
  std::array<uint32_t, 256> gpr_version_{};
  std::array<uint32_t, 64> ur_version_{};
  std::array<uint32_t, 8> pred_version_{}, upred_version_{};
  std::map<uint32_t, Value> record_;                    // by byte
  std::vector<Expected> expected_;
};

}  // namespace

void check_words(SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, const LaneBases& lanes, Violations& out) {
  Words words(v, claims, lanes, out);
  for (uint32_t b = 0; b < claims.full_records.size() && b < blocks.blocks.size(); ++b) {
    if (!claims.full_records[b]) continue;
    if (b >= claims.full_blocks.size() || !claims.full_blocks[b])
      out.push_back({"address-recorded", 0, fmt::format("block {} has a record without a mask, and nobody has seen it full", b)});
    words.run(blocks.blocks[b], b);
  }
}

}  // namespace xtrace::instrument
