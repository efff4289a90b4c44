// `mem`: the address of every lane at every memory access, without a clock. What is recorded is not the address but what it
// is made of: the address register goes out as it is, one word a lane, by a store that reads the kernel's own register; the
// immediate is known beforehand, and what is one for the warp (uniform registers, lanes whose guard holds) is one word. A
// register that serves several accesses of a block is stored once. High words of global addresses are left out where the
// low ones tell them. A store of 32 words to one line is the cheapest there is for what differs from lane to
// lane (docs/performance.md); a register that the code proves to be a base and a known number for each lane goes out as its base, one
// word, and one that is known altogether not at all. The stack pointer of a function that calls itself is proven to be nothing, but
// lanes that are in it together mostly have the same: it goes out as the first lane has it, and of the lanes that differ by how much.
#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "instrument/outstanding.h"
#include "instrument/probes/mem_layout.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;

constexpr BitRange guard_field = bits(15, 12);
constexpr unsigned vote_not = 90;
constexpr uint8_t lut_and = 0xc0;   // of a, b
constexpr unsigned s2r_cycles = 32;   // from S2R to its result: 23 alone, 27 beside others [measured H200, docs/performance.md "What a wait costs"]

class Writer {
 public:
  Writer(ProbeContext& c, const Outstanding& outstanding, uint32_t number, MemRecord& record, std::optional<Holder>& previous)
      : c_(c), outstanding_(outstanding), block_(c.blocks.blocks[number]), number_(number), record_(record), previous_(previous) {}

  Status run() {
    MemRecord& record = record_;
    held_ = record.held();
    if (record.full) XT_TRY_STATUS(insert_mem_words(c_, number_, record, previous_));
    busy_ = record.busy;
    for (MemRecord::Column& column : record.columns)   // it takes a register where none holds 4 * lane
      if (!column.spread && !c_.lane_offset && !c_.scratch.try_holder(column.at, column.at, {Shape::single}, previous_, taken(column.at)))
        column.at = column.access;
    const InstIndex head_at = place_of_head(record);
    for (InstIndex i = block_.first; i <= block_.last() && !record.full; ++i) {
      if (i == head_at) XT_TRY_STATUS(head(i));
      XT_TRY_STATUS(operands(i));
      for (const MemRecord::Scalar& s : record.scalars)
        if (s.at == i && !s.with_base && !s.is_operand) XT_TRY_STATUS(scalar(s));
      for (const MemRecord::Base& b : record.bases)
        if (b.at == i)
          XT_TRY_STATUS(b.spread != b.alone ? spread(b, record.columns[b.spread]) : b.mask == b.alone ? base(b) : pair(record.scalars[b.mask], b));
    }
    hold_lanes();
    for (InstIndex i = block_.first; i <= block_.last(); ++i) XT_TRY_STATUS(columns(record, i));
    return {};
  }

 private:
  // In front of i, behind what is there already.
  sass::RegSet taken(InstIndex i) const {
    sass::RegSet set = held_;
    for (const MemRecord::Busy& b : busy_)
      if (b.from <= i && i < b.to) set |= b.registers;
    return set;
  }
  Result<Holder> take(InstIndex i, std::initializer_list<Shape> shapes) {
    XT_TRY(const Holder h, c_.scratch.holder(i, i, shapes, previous_, taken(i) | recorded_registers(c_, record_, i)));
    previous_ = h;
    use(i, h);
    put_aside(c_, i, h);
    return h;
  }
  // Somebody has these registers in front of i, and has stored them behind that.
  void use(InstIndex i, const Holder& h) {
    sass::RegSet set;
    for (unsigned k = 0; k < registers_of(h.shape); ++k) set.set(h.reg[k]);
    busy_.push_back({i, i, set});
  }
  // What stands in front of i has them.
  sass::RegSet used(InstIndex i) const {
    sass::RegSet set = taken(i);
    for (const MemRecord::Busy& b : busy_)
      if (b.to == i) set |= b.registers;
    return set;
  }

