// `mem` in full blocks: all that is one word for the warp, four words to a register by lane groups, as plain_inst.cc does with
// clocks; what a store costs is the registers that it hands over. Here the words come from all over: a mask is a VOTE, which a
// guard would change, and a base may be known in some lanes only. Both go through a uniform register, which takes its time; the
// register of the record is written from it behind the others:
//
//   @!P4 R2UR  U, R12          the address in the first lane that makes the access
//        VOTEU U', !P3         its lanes
//        VOTE  R, !P4          a mask that is a register's first word needs no detour
//        ...
//   @bit0 MOV  R, U            groups 1 and 3
//   @bit1 MOV  R, U'           groups 2 and 3
//   @both IMAD R, L, -4, R15   group 3: base + lane * stride less lane * stride
//        STG   [4 * group + UR + place], R
//
// Where the kernel leaves no predicates, three registers with all ones in the lanes of a group select by LOP3 instead.
//
// In whole sectors (trace/wire/record.h) each store fills one or two, as under `inst`: words lie where StoreShape says, and the record is as
// long as the stores make it; columns, which fill four sectors each, stand behind them.
#include <algorithm>
#include <utility>

#include "instrument/probes/mem_layout.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;

constexpr BitRange guard_field = bits(15, 12);
constexpr unsigned vote_not = 90;
constexpr uint8_t lut_and = 0xc0, lut_and_or = 0xea, lut_select = 0xca;   // a & b; (a & b) | c; a ? b : c

struct Word {
  enum class Kind : uint8_t { head, mask, uniform, guard, base } kind = Kind::head;
  size_t index = 0;        // in the record's scalars or bases
  InstIndex at = 0;        // in front of this instruction its value stands
  bool late = false;       // it goes through a uniform register
  enc::Ureg through{};
};

// Words of one store: word k stands in register k % registers of lane group k / registers.
struct Piece : StoreShape {
  std::vector<Word> words;
  InstIndex first = 0, last = 0;   // of what is not late; of all
  InstIndex store = 0, offset_at = 0;
  Holder data;
  enc::Gpr offset{};               // RZ: all lanes store to one place
  uint32_t place = 0;
  bool makes_offset() const { return offset_by_groups() || offset_by_mask(); }
  uint32_t place_of(size_t k) const { return place + static_cast<uint32_t>(k / registers * group_step() + k % registers * sizeof(uint32_t)); }
  double cost() const {
    const double extra = offset_by_groups() ? 0.75 : offset_by_mask() ? 0.5 : 0;
    return 1.0 + registers + extra + (whole ? bytes() / 64.0 : 0);
  }
};

// A uniform register that a piece has until its store.
struct Taken {
  enc::Ureg reg;
  InstIndex to;
  bool mine;   // of the piece that asks
};

class FullWords {
 public:
  FullWords(ProbeContext& c, uint32_t number, std::optional<Holder>& previous)
      : c_(c), block_(c.blocks.blocks[number]), number_(number), previous_(previous), groups_(c.scratch.lane_groups()),
        sectors_(c.sector_word.has_value()) {
    uniform_ = uniform_on_the_way(c);
  }

  Status run(MemRecord& record) {
    record_ = &record;
    held_ = record.held();
    XT_TRY_STATUS(plan());
    if (sectors_) place_columns();
    for (Piece& p : pieces_) write(p);
    for (const Piece& p : pieces_) {
      sass::RegSet registers;
      add_registers(p, registers);
      record.busy.push_back({std::min(p.first, p.makes_offset() ? p.offset_at : p.first), p.store, registers});
    }
    previous_ = pieces_.back().data;
    return {};
  }

 private:
  // --- which words in which piece

