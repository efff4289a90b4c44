// `inst` in plain slots: { head, mask, clock 0, clocks 1 and 2, clocks 3 and 4, ... }, the first clock whole and of most others
// 16 bits each; full blocks leave the mask out. A record is cut into pieces, each of which one store writes.
//
// What a store costs is the registers that it hands over for all 32 lanes (docs/performance.md). Where no lane is missing
// and predicates are free, one register therefore carries four words: all lanes take the first, then ever fewer lane groups
// the second to the fourth, by the guard of the CS2R itself. A second register takes the odd clocks in the same way, and one
// PRMT puts the halves together:
//
//         CS2R.32 R, clock 1     CS2R.32 T, clock 2      all lanes
//   @bit0 CS2R.32 R, clock 3     ...                     groups 1 and 3
//   @bit1 CS2R.32 R, clock 5     ...                     groups 2 and 3
//   @both CS2R.32 R, clock 7     ...                     group  3
//         PRMT R, R, low halves, T                       P2R L, PR, bits of the group
//         STG  [L + UR + n], R                           groups 0..3 store words 0..3
//
// Where not every instruction has a clock (clocks.h), the first one may stand in the head beside the block number, shifted before
// the next word goes into its register: { clock << n | block + 1, clock, clock, clock } by one store, or the head alone.
//
// Under sparse sites only these have a clock, the first of them in the head: { clock << n | block + 1, mask } is the record of a block
// with one site. Such records are whole words of 64 bits, others whole chunks, so that no store is wider.
//
// In whole sectors (trace/wire/record.h) each piece of a full block fills one or two: one register by the offset that the kernel holds
// for that, so that lane groups have two words each; of two and four registers a mask of it says where a lane's words go.
//
// How long a piece is, how many registers it has and whether it has room for odd clocks is a question of which registers
// are dead for how long: of the pieces that could come next, the one with the most words for its cost is taken.
#include <algorithm>

#include "instrument/clocks.h"
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;

constexpr unsigned none = ~0u;
constexpr uint32_t low_halves = 0x5410;
constexpr uint32_t largest_packed_record = 4096;   // far inside the 24 bits of a store's offset and 16 of a ClockPlace
constexpr uint32_t few_bytes = 8;   // records of few clocks are whole multiples: the widest store into one
// A store is put off by at most this many instructions after the last clock in it.
constexpr InstIndex waits[] = {5, 2, 0};

// One word of the record, and the clocks in it (numbers of instructions in the block).
struct Word {
  enum class Kind { head, mask, clock, halves } kind;
  unsigned low = none, high = none;
};

struct Piece : StoreShape {
  std::vector<Word> words;
  InstIndex first = 0, last = 0;   // instructions of its clocks
  InstIndex store = 0;             // latest place of its store
  Holder data;
  enc::Gpr odd, offset;            // RZ: not needed
  InstIndex offset_at = 0;         // where the lane offset is made
  uint32_t at = 0;                 // byte in the record
  bool merges() const {
    return std::any_of(words.begin(), words.end(), [](const Word& w) { return w.high != none; });
  }
  bool shifts_head() const { return words[0].kind == Word::Kind::head && words[0].low != none; }
  // What it costs: cycles of an SM's memory pipe, and a share of them for every other instruction and for the bytes.
  double cost() const {
    double extra = offset_by_groups() ? 1.5 : offset_by_mask() ? 1 : 0;
    for (const Word& w : words) extra += w.high != none && groups == 1 ? 1 : 0;
    if (merges() && groups > 1) extra += registers;
    if (store == last) extra += 1;   // has to wait for its last clock
    return 1.0 + registers + 0.3 * extra + bytes() / 64.0;
  }
  double worth() const {
    double information = 0;
    for (const Word& w : words) information += w.high != none ? 2 : 1;
    return information / cost();
  }
};

// How clocks go into words: two halves to each; the same, but the second of four words whole where the first is, as they share a
// register then (see shape()); each whole.
enum class Fill : uint8_t { halves, halves_behind_whole, whole };

