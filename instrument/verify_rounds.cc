// rounds-counted: a forward data-flow over the original blocks says where the counter is 0 for certain, by what inserted words do to it.
#include <algorithm>

#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using namespace fields;

constexpr uint16_t stg_mask = 0xfff, stg_opcode = 0x986;   // [11:0]

class Rounds {
 public:
  Rounds(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out)
      : v_(v), claims_(claims), blocks_(blocks), out_(out), reg_(*claims.rounds) {}

  void run() {
    const size_t n = blocks_.blocks.size();
    if (claims_.loops.size() != n || claims_.rounds_at.size() != n || claims_.rounds_alike.size() != n) return fail(0, "not a claim for each block");
    if (reg_ < v_.old_registers - std::min(v_.old_registers, reserved_registers)) fail(0, "the counter is a register of the kernel");
    for (uint32_t b = 0; b < n; ++b) look(b);
    for (uint32_t k = v_.prologue_first; k < v_.prologue_first + v_.prologue_words; ++k)
      if (v_.effects[k].def.gpr.test(reg_)) fail(k, "the prologue writes the counter");
    if (claims_.lane_offset) check_lane_offset();
    find_zeros();
    for (uint32_t b = 0; b < n; ++b) {
      if (claims_.loops[b]) check_loop(b);
      if (claims_.rounds_at[b] != 0) check_record(b);
      const uint32_t adds = claims_.loops[b] ? 1 : 0;
      if (seen_[b].adds != adds) fail(first(b), fmt::format("one more {} times in block {}, expected {}", seen_[b].adds, b, adds));
    }
  }

 private:
  // What the words of a block do.
  struct Seen {
    uint32_t adds = 0;
    bool zero = false;   // in the end, whatever it was in front
    bool resets = false;
  };

  void fail(uint32_t word, std::string what) { out_.push_back({"rounds-counted", v_.pc(word), std::move(what)}); }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  std::string text(uint32_t k) const { return sass::print(*v_.old.arch, v_.words[k], v_.pc(k)); }
  uint32_t first(uint32_t b) const { return v_.copies[0].label[blocks_.blocks[b].first]; }
  // The words in front of the next block that only those pass who fall through are not looked for: probes of blocks put none there.
  uint32_t end(uint32_t b) const { return v_.copies[0].at[blocks_.blocks[b].last()] + 1; }

  // The rest of the prologue stands in the blocks that the kernel begins with, one behind the other: nothing is counted there.
  void check_lane_offset() {
    std::vector<bool> uses;
    for (const uint32_t at : claims_.rounds_at) uses.push_back(at != 0);
    const std::vector<bool> begins = beginning_blocks(blocks_, uses);
    for (uint32_t b = 0; b < blocks_.blocks.size(); ++b)
      for (uint32_t k = first(b); k < end(b); ++k)
        if (!begins[b] && v_.effects[k].def.gpr.test(*claims_.lane_offset)) fail(k, "what the prologue has set to 4 * lane is written again");
  }

  void look(uint32_t b) {
    Seen& seen = seen_.emplace_back();
    for (uint32_t k = first(b); k < end(b); ++k) {
      if (!v_.effects[k].def.gpr.test(reg_)) continue;
      const uint16_t op = sass::opcode13(v_.words[k]) & stg_mask;
      const bool whole = v_.is_inserted(k) && field(k, guard_field) == always && field(k, result_field) == reg_;
      if (whole && op == mov_imm && field(k, imm_field) == 0) {
        seen.zero = seen.resets = true;
      } else if (whole && op == iadd3_imm && field(k, a_field) == reg_ && field(k, imm_field) == 1 && field(k, c_field) == no_register) {
        seen.zero = false;
        ++seen.adds;
      } else {
        fail(k, fmt::format("{} writes the counter", text(k)));
      }
    }
  }

  // By block: the counter is 0 behind it, on every path.
  void find_zeros() {
    const size_t n = blocks_.blocks.size();
    zero_behind_.assign(n, true);
    for (bool changed = true; changed;) {
      changed = false;
      std::vector<bool> in_front(n, true);
      in_front[0] = false;
      for (uint32_t p = 0; p < n; ++p)
        for (uint32_t s : blocks_.successors[p]) in_front[s] = in_front[s] && zero_behind_[p];
      for (uint32_t b = 0; b < n; ++b) {
        const bool zero = seen_[b].resets ? seen_[b].zero : in_front[b] && seen_[b].adds == 0;
        changed |= zero != zero_behind_[b];
        zero_behind_[b] = zero;
      }
    }
  }