  std::vector<Word> all_words() const {
    std::vector<Word> words;
    for (size_t k = 0; k < record_->scalars.size(); ++k) {
      const MemRecord::Scalar& s = record_->scalars[k];
      words.push_back({s.is_mask ? Word::Kind::mask : s.is_guard ? Word::Kind::guard : Word::Kind::uniform, k, s.at, s.is_mask || s.is_guard, {}});
    }
    for (size_t k = 0; k < record_->bases.size(); ++k) {
      const MemRecord::Base& b = record_->bases[k];
      words.push_back({Word::Kind::base, k, b.at, !is_uniform(b) && !by_product(b), {}});
    }
    std::stable_sort(words.begin(), words.end(), [](const Word& a, const Word& b) {
      return a.at != b.at ? a.at < b.at : a.kind == Word::Kind::mask && b.kind != Word::Kind::mask;
    });
    return words;
  }
  bool is_uniform(const MemRecord::Base& b) const { return b.lanes.guard == guard_always && c_.scope.lanes.is_uniform(b.lanes); }
  // One product takes away what differs from lane to lane.
  bool by_product(const MemRecord::Base& b) const {
    const auto strided = c_.scope.lanes.strided(b.lanes);
    return groups_ && c_.lane_offset && b.lanes.guard == guard_always && strided && strided->step == 0 && strided->stride % 4 == 0;
  }

  Status plan() {
    const std::vector<Word> words = all_words();
    const uint32_t room = sectors_ ? ~0u : record_->columns.empty() ? record_->bytes : record_->columns.front().place;
    uint32_t place = 0;
    for (size_t next = 0; pieces_.empty() || next < words.size();) {
      const bool head = pieces_.empty();
      const auto some = [&](size_t n) {
        const auto begin = words.begin() + static_cast<ptrdiff_t>(next);
        return std::vector<Word>(begin, begin + static_cast<ptrdiff_t>(n));
      };
      std::optional<Piece> best;
      double best_value = 0;
      size_t count = 0;
      for (unsigned registers : {1u, 2u, 4u}) {
        if (place % (4 * registers) != 0) continue;
        for (size_t n = std::min(size_t{registers * LaneGroups::groups} - head, words.size() - next); n + head > 0; --n) {
          auto p = piece(some(n), head, registers);
          // Room for what is left, word by word, must remain.
          if (!p || place + p->bytes() + sizeof(uint32_t) * (words.size() - next - n) > room) {
            if (n == 0) break;
            continue;
          }
          const double value = static_cast<double>(n + head) / p->cost();
          if (value > best_value) {
            best_value = value;
            count = n;
            best = std::move(p);
          }
          break;
        }
      }
      if (!best && !at_once_) {   // perhaps earlier pieces hold what this one needs
        at_once_ = true;
        pieces_.clear();
        return plan();
      }
      if (!best) {   // one word, at the price of occupancy
        count = head ? 0 : 1;
        best = arrange(some(count), head, 1);
        best->store = best->last;
        if (sectors_) best->offset = *c_.sector_word;
        XT_TRY(best->data, c_.scratch.holder(best->first, best->store, {Shape::single}, previous_, held_ | recorded_registers(c_, *record_, best->store)));
        if (best->words[0].late) best->words[0].through = uniform_[0];
      }
      best->place = place;
      place += best->bytes();
      next += count;
      pieces_.push_back(std::move(*best));
    }
    return {};
  }

  // Behind the words, which lie where they are planned to.
  void place_columns() {
    uint32_t at = static_cast<uint32_t>(align_up(pieces_.back().place + pieces_.back().bytes(), record_unit(c_.scope)));
    for (MemRecord::Column& column : record_->columns) {
      column.place = at;
      at += wire::mem_line;
    }
    record_->bytes = at;
  }

  // Nothing where registers lack, or where fewer of them do.
  std::optional<Piece> piece(std::vector<Word> words, bool head, unsigned registers) const {
    const size_t n = words.size() + head;
    if (n < registers) return std::nullopt;
    if (n > registers && !groups_ && !c_.lane_masks) return std::nullopt;
    Piece p = arrange(std::move(words), head, registers);
    return find_registers(p) ? std::optional(p) : std::nullopt;
  }

  // In the order in which they are written: a register's first word without a guard, group 3 last.
  Piece arrange(std::vector<Word> words, bool head, unsigned registers) const {
    Piece p;
    p.registers = registers;
    p.whole = sectors_;
    const size_t n = words.size() + head;
    p.groups = n <= registers ? 1 : n <= 2 * registers ? 2 : LaneGroups::groups;
    p.last = words.empty() ? block_.first : words.back().at;
    const InstIndex begin = words.empty() ? block_.first : words.front().at;
    std::vector<Word> first, rest, late;
    if (head) first.push_back({Word::Kind::head, 0, begin, false, {}});
    for (Word& w : words) {
      const bool direct = w.kind == Word::Kind::mask || !w.late;
      if (direct && first.size() < registers) {
        w.late = false;
        first.push_back(w);
      } else {
        (w.late ? late : rest).push_back(w);
      }
    }
    p.words = std::move(first);
    p.words.insert(p.words.end(), rest.begin(), rest.end());
    p.words.insert(p.words.end(), late.begin(), late.end());
    p.first = p.words.front().late ? p.last : p.words.front().at;
    return p;
  }

