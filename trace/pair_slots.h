// Records of `pair` where they lie, in a plain slot without a head: the same cycles as decode() with for_each_pair() or
// for_each_stretch() gives, without a trace in between. One site is replayed several times, and of each replay sums are wanted.
#pragma once

#include <cstring>

#include "base/bytes.h"
#include "trace/wire/record.h"

namespace xtrace::trace {

enum class PairsOf : uint8_t { instruction, stretch };

// Calls f with the cycles of each pair (stretch) of the slot; false when something in it is no such record, or no zero ends them.
template <typename F>
bool for_each_pair_in(ByteView slot, bool short_pairs, PairsOf what, F f) {
  using wire::RecordKind;
  const uint64_t bytes = short_pairs ? 8 : wire::chunk_bytes;
  const auto word = [&](uint64_t at, unsigned k) {
    uint32_t w;
    std::memcpy(&w, slot.data() + at + sizeof w * k, sizeof w);
    return w;
  };
  wire::Chunk begun{};   // the first half of an edge, if the record before this is one
  for (uint64_t at = 0; at + bytes <= slot.size(); at += bytes) {
    const uint32_t first = word(at, 0);
    if (first == 0) return true;
    const RecordKind kind = short_pairs ? RecordKind::pair : wire::kind_of(first);
    if (kind == RecordKind::pair) {
      const uint32_t before = word(at, short_pairs ? 0 : 2), after = word(at, short_pairs ? 1 : 3);
      const bool again = what == PairsOf::stretch && at + 2 * bytes <= slot.size() && word(at + bytes, 0) != 0 &&
                         word(at + bytes, short_pairs ? 0 : 2) == before;
      const uint32_t cycles = after - before;
      if (what == PairsOf::stretch ? before != wire::no_begin && !again : cycles - 1 < 0x7fffffffu) f(uint64_t{cycles});
    } else if (kind == RecordKind::edge_begin) {
      std::memcpy(&begun, slot.data() + at, sizeof begun);
      continue;
    } else if (kind == RecordKind::edge_end) {
      const uint64_t from = uint64_t{begun.word[3]} << 32 | begun.word[2], to = uint64_t{word(at, 3)} << 32 | word(at, 2);
      if ((begun.word[1] & word(at, 1)) != 0 && to > from) f(to - from);
    } else {
      return false;
    }
    begun = {};
  }
  return false;
}

}  // namespace xtrace::trace
