// value-recorded: the records of point probes, word by word, against what the map says they hold.
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "instrument/sass/print.h"
#include "instrument/verify_fields.h"
#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

using Kind = wire::Value::Kind;

using namespace fields;
constexpr uint64_t top_bit = 31;

class Points {
 public:
  Points(SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out) : v_(v), claims_(claims), blocks_(blocks), out_(out) {}

  void run() {
    uint32_t from = 0;
    for (uint32_t n = 0; n < claims_.points.size(); ++n) {
      point_ = &claims_.points[n];
      if (!point_->is_present()) continue;
      i_ = v_.old.index(point_->pc);
      if (i_ >= v_.old.insts.size())
        return out_.push_back({"value-recorded", 0, fmt::format("point {} is at {:#x}, the kernel has {:#x} bytes", n, point_->pc, v_.old.bytes())});
      const auto [first, end] = words_at(*point_);
      end_ = end;
      begin_ = first;
      left_out(n);
      if (point_->implied) {
        without_record(n);
        continue;
      }
      // Several records at one place follow each other, each up to where the cursor moves.
      begin_ = std::max(first, std::min(from, end_));
      if (n > 0 && !same_place(claims_.points[n - 1], *point_)) begin_ = first;
      if (!point_->joined) begin_record(n);
      else if (!joins(n)) continue;
      if (n == record_.last) {
        const auto bump = find_bump();
        if (!bump) {
          fail(begin_, fmt::format("the cursor does not move by {} bytes", record_.bytes));
          continue;
        }
        stays_until(*bump);
        end_ = *bump;
        from = end_ + 1;
      }
      own_bytes();
      check(n);
    }
  }

 private:
  void fail(uint32_t word, std::string what) {
    out_.push_back({"value-recorded", v_.pc(word), where(v_.old, i_) + ": " + std::move(what)});
  }
  uint64_t field(uint32_t k, BitRange range) const { return get_bits(v_.words[k], range); }
  static bool has_words(const wire::Point& p) { return p.record_bytes != 0 || p.joined; }
  static bool same_place(const wire::Point& a, const wire::Point& b) { return a.pc == b.pc && a.after == b.after; }
  // The words of records at a point: from there up to the instruction in front of which it is, or the one that follows that behind which it is.
  std::pair<uint32_t, uint32_t> words_at(const wire::Point& p) const {
    const InstIndex i = v_.old.index(p.pc);
    const Copy& copy = v_.copies[0];
    if (!p.after) return {copy.label[i], copy.at[i]};
    const auto behind = claims_.words_behind.find(p.pc);
    return {copy.at[i] + 1, copy.at[i] + 1 + (behind == claims_.words_behind.end() ? 0 : behind->second)};
  }
  // The block whose executions pass the point.
  uint32_t block_of(const wire::Point& p) const {
    const InstIndex i = v_.old.index(p.pc);
    const uint32_t b = i < blocks_.block_of.size() ? blocks_.block_of[i] : Blocks::none;
    return b == Blocks::none || (p.after && i == blocks_.blocks[b].last()) ? Blocks::none : b;
  }
  bool defines(uint32_t k, const wire::Value& value) const {
    const sass::Effects& fx = v_.effects[k];
    if (!fx.known) return true;
    if (value.kind == Kind::vector) return fx.def.gpr.test(value.index);
    if (value.kind == Kind::uniform) return fx.def.ur.test(value.index);
    return value.index != always && (fx.def.pred >> value.index & 1);
  }

