// A set of registers by index, with the part of std::bitset's interface that is used, and runs of registers in few
// instructions: effects() of a library is a few runs a word.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace xtrace::sass {

class RegSet {
 public:
  constexpr RegSet() = default;
  constexpr explicit RegSet(uint64_t first) : words_{first} {}  // registers 0 .. 63, bit by bit
  static constexpr size_t size() { return 256; }

  constexpr bool test(size_t r) const { return words_[r >> 6] >> (r & 63) & 1; }
  constexpr bool operator[](size_t r) const { return test(r); }
  constexpr bool any() const { return (words_[0] | words_[1] | words_[2] | words_[3]) != 0; }
  constexpr bool none() const { return !any(); }
  constexpr size_t count() const {
    size_t n = 0;
    for (const uint64_t w : words_) n += static_cast<size_t>(std::popcount(w));
    return n;
  }
  constexpr RegSet& set(size_t r) {
    words_[r >> 6] |= uint64_t{1} << (r & 63);
    return *this;
  }
  constexpr void set_if(size_t r, bool present) { words_[r >> 6] |= uint64_t{1} << (r & 63) & -uint64_t{present}; }
  constexpr RegSet& set() {
    words_.fill(~uint64_t{0});
    return *this;
  }
  constexpr RegSet& reset(size_t r) {
    words_[r >> 6] &= ~(uint64_t{1} << (r & 63));
    return *this;
  }
  constexpr RegSet& reset() {
    words_.fill(0);
    return *this;
  }
  template <typename Each>
  constexpr void for_each(const Each& each) const {
    for (unsigned i = 0; i < words_.size(); ++i)
      for (uint64_t w = words_[i]; w != 0; w &= w - 1) each(64 * i + static_cast<unsigned>(std::countr_zero(w)));
  }
  // Registers first .. first + count - 1, with count < 64 and the last one below 256. No branch.
  constexpr void set_run(unsigned first, unsigned count) {
    const uint64_t run = (uint64_t{1} << count) - 1;
    words_[first >> 6] |= run << (first & 63);
    words_[((first >> 6) + 1) & 3] |= run >> 1 >> (63 - (first & 63));
  }

  constexpr RegSet& operator|=(const RegSet& o) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= o.words_[i];
    return *this;
  }
  constexpr RegSet& operator&=(const RegSet& o) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= o.words_[i];
    return *this;
  }
  constexpr RegSet operator~() const {
    RegSet r = *this;
    for (uint64_t& w : r.words_) w = ~w;
    return r;
  }
  friend constexpr RegSet operator|(RegSet a, const RegSet& b) { return a |= b; }
  friend constexpr RegSet operator&(RegSet a, const RegSet& b) { return a &= b; }
  constexpr bool operator==(const RegSet&) const = default;

 private:
  std::array<uint64_t, 4> words_{};
};

}  // namespace xtrace::sass