  // No register was free for 4 * lane in the whole kernel: in this block one is, for several columns. Each time it is made the warp waits for a
  // scoreboard, and for what the kernel has outstanding there.
  struct Held {
    InstIndex from = 0, first = 0, last = 0;   // S2R in front of `from`, the shift in front of `first`
    enc::Gpr reg;
    uint8_t scoreboard = 0;
  };
  void hold_lanes() {
    if (c_.lane_offset) return;
    std::vector<InstIndex> at;
    for (const MemRecord::Column& column : record_.columns)
      if (!column.spread) at.push_back(column.at);
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    if (at.empty()) return;
    std::vector<sass::RegSet> free;   // by instruction, in front of it
    for (InstIndex i = block_.first; i <= block_.last(); ++i) free.push_back(c_.scratch.writable(i) & ~used(i) & ~recorded_registers(c_, record_, i));
    for (size_t k = 0; k < at.size();) {
      // As far as one of them reaches.
      sass::RegSet common = free[at[k] - block_.first], further = common;
      size_t next = k;
      for (InstIndex i = at[k]; i <= at.back() && further.any(); ++i) {
        further &= free[i - block_.first];
        if (i != at[next] || further.none()) continue;
        common = further;
        ++next;
      }
      if (next == k) {   // columns() finds one at a price
        ++k;
        continue;
      }
      hold(at[k], at[next - 1], common, free);
      k = next;
    }
  }
  void hold(InstIndex first, InstIndex last, const sass::RegSet& common, const std::vector<sass::RegSet>& free) {
    uint8_t reg = 0;
    while (!common.test(reg)) ++reg;
    // Early, but behind the last stores of the one before. In the entry block where it is needed: the prologue goes by the first probe.
    const InstIndex earliest = block_.first == 0 ? first : lanes_.empty() ? block_.first : lanes_.back().last + 1;
    InstIndex from = first;
    while (from > earliest && free[from - 1 - block_.first].test(reg) && stall_cycles(c_.code, from, first) < s2r_cycles) --from;
    lanes_.push_back({from, first, last, enc::Gpr{reg}, quiet_scoreboard(first)});
    sass::RegSet set;
    set.set(reg);
    busy_.push_back({from, last, set});
  }
  // On which a wait in front of i costs the kernel least.
  uint8_t quiet_scoreboard(InstIndex i) const {
    const auto cost = [&](uint8_t sb) { return waits_of(i) >> sb & 1 ? 0u : outstanding_.wait_cycles(i, sb); };
    uint8_t best = c_.scratch.scoreboard();
    for (uint8_t sb = 0; sb < 6; ++sb)
      if (c_.scratch.shared_scoreboards() >> sb & 1 && cost(sb) < cost(best)) best = sb;
    return best;
  }
  static void put_lane(Sequence& seq, enc::Gpr to, uint8_t scoreboard) {
    put(seq, enc::s2r(to, enc::sr_laneid), {.stall = scoreboard_visible, .write_barrier = scoreboard});
  }
  static void put_lane_offset(Sequence& seq, enc::Gpr to, uint8_t scoreboard) {
    put(seq, enc::shf_l_u32_imm(to, to, 2), {.stall = vector_to_memory, .wait_mask = static_cast<uint8_t>(1u << scoreboard)});
  }

  // Behind the first access, as its columns; where registers are free.
  InstIndex place_of_head(const MemRecord& record) {
    InstIndex access = block_.last();
    for (const wire::Access& a : record.accesses) access = std::min(access, c_.code.index(a.pc));
    const InstIndex quiet = quiet_place(c_.code, block_, access);
    return c_.scratch.try_holder(quiet, quiet, {Shape::pair}, previous_, held_) ? quiet : block_.first;
  }
  Status head(InstIndex at) {
    XT_TRY(const Holder h, take(at, {Shape::pair, Shape::single}));
    Sequence& seq = c_.out.before[at];
    const bool pair = h.shape == Shape::pair;
    put(seq, enc::mov_imm(h.r(0), wire::word0(wire::RecordKind::mem, number_)), {.stall = pair ? 1 : vector_to_memory});
    if (!pair) store_words(c_, seq, h, 1, 0);
    put(seq, enc::vote_any_active(h.r(pair ? 1 : 0)), {.stall = vector_to_memory});
    pair ? store_words(c_, seq, h, 2, 0) : store_words(c_, seq, h, 1, sizeof(uint32_t));
    put_back(c_, at, h);
    return {};
  }

