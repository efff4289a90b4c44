// record-length: under `mem` the cursor moves, once in each block with a record and behind all that is stored there, by as many bytes as
// decoders go on by; and what is stored lies in front of that.
#include <algorithm>

#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using namespace fields;

class Lengths {
 public:
  Lengths(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out)
      : v_(v), claims_(claims), blocks_(blocks), out_(out) {}

  void run() {
    if (claims_.record_bytes.size() != blocks_.blocks.size()) return fail(0, "not a length for each block");
    for (uint32_t k = v_.prologue_first; k < v_.words.size(); ++k)
      if (is_store(k)) cursor_ |= v_.effects[k].use.ur;
    for (uint32_t b = 0; b < blocks_.blocks.size(); ++b) check(b, claims_.record_bytes[b]);
  }

 private:
  void fail(uint32_t word, std::string what) { out_.push_back({"record-length", v_.pc(word), std::move(what)}); }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  uint16_t opcode(uint32_t k) const { return sass::opcode13(v_.words[k]) & 0xfff; }   // [11:0]
  bool is_store(uint32_t k) const { return v_.is_inserted(k) && sass::opcode13(v_.words[k]) == stg_uniform; }
  std::string text(uint32_t k) const { return sass::print(*v_.old.arch, v_.words[k], v_.pc(k)); }

  void check(uint32_t number, uint32_t bytes) {
    const ProbeBlock& block = blocks_.blocks[number];
    const uint32_t unit = claims_.sector_word ? wire::sector_bytes : wire::chunk_bytes;
    if (bytes % unit != 0) return fail(v_.copies[0].at[block.first], fmt::format("a record of {} bytes", bytes));
    bool stored = false;
    uint32_t moves = 0;
    for (uint32_t k = v_.copies[0].label[block.first]; k <= v_.copies[0].at[block.last()]; ++k) {
      if (!v_.is_inserted(k)) continue;
      if (is_store(k)) {
        stored = true;
        const uint64_t words = field(k, size_field) == 6 ? 4 : field(k, size_field) == size_64 ? 2 : 1;
        const uint64_t end = field(k, place_field) + (is_column(number, k) ? wire::mem_line : words * sizeof(uint32_t));
        if (moves != 0) return fail(k, fmt::format("{} stores behind where the cursor moves", text(k)));
        if (end > bytes) return fail(k, fmt::format("{} goes beyond a record of {} bytes", text(k), bytes));
        continue;
      }
      if ((v_.effects[k].def.ur & cursor_).none()) continue;
      if (number == 0 && !stored && opcode(k) != uiadd3_imm) continue;   // the rest of the prologue stands in front of the first record
      const bool adds = opcode(k) == uiadd3_imm && !v_.effects[k].guarded && field(k, imm_field) == bytes && v_.effects[k].use.ur == v_.effects[k].def.ur;
      if (!adds || bytes == 0) return fail(k, fmt::format("{} moves the cursor, behind a record of {} bytes", text(k), bytes));
      ++moves;
    }
    if (moves != (bytes == 0 ? 0u : 1u)) fail(v_.copies[0].at[block.last()], fmt::format("the cursor moves {} times behind a record of {} bytes", moves, bytes));
  }

  // It stores a word of its own for each lane.
  bool is_column(uint32_t number, uint32_t k) const {
    return std::any_of(claims_.accesses.begin(), claims_.accesses.end(), [&](const wire::Access& a) {
      return a.block == number && (a.low == field(k, place_field) || a.high == field(k, place_field));
    });
  }

  const SpliceView& v_;
  const SpliceClaims& claims_;
  const Blocks& blocks_;
  Violations& out_;
  sass::RegSet cursor_;   // what stores go by
};

}  // namespace

void check_lengths(const SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out) {
  if (claims.records_addresses) Lengths(v, claims, blocks, out).run();
}

}  // namespace xtrace::instrument
