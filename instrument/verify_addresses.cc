// address-recorded: the stores of `mem` against the accesses of the original code.
#include <algorithm>

#include "instrument/blocks.h"
#include "instrument/sass/access.h"
#include "instrument/sass/print.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using Kind = AddressClaim::Kind;

constexpr uint16_t stg_uniform = 0x1986;   // STG [R.U32+UR+offset], R
constexpr uint16_t vote = 0x806, mov_ur = 0x1c02;
constexpr BitRange guard_field = bits(15, 12), lane_field = bits(31, 24), data_field = bits(39, 32), place_field = bits(63, 40);
constexpr BitRange result_field = bits(23, 16), mov_ur_field = bits(37, 32), vote_field = bits(90, 87), mode_field = bits(73, 72);
constexpr uint64_t no_register = 255, vote_any = 1, always = 7;

class Addresses {
 public:
  Addresses(SpliceView& v, const SpliceClaims& claims, Violations& out) : v_(v), claims_(claims), out_(out) {}

  void run() {
    for (const ProbeBlock& block : find_blocks(v_.old).blocks) {
      from_ = v_.copies[0].label[block.first];
      for (InstIndex i = block.first; i <= block.last(); ++i) {
        if (!claims_.places.empty() && !claims_.places[i]) continue;
        const auto found = sass::accesses(*v_.old.arch, v_.old.insts[i].raw);
        const auto* accesses = std::get_if<std::vector<sass::Access>>(&found);
        if (accesses == nullptr || accesses->empty()) continue;
        for (const sass::Access& a : *accesses) check(block, i, a);
        const auto guard = static_cast<uint8_t>(get_bits(v_.old.insts[i].raw, guard_field));
        if (guard != always) check(block, i, Kind::mask, guard);
      }
    }
  }

 private:
  void fail(uint32_t word, InstIndex i, std::string what) {
    out_.push_back({"address-recorded", v_.pc(word), where(v_.old, i) + ": " + std::move(what)});
  }

  void check(const ProbeBlock& block, InstIndex i, const sass::Access& a) {
    const bool high = a.space == sass::MemSpace::generic || !claims_.memory_high_is_known || a.uniform_low != a.none;
    if (a.low != a.none) check(block, i, Kind::column, a.low);
    if (a.high != a.none && high) check(block, i, Kind::column, a.high);
    if (a.uniform_low != a.none) check(block, i, Kind::uniform, a.uniform_low);
    if (a.uniform_high != a.none) check(block, i, Kind::uniform, a.uniform_high);
  }

  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  bool is_store(uint32_t k) const { return v_.is_inserted(k) && sass::opcode13(v_.words[k]) == stg_uniform; }

  // The word that takes the value out of the kernel: the store itself, or what the probe makes a register of.
  bool takes(uint32_t k, Kind kind, uint8_t index) const {
    if (!v_.is_inserted(k)) return false;
    switch (kind) {
      case Kind::column: return is_store(k) && field(k, lane_field) != no_register && field(k, data_field) == index;
      case Kind::uniform: return sass::opcode13(v_.words[k]) == mov_ur && field(k, mov_ur_field) == index;
      case Kind::mask:
        return sass::opcode13(v_.words[k]) == vote && field(k, mode_field) == vote_any && field(k, vote_field) == index;
    }
    return false;
  }
  bool writes(uint32_t k, Kind kind, uint8_t index) const {
    const sass::RegEffects& def = v_.effects[k].def;
    switch (kind) {
      case Kind::column: return def.gpr.test(index);
      case Kind::uniform: return def.ur.test(index);
      case Kind::mask: return (def.pred >> (index & 7) & 1) != 0;
    }
    return false;
  }

  // What the access at i needs is in the record of its block.
  void check(const ProbeBlock& block, InstIndex i, Kind kind, uint8_t index) {
    const uint32_t access = v_.copies[0].at[i];
    uint32_t k = access;
    bool found = false;
    while (!found && k-- > from_) {
      found = takes(k, kind, index);
      if (!found && writes(k, kind, index)) return fail(k, i, fmt::format("{} changes what was to be recorded", text(k)));
    }
    if (!found) return fail(access, i, fmt::format("{} is not stored in its block", name(kind, index)));
    if (v_.effects[k].guarded) return fail(k, i, fmt::format("{} is not done by all lanes", text(k)));
    uint32_t store = k;
    if (kind != Kind::column) {   // until the value is stored nothing else may go there; the dataflow rules watch the register
      const uint64_t reg = field(k, result_field);
      do ++store;
      while (store < access && !(is_store(store) && field(store, data_field) == reg && field(store, lane_field) == no_register));
      if (store == access) return fail(k, i, fmt::format("what {} gives is not stored", text(k)));
      if (v_.effects[store].guarded) return fail(store, i, fmt::format("{} is not done by all lanes", text(store)));
    }
    const auto place = static_cast<uint32_t>(field(store, place_field));
    const bool claimed = std::any_of(claims_.addresses.begin(), claims_.addresses.end(), [&](const AddressClaim& c) {
      const InstIndex at = v_.old.index(c.pc);
      return c.kind == kind && c.index == index && c.place == place && at >= block.first && at <= i &&
             v_.copies[0].at[at] > store;
    });
    if (!claimed)
      return fail(store, i, fmt::format("{} goes to byte {} of the record, which nobody claims", name(kind, index), place));
    for (uint32_t other = from_; other < v_.copies[0].at[block.last()]; ++other)
      if (other != store && is_store(other) && field(other, place_field) == place)
        return fail(other, i, fmt::format("{} goes to the same place", text(other)));
    if (kind == Kind::column) v_.address_store[store] = true;
  }

  static std::string name(Kind kind, uint8_t index) {
    switch (kind) {
      case Kind::column: return fmt::format("R{}", index);
      case Kind::uniform: return fmt::format("UR{}", index);
      case Kind::mask: return fmt::format("{}P{}", (index & 8) != 0 ? "!" : "", index & 7);
    }
    return {};
  }
  std::string text(uint32_t word) const { return sass::print(*v_.old.arch, v_.words[word], v_.pc(word)); }

  SpliceView& v_;
  const SpliceClaims& claims_;
  Violations& out_;
  uint32_t from_ = 0;          // first word of the block
};

}  // namespace

void check_addresses(SpliceView& v, const SpliceClaims& claims, Violations& out) {
  v.address_store.assign(v.words.size(), false);
  if (claims.records_addresses) Addresses(v, claims, out).run();
}

}  // namespace xtrace::instrument
