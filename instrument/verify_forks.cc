// fork-recorded: where the record of a block says which lanes fall through to the next one, which has none.
#include <algorithm>

#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using namespace fields;

class Forks {
 public:
  Forks(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out) : v_(v), claims_(claims), blocks_(blocks), out_(out) {}

  void run() {
    for (const uint32_t b : claims_.forks) {
      if (b + 1 >= blocks_.blocks.size()) {
        out_.push_back({"fork-recorded", 0, fmt::format("there is no block behind block {}", b)});
        continue;
      }
      check_way(b);
      check_record(b);
      for (uint32_t k = first(b + 1); k < last(b + 1); ++k)
        if (v_.is_inserted(k) && v_.effects[k].kind == sass::MemKind::store) fail(k, fmt::format("block {} has a record of its own", b + 1));
    }
  }

 private:
  void fail(uint32_t word, std::string what) { out_.push_back({"fork-recorded", v_.pc(word), std::move(what)}); }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  std::string text(uint32_t k) const { return sass::print(*v_.old.arch, v_.words[k], v_.pc(k)); }
  uint32_t first(uint32_t b) const { return v_.copies[0].label[blocks_.blocks[b].first]; }
  uint32_t last(uint32_t b) const { return v_.copies[0].at[blocks_.blocks[b].last()]; }
  bool guarded_branch(const sass::Effects& fx) const { return fx.flow == sass::Flow::branch && fx.guarded && fx.falls_through && fx.use.upred == 0 && fx.use.ur.none(); }

  // The next block is where lanes fall through, and nobody comes there another way.
  void check_way(uint32_t b) {
    const std::vector<uint32_t>& next = blocks_.successors[b];
    if (next.size() != 2 || blocks_.blocks[b + 1].first != blocks_.blocks[b].last() + 1 || std::find(next.begin(), next.end(), b + 1) == next.end() ||
        !guarded_branch(v_.old.insts[blocks_.blocks[b].last()].fx))
      return fail(last(b), fmt::format("block {} does not fork", b));
    for (uint32_t p = 0; p < blocks_.blocks.size(); ++p)
      if (p != b && std::find(blocks_.successors[p].begin(), blocks_.successors[p].end(), b + 1) != blocks_.successors[p].end())
        fail(first(b + 1), fmt::format("block {} leads to block {}, too", p, b + 1));
  }

  // In front of the branch, with none of the kernel's instructions between: a vote of the lanes whose predicate keeps them from it, and
  // one store of that as the record's second word, by all lanes.
  void check_record(uint32_t b) {
    const auto guard = static_cast<uint8_t>(field(last(b), guard_field));
    if (v_.old.insts[blocks_.blocks[b].last()].fx.use.pred != 1u << (guard & 7)) fail(last(b), fmt::format("not one predicate alone decides {}", text(last(b))));
    uint32_t lanes = unknown;        // register that holds them
    bool beside = false;             // by lanes: the others' place has the first word
    uint32_t stores = 0;
    for (uint32_t k = first(b); k < last(b); ++k) {
      const sass::Effects& fx = v_.effects[k];
      if (!v_.is_inserted(k)) {
        lanes = unknown;
        beside = false;
        continue;
      }
      const bool votes = sass::opcode13(v_.words[k]) == vote && field(k, mode_field) == vote_any && !fx.guarded && field(k, vote_field) == (guard ^ 8u);
      if (votes) {
        lanes = static_cast<uint32_t>(field(k, result_field));
        beside = false;
      } else if (lanes != unknown && !beside && makes_first_word(k, b) && field(k, result_field) == lanes) {
        beside = true;
      } else if (lanes != unknown && (fx.def.gpr.test(lanes) || (fx.def.pred >> (guard & 7) & 1))) {
        lanes = unknown;
      }
      if (fx.kind != sass::MemKind::store) continue;
      ++stores;
      const bool whole = !beside && field(k, size_field) == size_64 && field(k, a_field) == no_register && field(k, b_field) + 1 == lanes;
      const bool by_lanes = beside && field(k, size_field) == size_32 && field(k, a_field) != no_register && field(k, b_field) == lanes;
      if ((!whole && !by_lanes) || fx.guarded || sass::opcode13(v_.words[k]) != stg_uniform || field(k, place_field) != 0 || field(k, ur_of_store) != cursor(b))
        fail(k, fmt::format("{} is not who falls through behind block {}", text(k), b));
    }
    if (stores != 1) fail(first(b), fmt::format("{} stores in block {}", stores, b));
  }
  // The clock and the block's number, in the lanes that do not store who falls through (stored-by-lanes says which these are).
  bool makes_first_word(uint32_t k, uint32_t b) const {
    constexpr uint16_t lea_imm = 0x811;   // [11:0]
    return claims_.odd_lanes && (sass::opcode13(v_.words[k]) & 0xfff) == lea_imm && field(k, guard_field) == (*claims_.odd_lanes | 8u) && field(k, imm_field) == b + 1;
  }
  // What moves by the record's eight bytes.
  std::optional<uint64_t> cursor(uint32_t b) const {
    for (uint32_t k = first(b); k < last(b); ++k)
      if (v_.is_inserted(k) && (sass::opcode13(v_.words[k]) & 0xfff) == uiadd3_imm && field(k, imm_field) == 8 && !v_.effects[k].guarded)
        return field(k, to_uniform_field);
    return std::nullopt;
  }

  static constexpr uint32_t unknown = 0xffffffff;
  static constexpr BitRange ur_of_store = bits(69, 64);

  const SpliceView& v_;
  const SpliceClaims& claims_;
  const Blocks& blocks_;
  Violations& out_;
};

}  // namespace

void check_forks(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out) {
  if (!claims.forks.empty()) Forks(v, claims, blocks, out).run();
}

}  // namespace xtrace::instrument
