#include "instrument/outstanding.h"

#include <deque>

namespace xtrace::instrument {
namespace {

constexpr uint32_t memory_wait = 400, other_wait = 40;   // [guess]

bool loads_memory(const sass::Effects& fx) {
  return (fx.kind == sass::MemKind::load || fx.kind == sass::MemKind::atomic) && fx.space != sass::MemSpace::constant;
}

}  // namespace

Outstanding::Outstanding(const Code& code) : in_(code.insts.size()) {
  std::deque<InstIndex> work;
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (code.reachable[i]) work.push_back(i);
  while (!work.empty()) {
    const InstIndex i = work.front();
    work.pop_front();
    const sass::Control c = sass::get_control(code.insts[i].raw);
    Set set = in_[i];
    set.memory &= static_cast<uint8_t>(~c.wait_mask);
    set.other &= static_cast<uint8_t>(~c.wait_mask);
    if (c.write_barrier < 6) (loads_memory(code.insts[i].fx) ? set.memory : set.other) |= static_cast<uint8_t>(1u << c.write_barrier);
    if (c.read_barrier < 6) set.other |= static_cast<uint8_t>(1u << c.read_barrier);
    for (InstIndex s : code.successors(i)) {
      const Set merged{static_cast<uint8_t>(in_[s].memory | set.memory), static_cast<uint8_t>(in_[s].other | set.other)};
      if (merged == in_[s]) continue;
      in_[s] = merged;
      work.push_back(s);
    }
  }
}

uint32_t Outstanding::wait_cycles(InstIndex i, unsigned scoreboard) const {
  if (in_[i].memory >> scoreboard & 1) return memory_wait;
  return in_[i].other >> scoreboard & 1 ? other_wait : 0;
}

}  // namespace xtrace::instrument
