#include "instrument/prologue.h"

#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

using enc::Gpr, enc::Ureg, enc::Pred, enc::Size;

constexpr uint8_t sb_values = 0, sb_stores = 1;   // nothing is outstanding at entry

constexpr Schedule after(unsigned stall) { return {.stall = stall}; }
constexpr Schedule loads(unsigned stall = scoreboard_visible) { return {.stall = stall, .write_barrier = sb_values}; }

constexpr Gpr next(Gpr r) { return {static_cast<uint8_t>(r.index + 1)}; }

struct Builder {
  Sequence& seq;

  // R<to> = x + extent.x * (y + extent.y * z), from special registers first, first+1, first+2. Dimensions of extent 1
  // are left out. Clobbers y and z.
  void read_coordinates(const Dim3& extent, uint8_t first, Gpr to, Gpr y, Gpr z) {
    put(seq, enc::s2r(to, first), loads());
    if (extent.y > 1 || extent.z > 1) put(seq, enc::s2r(y, static_cast<uint8_t>(first + 1)), loads());
    if (extent.z > 1) put(seq, enc::s2r(z, static_cast<uint8_t>(first + 2)), loads());
  }
  void linearise(const Dim3& extent, Gpr to, Gpr y, Gpr z) {
    Schedule s{.stall = vector_to_vector, .wait_mask = 1u << sb_values};
    if (extent.z > 1) put(seq, enc::imad_imm(y, z, extent.y, y), s);
    if (extent.y > 1 || extent.z > 1) put(seq, enc::imad_imm(to, y, extent.x, to), s);
  }
  // R<rd>:R<rd+1> = base + R<index> * scale
  void element_address(Gpr rd, uint64_t base, Gpr index, uint32_t scale) {
    put(seq, enc::mov_imm(rd, static_cast<uint32_t>(base)));
    put(seq, enc::mov_imm(next(rd), static_cast<uint32_t>(base >> 32)), after(vector_to_vector));
    put(seq, enc::imad_wide_u32_imm(rd, index, scale, rd), after(vector_to_vector));
  }
  void to_uniform(Ureg ur, Gpr reg) { put(seq, enc::r2ur(ur, reg), after(1)); }
};

}  // namespace

uint32_t warps_per_cta(const LaunchShape& shape) { return static_cast<uint32_t>((shape.block.count() + 31) / 32); }

Prologue build_prologue(const LaunchShape& shape, const Plan& plan, const wire::SlotLayout& layout,
                        const UniformPlan& ur) {
  Prologue out;
  Sequence& seq = out.words;
  Builder b{seq};
  constexpr Gpr tid{0}, cta{1}, r2{2}, r3{3}, r4{4}, r5{5}, r6{6}, r7{7};

  b.read_coordinates(shape.block, enc::sr_tid_x, tid, r2, r3);
  b.read_coordinates(shape.grid, enc::sr_ctaid_x, cta, r6, r7);
  b.linearise(shape.block, tid, r2, r3);
  b.linearise(shape.grid, cta, r6, r7);

  if (plan.one_in > 1) {   // wire::cta_is_sampled
    const auto threshold = static_cast<uint32_t>(0x100000000ull / plan.one_in);
    put(seq, enc::mov_imm(r2, plan.seed), after(vector_to_vector));
    put(seq, enc::imad_imm(r2, cta, wire::sample_multiplier, r2),
        {.stall = vector_to_vector, .wait_mask = 1u << sb_values});
    put(seq, enc::isetp_imm(Pred{0}, enc::Compare::ge, false, r2, threshold), after(predicate_to_guard));
    out.branch_to_copy = seq.size();
    put(seq, enc::with_guard(enc::bra(0, 0), Pred{0}), after(5));
  }

  put(seq, enc::shf_r_u32_hi_imm(tid, tid, 5), {.stall = vector_to_vector, .wait_mask = 1u << sb_values});
  put(seq, enc::imad_imm(tid, cta, warps_per_cta(shape), tid), after(vector_to_vector));
  const Gpr warp = tid;
  b.element_address(r4, layout.headers, warp, sizeof(wire::WarpHeader));
  b.to_uniform(ur.header, r4);
  b.to_uniform(high_half(ur.header), r5);

  if (plan.probe == ProbeKind::count) {
    put(seq, enc::umov_imm(ur.address, static_cast<uint32_t>(layout.counters)));
    put(seq, enc::umov_imm(high_half(ur.address), static_cast<uint32_t>(layout.counters >> 32)));
    put(seq, enc::umov_imm(ur.cursor, 0));
    put(seq, enc::umov_imm(ur.mask, 0), after(r2ur_to_use));
  } else {
    Gpr low = r6;
    if (layout.table != 0) {
      b.element_address(r2, layout.table, warp, sizeof(wire::SlotEntry));
      put(seq, enc::ldg(r4, enc::VectorAddress{r2}, Size::b128), loads());
      low = r4;
      put(seq, enc::r2ur(ur.mask, r6), {.stall = 1, .wait_mask = 1u << sb_values});
    } else {
      b.element_address(r6, layout.slots, warp, layout.slot_bytes);
      put(seq, enc::umov_imm(ur.mask, layout.slot_bytes - 1));
    }
    b.to_uniform(ur.base, low);
    b.to_uniform(high_half(ur.address), next(low));
    put(seq, enc::iadd3_imm(low, low, layout.lead_bytes, enc::RZ), after(vector_to_vector));
    b.to_uniform(ur.address, low);
    put(seq, enc::umov_imm(ur.cursor, layout.lead_bytes), after(r2ur_to_use));
  }

  put(seq, enc::s2r(r2, enc::sr_virtualsmid), loads());
  put(seq, enc::s2r(r3, enc::sr_virtid), loads());
  put(seq, enc::mov_imm(tid, wire::not_exited));
  put(seq, enc::mov_imm(cta, 0));
  put(seq, enc::cs2r64(r4, enc::sr_clock_lo));
  put(seq, enc::cs2r64(r6, enc::sr_globaltimer_lo), after(vector_to_memory));
  put(seq, enc::stg(enc::UniformAddress{ur.header}, Gpr{0}, Size::b128),
      {.stall = 1, .wait_mask = 1u << sb_values, .read_barrier = sb_stores});
  put(seq, enc::stg(enc::UniformAddress{ur.header, enc::RZ, 16}, r4, Size::b128), {.stall = scoreboard_visible, .read_barrier = sb_stores});
  put(seq, enc::nop(), {.stall = 1, .wait_mask = 1u << sb_stores});
  return out;
}

}  // namespace xtrace::instrument