  void come_with_zero(uint32_t b) {
    for (uint32_t p = 0; p < blocks_.blocks.size(); ++p)
      for (uint32_t s : blocks_.successors[p])
        if (s == b && !claims_.loops[p] && !zero_behind_[p]) fail(first(b), fmt::format("the counter may not be 0 on the way from block {} to block {}", p, b));
  }

  void check_loop(uint32_t b) {
    const std::vector<uint32_t>& next = blocks_.successors[b];
    const bool itself = std::find(next.begin(), next.end(), b) != next.end();
    if (next.size() != 2 || !itself || seen_[b].resets) return fail(first(b), fmt::format("block {} is no loop that could be counted", b));
    const uint32_t behind = next[0] == b ? next[1] : next[0];
    if (claims_.rounds_at[behind] == 0) fail(first(behind), fmt::format("lanes leave block {} for block {}, which does not record their rounds", b, behind));
    if (b == 0) fail(first(b), "nobody has set the counter to 0 in front of the kernel");
    come_with_zero(b);
  }

  // The counter of each lane as it comes to the block, stored once, at the place, in front of where the cursor moves.
  void check_record(uint32_t b) {
    come_with_zero(b);
    uint32_t stores = 0;
    bool changed = false, moved = false;
    const auto cursor = cursor_of(b);
    const std::optional<uint8_t> lanes = claims_.rounds_alike[b] ? no_register : claims_.lane_offset;
    for (uint32_t k = first(b); k < end(b); ++k) {
      if (v_.is_inserted(k) && cursor && v_.effects[k].def.ur.test(*cursor)) moved = true;
      if (v_.effects[k].def.gpr.test(reg_)) changed = true;
      if (!is_store_of(k)) continue;
      ++stores;
      if (changed || moved || v_.effects[k].guarded || field(k, place_field) != claims_.rounds_at[b] || field(k, size_field) != size_32 ||
          field(k, a_field) != lanes || !cursor || field(k, ur_of_store) != *cursor)
        fail(k, fmt::format("{} is not the counts of block {}", text(k), b));
    }
    if (stores != 1) fail(first(b), fmt::format("the counter is stored {} times in block {}", stores, b));
  }
  bool is_store_of(uint32_t k) const {
    return v_.is_inserted(k) && (sass::opcode13(v_.words[k]) & stg_mask) == stg_opcode && field(k, b_field) == reg_;
  }
  // What the record's first word is stored by.
  std::optional<uint8_t> cursor_of(uint32_t b) const {
    for (uint32_t k = first(b); k < end(b); ++k)
      if (v_.is_inserted(k) && sass::opcode13(v_.words[k]) == stg_uniform && field(k, place_field) == 0) return static_cast<uint8_t>(field(k, ur_of_store));
    return std::nullopt;
  }
  static constexpr BitRange ur_of_store = bits(69, 64);

  const SpliceView& v_;
  const SpliceClaims& claims_;
  const Blocks& blocks_;
  Violations& out_;
  const uint8_t reg_;
  std::vector<Seen> seen_;
  std::vector<bool> zero_behind_;
};

}  // namespace

std::vector<bool> beginning_blocks(const Blocks& blocks, const std::vector<bool>& uses) {
  std::vector<uint32_t> arrivals(blocks.blocks.size(), 0);
  for (const auto& next : blocks.successors)
    for (uint32_t s : next) ++arrivals[s];
  std::vector<bool> begins(blocks.blocks.size(), false);
  for (uint32_t b = 0; !begins[b];) {
    begins[b] = !uses[b];
    const std::vector<uint32_t>& next = blocks.successors[b];
    if (begins[b] && next.size() == 1 && arrivals[next[0]] == 1) b = next[0];
    else break;
  }
  return begins;
}

void check_rounds(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out) {
  if (claims.rounds) Rounds(v, claims, blocks, out).run();
}

}  // namespace xtrace::instrument
