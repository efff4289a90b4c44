// `inst`: a 32-bit clock before every instruction. The clocks of a block gather in quads of registers and leave four at a
// time: { word0, mask, clock 0, clock 1 } { clock 2 .. clock 5 } ... The store of a full quad is put off until its last
// clock has arrived by the instructions' own stall counts, so that it costs an issue slot and no wait.
#include <algorithm>

#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

constexpr uint32_t words_per_chunk = 4, header_words = 2;
// A store is put off by at most this many instructions after the chunk's last clock.
constexpr InstIndex longest_wait = 3;

// Walks one block and lays clocks and stores between its instructions.
class BlockWriter {
 public:
  BlockWriter(ProbeContext& c, uint32_t block, std::optional<Quad>& previous)
      : c_(c), number_(block), block_(c.blocks.blocks[block]), bytes_(inst_record_bytes(block_.count)),
        previous_(previous) {}

  Status run() {
    for (InstIndex i = block_.first; i <= block_.last(); ++i) {
      const bool head = i == block_.first, tail = i == block_.last();
      if (head) count([&](Sequence& at) { bump_cursor(c_, at, bytes_); }, i);
      if (head || word_ == 0) XT_TRY_STATUS(open_chunk(i, head));
      if (pending_ && (pending_->cycles >= vector_to_memory || i == pending_->latest || tail)) store_pending(i);
      read_clock(i, tail);
      if (tail) finish(i);
      if (pending_) pending_->cycles += sass::get_control(c_.code.insts[i].raw).stall;
    }
    return {};
  }

 private:
  struct Pending {               // a chunk with all its clocks read, not stored yet
    Quad quad;
    unsigned words = 0;
    uint32_t offset = 0;
    InstIndex latest = 0;        // must be stored before this instruction
    unsigned cycles = 0;         // that have passed at least since its last clock was issued
  };

  template <typename F>
  void count(F put_something, InstIndex i) {
    Sequence& at = c_.out.before[i];
    const unsigned before = least_cycles(at);
    put_something(at);
    if (pending_) pending_->cycles += least_cycles(at) - before;
  }

  Status open_chunk(InstIndex i, bool head) {
    XT_TRY(const Quad q, c_.scratch.quad(i, std::min(block_.last(), i + words_per_chunk + longest_wait), previous_));
    if (pending_ && pending_->quad.reg == q.reg) store_pending(i);
    quad_ = q;
    previous_ = q;
    if (!head) return {};
    count([&](Sequence& at) { begin_record(c_, at, q, wire::RecordKind::inst, number_); }, i);
    word_ = header_words;
    return {};
  }

  void read_clock(InstIndex i, bool tail) {
    Schedule s;
    if (word_ == 0) s.wait_mask = wait_for(c_, quad_);
    if (tail) s.stall = vector_to_memory;   // its store follows at once
    // A record that ends in the third word of a chunk is stored with the fourth: read the whole clock, which fills both.
    const bool fill = tail && word_ == 2;
    count([&](Sequence& at) {
      put(at, fill ? enc::cs2r64(quad_.r(word_), enc::sr_clock_lo) : enc::cs2r32(quad_.r(word_), enc::sr_clock_lo), s);
    }, i);
    ++word_;
    if (word_ < words_per_chunk && !tail) return;
    if (pending_) store_pending(i);
    pending_ = Pending{quad_, word_ > 2 ? 4 : word_, offset_, std::min(block_.last(), i + longest_wait), s.stall};
    offset_ += wire::chunk_bytes;
    word_ = 0;
  }

  void store_pending(InstIndex i) {
    Sequence& at = c_.out.before[i];
    if (pending_->cycles < vector_to_memory)
      put(at, enc::nop(), {.stall = vector_to_memory - pending_->cycles});
    store_record(c_, at, pending_->quad, pending_->words, pending_->offset);
    guard_borrowed(c_, pending_->quad, i, block_.last());
    pending_.reset();
  }

  void finish(InstIndex i) {
    store_pending(i);
    // At least: this instruction, the next head (word0, mask) and its first clock with a store right behind.
    const unsigned next_store = sass::get_control(c_.code.insts[i].raw).stall + 2 + vector_to_memory;
    bump_address(c_, c_.out.before[i], bytes_, address_stall(next_store));
  }

  ProbeContext& c_;
  uint32_t number_;
  const ProbeBlock& block_;
  uint32_t bytes_;
  std::optional<Quad>& previous_;
  Quad quad_;
  uint32_t word_ = 0, offset_ = 0;
  std::optional<Pending> pending_;
};

}  // namespace

Status insert_inst(ProbeContext& c) {
  std::optional<Quad> previous;
  for (uint32_t b = 0; b < c.blocks.blocks.size(); ++b) {
    XT_TRY_STATUS(BlockWriter(c, b, previous).run());
    c.map.blocks[b].record_bytes = inst_record_bytes(c.blocks.blocks[b].count);
    c.map.blocks[b].clocks = c.blocks.blocks[b].count;
  }
  return insert_exit_headers(c);
}

}  // namespace xtrace::instrument
