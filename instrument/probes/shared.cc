#include <algorithm>
#include <array>
#include <cstddef>

#include "instrument/points.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

constexpr BitRange guard_field = bits(15, 12);   // guard predicate and its negation [sass.md 1.1]
// Records are written once and read by the host: they should go before the kernel's own lines (docs/performance.md).
constexpr BitRange cache_policy_field = bits(86, 84);
constexpr uint64_t evict_first = 0;              // [sass.md 3.1]
constexpr uint8_t lut_and_or = 0xea, lut_and = 0xc0;   // (a & b) | c, a & b

constexpr std::array bodies = {
#define XTRACE_PROBE(name, in_all, records, cost, needs) ProbeBody{ProbeKind::name, insert_##name, name##_record_bytes},
#define XTRACE_POINT_PROBE(name, in_all, records, cost, needs) \
  ProbeBody{ProbeKind::name, insert_points, [](const Code&, const ProbeBlock&, const Scope&) { return 0u; }},
#include "instrument/probes.def"
#undef XTRACE_PROBE
};
constexpr std::array with_points = {
#define XTRACE_PROBE(...)
#define XTRACE_POINT_PROBE(name, in_all, records, cost, needs) PointProbe{ProbeKind::name, name##_points},
#include "instrument/probes.def"
#undef XTRACE_PROBE
};

}  // namespace

std::span<const ProbeBody> probe_bodies() { return bodies; }
std::span<const PointProbe> point_probes() { return with_points; }

bool Scope::holds_site(const ProbeBlock& block) const {
  if (!is_sparse()) return true;
  for (InstIndex i = block.first; i <= block.last(); ++i)
    if (has(i)) return true;
  return false;
}

uint32_t block_record_bytes(const Code&, const ProbeBlock& block, const Scope& scope) {
  return scope.samples(block) ? wire::chunk_bytes : 0;
}

uint32_t record_head(const ProbeContext& c, wire::RecordKind kind, uint32_t block) {
  return c.layout.index_bits != 0 ? block + 1 : wire::word0(kind, block);
}

sass::RawInst with_record_policy(sass::RawInst store) {
  set_bits(store, cache_policy_field, evict_first);
  return store;
}

std::optional<enc::Pred> ProbeContext::leader(InstIndex from, InstIndex to) const {
  if (!enc::exists(*code.arch, enc::elect(enc::PT))) return std::nullopt;
  return scratch.predicate(from, to);
}

void bump_cursor(ProbeContext& c, Sequence& seq, uint32_t bytes) {
  const UniformPlan& ur = c.scratch.uniform();
  if (c.layout.wraps) put(seq, enc::uiadd3_imm(ur.cursor, ur.cursor, bytes));
}

void bump_address(ProbeContext& c, Sequence& seq, uint32_t bytes, unsigned until_next_store) {
  const UniformPlan& ur = c.scratch.uniform();
  const unsigned stall = until_next_store >= uniform_to_vector ? 1 : uniform_to_vector - until_next_store;
  put(seq,
      c.layout.wraps ? enc::ulop3(ur.address, ur.cursor, ur.mask, ur.base, lut_and_or)
                     : enc::uiadd3_imm(ur.address, ur.address, bytes),
      {.stall = std::max(1u, stall)});
}

void store_words(ProbeContext& c, Sequence& seq, const Holder& h, unsigned words, uint32_t offset,
                 std::optional<enc::Pred> guard) {
  const unsigned at_once = h.shape == Holder::Shape::quad ? 4 : h.shape == Holder::Shape::single ? 1 : 2;
  for (unsigned k = 0; k < words; k += at_once) {
    const unsigned n = std::min(words - k, at_once);
    const enc::Size size = n == 4 ? enc::Size::b128 : n == 2 ? enc::Size::b64 : enc::Size::b32;
    XT_CHECK(n != 3, "a store of three words");
    sass::RawInst w = with_record_policy(
        enc::stg({c.scratch.uniform().address, enc::RZ, static_cast<int32_t>(offset + 4 * k)}, h.r(k), size));
    if (guard) w = enc::with_guard(w, *guard);
    put(seq, w, {.stall = scoreboard_visible, .read_barrier = h.scoreboard});
  }
}

