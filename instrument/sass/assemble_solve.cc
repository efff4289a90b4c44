#include "instrument/sass/assemble_solve.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

constexpr unsigned first_bit = 16, last_bit = 104, opcode_bit = 91;
constexpr BitRange byte_fields[] = {bits(23, 16), bits(31, 24), bits(39, 32),
                                    bits(47, 40), bits(55, 48), bits(71, 64)};
constexpr unsigned most_expansions = 40;

void flip(RawInst& w, unsigned b) { (b < 64 ? w.lo : w.hi) ^= 1ull << (b & 63); }
bool is_set(const RawInst& w, unsigned b) { return ((b < 64 ? w.lo : w.hi) >> (b & 63) & 1) != 0; }

}  // namespace

std::string Solver::print(const RawInst& w) const {
  Printer p(arch_, w, pc_, form_);
  p.render(form_.text);
  return p.take();
}

Solver::Match Solver::match(const RawInst& w) {
  std::string text = print(w);
  if (text == text_ && !printed_.empty()) return last_match_;  // most bits change nothing
  text_ = std::move(text);
  lex(arch_, text_, printed_);
  Match& m = last_match_;
  m = {};
  const size_t n = std::min(printed_.size(), wanted_.size());
  while (m.lexemes < n && same_shape(printed_[m.lexemes], wanted_[m.lexemes])) ++m.lexemes;
  m.excess = static_cast<unsigned>(printed_.size()) - m.lexemes;
  m.complete = m.excess == 0;
  // A modifier that only starts alike is as wrong as any other.
  if (m.lexemes < n && !printed_[m.lexemes].text.starts_with('.'))
    m.letters = common_start(printed_[m.lexemes].text, wanted_[m.lexemes].text);
  return m;
}

bool Solver::is_free(BitRange r) const { return get_bits(start_.known, r) == 0; }

// Remembers the word; true when it matches better than the current one.
bool Solver::try_word(const RawInst& w) {
  const Match m = match(w);
  if (m.complete) {
    const auto same = [&](const Complete& c) { return c.lexemes == m.lexemes; };
    if (std::ranges::none_of(complete_, same)) complete_.push_back({w, m.lexemes});
  }
  if (m.rank() <= found_match_.rank()) return false;
  found_match_ = m;
  best_found_ = w;
  return true;
}

// The last output without its numbers.
uint64_t Solver::letters() const {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](unsigned v) { hash = (hash ^ v) * 0x100000001b3; };
  for (const Lexeme& l : printed_) {
    add(static_cast<unsigned>(l.kind) + 256);
    if (l.kind == LexKind::literal)
      for (const char c : l.text) add(static_cast<unsigned char>(c));
  }
  return hash;
}

bool Solver::climb_by_bit() {
  bool better = false;
  match(best_);
  const uint64_t base = letters();
  const std::string base_text = text_;
  RawInst ones = best_;  // with every bit of a number set: what a full mask hides
  for (unsigned b = first_bit; b <= last_bit; ++b) {
    if (b == opcode_bit || start_.is_known(b)) continue;
    RawInst w = best_;
    flip(w, b);
    better |= try_word(w);
    // A bit that changes letters, now or from elsewhere, selects a mode.
    if (!thorough_ || text_ == base_text) continue;
    if (letters() == base) {
      set_bits(ones, bit(b), 1);
    } else if (std::ranges::find(modes_, b) == modes_.end()) {
      modes_.push_back(b);
    }
  }
  if (ones != best_) better |= try_word(ones);
  for (const BitRange r : byte_fields) {
    if (!is_free(r)) continue;
    RawInst w = best_;
    set_bits(w, r, 0xff);
    better |= try_word(w);
  }
  return better;
}

// Neighbouring mode bits: every value of windows of four, or of whole runs up to eight.
bool Solver::climb_by_run(bool whole) {
  std::ranges::sort(modes_);
  bool better = false;
  for (size_t i = 0; i < modes_.size();) {
    size_t end = i + 1;
    while (end < modes_.size() && modes_[end] == modes_[end - 1] + 1) ++end;
    const auto length = static_cast<unsigned>(end - i);
    const unsigned width = whole ? (length > 4 && length <= 8 ? length : 0) : std::min(length, 4u);
    for (unsigned low = modes_[i]; width > 1 && low + width <= modes_[i] + length; ++low)
      for (unsigned v = 0; v < 1u << width; ++v) {
        RawInst w = best_;
        set_bits(w, bits(low + width - 1, low), v);
        better |= try_word(w);
      }
    i = end;
  }
  return better;
}

