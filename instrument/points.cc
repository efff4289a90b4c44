#include "instrument/points.h"

#include <algorithm>

#include "instrument/arrivals.h"
#include "instrument/point_layout.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

namespace enc = sass::enc;
using namespace latency;
using Shape = Holder::Shape;
using Kind = wire::Value::Kind;

constexpr unsigned vote_not = 90;

// Every nth execution: a counter of the point, one a warp, goes from 0 down through all numbers below n. Puts 1 into UniformPlan::temp
// where it is 0, else 0.
void put_turn(Sequence& seq, const UniformPlan& ur, enc::Ureg counter, uint32_t nth) {
  constexpr Schedule settled{.stall = vector_to_vector};
  put(seq, enc::uiadd3_imm(counter, counter, ~0u), settled);
  put(seq, enc::ushf_r_u32_hi_imm(ur.temp, counter, 31), settled);
  put(seq, enc::uimad_imm(counter, ur.temp, nth, counter), settled);
}

// A counter for each point that is there: nothing is counted, and the list is empty, where every execution is recorded.
Result<std::vector<enc::Ureg>> take_counters(ProbeContext& c, const std::vector<PointPlan>& points) {
  std::vector<enc::Ureg> counters;
  if (c.scope.sites.nth == 1) return counters;
  if (c.scratch.uniform().few)
    return unsupported("every nth execution: kernel {} leaves no uniform register to count in", c.code.kernel);
  uint32_t present = 0;
  for (const PointPlan& p : points) {
    present += p.present;
    if (p.point.role != wire::Point::Role::single)
      return unsupported("every nth execution: where lanes come and where they go on again are counted apart, and the records at {} would not "
                         "belong together",
                         where(c.code, p.at));
  }
  for (const PointPlan& p : points) {
    const auto r = p.present ? c.scratch.counter() : std::optional(enc::URZ);
    if (!r)
      return unsupported("every nth execution of {} points needs as many uniform registers to count in, kernel {} leaves {}", present,
                         c.code.kernel, c.counters.size());
    counters.push_back(*r);
    if (p.present) c.counters.push_back(*r);
  }
  return counters;
}

class Writer {
 public:
  Writer(ProbeContext& c, const Arrivals& arrivals, const PointPlan& plan, uint32_t number, bool any_columns,
         uint32_t ends, std::optional<enc::Ureg> counter, std::optional<Holder>& previous)
      : c_(c), arrivals_(arrivals), point_(plan.point), at_(plan.at), spot_(at_ + plan.point.after), number_(number), any_columns_(any_columns),
        ends_(ends), counter_(counter), previous_(previous), seq_(plan.point.after ? c.out.after[at_] : c.out.before[at_]) {}

  // Gives the cycles of probe code behind the clock.
  Result<uint32_t> run() {
    const size_t begin = seq_.size();
    clock_at_ = begin;
    if (!counter_ && !point_.joined) bump_cursor(c_, seq_, point_.record_bytes);
    if (!point_.after) XT_TRY_STATUS(its_turn());
    if (!point_.after) XT_TRY_STATUS(columns());
    XT_TRY_STATUS(words());
    if (point_.after) XT_TRY_STATUS(columns());
    if (ends_ == 0) return probe_cycles();
    // The next record may begin with a column, which needs nothing but the cursor.
    const unsigned until_next_store = any_columns_ ? 0 : least_head_cycles;
    if (counter_ && !c_.layout.wraps) {
      const enc::Ureg address = c_.scratch.uniform().address;
      put(seq_, enc::uimad_imm(address, c_.scratch.uniform().temp, ends_, address),
          {.stall = uniform_to_vector - std::min(until_next_store, uniform_to_vector - 1)});
    } else {
      bump_address(c_, seq_, ends_, until_next_store);
    }
    return probe_cycles();
  }

