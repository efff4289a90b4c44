// `block` in plain slots: one word { clock << n | block + 1 } a record, and a second one with the mask where lanes may be
// missing. The clock is read at the head of the block, or in front of the first instruction where registers are free; the
// shift and the store are put off until their operands have arrived by the block's own stall counts, and the store until the
// kernel itself waits for something, so that they cost issue slots and no time.
#include <array>

#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;

class ShortHead {
 public:
  ShortHead(ProbeContext& c, uint32_t number, unsigned words, std::optional<Holder>& previous)
      : c_(c), block_(c.blocks.blocks[number]), number_(number), words_(words), full_(c.full(number)), previous_(previous) {}

  Status run() {
    const Shape shape = full_ ? Shape::single : Shape::pair;
    for (InstIndex at = block_.first; at <= block_.last(); ++at)
      if (put_off(at, shape)) return {};
    if (full_ || !one_by_one()) {
      XT_TRY(const Holder h, c_.scratch.holder(block_.first, block_.first, {shape}, previous_));
      write(h, block_.first, block_.first, block_.first);
    }
    return {};
  }

  // As the first record of its warp, in one store with the head: one store, one addition and
  // one partly written sector less.
  bool with_head() {
    const auto rest_at = first_wait(c_.code, c_.blocks, c_.out);
    if (!rest_at) return false;
    const InstIndex clock = block_.first, shift = ready(clock, vector_to_vector), store = ready(shift, vector_to_memory);
    std::vector<InstIndex> places = shadows(store);
    places.push_back(store);
    for (InstIndex last : places) {
      const auto head = c_.scratch.try_holder(0, last, {Shape::quad}, std::nullopt);
      if (!head) continue;
      sass::RegSet taken;
      for (uint8_t r : head->reg) taken.set(r);
      const auto loads = c_.scratch.try_holder(0, *rest_at, {Shape::quad}, head, taken);
      if (!loads) continue;
      c_.held_head = HeldHead{*rest_at, *loads, *head};
      const enc::Gpr word = head->r(2);
      put(c_.out.before[clock], enc::cs2r32(word, enc::sr_clock_lo));
      put(c_.out.before[clock], enc::mov_imm(head->r(3), 0));
      put_pause(c_.out.before[shift], missing(clock, shift, vector_to_vector));
      put(c_.out.before[shift], shifted(word));
      put_pause(c_.out.before[last], missing(shift, last, vector_to_memory));
      put(c_.out.before[last],
          with_record_policy(enc::stg({c_.scratch.uniform().address, enc::RZ, -static_cast<int32_t>(c_.layout.lead_bytes)},
                                      head->r(0), enc::Size::b128)),
          {.stall = scoreboard_visible, .read_barrier = head->scoreboard});
      c_.map.blocks[1].record_bytes = 4 * words_;
      if (!c_.blocks.successors[1].empty()) finish(last);   // else it was the only one
      previous_ = head;
      return true;
    }
    return false;
  }

 private:
  // An instruction that follows its operand's producer at `from`, which issues in one cycle: the first place where nothing
  // has to be waited for, or the end of the block.
  InstIndex ready(InstIndex from, unsigned cycles) const {
    unsigned passed = 1;
    for (InstIndex i = from; i < block_.last(); ++i) {
      if (passed >= cycles) return i;
      passed += sass::get_control(c_.code.insts[i].raw).stall;
    }
    return block_.last();
  }
  unsigned missing(InstIndex from, InstIndex to, unsigned cycles) const {
    const unsigned passed = 1 + stall_cycles(c_.code, from, to);
    return passed >= cycles ? 0 : cycles - passed;
  }

  // Where the kernel waits for a result anyway, longest first: what stands in front of it costs nothing.
  std::vector<InstIndex> shadows(InstIndex from) const {
    enum { memory, other, kinds };
    std::array<std::optional<InstIndex>, kinds> first;
    std::array<bool, 6> loads{};   // by scoreboard: signalled by a load from memory, in this block
    for (InstIndex i = block_.first; i <= block_.last(); ++i) {
      const sass::Control c = sass::get_control(c_.code.insts[i].raw);
      bool any = false, load = false;
      for (unsigned sb = 0; sb < 6; ++sb) {
        any |= c.wait_mask >> sb & 1;
        load |= (c.wait_mask >> sb & 1) && loads[sb];
      }
      if (i >= from && load && !first[memory]) first[memory] = i;
      if (i >= from && any && !first[other]) first[other] = i;
      const sass::Effects& fx = c_.code.insts[i].fx;
      if (c.write_barrier < 6)
        loads[c.write_barrier] = fx.kind == sass::MemKind::load && fx.space != sass::MemSpace::constant;
    }
    std::vector<InstIndex> places;
    for (const auto& place : first)
      if (place) places.push_back(*place);
    return places;
  }

  bool put_off(InstIndex clock, Shape shape) {
    const InstIndex shift = ready(clock, vector_to_vector), store = ready(shift, vector_to_memory);
    std::vector<InstIndex> places = shadows(store);
    places.insert(places.end(), {store, shift, clock});
    for (InstIndex last : places) {
      const auto h = c_.scratch.try_holder(clock, last, {shape}, previous_);
      if (!h) continue;
      write(*h, clock, std::min(shift, last), last);
      return true;
    }
    return false;
  }

  sass::RawInst shifted(enc::Gpr r) const {
    return enc::lea_imm(r, r, number_ + 1, static_cast<uint8_t>(c_.layout.index_bits));
  }
  void write(const Holder& h, InstIndex clock, InstIndex shift, InstIndex store) {
    Sequence& head = c_.out.before[clock];
    put(head, enc::cs2r32(h.r(0), enc::sr_clock_lo));
    if (!full_) put(head, enc::vote_any_active(h.r(1)));
    put_pause(c_.out.before[shift], missing(clock, shift, vector_to_vector));
    put(c_.out.before[shift], shifted(h.r(0)));
    put_pause(c_.out.before[store], missing(shift, store, vector_to_memory));
    store_words(c_, c_.out.before[store], h, full_ ? 1 : 2, 0);
    finish(store);
    previous_ = h;
  }

  // Two words through one register.
  bool one_by_one() {
    const InstIndex i = block_.first;
    const auto h = c_.scratch.try_holder(i, i, {Shape::single}, previous_);
    if (!h) return false;
    Sequence& seq = c_.out.before[i];
    put(seq, enc::cs2r32(h->r(0), enc::sr_clock_lo), {.stall = vector_to_vector});
    put(seq, shifted(h->r(0)), {.stall = vector_to_memory});
    store_words(c_, seq, *h, 1, 0);
    put(seq, enc::vote_any_active(h->r(0)), {.stall = vector_to_memory});
    store_words(c_, seq, *h, 1, 4);
    finish(i);
    previous_ = *h;
    return true;
  }

  void finish(InstIndex store) {
    bump_address(c_, c_.out.before[store], 4 * words_,
                 stall_cycles(c_.code, store, block_.last() + 1) + vector_to_vector + vector_to_memory);
  }

  ProbeContext& c_;
  const ProbeBlock& block_;
  uint32_t number_;
  unsigned words_;
  bool full_;
  std::optional<Holder>& previous_;
};

}  // namespace

bool insert_with_head(ProbeContext& c, unsigned words, std::optional<Holder>& previous) {
  return c.always_follows(0) && ShortHead(c, 1, words, previous).with_head();
}

Status insert_short_block(ProbeContext& c, uint32_t block, unsigned words, std::optional<Holder>& previous) {
  return ShortHead(c, block, words, previous).run();
}

}  // namespace xtrace::instrument