// Best first over everything that the element can be made to print, for modes that climbing misses: a name
// that starts like the wanted one, values that show only together.
void Solver::explore(const RawInst& from) {
  struct Seen {
    RawInst word;
    unsigned rank;
    bool expanded;
  };
  std::vector<Seen> seen;  // one word for each output, numbers aside
  std::unordered_set<uint64_t> outputs;
  const auto see = [&](const RawInst& w) {
    const Match m = match(w);
    if (!outputs.insert(letters()).second) return;
    seen.push_back({w, m.rank(), false});
    if (m.complete && std::ranges::find(complete_, m.lexemes, &Complete::lexemes) == complete_.end())
      complete_.push_back({w, m.lexemes});
    if (m.rank() > best_match_.rank() || (m.complete && m.lexemes >= best_match_.lexemes)) {
      best_match_ = m;
      best_ = w;
    }
  };
  see(from);
  for (unsigned turn = 0; turn < most_expansions && !is_done(); ++turn) {
    Seen* next = nullptr;
    for (Seen& s : seen)
      if (!s.expanded && (next == nullptr || s.rank > next->rank)) next = &s;
    if (next == nullptr) return;
    next->expanded = true;
    const RawInst base = next->word;
    for (unsigned b = first_bit; b <= last_bit; ++b) {
      if (b == opcode_bit || start_.is_known(b)) continue;
      RawInst w = base;
      flip(w, b);
      see(w);
    }
  }
}

bool Solver::climb() {
  best_found_ = best_;
  found_match_ = best_match_;
  bool better = climb_by_bit();
  if (!better && thorough_) better = climb_by_run(false);
  if (!better && thorough_ && !best_match_.complete) better = climb_by_run(true);
  best_ = best_found_;
  best_match_ = found_match_;
  return better;
}

// How far each free bit moves number `index`; bits that change anything in front of it are left out.
void Solver::weigh(const RawInst& w, size_t index, std::vector<Weight>& weights) {
  match(w);
  const std::vector<Lexeme> base = printed_;
  const std::string text = text_;
  for (unsigned b = first_bit; b <= last_bit; ++b) {
    if (b == opcode_bit || start_.is_known(b)) continue;
    if (std::ranges::find(weights, b, &Weight::bit) != weights.end()) continue;
    RawInst changed = w;
    flip(changed, b);
    match(changed);
    if (text_ == text || printed_.size() != base.size()) continue;
    bool same = true;
    for (size_t i = 0; i < base.size() && same; ++i) {
      same = printed_[i].kind == base[i].kind;
      if (same && base[i].kind == LexKind::literal)
        same = std::string_view(text_).substr(printed_[i].begin, printed_[i].end - printed_[i].begin) ==
               std::string_view(text).substr(base[i].begin, base[i].end - base[i].begin);
      if (same && i < index) same = printed_[i].value == base[i].value;
    }
    const auto delta = static_cast<int64_t>(static_cast<uint64_t>(printed_[index].value) -
                                            static_cast<uint64_t>(base[index].value));
    if (same && delta != 0) weights.push_back({b, is_set(w, b) ? -delta : delta});
  }
}

bool Solver::fit_number(RawInst& w, size_t index) {
  const int64_t target = wanted_[index].value;
  std::vector<Weight> weights;
  for (int attempt = 0; attempt < 4; ++attempt) {
    weigh(w, index, weights);
    if (weights.empty()) return false;
    const auto magnitude = [](const Weight& x) {
      return x.weight < 0 ? 0 - static_cast<uint64_t>(x.weight) : static_cast<uint64_t>(x.weight);
    };
    std::ranges::sort(weights, std::ranges::greater{}, magnitude);
    match(w);
    // Value with every positive bit clear and every negative one set: the least there is.
    auto rest = static_cast<uint64_t>(target) - static_cast<uint64_t>(printed_[index].value);
    for (const Weight& x : weights) {
      if (is_set(w, x.bit)) rest += static_cast<uint64_t>(x.weight);
      if (x.weight < 0) rest -= static_cast<uint64_t>(x.weight);
    }
    RawInst trial = w;
    for (const Weight& x : weights) {
      const bool take = magnitude(x) <= rest;
      if (take) rest -= magnitude(x);
      if (is_set(trial, x.bit) != (take != (x.weight < 0))) flip(trial, x.bit);
    }
    const Match m = match(trial);
    if (rest == 0 && m.lexemes > index && printed_[index].value == target) {
      w = trial;
      return true;
    }
    // Fields that show nothing or another name for one value hide a bit: look again from elsewhere.
    flip(w, weights[static_cast<size_t>(attempt) % weights.size()].bit);
  }
  return false;
}

