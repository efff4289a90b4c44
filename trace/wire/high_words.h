// What the low word of a global address says of its high word: where no two bytes of a launch's memory have the same low word, it says
// all, and `mem` records low words alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace xtrace::wire {

class HighWords {
 public:
  // Low words from `from` on, up to the next piece, have this high word.
  struct Piece {
    uint32_t from = 0, high = 0;
    bool operator==(const Piece&) const = default;
  };
  struct Range {
    uint64_t begin = 0, end = 0;   // end: behind the last byte
  };

  HighWords() = default;   // nothing is known
  // Nothing is known either where low words of the memory have several high words. Empty ranges count for nothing.
  static HighWords of(std::span<const Range> memory) {
    constexpr uint64_t window = uint64_t{1} << 32;
    std::vector<Range> parts;   // each with one high word
    for (Range r : memory) {
      if (r.begin < r.end && r.end - r.begin > window) return {};
      for (; r.begin < r.end; r.begin = parts.back().end)
        parts.push_back({r.begin, std::min(r.end, (r.begin / window + 1) * window)});
    }
    std::sort(parts.begin(), parts.end(), [](const Range& a, const Range& b) { return low(a.begin) < low(b.begin); });
    HighWords all;
    uint64_t end = 0;   // of the low words so far
    for (const Range& r : parts) {
      const Piece piece{low(r.begin), static_cast<uint32_t>(r.begin >> 32)};
      const bool same = !all.pieces_.empty() && all.pieces_.back().high == piece.high;
      if (!same && piece.from < end) return {};
      if (!same) all.pieces_.push_back(piece);
      end = std::max(end, piece.from + (r.end - r.begin));
    }
    return all;
  }
  static HighWords of_pieces(std::vector<Piece> pieces) {   // in order of `from`
    HighWords all;
    all.pieces_ = std::move(pieces);
    return all;
  }

  bool known() const { return !pieces_.empty(); }
  const std::vector<Piece>& pieces() const { return pieces_; }
  // Of an address outside of the memory: that of the memory in front of it, else of the first. 0 where nothing is known.
  uint32_t of_low(uint32_t word) const {
    if (!known()) return 0;
    const auto behind = std::upper_bound(pieces_.begin(), pieces_.end(), word, [](uint32_t w, const Piece& p) { return w < p.from; });
    return behind == pieces_.begin() ? behind->high : std::prev(behind)->high;
  }
  bool operator==(const HighWords&) const = default;

 private:
  static uint32_t low(uint64_t address) { return static_cast<uint32_t>(address); }
  std::vector<Piece> pieces_;
};

}  // namespace xtrace::wire
