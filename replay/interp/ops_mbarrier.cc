// Barriers in shared memory (mbarrier), bulk copies that complete on them, and what orders the two.
//
// A copy is made at once, and at once it is complete: its bytes must not be read, nor its source be written,
// before it is waited for, so no correct kernel can tell.
#include "replay/interp/mbarrier.h"

#include "replay/interp/address.h"
#include "replay/interp/op_table.h"
#include "replay/interp/paths.h"

namespace xtrace::replay::interp {

void change_barrier(Step& s, std::byte* p, const value::MbarrierChange& by, unsigned lane) {
  if (p == nullptr) return;  // the step has failed
  uint64_t state;
  std::memcpy(&state, p, sizeof state);
  if (!value::change(state, by))
    return s.fail(
        ErrorKind::device,
        fmt::format("a count of the barrier leaves its range: state {:#018x}, {} arrivals, {} bytes", state,
                    by.arrivals, by.bytes),
        static_cast<int>(lane));
  std::memcpy(p, &state, sizeof state);
  s.cta->event_clock = std::max(s.cta->event_clock, s.warp->clock);
}

namespace {

// --- SYNCS.ARRIVE: what arrives, and which of its two counts the register gives. Bits 86:84. [what ptxas 13
// makes of the instructions of PTX behind each]
enum Arrival : uint32_t {
  one_and_bytes = 0,     // arrive.expect_tx
  one = 1,               // .A1T0: arrive
  one_more_awaited = 2,  // .A0TR alone, with RZ: in front of cp.async.mbarrier.arrive
  bytes = 3,             // .A1T0.A0TR: expect_tx
  bytes_came = 4,        // .ART0: complete_tx
  several = 5,           // .A1T0.ART0: arrive with a count
};
value::MbarrierChange change_of(uint32_t arrival, uint32_t v, bool drop) {
  const auto n = static_cast<int32_t>(v);
  value::MbarrierChange by;
  switch (arrival) {
    case one_and_bytes:
      by = {1, n};
      break;
    case one:
      by = {1};
      break;
    case one_more_awaited:
      by = {-1};
      break;
    case bytes:
      by = {0, n};
      break;
    case bytes_came:
      by = {0, -n};
      break;
    default:
      by = {n};
      break;
  }
  if (drop) by.dropped = static_cast<uint32_t>(by.arrivals);
  return by;
}
// One lane after the other. Of the state before only the upper word is given. [measured H200] .RED gives none, and the barrier
// may be that of another CTA.
void syncs_arrive(Step& s, const Inst& i) {
  const Plain b(s, i.b[0]);
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint32_t address = address32(s, i, l);
    std::byte* p = i.flag[0] ? cluster_bytes(s, address, 8, l) : shared_bytes(s, address, 8, l);
    uint64_t before = 0;
    if (p != nullptr) std::memcpy(&before, p, sizeof before);
    change_barrier(s, p, change_of(i.op, b[l], i.flag[1]), l);
    if (s.faulted) return;
    s.out(i.d[1])[l] = static_cast<uint32_t>(before >> 32);
  }
}
void decode_arrive(Decoder& d, Inst& i) {
  decode_address32(d, i, 64);
  d.dst_gpr(i, 2);
  const bool no_register = get_bits(d.word(), bits(39, 32)) == 255;
  d.gprs(i.b, 32, 1);
  d.expect(73, 73, 0, ".TMASK");
  i.flag[0] = d.flag(74);
  i.flag[1] = d.flag(75);
  i.op = d.take(86, 84);
  if (i.op > several || (i.op == one_more_awaited && !no_register)) d.refuse("what arrives");
  if (i.flag[0] && i.d[0] != d.program().layout.sink()) d.refuse("a state that .RED gives");
  i.unit = Unit::shared_memory;
  i.exec = syncs_arrive;
}

// ARRIVES.LDGSTSBAR: an arrival of each lane when its copies by LDGSTS are there, which they are.
void arrives(Step& s, const Inst& i) {
  for (uint32_t m = s.mask; m != 0 && !s.faulted; m &= m - 1) {
    const unsigned l = first_lane(m);
    change_barrier(s, shared_bytes(s, address32(s, i, l), 8, l), {1}, l);
  }
}
void decode_arrives(Decoder& d, Inst& i) {
  decode_address32(d, i, 64);
  d.expect(75, 75, 1, "a barrier of 32 bits");
  d.expect(73, 73, 1, "what arrives");
  d.hint(71, 70);
  i.unit = Unit::shared_memory;
  i.exec = arrives;
}

// --- SYNCS.PHASECHK: whether the phase whose parity is bit 31 of the register is over. .TRYWAIT may wait for
// it; here it does until nothing else in the CTA can go on.
void phase_check(Step& s, const Inst& i) {
  const Plain b(s, i.b[0]);
  const unsigned first = first_lane(s.mask);
  const uint32_t address = address32(s, i, first), parity = b[first] >> 31;
  uint32_t over = 0;
  bool uniform = true;
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const std::byte* p = shared_bytes(s, address32(s, i, l), 8, l);
    if (p == nullptr) return;
    uint64_t state;
    std::memcpy(&state, p, sizeof state);
    over |= uint32_t{value::parity(state) != (b[l] >> 31 != 0)} << l;
    uniform &= address32(s, i, l) == address && b[l] >> 31 == parity;
  }
  if (i.flag[0] && uniform && over == 0) {
    const auto offset = static_cast<uint32_t>(shared_bytes(s, address, 8, first) - s.cta->shared.data());
    return wait_trying(s, PathState::at_mbarrier, {s.mask, offset, parity != 0, i.pu});
  }
  s.set_pred(i.pu, over);
}
void decode_phase_check(Decoder& d, Inst& i) {
  decode_address32(d, i, 64);
  d.gprs(i.b, 32, 1);
  i.flag[0] = d.flag(72);
  i.pu = d.pred_dst(81);
  d.hint(70, 70);
  d.hint(90, 87);
  i.unit = Unit::shared_memory;
  i.exec = phase_check;
}