enc::Gpr word_place(ProbeContext& c, Sequence& seq, enc::Gpr spare) {
  LaneWords& words = *c.lane_words;
  words.used = true;
  if (words.place) return *words.place;
  put(seq, enc::sel_imm_unless(spare, enc::RZ, LaneWords::odd_lanes, words.odd));
  return spare;
}

void store_by_lanes(ProbeContext& c, Sequence& seq, enc::Gpr data, enc::Gpr place, int32_t offset, uint8_t scoreboard) {
  put(seq, with_record_policy(enc::stg({c.scratch.uniform().address, place, offset}, data, enc::Size::b32)),
      {.stall = scoreboard_visible, .read_barrier = scoreboard});
}

void store_sector(ProbeContext& c, Sequence& seq, const Holder& h, uint32_t offset) {
  put(seq, with_record_policy(enc::stg({c.scratch.uniform().address, *c.sector_word, static_cast<int32_t>(offset)}, h.r(0), enc::Size::b32)),
      {.stall = scoreboard_visible, .read_barrier = h.scoreboard});
}

sass::RawInst sector_place(const ProbeContext& c, enc::Gpr place, unsigned registers) {
  return enc::lop3_imm(place, *c.sector_word, sector_place_mask(registers), enc::RZ, lut_and);
}

InstIndex settled(ProbeContext& c, InstIndex from, unsigned cycles, InstIndex limit) {
  unsigned passed = 1;
  InstIndex at = from;
  while (at < limit && passed < cycles) passed += sass::get_control(c.code.insts[at++].raw).stall;
  if (passed < cycles) put_pause(c.out.before[at], cycles - passed);
  return at;
}

unsigned stall_cycles(const Code& code, InstIndex from, InstIndex to) {
  unsigned sum = 0;
  for (InstIndex i = from; i < to; ++i) sum += sass::get_control(code.insts[i].raw).stall;
  return sum;
}

Status insert_exit_headers(ProbeContext& c) {
  const bool counting = c.plan.probe == ProbeKind::count;
  if (counting ? c.plan.counts_alone : !c.layout.wraps) return {};
  const UniformPlan& ur = c.scratch.uniform();
  for (const ProbeBlock& block : c.blocks.blocks) {
    const InstIndex i = block.last();
    if (c.code.insts[i].fx.flow != sass::Flow::exit) continue;
    Result<Holder> found = c.scratch.holder(i, i, {Holder::Shape::pair, Holder::Shape::quad}, std::nullopt);
    if (const auto beyond = found || !counting ? std::nullopt : c.scratch.beyond_limit()) found = *beyond;
    XT_TRY(const Holder h, std::move(found));
    Sequence& seq = c.out.before[i];
    enc::Ureg bytes = ur.cursor;
    if (!counting) {
      bytes = ur.temp;
      put(seq, enc::uiadd3_imm(ur.temp, ur.cursor, -c.layout.lead_bytes), {.stall = uniform_to_vector});
    } else {
      put(seq, enc::nop(), {.stall = uniform_to_vector});
    }
    put(seq, enc::mov_from_ur(h.r(0), bytes));
    put(seq, counting ? enc::mov_from_ur(h.r(1), ur.mask) : enc::cs2r32(h.r(1), enc::sr_clock_lo),
        {.stall = vector_to_memory});
    // The EXIT's own guard and waits: only leaving lanes store, and the guard is ready where the EXIT's would be.
    sass::RawInst store = enc::stg({ur.header}, h.r(0), enc::Size::b64);
    set_bits(store, guard_field, get_bits(c.code.insts[i].raw, guard_field));
    put(seq, store,
        {.stall = scoreboard_visible, .wait_mask = sass::get_control(c.code.insts[i].raw).wait_mask,
         .read_barrier = h.scoreboard});
    if (!counting) continue;
    put(seq, enc::mov_from_ur(h.r(0), ur.base), {.stall = vector_to_memory});
    sass::RawInst third = enc::stg({ur.header, enc::RZ, offsetof(wire::WarpHeader, sm)}, h.r(0), enc::Size::b32);
    set_bits(third, guard_field, get_bits(c.code.insts[i].raw, guard_field));
    put(seq, third, {.stall = scoreboard_visible, .read_barrier = h.scoreboard});
  }
  return {};
}

}  // namespace xtrace::instrument