// A floating-point immediate fills [63:32] or one half of it.
bool Solver::fit_float(RawInst& w, size_t index) {
  const FloatValue v = parse_float(wanted_[index].text);
  const std::pair<BitRange, uint64_t> places[] = {{bits(63, 32), v.f32}, {bits(63, 32), v.f64_high},
                                                  {bits(63, 48), v.f16}, {bits(63, 48), v.f32 >> 16},
                                                  {bits(47, 32), v.f16}, {bits(47, 32), v.f32 >> 16}};
  for (const auto& [place, value] : places) {
    if (!is_free(place)) continue;
    RawInst trial = w;
    set_bits(trial, place, value);
    match(trial);
    if (printed_.size() <= index) continue;
    bool same = true;
    for (size_t i = 0; i <= index && same; ++i) same = printed_[i].text == wanted_[i].text;
    if (!same) continue;
    w = trial;
    return true;
  }
  return false;
}

bool Solver::fit_numbers(RawInst& w) {
  match(w);
  const size_t count = printed_.size();
  for (size_t i = 0; i < count; ++i) {
    match(w);
    if (printed_.size() != count) return false;
    if (wanted_[i].kind == LexKind::literal || printed_[i].text == wanted_[i].text) continue;
    if (wanted_[i].kind == LexKind::floating ? !fit_float(w, i) : !fit_number(w, i)) {
      misfit = wanted_[i].begin;
      return false;
    }
  }
  return wanted_text_.starts_with(print(w));
}

// What the text says is decided: every bit that would change it.
void Solver::decide(Draft& d) const {
  const std::string text = print(d.word);
  const bool letters_only = text.find_first_of("[ ") == std::string::npos && (text.empty() || text[0] == '.');
  for (unsigned b = first_bit; b <= last_bit; ++b) {
    if (b == opcode_bit || d.is_known(b)) continue;
    // Names that depend on operands (IMAD.MOV) leave these to their own place in the text.
    if (letters_only && thorough_ && b < 72) continue;
    RawInst changed = d.word;
    flip(changed, b);
    if (print(changed) != text) set_bits(d.known, bit(b), 1);
  }
}

// True when nothing longer is to be expected: the output ends where the text has a blank.
bool Solver::is_done() const {
  if (!best_match_.complete || best_match_.lexemes == 0) return false;
  return !thorough_ || (best_match_.lexemes < wanted_.size() && wanted_[best_match_.lexemes].text == " ");
}

std::vector<Solution> Solver::solve_from(const RawInst& w) {
  modes_.clear();
  complete_.clear();
  best_ = w;
  best_match_ = match(best_);
  if (best_match_.complete) complete_.push_back({best_, best_match_.lexemes});
  while (!is_done())
    if (!climb()) break;
  if (thorough_ && exhaustive_ && !is_done()) explore(w);
  if (best_match_.lexemes > 0)
    reached = std::max<size_t>(reached, wanted_[best_match_.lexemes - 1].end + best_match_.letters);

  std::ranges::sort(complete_, std::ranges::greater{}, &Complete::lexemes);
  std::vector<Solution> solutions;
  for (const Complete& c : complete_) {
    Draft d = start_;
    d.word = c.word;
    if (!fit_numbers(d.word)) continue;
    decide(d);
    solutions.push_back({d, print(d.word).size()});
  }
  return solutions;
}

std::vector<Solution> Solver::solve(const Draft& start, std::string_view wanted) {
  start_ = start;
  wanted_text_ = wanted;
  lex(arch_, wanted, wanted_);
  printed_.clear();
  std::vector<Solution> solutions = solve_from(start.word);
  if (!solutions.empty() || !thorough_ || reached == 0) return solutions;
  // What a register hides when it is RZ, several bits away: look from there.
  for (const BitRange r : byte_fields) {
    if (!is_free(r)) continue;
    RawInst w = start.word;
    set_bits(w, r, 0xff);
    if (print(w) == print(start.word)) continue;
    solutions = solve_from(w);
    if (!solutions.empty()) break;
  }
  return solutions;
}

}  // namespace xtrace::sass
