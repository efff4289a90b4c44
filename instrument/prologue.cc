#include "instrument/prologue.h"

#include <algorithm>
#include <array>

#include "instrument/own_numbers.h"
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

using enc::Gpr, enc::Pred, enc::Size, enc::Ureg;

constexpr uint8_t lut_and = 0xc0, lut_and_or = 0xea;   // of a, b; (a & b) | c
constexpr uint8_t sb_values = 0, sb_stores = 1;   // nothing is outstanding at entry

constexpr Schedule after(unsigned stall) { return {.stall = stall}; }
constexpr Schedule loads(unsigned stall = scoreboard_visible) { return {.stall = stall, .write_barrier = sb_values}; }

// Of the column in front of the first record, but for one that is stored with the head. UniformPlan::header holds its end, as the cursor does at first.
constexpr uint32_t bytes_of_ends(const wire::SlotLayout& layout) { return layout.ends_at != 0 ? wire::column_bytes : 0; }

constexpr Gpr next(Gpr r) { return {static_cast<uint8_t>(r.index + 1)}; }

// Bits of the lane number, which stand in the low bits of `v`, to the predicates of the lane groups. Clobbers t and u.
void set_lane_groups(Sequence& seq, const LaneGroups& g, Gpr v, Gpr t, Gpr u) {
  constexpr unsigned group_bit = 3;   // lane / 8
  const unsigned k = g.bit0.index;
  put(seq, k <= group_bit ? enc::shf_r_u32_hi_imm(t, v, static_cast<uint8_t>(group_bit - k))
                          : enc::shf_l_u32_imm(t, v, static_cast<uint8_t>(k - group_bit)));
  if (g.both != Pred{}) put(seq, enc::lop3_imm(u, v, 0x18, enc::RZ, lut_and));
  put_pause(seq, vector_to_vector - 1);
  put(seq, enc::r2p(t, static_cast<uint8_t>(3u << k)));
  if (g.both != Pred{}) put(seq, enc::isetp_imm(g.both, enc::Compare::eq, false, u, 0x18));
}

// offset := 4 * lane, of the thread number in v.
void set_lane_offset(Sequence& seq, Gpr offset, Gpr v, uint8_t wait_mask) {
  put(seq, enc::lop3_imm(offset, v, 31, enc::RZ, lut_and), {.stall = vector_to_vector, .wait_mask = wait_mask});
  put(seq, enc::shf_l_u32_imm(offset, offset, 2), after(vector_to_memory));
}

// 4 * (lane / 4), of the thread number in v.
sass::RawInst set_sector_word(Gpr word, Gpr v) { return enc::lop3_imm(word, v, 28, enc::RZ, lut_and); }

// In whole sectors a head is stored four times, by lanes whose number v (or that of their threads) says where: the address of the sector
// becomes that of the lane's copy. That of the first lane stays as it is.
sass::RawInst own_copy(Gpr address, Gpr v) {
  constexpr unsigned registers = sizeof(wire::SlotHead) / sizeof(uint32_t);
  return enc::lop3_imm(address, v, sector_place_mask(registers), address, lut_and_or);
}

// Of the thread number in v, of which bits [4:3] are the group. After vector_to_vector cycles.
void set_lane_masks(Sequence& seq, const LaneMasks& m, Gpr v, uint8_t wait_mask) {
  constexpr uint8_t group_bit = 3;   // lane / 8
  put(seq, enc::shf_r_u32_hi_imm(m.bit0, v, group_bit), {.stall = 1, .wait_mask = wait_mask});
  put(seq, enc::shf_r_u32_hi_imm(m.bit1, v, group_bit + 1), after(vector_to_vector));
  put(seq, enc::lop3_imm(m.bit0, m.bit0, 1, enc::RZ, lut_and));
  put(seq, enc::lop3_imm(m.bit1, m.bit1, 1, enc::RZ, lut_and), after(vector_to_vector));
  put(seq, enc::imad_imm(m.bit0, m.bit0, ~0u, enc::RZ));
  put(seq, enc::imad_imm(m.bit1, m.bit1, ~0u, enc::RZ), after(vector_to_vector));
  put(seq, enc::lop3(m.both, m.bit0, m.bit1, enc::RZ, lut_and));
}

