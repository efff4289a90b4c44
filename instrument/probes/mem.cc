// `mem`: the address of every lane at every memory access, without a clock. What is recorded is not the address but what it
// is made of: the address register goes out as it is, one word a lane, by a store that reads the kernel's own register; the
// immediate is known beforehand, and what is one for the warp (uniform registers, lanes whose guard holds) is one word. A
// register that serves several accesses of a block is stored once. High words of global addresses are left out where the
// whole memory of the launch has one. A store of 32 words to one line is the cheapest there is (docs/performance.md).
#include <algorithm>

#include "instrument/probes/probes.h"
#include "instrument/sass/access.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;

constexpr BitRange guard_index = bits(14, 12);
constexpr unsigned guard_not = 15, vote_not = 90;

wire::Access::Space space_of(sass::MemSpace space) {
  switch (space) {
    case sass::MemSpace::generic: return wire::Access::Space::generic;
    case sass::MemSpace::shared: return wire::Access::Space::shared;
    case sass::MemSpace::local: return wire::Access::Space::local;
    default: return wire::Access::Space::global;
  }
}
wire::Access::Kind kind_of(sass::MemKind kind) {
  switch (kind) {
    case sass::MemKind::store: return wire::Access::Kind::store;
    case sass::MemKind::atomic: return wire::Access::Kind::atomic;
    case sass::MemKind::reduction: return wire::Access::Kind::reduction;
    default: return wire::Access::Kind::load;
  }
}

// Collects columns and scalars, each once for as long as its register keeps its value.
class Layout {
 public:
  Layout(const Code& code, const ProbeBlock& block, const Scope& scope) : code_(code), shape_(scope.shape) {
    for (InstIndex i = block.first; i <= block.last(); ++i) {
      const auto found = sass::accesses(*code.arch, code.insts[i].raw);
      if (const auto* all = std::get_if<std::vector<sass::Access>>(&found); all != nullptr && scope.has(i))
        for (const sass::Access& a : *all) add(i, a);
      forget(code.insts[i].fx.def);
    }
    place();
  }
  MemRecord take() { return std::move(record_); }

 private:
  void add(InstIndex i, const sass::Access& a) {
    wire::Access w;
    w.pc = code_.pc(i);
    w.space = space_of(a.space);
    w.kind = kind_of(a.kind);
    w.bytes = a.bytes;
    w.lanes = a.lanes;
    w.wide = a.wide;
    w.offset = a.offset;
    // A sum with a uniform register tells its own high word.
    w.high_is_known = a.space == sass::MemSpace::global && shape_.memory_high && a.uniform_low == a.none;
    if (a.low != a.none) w.low = column(i, a.low);
    if (a.high != a.none && !w.high_is_known) w.high = column(i, a.high);
    if (a.uniform_low != a.none) w.uniform_low = scalar({false, a.uniform_low, false, i, 0});
    if (a.uniform_high != a.none) w.uniform_high = scalar({false, a.uniform_high, false, i, 0});
    const sass::RawInst& word = code_.insts[i].raw;
    const bool negated = get_bits(word, bit(guard_not)) != 0;
    const auto guard = static_cast<uint8_t>(get_bits(word, guard_index));
    if (guard != enc::PT.index || negated) w.mask = scalar({true, guard, negated, i, 0});
    record_.accesses.push_back(w);
  }

  // Numbers, until place() makes them bytes.
  uint32_t column(InstIndex i, uint8_t reg) {
    for (uint32_t k = 0; k < record_.columns.size(); ++k)
      if (current_column_[k] && record_.columns[k].reg == reg) return k;
    record_.columns.push_back({reg, i, 0});
    current_column_.push_back(true);
    return static_cast<uint32_t>(record_.columns.size() - 1);
  }
  uint32_t scalar(const MemRecord::Scalar& s) {
    for (uint32_t k = 0; k < record_.scalars.size(); ++k) {
      const MemRecord::Scalar& o = record_.scalars[k];
      if (current_scalar_[k] && o.is_mask == s.is_mask && o.index == s.index && o.negated == s.negated) return k;
    }
    record_.scalars.push_back(s);
    current_scalar_.push_back(true);
    return static_cast<uint32_t>(record_.scalars.size() - 1);
  }

  void forget(const sass::RegEffects& written) {
    for (size_t k = 0; k < record_.columns.size(); ++k)
      if (written.gpr.test(record_.columns[k].reg)) current_column_[k] = false;
    for (size_t k = 0; k < record_.scalars.size(); ++k) {
      const MemRecord::Scalar& s = record_.scalars[k];
      if (s.is_mask ? written.pred >> s.index & 1 : written.ur.test(s.index)) current_scalar_[k] = false;
    }
  }

  void place() {
    if (record_.accesses.empty()) return;
    auto at = static_cast<uint32_t>(2 * sizeof(uint32_t));   // behind word0 and mask
    for (MemRecord::Scalar& s : record_.scalars) {
      s.place = at;
      at += sizeof(uint32_t);
    }
    at = static_cast<uint32_t>(align_up(at, wire::mem_line));
    for (MemRecord::Column& c : record_.columns) {
      c.place = at;
      at += wire::mem_line;
    }
    record_.bytes = at;
    for (wire::Access& a : record_.accesses) {
      for (uint32_t* n : {&a.low, &a.high})
        if (*n != a.none) *n = record_.columns[*n].place;
      for (uint32_t* n : {&a.uniform_low, &a.uniform_high, &a.mask})
        if (*n != a.none) *n = record_.scalars[*n].place;
    }
  }