  // What point n does not record the last point in front of it that has the value tells: in the same execution of the same block, from which no word
  // leads to n that defines it.
  void left_out(uint32_t n) {
    const uint32_t block = block_of(*point_);
    for (const wire::Value& value : point_->values) {
      if (value.is_recorded()) continue;
      if (!value.is_register()) return fail(begin_, "what is another each time is left out");
      if (block == Blocks::none || block != point_->block) return fail(begin_, fmt::format("is said to be in block {}", point_->block));
      std::optional<uint32_t> from;   // the first word of the point that tells
      for (uint32_t m = n; m-- > 0 && !from;) {
        const wire::Point& p = claims_.points[m];
        if (block_of(p) != block) break;
        const bool has = std::any_of(p.values.begin(), p.values.end(), [&](const wire::Value& v) { return v.same_register(value); });
        if (p.is_present() && has) from = words_at(p).first;
      }
      if (!from || *from > begin_) return fail(begin_, fmt::format("no point in front of it has what point {} leaves out", n));
      for (uint32_t k = *from; k < end_; ++k)
        if (defines(k, value)) return fail(k, fmt::format("{} changes what point {} leaves out", text(k), n));
    }
  }
  // A point without a record stands behind another in its block, and stores nothing.
  void without_record(uint32_t n) {
    const auto is_recorded = [](const wire::Value& v) { return v.is_recorded(); };
    if (point_->record_bytes != 0 || point_->values.empty() || std::any_of(point_->values.begin(), point_->values.end(), is_recorded))
      return fail(begin_, fmt::format("point {} has no record, and something to record", n));
    const auto& points = claims_.points;
    for (uint32_t m = n; m > 0 && same_place(points[m - 1], *point_); --m)
      if (has_words(points[m - 1])) return;   // these words are looked at there
    for (uint32_t m = n + 1; m < points.size() && same_place(points[m], *point_); ++m)
      if (has_words(points[m])) return;
    for (uint32_t k = begin_; k < end_; ++k)
      if (is_store(k)) return fail(k, fmt::format("{} stands where point {} stores nothing", text(k), n));
  }

  // The record of point n, in which those behind it in its block join.
  void begin_record(uint32_t n) {
    record_ = {point_->block, n, point_->record_bytes, end_, {}, {}, {}};
    for (uint32_t k = begin_; k < end_ && record_.base.none(); ++k) {
      if (!is_store(k)) continue;
      record_.base = v_.effects[k].use.ur;
      record_.first_store = k;
    }
    record_.written.resize(point_->record_bytes);
    for (uint32_t m = n + 1; m < claims_.points.size() && (!claims_.points[m].is_present() || claims_.points[m].record_bytes == 0); ++m)
      if (claims_.points[m].joined) record_.last = m;
  }
  // Nothing moves the cursor from the first store of the record on, in front of that word.
  void stays_until(uint32_t bump) {
    for (uint32_t k = record_.first_store; k < bump; ++k)
      if ((v_.effects[k].def.ur & record_.base).any()) return fail(k, fmt::format("the cursor moves, and point {} joins in the record", record_.last));
  }
  bool joins(uint32_t n) {
    const bool is_one = record_.bytes != 0 && point_->record_bytes == 0 && claims_.nth <= 1;
    const auto is_recorded = [](const wire::Value& v) { return v.is_recorded(); };
    if (is_one && block_of(*point_) != Blocks::none && block_of(*point_) == record_.block && record_.block == point_->block &&
        std::any_of(point_->values.begin(), point_->values.end(), is_recorded))
      return true;
    fail(begin_, fmt::format("point {} joins in a record, and there is none in front of it in its block, or it has nothing to record", n));
    return false;
  }
  // Each byte of a record is written once. (What lanes leave that end has another base.)
  void own_bytes() {
    for (uint32_t k = begin_; k < end_; ++k) {
      if (!is_of_record(k) || !record_.seen.insert(k).second) continue;
      const auto at = static_cast<uint32_t>(field(k, place_field));
      const uint32_t bytes = field(k, a_field) != no_register ? wire::column_bytes : 4 * words_of(field(k, size_field));
      if (at + bytes > record_.bytes) return fail(k, fmt::format("{} stores behind the record of {} bytes", text(k), record_.bytes));
      for (uint32_t b = at; b < at + bytes; ++b) {
        if (record_.written[b]) return fail(k, fmt::format("byte {} of the record is written again", b));
        record_.written[b] = true;
      }
    }
  }

  bool is_store(uint32_t k) const { return v_.is_inserted(k) && sass::opcode13(v_.words[k]) == stg_uniform; }
  bool is_of_record(uint32_t k) const { return is_store(k) && v_.effects[k].use.ur == record_.base; }
  static uint32_t words_of(uint64_t size) { return size == 6 ? 4 : size == 5 ? 2 : 1; }