  // The access's own waits: its registers have arrived where it may issue.
  uint8_t waits_of(InstIndex i) const { return sass::get_control(c_.code.insts[i].raw).wait_mask; }

  static sass::RawInst value_of(const MemRecord::Scalar& s, enc::Gpr to) {
    sass::RawInst w = s.is_mask ? enc::vote_any(to, enc::Pred{s.index}) : enc::mov_from_ur(to, enc::Ureg{s.index});
    if (s.negated) set_bits(w, bit(vote_not), 1);
    return w;
  }

  Status scalar(const MemRecord::Scalar& s) {
    XT_TRY(const Holder h, take(s.at, {Shape::single}));
    Sequence& seq = c_.out.before[s.at];
    put(seq, value_of(s, h.r(0)), {.stall = vector_to_memory, .wait_mask = waits_of(s.at)});
    store_words(c_, seq, h, 1, s.place);
    put_back(c_, s.at, h);
    return {};
  }

  // What an access that is made once for the warp reads: up to four words to a store, as their places are aligned and registers free.
  Status operands(InstIndex i) {
    std::vector<const MemRecord::Scalar*> words;
    for (const MemRecord::Scalar& s : record_.scalars)
      if (s.at == i && s.is_operand) words.push_back(&s);
    for (size_t next = 0; next < words.size();) {
      unsigned n = 4;
      const auto fits = [&] { return next + n <= words.size() && words[next]->place % (4 * n) == 0 && words[next + n - 1]->place == words[next]->place + 4 * (n - 1); };
      std::optional<Holder> h;
      for (; n > 1; n /= 2)
        if (fits() && (h = c_.scratch.try_holder(i, i, {shape_of(n)}, previous_, taken(i)))) break;
      if (h) {
        previous_ = h;
        use(i, *h);
      } else {
        XT_TRY(h, take(i, {Shape::single}));
      }
      put_operands(i, std::span(words).subspan(next, n), *h);
      store_words(c_, c_.out.before[i], *h, n, words[next]->place);
      put_back(c_, i, *h);
      next += n;
    }
    return {};
  }
  void put_operands(InstIndex i, std::span<const MemRecord::Scalar* const> words, const Holder& h) {
    Sequence& seq = c_.out.before[i];
    uint8_t waits = waits_of(i);
    const enc::Ureg through = uniform_on_the_way(c_).front();
    const auto guard = std::ranges::find_if(words, [](const MemRecord::Scalar* s) { return s->is_guard; });
    if (guard != words.end()) {
      put(seq, enc::umov_imm(through, 0), {.stall = 1, .wait_mask = std::exchange(waits, uint8_t{0})});
      put(seq, held_guard(through, **guard), {.stall = 1});
    }
    const auto last = static_cast<unsigned>(words.size() - 1);
    for (unsigned k = 0; k < words.size(); ++k)
      if (!words[k]->is_guard)
        put(seq, value_of(*words[k], h.r(k)), {.stall = guard == words.end() && k == last ? vector_to_memory : 1, .wait_mask = std::exchange(waits, uint8_t{0})});
    if (guard == words.end()) return;
    put_pause(seq, uniform_to_vector - 1 - last);
    put(seq, enc::mov_from_ur(h.r(static_cast<unsigned>(guard - words.begin())), through), {.stall = vector_to_memory});
  }

