// What is known of a register in all threads of a CTA at once: a term is
//
//   base + number(thread), modulo 2^32
//
// where the base is one for the lanes of a warp, and nobody knows it but for the bits in which it is surely 0. The numbers are a
// table with an entry for each thread: CTAs have at most 1,024, and an instruction's work on them takes a microsecond. So whatever
// code makes of thread numbers alone (masks, shifts, swizzles, divisions) is known exactly, and what it adds to a pointer too.
//
// Each operation gives the term of its result, or nothing where no term says it for certain.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/types.h"

namespace xtrace::instrument {

struct Term {
  uint32_t unknown = 0;   // bits that the base may have; 0: the numbers are all there is
  uint32_t table = 0;     // of the ThreadTerms that it came from
  bool operator==(const Term&) const = default;
};

class ThreadTerms {
 public:
  static constexpr uint32_t warp_lanes = 32;
  explicit ThreadTerms(const Dim3& block);

  Term number(uint32_t n);
  Term uniform() { return {~0u, 0}; }   // one for the warp
  Term lane();
  Term thread(unsigned axis);

  uint32_t threads() const { return threads_; }
  uint32_t at(Term t, uint32_t thread) const { return at(tables_[t.table], thread); }
  bool is_known(Term t) const { return t.unknown == 0; }
  bool is_uniform(Term t) const;                         // in each warp
  std::optional<uint32_t> number_of(Term t) const;       // the same known number in every thread
  // The numbers less that of the warp's first lane.
  Term relative(Term t);

  Term add(Term a, Term b);
  Term negate(Term a);
  std::optional<Term> multiply(Term a, Term b);                      // low words
  std::optional<Term> high_product(Term a, Term b, bool is_signed);  // high words
  std::optional<Term> shift_left(Term a, Term by);
  std::optional<Term> shift_right(Term a, Term by, bool is_signed);
  std::optional<Term> logic(uint8_t table, Term a, Term b, Term c);  // as LOP3
  std::optional<Term> permute(Term a, Term selector, Term b);        // as PRMT
  std::optional<Term> of_lane(Term a, uint32_t lane);                // its value, in all lanes; every lane is there
  // Either of them.
  std::optional<Term> join(Term a, Term b);

 private:
  using Table = std::vector<uint32_t>;   // by thread; of one entry where all are the same
  static uint32_t at(const Table& t, uint32_t thread) { return t.size() == 1 ? t[0] : t[thread]; }
  Term made(uint32_t unknown, Table numbers);
  // f(thread): numbers that depend on these terms alone.
  template <typename F, typename... Terms>
  Term each(uint32_t unknown, F f, Terms... of);
  bool same_in_warps(const Table& t) const;
  // The same value with base and numbers that have no bit in common, so that the sum is a union.
  std::optional<Term> disjoint(Term a);
  // Where one operand alone has a base, and the others leave its bits as they are.
  std::optional<Term> logic_below(uint8_t table, Term a, Term b, Term c);

  uint32_t threads_;
  Dim3 block_;
  std::vector<Table> tables_;
  std::map<Table, uint32_t> known_;   // numbers in tables_
};

}  // namespace xtrace::instrument
