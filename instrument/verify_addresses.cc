// address-recorded: the stores of `mem` against the accesses of the original code.
#include <algorithm>

#include "instrument/blocks.h"
#include "instrument/sass/access.h"
#include "instrument/sass/print.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

constexpr uint16_t stg_uniform = 0x1986;   // STG [R.U32+UR+offset], R
constexpr BitRange lane_field = bits(31, 24), data_field = bits(39, 32), place_field = bits(63, 40);

class Addresses {
 public:
  Addresses(SpliceView& v, const SpliceClaims& claims, Violations& out) : v_(v), claims_(claims), out_(out) {}

  void run() {
    for (const ProbeBlock& block : find_blocks(v_.old).blocks) check(block);
  }

 private:
  void fail(uint32_t word, InstIndex i, std::string what) {
    out_.push_back({"address-recorded", v_.pc(word), where(v_.old, i) + ": " + std::move(what)});
  }

  // Stores by lanes to places of their own: columns.
  bool is_column(uint32_t k) const {
    return v_.is_inserted(k) && sass::opcode13(v_.words[k]) == stg_uniform && get_bits(v_.words[k], lane_field) != 255;
  }

  void check(const ProbeBlock& block) {
    const Copy& copy = v_.copies[0];
    const uint32_t from = copy.label[block.first];
    for (InstIndex i = block.first; i <= block.last(); ++i) {
      if (!claims_.places.empty() && !claims_.places[i]) continue;
      const auto found = sass::accesses(*v_.old.arch, v_.old.insts[i].raw);
      const auto* accesses = std::get_if<std::vector<sass::Access>>(&found);
      if (accesses == nullptr) continue;
      for (const sass::Access& a : *accesses) {
        const bool high = a.space == sass::MemSpace::generic || !claims_.memory_high_is_known || a.uniform_low != a.none;
        if (a.low != a.none) check(block, from, i, a.low);
        if (a.high != a.none && high) check(block, from, i, a.high);
      }
    }
  }

  // Register `reg` of the access at i is in the record of its block.
  void check(const ProbeBlock& block, uint32_t from, InstIndex i, uint8_t reg) {
    const uint32_t access = v_.copies[0].at[i];
    uint32_t k = access;
    while (k-- > from) {
      if (is_column(k) && get_bits(v_.words[k], data_field) == reg) break;
      if (v_.effects[k].def.gpr.test(reg))
        return fail(k, i, fmt::format("{} writes R{} before it is stored", text(k), reg));
    }
    if (k + 1 == from || k == access) return fail(access, i, fmt::format("R{} is not stored in its block", reg));
    const auto place = static_cast<uint32_t>(get_bits(v_.words[k], place_field));
    const auto claim = std::find_if(claims_.addresses.begin(), claims_.addresses.end(), [&](const AddressClaim& c) {
      const InstIndex at = v_.old.index(c.pc);
      return c.reg == reg && c.place == place && at >= block.first && at <= i && v_.copies[0].at[at] > k;
    });
    if (claim == claims_.addresses.end())
      return fail(k, i, fmt::format("R{} goes to byte {} of the record, which nobody claims", reg, place));
    if (v_.effects[k].guarded) return fail(k, i, fmt::format("{} is not done by all lanes", text(k)));
    for (uint32_t other = from; other < v_.copies[0].at[block.last()]; ++other)
      if (other != k && is_column(other) && get_bits(v_.words[other], place_field) == place)
        return fail(other, i, fmt::format("{} goes to the same place", text(other)));
    v_.address_store[k] = true;
  }

  std::string text(uint32_t word) const { return sass::print(*v_.old.arch, v_.words[word], v_.pc(word)); }

  SpliceView& v_;
  const SpliceClaims& claims_;
  Violations& out_;
};

}  // namespace

void check_addresses(SpliceView& v, const SpliceClaims& claims, Violations& out) {
  v.address_store.assign(v.words.size(), false);
  if (claims.records_addresses) Addresses(v, claims, out).run();
}

}  // namespace xtrace::instrument