  bool find_registers(Piece& p) const {
    const bool late = p.words.back().late;
    const InstIndex last_late = p.words.back().at;
    const auto ideal = [&] {
      for (InstIndex i = p.last; i < block_.last(); ++i)
        if (stall_cycles(c_.code, p.last, i) >= vector_to_memory &&
            (!late || stall_cycles(c_.code, last_late, i) >= r2ur_to_vector + vector_to_memory))
          return i;
      return block_.last();
    }();
    for (InstIndex store : {ideal, std::min(p.last + 2, ideal), p.last}) {
      if (at_once_ && store != p.last) continue;
      p.store = store;
      if (find_registers_until(p)) return true;
    }
    return false;
  }
  bool find_registers_until(Piece& p) const {
    // Those of pieces before this whose stores come later than this one begins; at one place they come first.
    sass::RegSet taken = held_;
    for (const Piece& before : pieces_) {
      if (before.store > p.first) add_registers(before, taken);
    }
    const auto data = c_.scratch.try_holder(p.first, p.store, {shape_of(p.registers)},
                                            pieces_.empty() ? previous_ : std::optional(pieces_.back().data), taken);
    if (!data) return false;
    p.data = *data;
    p.offset = sectors_ && !p.makes_offset() ? *c_.sector_word : enc::RZ;
    if (p.makes_offset()) {
      for (unsigned k = 0; k < p.registers; ++k) taken.set(data->reg[k]);
      bool found = false;
      for (InstIndex early : {6u, 3u, 0u}) {
        p.offset_at = std::max(p.first, p.store - std::min(early, p.store));
        const auto h = c_.scratch.try_holder(p.offset_at, p.store, {Shape::single}, data, taken);
        if (!h) continue;
        p.offset = h->r(0);
        found = true;
        break;
      }
      if (!found) return false;
    }
    std::vector<Taken> in_use;
    for (const Piece& before : pieces_)
      for (const Word& w : before.words)
        if (w.late) in_use.push_back({w.through, before.store, false});
    for (Word& w : p.words) {
      if (!w.late) continue;
      const auto free = std::find_if(uniform_.begin(), uniform_.end(), [&](enc::Ureg u) {
        return std::none_of(in_use.begin(), in_use.end(), [&](const Taken& t) {
          return t.reg.index == u.index && (t.mine || w.at < t.to);
        });
      });
      if (free == uniform_.end()) return false;
      w.through = *free;
      in_use.push_back({*free, p.store, true});
    }
    return true;
  }

  static void add_registers(const Piece& p, sass::RegSet& to) {
    for (unsigned k = 0; k < p.registers; ++k) to.set(p.data.reg[k]);
    if (p.makes_offset()) to.set(p.offset.index);
  }

  // --- the code

  uint8_t waits_of(InstIndex i) const { return sass::get_control(c_.code.insts[i].raw).wait_mask; }

  // Something that others must be a number of cycles behind.
  struct Issued {
    InstIndex place;
    size_t behind;         // words of the sequence there
    unsigned cycles;
  };
  Issued issue(InstIndex place, const sass::RawInst& w, unsigned cycles, uint8_t wait_mask = 0) {
    put(c_.out.before[place], w, {.stall = 1, .wait_mask = wait_mask});
    return {place, c_.out.before[place].size() - 1, cycles};
  }
  // Lets pass what lacks in front of whatever comes next at `place`.
  void wait_for(const std::vector<Issued>& all, InstIndex place) {
    unsigned lacks = 0;
    for (const Issued& i : all) {
      unsigned passed = 0;
      for (InstIndex at = i.place; at <= place; ++at) {
        const Sequence& seq = c_.out.before[at];
        for (size_t k = at == i.place ? i.behind : 0; k < seq.size(); ++k) passed += sass::get_control(seq[k]).stall;
        if (at < place) passed += sass::get_control(c_.code.insts[at].raw).stall;
      }
      if (passed < i.cycles) lacks = std::max(lacks, i.cycles - passed);
    }
    put_pause(c_.out.before[place], lacks);
  }

