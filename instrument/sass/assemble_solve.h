// Solves one operand or special token of a text: finds the bits for which the printer gives the wanted text.
// Private to the room.
//
// The printer is asked, never read: a bit that changes the letters of the output selects a mode, one that
// changes only a number belongs to a field. Modes are found by climbing to the longest match with the wanted
// text; fields are then linear in their bits (two's complement, scaled, counted down from 7), so the weights
// of the bits give the value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "instrument/sass/assemble_lex.h"
#include "instrument/sass/form.h"

namespace xtrace::sass {

// A word under construction: bits of `known` are decided.
struct Draft {
  RawInst word;
  U128 known;

  bool is_known(unsigned b) const { return get_bits(known, bit(b)) != 0; }
  void set(BitRange r, uint64_t value) {
    set_bits(word, r, value);
    set_bits(known, r, low_mask(r.width));
  }
};

struct Solution {
  Draft draft;
  size_t length = 0;  // of the text that it prints
};

class Solver {
 public:
  // Template element `piece` ("{mem}") of a form. Thorough: it may have modes that no single bit selects.
  // Exhaustive: look for them in every output that there is, which takes milliseconds.
  Solver(const Arch& arch, const Form& form, std::string_view piece, uint32_t pc, bool thorough,
         bool exhaustive = false)
      : arch_(arch), form_(form), pc_(pc), thorough_(thorough), exhaustive_(exhaustive) {
    form_.text = piece;
  }

  // Ways to print a start of `wanted`, the longest first. `reached`: how far any attempt agreed; `misfit`:
  // where a number starts that its field can not hold, although the letters agreed.
  std::vector<Solution> solve(const Draft& start, std::string_view wanted);
  // What the element prints for a word.
  std::string print(const RawInst& w) const;
  size_t reached = 0;
  std::optional<size_t> misfit;

 private:
  struct Match {
    unsigned lexemes = 0;  // that agree from the start
    unsigned letters = 0;  // of the first that does not
    unsigned excess = 0;   // lexemes printed behind those
    bool complete = false;
    bool operator==(const Match&) const = default;
    unsigned rank() const {
      return lexemes * 1024 + (letters < 31 ? letters : 31) * 32 + (excess < 31 ? 31 - excess : 0);
    }
  };
  struct Complete {
    RawInst word;
    unsigned lexemes;
  };

  std::vector<Solution> solve_from(const RawInst& w);
  bool is_done() const;
  Match match(const RawInst& w);
  uint64_t letters() const;
  bool try_word(const RawInst& w);  // keeps it when it matches better
  bool climb();
  bool climb_by_bit();
  bool climb_by_run(bool whole);
  void explore(const RawInst& from);
  bool is_free(BitRange r) const;
  bool fit_numbers(RawInst& w);
  bool fit_number(RawInst& w, size_t index);
  bool fit_float(RawInst& w, size_t index);
  struct Weight {
    unsigned bit;
    int64_t weight;
  };
  void weigh(const RawInst& w, size_t index, std::vector<Weight>& weights);
  void decide(Draft& d) const;

  const Arch& arch_;
  Form form_;  // with the element as its text
  const uint32_t pc_;
  const bool thorough_, exhaustive_;

  Draft start_;
  std::string_view wanted_text_;
  std::vector<Lexeme> wanted_, printed_;
  std::string text_;
  RawInst best_, best_found_;
  Match best_match_, found_match_, last_match_;
  std::vector<unsigned> modes_;  // bits that were seen to change letters
  std::vector<Complete> complete_;
};

}  // namespace xtrace::sass
