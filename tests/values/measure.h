// What is learnt of a word by executing it: a digest of its results, and its operands by value.
#pragma once

#include "tests/values/direct.h"
#include "tests/values/frame.h"
#include "tests/values/objects.h"

namespace xtrace::values {

struct Measured {
  uint64_t digest = 0;  // of the operand sets
  PlaceSet changed{};   // places whose value changed, in any operand set
  PlaceSet moved{};     // inputs that, changed alone, moved something else
};
// `out` parallel to `in`: `warps` states.
Measured evaluate(const std::vector<WarpState>& in, const std::vector<WarpState>& out);

// The same by the form table: what an execution may change, and what may matter. Memory counts as both for an
// access.
struct Expected {
  PlaceSet def{}, use{};
};
Expected expected(const Word& w);
// Empty when the measurement lies inside what is expected; else what does not.
std::string contradiction(const Word& w, const Measured& m);
// Places the table names and the measurement did not show: "P0 not read". Empty when there are none.
std::string not_seen(const Word& w, const Measured& m);

// Words on a backend. Launches of one class share what is prepared. One thread at a time.
class Runner {
 public:
  explicit Runner(replay::Backend& backend) : backend_(backend) {}
  // Makes frames and inputs of all classes now, which takes seconds; for this process and those that it forks.
  static Status warm_up();
  // Up to Frame::slots words of one class, to be run one by one.
  Status load(std::span<const Word> words);
  // device error: the machine stopped at it; the backend may be unusable then.
  Result<std::vector<WarpState>> run(size_t slot);
  static const std::vector<WarpState>& inputs(Class c);

 private:
  Result<const Objects*> objects() const;
  Status prepare(Class c, uint64_t target);
  Status load_at_address();

  replay::Backend& backend_;
  std::vector<Word> words_;  // in the slots
  std::optional<Class> prepared_;
  std::optional<replay::ModuleHandle> module_;
};

// One word on a runner, whatever comes of it; on the interpreter what it does not model is `refused`.
DirectResult run_framed(Runner& runner, const Word& w);

}  // namespace xtrace::values