// Of the thread number in v. After predicate_to_guard cycles.
void set_lane_words(Sequence& seq, const LaneWords& words, Gpr v, uint8_t wait_mask) {
  put(seq, enc::lop3_imm_any(words.place.value_or(enc::RZ), words.odd, v, LaneWords::odd_lanes, enc::RZ, lut_and), {.stall = 1, .wait_mask = wait_mask});
}

// The second word of a SlotHead: the bytes of the time moved to where SR_VIRTID leaves room, then both in one word.
sass::RawInst place_time(Gpr time) {
  constexpr uint32_t time_bytes = 0x2211;
  return enc::prmt_imm(time, time, time_bytes, enc::RZ);
}
sass::RawInst pack_place(Gpr packed, Gpr virtid, Gpr placed_time) {
  constexpr uint8_t lut_select = 0xe2;   // (a & b) | (c & ~b)
  return enc::lop3_imm(packed, virtid, wire::SlotHead::virtid_bits, placed_time, lut_select);
}

sass::RawInst store_head(enc::VectorAddress address, Gpr data) {
  return with_record_policy(enc::stg(address, data, Size::b64));
}

constexpr Schedule when_read(unsigned stall) { return {.stall = stall, .wait_mask = 1u << sb_values}; }

class Classic {
 public:
  Classic(const sass::Arch& arch, const LaunchShape& shape, const Plan& plan, const wire::SlotLayout& layout,
          const std::optional<LaneGroups>& groups, const LaneRegisters& lanes, const UniformPlan& ur, Gpr first, size_t blocks)
      : arch_(arch), shape_(shape), plan_(plan), layout_(layout), groups_(groups), lanes_(lanes), ur_(ur), blocks_(blocks), tid(first) {}

