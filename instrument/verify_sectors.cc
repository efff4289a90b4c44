// sector-filled: the register that says which word of a sector a lane stores is what the prologue made it, all along; and every store of a
// full block's record takes its places from it. What words of `mem` go where is computed in verify_words.cc.
#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using namespace fields;

constexpr uint64_t word_mask = 28;   // of the lane number: 4 * (lane / 4)

class Sectors {
 public:
  Sectors(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out)
      : v_(v), claims_(claims), blocks_(blocks), out_(out), reg_(*claims.sector_word) {}

  void run() {
    if (claims_.sector_full.size() != blocks_.blocks.size()) return fail(0, "not a claim for each block");
    if (reg_ < v_.old_registers - std::min(v_.old_registers, reserved_registers)) fail(0, "the place in a sector is in a register of the kernel");
    uint32_t made = 0;
    for (uint32_t k = v_.prologue_first; k < v_.words.size(); ++k) {
      if (v_.effects[k].def.gpr.test(reg_)) made += made_at(k);
      if (v_.is_inserted(k) && is_store(k) && !claims_.records_addresses) check_store(k);
    }
    if (made != 1) fail(v_.prologue_first, fmt::format("the place in a sector is made {} times", made));
  }

 private:
  void fail(uint32_t word, std::string what) { out_.push_back({"sector-filled", v_.pc(word), std::move(what)}); }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  std::string text(uint32_t k) const { return sass::print(*v_.old.arch, v_.words[k], v_.pc(k)); }
  bool is_and(uint32_t k, uint64_t mask) const {
    return sass::opcode13(v_.words[k]) == lop3_imm && field(k, guard_field) == always && field(k, imm_field) == mask &&
           field(k, c_field) == no_register && field(k, lut_field) == lut_and;
  }
  bool is_store(uint32_t k) const { return sass::opcode13(v_.words[k]) == stg_uniform; }

  uint32_t block_of(uint32_t k) const {
    const uint32_t next = v_.next_original[k];
    return next == SpliceView::inserted ? Blocks::none : blocks_.block_of[next];
  }

  // Once, of the thread number, in front of everything that may be executed twice.
  uint32_t made_at(uint32_t k) {
    const bool early = v_.in_prologue(k) || (v_.is_inserted(k) && block_of(k) == 0);
    if (early && is_and(k, word_mask)) return 1;
    fail(k, fmt::format("{} writes the place in a sector", text(k)));
    return 0;
  }

  void check_store(uint32_t k) {
    const uint32_t block = block_of(k);
    if (block == Blocks::none || !claims_.sector_full[block]) return;
    const uint64_t lanes = field(k, a_field), size = field(k, size_field);
    if (size == size_32 && lanes == reg_) return;
    if (lanes != no_register && size != size_32 && is_made_of_it(k, static_cast<uint8_t>(lanes), size == size_64 ? 24 : 16)) return;
    fail(k, fmt::format("{} writes a sector in part", text(k)));
  }

  // The last write of the offset in front of the store: of the place, by its mask; sixteen words go by the lane group, as P2R gives it.
  bool is_made_of_it(uint32_t store, uint8_t lanes, uint64_t mask) const {
    for (uint32_t k = store; k-- > v_.prologue_first;) {
      if (!v_.effects[k].def.gpr.test(lanes)) continue;
      const uint16_t op = sass::opcode13(v_.words[k]) & 0xfff;   // [11:0]
      if (mask == 16 && v_.is_inserted(k) && (op == shf_imm || op == p2r)) return true;
      return v_.is_inserted(k) && is_and(k, mask) && field(k, a_field) == reg_;
    }
    return false;
  }

  const SpliceView& v_;
  const SpliceClaims& claims_;
  const Blocks& blocks_;
  Violations& out_;
  const uint8_t reg_;
};

}  // namespace

void check_sectors(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out) {
  if (claims.sector_word) Sectors(v, claims, blocks, out).run();
}

}  // namespace xtrace::instrument
