// `block` in plain slots: one word { clock << n | block + 1 } a record, and a second one with the mask where lanes may be
// missing. The clock is read at the head of the block, or in front of the first instruction where registers are free; the
// rest is put off until the kernel itself waits for memory, or until the operands have arrived by the block's own stall
// counts, so that it costs issue slots and no time.
// Where lanes come from a loop whose rounds are counted, their counts stand behind; or the numbers of the ways that they came.
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;

// The block, and what always follows it without a record of its own: in front of a barrier nothing is stored that can be stored
// behind it. Where lanes may end, all must be stored.
ProbeBlock with_followers(const ProbeContext& c, uint32_t number) {
  ProbeBlock all = c.blocks.blocks[number];
  if (c.map.blocks[number].rounds_at != 0) return all;   // the next loop may begin there
  for (uint32_t b = number; !c.map.blocks[b].exits && c.runs_into(b) && c.map.blocks[b + 1].implied && !c.map.blocks[b + 1].numbered; ++b) all.count += c.blocks.blocks[b + 1].count;
  return all;
}

class ShortHead {
 public:
  ShortHead(ProbeContext& c, uint32_t number, ShortForm form, std::optional<Holder>& previous)
      : c_(c), block_(with_followers(c, number)), own_last_(c.blocks.blocks[number].last()), number_(number), full_(c.full(number)), aligned_(form.aligned),
        bytes_(form.bytes(c.map.blocks[number])), previous_(previous) {
    c.map.blocks[number].record_bytes = bytes_;
  }

  Status run() {
    const Shape shape = full_ ? Shape::single : Shape::pair;
    for (InstIndex at = block_.first; at <= own_last_; ++at)
      if (put_off(at, shape)) return {};
    for (InstIndex at = block_.first; at <= own_last_; ++at)
      if (const auto h = c_.scratch.after_wait(at, shape, previous_)) {
        write(*h, at, at, at);
        return {};
      }
    if (full_ || !one_by_one()) {
      XT_TRY(const Holder h, c_.scratch.holder(block_.first, block_.first, {shape}, previous_));
      write(h, block_.first, block_.first, block_.first);
    }
    return {};
  }

  // As the first record of its warp, in one store with the head: one store, one addition and one partly written sector less. The
  // fourth word is the clock of the block that followed, where there is one. Gives the last block that it passes over.
  uint32_t with_head() {
    const std::vector<uint32_t> links = c_.links_from(number_, 2);
    if (links.size() == 2 && with_head_in(c_.blocks.blocks[links[1]], true)) {
      c_.claim_chain(links, 8);
      return links[1];
    }
    return with_head_in(block_, false) ? number_ : 0;
  }

 private:
  // Stored in block `last`; `chained`: of which the record has the clock.
  bool with_head_in(const ProbeBlock& last, bool chained) {
    const auto in_entry = first_wait(c_.code, c_.blocks, c_.out);
    if (!in_entry) return false;
    const InstIndex clock = block_.first, shift = ready(clock, clock_to_vector(*c_.code.arch), block_.last()),
                    store = ready(chained ? last.first : shift, vector_to_memory, last.last());
    const Shadows entry = find_shadows(c_.code, c_.blocks.blocks[0], 1, c_.blocks.blocks[0].last());
    const Shadows here = find_shadows(c_.code, last, store, last.last());
    struct Choice {
      InstIndex rest, store;
    };
    std::vector<Choice> choices;
    // The rest of the prologue where the kernel waits for memory, if it does: in the entry, else here.
    const auto rest_here = find_shadows(c_.code, block_, chained ? clock + 1 : store, block_.last()).memory;
    if (rest_here && *rest_here > clock && !entry.memory) choices.push_back({*rest_here, chained ? here.memory.value_or(store) : *rest_here});
    for (const auto& place : {here.memory, here.any, std::optional(store)})
      if (place) choices.push_back({*in_entry, *place});
    const uint32_t bytes = chained ? 8 : bytes_;
    for (const Choice& choice : choices) {
      const auto head = c_.scratch.try_holder(0, choice.store, {Shape::quad}, std::nullopt);
      if (!head) continue;
      sass::RegSet taken;
      for (uint8_t r : head->reg) taken.set(r);
      const auto loads = c_.scratch.try_holder(0, choice.store, {Shape::quad}, head, taken);
      if (!loads) continue;
      c_.held_head = HeldHead{choice.rest, *loads, *head, bytes};
      // The prologue needs the third and fourth word's registers until its rest is done: the record has one of its own.
      taken.reset();
      for (const Holder* h : {&*head, &*loads})
        for (uint8_t r : h->reg) taken.set(r);
      const bool early = choice.rest > clock;
      const auto own = early ? c_.scratch.try_holder(clock, choice.store, {Shape::single}, head, taken) : std::nullopt;
      if (early && !own) continue;
      const enc::Gpr word = early ? own->r(0) : head->r(2);
      put(c_.out.before[clock], enc::cs2r32(word, enc::sr_clock_lo));
      put_pause(c_.out.before[shift], missing(clock, shift, clock_to_vector(*c_.code.arch)));
      put(c_.out.before[shift], shifted(word));
      if (chained) put(c_.out.before[last.first], enc::cs2r32(head->r(3), enc::sr_clock_lo));
      Sequence& at = c_.out.before[choice.store];
      put_pause(at, missing(chained ? last.first : shift, choice.store, vector_to_memory));
      if (early) put(at, enc::mov(head->r(2), word), {.stall = chained ? vector_to_memory : 1});
      if (!chained) put(at, enc::mov_imm(head->r(3), 0), {.stall = vector_to_memory});
      const uint32_t ends = c_.map.layout.ends_at != 0 ? wire::column_bytes : 0;   // stands behind this record
      put(at, with_record_policy(enc::stg(enc::VectorAddress{loads->r(2), -static_cast<int32_t>(c_.layout.lead_bytes + bytes + ends)},
                                          head->r(0), enc::Size::b128)),
          {.stall = scoreboard_visible, .read_barrier = head->scoreboard});
      previous_ = head;
      return true;
    }
    c_.held_head.reset();
    return false;
  }