  // The lanes that the base is proven for store one and the same word. Where there is no such lane the word says nothing.
  Status base(const MemRecord::Base& b) {
    Sequence& seq = c_.out.before[b.at];
    if (c_.scope.lanes.is_uniform(b.lanes)) {
      store(seq, b.lanes.guard, enc::Gpr{b.reg}, enc::Size::b32, b.place, c_.scratch.scoreboard(), waits_of(b.at));
      return {};
    }
    XT_TRY(const Holder h, take(b.at, {Shape::single}));
    put_base(seq, b, h.r(0), waits_of(b.at));
    store(seq, b.lanes.guard, h.r(0), enc::Size::b32, b.place, h.scoreboard, 0);
    put_back(c_, b.at, h);
    return {};
  }
  // Both in one store, by the lanes of the mask.
  Status pair(const MemRecord::Scalar& mask, const MemRecord::Base& b) {
    const auto h = c_.scratch.try_holder(b.at, b.at, {Shape::pair}, previous_, held_);
    if (!h) {
      XT_TRY_STATUS(scalar(mask));
      return base(b);
    }
    previous_ = h;
    use(b.at, *h);
    Sequence& seq = c_.out.before[b.at];
    put(seq, value_of(mask, h->r(0)), {.wait_mask = waits_of(b.at)});
    put_base(seq, b, h->r(1), 0);
    store(seq, b.lanes.guard, h->r(0), enc::Size::b64, mask.place, h->scoreboard, 0);
    return {};
  }
  // As the first lane has it; and by lanes that differ, how. R2UR's predicate says which those are.
  Status spread(const MemRecord::Base& b, const MemRecord::Column& column) {
    std::optional<enc::Gpr> lane = c_.lane_offset;
    const auto h = c_.scratch.try_holder(b.at, b.at, {lane ? Shape::pair : Shape::quad}, previous_, taken(b.at));
    XT_TRY(const Holder holder, h ? Result<Holder>(*h) : take(b.at, {Shape::quad}));
    previous_ = holder;
    use(b.at, holder);
    Sequence& seq = c_.out.before[b.at];
    const auto differs = c_.scratch.predicate(b.at, b.at);
    put_first(seq, b, holder.r(0), waits_of(b.at), differs);
    store(seq, guard_always, holder.r(0), enc::Size::b32, b.place, holder.scoreboard, 0);
    if (!lane) {
      lane = holder.r(2);
      const uint8_t scoreboard = quiet_scoreboard(b.at);
      put_lane(seq, *lane, scoreboard);
      put_lane_offset(seq, *lane, scoreboard);
    }
    put(seq, enc::imad_imm(holder.r(1), holder.r(0), ~0u, enc::Gpr{b.reg}), {.stall = vector_to_memory});
    sass::RawInst w = with_record_policy(
        enc::stg({c_.scratch.uniform().address, *lane, static_cast<int32_t>(column.place)}, holder.r(1), enc::Size::b32));
    if (differs) w = enc::with_guard(w, *differs);
    put(seq, w, {.stall = scoreboard_visible, .read_barrier = holder.scoreboard});
    return {};
  }
  // to = the register less what differs from lane to lane, or as the first lane has it.
  void put_base(Sequence& seq, const MemRecord::Base& b, enc::Gpr to, uint8_t wait_mask) {
    const auto strided = c_.scope.lanes.strided(b.lanes);
    if (!by_product(strided)) return put_first(seq, b, to, wait_mask);
    const Strided& l = *strided;
    uint32_t factor = l.stride;      // of `lane`, in units of `unit` lanes
    enc::Gpr lane = to;
    uint32_t unit = 1;
    if (factor == 0 && l.step == 0) {
      lane = enc::RZ;
    } else if (c_.lane_offset) {
      lane = *c_.lane_offset;
      unit = 4;
    } else {
      const uint8_t scoreboard = quiet_scoreboard(b.at);
      put_lane(seq, to, scoreboard);
      wait_mask |= static_cast<uint8_t>(1u << scoreboard);
    }
    if (l.step != 0) {
      const bool rows = by_rows(l);
      put(seq,
          rows ? enc::shf_r_u32_hi_imm(to, lane, static_cast<uint8_t>(l.shift + (unit == 4 ? 2 : 0)))
               : enc::lop3_imm(to, lane, unit * ((1u << l.shift) - 1), enc::RZ, lut_and),
          {.stall = vector_to_vector, .wait_mask = wait_mask});
      wait_mask = 0;
      lane = to;
      if (rows) {
        factor = l.step;
        unit = 1;
      }
    }
    put(seq, enc::imad_imm(to, lane, 0u - factor / unit, enc::Gpr{b.reg}), {.stall = vector_to_memory, .wait_mask = wait_mask});
  }
  void put_first(Sequence& seq, const MemRecord::Base& b, enc::Gpr to, uint8_t wait_mask, std::optional<enc::Pred> differs = std::nullopt) {
    const enc::Ureg through = uniform_on_the_way(c_).front();
    sass::RawInst w = differs ? enc::r2ur_differs(through, *differs, enc::Gpr{b.reg}) : enc::r2ur(through, enc::Gpr{b.reg});
    set_bits(w, guard_field, b.lanes.guard);
    put(seq, w, {.stall = 1, .wait_mask = wait_mask});
    put_pause(seq, r2ur_to_vector - 1);
    put(seq, enc::mov_from_ur(to, through), {.stall = vector_to_memory});
  }
  void store(Sequence& seq, uint8_t guard, enc::Gpr data, enc::Size size, uint32_t place, uint8_t read_barrier, uint8_t wait_mask) {
    sass::RawInst w =
        with_record_policy(enc::stg({c_.scratch.uniform().address, enc::RZ, static_cast<int32_t>(place)}, data, size));
    set_bits(w, guard_field, guard);
    put(seq, w, {.stall = scoreboard_visible, .wait_mask = wait_mask, .read_barrier = read_barrier});
  }

