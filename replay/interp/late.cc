#include "replay/interp/late.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "instrument/sass/effects.h"
#include "replay/interp/late_distance.h"

namespace xtrace::replay::interp {

using sass::LateQueue;

namespace {

// Instructions whose results come in order, so that vendor code gives a scoreboard to the last of several: those of the XU queue and FCHK,
// those of shared memory and SHFL, others of one name; no global memory, and no LDC. [sass.md 5.2; what ptxas 13 reads in kernels of
// PyTorch and in random ones; an LDC that came behind a later one: measured H200, 2026-11-30] Empty: none.
std::string_view kind_of(const sass::Effects& e) {
  if (e.late_queue == LateQueue::xu || e.mnemonic == "FCHK") return "XU";
  if (e.space != sass::MemSpace::none && e.space != sass::MemSpace::shared) return {};
  return e.late_queue == LateQueue::lsu ? "shared" : e.mnemonic;
}

// A wait that is nearer to what takes its scoreboard does not see it. [measured H200, 2026-11-30: a store one cycle in front of a MOV
// that waited for it had its address overwritten]
constexpr uint64_t seen_after = 2;
// Without a scoreboard, and not in the order of another that has one: counted by stalls, of which there are fewer than cycles. [measured
// H200, 2026-11-30: the R1 of the first LDC came 500 to 600 cycles after it]
constexpr uint64_t untold_cycles = 700;
constexpr size_t counter_limit = 63;  // of a scoreboard: more are not taken, so the oldest is done [guess, from DEPBAR's field of 6 bits]
constexpr uint8_t no_scoreboard = 7;

}  // namespace

// A place is a row of the warp's registers or, from rows() on, a predicate: P0.., PT, UP0.., UPT.
struct LateInst {
  std::vector<uint16_t> reads, writes;  // without the guard
  std::vector<uint16_t> late_reads;     // of them, those that it reads late: vector registers
  // Of what it writes, what comes with the write scoreboard, and with the read scoreboard.
  std::vector<uint16_t> with_result, with_read;
  uint16_t guard = 0;
  bool guarded = false;
  bool held = false;      // its results come late
  bool products = false;  // of a warpgroup: awaited by group
  bool waits_for_products = false;
  uint8_t group = no_scoreboard, but_youngest = 0;   // of products
  uint8_t counted = no_scoreboard;                   // DEPBAR.LE
  uint8_t more_waits = 0;                            // DEPBAR's own mask
  LateQueue queue = LateQueue::none;                 // reads its vector registers late
  std::string_view kind;                             // of results that come in order
  Producer producer = Producer::other;
  Consumer consumer = Consumer::other;
};

struct LateWarp {
  struct Result {
    uint32_t index = 0;  // of the instruction
    uint32_t lanes = 0;
    const std::vector<uint16_t>* places = nullptr;
    uint64_t serial = 0, since = 0;
    uint8_t scoreboard = no_scoreboard;
    bool too_near = false;   // a wait did not see it
    bool has_values = false;
    std::vector<Row> values;  // by place; a predicate's in lane 0
  };
  struct Read {
    uint32_t index = 0, lanes = 0;
    uint64_t serial = 0, since = 0;
    uint8_t scoreboards = 0;  // bit mask
    bool too_near = false;
  };
  // An instruction that has taken a scoreboard, or a group of products.
  struct Taken {
    uint64_t serial = 0, since = 0;
    LateQueue queue = LateQueue::none;
    std::string_view kind;  // where it is for the result
  };
  struct Fixed {
    uint64_t since = 0;
    uint32_t lanes = 0;  // none: it is there
    Producer producer = Producer::other;
    uint32_t index = 0;
  };
  std::vector<Result> results;
  std::vector<Read> reads;
  std::array<std::vector<Taken>, 6> taken;
  std::array<std::vector<Taken>, 8> groups;
  std::vector<uint16_t> results_at, reads_at;  // how many concern a place
  std::vector<Fixed> fixed;                    // by place
  std::vector<std::vector<Row>> spare;
  uint64_t serial = 0, now = 0, next = 0;      // cycles, by stall counts alone
};

namespace {

bool is_predicate(const RowLayout& l, uint16_t place) { return place >= l.rows(); }
bool is_uniform(const RowLayout& l, uint16_t place) {
  return is_predicate(l, place) ? place >= l.rows() + 8 : place >= l.gprs;
}
uint32_t concerned(const RowLayout& l, uint16_t place, uint32_t lanes) { return is_uniform(l, place) ? all_lanes : lanes; }

Row value_of(const Warp& w, const RowLayout& l, uint16_t place) {
  if (!is_predicate(l, place)) return w.rows[place];
  Row row{};
  row.lane[0] = w.preds[place - l.rows()];
  return row;
}
void set_value(Warp& w, const RowLayout& l, uint16_t place, const Row& value, uint32_t lanes) {
  if (is_predicate(l, place)) {
    uint32_t& p = w.preds[place - l.rows()];
    p = (p & ~lanes) | (value.lane[0] & lanes);
    return;
  }
  for (uint32_t m = lanes; m != 0; m &= m - 1) w.rows[place].lane[first_lane(m)] = value.lane[first_lane(m)];
}

const std::vector<uint16_t> nothing;

std::vector<Row> values_of(LateWarp& late, const Warp& w, const RowLayout& l, const std::vector<uint16_t>& places) {
  std::vector<Row> values;
  if (!late.spare.empty()) {
    values = std::move(late.spare.back());
    late.spare.pop_back();
  }
  values.clear();
  for (const uint16_t place : places) values.push_back(value_of(w, l, place));
  return values;
}

std::vector<uint16_t> places_of(const RowLayout& l, const sass::RegEffects& e) {
  std::vector<uint16_t> places;
  for (unsigned r = 0; r < l.gprs && r < 255; ++r)
    if (e.gpr.test(r)) places.push_back(static_cast<uint16_t>(r));
  for (unsigned u = 0; u < 63; ++u)
    if (e.ur.test(u)) places.push_back(static_cast<uint16_t>(l.ur(u)));
  for (unsigned p = 0; p < 7; ++p) {
    if (e.pred >> p & 1) places.push_back(static_cast<uint16_t>(l.rows() + p));
    if (e.upred >> p & 1) places.push_back(static_cast<uint16_t>(l.rows() + 8 + p));
  }
  return places;
}

LateInst late_inst(const Program& program, const sass::RawInst& w, uint32_t pc, const Inst& decoded) {
  LateInst i;
  const sass::Effects e = sass::effects(*program.arch, w, pc);
  i.guard = static_cast<uint16_t>(program.layout.rows() + decoded.guard.index);
  i.guarded = decoded.guard.index != pt && decoded.guard.index != upt;
  if (e.mnemonic == "DEPBAR") {
    i.counted = e.depbar_scoreboard;
    i.but_youngest = static_cast<uint8_t>(i.counted < 6 ? get_bits(w, bits(43, 38)) : 0);
    i.more_waits = static_cast<uint8_t>(get_bits(w, bits(37, 32)));
  }
  if (e.mnemonic == "WARPGROUP" && get_bits(w, bit(80)) != 0) {
    i.waits_for_products = true;
    i.group = static_cast<uint8_t>(get_bits(w, bits(86, 84)));
    i.but_youngest = static_cast<uint8_t>(get_bits(w, bits(74, 72)));
  }
  if (!e.known || !e.exact) return i;
  i.reads = places_of(program.layout, e.use);
  if (i.guarded) {
    // The guard is read by lanes that do not take part, and at another distance. As an operand it can not be told from the guard.
    std::erase(i.reads, i.guard);
  }
  i.writes = places_of(program.layout, e.def);
  i.products = e.async_registers;
  if (i.products) i.group = static_cast<uint8_t>(get_bits(w, bits(86, 84)));
  i.held = !e.fixed_latency && !i.writes.empty();
  // A generic atomic says in a predicate whether it was one of shared memory; vendor code branches by that when the address was read.
  // [ptxas 13: a random kernel]
  for (const uint16_t place : i.writes)
    (e.mnemonic == "ATOM" && is_predicate(program.layout, place) && decoded.read_barrier < 6 ? i.with_read : i.with_result).push_back(place);
  const bool signals = decoded.write_barrier < 6 || decoded.read_barrier < 6;
  const bool in_queue = e.late_queue == LateQueue::lsu || e.late_queue == LateQueue::xu;
  if (in_queue || (e.late_queue == LateQueue::other && (signals || i.products))) {
    i.queue = e.late_queue;
    for (const uint16_t place : i.reads)
      if (place < program.layout.gprs) i.late_reads.push_back(place);
  }
  i.kind = kind_of(e);
  i.producer = e.fixed_latency ? producer_of(e) : Producer::other;
  i.consumer = consumer_of(e);
  return i;
}

}  // namespace

LateMode::LateMode(const Program& program) : program_(program) {
  insts_.reserve(program.words.size());
  for (uint32_t k = 0; k < program.words.size(); ++k)
    insts_.push_back(late_inst(program, program.words[k], k * sass::inst_bytes, program.insts[k]));
}
LateMode::~LateMode() = default;

LateWarp& LateMode::of(const Warp& w) {
  std::unique_ptr<LateWarp>& late = warps_[w.global_number];
  if (late == nullptr) {
    late = std::make_unique<LateWarp>();
    const size_t places = program_.layout.rows() + 16;
    late->results_at.resize(places);
    late->reads_at.resize(places);
    late->fixed.resize(places);
  }
  return *late;
}
void LateMode::forget(const Cta& cta) {
  for (const Warp& w : cta.warps) warps_.erase(w.global_number);
}

std::string LateMode::name(uint16_t place) const {
  const RowLayout& l = program_.layout;
  if (is_predicate(l, place)) {
    const unsigned p = place - l.rows();
    return p < 8 ? fmt::format("P{}", p) : fmt::format("UP{}", p - 8);
  }
  return place < l.gprs ? fmt::format("R{}", place) : fmt::format("UR{}", static_cast<int32_t>(place) - l.ur(0));
}
std::string LateMode::text(uint32_t index) const {
  return fmt::format("{} at {:#06x}", program_.text(index), index * sass::inst_bytes);
}

void LateMode::deliver(LateWarp& late, Warp& w, size_t at) const {
  LateWarp::Result& r = late.results[at];
  for (size_t k = 0; k < r.places->size(); ++k) {
    const uint16_t place = (*r.places)[k];
    --late.results_at[place];
    if (r.has_values) set_value(w, program_.layout, place, r.values[k], concerned(program_.layout, place, r.lanes));
  }
  late.spare.push_back(std::move(r.values));
  if (at + 1 != late.results.size()) late.results[at] = std::move(late.results.back());
  late.results.pop_back();
}

// What the scoreboard counts and a wait now sees is done, but for the youngest.
void LateMode::wait(LateWarp& late, Warp& w, unsigned scoreboard, unsigned but_youngest) const {
  std::vector<LateWarp::Taken>& taken = late.taken[scoreboard];
  if (taken.empty()) return;
  size_t done = 0;
  while (done < taken.size() && taken[done].since + seen_after <= late.now) ++done;
  for (LateWarp::Result& r : late.results) r.too_near |= r.scoreboard == scoreboard && r.since + seen_after > late.now;
  for (LateWarp::Read& r : late.reads) r.too_near |= (r.scoreboards >> scoreboard & 1) != 0 && r.since + seen_after > late.now;
  done -= std::min<size_t>(done, but_youngest);
  if (done == 0) return;
  const uint64_t last = taken[done - 1].serial;
  std::array<uint64_t, 8> of_queue{};
  const std::vector<LateWarp::Taken> over(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(done));
  for (const LateWarp::Taken& t : over) of_queue[static_cast<size_t>(t.queue)] = t.serial;
  for (const LateQueue q : {LateQueue::none, LateQueue::branch, LateQueue::other}) of_queue[static_cast<size_t>(q)] = 0;
  taken.erase(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(done));
  for (size_t k = late.results.size(); k-- > 0;) {
    const LateWarp::Result& r = late.results[k];
    if (insts_[r.index].products) continue;
    const std::string_view kind = insts_[r.index].kind;
    const bool in_order = r.scoreboard == no_scoreboard && !kind.empty() && std::any_of(over.begin(), over.end(), [&](const LateWarp::Taken& t) {
      return t.kind == kind && t.serial > r.serial;
    });
    if (in_order || (r.scoreboard == scoreboard && r.serial <= last)) deliver(late, w, k);
  }
  std::erase_if(late.reads, [&](const LateWarp::Read& r) {
    const LateInst& i = insts_[r.index];
    if (i.products) return false;
    const bool in_order = r.serial <= of_queue[static_cast<size_t>(i.queue)];
    if (!in_order && !((r.scoreboards >> scoreboard & 1) != 0 && r.serial <= last)) return false;
    for (const uint16_t place : i.late_reads) --late.reads_at[place];
    return true;
  });
}

void LateMode::wait_for_products(LateWarp& late, Warp& w, unsigned group, unsigned but_youngest) const {
  std::vector<LateWarp::Taken>& taken = late.groups[group];
  if (taken.size() <= but_youngest) return;
  const size_t done = taken.size() - but_youngest;
  const uint64_t last = taken[done - 1].serial;
  taken.erase(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(done));
  for (size_t k = late.results.size(); k-- > 0;)
    if (insts_[late.results[k].index].products && late.results[k].serial <= last) deliver(late, w, k);
  std::erase_if(late.reads, [&](const LateWarp::Read& r) {
    if (!insts_[r.index].products || r.serial > last) return false;
    for (const uint16_t place : insts_[r.index].late_reads) --late.reads_at[place];
    return true;
  });
}

void LateMode::wait(LateWarp& late, Warp& w, const Inst& i) const {
  const LateInst& li = insts_[i.index];
  late.now = late.next;
  late.next = late.now + std::max<uint32_t>(i.stall, 1);
  for (uint32_t m = i.wait | li.more_waits; m != 0; m &= m - 1)
    if (const unsigned sb = first_lane(m); sb < 6) wait(late, w, sb, 0);
  if (li.counted < 6) wait(late, w, li.counted, li.but_youngest);
  if (li.waits_for_products) wait_for_products(late, w, li.group, li.but_youngest);
}

void LateMode::check(LateWarp& late, Step& s, const Inst& i) const {
  const LateInst& li = insts_[i.index];
  const RowLayout& l = program_.layout;
  const auto why = [&](uint8_t scoreboard, bool too_near) {
    if (scoreboard >= 6) return std::string("it has no scoreboard");
    return too_near ? fmt::format("the wait for SB{} stands too near behind it", scoreboard) : fmt::format("nobody waited for SB{}", scoreboard);
  };
  const auto result_at = [&](uint16_t place, uint32_t lanes, bool writes) -> const LateWarp::Result* {
    for (size_t k = late.results.size(); k-- > 0;) {
      const LateWarp::Result& r = late.results[k];
      const LateInst& from = insts_[r.index];
      if ((concerned(l, place, r.lanes) & lanes) == 0 || std::find(r.places->begin(), r.places->end(), place) == r.places->end()) continue;
      if (from.products && li.products) continue;   // products of one accumulator come in order
      if (writes && !from.kind.empty() && from.kind == li.kind) {   // in order as well
        deliver(late, *s.warp, k);
        continue;
      }
      if (r.scoreboard == no_scoreboard && !from.products && from.kind.empty() && r.since + untold_cycles <= late.now) {
        deliver(late, *s.warp, k);
        continue;
      }
      return &r;
    }
    return nullptr;
  };
  const auto touches = [&](uint16_t place, uint32_t lanes, bool writes) {
    if (late.results_at[place] == 0) return;
    const LateWarp::Result* r = result_at(place, concerned(l, place, lanes), writes);
    if (r == nullptr) return;
    const bool products = insts_[r->index].products;
    s.fail(ErrorKind::device, fmt::format("{} is {} here, and what {} puts there may come {}: {}", name(place), writes ? "written" : "read",
                                          text(r->index), writes ? "on top" : "later",
                                          products ? "nobody waited for the products" : why(r->scoreboard, r->too_near)));
  };
  const auto reads = [&](uint16_t place, uint32_t lanes, Consumer consumer) {
    touches(place, lanes, false);
    const LateWarp::Fixed& f = late.fixed[place];
    if ((f.lanes & concerned(l, place, lanes)) == 0) return;
    const unsigned distance = smallest_distance(f.producer, consumer);
    if (late.now - f.since < distance)
      s.fail(ErrorKind::device, fmt::format("{} is read here {} cycles behind {}, and vendor code leaves {} at least", name(place),
                                            late.now - f.since, text(f.index), distance));
  };
  if (li.guarded) reads(li.guard, s.active, li.consumer == Consumer::uniform ? Consumer::uniform_guard : Consumer::guard);
  if (s.mask == 0) {
    take(late, *s.warp, i, ++late.serial);
    return;
  }
  for (const uint16_t place : li.reads) reads(place, s.mask, is_predicate(l, place) ? Consumer::predicate : li.consumer);
  for (const uint16_t place : li.writes) {
    touches(place, s.mask, true);
    if (late.reads_at[place] == 0) continue;
    for (const LateWarp::Read& r : late.reads) {
      const LateInst& from = insts_[r.index];
      const bool concerns = std::find(from.late_reads.begin(), from.late_reads.end(), place) != from.late_reads.end();
      // A queue reads in its order, and writes behind that.
      if (!concerns || (r.lanes & s.mask) == 0 || (from.queue == li.queue && from.queue != LateQueue::other) || (from.products && li.products)) continue;
      const auto scoreboard = static_cast<uint8_t>(r.scoreboards == 0 ? no_scoreboard : first_lane(r.scoreboards));
      s.fail(ErrorKind::device, fmt::format("{} is written here, and {} may not have read it: {}", name(place), text(r.index),
                                            from.products ? "nobody waited for the products" : why(scoreboard, r.too_near)));
    }
  }
}

// Where no lane takes part as well: the code that vendors make waits on the scoreboard of a store whose guard may be false for what an
// earlier store reads.
void LateMode::take(LateWarp& late, Warp& w, const Inst& i, uint64_t serial) const {
  for (const uint8_t sb : {i.write_barrier, i.read_barrier}) {
    if (sb >= 6) continue;
    std::vector<LateWarp::Taken>& taken = late.taken[sb];
    if (taken.size() >= counter_limit) {
      const uint64_t now = std::exchange(late.now, late.now + seen_after);   // it was waited for, so to say
      wait(late, w, sb, static_cast<unsigned>(counter_limit) - 1);
      late.now = now;
    }
    taken.push_back({serial, late.now, insts_[i.index].queue, sb == i.write_barrier ? insts_[i.index].kind : std::string_view()});
  }
}

void LateMode::execute(LateWarp& late, Step& s, const Inst& i) const {
  const LateInst& li = insts_[i.index];
  const RowLayout& l = program_.layout;
  const uint64_t serial = ++late.serial;
  const uint32_t lanes = s.mask;
  Warp& w = *s.warp;
  std::vector<Row> older = values_of(late, w, l, li.held ? li.writes : nothing);
  i.exec(s, i);
  if (s.faulted) return;
  if (li.held) {
    // Of products the next ones add to them, without a wait. Who waits for a barrier or for registers is told how it went when it goes on.
    const bool waits = std::any_of(w.paths.begin(), w.paths.end(), [&](const Path& p) {
      return (p.mask & lanes) != 0 && (p.state == PathState::at_mbarrier || p.state == PathState::at_register_pool);
    });
    const bool holds_back = !li.products && !waits;
    for (const auto& [places, sb] : {std::pair(&li.with_result, i.write_barrier), std::pair(&li.with_read, i.read_barrier)}) {
      if (places->empty()) continue;
      late.results.push_back({i.index, lanes, places, serial, late.now, sb < 6 ? sb : no_scoreboard, false, holds_back,
                              values_of(late, w, l, holds_back ? *places : nothing)});
      for (const uint16_t place : *places) ++late.results_at[place];
    }
    for (size_t k = 0; k < li.writes.size(); ++k) {
      late.fixed[li.writes[k]].lanes = 0;
      if (holds_back) set_value(w, l, li.writes[k], older[k], concerned(l, li.writes[k], lanes));
    }
  } else {
    for (const uint16_t place : li.writes) late.fixed[place] = {late.now, concerned(l, place, lanes), li.producer, i.index};
  }
  late.spare.push_back(std::move(older));
  if (li.products && li.group < 7) late.groups[li.group].push_back({serial, late.now, li.queue, {}});
  const uint8_t scoreboards = static_cast<uint8_t>((i.write_barrier < 6 ? 1u << i.write_barrier : 0) |
                                                   (i.read_barrier < 6 ? 1u << i.read_barrier : 0));
  take(late, w, i, serial);
  if (li.late_reads.empty()) return;
  // The same instruction again reads later than before.
  std::erase_if(late.reads, [&](const LateWarp::Read& r) {
    if (r.index != i.index || (r.lanes & ~lanes) != 0) return false;
    for (const uint16_t place : li.late_reads) --late.reads_at[place];
    return true;
  });
  late.reads.push_back({i.index, lanes, serial, late.now, scoreboards, false});
  for (const uint16_t place : li.late_reads) ++late.reads_at[place];
}

}  // namespace xtrace::replay::interp