  enc::Pred guard_of(unsigned group) const {
    return group == 1 ? groups_->bit0 : group == 2 ? groups_->bit1 : groups_->both;
  }
  enc::Gpr mask_of(unsigned group) const {
    return group == 1 ? c_.lane_masks->bit0 : group == 2 ? c_.lane_masks->bit1 : c_.lane_masks->both;
  }

  // Writes word k of the piece into its group.
  sass::RawInst write_of(const Piece& p, size_t k) const {
    const Word& w = p.words[k];
    const auto group = static_cast<unsigned>(k / p.registers);
    const enc::Gpr r = p.data.r(static_cast<unsigned>(k % p.registers));
    const bool selects = group != 0 && !groups_;
    const auto guarded = [&](const sass::RawInst& word) {
      return group == 0 || selects ? word : enc::with_guard(word, guard_of(group));
    };
    const auto from_uniform = [&](enc::Ureg u) {
      return selects ? enc::lop3_ur(r, mask_of(group), u, r, lut_select) : guarded(enc::mov_from_ur(r, u));
    };
    if (w.late) return from_uniform(w.through);
    switch (w.kind) {
      case Word::Kind::head: return enc::mov_imm(r, wire::word0(wire::RecordKind::mem, number_));
      case Word::Kind::mask: return vote(w, r);
      case Word::Kind::uniform: return from_uniform(enc::Ureg{record_->scalars[w.index].index});
      case Word::Kind::guard: XT_CHECK(false, "a guard goes through a uniform register");
      case Word::Kind::base: break;
    }
    const MemRecord::Base& b = record_->bases[w.index];
    if (!is_uniform(b)) return guarded(enc::imad_imm(r, *c_.lane_offset, 0u - c_.scope.lanes.strided(b.lanes)->stride / 4, enc::Gpr{b.reg}));
    return selects ? enc::lop3(r, mask_of(group), enc::Gpr{b.reg}, r, lut_select) : guarded(enc::mov(r, enc::Gpr{b.reg}));
  }
  sass::RawInst vote(const Word& w, enc::Gpr to) const {
    const MemRecord::Scalar& s = record_->scalars[w.index];
    sass::RawInst word = enc::vote_any(to, enc::Pred{s.index});
    if (s.negated) set_bits(word, bit(vote_not), 1);
    return word;
  }
  // Into the uniform register.
  sass::RawInst detour(const Word& w) const {
    if (w.kind == Word::Kind::guard) return held_guard(w.through, record_->scalars[w.index]);
    if (w.kind == Word::Kind::mask) {
      const MemRecord::Scalar& s = record_->scalars[w.index];
      sass::RawInst word = enc::voteu_any(w.through, enc::Pred{s.index});
      if (s.negated) set_bits(word, bit(vote_not), 1);
      return word;
    }
    const MemRecord::Base& b = record_->bases[w.index];
    sass::RawInst word = enc::r2ur(w.through, enc::Gpr{b.reg});
    set_bits(word, guard_field, b.lanes.guard);
    return word;
  }

  void write(const Piece& p) {
    std::vector<Issued> uniform, data;
    XT_CHECK(!p.data.spilled || p.first == p.store, "a register is put aside in front of one instruction");
    put_aside(c_, p.store, p.data);
    // By place, so that each sequence is filled in order.
    for (InstIndex at = p.first; at <= p.last || at <= p.store; ++at) {
      bool waited = false;
      const auto waits = [&] { return std::exchange(waited, true) ? uint8_t{0} : waits_of(at); };
      if (p.makes_offset() && p.offset_at == at) offset(p, data);
      for (size_t k = 0; k < p.words.size(); ++k) {
        const Word& w = p.words[k];
        if (w.late || w.at != at) continue;
        if (k >= p.registers && !groups_) wait_for(data, at);   // LOP3 reads the register as well
        data.push_back(issue(at, write_of(p, k), vector_to_memory, w.kind == Word::Kind::head ? uint8_t{0} : waits()));
      }
    }
    for (const Word& w : p.words) {
      if (!w.late) continue;
      const unsigned cycles = w.kind == Word::Kind::base ? r2ur_to_vector : uniform_to_vector;
      if (w.kind == Word::Kind::guard) issue(w.at, enc::umov_imm(w.through, 0), 1, waits_of(w.at));
      uniform.push_back(issue(w.at, detour(w), cycles, waits_of(w.at)));
    }
    if (!uniform.empty()) wait_for(uniform, p.store);
    for (size_t k = 0; k < p.words.size(); ++k) {
      if (!p.words[k].late) continue;
      if (k >= p.registers && !groups_) wait_for(data, p.store);
      data.push_back(issue(p.store, write_of(p, k), vector_to_memory));
    }
    shift_offset(p, data);
    wait_for(data, p.store);
    const enc::UniformAddress address{c_.scratch.uniform().address, p.offset, static_cast<int32_t>(p.place)};
    put(c_.out.before[p.store], with_record_policy(enc::stg(address, p.data.r(0), size_of(p.registers))),
        {.stall = scoreboard_visible, .read_barrier = p.data.scoreboard});
    put_back(c_, p.store, p.data);
    for (size_t k = 0; k < p.words.size(); ++k) place(p.words[k], p.place_of(k));
  }