// --- SYNCS.EXCH.64: mbarrier.init. Once for the warp.
void syncs_exchange(Step& s, const Inst& i) {
  const unsigned l = first_lane(s.mask);
  std::byte* p = shared_bytes(s, address32(s, i, l), 8, l);
  if (p == nullptr) return;
  uint32_t before[2], after[2] = {s.row(i.b[0])[0], s.row(i.b[1])[0]};
  std::memcpy(before, p, sizeof before);
  std::memcpy(p, after, sizeof after);
  for (unsigned k = 0; k < 2; ++k) broadcast(s, i.d[k], before[k]);
}
void decode_exchange(Decoder& d, Inst& i) {
  i.a[0] = Operand{d.program().layout.zero()};
  d.urs(&i.c[2], 24, 1);
  i.offset = d.take_signed(63, 40);
  d.urs(i.b, 32, 2);
  d.dst_ur(i, 2);
  d.expect(72, 72, 1, "the size");
  i.unit = Unit::shared_memory;
  i.exec = syncs_exchange;
}

// --- UBLKCP: i.a destination, i.b source (64 bits in global memory; in shared memory the first word, and
// with a destination there the barrier in its second one), i.c[0] size in units of 16 bytes in its lower
// half, CTAs of .MULTICAST in its upper one.
struct Place {
  bool shared;
  uint32_t low, high;
};
Place place(const Step& s, const Operand (&o)[4], bool shared) {
  return {shared, s.row(o[0])[0], s.row(o[1])[0]};
}
std::byte* piece(Step& s, const Place& p, uint32_t size) {
  const unsigned l = first_lane(s.mask);
  // Aligned to 16 bytes, whatever the size.
  const auto at = [&](uint32_t offset) {
    return p.shared ? cluster_bytes(s, p.low + offset, 16, l)
                    : piece_bytes(s, (uint64_t{p.high} << 32 | p.low) + offset, 16, l);
  };
  std::byte* const first = at(0);
  std::byte* const last = first != nullptr ? at(size - 16) : nullptr;
  if (last != nullptr && last != first + size - 16)
    s.fail(ErrorKind::device, fmt::format("a copy of {} bytes over more than one piece of memory", size));
  return last != nullptr ? first : nullptr;
}
void copy_to(Step& s, const std::byte* from, const Place& to, uint32_t size) {
  std::byte* p = piece(s, to, size);
  if (s.faulted || p == nullptr) return;
  std::memmove(p, from, size);
  const unsigned l = first_lane(s.mask);
  if (to.shared) change_barrier(s, cluster_bytes(s, to.high, 8, l), {0, -static_cast<int32_t>(size)}, l);
}
void log(WitnessSink& witness, const Place& from, const Place& to, uint32_t size, uint32_t ctas) {
  Moved m;
  m.bytes = size;
  m.ctas = ctas;
  for (const Place* p : {&from, &to})
    if (!p->shared) m.global = uint64_t{p->high} << 32 | p->low;
  if (to.shared) m.shared = to.low, m.barrier = to.high;
  if (from.shared) (to.shared ? m.shared_from : m.shared) = from.low;
  witness.moved(m);
}
void bulk_copy(Step& s, const Inst& i) {
  const uint32_t units = s.row(i.c[0])[0], size = (units & 0xffff) * 16, ctas = units >> 16;
  if (size == 0) return s.fail(ErrorKind::unsupported, "a copy of no bytes, which was not measured");
  if (!i.flag[2] && ctas != 0) return s.fail(ErrorKind::unsupported, "a size of more than 16 bits");
  const Place source = place(s, i.b, i.flag[1]), to = place(s, i.a, i.flag[0]);
  if (s.witness != nullptr) log(*s.witness, source, to, size, i.flag[2] ? ctas : 0);
  const std::byte* from = piece(s, source, size);
  if (s.faulted) return;
  if (!i.flag[2]) return copy_to(s, from, to, size);
  // To the same offset of every CTA, on the barrier at the same offset there.
  for (uint32_t m = ctas; m != 0 && !s.faulted; m &= m - 1) {
    const uint32_t rank = first_lane(m) << rank_shift, offset = window_bytes - 1;
    copy_to(s, from, {true, (to.low & offset) | rank, (to.high & offset) | rank}, size);
  }
}
void decode_bulk_copy(Decoder& d, Inst& i) {
  i.flag[0] = d.flag(73);
  i.flag[1] = d.flag(74);
  if (!i.flag[0] && !i.flag[1]) d.refuse("a copy from global to global memory");
  i.flag[2] = d.flag(75);
  if (i.flag[2] && !i.flag[0]) d.refuse(".MULTICAST to global memory");
  d.urs(i.a, 32, 2);
  d.urs(i.b, 24, 2);
  d.urs(i.c, 64, 1);
  if (d.flag(76)) d.hint(45, 40);  // a cache policy
  d.hint(82, 81);                  // prefetch size
  d.expect(83, 83, 0, ".SEQUENCED");
  i.unit = Unit::global_memory;
  i.exec = bulk_copy;
}

void nothing(Step&, const Inst&) {}
// Copies are complete when they are issued: there is nothing to wait for, nor to order.
void decode_order(Decoder& d, Inst& i) {
  d.hint(63, 16);
  d.hint(104, 64);
  i.exec = nothing;
}

constexpr Op ops[] = {
    {"SYNCS.ARRIVE", 0x1a7, decode_arrive}, {"SYNCS.PHASECHK", 0x1a7, decode_phase_check},
    {"SYNCS.EXCH", 0x1b2, decode_exchange}, {"SYNCS.CCTL", 0x1b1, decode_order},
    {"ARRIVES", 0x1b0, decode_arrives},     {"FENCE", 0x1c6, decode_order},
    {"UBLKCP", 0x1ba, decode_bulk_copy},    {"UTMACMDFLUSH", 0x1b7, decode_order},
};

}  // namespace

std::span<const Op> mbarrier_ops() { return ops; }

}  // namespace xtrace::replay::interp