 private:
  uint32_t probe_cycles() const { return least_cycles(Sequence(seq_.begin() + static_cast<ptrdiff_t>(clock_at_), seq_.end())); }
  // Of every nth execution: a predicate for the stores, in front of the first of them. Behind an instruction its clocks come first.
  Status its_turn() {
    if (!counter_ || turn_) return {};
    turn_ = c_.scratch.predicate(spot_, spot_);
    if (!turn_) return unsupported("every nth execution: no predicate is free at {}", where(c_.code, spot_));
    const UniformPlan& ur = c_.scratch.uniform();
    put_turn(seq_, ur, *counter_, c_.scope.sites.nth);
    if (c_.layout.wraps) put(seq_, enc::uimad_imm(ur.cursor, ur.temp, point_.record_bytes, ur.cursor));
    put_pause(seq_, uniform_to_vector - vector_to_vector);
    put(seq_, enc::isetp_ur(*turn_, enc::Compare::ne, false, enc::RZ, ur.temp), {.stall = predicate_to_guard});
    return {};
  }
  Status store(const Holder& h, unsigned n, uint32_t offset) {
    XT_TRY_STATUS(its_turn());
    store_words(c_, seq_, h, n, offset, turn_);
    return {};
  }

  struct Word {
    enum class What { head, mask, value, zero } what = What::zero;
    wire::Value value{};
    bool is(Kind k) const { return what == What::value && value.kind == k; }
    // In the order in which a record's words are made: behind an instruction the clock comes first, in front of it last,
    // and what waits for the results in any case.
    int rank(bool after) const {
      if (is(Kind::clock_ready)) return 4;
      if (is(Kind::clock)) return after ? 0 : 3;
      if (is(Kind::time)) return after ? 1 : 2;
      return after ? 2 : 1;
    }
  };

  Result<Arrivals::Needs> needs(Arrivals::File file, uint8_t index) const {
    const Arrivals::Needs n = arrivals_.needs(at_, point_.after, file, index);
    if (n.never) {
      constexpr const char* names[] = {"R", "UR", "P"};
      return unsupported("nothing in the code says when {}{} has its value at {}", names[static_cast<size_t>(file)], index,
                         where(c_.code, at_));
    }
    return n;
  }
  // Cycles since the point that must have passed before what comes next.
  void settle(unsigned cycles) {
    const unsigned passed = least_cycles(seq_);
    if (passed < cycles) put_pause(seq_, cycles - passed);
  }

  Status words() {
    std::vector<Word> words;
    if (!point_.joined) words = {{Word::What::head}, {Word::What::mask}};
    bool held = false;
    for (const wire::Value& v : point_.values) {
      if (!v.is_column() && v.is_recorded()) {
        if (point_.joined && words.empty()) words_at_ = v.place;
        words.push_back({Word::What::value, v});
      }
      held |= v.kind == Kind::clock_before;
    }
    if (words.empty()) return {};
    // Not more at once than there is room for in the record.
    if (held) {
      // A register holds the clock across the instruction; the others are needed at the point alone.
      const auto hold = [&](std::initializer_list<Shape> shapes) { return c_.scratch.try_holder(at_, spot_, shapes, previous_); };
      if (const auto h = words.size() == 1   ? hold({Shape::single})
                         : words.size() == 2 ? hold({Shape::pair})
                                             : hold({Shape::quad, Shape::two_pairs, Shape::pair}))
        return groups(std::move(words), *h);
      XT_TRY(const bool done, single_words(words));
      if (done) return {};
      XT_TRY(const Holder h, c_.scratch.holder(at_, spot_, {words.size() == 1 ? Shape::single : Shape::pair}, previous_));
      return groups(std::move(words), h);
    }
    const auto take = [&](std::initializer_list<Shape> shapes) { return c_.scratch.holder(spot_, spot_, shapes, previous_); };
    XT_TRY(const Holder h, words.size() == 1   ? take({Shape::single})
                           : words.size() == 2 ? take({Shape::pair, Shape::single})
                                               : take({Shape::quad, Shape::two_pairs, Shape::pair, Shape::single}));
    return groups(std::move(words), h);
  }