  // An instruction that follows its operand's producer at `from`, which issues in one cycle: the first place where nothing
  // has to be waited for, or the end of the block.
  InstIndex ready(InstIndex from, unsigned cycles) const { return ready(from, cycles, block_.last()); }
  InstIndex ready(InstIndex from, unsigned cycles, InstIndex end) const {
    unsigned passed = 1;
    for (InstIndex i = from; i < end; ++i) {
      if (passed >= cycles) return i;
      passed += sass::get_control(c_.code.insts[i].raw).stall;
    }
    return end;
  }
  unsigned missing(InstIndex from, InstIndex to, unsigned cycles) const {
    const unsigned passed = 1 + stall_cycles(c_.code, from, to);
    return passed >= cycles ? 0 : cycles - passed;
  }

  bool put_off(InstIndex clock, Shape shape) {
    const InstIndex shift = ready(clock, clock_to_vector(*c_.code.arch)), store = ready(shift, vector_to_memory);
    // Best where the kernel waits, longest first, and then all of it but the clock: in a loop whose warps are woken together
    // every instruction in front of the next load delays the last of them.
    const Shadows shadows = find_shadows(c_.code, block_, clock + 1, block_.last());
    struct Choice {
      InstIndex shift, store;
    };
    std::vector<Choice> choices;
    if (shadows.memory) choices.push_back({*shadows.memory, *shadows.memory});
    for (const auto& place : {find_shadows(c_.code, block_, store, block_.last()).any, std::optional(store),
                              std::optional(shift), std::optional(clock)})
      if (place) choices.push_back({std::min(shift, *place), *place});
    for (const Choice& choice : choices) {
      const auto h = c_.scratch.try_holder(clock, choice.store, {shape}, previous_);
      if (!h) continue;
      write(*h, clock, choice.shift, choice.store);
      return true;
    }
    return false;
  }

  sass::RawInst shifted(enc::Gpr r) const {
    return enc::lea_imm(r, r, number_ + 1, static_cast<uint8_t>(c_.layout.index_bits));
  }
  void write(const Holder& h, InstIndex clock, InstIndex shift, InstIndex store) {
    Sequence& head = c_.out.before[clock];
    put(head, enc::cs2r32(h.r(0), enc::sr_clock_lo), {.wait_mask = h.wait_mask});
    if (!full_) put(c_.out.before[shift], enc::vote_any_active(h.r(1)));
    put_pause(c_.out.before[shift], missing(clock, shift, clock_to_vector(*c_.code.arch)));
    put(c_.out.before[shift], shifted(h.r(0)));
    put_pause(c_.out.before[store], missing(shift, store, vector_to_memory));
    if (full_ || aligned_) {
      store_words(c_, c_.out.before[store], h, full_ ? 1 : 2, 0);
    } else {
      for (unsigned k = 0; k < 2; ++k)
        store_words(c_, c_.out.before[store], {Shape::single, {h.reg[k]}, h.scoreboard}, 1, 4 * k);
    }
    store_rounds(c_.out.before[store], h);
    finish(store);
    previous_ = h;
  }

  void store_rounds(Sequence& seq, const Holder& h) {
    const wire::Block& block = c_.map.blocks[number_];
    if (block.rounds_at == 0) return;
    const enc::Gpr lane = block.rounds_alike ? enc::RZ : *c_.lane_offset;
    const enc::Gpr numbers = block.has_ways ? *c_.ways : *c_.rounds;
    put(seq, with_record_policy(enc::stg({c_.scratch.uniform().address, lane, static_cast<int32_t>(block.rounds_at)}, numbers, enc::Size::b32)),
        {.stall = scoreboard_visible, .read_barrier = h.scoreboard});
  }

  // Two words through one register.
  bool one_by_one() {
    const InstIndex i = block_.first;
    const auto h = c_.scratch.try_holder(i, i, {Shape::single}, previous_);
    if (!h) return false;
    Sequence& seq = c_.out.before[i];
    put(seq, enc::cs2r32(h->r(0), enc::sr_clock_lo), {.stall = clock_to_vector(*c_.code.arch)});
    put(seq, shifted(h->r(0)), {.stall = vector_to_memory});
    store_words(c_, seq, *h, 1, 0);
    put(seq, enc::vote_any_active(h->r(0)), {.stall = vector_to_memory});
    store_words(c_, seq, *h, 1, 4);
    store_rounds(seq, *h);
    finish(i);
    previous_ = *h;
    return true;
  }

  void finish(InstIndex store) {
    bump_address(c_, c_.out.before[store], bytes_,
                 stall_cycles(c_.code, store, block_.last() + 1) + vector_to_vector + vector_to_memory);
  }

  ProbeContext& c_;
  const ProbeBlock block_;    // with its followers
  const InstIndex own_last_;
  uint32_t number_;
  bool full_, aligned_;
  uint32_t bytes_;
  std::optional<Holder>& previous_;
};

}  // namespace

uint32_t insert_with_head(ProbeContext& c, ShortForm form, std::optional<Holder>& previous) {
  return c.always_follows(0) ? ShortHead(c, 1, form, previous).with_head() : 0;
}

Status insert_short_block(ProbeContext& c, uint32_t block, ShortForm form, std::optional<Holder>& previous) {
  return ShortHead(c, block, form, previous).run();
}

}  // namespace xtrace::instrument
