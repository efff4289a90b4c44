#include "replay/interp/value/mbarrier.h"

#include "base/bits.h"

namespace xtrace::replay::interp::value {
namespace {

constexpr int64_t most = (1 << 20) - 1;  // [PTX ISA: ranges of the counts]
constexpr uint64_t count_mask = most;

uint64_t encoded(int64_t count) { return static_cast<uint64_t>(-count) & count_mask; }
int64_t count(uint64_t field) { return static_cast<int64_t>(-field & count_mask); }

}  // namespace

bool change(uint64_t& state, const MbarrierChange& by) {
  int64_t pending = count(state >> 43) - by.arrivals, expected = count(state >> 1) - by.dropped;
  const int64_t bytes = by.bytes - sign_extend(state >> 21 & 0x1fffff, 21);
  if (pending < 0 || pending > most || expected < 0 || bytes < -most || bytes > most) return false;
  bool odd = parity(state);
  if (pending == 0 && bytes == 0) {
    odd = !odd;
    pending = expected;
  }
  state = uint64_t{odd} << 63 | encoded(pending) << 43 | (static_cast<uint64_t>(-bytes) & 0x1fffff) << 21 |
          encoded(expected) << 1;
  return true;
}

}  // namespace xtrace::replay::interp::value
