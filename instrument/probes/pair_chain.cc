// `block` in plain slots, for two blocks of which the second followed the first: { clock << n | block + 1, clock }, by one store of
// 64 bits, or where records are not aligned by one of 32 bits, in which some lanes have the first word and the others the second (LaneWords). That
// costs one cycle of the memory pipe less than two records do, or two, and three issue slots, and no lane groups.
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;

class PairChain {
 public:
  PairChain(ProbeContext& c, const std::vector<uint32_t>& links, ShortForm form, std::optional<Holder>& previous)
      : c_(c), form_(form), links_(links), first_(c.blocks.blocks[links[0]]), second_(c.blocks.blocks[links[1]]), previous_(previous) {}

  bool run() {
    // Best where the kernel waits, as short_block.cc says.
    const Shadows shadows = find_shadows(c_.code, second_, second_.first + 1, second_.last());
    for (const auto& store : {shadows.memory, shadows.any, std::optional(std::min(second_.last(), second_.first + 8)), std::optional(second_.first)}) {
      if (!store) continue;
      const auto h = c_.scratch.try_holder(first_.first, *store, {form_.by_lanes && c_.lane_words->place ? Holder::Shape::single : Holder::Shape::pair}, previous_);
      if (!h) continue;
      form_.by_lanes ? write_by_lanes(*h, *store) : write(*h, *store);
      return true;
    }
    return false;
  }

 private:
  void write(const Holder& h, InstIndex store) {
    first_word(h);
    put(c_.out.before[second_.first], enc::cs2r32(h.r(1), enc::sr_clock_lo));
    wait_for_second(store);
    store_words(c_, c_.out.before[store], h, 2, 0);
    finish(h, store);
  }

  void write_by_lanes(const Holder& h, InstIndex store) {
    const InstIndex shift = first_word(h);
    Sequence& second = c_.out.before[second_.first];
    const unsigned since = 1 + stall_cycles(c_.code, shift, second_.first);
    if (since < vector_to_vector) put_pause(second, vector_to_vector - since);
    put(second, enc::with_guard(enc::cs2r32(h.r(0), enc::sr_clock_lo), c_.lane_words->odd));
    const enc::Gpr place = word_place(c_, second, h.r(1));
    wait_for_second(store);
    store_by_lanes(c_, c_.out.before[store], h.r(0), place, 0, h.scoreboard);
    finish(h, store);
  }

  // Gives in front of what it is complete.
  InstIndex first_word(const Holder& h) {
    put(c_.out.before[first_.first], enc::cs2r32(h.r(0), enc::sr_clock_lo), {.wait_mask = h.wait_mask});
    const InstIndex shift = settled(c_, first_.first, clock_to_vector(*c_.code.arch), first_.last());
    put(c_.out.before[shift], enc::lea_imm(h.r(0), h.r(0), links_[0] + 1, static_cast<uint8_t>(c_.layout.index_bits)));
    return shift;
  }
  void wait_for_second(InstIndex store) {
    const unsigned passed = 1 + stall_cycles(c_.code, second_.first, store), wanted = std::max(vector_to_memory, clock_to_vector(*c_.code.arch));
    put_pause(c_.out.before[store], passed >= wanted ? 0 : wanted - passed);
  }
  void finish(const Holder& h, InstIndex store) {
    bump_address(c_, c_.out.before[store], 8, stall_cycles(c_.code, store, second_.last() + 1) + vector_to_vector + vector_to_memory);
    c_.claim_chain(links_, 8);
    previous_ = h;
  }

  ProbeContext& c_;
  const ShortForm form_;
  const std::vector<uint32_t> links_;
  const ProbeBlock first_, second_;
  std::optional<Holder>& previous_;
};

}  // namespace

uint32_t insert_pair_chain(ProbeContext& c, uint32_t block, ShortForm form, std::optional<Holder>& previous) {
  const std::vector<uint32_t> links = c.links_from(block, 2);
  return links.size() == 2 && PairChain(c, links, form, previous).run() ? links[1] - block : 0;
}

}  // namespace xtrace::instrument