  // By two registers that need not be neighbours, of which only the first is held across the instruction; false: there are none.
  Result<bool> single_words(const std::vector<Word>& words) {
    const auto first = c_.scratch.try_holder(at_, spot_, {Shape::single}, previous_);
    if (!first) return false;
    const auto second = c_.scratch.try_holder(spot_, spot_, {Shape::single}, first);
    if (!second || second->reg[0] == first->reg[0]) return false;
    previous_ = *second;
    std::vector<size_t> order(words.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    const auto rank = [&](size_t k) {
      return words[k].is(Kind::clock) ? 0 : words[k].is(Kind::clock_before) ? 1 : words[k].is(Kind::clock_ready) ? 2 : 3;
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
    for (size_t k : order) {
      const Holder& h = words[k].is(Kind::clock_before) ? *first : *second;
      XT_TRY_STATUS(make(words[k], h.r(0)));
      put_pause(seq_, vector_to_memory - 1);
      XT_TRY_STATUS(store(h, 1, words_at_ + static_cast<uint32_t>(k * sizeof(uint32_t))));
    }
    return true;
  }

  Status groups(std::vector<Word> words, const Holder& h) {
    previous_ = h;
    const unsigned n = h.shape == Shape::single ? 1 : h.shape == Shape::pair ? 2 : point_words_at_once;
    while (words.size() % n != 0) words.push_back({});
    std::vector<unsigned> groups;
    for (unsigned g = 0; g < words.size(); g += n) groups.push_back(g);
    // What has to be read early comes early: groups with a clock first behind an instruction, last in front of it.
    const auto has_clock = [&](unsigned g) {
      return std::any_of(words.begin() + g, words.begin() + g + n,
                         [](const Word& w) { return w.is(Kind::clock) || w.is(Kind::clock_before); });
    };
    std::stable_sort(groups.begin(), groups.end(), [&](unsigned a, unsigned b) {
      return point_.after ? has_clock(a) > has_clock(b) : has_clock(a) < has_clock(b);
    });
    for (unsigned g : groups) XT_TRY_STATUS(group({words.begin() + g, words.begin() + g + n}, h, g));
    return {};
  }

  // Words of one register each, then the stores.
  Status group(const std::vector<Word>& words, const Holder& h, unsigned first) {
    std::vector<unsigned> order(words.size());
    for (unsigned k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(),
                     [&](unsigned a, unsigned b) { return words[a].rank(point_.after) < words[b].rank(point_.after); });
    bool any = false;
    for (unsigned k : order) any |= words[k].what != Word::What::zero;
    if (!any) return {};
    for (unsigned k : order) XT_TRY_STATUS(make(words[k], h.r(k)));
    put_pause(seq_, vector_to_memory - 1);
    return store(h, static_cast<unsigned>(words.size()), words_at_ + first * sizeof(uint32_t));
  }

  Status make(const Word& w, enc::Gpr r) {
    if (w.what == Word::What::head) put(seq_, enc::mov_imm(r, wire::word0(wire::RecordKind::point, number_)));
    if (w.what == Word::What::mask) put(seq_, enc::vote_any_active(r));
    if (w.what == Word::What::zero) put(seq_, enc::mov_imm(r, 0));
    if (w.what != Word::What::value) return {};
    switch (w.value.kind) {
      case Kind::clock_before: put(c_.out.before[at_], enc::cs2r32(r, enc::sr_clock_lo)); break;
      case Kind::clock:
        clock_at_ = seq_.size();
        put(seq_, enc::cs2r32(r, enc::sr_clock_lo));
        break;
      case Kind::time: put(seq_, enc::cs2r32(r, enc::sr_globaltimer_lo)); break;
      case Kind::clock_ready: {
        const sass::Control c = sass::get_control(c_.code.insts[at_].raw);
        const uint8_t sb = c.write_barrier;
        if (sb < 6) settle(scoreboard_visible - std::min<unsigned>(scoreboard_visible, c.stall));
        put(seq_, enc::cs2r32(r, enc::sr_clock_lo), {.wait_mask = static_cast<uint8_t>(sb < 6 ? 1u << sb : 0)});
        break;
      }
      case Kind::lanes: {
        XT_TRY(const Arrivals::Needs n, needs(Arrivals::File::predicate, w.value.index));
        settle(n.cycles);
        sass::RawInst v = enc::vote_any(r, enc::Pred{w.value.index});
        if (w.value.negated) set_bits(v, bit(vote_not), 1);
        put(seq_, v, {.wait_mask = n.wait_mask});
        break;
      }
      case Kind::uniform: {
        XT_TRY(const Arrivals::Needs n, needs(Arrivals::File::uniform, w.value.index));
        settle(n.cycles);
        put(seq_, enc::mov_from_ur(r, enc::Ureg{w.value.index}), {.wait_mask = n.wait_mask});
        break;
      }
      case Kind::vector:
      case Kind::target: break;
    }
    return {};
  }

  Status columns() {
    std::optional<enc::Gpr> lane = c_.lane_offset;
    for (const wire::Value& v : point_.values) {
      if (!v.is_column() || !v.is_recorded()) continue;
      if (!lane) {   // no register was free for the whole kernel
        XT_TRY(const Holder h, c_.scratch.holder(spot_, spot_, {Shape::single}, previous_));
        lane = h.r(0);
        put(seq_, enc::s2r(*lane, enc::sr_laneid), {.stall = scoreboard_visible, .write_barrier = h.scoreboard});
        put(seq_, enc::shf_l_u32_imm(*lane, *lane, 2),
            {.stall = vector_to_memory, .wait_mask = static_cast<uint8_t>(1u << h.scoreboard)});
      }
      XT_TRY(const Arrivals::Needs n, needs(Arrivals::File::vector, v.index));
      settle(n.cycles);
      XT_TRY_STATUS(its_turn());
      const sass::RawInst w = with_record_policy(
          enc::stg({c_.scratch.uniform().address, *lane, static_cast<int32_t>(v.place)}, enc::Gpr{v.index}, enc::Size::b32));
      put(seq_, turn_ ? enc::with_guard(w, *turn_) : w,
          {.stall = scoreboard_visible, .wait_mask = n.wait_mask, .read_barrier = c_.scratch.scoreboard()});
    }
    return {};
  }

  ProbeContext& c_;
  const Arrivals& arrivals_;
  const wire::Point& point_;
  const InstIndex at_, spot_;   // the instruction; the one in front of which the record stands
  const uint32_t number_;
  const bool any_columns_;
  const uint32_t ends_;         // bytes of the record that ends here; 0: others join in it behind this point
  uint32_t words_at_ = 0;       // byte in the record where the words are
  const std::optional<enc::Ureg> counter_;
  std::optional<enc::Pred> turn_;
  std::optional<Holder>& previous_;
  Sequence& seq_;
  size_t clock_at_ = 0;
};

}  // namespace

PointPlan point_at(InstIndex i, bool after, std::vector<wire::Value> values) {
  PointPlan p;
  p.at = p.site_at = i;
  p.point.after = after;
  p.point.values = std::move(values);
  return p;
}

void number_sites(std::vector<PointPlan>& points) {
  for (uint32_t k = 0; k < points.size(); ++k) points[k].point.site = k;
}

void add_passage(const PointContext& c, InstIndex i, uint32_t site, std::vector<wire::Value> behind,
                 std::vector<PointPlan>& points) {
  const sass::Effects& fx = c.code.insts[i].fx;
  // Lanes of a barrier come to it in any order, and have their own clocks.
  const bool joins = fx.may_switch_path && fx.mnemonic != "BAR" && !fx.mnemonic.starts_with("SYNCS");
  if (!joins) {
    behind.insert(behind.begin(), {Kind::clock_before});
    points.push_back(point_at(i, true, std::move(behind)));
    points.back().point.site = site;
    return;
  }
  points.push_back(point_at(i, false, {{Kind::clock}}));
  points.back().point.role = wire::Point::Role::begin;
  points.back().point.site = site;
  points.push_back(point_at(i, true, std::move(behind)));
  points.back().point.role = wire::Point::Role::end;
  points.back().point.site = site;
}

Result<std::vector<PointPlan>> find_points(ProbeKind probe, const PointContext& c, bool apart) {
  const PointProbe* found = nullptr;
  for (const PointProbe& p : point_probes())
    if (p.kind == probe) found = &p;
  XT_CHECK(found != nullptr, "a point probe");
  XT_TRY(std::vector<PointPlan> points, found->points(c));
  if (points.empty())
    return with_hint(unsupported("kernel {} has nothing there that {} records", c.code.kernel, probe_info(probe).name),
                     probe == ProbeKind::reg || probe == ProbeKind::custom
                         ? "a register is recorded where it is live and known to have arrived: see xtrace sass liveness"
                         : fmt::format("it records {}", probe_info(probe).summary));
  std::stable_sort(points.begin(), points.end(), [](const PointPlan& a, const PointPlan& b) {
    return a.at != b.at ? a.at < b.at : a.point.after < b.point.after;
  });
  for (PointPlan& p : points) {
    p.point.pc = c.code.pc(p.at);
    p.point.block = c.blocks.block_of[p.at];
    p.present = c.scope.samples(p.site_at);
    std::stable_sort(p.point.values.begin(), p.point.values.end(),
                     [](const wire::Value& a, const wire::Value& b) { return a.is_column() < b.is_column(); });
  }
  apart |= c.scope.sites.nth != 1;
  if (!apart) leave_out_told(points, c);
  lay_out(points, c, apart);
  return points;
}

Status count_points(ProbeContext& c, const std::vector<PointPlan>& points) {
  const UniformPlan& ur = c.scratch.uniform();
  const enc::Ureg sum = ur.few ? ur.cursor : ur.base;
  XT_TRY(const std::vector<enc::Ureg> counters, take_counters(c, points));
  for (size_t k = 0; k < points.size(); ++k) {
    const PointPlan& p = points[k];
    if (!p.present || p.point.record_bytes == 0) continue;
    Sequence& seq = p.point.after ? c.out.after[p.at] : c.out.before[p.at];
    if (!counters.empty()) put_turn(seq, ur, counters[k], c.scope.sites.nth);
    put(seq,
        counters.empty() ? enc::uiadd3_imm(sum, sum, p.point.record_bytes)
                         : enc::uimad_imm(sum, ur.temp, p.point.record_bytes, sum),
        {.stall = vector_to_vector});
  }
  return {};
}

Status insert_points(ProbeContext& c) {
  XT_TRY(const std::vector<PointPlan> points, find_points(c.plan.probe, {c.code, c.blocks, c.liveness, c.scope}));
  if (c.layout.wraps && has_columns(points)) return unsupported("records with values of every lane lie in plain slots only");
  const bool any_columns = has_columns(points);
  if (any_columns) c.lane_offset = c.scratch.reserve();
  const Arrivals arrivals(c.code);
  XT_TRY(const std::vector<enc::Ureg> counters, take_counters(c, points));
  std::optional<Holder> previous;
  uint32_t bytes = 0;   // of the record
  const auto joins_behind = [&](uint32_t k) {
    for (++k; k < points.size() && (!points[k].present || points[k].point.implied);) ++k;
    return k < points.size() && points[k].point.joined;
  };
  for (uint32_t k = 0; k < points.size(); ++k) {
    c.map.points.push_back(points[k].point);
    if (!points[k].present) {
      c.map.points.back().record_bytes = 0;
      continue;
    }
    if (points[k].point.implied) continue;
    if (!points[k].point.joined) bytes = points[k].point.record_bytes;
    XT_TRY(const uint32_t overhead, Writer(c, arrivals, points[k], k, any_columns, joins_behind(k) ? 0 : bytes,
                                           counters.empty() ? std::nullopt : std::optional(counters[k]), previous).run());
    if (!points[k].point.after) c.map.points.back().overhead_cycles = overhead;
  }
  return insert_exit_headers(c);
}

}  // namespace xtrace::instrument
