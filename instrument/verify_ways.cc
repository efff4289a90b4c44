// ways-numbered: what inserted words do to the number along every way through a region, and where it is stored.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using namespace fields;

constexpr uint16_t opcode_mask = 0xfff;
constexpr BitRange ur_of_ways = bits(69, 64), uniform_a = bits(29, 24);
constexpr uint32_t most_ways = 4096, ends_of_lanes = 0xffffffff;
constexpr uint64_t place_of_ends = (1 << 24) - wire::column_bytes;   // of the pair: a place of 24 bits

class Ways {
 public:
  Ways(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out)
      : v_(v), claims_(claims), blocks_(blocks), out_(out), reg_(*claims.ways), before_(blocks.blocks.size()) {
    for (uint32_t b = 0; b < before_.size(); ++b)
      for (const uint32_t s : blocks.successors[b]) before_[s].push_back(b);
  }

  void run() {
    const size_t n = blocks_.blocks.size();
    if (claims_.numbered.size() != n || claims_.way_numbers.size() != n || claims_.ways_at.size() != n || !claims_.ends || !claims_.lane_offset)
      return fail(0, "not a claim for each block");
    if (reg_ < v_.old_registers - std::min(v_.old_registers, reserved_registers)) fail(0, "the number is in a register of the kernel");
    look();
    check_prologue();
    for (uint32_t b = 0; b < n; ++b) {
      if (claims_.numbered[b]) check_block(b);
      if (!claims_.numbered[b] && (effects_[b].number != claims_.way_numbers[b].number || effects_[b].adds != 0 || claims_.way_numbers[b].adds != 0))
        fail(first(b), fmt::format("block {} makes the number {}, expected {}", b, effects_[b].number, claims_.way_numbers[b].number));
      if (claims_.ways_at[b] != 0) check_record(b);
      if (claims_.ways_at[b] != 0 && (claims_.numbered[b] || before_[b].empty() || !claims_.numbered[before_[b][0]])) fail(first(b), fmt::format("no numbered way leads to block {}", b));
    }
    std::vector<bool> known(n, false);
    for (uint32_t b = 0; b < n; ++b)
      if (claims_.numbered[b] && !known[b]) check_region(region_of(b, known));
  }

 private:
  // What the words of a block make of the number: `number`, or what it was and `adds`.
  struct Effect {
    uint32_t number = 0, adds = 0;
  };

  void fail(uint32_t word, std::string what) { out_.push_back({"ways-numbered", v_.pc(word), std::move(what)}); }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  std::string text(uint32_t k) const { return sass::print(*v_.old.arch, v_.words[k], v_.pc(k)); }
  uint32_t first(uint32_t b) const { return v_.copies[0].label[blocks_.blocks[b].first]; }
  uint32_t last(uint32_t b) const { return v_.copies[0].at[blocks_.blocks[b].last()]; }
  const sass::Effects& end_of(uint32_t b) const { return v_.old.insts[blocks_.blocks[b].last()].fx; }
  bool is_store(uint32_t k) const { return v_.is_inserted(k) && v_.effects[k].kind == sass::MemKind::store; }
  bool by_ends(uint32_t k) const { return is_store(k) && sass::opcode13(v_.words[k]) == stg_uniform && field(k, ur_of_ways) == *claims_.ends; }

