// Operations across the lanes of a warp. They see the lanes that execute together at that moment.
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"
#include "replay/interp/value/integer.h"

namespace xtrace::replay::interp {
namespace {

// --- VOTE, VOTEU: ALL ANY EQ of a predicate, and its lanes
bool vote_result(unsigned mode, uint32_t lanes, uint32_t mask) {
  return mode == 0 ? lanes == mask : mode == 1 ? lanes != 0 : lanes == mask || lanes == 0;
}
void vote(Step& s, const Inst& i) {
  const uint32_t lanes = s.pred(i.pp) & s.mask;
  s.set_pred(i.pu, vote_result(i.op, lanes, s.mask) ? all_lanes : 0);
  map(s, i.d[0], [&](unsigned) { return lanes; });
}
void voteu(Step& s, const Inst& i) {
  const uint32_t lanes = s.pred(i.pp) & s.mask;
  broadcast(s, i.d[0], lanes);
  if (i.pu != upt) s.warp->preds[i.pu] = vote_result(i.op, lanes, s.mask) ? all_lanes : 0;
}
void decode_mode(Decoder& d, Inst& i) {
  i.op = d.take(73, 72);
  if (i.op == 3) d.refuse("an invalid kind of vote");
}
void decode_vote(Decoder& d, Inst& i) {
  d.dst_gpr(i);
  decode_mode(d, i);
  i.pu = d.pred_dst(81);
  i.pp = d.pred(87);
  i.exec = vote;
}
void decode_voteu(Decoder& d, Inst& i) {
  d.dst_ur(i);
  decode_mode(d, i);
  i.pu = static_cast<uint8_t>(d.take(83, 81) + 8);
  i.pp = d.pred(87, false);
  i.exec = voteu;
}

// ELECT: true in one of the lanes. Which one is the hardware's choice; here the lowest.
void elect(Step& s, const Inst& i) { s.set_pred(i.pu, s.mask & (0u - s.mask)); }
void decode_elect(Decoder& d, Inst& i) {
  if (d.extended()) return d.refuse("ELECT with a set of lanes");
  d.expect(21, 16, 63, "the uniform result");
  i.pu = d.pred_dst(81);
  d.expect(90, 87, 7, "the condition");
  i.exec = elect;
}

// R2UR: the value of the first lane that executes it.
// The predicate: lanes that have another one. [measured H200]
void r2ur(Step& s, const Inst& i) {
  const uint32_t* a = s.row(i.a[0]);
  const uint32_t value = a[first_lane(s.mask)];
  s.set_pred(i.pu, test(s, [&](unsigned l) { return a[l] != value; }));
  broadcast(s, i.d[0], value);
}
void decode_r2ur(Decoder& d, Inst& i) {
  d.dst_ur(i);
  d.gprs(i.a, 24, 1);
  i.pu = static_cast<uint8_t>(d.take(83, 81));
  i.exec = r2ur;
}

// SHFL IDX UP DOWN BFLY. c: clamp in bits 4:0, segment mask in bits 12:8. [PTX ISA]
void shfl(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]), b(s, i.b[0]), c(s, i.c[0]);
  uint32_t value[lane_count], inside = 0;
  for (uint32_t m = s.mask; m != 0; m &= m - 1) {
    const unsigned l = first_lane(m);
    const uint32_t by = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31;
    const uint32_t most = (l & segment) | (clamp & ~segment), least = l & segment;
    int from;
    bool in;
    switch (i.op) {
      case 0:
        from = static_cast<int>(least | (by & ~segment)), in = from <= static_cast<int>(most);
        break;
      case 1:
        from = static_cast<int>(l) - static_cast<int>(by), in = from >= static_cast<int>(most);
        break;
      case 2:
        from = static_cast<int>(l + by), in = from <= static_cast<int>(most);
        break;
      default:
        from = static_cast<int>(l ^ by), in = from <= static_cast<int>(most);
        break;
    }
    if (!in) from = static_cast<int>(l);
    if ((s.mask >> from & 1) == 0)
      return s.fail(ErrorKind::unsupported,
                    fmt::format("it reads lane {}, which does not take part: the value is undefined", from),
                    static_cast<int>(l));
    value[l] = a[static_cast<unsigned>(from)];
    inside |= static_cast<uint32_t>(in) << l;
  }
  s.set_pred(i.pu, inside);
  map(s, i.d[0], [&](unsigned l) { return value[l]; });
}
void decode_shfl(Decoder& d, Inst& i) {
  d.dst_gpr(i);
  d.gprs(i.a, 24, 1);
  i.op = d.take(59, 58);
  const uint16_t form = d.opcode();
  const bool literal_lane = form == 0x989 || form == 0xf89, literal_clamp = form == 0x589 || form == 0xf89;
  if (literal_lane)
    i.b[0] = d.constant(d.take(57, 53));
  else
    d.gprs(i.b, 32, 1);
  if (literal_clamp)
    i.c[0] = d.constant(d.take(52, 40));
  else
    d.gprs(i.c, 64, 1);
  if (form == 0xf89) d.hint(71, 64);  // no register there in this form
  i.pu = d.pred_dst(81);
  i.unit = Unit::shared_memory;
  i.exec = shfl;
}