  // The lane's group times the bytes of a group; in whole sectors where in one its words go.
  void offset(const Piece& p, std::vector<Issued>& data) {
    const auto make = [&](const sass::RawInst& w) { data.push_back(issue(p.offset_at, w, vector_to_memory)); };
    if (p.offset_by_mask()) return make(sector_place(c_, p.offset, p.registers));
    const unsigned bytes = 4 * p.registers;
    if (groups_) return make(enc::p2r(p.offset, static_cast<uint8_t>((p.groups == 2 ? 1u : 3u) << groups_->bit0.index)));
    make(enc::lop3_imm(p.offset, c_.lane_masks->bit0, bytes, enc::RZ, lut_and));
    if (p.groups == 2) return;
    wait_for({data.back()}, p.offset_at);
    make(enc::lop3_imm(p.offset, c_.lane_masks->bit1, 2 * bytes, p.offset, lut_and_or));
  }
  void shift_offset(const Piece& p, std::vector<Issued>& data) {
    if (!groups_ || !p.offset_by_groups()) return;
    const unsigned k = groups_->bit0.index, wanted = 2u + log2_of(p.registers);
    if (k == wanted) return;
    wait_for(data, p.store);
    data.push_back(issue(p.store,
                         wanted > k ? enc::shf_l_u32_imm(p.offset, p.offset, static_cast<uint8_t>(wanted - k))
                                    : enc::shf_r_u32_hi_imm(p.offset, p.offset, static_cast<uint8_t>(k - wanted)),
                         vector_to_memory));
  }

  void place(const Word& w, uint32_t at) {
    switch (w.kind) {
      case Word::Kind::head: XT_CHECK(at == 0, "a record begins with its head"); return;
      case Word::Kind::mask:
      case Word::Kind::uniform:
      case Word::Kind::guard: record_->scalars[w.index].place = at; return;
      case Word::Kind::base: record_->bases[w.index].place = at; return;
    }
  }

  ProbeContext& c_;
  const ProbeBlock& block_;
  uint32_t number_;
  std::optional<Holder>& previous_;
  const std::optional<LaneGroups> groups_;
  const bool sectors_;     // stores fill them
  std::vector<enc::Ureg> uniform_;
  bool at_once_ = false;   // each piece is stored as soon as its last word is there, before the next begins
  MemRecord* record_ = nullptr;
  sass::RegSet held_;
  std::vector<Piece> pieces_;
};

}  // namespace

std::vector<enc::Ureg> uniform_on_the_way(const ProbeContext& c) {
  const UniformPlan& ur = c.scratch.uniform();
  std::vector<enc::Ureg> all;
  all.reserve(6 + c.scratch.spare_uniform().size());
  if (!c.scratch.spill_frame()) all.push_back(ur.header);
  all.push_back(high_half(ur.header));
  all.push_back(ur.cursor);
  if (!ur.few)
    for (const enc::Ureg r : {ur.mask, ur.base, ur.temp}) all.push_back(r);
  all.insert(all.end(), c.scratch.spare_uniform().begin(), c.scratch.spare_uniform().end());
  return all;
}

Status insert_mem_words(ProbeContext& c, uint32_t block, MemRecord& record, std::optional<Holder>& previous) {
  return FullWords(c, block, previous).run(record);
}

}  // namespace xtrace::instrument
