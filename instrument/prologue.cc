#include "instrument/prologue.h"

#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

using enc::Gpr, enc::Pred, enc::Size, enc::Ureg;

constexpr uint8_t sb_values = 0, sb_stores = 1;   // nothing is outstanding at entry

constexpr Schedule after(unsigned stall) { return {.stall = stall}; }
constexpr Schedule loads(unsigned stall = scoreboard_visible) { return {.stall = stall, .write_barrier = sb_values}; }

constexpr Gpr next(Gpr r) { return {static_cast<uint8_t>(r.index + 1)}; }

// Registers of the prologue.
constexpr Gpr tid{0}, cta{1}, r2{2}, r3{3}, r4{4}, r5{5}, r6{6}, r7{7};
constexpr Schedule when_read(unsigned stall) { return {.stall = stall, .wait_mask = 1u << sb_values}; }

class Builder {
 public:
  Builder(const LaunchShape& shape, const Plan& plan, const wire::SlotLayout& layout, const UniformPlan& ur)
      : shape_(shape), plan_(plan), layout_(layout), ur_(ur) {}

  Prologue build() {
    read_coordinates(shape_.block, enc::sr_tid_x, tid, r2, r3);
    read_coordinates(shape_.grid, enc::sr_ctaid_x, cta, r6, r7);
    linearise(shape_.block, tid, r2, r3);
    linearise(shape_.grid, cta, r6, r7);
    if (plan_.one_in > 1) sample();
    put(seq_, enc::shf_r_u32_hi_imm(tid, tid, 5), when_read(vector_to_vector));   // warp in its CTA
    if (plan_.probe == ProbeKind::count)
      counters();
    else if (layout_.wraps)
      wrapping_slot();
    else
      plain_slot();
    return std::move(out_);
  }

 private:
  // to = x + extent.x * (y + extent.y * z), from special registers first, first+1, first+2. Dimensions of extent 1 are
  // left out. Clobbers y and z.
  void read_coordinates(const Dim3& extent, uint8_t first, Gpr to, Gpr y, Gpr z) {
    put(seq_, enc::s2r(to, first), loads());
    if (extent.y > 1 || extent.z > 1) put(seq_, enc::s2r(y, static_cast<uint8_t>(first + 1)), loads());
    if (extent.z > 1) put(seq_, enc::s2r(z, static_cast<uint8_t>(first + 2)), loads());
  }
  void linearise(const Dim3& extent, Gpr to, Gpr y, Gpr z) {
    if (extent.z > 1) put(seq_, enc::imad_imm(y, z, extent.y, y), when_read(vector_to_vector));
    if (extent.y > 1 || extent.z > 1) put(seq_, enc::imad_imm(to, y, extent.x, to), when_read(vector_to_vector));
  }

  void sample() {   // wire::cta_is_sampled
    const auto threshold = static_cast<uint32_t>(0x100000000ull / plan_.one_in);
    put(seq_, enc::mov_imm(r2, plan_.seed), after(vector_to_vector));
    put(seq_, enc::imad_imm(r2, cta, wire::sample_multiplier, r2), when_read(vector_to_vector));
    put(seq_, enc::isetp_imm(Pred{0}, enc::Compare::ge, false, r2, threshold), after(predicate_to_guard));
    out_.branch_to_copy = seq_.size();
    put(seq_, enc::with_guard(enc::bra(0, 0), Pred{0}), after(5));
  }

  uint32_t per_cta() const { return warps_per_cta(shape_); }

  // tid := warp number in the launch
  void number_warp() { put(seq_, enc::imad_imm(tid, cta, per_cta(), tid), when_read(vector_to_vector)); }

  // rd:rd+1 = base + index * scale
  void element_address(Gpr rd, uint64_t base, Gpr index, uint32_t scale) {
    put(seq_, enc::mov_imm(rd, static_cast<uint32_t>(base)));
    put(seq_, enc::mov_imm(next(rd), static_cast<uint32_t>(base >> 32)), after(vector_to_vector));
    put(seq_, enc::imad_wide_u32_imm(rd, index, scale, rd), after(vector_to_vector));
  }
  void to_uniform(Ureg to, Gpr reg, unsigned stall = 1) { put(seq_, enc::r2ur(to, reg), after(stall)); }

  void header_address() {
    element_address(r4, layout_.headers, tid, sizeof(wire::WarpHeader));
    to_uniform(ur_.header, r4);
    to_uniform(high_half(ur_.header), r5);
  }

  void counters() {
    number_warp();
    header_address();
    put(seq_, enc::umov_imm(ur_.address, static_cast<uint32_t>(layout_.counters)));
    put(seq_, enc::umov_imm(high_half(ur_.address), static_cast<uint32_t>(layout_.counters >> 32)));
    put(seq_, enc::umov_imm(ur_.cursor, 0));
    put(seq_, enc::umov_imm(ur_.mask, 0), after(r2ur_to_use));
    store_header();
  }