  // Every word that writes the number is in a numbered block, or in front of the last instruction of one that leads to such; every store to the places
  // of lanes that end is in a numbered one.
  void look() {
    std::vector<uint32_t> block_of(v_.words.size(), Blocks::none);
    for (uint32_t b = 0; b < blocks_.blocks.size(); ++b)
      if (claims_.numbered[b] || claims_.way_numbers[b].number != 0)
        for (uint32_t k = first(b); k <= last(b); ++k) block_of[k] = b;
    effects_.resize(blocks_.blocks.size());
    for (uint32_t k = 0; k < v_.words.size(); ++k) {
      if (by_ends(k) && (block_of[k] == Blocks::none || !claims_.numbered[block_of[k]])) fail(k, fmt::format("{} stores where lanes that end do", text(k)));
      if (!v_.effects[k].def.gpr.test(reg_)) continue;
      const uint16_t op = sass::opcode13(v_.words[k]) & opcode_mask;
      const bool whole = v_.is_inserted(k) && block_of[k] != Blocks::none && field(k, guard_field) == always && field(k, result_field) == reg_;
      Effect* effect = block_of[k] == Blocks::none ? nullptr : &effects_[block_of[k]];
      if (whole && op == mov_imm)
        *effect = {static_cast<uint32_t>(field(k, imm_field)), 0};
      else if (whole && op == iadd3_imm && field(k, a_field) == reg_ && field(k, c_field) == no_register && effect->number == 0)
        effect->adds += static_cast<uint32_t>(field(k, imm_field));
      else
        fail(k, fmt::format("{} writes the number of a way", text(k)));
    }
  }

  // What the prologue sets is not written again: 4 * lane, and the pair behind the column, which is where the first record goes.
  void check_prologue() {
    std::vector<bool> uses = claims_.numbered;
    for (uint32_t b = 0; b < uses.size(); ++b) uses[b] = uses[b] || claims_.ways_at[b] != 0;
    const std::vector<bool> begins = beginning_blocks(blocks_, uses);
    std::vector<bool> may(v_.words.size(), false);
    for (uint32_t k = v_.prologue_first; k < v_.prologue_first + v_.prologue_words; ++k) may[k] = true;
    for (uint32_t b = 0; b < begins.size(); ++b)
      if (begins[b])
        for (uint32_t k = first(b); k <= last(b); ++k) may[k] = v_.is_inserted(k);
    bool stores_ends = false;
    for (uint32_t k = 0; k < v_.words.size(); ++k) {
      stores_ends |= by_ends(k);
      const bool writes = v_.effects[k].def.gpr.test(*claims_.lane_offset) || v_.effects[k].def.ur.test(*claims_.ends) || v_.effects[k].def.ur.test(*claims_.ends + 1u);
      // In front of the prologue, in the untouched copy, nothing is set yet.
      if (writes && !may[k] && k >= v_.prologue_first) fail(k, fmt::format("{} writes what the prologue has set", text(k)));
    }
    if (stores_ends) check_pair(may);
  }

  // The pair for lanes that end is made as the cursor is, by the same words of the same registers, in front of the first record by it.
  void check_pair(const std::vector<bool>& may) {
    std::optional<uint8_t> cursor;
    for (uint32_t b = 0; b < blocks_.blocks.size() && !cursor; ++b)
      if (claims_.ways_at[b] != 0) cursor = cursor_of(b);
    if (!cursor) return;   // said elsewhere
    struct Value {
      uint32_t source = ~0u;    // of a register: how often any was written before; or a number
      uint32_t reg = no_register;
      uint64_t number = 0;
      bool operator==(const Value&) const = default;
    };
    std::array<Value, 4> pairs;   // cursor, ends
    std::array<uint32_t, 256> written{};
    const std::array<uint8_t, 4> names{*cursor, static_cast<uint8_t>(*cursor + 1), *claims_.ends, static_cast<uint8_t>(*claims_.ends + 1)};
    bool recorded = false, equal = false;   // at the first record
    const auto are_equal = [&] { return pairs[2].source != ~0u && pairs[3].source != ~0u && pairs[0] == pairs[2] && pairs[1] == pairs[3]; };
    for (uint32_t k = v_.prologue_first; k < v_.words.size(); ++k) {
      if (!may[k]) {
        v_.effects[k].def.gpr.for_each([&](unsigned r) { ++written[r]; });
        continue;
      }
      if (!recorded && is_store(k) && sass::opcode13(v_.words[k]) == stg_uniform && field(k, ur_of_ways) == *cursor) {
        recorded = true;
        equal = are_equal();
      }
      for (size_t p = 0; p < pairs.size(); ++p) {
        if (!v_.effects[k].def.ur.test(names[p])) continue;
        const uint16_t op = sass::opcode13(v_.words[k]) & opcode_mask;
        const bool plain = field(k, guard_field) == always && field(k, to_uniform_field) == names[p];
        if (p >= 2 && recorded) fail(k, fmt::format("{} moves where lanes that end store", text(k)));
        if (plain && op == r2ur) pairs[p] = {written[field(k, a_field)], static_cast<uint32_t>(field(k, a_field)), 0};
        else if (plain && op == umov_imm) pairs[p] = {0, no_register, field(k, imm_field)};
        else if (plain && op == uiadd3_imm && field(k, uniform_a) == names[p]) pairs[p].number += field(k, imm_field);
        else if (p >= 2) fail(k, fmt::format("{} makes something else of where lanes that end store", text(k)));
      }
      v_.effects[k].def.gpr.for_each([&](unsigned r) { ++written[r]; });
    }
    if (!(recorded ? equal : are_equal())) fail(v_.prologue_first, "lanes that end do not store in front of the first record");
  }

