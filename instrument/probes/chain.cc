// `block` in plain slots, for blocks that always followed each other: { clock << n | block + 1, clock, clock, clock }, by one
// store. The words stand in one register, one to each lane group (plain_inst.cc says why). Implied blocks may lie between.
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;

class Chain {
 public:
  Chain(ProbeContext& c, uint32_t head, std::optional<Holder>& previous)
      : c_(c), head_(head), links_(c.links_from(head, LaneGroups::groups)), lanes_(*c.scratch.lane_groups()), previous_(previous) {}

  uint32_t run() {
    for (; links_.size() > 1; links_.pop_back())
      if (find_registers()) {
        write();
        return links_.back() - head_;
      }
    return 0;
  }

 private:
  const ProbeBlock& block(size_t link) const { return c_.blocks.blocks[links_[link]]; }

  bool find_registers() {
    const InstIndex from = block(0).first, second = block(1).first, last = block(links_.size() - 1).first, end = block(links_.size() - 1).last();
    for (InstIndex wait : {8u, 4u, 0u}) {
      store_ = std::min(end, last + wait);
      const auto data = c_.scratch.try_holder(second, store_, {Shape::single}, previous_);
      if (!data) continue;
      sass::RegSet taken;
      taken.set(data->reg[0]);
      const auto first = c_.scratch.try_holder(from, second, {Shape::single}, data, taken);
      if (!first) continue;
      taken.set(first->reg[0]);
      // The lane offset does not change. Where the store follows soon, it must be there early.
      const bool soon = 1 + stall_cycles(c_.code, last, store_) < vector_to_memory;
      for (InstIndex at : {soon ? second : last, last}) {
        const auto offset = c_.scratch.try_holder(at, store_, {Shape::single}, data, taken);
        if (!offset) continue;
        data_ = *data;
        first_ = first->r(0);
        offset_ = offset->r(0);
        offset_at_ = at;
        return true;
      }
    }
    return false;
  }

  void write() {
    // In a loop the first clock is read again soon after the store: it has a register that the store does not read.
    const enc::Gpr r = data_.r(0);
    put(c_.out.before[block(0).first], enc::cs2r32(first_, enc::sr_clock_lo));
    const InstIndex shift = settled(c_, block(0).first, clock_to_vector(*c_.code.arch), block(0).last());
    put(c_.out.before[shift], enc::lea_imm(first_, first_, head_ + 1, static_cast<uint8_t>(c_.layout.index_bits)));
    Sequence& second = c_.out.before[block(1).first];
    put(second, enc::cs2r32(r, enc::sr_clock_lo));
    const unsigned since = 1 + 1 + stall_cycles(c_.code, shift, block(1).first);
    if (since < vector_to_vector) put_pause(second, vector_to_vector - since);
    put(second, enc::with_guard(enc::mov(r, first_), lanes_.bit0, true));
    if (links_.size() > 2) put(c_.out.before[block(2).first], enc::with_guard(enc::cs2r32(r, enc::sr_clock_lo), lanes_.bit1));
    if (links_.size() > 3) put(c_.out.before[block(3).first], enc::with_guard(enc::cs2r32(r, enc::sr_clock_lo), lanes_.both));
    const InstIndex last = block(links_.size() - 1).first, end = block(links_.size() - 1).last();
    const bool two = links_.size() == 2;
    const unsigned k = lanes_.bit0.index, wanted = 2;
    put(c_.out.before[offset_at_], enc::p2r(offset_, static_cast<uint8_t>((two ? 1u : 3u) << k)));
    InstIndex at = offset_at_;
    if (k != wanted) {
      at = settled(c_, at, vector_to_vector, store_);
      put(c_.out.before[at], enc::shf_r_u32_hi_imm(offset_, offset_, static_cast<uint8_t>(k - wanted)));
    }
    at = settled(c_, std::max(at, last), vector_to_memory, store_);
    put(c_.out.before[at], with_record_policy(enc::stg({c_.scratch.uniform().address, offset_, 0}, r, enc::Size::b32)),
        {.stall = scoreboard_visible, .read_barrier = data_.scoreboard});
    const uint32_t bytes = two ? 8 : 16;
    bump_address(c_, c_.out.before[at], bytes, stall_cycles(c_.code, at, end + 1) + vector_to_vector + vector_to_memory);
    c_.claim_chain(links_, bytes);
    c_.chains_by_groups = true;
    previous_ = data_;
  }

  ProbeContext& c_;
  uint32_t head_;
  std::vector<uint32_t> links_;   // blocks with a clock in the record
  const LaneGroups lanes_;
  std::optional<Holder>& previous_;
  InstIndex store_ = 0, offset_at_ = 0;
  Holder data_;
  enc::Gpr first_, offset_;
};

}  // namespace

bool ProbeContext::leads_alone(uint32_t b) const {
  const uint32_t next = b + 1;
  if (next >= blocks.blocks.size() || blocks.blocks[next].first != blocks.blocks[b].last() + 1 || !full(b) || !full(next)) return false;
  if (!code.insts[blocks.blocks[b].last()].fx.falls_through) return false;
  bool leads = false;
  for (uint32_t other = 0; other < blocks.blocks.size(); ++other)
    for (uint32_t s : blocks.successors[other]) {
      if (s == next && other != b) return false;
      leads |= s == next;
    }
  return leads;
}

bool ProbeContext::runs_into(uint32_t b) const { return leads_alone(b) && blocks.successors[b].size() == 1; }

bool ProbeContext::followed(uint32_t b) const {
  return leads_alone(b) && !plan.executions.empty() && plan.executions[b] == plan.executions[b + 1] &&
         (blocks.successors[b].size() == 1 || (plan.executions[b] != 0 && code.insts[blocks.blocks[b].last()].fx.flow == sass::Flow::branch));
}

std::vector<uint32_t> ProbeContext::links_from(uint32_t b, uint32_t most) const {
  std::vector<uint32_t> links{b};
  if (map.blocks[b].rounds_at != 0) return links;   // its count has a place in its own record
  for (; links.size() < most && followed(b) && map.blocks[b + 1].rounds_at == 0; ++b)
    if (!map.blocks[b + 1].implied) links.push_back(b + 1);
  return links;
}

void ProbeContext::claim_chain(const std::vector<uint32_t>& links, uint32_t bytes) {
  wire::Block& head = map.blocks[links[0]];
  head.record_bytes = bytes;
  head.chain.assign(links.begin() + 1, links.end());
  for (uint32_t b = links[0]; b < links.back(); ++b)
    if (blocks.successors[b].size() > 1) not_taken.push_back(code.pc(blocks.blocks[b].last()));
}

bool ProbeContext::always_follows(uint32_t b) const {
  if (!runs_into(b) || map.blocks[b].implied || map.blocks[b + 1].implied) return false;
  return !plan.executions.empty() && plan.executions[b] == plan.executions[b + 1];
}

uint32_t insert_chain(ProbeContext& c, uint32_t block, std::optional<Holder>& previous) {
  return Chain(c, block, previous).run();
}

}  // namespace xtrace::instrument
