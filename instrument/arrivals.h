// What a probe must wait for before it reads a register of the kernel: a forward analysis of results that are under way.
#pragma once

#include <array>
#include <vector>

#include "instrument/code.h"

namespace xtrace::instrument {

class Arrivals {
 public:
  explicit Arrivals(const Code& code);

  struct Needs {
    uint8_t wait_mask = 0;     // scoreboards
    unsigned cycles = 0;       // that must pass after that point: for results of fixed latency, and until a wait sees the scoreboards
    bool never = false;        // nothing says when it arrives (warpgroup products, results without a scoreboard that nobody has
                               // read yet), or nothing was ever written to it on any way there
  };
  enum class File : uint8_t { vector, uniform, predicate };
  // To read register `index` immediately in front of instruction i, or behind it where it falls through. In front of an
  // instruction that reads the register itself it is there when that instruction may issue, for instructions of its kind.
  Needs needs(InstIndex i, bool after, File file, uint8_t index) const;

 private:
  static constexpr unsigned registers = 256 + 64 + 8;   // vector, uniform, predicates
  struct State {
    std::array<uint8_t, registers> cycles{};
    std::array<uint8_t, registers> scoreboards{};   // bit mask of those that the result arrives with
    std::array<bool, registers> silent{}, written{};
    bool visited = false;
  };
  static unsigned number(File file, uint8_t index);
  State step(InstIndex i) const;

  const Code& code_;
  std::vector<State> in_;
  std::array<bool, registers> never_{};
};

}  // namespace xtrace::instrument