  Status columns(const MemRecord& record, InstIndex i) {
    std::optional<enc::Gpr> lane = c_.lane_offset;
    std::optional<Holder> taken_here;
    Sequence& seq = c_.out.before[i];
    for (const Held& h : lanes_) {
      if (h.from == i) put_lane(seq, h.reg, h.scoreboard);
      if (h.first == i) put_lane_offset(seq, h.reg, h.scoreboard);
      if (h.first <= i && i <= h.last) lane = h.reg;
    }
    for (const MemRecord::Column& column : record.columns) {
      if (column.at != i || column.spread) continue;
      if (!lane) {   // none is free but at a price
        XT_TRY(const Holder h, take(i, {Shape::single}));
        taken_here = h;
        lane = h.r(0);
        const uint8_t scoreboard = quiet_scoreboard(i);
        put_lane(seq, *lane, scoreboard);
        put_lane_offset(seq, *lane, scoreboard);
      }
      const auto place = static_cast<int32_t>(column.place);
      const uint8_t waits = i == column.access ? waits_of(i) : uint8_t{0};   // behind it the register has arrived
      put(seq,
          with_record_policy(enc::stg({c_.scratch.uniform().address, *lane, place}, enc::Gpr{column.reg}, enc::Size::b32)),
          {.stall = scoreboard_visible, .wait_mask = waits, .read_barrier = c_.scratch.scoreboard()});
    }
    if (taken_here) put_back(c_, i, *taken_here);
    return {};
  }

  ProbeContext& c_;
  const Outstanding& outstanding_;
  const ProbeBlock& block_;
  uint32_t number_;
  MemRecord& record_;
  std::optional<Holder>& previous_;
  sass::RegSet held_;
  std::vector<MemRecord::Busy> busy_;
  std::vector<Held> lanes_;
};

}  // namespace

sass::RegSet recorded_registers(const ProbeContext& c, const MemRecord& record, InstIndex at) {
  sass::RegSet set;
  if (!c.scratch.spill_frame()) return set;
  for (const MemRecord::Column& column : record.columns)
    if (column.at == at) set.set(column.reg);
  for (const MemRecord::Base& b : record.bases)
    if (b.at == at) set.set(b.reg);
  return set;
}
void put_aside(ProbeContext& c, InstIndex at, const Holder& h) {
  if (h.spilled) put_save(c.out.before[at], *c.scratch.spill_frame(), c.scratch.uniform().header, h.r(0), h.scoreboard, h.wait_mask);
}
void put_back(ProbeContext& c, InstIndex at, const Holder& h) {
  if (h.spilled) put_restore(c.out.before[at], *c.scratch.spill_frame(), c.scratch.uniform().header, h.r(0), h.scoreboard);
}

