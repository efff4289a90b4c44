// What registers hold as far as LaneBases follows it, and what each instruction makes of it.
#pragma once

#include <array>
#include <cstdint>

#include "instrument/code.h"
#include "instrument/lane_bases.h"
#include "instrument/thread_terms.h"

namespace xtrace::instrument::register_terms {

inline constexpr InstIndex joined = 1u << 31;         // in `by`: at the head of this instruction
inline constexpr InstIndex by_place = joined - 1;     // what the thread's place tells

// What a register holds. Nobody has looked yet (unseen), anything (unknown), or a term by the definition at `by`, or by whichever of
// several in front of the whole join that `by` names.
struct Value {
  enum class Kind : uint8_t { unseen, unknown, term } kind = Kind::unseen;
  uint8_t guard = guard_always;
  bool varies = false;         // from one execution of `by` to the next
  bool passes = false;         // and not all lanes were there: it counts until the block of `by` ends
  InstIndex by = 0;
  Term term{};
  bool is_term() const { return kind == Kind::term; }
  // What the thread's place tells is the same whoever defined it.
  void settle() {
    if (!is_term() || term.unknown != 0) return;
    varies = passes = false;
    by = by_place;
  }
  bool operator==(const Value&) const = default;
};
inline constexpr Value unknown{Value::Kind::unknown};

// Where paths meet at instruction `at`. `whole`: all lanes of the warp are there, and came from one and the same execution.
Value meet(ThreadTerms& terms, const Value& a, const Value& b, InstIndex at, bool whole);

struct State {
  std::array<Value, 256> gpr;
  std::array<Value, 64> ur;
};

// The state behind instruction i, of that in front of it. `whole`: all lanes of the warp execute it together.
void apply(const Code& code, const LaunchFacts& launch, ThreadTerms& terms, InstIndex i, bool whole, State& s);

}  // namespace xtrace::instrument::register_terms