  void check_block(uint32_t b) {
    const SpliceClaims::WayNumber& claim = claims_.way_numbers[b];
    const Effect& e = effects_[b];
    if (e.number != claim.number || e.adds != (claim.number != 0 ? 0 : claim.adds))
      fail(first(b), fmt::format("block {} makes the number {} or {} more, expected {} or {}", b, e.number, e.adds, claim.number, claim.adds));
    if (b == 0 || blocks_.returns[b] || blocks_.behind_call[b] != Blocks::none) fail(first(b), fmt::format("block {} can be in no region", b));
    const bool ends = end_of(b).flow == sass::Flow::exit;
    uint32_t stores = 0;
    for (uint32_t k = first(b); k < last(b); ++k) {
      if (!is_store(k)) continue;
      ++stores;
      if (!ends || !stores_end(k, b)) fail(k, fmt::format("{} is not the number of lanes that end in block {}", text(k), b));
    }
    if (stores != (ends ? 1 : 0)) fail(first(b), fmt::format("{} stores in block {}, expected {}", stores, b, ends ? 1 : 0));
  }
  // Directly in front of the EXIT, under its guard, with what the number is in the end.
  bool stores_end(uint32_t store, uint32_t b) const {
    const uint64_t guard = field(last(b), guard_field);
    const uint32_t predicate = (guard & 7) == 7 ? 0 : 1u << (guard & 7);
    if (end_of(b).use.pred != predicate || end_of(b).use.upred != 0 || end_of(b).use.ur.any()) return false;
    for (uint32_t k = store; k < last(b); ++k)
      if (!v_.is_inserted(k) || v_.effects[k].def.gpr.test(reg_) || (v_.effects[k].def.pred & predicate) != 0) return false;
    return by_ends(store) && field(store, guard_field) == guard && field(store, size_field) == size_32 && field(store, b_field) == reg_ &&
           field(store, a_field) == *claims_.lane_offset && field(store, place_field) == place_of_ends;
  }

  // The number of each lane as it comes to the block, stored once, at the place, in front of where the cursor moves.
  void check_record(uint32_t b) {
    uint32_t stores = 0;
    bool moved = false;   // the cursor; or the number is another one
    const auto cursor = cursor_of(b);
    for (uint32_t k = first(b); k <= last(b); ++k) {
      if (v_.effects[k].def.gpr.test(reg_)) moved = true;
      if (v_.is_inserted(k) && cursor && v_.effects[k].def.ur.test(*cursor)) moved = true;
      if (!is_store(k) || field(k, b_field) != reg_) continue;
      ++stores;
      if (moved || v_.effects[k].guarded || sass::opcode13(v_.words[k]) != stg_uniform || field(k, place_field) != claims_.ways_at[b] ||
          field(k, size_field) != size_32 || field(k, a_field) != *claims_.lane_offset || !cursor || field(k, ur_of_ways) != *cursor)
        fail(k, fmt::format("{} is not the numbers of block {}", text(k), b));
    }
    if (stores != 1) fail(first(b), fmt::format("the number is stored {} times in block {}", stores, b));
  }
  // What the record's first word is stored by.
  std::optional<uint8_t> cursor_of(uint32_t b) const {
    for (uint32_t k = first(b); k < last(b) + 1; ++k)
      if (is_store(k) && sass::opcode13(v_.words[k]) == stg_uniform && field(k, place_field) == 0) return static_cast<uint8_t>(field(k, ur_of_ways));
    return std::nullopt;
  }