class PlainInst {
 public:
  PlainInst(ProbeContext& c, uint32_t number, std::optional<Holder>& previous)
      : c_(c), block_(c.blocks.blocks[number]), number_(number), full_(c.full(number)), sectors_(c.fills_sectors(number)),
        few_(c.scope.is_sparse()), lanes_(full_ && c.map.layout.last_lanes == 32 && !early(c, number) ? c.scratch.lane_groups() : std::nullopt), previous_(previous),
        clock_at_(block_.count) {
    const bool some = !c.scope.places.empty() || few_;
    sparse_ = !some && c.plan.clock_gap != 0;
    apart_ = sparse_ || few_;
    wanted_ = clock_places(c.code, block_, sparse_ ? c.plan.clock_gap : 0);
    if (some)
      for (uint32_t k = 0; k < block_.count; ++k) wanted_[k] = (k == 0 && !few_) || c.scope.has(block_.first + k);
    for (uint32_t k = 0; k < block_.count; ++k) {
      const CodeInst& inst = c.code.insts[block_.first + k];
      clock_at_[k] = {0, wanted_[k] ? wire::ClockPlace::absent : wire::ClockPlace::implied, sass::get_control(inst.raw).stall,
                      pace_of(inst) == Pace::waits};
    }
  }

  bool run() {
    if (find_plan())
      for (const Piece& p : pieces_) write(p);
    else if (!head_alone())
      return false;
    const InstIndex last = block_.last();
    bump_address(c_, c_.out.before[last], bytes_, stall_cycles(c_.code, last, last + 1) + least_head_cycles);
    wire::Block& b = c_.map.blocks[number_];
    b.full = full_;
    b.record_bytes = bytes_;
    b.clocks = block_.count;
    b.clock_at = std::move(clock_at_);
    b.grouped = std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& p) { return p.groups > 1; });
    if (!pieces_.empty()) previous_ = pieces_.back().data;
    return true;
  }

 private:
  // The entry block's clocks do without lane groups, which the prologue sets: so its rest can stand where the kernel first waits.
  static bool early(const ProbeContext& c, uint32_t number) { return number == 0 && may_read_clocks_early(c.plan, c.layout, c.blocks); }

  // --- what comes when, in which registers

  // The words that every record has, its first clock read at `begin`.
  std::vector<Word> header(unsigned begin) const {
    std::vector<Word> words;
    if (clock_in_head_) words.push_back({Word::Kind::head, begin});
    if (!clock_in_head_) words.push_back({Word::Kind::head});
    if (!full_) words.push_back({Word::Kind::mask});
    if (!clock_in_head_) words.push_back({Word::Kind::clock, begin});
    return words;
  }

  // The next words: what is left of the header, then clocks; in halves or whole.
  std::vector<Word> next_words(size_t headed, unsigned clock, unsigned limit, Fill fill) const {
    std::vector<Word> words;
    while (words.size() < limit) {
      if (headed < header_.size()) {
        words.push_back(header_[headed++]);
      } else if (clock < block_.count) {
        const unsigned second = next_place(clock + 1);
        const bool behind_whole = words.size() % LaneGroups::groups == 1 && words.back().high == none;
        const bool halves = fill == Fill::halves || (fill == Fill::halves_behind_whole && !behind_whole);
        const bool two = halves && second < block_.count;
        words.push_back(two ? Word{Word::Kind::halves, clock, second} : Word{Word::Kind::clock, clock});
        clock = two ? next_place(second + 1) : second;
      } else {
        break;
      }
    }
    return words;
  }

  // The first instruction from `clock` on that has a clock, if a register is free.
  unsigned next_place(unsigned clock) const {
    while (clock < block_.count && !wanted_[clock]) ++clock;
    return clock;
  }

  // Without lane groups the head carries the first clock as well, if the launch is short enough. With them the clock is shifted
  // before the next word comes, which costs less where few clocks follow.
  bool find_plan() {
    std::vector<bool> heads;   // with the clock
    if (c_.layout.index_bits != 0 && (!lanes_ || apart_)) heads.push_back(true);
    if (lanes_ || heads.empty()) heads.push_back(false);
    constexpr double missing_clock = 2;
    std::optional<double> least;
    std::vector<Piece> best_pieces;
    std::vector<bool> best_wanted;
    uint32_t best_bytes = 0;
    const std::vector<bool> wanted = wanted_;
    for (const bool in_head : heads) {
      clock_in_head_ = in_head;
      wanted_ = wanted;
      unsigned missing = 0;
      if (!plan(missing)) continue;
      double cost = missing_clock * missing;
      for (const Piece& p : pieces_) cost += p.cost();
      if (least && cost >= *least) continue;
      least = cost;
      best_pieces = pieces_;
      best_wanted = wanted_;
      best_bytes = bytes_;
    }
    if (!least) return false;
    pieces_ = std::move(best_pieces);
    wanted_ = std::move(best_wanted);
    bytes_ = best_bytes;
    return true;
  }

  // Where no register is free at all: the block number with a clock, and the mask, by one that is once a scoreboard has been waited
  // for which the kernel waits for later. In place of occupancy.
  bool head_alone() {
    if (!sparse_ || c_.layout.index_bits == 0) return false;
    pieces_.clear();
    for (uint32_t k = 0; k < block_.count; ++k) {
      const InstIndex at = block_.first + k;
      const auto h = c_.scratch.after_wait(at, full_ ? Shape::single : Shape::pair, previous_);
      if (!h) continue;
      Sequence& seq = c_.out.before[at];
      put(seq, enc::cs2r32(h->r(0), enc::sr_clock_lo), {.stall = clock_to_vector(*c_.code.arch), .wait_mask = h->wait_mask});
      shift_head(h->r(0), at);
      if (!full_) put(seq, enc::vote_any_active(h->r(1)));
      put_pause(seq, vector_to_memory - 1);
      if (sectors_) store_sector(c_, seq, *h, 0);
      else store_words(c_, seq, *h, full_ ? 1 : 2, 0);
      place(k, 0, wire::ClockPlace::in_head);
      bytes_ = c_.alignment(wire::chunk_bytes);
      previous_ = *h;
      return true;
    }
    return false;
  }

  bool plan(unsigned& missing) {
    std::optional<Holder> previous = previous_;
    pieces_.clear();
    unsigned begin = next_place(0);   // where the header's clock is read
    const unsigned at_first = begin;
    header_ = header(begin);
    size_t headed = 0;
    unsigned clock = next_place(begin + 1);
    uint32_t at = 0;
    while (headed < header_.size() || clock < block_.count) {
      std::optional<Piece> best;
      double best_worth = 0;
      for (unsigned registers : {1u, 2u, 4u})
        for (Fill fill : {Fill::halves, Fill::halves_behind_whole, Fill::whole}) {
          if (fill == Fill::halves_behind_whole && !(lanes_ && apart_)) continue;
          if (few_ && 4 * registers > few_bytes) continue;
          auto p = longest(headed, clock, registers, fill, at, previous);
          if (!p || p->worth() <= best_worth) continue;
          best_worth = p->worth();
          best = std::move(p);
        }
      if (!best) {   // no register is free here: this instruction has no clock
        ++missing;
        if (headed > 0 && headed < header_.size()) return false;
        if (headed == 0 && few_) {   // the next best place: behind the site, else in front of it
          if (++begin == block_.count) begin = 0;
          if (begin == at_first) return false;
          header_ = header(begin);
          clock = next_place(begin + 1);
        } else if (headed == 0) {
          begin = sparse_ ? begin + 1 : clock;
          if (begin >= block_.count) return false;
          header_ = header(begin);
          clock = next_place(begin + 1);
        } else {
          if (sparse_ && clock + 1 < block_.count) wanted_[clock + 1] = true;   // the next best place
          clock = next_place(clock + 1);
        }
        continue;
      }
      best->at = at;
      for (Piece& before : pieces_)
        if (before.store > best->first && (registers_of(before) & registers_of(*best)).any()) before.store = best->first;
      at += best->bytes();
      for (const Word& w : best->words) {
        if (headed < header_.size()) ++headed;
        else clock = next_place((w.high != none ? w.high : w.low) + 1);
      }
      previous = best->data;
      pieces_.push_back(std::move(*best));
    }
    bytes_ = static_cast<uint32_t>(align_up(at, c_.alignment(few_ ? few_bytes : wire::chunk_bytes)));
    return bytes_ <= largest_packed_record;
  }

  // The piece with the most words for which there are registers.
  std::optional<Piece> longest(size_t headed, unsigned clock, unsigned registers, Fill fill, uint32_t at,
                               const std::optional<Holder>& previous) {
    const unsigned most = registers * (lanes_ ? LaneGroups::groups : 1);
    size_t tried = 0;
    for (unsigned limit = most; limit > 0; --limit) {
      Piece p;
      p.registers = registers;
      p.whole = sectors_;
      p.words = next_words(headed, clock, limit, fill);
      if (p.words.size() == tried) continue;   // nothing more is left
      tried = p.words.size();
      if (fill != Fill::whole && !p.merges()) return std::nullopt;
      if (!shape(p) || at % (4 * registers) != 0) continue;
      for (InstIndex wait : waits)
        if (find_registers(p, wait, previous)) return p;
    }
    return std::nullopt;
  }

  // How the words lie in registers and lane groups; false where they can not.
  bool shape(Piece& p) const {
    const size_t n = p.words.size();
    if (n <= p.registers) {
      p.groups = 1;
      if (n < p.registers) return false;   // fewer registers do
    } else {
      p.groups = p.registers == 1 && n == 2 ? 2 : LaneGroups::groups;
      if (n <= (p.registers - 1) * p.groups) return false;   // a register would stay empty
    }
    // Halves behind whole words in one register: PRMT must spare these, and there is no guard for "all but group 0" of four.
    for (size_t j = 1; j < n; ++j)
      if (p.groups == 4 && j % p.groups == 1 && p.words[j].high != none && p.words[j - 1].high == none) return false;
    return true;
  }

  bool find_registers(Piece& p, InstIndex wait, const std::optional<Holder>& previous) {
    // What is no clock is written with the first clock of the record.
    const unsigned begin = clock_in_head_ ? header_[0].low : header_.back().low;
    p.first = p.last = block_.first + (p.words[0].low == none ? begin : p.words[0].low);
    for (const Word& w : p.words)
      for (unsigned clock : {w.low, w.high})
        if (clock != none) p.last = std::max(p.last, block_.first + clock);
    p.store = std::min(block_.last(), p.last + wait);
    const auto data = c_.scratch.try_holder(p.first, p.store, {shape_of(p.registers)}, previous);
    if (!data) return false;
    p.data = *data;
    sass::RegSet taken;
    for (unsigned k = 0; k < p.registers; ++k) taken.set(data->reg[k]);
    const auto another = [&](InstIndex from, enc::Gpr& to) {
      const auto h = c_.scratch.try_holder(from, p.store, {Shape::single}, data, taken);
      if (!h) return false;
      to = h->r(0);
      taken.set(h->reg[0]);
      return true;
    };
    p.odd = p.offset = enc::RZ;
    if (p.merges() && !another(p.first, p.odd)) return false;
    if (p.whole && p.registers == 1) p.offset = *c_.sector_word;
    if (!p.offset_by_groups() && !p.offset_by_mask()) return true;
    // The lane offset does not change: the earlier it is there, the less waits for it.
    for (InstIndex early : {6u, 3u, 0u}) {
      p.offset_at = p.last - std::min(early, p.last - p.first);
      if (another(p.offset_at, p.offset)) return true;
    }
    return false;
  }

  static sass::RegSet registers_of(const Piece& p) {
    sass::RegSet set;
    for (unsigned k = 0; k < p.registers; ++k) set.set(p.data.reg[k]);
    if (p.odd != enc::RZ) set.set(p.odd.index);
    if (p.offset_by_groups() || p.offset_by_mask()) set.set(p.offset.index);   // else nobody writes it
    return set;
  }

  // --- the code

  sass::RawInst for_groups(sass::RawInst w, unsigned from) const {
    switch (from) {   // of two groups, group 1 is both 1 and 3 of the four
      case 0: return w;
      case 1: return enc::with_guard(w, lanes_->bit0);
      case 2: return enc::with_guard(w, lanes_->bit1);
      default: return enc::with_guard(w, lanes_->both);
    }
  }

  void merge(const Piece& p, unsigned reg, unsigned from_group, InstIndex at) {
    put(c_.out.before[at], for_groups(enc::prmt_imm(p.data.r(reg), p.data.r(reg), low_halves, p.odd), from_group));
  }

  void place(unsigned clock, unsigned byte, uint8_t bytes) {
    clock_at_[clock].byte = static_cast<uint16_t>(byte);
    clock_at_[clock].bytes = bytes;
  }

  // Clock and block number into one word.
  void shift_head(enc::Gpr r, InstIndex at) {
    put(c_.out.before[at], enc::lea_imm(r, r, number_ + 1, static_cast<uint8_t>(c_.layout.index_bits)));
  }

  void write(const Piece& p) {
    unsigned merge_reg = none, merge_group = 0;   // a register whose halves are not together yet
    InstIndex odd_at = 0;
    for (unsigned j = 0; j < p.words.size(); ++j) {
      const unsigned reg = j / p.groups, group = j % p.groups;
      const uint32_t byte = p.at + group * p.group_step() + 4 * reg;
      const Word& word = p.words[j];
      const InstIndex low = word.low == none ? p.first : block_.first + word.low;
      const enc::Gpr r = p.data.r(reg);
      // The odd clocks of one register must be merged before the next register's are read.
      if (merge_reg != none && merge_reg != reg && word.high != none) {
        merge(p, merge_reg, merge_group, settled(c_, odd_at, clock_to_vector(*c_.code.arch), block_.first + word.high));
        merge_reg = none;
      }
      if (word.kind == Word::Kind::head && word.low == none)
        put(c_.out.before[low], for_groups(enc::mov_imm(r, record_head(c_, wire::RecordKind::inst, number_)), group));
      if (word.kind == Word::Kind::mask) put(c_.out.before[low], enc::vote_any_active(r));
      if (word.low != none) {
        put(c_.out.before[low], for_groups(enc::cs2r32(r, enc::sr_clock_lo), group));
        const bool merged = word.high != none || (merge_reg == reg && p.groups > 1);
        const auto bytes = static_cast<uint8_t>(word.kind == Word::Kind::head ? wire::ClockPlace::in_head : merged ? 2 : 4);
        place(word.low, byte, bytes);
        if (word.kind == Word::Kind::head && p.groups > 1)   // before another word goes into some of its lanes
          shift_head(r, settled(c_, low, clock_to_vector(*c_.code.arch), block_.first + p.words[1].low));
      }
      if (word.high == none) continue;
      odd_at = block_.first + word.high;
      put(c_.out.before[odd_at], for_groups(enc::cs2r32(p.odd, enc::sr_clock_lo), group));
      place(word.high, byte + 2, 2);
      if (merge_reg == none) {
        merge_reg = reg;
        merge_group = group;
      }
    }
    if (apart_ && p.groups == 1)
      finish_early(p, merge_reg, odd_at);
    else
      finish(p, merge_reg, merge_group);
  }

  // The first place at or behind `from` with `cycles` between, and what lacks at `limit`: as settled(), and nothing waits yet.
  struct Place {
    InstIndex at;
    unsigned lacking;
  };
  Place ready(InstIndex from, unsigned cycles, InstIndex limit) const {
    unsigned passed = 1;
    InstIndex at = from;
    while (at < limit && passed < cycles) passed += sass::get_control(c_.code.insts[at++].raw).stall;
    return {at, passed < cycles ? cycles - passed : 0};
  }

  // As finish(), without lane groups, where clocks are far apart: head and halves need not wait for the last clock.
  void finish_early(const Piece& p, unsigned merge_reg, InstIndex odd_at) {
    const unsigned settles = clock_to_vector(*c_.code.arch);
    std::optional<Place> head, halves;
    if (p.offset_by_mask()) put(c_.out.before[p.offset_at], sector_place(c_, p.offset, p.registers));
    if (p.shifts_head()) head = ready(block_.first + p.words[0].low, settles, p.store);
    if (merge_reg != none) halves = ready(odd_at, settles, p.store);
    const unsigned lacking = std::max(head ? head->lacking : 0, halves ? halves->lacking : 0);
    put_pause(c_.out.before[p.store], lacking);
    if (head) shift_head(p.data.r(0), head->at);
    if (halves) merge(p, merge_reg, 0, halves->at);
    const InstIndex made = std::max({p.first, head ? head->at : p.first, halves ? halves->at : p.first});
    const Place words = ready(made, vector_to_memory, p.store), clock = ready(p.last, vector_to_memory, p.store);
    const InstIndex at = std::max(words.at, clock.at);
    // What was made at the store's own place was made behind the pause.
    put_pause(c_.out.before[at], std::max(words.at == at ? words.lacking : 0, clock.at == at && clock.lacking > lacking ? clock.lacking - lacking : 0));
    put_store(p, at);
  }

  void put_store(const Piece& p, InstIndex at) {
    sass::RawInst store = with_record_policy(enc::stg({c_.scratch.uniform().address, p.offset, static_cast<int32_t>(p.at)},
                                                      p.data.r(0), size_of(p.registers)));
    put(c_.out.before[at], store, {.stall = scoreboard_visible, .read_barrier = p.data.scoreboard});
  }

  // What is left once the last clock is read, each step as soon as its operands have arrived: halves together, clock and
  // block number into one word, the lane offset; then the store.
  void finish(const Piece& p, unsigned merge_reg, unsigned merge_group) {
    const unsigned k = lanes_ ? lanes_->bit0.index : 0, wanted = 2 + log2_of(p.registers);
    const bool shifts = p.offset_by_groups() && wanted != k;
    const bool shifts_head = p.shifts_head() && p.groups == 1;
    if (p.offset_by_mask()) put(c_.out.before[p.offset_at], sector_place(c_, p.offset, p.registers));
    if (p.offset_by_groups())
      put(c_.out.before[p.offset_at], enc::p2r(p.offset, static_cast<uint8_t>((p.groups == 2 ? 1u : 3u) << k)));
    InstIndex at = p.last;
    if (shifts) at = std::max(at, settled(c_, p.offset_at, vector_to_vector, p.store));
    if (shifts || shifts_head || merge_reg != none) {
      if (shifts_head || merge_reg != none) at = std::max(at, settled(c_, p.last, clock_to_vector(*c_.code.arch), p.store));
      Sequence& seq = c_.out.before[at];
      if (shifts)
        put(seq, wanted > k ? enc::shf_l_u32_imm(p.offset, p.offset, static_cast<uint8_t>(wanted - k))
                            : enc::shf_r_u32_hi_imm(p.offset, p.offset, static_cast<uint8_t>(k - wanted)));
      if (shifts_head) shift_head(p.data.r(0), at);
      if (merge_reg != none) merge(p, merge_reg, merge_group, at);
    }
    put_store(p, settled(c_, at, vector_to_memory, p.store));
  }

  ProbeContext& c_;
  const ProbeBlock& block_;
  uint32_t number_;
  bool full_;
  const bool sectors_;             // its pieces fill sectors
  const bool few_;                 // clocks at sparse sites alone
  const std::optional<LaneGroups> lanes_;
  std::optional<Holder>& previous_;
  bool clock_in_head_ = false;
  bool sparse_ = false;            // some instructions have no clock, as others tell it
  bool apart_ = false;             // between two clocks lie instructions without
  std::vector<bool> wanted_;       // instructions that have one, if a register is free
  std::vector<Word> header_;
  std::vector<Piece> pieces_;
  std::vector<wire::ClockPlace> clock_at_;
  uint32_t bytes_ = 0;
};

}  // namespace

bool insert_plain_inst(ProbeContext& c, uint32_t block, std::optional<Holder>& previous) {
  return PlainInst(c, block, previous).run();
}

}  // namespace xtrace::instrument