  // The word that moves the cursor, behind the record's last store: of a plain slot an addition of its size to the base of its
  // stores, of a wrapping one whatever writes that register.
  std::optional<uint32_t> find_bump() const {
    sass::RegSet address;
    for (uint32_t k = begin_; k < end_; ++k) {
      if (is_store(k)) address = v_.effects[k].use.ur;
      if (!v_.is_inserted(k) || (v_.effects[k].def.ur & address).none()) continue;
      const uint16_t opcode = sass::opcode13(v_.words[k]) & 0xfff;
      const bool adds = opcode == uiadd3_imm || opcode == uimad_imm;
      if (adds && (field(k, imm_field) != record_.bytes || (opcode == uimad_imm) != (claims_.nth > 1))) return std::nullopt;
      return k;
    }
    return std::nullopt;
  }

  uint16_t opcode(uint32_t k) const { return sass::opcode13(v_.words[k]) & 0xfff; }
  // Every nth execution: a counter that no other point has is counted down, and its sign is what the predicate and the cursor follow.
  void check_turn() {
    turn_.reset();
    if (claims_.nth <= 1) return;
    for (uint32_t k = begin_; k + 3 < end_; ++k) {
      std::vector<uint32_t> at;   // without what only waits
      for (uint32_t j = k; j < end_ && at.size() < 5; ++j)
        if (v_.is_inserted(j) && v_.effects[j].mnemonic != "NOP") at.push_back(j);
      if (at.size() < 4) break;
      const auto defines = [&](size_t j) { return v_.effects[at[j]].def.ur; };
      const auto uses = [&](size_t j) { return v_.effects[at[j]].use.ur; };
      const bool counts = opcode(at[0]) == uiadd3_imm && field(at[0], imm_field) == 0xffffffff && uses(0) == defines(0) &&
                          opcode(at[1]) == ushf_imm && field(at[1], shift_field) == top_bit && uses(1) == defines(0) &&
                          opcode(at[2]) == uimad_imm && field(at[2], imm_field) == claims_.nth && defines(2) == defines(0) &&
                          uses(2) == (defines(0) | defines(1));
      if (!counts) continue;
      const size_t test = at.size() > 4 && opcode(at[3]) == uimad_imm ? 4 : 3;   // a wrapping slot's cursor moves in between
      const bool tests = opcode(at[test]) == isetp_ur && uses(test) == defines(1) && field(at[test], compare_field) == not_equal;
      if (!tests || (counters_ & defines(0)).any()) return fail(at[test], "not the counter of this point alone");
      counters_ |= defines(0);
      turn_ = field(at[test], predicate_field);
      const uint32_t moves = test == 4 ? at[3] : end_;
      if ((v_.effects[moves].use.ur & defines(1)).none() || (test == 4 && field(moves, imm_field) != point_->record_bytes))
        return fail(moves, "the cursor does not move with the record");
      return;
    }
    fail(begin_, fmt::format("nothing counts to {} here", claims_.nth));
  }
  bool right_guard(uint32_t store) const {
    return turn_ ? field(store, guard_field) == *turn_ : !v_.effects[store].guarded;
  }

  void check(uint32_t n) {
    check_turn();
    if (!point_->joined) {
      word(0, [&](uint32_t k) {
        return sass::opcode13(v_.words[k]) == mov_imm && field(k, imm_field) == wire::word0(wire::RecordKind::point, n);
      });
      word(4, [&](uint32_t k) { return votes(k, always); });
    }
    for (const wire::Value& value : point_->values) {
      if (!value.is_recorded()) continue;
      if (value.is_column()) column(value);
      else if (value.kind == Kind::clock_before) word(value.place, [&](uint32_t k) { return reads(k, clock_lo); }, true);
      else word(value.place, [&](uint32_t k) { return makes(k, value); });
    }
  }

