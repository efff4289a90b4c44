// Stretches of a block or of the kernel, as `pair` measures them: each record has both clocks. Records that were not begun
// (wire::no_begin) are none, and of records that begin alike the last one counts: in front of an EXIT that only some lanes take
// there is one, and one where the others go on.
#pragma once

#include "trace/warp_trace.h"

namespace xtrace::trace {

// Calls f with the cycles of each stretch of the warp. Below 2^32 of them.
template <typename F>
void for_each_stretch(const WarpTrace& t, F f) {
  const auto clock = [&t](uint32_t record, size_t k) { return static_cast<uint32_t>(t.clocks(record)[k]); };
  for (uint32_t i = 0; i < t.records(); ++i) {
    if (t.kind[i] != wire::RecordKind::pair) continue;
    const uint32_t begin = clock(i, 0);
    if (begin == wire::no_begin || (i + 1 < t.records() && clock(i + 1, 0) == begin)) continue;
    f(uint64_t{clock(i, 1) - begin});
  }
}

// Likewise the pairs of one instruction; of one that ends a block those whose lanes went on at once.
template <typename F>
void for_each_pair(const WarpTrace& t, F f) {
  using wire::RecordKind;
  for (uint32_t i = 0; i < t.records(); ++i) {
    const auto clocks = t.clocks(i);
    if (t.kind[i] == RecordKind::pair) {
      if (clocks[1] > clocks[0]) f(clocks[1] - clocks[0]);
    } else if (t.kind[i] == RecordKind::edge_begin && i + 1 < t.records() && t.kind[i + 1] == RecordKind::edge_end &&
               (t.mask[i] & t.mask[i + 1]) != 0) {
      if (t.clocks(i + 1)[0] > clocks[0]) f(t.clocks(i + 1)[0] - clocks[0]);
    }
  }
}

}  // namespace xtrace::trace
