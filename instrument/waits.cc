#include "instrument/waits.h"

#include <array>
#include <deque>

namespace xtrace::instrument {
namespace {

using sass::RegSet;
using Pending = std::array<RegSet, 6>;   // by scoreboard: registers that a probe's store has not read yet

// Scoreboards that a word with these definitions must wait for; what it waits for is done with.
uint8_t pass(Pending& pending, const RegSet& defs, uint8_t waits) {
  uint8_t needed = 0;
  for (unsigned sb = 0; sb < 6; ++sb) {
    if ((pending[sb] & defs).any()) needed |= static_cast<uint8_t>(1u << sb);
    if ((needed | waits) >> sb & 1) pending[sb].reset();
  }
  return needed;
}

class Waits {
 public:
  Waits(const Code& code, Insertions& insertions) : code_(code), out_(insertions), in_(code.insts.size()) {}

  void run(Sequence& entry) {
    words(entry, in_[0], true);
    std::deque<InstIndex> work;
    std::vector<bool> queued(code_.insts.size(), true);
    for (InstIndex i = 0; i < code_.insts.size(); ++i)
      if (code_.reachable[i]) work.push_back(i);
    while (!work.empty()) {
      const InstIndex i = work.front();
      work.pop_front();
      queued[i] = false;
      const Out out = step(i, false);
      const sass::Effects& fx = code_.insts[i].fx;
      for (InstIndex s : code_.successors(i)) {
        // Who jumps does not pass the words behind the instruction.
        const bool falls = s == i + 1 && fx.falls_through, jumps = !falls || (fx.target && *fx.target == code_.pc(s));
        bool changed = false;
        const auto join = [&](const Pending& from) {
          for (unsigned sb = 0; sb < 6; ++sb) {
            changed |= (from[sb] & ~in_[s][sb]).any();
            in_[s][sb] |= from[sb];
          }
        };
        if (falls) join(out.falling);
        if (jumps) join(out.jumping);
        if (changed && !queued[s]) {
          queued[s] = true;
          work.push_back(s);
        }
      }
    }
    for (InstIndex i = 0; i < code_.insts.size(); ++i)
      if (code_.reachable[i]) step(i, true);
  }

 private:
  struct Out {
    Pending jumping, falling;
  };
  // From the label of instruction i to the end of the instruction, and to behind the words behind it.
  Out step(InstIndex i, bool apply) {
    Pending p = in_[i];
    words(out_.before[i], p, apply);
    const uint8_t waits = sass::get_control(code_.insts[i].raw).wait_mask | out_.wait[i];
    const uint8_t needed = pass(p, code_.insts[i].fx.def.gpr, waits);
    if (apply) out_.wait[i] |= needed;
    const Pending jumping = p;
    words(out_.after[i], p, apply);
    return {jumping, p};
  }

  void words(Sequence& seq, Pending& p, bool apply) {
    for (sass::RawInst& w : seq) {
      const sass::Effects fx = sass::effects(*code_.arch, w, 0);
      sass::Control c = sass::get_control(w);
      const uint8_t needed = pass(p, fx.def.gpr, c.wait_mask);
      if (apply && needed != 0) {
        c.wait_mask |= needed;
        sass::set_control(w, c);
      }
      const bool stores = fx.kind == sass::MemKind::store || fx.kind == sass::MemKind::reduction;
      if (stores && c.read_barrier < 6) p[c.read_barrier] |= fx.use.gpr;
    }
  }

  const Code& code_;
  Insertions& out_;
  std::vector<Pending> in_;
};

}  // namespace

void add_waits(const Code& code, Insertions& insertions, Sequence& entry) { Waits(code, insertions).run(entry); }

}  // namespace xtrace::instrument