  Prologue build() {
    read_coordinates(shape_.block, enc::sr_tid_x, tid, r2, r3);
    read_coordinates(shape_.grid, enc::sr_ctaid_x, cta, r6, r7);
    linearise(shape_.block, tid, r2, r3);
    linearise(shape_.grid, cta, r6, r7);
    if (groups_) {
      put(seq_, enc::nop(), when_read(1));
      set_lane_groups(seq_, *groups_, tid, r2, r3);
    }
    if (lanes_.offset) set_lane_offset(seq_, *lanes_.offset, tid, 1u << sb_values);
    if (lanes_.masks) set_lane_masks(seq_, *lanes_.masks, tid, 1u << sb_values);
    if (lanes_.sector_word) put(seq_, set_sector_word(*lanes_.sector_word, tid), when_read(1));
    if (lanes_.words && lanes_.words->used) set_lane_words(seq_, *lanes_.words, tid, 1u << sb_values);
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

  uint32_t per_cta() const { return warps_per_cta(shape_); }

  // tid := warp number in the launch
  void number_warp() { put(seq_, enc::imad_imm(tid, cta, per_cta(), tid), when_read(vector_to_vector)); }

  // rd:rd+1 = base + index * scale
  void element_address(Gpr rd, uint64_t base, Gpr index, uint32_t scale) {
    put(seq_, enc::mov_imm(rd, static_cast<uint32_t>(base)));
    put(seq_, enc::mov_imm(next(rd), static_cast<uint32_t>(base >> 32)), after(vector_to_vector));
    put(seq_, enc::imad_wide_u32_imm(rd, index, scale, rd), after(vector_to_vector));
  }
  void to_uniform(Ureg to, Gpr reg, unsigned stall = 1) { instrument::to_uniform(arch_, seq_, to, reg, stall, sb_values); }

  void header_address() {
    element_address(r4, layout_.headers, tid, sizeof(wire::WarpHeader));
    to_uniform(ur_.header, r4);
    to_uniform(high_half(ur_.header), r5);
  }

  // Of all copies of the counters that of this warp; there those of the last warp of a CTA may stand apart.
  void counters() {
    const uint64_t of_last = layout_.counters + blocks_ * sizeof(wire::BlockCount);
    const Pred last{0};
    if (plan_.last_apart) put(seq_, enc::isetp_imm(last, enc::Compare::eq, false, tid, per_cta() - 1), after(predicate_to_guard));
    number_warp();
    if (!plan_.counts_alone) header_address();
    put(seq_, enc::lop3_imm(r6, tid, layout_.counter_copies - 1, enc::RZ, lut_and));
    put(seq_, enc::mov_imm(r2, static_cast<uint32_t>(layout_.counters)));
    put(seq_, enc::mov_imm(r3, static_cast<uint32_t>(layout_.counters >> 32)), after(vector_to_vector));
    if (plan_.last_apart) {
      put(seq_, enc::with_guard(enc::mov_imm(r2, static_cast<uint32_t>(of_last)), last));
      put(seq_, enc::with_guard(enc::mov_imm(r3, static_cast<uint32_t>(of_last >> 32)), last), after(vector_to_vector));
    }
    put(seq_, enc::imad_wide_u32_imm(r2, r6, layout_.copy_bytes, r2), after(vector_to_vector));
    to_uniform(ur_.address, r2);
    to_uniform(high_half(ur_.address), r3, plan_.counts_alone ? r2ur_to_use : 1);
    if (plan_.counts_alone) return;
    put(seq_, enc::umov_imm(ur_.base, 0));   // of few: URZ, likewise the mask
    put(seq_, enc::umov_imm(ur_.mask, 0));
    put(seq_, enc::umov_imm(ur_.cursor, 0), after(r2ur_to_use));
    store_header();
  }

  // r6:r7 = slot; with `mask`, the slot's mask in its uniform register.
  void slot_address(bool mask) {
    if (layout_.table != 0) {
      element_address(r2, layout_.table, tid, sizeof(wire::SlotEntry));
      put(seq_, enc::ldg(r4, enc::VectorAddress{r2}, Size::b128), loads());
      if (mask) put(seq_, enc::mov(r2, r6), when_read(1));
      put(seq_, enc::mov(r6, r4), when_read(1));
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

  void plain_slot() {
    number_warp();
    slot_address(false);
    if (lanes_.sector_word) put(seq_, own_copy(r6, *lanes_.sector_word), after(vector_to_vector));
    to_uniform(ur_.address, r6);
    to_uniform(high_half(ur_.address), r7, layout_.headless ? r2ur_to_use : 1);
    if (layout_.ends_at != 0) {
      to_uniform(ur_.header, r6);
      to_uniform(high_half(ur_.header), r7);
    }
    if (layout_.headless) return;
    put(seq_, enc::s2r(r2, enc::sr_virtid), loads(r2ur_to_use));
    put(seq_, enc::cs2r32(r5, enc::sr_globaltimer_lo));
    put(seq_, enc::cs2r32(r4, enc::sr_clock_lo), after(clock_to_vector(arch_)));
    put(seq_, place_time(r5), after(vector_to_vector));
    put(seq_, pack_place(r5, r2, r5), when_read(vector_to_memory));
    put(seq_, store_head({r6}, r4), {.stall = scoreboard_visible, .read_barrier = sb_stores});
    const uint32_t first_record = layout_.lead_bytes + bytes_of_ends(layout_);
    if (layout_.ends_at != 0) put(seq_, enc::uiadd3_imm(ur_.header, ur_.header, first_record));
    put(seq_, enc::uiadd3_imm(ur_.address, ur_.address, first_record), after(uniform_to_vector));
    drain();
  }

  const sass::Arch& arch_;
  const LaunchShape& shape_;
  const Plan& plan_;
  const wire::SlotLayout& layout_;
  const std::optional<LaneGroups>& groups_;
  const LaneRegisters& lanes_;
  const UniformPlan& ur_;
  const size_t blocks_;
  const Gpr tid, cta = next(tid), r2 = next(cta), r3 = next(r2), r4 = next(r3), r5 = next(r4), r6 = next(r5), r7 = next(r6);
  Prologue out_;
  Sequence& seq_ = out_.words;
};

using Registers = std::array<Gpr, 8>;   // [2,3] and [4,5] are aligned pairs

class Light {
 public:
  Light(const sass::Arch& arch, const LaunchShape& shape, const wire::SlotLayout& layout,
        const std::optional<LaneGroups>& groups, const LaneRegisters& lanes, const Scratch& scratch,
        const Registers& r, const OwnNumbers& own, const HeldHead* held)
      : arch_(arch), shape_(shape), layout_(layout), groups_(groups), lanes_(lanes), ur_(scratch.uniform()),
        sb_(scratch.scoreboard()), r_(r), own_(own),
        holds_head_(held != nullptr), first_record_(layout.lead_bytes + (held != nullptr ? held->record_bytes : 0) + bytes_of_ends(layout)) {}

  struct Start {
    Sequence front, loads;
  };
  // First half: what needs no loads, and loads.
  Start start() {
    Start out;
    Sequence& seq = out.loads;
    std::vector<Gpr> spare{r_[4], r_[5], r_[2], r_[1]};
    const auto load = [&](uint8_t sr, Gpr to) { put(seq, enc::s2r(to, sr), {.stall = 1, .write_barrier = sb_}); };
    const auto coordinate = [&](size_t number, uint8_t sr, Gpr to) {
      if (!own_[number]) load(sr, to);
    };
    const auto others = [&](const Dim3& extent, size_t number, uint8_t first, Gpr (&yz)[2]) {
      const unsigned n = extent.z > 1 ? 2 : extent.y > 1 ? 1 : 0;
      for (unsigned k = 0; k < n; ++k) {
        yz[k] = spare.back();
        spare.pop_back();
        coordinate(number + 1 + k, static_cast<uint8_t>(first + 1 + k), yz[k]);
      }
    };
    const auto extra = [](const Dim3& d) { return d.z > 1 ? 2u : d.y > 1 ? 1u : 0u; };
    taken_ = extra(shape_.block) + extra(shape_.grid);
    if (taken_ == 0) constants(out.front);   // they are ready when the loads are issued
    coordinate(0, enc::sr_tid_x, r_[0]);
    coordinate(3, enc::sr_ctaid_x, r_[3]);
    others(shape_.block, 0, enc::sr_tid_x, tid_yz_);
    others(shape_.grid, 3, enc::sr_ctaid_x, cta_yz_);
    if (!layout_.headless) load(enc::sr_virtid, virtid());
    if (!seq.empty()) put_pause(seq, scoreboard_visible - 1);
    if (!layout_.headless && taken_ < 4) put(out.front, enc::cs2r32(clock(), enc::sr_clock_lo));
    return out;
  }

  Sequence finish() {
    Sequence seq;
    uint8_t waits = static_cast<uint8_t>(1u << sb_);
    for (const auto& own : own_)
      if (own) waits |= own->wait;
    const auto wait = [&](unsigned stall) { return Schedule{.stall = stall, .wait_mask = waits}; };
    // Our own register, or the kernel's.
    const auto number = [&](size_t k, Gpr ours) {
      if (!own_[k]) return ours;
      if (own_[k]->vector) return *own_[k]->vector;
      put(seq, enc::mov_from_ur(ours, own_[k]->uniform), wait(vector_to_vector));
      return ours;
    };
    const auto linearise = [&](const Dim3& extent, size_t first, Gpr to, const Gpr (&yz)[2]) {
      const Gpr x = number(first, to);
      if (extent.y <= 1 && extent.z <= 1) return x;
      Gpr y = number(first + 1, yz[0]);
      if (extent.z > 1) {
        const Gpr z = number(first + 2, yz[1]);
        put(seq, enc::imad_imm(yz[0], z, extent.y, y), wait(vector_to_vector));
        y = yz[0];
      }
      put(seq, enc::imad_imm(to, y, extent.x, x), wait(vector_to_vector));
      return to;
    };
    thread_ = linearise(shape_.block, 0, r_[0], tid_yz_);
    block_ = linearise(shape_.grid, 3, r_[3], cta_yz_);
    if (taken_ > 0) {
      constants(seq);
      if (taken_ == 4 && !layout_.headless) put(seq, enc::cs2r32(clock(), enc::sr_clock_lo));
      put_pause(seq, clock_to_vector(arch_) - 1);
    }
    if (lanes_.words && lanes_.words->used) set_lane_words(seq, *lanes_.words, thread(), waits);
    // address = slots + block * (slots of a CTA) + warp * slot
    put(seq, enc::imad_imm(address(), block(), layout_.slot_bytes * warps_per_cta(shape_), address()), wait(1));
    put(seq, enc::shf_r_u32_hi_imm(warp(), thread(), 5), after(1));
    if (lanes_.sector_word) put(seq, set_sector_word(*lanes_.sector_word, thread()));
    if (!layout_.headless) {
      put_pause(seq, clock_to_vector(arch_) - vector_to_vector);   // beside what has passed since the time was read
      put(seq, place_time(time()));
    }
    put_pause(seq, vector_to_vector - 1);
    put(seq, enc::imad_imm(address(), warp(), layout_.slot_bytes, address()), after(lanes_.sector_word ? vector_to_vector : 1));
    if (lanes_.sector_word) put(seq, own_copy(address(), thread()));
    if (layout_.headless) {
      put_pause(seq, vector_to_vector - 1);
    } else {
      put(seq, pack_place(packed(), virtid(), time()));
      put(seq, enc::mov_imm(next(address()), static_cast<uint32_t>(layout_.slots >> 32)), after(vector_to_memory));
    }
    to_uniform(arch_, seq, ur_.address, address(), 1, sb_);
    if (layout_.ends_at != 0) to_uniform(arch_, seq, ur_.header, address(), 1, sb_);
    if (!holds_head_ && !layout_.headless)
      put(seq, store_head({address(), -static_cast<int32_t>(first_record_)}, clock()),
          {.stall = scoreboard_visible, .read_barrier = sb_});
    if (groups_) set_lane_groups(seq, *groups_, thread(), spare(), virtid());
    if (lanes_.offset) set_lane_offset(seq, *lanes_.offset, thread(), 0);
    if (lanes_.masks) set_lane_masks(seq, *lanes_.masks, thread(), 0);
    return seq;
  }

 private:
  // Registers by use, in time; [2,3] hold an address and [4,5] the head in the end.
  Gpr thread() const { return thread_; }
  Gpr time() const { return r_[1]; }
  Gpr address() const { return r_[2]; }
  Gpr block() const { return block_; }
  Gpr clock() const { return r_[4]; }
  Gpr packed() const { return r_[5]; }
  Gpr warp() const { return r_[5]; }
  Gpr virtid() const { return r_[6]; }
  Gpr spare() const { return r_[7]; }

  void constants(Sequence& seq) {
    put(seq, enc::mov_imm(address(), static_cast<uint32_t>(layout_.slots) + first_record_));
    for (const Ureg pair : {ur_.address, ur_.header})
      if (pair.index == ur_.address.index || layout_.ends_at != 0) put(seq, enc::umov_imm(high_half(pair), static_cast<uint32_t>(layout_.slots >> 32)));
    if (!layout_.headless) put(seq, enc::cs2r32(time(), enc::sr_globaltimer_lo));
  }

  const sass::Arch& arch_;
  const LaunchShape& shape_;
  const wire::SlotLayout& layout_;
  const std::optional<LaneGroups>& groups_;
  const LaneRegisters& lanes_;
  const UniformPlan& ur_;
  uint8_t sb_;
  Registers r_;
  OwnNumbers own_;
  Gpr thread_, block_;   // in finish()
  bool holds_head_;
  uint32_t first_record_;   // where the cursor starts, in the slot
  Gpr tid_yz_[2], cta_yz_[2];
  unsigned taken_ = 0;   // registers of [1,2,5,4] that held further coordinates
};

Registers eight_from(Gpr first) {
  Registers r;
  for (size_t k = 0; k < r.size(); ++k) r[k] = {static_cast<uint8_t>(first.index + k)};
  return r;
}

// Registers of what probes have put up to and in front of instruction `last`.
sass::RegSet registers_up_to(const sass::Arch& arch, const Insertions& insertions, InstIndex last) {
  sass::RegSet taken;
  for (InstIndex i = 0; i <= last; ++i)
    for (const Sequence* seq : {&insertions.before[i], &insertions.after[i]})
      for (const sass::RawInst& w : *seq) {
        const sass::Effects fx = sass::effects(arch, enc::for_arch(arch, w), 0);
        taken |= fx.use.gpr | fx.def.gpr;
      }
  return taken;
}

Registers registers_of(const Holder& a, const Holder& b) {
  return {a.r(0), a.r(1), a.r(2), a.r(3), b.r(0), b.r(1), b.r(2), b.r(3)};
}

}  // namespace

void to_uniform(const sass::Arch& arch, Sequence& seq, Ureg to, Gpr from, unsigned stall, uint8_t sb) {
  const sass::RawInst w = enc::r2ur(to, from);
  if (sass::effects(arch, enc::for_arch(arch, w), 0).fixed_latency) return put(seq, w, after(stall));
  put(seq, w, {.stall = std::max(stall, scoreboard_visible), .write_barrier = sb});
  put(seq, enc::nop(), {.stall = 1, .wait_mask = static_cast<uint8_t>(1u << sb)});
}

bool has_light_prologue(const Plan& plan, const wire::SlotLayout& layout) {
  if (plan.probe == ProbeKind::count || layout.wraps || layout.table != 0) return false;
  const uint64_t end = layout.slots + uint64_t{layout.warps} * layout.slot_bytes - 1;
  return layout.slots >> 32 == end >> 32;   // one high word for all
}

bool may_read_clocks_early(const Plan& plan, const wire::SlotLayout& layout, const Blocks& blocks) {
  return plan.probe == ProbeKind::inst && plan.clock_gap != 0 && has_light_prologue(plan, layout) && blocks.runs_once(0);
}

uint32_t warps_per_cta(const LaunchShape& shape) { return static_cast<uint32_t>((shape.block.count() + 31) / 32); }

Prologue build_prologue(const Code& code, const Blocks& blocks, const LaunchShape& shape, const Plan& plan,
                        const wire::SlotLayout& layout, const std::optional<LaneGroups>& groups,
                        const std::optional<HeldHead>& held, const LaneRegisters& lanes,
                        const Insertions& insertions, Scratch& scratch) {
  if (!has_light_prologue(plan, layout)) {
    Prologue classic = Classic(*code.arch, shape, plan, layout, groups, lanes, scratch.uniform(), scratch.prologue(), blocks.blocks.size()).build();
    classic.settle = groups || (lanes.words && lanes.words->used) ? predicate_to_guard : 0;
    return classic;
  }
  Prologue out;
  out.settle = std::max(r2ur_to_use, groups ? predicate_to_guard : 0);
  const auto split = [&](InstIndex at, const Holder& a, const Holder& b) {
    const Registers registers = registers_of(a, b);
    sass::RegSet taken;
    for (const Gpr r : registers) taken.set(r.index);
    const OwnNumbers own = own_numbers(code, insertions, at, !layout.headless, scratch.shared_scoreboards(), taken);
    Light light(*code.arch, shape, layout, groups, lanes, scratch, registers, own, held ? &*held : nullptr);
    auto [front, loads] = light.start();
    out.words = std::move(front);
    out.loads = std::move(loads);
    out.loads_at = behind_own_loads(code, blocks.blocks[0], at);
    out.rest = light.finish();
    out.rest_at = at;
  };
  if (held) {
    split(held->rest_at, held->loads, held->head);
    return out;
  }
  // Under `pair` the kernel's own waits are what is measured: nothing stands in their shadow.
  const auto at = plan.probe == ProbeKind::pair ? std::nullopt
                                                   : first_wait(code, blocks, insertions, may_read_clocks_early(plan, layout, blocks), lanes.sector_word);
  if (at) {
    using Shape = Holder::Shape;
    const sass::RegSet taken = registers_up_to(*code.arch, insertions, *at);
    const auto a = scratch.try_holder(0, *at, {Shape::quad}, std::nullopt, taken);
    const auto b = a ? scratch.try_holder(0, *at, {Shape::quad}, a, taken) : std::nullopt;
    if (b && b->reg[0] != a->reg[0]) {
      split(*at, *a, *b);
      return out;
    }
  }
  Light light(*code.arch, shape, layout, groups, lanes, scratch,
              eight_from(scratch.prologue()), {}, nullptr);
  auto [front, loads] = light.start();
  out.words = std::move(front);
  for (const Sequence& more : {loads, light.finish()}) out.words.insert(out.words.end(), more.begin(), more.end());
  return out;
}

}  // namespace xtrace::instrument