  bool votes(uint32_t k, uint64_t predicate) const {
    return sass::opcode13(v_.words[k]) == vote && field(k, mode_field) == vote_any && field(k, vote_field) == predicate;
  }
  bool reads(uint32_t k, uint64_t special) const {
    return sass::opcode13(v_.words[k]) == cs2r && field(k, special_field) == special;
  }
  bool makes(uint32_t k, const wire::Value& value) const {
    switch (value.kind) {
      case Kind::clock: return reads(k, clock_lo);
      case Kind::time: return reads(k, globaltimer_lo);
      case Kind::clock_ready: {
        const uint8_t sb = sass::get_control(v_.old.insts[i_].raw).write_barrier;
        return reads(k, clock_lo) && (sb >= 6 || (sass::get_control(v_.words[k]).wait_mask >> sb & 1));
      }
      case Kind::lanes: return votes(k, value.index | (value.negated ? 8u : 0u));
      case Kind::uniform: return sass::opcode13(v_.words[k]) == mov_ur && v_.effects[k].use.ur.test(value.index);
      default: return false;
    }
  }

  // The only store of the byte at `place` takes a register that `is_right` made last; `held`: in front of the instruction.
  template <typename F>
  void word(uint32_t place, F is_right, bool held = false) {
    std::optional<uint32_t> store;
    for (uint32_t k = begin_; k < end_; ++k) {
      if (!is_of_record(k)) continue;
      const auto at = static_cast<uint32_t>(field(k, place_field));
      const bool columns = field(k, a_field) != no_register;
      const uint32_t bytes = columns ? wire::column_bytes : 4 * words_of(field(k, size_field));
      if (place < at || place >= at + bytes) continue;
      if (store || columns) return fail(k, fmt::format("byte {} of the record is written again", place));
      store = k;
    }
    if (!store) return fail(begin_, fmt::format("byte {} of the record is not written", place));
    if (!right_guard(*store)) return fail(*store, "not by all lanes, or not every nth time");
    const auto reg = static_cast<unsigned>(field(*store, b_field) + (place - field(*store, place_field)) / 4);
    uint32_t k = *store;
    const uint32_t first = held ? v_.copies[0].label[i_] : begin_;
    while (k > first) {
      --k;
      if (!v_.effects[k].def.gpr.test(reg)) continue;
      if (!v_.is_inserted(k) || v_.effects[k].guarded || !is_right(k) || (held && k >= v_.copies[0].at[i_]))
        fail(k, fmt::format("{} makes byte {} of the record", text(k), place));
      return;
    }
    fail(*store, fmt::format("nothing here makes byte {} of the record", place));
  }

  void column(const wire::Value& value) {
    bool found = false;
    for (uint32_t k = begin_; k < end_; ++k) {
      if (v_.effects[k].def.gpr.test(value.index)) return fail(k, fmt::format("{} changes what is recorded", text(k)));
      if (!is_of_record(k) || field(k, a_field) == no_register || field(k, place_field) != value.place) continue;
      if (found) return fail(k, fmt::format("byte {} of the record is written again", value.place));
      if (field(k, b_field) != value.index || !right_guard(k) || words_of(field(k, size_field)) != 1)
        return fail(k, fmt::format("{} stands where R{} should", text(k), value.index));
      found = true;
      v_.address_store[k] = true;
    }
    if (!found) fail(begin_, fmt::format("R{} is not stored", value.index));
  }

  std::string text(uint32_t word) const { return sass::print(*v_.old.arch, v_.words[word], v_.pc(word)); }

  SpliceView& v_;
  const SpliceClaims& claims_;
  const Blocks& blocks_;
  Violations& out_;
  const wire::Point* point_ = nullptr;
  InstIndex i_ = 0;
  uint32_t begin_ = 0, end_ = 0;   // words of the point
  struct Record {
    uint32_t block = 0, last = 0;   // of the points that are in it
    uint32_t bytes = 0;             // 0: there is none
    uint32_t first_store = 0;
    std::vector<bool> written;
    std::set<uint32_t> seen;        // stores
    sass::RegSet base;              // of all of them
  } record_;
  std::optional<uint64_t> turn_;   // predicate of its stores
  sass::RegSet counters_;
};

}  // namespace

void check_points(SpliceView& v, const SpliceClaims& claims, const Blocks& blocks, Violations& out) { Points(v, claims, blocks, out).run(); }

}  // namespace xtrace::instrument