  const Code& code_;
  const LaunchShape& shape_;
  MemRecord record_;
  std::vector<bool> current_column_, current_scalar_;
};

class Writer {
 public:
  Writer(ProbeContext& c, uint32_t number, std::optional<Holder>& previous)
      : c_(c), block_(c.blocks.blocks[number]), number_(number), previous_(previous) {}

  Status run(const MemRecord& record) {
    XT_TRY_STATUS(head());
    for (InstIndex i = block_.first; i <= block_.last(); ++i) {
      for (const MemRecord::Scalar& s : record.scalars)
        if (s.at == i) XT_TRY_STATUS(scalar(s));
      XT_TRY_STATUS(columns(record, i));
    }
    const InstIndex last = block_.last();
    bump_address(c_, c_.out.before[last], record.bytes, stall_cycles(c_.code, last, last + 1) + least_head_cycles);
    return {};
  }

 private:
  Result<Holder> take(InstIndex i, std::initializer_list<Shape> shapes) {
    XT_TRY(const Holder h, c_.scratch.holder(i, i, shapes, previous_));
    previous_ = h;
    return h;
  }

  Status head() {
    XT_TRY(const Holder h, take(block_.first, {Shape::pair, Shape::single}));
    Sequence& seq = c_.out.before[block_.first];
    const bool pair = h.shape == Shape::pair;
    put(seq, enc::mov_imm(h.r(0), wire::word0(wire::RecordKind::mem, number_)), {.stall = pair ? 1 : vector_to_memory});
    if (!pair) store_words(c_, seq, h, 1, 0);
    put(seq, enc::vote_any_active(h.r(pair ? 1 : 0)), {.stall = vector_to_memory});
    pair ? store_words(c_, seq, h, 2, 0) : store_words(c_, seq, h, 1, sizeof(uint32_t));
    return {};
  }

  // The access's own waits: its registers have arrived where it may issue.
  uint8_t waits_of(InstIndex i) const { return sass::get_control(c_.code.insts[i].raw).wait_mask; }

  Status scalar(const MemRecord::Scalar& s) {
    XT_TRY(const Holder h, take(s.at, {Shape::single}));
    Sequence& seq = c_.out.before[s.at];
    sass::RawInst w = s.is_mask ? enc::vote_any(h.r(0), enc::Pred{s.index}) : enc::mov_from_ur(h.r(0), enc::Ureg{s.index});
    if (s.negated) set_bits(w, bit(vote_not), 1);
    put(seq, w, {.stall = vector_to_memory, .wait_mask = waits_of(s.at)});
    store_words(c_, seq, h, 1, s.place);
    return {};
  }

  Status columns(const MemRecord& record, InstIndex i) {
    std::optional<enc::Gpr> lane = c_.lane_offset;
    Sequence& seq = c_.out.before[i];
    for (const MemRecord::Column& column : record.columns) {
      if (column.at != i) continue;
      if (!lane) {   // no register was free for the whole kernel
        XT_TRY(const Holder h, take(i, {Shape::single}));
        lane = h.r(0);
        put(seq, enc::s2r(*lane, enc::sr_laneid), {.stall = scoreboard_visible, .write_barrier = h.scoreboard});
        put(seq, enc::shf_l_u32_imm(*lane, *lane, 2),
            {.stall = vector_to_memory, .wait_mask = static_cast<uint8_t>(1u << h.scoreboard)});
      }
      const auto place = static_cast<int32_t>(column.place);
      put(seq,
          with_record_policy(enc::stg({c_.scratch.uniform().address, *lane, place}, enc::Gpr{column.reg}, enc::Size::b32)),
          {.stall = scoreboard_visible, .wait_mask = waits_of(i), .read_barrier = c_.scratch.scoreboard()});
    }
    return {};
  }

  ProbeContext& c_;
  const ProbeBlock& block_;
  uint32_t number_;
  std::optional<Holder>& previous_;
};

}  // namespace

MemRecord mem_record(const Code& code, const ProbeBlock& block, const Scope& scope) {
  return Layout(code, block, scope).take();
}

Status insert_mem(ProbeContext& c) {
  if (c.layout.wraps) return unsupported("address records lie in plain slots only");
  c.lane_offset = c.scratch.reserve();
  c.map.layout.memory_high = c.scope.shape.memory_high.value_or(0);
  std::optional<Holder> previous;
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    MemRecord record = mem_record(c.code, c.blocks.blocks[b], c.scope);
    if (record.bytes == 0) continue;
    XT_TRY_STATUS(Writer(c, b, previous).run(record));
    c.map.blocks[b].record_bytes = record.bytes;
    for (wire::Access& a : record.accesses) {
      a.block = b;
      c.map.accesses.push_back(a);
    }
  }
  if (c.map.accesses.empty()) return unsupported("kernel {} has no memory access whose addresses can be recorded", c.code.kernel);
  return {};
}

uint32_t mem_record_bytes(const Code& code, const ProbeBlock& block, const Scope& scope) {
  return mem_record(code, block, scope).bytes;
}

}  // namespace xtrace::instrument
