#include "trace/map_columns.h"

namespace xtrace::trace {
namespace {

void encode_points(std::string& out, const wire::AddressMap& map) {
  put_varint(out, map.points.size());
  for (const wire::Point& p : map.points) {
    for (uint32_t v : {p.pc, p.block, (p.after ? 1u : 0u) | (p.implied ? 2u : 0u) | (p.joined ? 4u : 0u), static_cast<uint32_t>(p.role), p.site, p.record_bytes, p.overhead_cycles})
      put_varint(out, v);
    put_varint(out, p.values.size());
    for (const wire::Value& v : p.values) {
      put_varint(out, static_cast<uint64_t>(v.kind));
      put_varint(out, v.index | (v.negated ? 0x100u : 0u));
      put_varint(out, v.place + 1);   // `same`: 0
    }
  }
  put_varint(out, map.sites_one_in);
}

void decode_points(VarintReader& in, wire::AddressMap& map) {
  map.points.resize(in.count(8));
  for (wire::Point& p : map.points) {
    p.pc = in.varint32();
    p.block = in.varint32();
    const uint64_t flags = in.varint();
    p.after = flags & 1;
    p.implied = flags & 2;
    p.joined = flags & 4;
    const uint64_t role = in.varint();
    if (role > static_cast<uint64_t>(wire::Point::Role::end)) return in.fail();
    p.role = static_cast<wire::Point::Role>(role);
    for (uint32_t* v : {&p.site, &p.record_bytes, &p.overhead_cycles}) *v = in.varint32();
    p.values.resize(in.count(3));
    for (wire::Value& v : p.values) {
      const uint64_t kind = in.varint();
      if (kind > static_cast<uint64_t>(wire::Value::Kind::target)) return in.fail();
      v.kind = static_cast<wire::Value::Kind>(kind);
      const uint32_t index = in.varint32();
      v.index = static_cast<uint8_t>(index);
      v.negated = index >> 8 & 1;
      v.place = in.varint32() - 1;
    }
  }
  map.sites_one_in = in.varint32();
}

// Instructions whose clock was not read, each as twice the distance from the one before, plus 1 where no register was free.
void encode_placed(std::string& out, const wire::Block& b) {
  std::vector<uint32_t> placed;
  for (uint32_t i = 0; i < b.clock_at.size(); ++i)
    if (b.clock_at[i].bytes >= wire::ClockPlace::implied) placed.push_back(i);
  put_varint(out, placed.size());
  uint32_t previous = 0;
  for (uint32_t i : placed) {
    put_varint(out, (i - previous) * 2 + (b.clock_at[i].bytes == wire::ClockPlace::absent));
    previous = i;
  }
}

void decode_placed(VarintReader& in, wire::Block& b) {
  constexpr uint32_t most_clocks = 1 << 16;   // of a block: what claims more is damaged
  const size_t n = in.count();
  if (n > b.clocks || b.clocks > most_clocks) return in.fail();
  if (n != 0) b.clock_at.resize(b.clocks);
  uint64_t at = 0;
  for (size_t k = 0; k < n; ++k) {
    const uint32_t step = in.varint32();
    at += step / 2;
    if (at >= b.clocks) return in.fail();
    b.clock_at[at].bytes = step % 2 != 0 ? wire::ClockPlace::absent : wire::ClockPlace::implied;
  }
}

}  // namespace

void encode_map(std::string& out, const wire::AddressMap& map) {
  put_varint(out, map.blocks.size());
  for (const wire::Block& b : map.blocks) {
    put_varint(out, b.first_pc);
    put_varint(out, b.instructions);
    put_varint(out, b.record_bytes);
    put_varint(out, b.clocks);
    put_varint(out, (b.indirect ? 1u : 0u) | (b.exits ? 2u : 0u) | (b.implied ? 4u : 0u) | (b.unrecorded ? 8u : 0u) |
                        (b.other_part ? 16u : 0u) | (b.placed ? 32u : 0u));
    put_varint(out, b.successors.size());
    for (uint32_t s : b.successors) put_varint(out, s);
    encode_placed(out, b);
  }
  put_varint(out, map.sites.size());
  for (const wire::Site& s : map.sites) {
    put_varint(out, s.pc);
    put_varint(out, s.edge);
    put_varint(out, s.overhead_cycles);
    put_varint(out, s.least_cycles);
  }
  put_varint(out, map.accesses.size());
  for (const wire::Access& a : map.accesses) {
    for (uint32_t v : {a.pc, a.block, static_cast<uint32_t>(a.space), static_cast<uint32_t>(a.kind), uint32_t{a.bytes},
                       uint32_t{a.lanes}})
      put_varint(out, v);
    put_varint(out, (a.wide ? 1u : 0u) | (a.high_is_known ? 2u : 0u) | (a.pixels ? 4u : 0u));
    put_signed(out, a.offset);
    for (uint32_t place : {a.low, a.high, a.uniform_low, a.uniform_high, a.mask}) put_varint(out, place + 1);
    put_varint(out, static_cast<uint64_t>(a.form));
    put_varint(out, a.operands.size());
    for (const wire::Access::Operand& o : a.operands) {
      put_varint(out, static_cast<uint64_t>(o.role));
      put_varint(out, o.place + 1);
    }
  }
  encode_points(out, map);
  const wire::SlotLayout& l = map.layout;
  for (uint64_t v : {l.headers, l.table, l.counters, l.slots, uint64_t{l.slot_bytes}, uint64_t{l.lead_bytes},
                     uint64_t{l.wraps}, uint64_t{l.warps}, uint64_t{l.warps_per_cta}, uint64_t{l.one_in},
                     uint64_t{l.seed}, uint64_t{l.cta_part}, uint64_t{l.all_parts}})
    put_varint(out, v);
  put_varint(out, l.memory_highs.pieces().size());
  for (const auto& piece : l.memory_highs.pieces()) {
    put_varint(out, piece.from);
    put_varint(out, piece.high);
  }
  for (const auto* ranges : {&l.select.ctas, &l.select.warps, &l.select.sms}) {
    put_varint(out, ranges->size());
    for (const wire::Selection::Range& r : *ranges) {
      put_varint(out, r.first);
      put_varint(out, r.last);
    }
  }
  put_varint(out, map.original_of_new.size());
  uint32_t previous = 0;
  for (uint32_t pc : map.original_of_new) {
    put_signed(out, static_cast<int32_t>(pc - previous));
    previous = pc;
  }
}

void decode_map(VarintReader& in, wire::AddressMap& map) {
  map.blocks.resize(in.count(6));
  for (wire::Block& b : map.blocks) {
    b.first_pc = in.varint32();
    b.instructions = in.varint32();
    b.record_bytes = in.varint32();
    b.clocks = in.varint32();
    const uint64_t flags = in.varint();
    b.indirect = flags & 1;
    b.exits = flags & 2;
    b.implied = flags & 4;
    b.unrecorded = flags & 8;
    b.other_part = flags & 16;
    b.placed = flags & 32;
    b.successors.resize(in.count());
    for (uint32_t& s : b.successors) s = in.varint32();
    decode_placed(in, b);
  }
  map.sites.resize(in.count(4));
  for (wire::Site& s : map.sites) {
    s.pc = in.varint32();
    s.edge = in.varint() != 0;
    s.overhead_cycles = in.varint32();
    s.least_cycles = in.varint32();
  }
  map.accesses.resize(in.count(15));
  for (wire::Access& a : map.accesses) {
    a.pc = in.varint32();
    a.block = in.varint32();
    const uint64_t space = in.varint(), kind = in.varint();
    if (space > static_cast<uint64_t>(wire::Access::Space::local) ||
        kind > static_cast<uint64_t>(wire::Access::Kind::prefetch))
      return in.fail();
    a.space = static_cast<wire::Access::Space>(space);
    a.kind = static_cast<wire::Access::Kind>(kind);
    a.bytes = static_cast<uint8_t>(in.varint32());
    a.lanes = static_cast<uint8_t>(in.varint32());
    const uint64_t flags = in.varint();
    a.wide = flags & 1;
    a.high_is_known = flags & 2;
    a.pixels = flags & 4;
    a.offset = static_cast<int32_t>(in.signed_varint());
    for (uint32_t* place : {&a.low, &a.high, &a.uniform_low, &a.uniform_high, &a.mask}) *place = in.varint32() - 1;
    const uint64_t form = in.varint();
    if (form > static_cast<uint64_t>(wire::Access::Form::tensor)) return in.fail();
    a.form = static_cast<wire::Access::Form>(form);
    a.operands.resize(in.count(2));
    for (wire::Access::Operand& o : a.operands) {
      const uint64_t role = in.varint();
      if (role > static_cast<uint64_t>(wire::Access::Role::pixels)) return in.fail();
      o = {static_cast<wire::Access::Role>(role), in.varint32() - 1};
    }
  }
  decode_points(in, map);
  wire::SlotLayout& l = map.layout;
  for (uint64_t* v : {&l.headers, &l.table, &l.counters, &l.slots}) *v = in.varint();
  l.slot_bytes = in.varint32();
  l.lead_bytes = in.varint32();
  l.wraps = in.varint() != 0;
  for (uint32_t* v : {&l.warps, &l.warps_per_cta, &l.one_in, &l.seed, &l.cta_part}) *v = in.varint32();
  l.all_parts = in.varint() != 0;
  std::vector<wire::HighWords::Piece> highs(in.count(2));
  for (auto& piece : highs) piece = {in.varint32(), in.varint32()};
  l.memory_highs = wire::HighWords::of_pieces(std::move(highs));
  for (auto* ranges : {&l.select.ctas, &l.select.warps, &l.select.sms}) {
    ranges->resize(in.count(2));
    for (wire::Selection::Range& r : *ranges) r = {in.varint32(), in.varint32()};
  }
  map.original_of_new.resize(in.count());
  uint32_t previous = 0;
  for (uint32_t& pc : map.original_of_new) pc = previous += static_cast<uint32_t>(in.signed_varint());
}

}  // namespace xtrace::trace