  // r6:r7 = slot; with `mask`, the slot's mask in its uniform register.
  void slot_address(bool mask) {
    if (layout_.table != 0) {
      element_address(r2, layout_.table, tid, sizeof(wire::SlotEntry));
      put(seq_, enc::ldg(r4, enc::VectorAddress{r2}, Size::b128), loads());
      put(seq_, enc::mov(r2, r6), when_read(1));   // mask
      put(seq_, enc::mov(r6, r4));
      put(seq_, enc::mov(r7, r5), after(vector_to_vector));
      if (mask) to_uniform(ur_.mask, r2);
    } else {
      element_address(r6, layout_.slots, tid, layout_.slot_bytes);
      if (mask) put(seq_, enc::umov_imm(ur_.mask, layout_.slot_bytes - 1));
    }
  }

  void wrapping_slot() {
    number_warp();
    header_address();
    slot_address(true);
    to_uniform(ur_.base, r6);
    to_uniform(high_half(ur_.address), r7);
    put(seq_, enc::iadd3_imm(r6, r6, layout_.lead_bytes, enc::RZ), after(vector_to_vector));
    to_uniform(ur_.address, r6);
    put(seq_, enc::umov_imm(ur_.cursor, layout_.lead_bytes), after(r2ur_to_use));
    store_header();
  }

  // The whole WarpHeader; ends drained.
  void store_header() {
    put(seq_, enc::s2r(r2, enc::sr_virtualsmid), loads());
    put(seq_, enc::s2r(r3, enc::sr_virtid), loads());
    put(seq_, enc::mov_imm(tid, wire::not_exited));
    put(seq_, enc::mov_imm(cta, 0));
    put(seq_, enc::cs2r64(r4, enc::sr_clock_lo));
    put(seq_, enc::cs2r64(r6, enc::sr_globaltimer_lo), after(vector_to_memory));
    put(seq_, enc::stg(enc::UniformAddress{ur_.header}, tid, Size::b128),
        {.stall = 1, .wait_mask = 1u << sb_values, .read_barrier = sb_stores});
    put(seq_, enc::stg(enc::UniformAddress{ur_.header, enc::RZ, 16}, r4, Size::b128),
        {.stall = scoreboard_visible, .read_barrier = sb_stores});
    drain();
  }
  void drain() { put(seq_, enc::nop(), {.stall = 1, .wait_mask = 1u << sb_stores}); }

  // Slots of one size inside one 4 GiB window need 32-bit arithmetic only: the high word is a literal.
  bool one_window() const {
    const uint64_t end = layout_.slots + uint64_t{layout_.warps} * layout_.slot_bytes - 1;
    return layout_.table == 0 && layout_.slots >> 32 == end >> 32;
  }

  void plain_slot() {
    const auto lead = static_cast<uint32_t>(layout_.lead_bytes);
    if (one_window()) {
      // r6 = slots + cta * (slots of a CTA) + warp * slot, and the place of the first record
      put(seq_, enc::mov_imm(r6, static_cast<uint32_t>(layout_.slots) + lead), after(vector_to_vector));
      put(seq_, enc::imad_imm(r6, tid, layout_.slot_bytes, r6), after(vector_to_vector));
      put(seq_, enc::imad_imm(r6, cta, layout_.slot_bytes * per_cta(), r6), when_read(vector_to_vector));
      put(seq_, enc::umov_imm(high_half(ur_.address), static_cast<uint32_t>(layout_.slots >> 32)));
    } else {
      number_warp();
      slot_address(false);
      put(seq_, enc::iadd3_imm(r6, r6, lead, enc::RZ), after(vector_to_vector));
      to_uniform(high_half(ur_.address), r7);
    }
    to_uniform(ur_.address, r6);
    put(seq_, enc::s2r(r2, enc::sr_virtid), loads());
    put(seq_, enc::s2r(r3, enc::sr_virtualsmid), loads(r2ur_to_use));
    put(seq_, enc::cs2r32(r5, enc::sr_globaltimer_lo));
    put(seq_, enc::cs2r64(r6, enc::sr_clock_lo));
    put(seq_, enc::imad_imm(r4, r2, 1u << 16, r3), when_read(vector_to_memory));
    put(seq_, enc::stg(enc::UniformAddress{ur_.address, enc::RZ, -static_cast<int32_t>(lead)}, r4, Size::b128),
        {.stall = scoreboard_visible, .read_barrier = sb_stores});
    drain();
  }

  const LaunchShape& shape_;
  const Plan& plan_;
  const wire::SlotLayout& layout_;
  const UniformPlan& ur_;
  Prologue out_;
  Sequence& seq_ = out_.words;
};

}  // namespace

uint32_t warps_per_cta(const LaunchShape& shape) { return static_cast<uint32_t>((shape.block.count() + 31) / 32); }

Prologue build_prologue(const LaunchShape& shape, const Plan& plan, const wire::SlotLayout& layout,
                        const UniformPlan& uniform) {
  return Builder(shape, plan, layout, uniform).build();
}

}  // namespace xtrace::instrument
