#include "instrument/read_barriers.h"

#include <algorithm>
#include <array>

#include "instrument/outstanding.h"

namespace xtrace::instrument {
namespace {

using sass::RegSet;

constexpr unsigned scoreboards = 6;
using Cost = std::array<uint32_t, scoreboards>;   // cycles, about

constexpr uint32_t read_cycles = 20;                     // until a store has read its registers [guess]
constexpr unsigned farthest = 96;                        // instructions looked at behind a store, on each path
constexpr unsigned most_paths = 8;

class BarrierChooser {
 public:
  BarrierChooser(const Code& code, uint8_t usable, Insertions& insertions)
      : code_(code), usable_(usable), out_(insertions), outstanding_(code) {
    for (const auto* sequences : {&out_.before, &out_.after})
      for (const Sequence& seq : *sequences) {
        auto& defs = defs_[sequences == &out_.after].emplace_back();
        for (const sass::RawInst& word : seq) defs.push_back(sass::effects(*code_.arch, word, 0).def.gpr);
      }
  }

  void run() {
    for (InstIndex i = 0; i < code_.insts.size(); ++i)
      for (Sequence* seq : {&out_.before[i], &out_.after[i]})
        for (size_t k = 0; k < seq->size(); ++k) choose(i, *seq, k);
  }

 private:
  struct Walk {
    RegSet registers;
    Cost cost{};
    unsigned paths = 1;
  };

  void choose(InstIndex i, Sequence& seq, size_t k) {
    const sass::Effects fx = sass::effects(*code_.arch, seq[k], 0);
    sass::Control c = sass::get_control(seq[k]);
    if (fx.kind != sass::MemKind::store || c.read_barrier >= scoreboards) return;
    Walk w{.registers = fx.use.gpr};
    const bool before = &seq == &out_.before[i];
    follow(w, i, before ? 0 : 2, k + 1, usable_, 0, 0);
    uint8_t best = c.read_barrier;
    for (uint8_t sb = 0; sb < scoreboards; ++sb)
      if (usable_ >> sb & 1 && w.cost[sb] < w.cost[best]) best = sb;
    c.read_barrier = best;
    sass::set_control(seq[k], c);
  }

  // One word on a path: true when the path is at its end.
  bool pass(Walk& w, InstIndex i, const RegSet& defs, const sass::Control& c, uint8_t& open, uint32_t cycles) const {
    const uint32_t early = cycles < read_cycles ? read_cycles - cycles : 0;
    const bool writes = (defs & w.registers).any();
    for (unsigned sb = 0; sb < scoreboards; ++sb) {
      if (!(open >> sb & 1)) continue;
      if (c.wait_mask >> sb & 1) {
        w.cost[sb] = std::max(w.cost[sb], early);   // the kernel waits here anyway
        open &= static_cast<uint8_t>(~(1u << sb));
      } else if (writes) {
        w.cost[sb] = std::max(w.cost[sb], early + outstanding_.wait_cycles(i, sb));
      }
    }
    return writes || open == 0;
  }

  // From word k of part `part` of instruction i: 0 before it, 1 itself, 2 after it.
  void follow(Walk& w, InstIndex i, unsigned part, size_t k, uint8_t open, uint32_t cycles, unsigned far) const {
    for (;; ++far) {
      for (; part < 3; ++part, k = 0) {
        if (part == 1) {
          const sass::Control c = sass::get_control(code_.insts[i].raw);
          if (pass(w, i, code_.insts[i].fx.def.gpr, c, open, cycles)) return;
          cycles += c.stall;
          continue;
        }
        const Sequence& seq = part == 0 ? out_.before[i] : out_.after[i];
        for (; k < seq.size(); ++k) {
          const sass::Control c = sass::get_control(seq[k]);
          if (pass(w, i, defs_[part / 2][i][k], c, open, cycles)) return;
          cycles += c.stall;
        }
      }
      const std::vector<InstIndex> next = code_.successors(i);
      if (next.empty() || far >= farthest) return;
      for (size_t n = 1; n < next.size() && w.paths < most_paths; ++n) {
        ++w.paths;
        follow(w, next[n], 0, 0, open, cycles, far + 1);
      }
      i = next[0];
      part = 0;
    }
  }

  const Code& code_;
  uint8_t usable_;
  Insertions& out_;
  const Outstanding outstanding_;
  std::array<std::vector<std::vector<RegSet>>, 2> defs_;   // of what stands before and after each instruction, word by word
};

}  // namespace

void choose_read_barriers(const Code& code, uint8_t usable, Insertions& insertions) {
  BarrierChooser(code, usable, insertions).run();
}

}  // namespace xtrace::instrument