  // Numbered blocks that lead to each other, or that one block leads to.
  std::set<uint32_t> region_of(uint32_t b, std::vector<bool>& known) const {
    std::set<uint32_t> region;
    std::vector<uint32_t> open;
    const auto take = [&](uint32_t o) {
      if (!claims_.numbered[o] || known[o]) return;
      known[o] = true;
      region.insert(o);
      open.push_back(o);
    };
    take(b);
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      for (const uint32_t s : blocks_.successors[at]) take(s);
      for (const uint32_t p : before_[at]) {
        take(p);
        for (const uint32_t s : blocks_.successors[p]) take(s);
      }
    }
    return region;
  }

  void check_region(const std::set<uint32_t>& region) {
    const uint32_t at = first(*region.begin());
    std::set<uint32_t> from, to;
    for (const uint32_t b : region) {
      for (const uint32_t p : before_[b])
        if (!region.contains(p)) from.insert(p);
      for (const uint32_t s : blocks_.successors[b])
        if (!region.contains(s)) to.insert(s);
      // Behind a place where lanes wait for each other those that came by several ways may go on together.
      const bool meet = end_of(b).flow == sass::Flow::next && end_of(b).may_switch_path;
      for (const uint32_t s : blocks_.successors[b])
        if (meet && region.contains(s)) fail(first(s), fmt::format("lanes meet in front of block {}", s));
    }
    if (from.size() != 1 || to.size() != 1) return fail(at, fmt::format("a region that {} blocks lead to and that leads to {}", from.size(), to.size()));
    if (claims_.ways_at[*to.begin()] == 0 || *to.begin() == *from.begin()) fail(at, fmt::format("block {} does not record the ways to it", *to.begin()));
    for (const uint32_t p : before_[*to.begin()])
      if (!region.contains(p)) fail(at, fmt::format("block {} leads to block {}, too", p, *to.begin()));
    follow(*from.begin(), region);
  }

  // Every way, and the number in its end. Ways that come back have no end.
  void follow(uint32_t from, const std::set<uint32_t>& region) {
    struct At {
      uint32_t block, number;
      size_t before;   // blocks on the way
    };
    std::vector<At> open;
    for (const uint32_t s : blocks_.successors[from])
      if (region.contains(s)) open.push_back({s, effects_[from].number, 0});
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> known;
    uint32_t ways = 0;
    while (!open.empty()) {
      auto [b, number, before] = open.back();
      open.pop_back();
      if (before >= region.size() || ++ways > most_ways) return fail(first(b), fmt::format("ways lead back to block {}, or are too many", b));
      const Effect& e = effects_[b];
      if (e.number == 0 && e.adds != 0 && number == 0) fail(first(b), fmt::format("lanes come to block {} without a number", b));
      number = e.number != 0 ? e.number : number + e.adds;
      const auto end = [&](uint32_t where) {
        const auto [other, alone] = known.insert({{where, number}, b});
        if (number == 0 || !alone) fail(first(b), fmt::format("lanes that leave block {} and block {} have one number, {}", b, other->second, number));
      };
      if (end_of(b).flow == sass::Flow::exit) end(ends_of_lanes);
      for (const uint32_t s : blocks_.successors[b]) {
        if (region.contains(s)) open.push_back({s, number, before + 1});
        else end(s);
      }
    }
  }

  const SpliceView& v_;
  const SpliceClaims& claims_;
  const Blocks& blocks_;
  Violations& out_;
  const uint8_t reg_;
  std::vector<std::vector<uint32_t>> before_;   // predecessors
  std::vector<Effect> effects_;
};

}  // namespace

void check_ways(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out) {
  if (claims.ways) Ways(v, claims, blocks, out).run();
}

}  // namespace xtrace::instrument
