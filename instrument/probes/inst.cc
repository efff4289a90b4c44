// `inst`: a 32-bit clock before every instruction. The clocks of a block gather in registers and leave up to four at a time:
// { word0, mask, clock 0, clock 1 } { clock 2 .. clock 5 } ... The store of a full holder is put off until its last clock
// has arrived by the instructions' own stall counts, so that it costs an issue slot and no wait; where the block is long
// enough for ELECT, one lane stores for all (no cheaper: docs/performance.md).
#include <algorithm>

#include "instrument/clocks.h"
#include "instrument/implied.h"
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;

constexpr uint32_t header_words = 2;
// A store is put off by at most this many instructions after the last clock in it: the first number for which there are
// registers. 0: it follows the clock at once, and the instruction waits for it.
constexpr InstIndex waits[] = {3, 1, 0};

uint32_t capacity(Shape shape) { return shape == Shape::single ? 1 : shape == Shape::pair ? 2 : 4; }

// Walks one block and lays clocks and stores between its instructions.
class BlockWriter {
 public:
  BlockWriter(ProbeContext& c, uint32_t block, std::optional<Holder>& previous)
      : c_(c), number_(block), block_(c.blocks.blocks[block]), bytes_(bytes_of(c, block_)),
        widest_(c.scope.is_sparse() && !c.layout.wraps ? 2 : 4), previous_(previous) {}

  Status run() {
    count([&](Sequence& at) { bump_cursor(c_, at, bytes_); }, block_.first);
    elect();
    XT_TRY_STATUS(write_header());
    for (InstIndex i = block_.first; i <= block_.last(); ++i) {
      const bool tail = i == block_.last();
      if (filled_ == 0) XT_TRY_STATUS(open(i));
      if (pending_ && (ready() || i == pending_->latest || tail)) store_pending(i);
      read_clock(i, tail);
      if (tail) {
        store_pending(i);
        bump_address(c_, c_.out.before[i], bytes_, stall_cycles(c_.code, i, i + 1) + least_head_cycles);
      }
      pass(sass::get_control(c_.code.insts[i].raw).stall);
    }
    return {};
  }

  static uint32_t bytes_of(const ProbeContext& c, const ProbeBlock& block) {
    return static_cast<uint32_t>(align_up(wire::inst_record_bytes(block.count), c.alignment(wire::chunk_bytes)));
  }

 private:
  struct Pending {               // words that are complete and not stored yet
    Holder holder;
    unsigned words = 0;
    uint32_t offset = 0;
    InstIndex latest = 0;        // must be stored before this instruction
    unsigned cycles = 0;         // that have passed at least since its last clock was issued
  };

  void pass(unsigned cycles) {
    if (pending_) pending_->cycles += cycles;
    since_elect_ += cycles;
  }
  template <typename F>
  void count(F put_something, InstIndex i) {
    Sequence& at = c_.out.before[i];
    const unsigned before = least_cycles(at);
    put_something(at);
    pass(least_cycles(at) - before);
  }

  void elect() {
    const unsigned whole = stall_cycles(c_.code, block_.first, block_.last()) + block_.count;
    if (whole < predicate_to_guard) return;
    leader_ = c_.leader(block_.first, block_.last());
    if (!leader_) return;
    since_elect_ = 0;
    count([&](Sequence& at) { put(at, enc::elect(*leader_)); }, block_.first);
  }

  // Holds up to `words` clocks from instruction i on, and then its store is put off by up to `wait`.
  InstIndex reach(InstIndex i, uint32_t words, InstIndex wait) const {
    return std::min(block_.last(), i + words - 1 + wait);
  }

  // word0 and mask. With four words at hand they leave with the first clocks, else by themselves.
  Status write_header() {
    const InstIndex i = block_.first;
    const uint32_t word0 = record_head(c_, wire::RecordKind::inst, number_);
    std::optional<Holder> four;
    if (widest_ == 4) four = c_.scratch.try_holder(i, reach(i, 4 - header_words, waits[0]), {Shape::quad, Shape::two_pairs}, previous_);
    if (const auto& h = four) {
      take(*h);
      count([&](Sequence& at) {
        put(at, enc::mov_imm(h->r(0), word0));
        put(at, enc::vote_any_active(h->r(1)));
      }, i);
      filled_ = header_words;
      return {};
    }
    XT_TRY(const Holder h, c_.scratch.holder(i, i, {Shape::pair, Shape::single}, previous_));
    previous_ = h;
    count([&](Sequence& at) {
      put(at, enc::mov_imm(h.r(0), word0), {.stall = h.shape == Shape::single ? vector_to_memory : 1});
      if (h.shape == Shape::single) store_words(c_, at, h, 1, 0);
      const unsigned k = h.shape == Shape::single ? 0 : 1;
      put(at, enc::vote_any_active(h.r(k)), {.stall = vector_to_memory});
      if (h.shape == Shape::single)
        store_words(c_, at, h, 1, 4);
      else
        store_words(c_, at, h, 2, 0);
    }, i);
    offset_ = 4 * header_words;
    return {};
  }

  // A holder for the next words, as large as the place in the record is aligned for.
  Status open(InstIndex i) {
    std::optional<Holder> h;
    for (const auto& [shape, words] : {std::pair{Shape::quad, 4u}, {Shape::two_pairs, 4u}, {Shape::pair, 2u}, {Shape::single, 1u}})
      for (InstIndex wait : waits) {
        if (h || words > widest_ || offset_ % (4 * words) != 0) continue;
        wait_ = wait;
        h = c_.scratch.try_holder(i, reach(i, words, wait), {shape}, previous_);
      }
    if (!h) {
      wait_ = waits[0];
      XT_TRY(h, c_.scratch.holder(i, reach(i, 1, wait_), {Shape::single}, previous_));
    }
    if (pending_ && shares(*h, pending_->holder)) store_pending(i);
    take(*h);
    return {};
  }