// REDUX: AND OR XOR SUM MIN MAX over the lanes that execute it.
void redux(Step& s, const Inst& i) {
  const Plain a(s, i.a[0]);
  uint32_t r = a[first_lane(s.mask)];
  for (uint32_t m = s.mask & (s.mask - 1); m != 0; m &= m - 1) {
    const uint32_t v = a[first_lane(m)];
    switch (i.op) {
      case 0:
        r &= v;
        break;
      case 1:
        r |= v;
        break;
      case 2:
        r ^= v;
        break;
      case 3:
        r += v;
        break;
      default:
        r = value::imnmx(r, v, i.op == 4, i.flag[0]);
        break;
    }
  }
  broadcast(s, i.d[0], r);
}
void decode_redux(Decoder& d, Inst& i) {
  d.dst_ur(i);
  d.gprs(i.a, 24, 1);
  i.op = d.take(80, 78);
  if (i.op > 5) d.refuse("the operation");
  i.flag[0] = d.flag(73);
  i.unit = Unit::other;
  i.exec = redux;
}

// MATCH.ANY: lanes with the same value. MATCH.ALL: all lanes and a true predicate when they agree, else 0.
uint32_t lanes_like(const Step& s, const Inst& i, unsigned l) {
  const Plain a(s, i.a[0]), high(s, i.a[1]);
  return test(s, [&](unsigned k) { return a[k] == a[l] && high[k] == high[l]; });
}
void match_any(Step& s, const Inst& i) {
  uint32_t same[lane_count] = {};
  for (uint32_t m = s.mask; m != 0; m &= m - 1) same[first_lane(m)] = lanes_like(s, i, first_lane(m));
  map(s, i.d[0], [&](unsigned l) { return same[l]; });
}
void match_all(Step& s, const Inst& i) {
  const bool agree = lanes_like(s, i, first_lane(s.mask)) == s.mask;
  map(s, i.d[0], [&](unsigned) { return agree ? s.mask : 0; });
  s.set_pred(i.pu, agree ? all_lanes : 0);
}
void decode_match(Decoder& d, Inst& i) {
  const bool any = d.flag(79), wide = d.flag(73);
  d.dst_gpr(i);
  d.gprs(i.a, 24, wide ? 2 : 1);
  if (!wide) i.a[1] = d.constant(0);
  i.pu = any ? d.no_pred_dst(81, "a predicate result") : d.pred_dst(81);
  i.unit = Unit::other;
  i.exec = any ? match_any : match_all;
}

constexpr Op ops[] = {
    {"VOTE", 0x006, decode_vote},   {"VOTEU", 0x086, decode_voteu}, {"ELECT", 0x02f, decode_elect},
    {"R2UR", 0x0ca, decode_r2ur},   {"R2UR", 0x1c2, decode_r2ur},   {"SHFL", 0x189, decode_shfl},   {"REDUX", 0x1c4, decode_redux},
    {"MATCH", 0x1a1, decode_match},
};

}  // namespace

std::span<const Op> warp_ops() { return ops; }

}  // namespace xtrace::replay::interp