namespace {

// Which registers are held for the whole kernel: 4 * lane for columns and for what is proven of lanes; masks of lane groups where
// full blocks have words to put together and no predicates are left for it.
void reserve(ProbeContext& c) {
  bool lanes = false, words = false;
  for (const ProbeBlock& block : c.blocks.blocks) {
    const MemRecord record = mem_record(c.code, block, c.scope);
    if (record.bytes == 0) continue;
    const bool products = std::any_of(record.bases.begin(), record.bases.end(), [&](const MemRecord::Base& b) {
      return b.spread == b.alone && !c.scope.lanes.is_uniform(b.lanes) && by_product(c.scope.lanes.strided(b.lanes));
    });
    lanes |= !record.columns.empty() || (products && (!record.full || c.scratch.lane_groups()));
    words |= record.full && record.scalars.size() + record.bases.size() > 1;
  }
  if (lanes) c.lane_offset = c.scratch.reserve();
  if (words && !c.scratch.lane_groups()) c.lane_masks = c.scratch.reserve_masks();
}

// Cycles from the head of a block to its first store, at least.
unsigned until_first_store(const ProbeContext& c, const ProbeBlock& block) {
  unsigned cycles = 0;
  for (InstIndex i = block.first; i <= block.last(); ++i) {
    for (const sass::RawInst& w : c.out.before[i]) {
      if (sass::effects(*c.code.arch, w, 0).kind == sass::MemKind::store) return cycles;
      cycles += sass::get_control(w).stall;
    }
    cycles += sass::get_control(c.code.insts[i].raw).stall;
  }
  return cycles;
}

// Behind each record. Whichever comes next finds the cursor moved.
void move_cursor(ProbeContext& c) {
  unsigned first_store = uniform_to_vector;
  const auto has_record = [&](uint32_t b) { return c.map.blocks[b].record_bytes != 0; };
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b)
    if (has_record(b)) first_store = std::min(first_store, until_first_store(c, c.blocks.blocks[b]));
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    const InstIndex last = c.blocks.blocks[b].last();
    const unsigned until_next = stall_cycles(c.code, last, last + 1) + first_store;
    if (has_record(b)) bump_address(c, c.out.before[last], c.map.blocks[b].record_bytes, until_next);
  }
}

// Accesses, by where the words, and in whole sectors the columns, of a full record went.
void move_words(const MemRecord& planned, const MemRecord& record, std::vector<wire::Access>& accesses) {
  std::map<uint32_t, uint32_t> to;
  for (size_t k = 0; k < record.scalars.size(); ++k) to[planned.scalars[k].place] = record.scalars[k].place;
  for (size_t k = 0; k < record.bases.size(); ++k) to[planned.bases[k].place] = record.bases[k].place;
  for (size_t k = 0; k < record.columns.size(); ++k) to[planned.columns[k].place] = record.columns[k].place;
  for (wire::Access& a : accesses) {
    for (uint32_t* place : {&a.low, &a.high, &a.base, &a.uniform_low, &a.uniform_high, &a.mask})
      if (*place != a.none) *place = to.at(*place);
    for (wire::Access::Operand& o : a.operands)
      if (o.place != a.none) o.place = to.at(o.place);
  }
}

}  // namespace

Status insert_mem(ProbeContext& c) {
  if (c.layout.wraps) return unsupported("address records lie in plain slots only");
  reserve(c);
  c.map.lane_numbers = c.scope.lanes.tables();
  std::optional<Holder> previous;
  const Outstanding outstanding(c.code);
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    const MemRecord planned = mem_record(c.code, c.blocks.blocks[b], c.scope);
    if (planned.bytes == 0) continue;
    MemRecord record = planned;
    XT_TRY_STATUS(Writer(c, outstanding, b, record, previous).run());
    if (record.full) move_words(planned, record, record.accesses);
    c.map.blocks[b].record_bytes = record.bytes;
    c.map.blocks[b].full = record.full;
    for (wire::Access& a : record.accesses) {
      a.block = b;
      c.map.accesses.push_back(a);
    }
  }
  move_cursor(c);
  if (c.map.accesses.empty()) return unsupported("kernel {} has no memory access whose addresses can be recorded", c.code.kernel);
  return {};
}

uint32_t mem_record_bytes(const Code& code, const ProbeBlock& block, const Scope& scope) {
  return mem_record(code, block, scope).bytes;
}

}  // namespace xtrace::instrument