  static bool shares(const Holder& a, const Holder& b) {
    for (unsigned x = 0; x < capacity(a.shape); ++x)
      for (unsigned y = 0; y < capacity(b.shape); ++y)
        if (a.reg[x] == b.reg[y]) return true;
    return false;
  }

  void take(const Holder& h) {
    holder_ = h;
    previous_ = h;
    filled_ = 0;
  }

  void read_clock(InstIndex i, bool tail) {
    Schedule s;
    const bool last_word = filled_ + 1 == capacity(holder_.shape);
    const bool at_once = tail || (wait_ == 0 && last_word);
    if (at_once) s.stall = vector_to_memory;
    // Three words of four are stored as four: read the whole clock, which fills the last as well.
    const bool fill = tail && filled_ == 2 && capacity(holder_.shape) == 4;
    count([&](Sequence& at) {
      put(at, fill ? enc::cs2r64(holder_.r(2), enc::sr_clock_lo) : enc::cs2r32(holder_.r(filled_), enc::sr_clock_lo), s);
    }, i);
    ++filled_;
    if (filled_ < capacity(holder_.shape) && !tail) return;
    if (pending_) store_pending(i);
    pending_ = Pending{holder_, filled_ > 2 ? 4 : filled_, offset_, std::min(block_.last(), i + wait_), s.stall};
    offset_ += 4 * filled_;
    filled_ = 0;
    if (at_once && !tail) store_pending(i);
  }

  bool ready() const {
    return pending_->cycles >= vector_to_memory && (!leader_ || since_elect_ >= predicate_to_guard);
  }

  void store_pending(InstIndex i) {
    Sequence& at = c_.out.before[i];
    unsigned missing = pending_->cycles >= vector_to_memory ? 0 : vector_to_memory - pending_->cycles;
    // A store that can not wait for the election goes out by all lanes.
    const bool by_leader = leader_ && since_elect_ + missing >= predicate_to_guard;
    if (missing > 0) count([&](Sequence& s) { put_pause(s, missing); }, i);
    store_words(c_, at, pending_->holder, pending_->words, pending_->offset, by_leader ? leader_ : std::nullopt);
    pending_.reset();
  }

  ProbeContext& c_;
  uint32_t number_;
  const ProbeBlock& block_;
  uint32_t bytes_;
  const uint32_t widest_;              // store, in words: records of sparse sites are no whole chunks (plain_inst.cc)
  std::optional<Holder>& previous_;
  Holder holder_;
  uint32_t filled_ = 0, offset_ = 0;   // words in the holder; bytes of the record in front of it
  std::optional<Pending> pending_;
  std::optional<enc::Pred> leader_;
  unsigned since_elect_ = 0;
  InstIndex wait_ = waits[0];
};

// Where clocks are left out that others tell, so are the records of whole blocks.
std::vector<bool> implied_under_inst(const ProbeContext& c) {
  const auto blocks = static_cast<uint32_t>(c.blocks.blocks.size());
  const bool all_asked = c.scope.places.empty() && !c.scope.is_sparse();
  if (c.layout.wraps || c.plan.clock_gap == 0 || !all_asked) return std::vector<bool>(blocks, false);
  std::vector<bool> recorded(blocks, false);
  keep_beside_unrecorded(c, recorded);
  std::vector<unsigned> queued;
  for (const ProbeBlock& b : c.blocks.blocks) {
    const std::vector<bool> clocks = clock_places(c.code, b, c.plan.clock_gap);
    unsigned behind = 0;
    for (uint32_t k = 0; k < b.count; ++k) behind = (clocks[k] ? 0 : behind) + (pace_of(c.code.insts[b.first + k]) == Pace::queued);
    queued.push_back(behind);
  }
  return implied_blocks(c.code, c.blocks, recorded, c.plan.executions, full_blocks(c), queued);
}

// No record, and the clocks by the stall counts.
void leave_out(ProbeContext& c, uint32_t b) {
  const ProbeBlock& block = c.blocks.blocks[b];
  wire::Block& out = c.map.blocks[b];
  out.implied = true;
  out.clocks = block.count;
  for (InstIndex i = block.first; i <= block.last(); ++i)
    out.clock_at.push_back({0, wire::ClockPlace::implied, sass::get_control(c.code.insts[i].raw).stall, false});
}

}  // namespace

Status insert_inst(ProbeContext& c) {
  std::optional<Holder> previous;
  const std::vector<bool> implied = implied_under_inst(c), gathered = gathered_blocks(c.code, c.blocks, implied, full_blocks(c));
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    if (implied[b]) {
      leave_out(c, b);
      c.map.blocks[b].gathered = gathered[b];
      continue;
    }
    if (c.unrecorded(b) || (!c.layout.wraps && insert_plain_inst(c, b, previous))) continue;
    XT_TRY_STATUS(BlockWriter(c, b, previous).run());
    c.map.blocks[b].record_bytes = BlockWriter::bytes_of(c, c.blocks.blocks[b]);
    c.map.blocks[b].clocks = c.blocks.blocks[b].count;
  }
  return insert_exit_headers(c);
}

uint32_t inst_record_bytes(const Code&, const ProbeBlock& block, const Scope& scope) {
  return scope.holds_site(block) ? wire::inst_record_bytes(block.count) : 0;
}

}  // namespace xtrace::instrument
