// Words that some lanes store and others not: where records have them, and what the verifier says when they are broken.
#include <gtest/gtest.h>

#include <algorithm>

#include "instrument/sass/encode.h"
#include "tests/unit/instrument/sabotage.h"

namespace xtrace::instrument::test {
namespace lane_words {
namespace {

std::vector<Case> by_lanes() {
  std::vector<Case> cases;
  for (const Kernel& k : fixture_kernels("sm_90"))
    if (auto c = short_block_case(k, small_shape()); c && c->claims.odd_lanes) cases.push_back(std::move(*c));
  return cases;
}

constexpr BitRange lanes_of_store = bits(31, 24), data_of_store = bits(39, 32), guard = bits(15, 12), result = bits(23, 16), immediate = bits(63, 32);
bool is_inserted(const Case& c, uint32_t k) { return c.claims.original_of_new[k] == wire::AddressMap::inserted; }
bool is_guarded_by(const sass::RawInst& w, uint8_t predicate) { return (get_bits(w, guard) & 7) == predicate; }

template <typename F>
std::vector<uint32_t> inserted_words(const Case& c, F test) {
  std::vector<uint32_t> found;
  for (uint32_t k = 0; k < word_count(c); ++k)
    if (is_inserted(c, k) && test(word_at(c, c.spliced.cubin, k), effects_at(c, k))) found.push_back(k);
  return found;
}
std::vector<uint32_t> stores_of(const Case& c) {
  return inserted_words(c, [](const sass::RawInst& w, const sass::Effects&) { return sass::opcode13(w) == 0x1986 && get_bits(w, lanes_of_store) != 255; });
}
std::vector<uint32_t> making(const Case& c, uint8_t predicate) {
  return inserted_words(c, [&](const sass::RawInst&, const sass::Effects& fx) { return fx.mnemonic == "LOP3" && fx.def.pred == 1u << predicate; });
}
void leave_out(sass::RawInst& w) {
  sass::Control kept = sass::get_control(w);
  w = sass::enc::nop();
  kept.read_barrier = kept.write_barrier = sass::Control::no_barrier;
  sass::set_control(w, kept);
}

// A store by lanes takes two cycles of the memory pipe, as those of one word do.
TEST(LaneWords, OfFixtures) {
  size_t pairs = 0, places = 0;
  for (const Case& c : by_lanes()) {
    EXPECT_EQ(making(c, *c.claims.odd_lanes).size(), 1u) << c.kernel.name;
    places += c.claims.word_place.has_value();
    for (const uint32_t k : stores_of(c)) {
      const sass::RawInst w = word_at(c, c.spliced.cubin, k);
      EXPECT_EQ(get_bits(w, bits(75, 73)), 4u) << c.kernel.name << " 32 bits";
      pairs += c.claims.word_place && get_bits(w, lanes_of_store) == *c.claims.word_place;
    }
  }
  EXPECT_GE(pairs, 3u);
  EXPECT_GE(places, 3u);
}

// They need a warp of eight lanes.
TEST(LaneWords, NotOfWarpsOfFewLanes) {
  size_t eight = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    LaunchShape shape = small_shape();
    const auto with_last = [&](uint32_t lanes) {
      shape.block = {32 + lanes, 1, 1};
      return short_block_case(k, shape);
    };
    const auto enough = with_last(8), few = with_last(7);
    if (!enough || !few) continue;
    eight += enough->claims.odd_lanes.has_value();
    EXPECT_FALSE(few->claims.odd_lanes) << k.name;
  }
  EXPECT_GE(eight, 5u);
}

TEST(LaneWords, Sabotage) {
  size_t halves = 0;
  for (const Case& c : by_lanes()) {
    const auto found = [&](uint32_t k, auto change) { return broken(c, k, change).contains("stored-by-lanes"); };
    const uint8_t odd = *c.claims.odd_lanes;
    const uint32_t made = making(c, odd).at(0);
    EXPECT_TRUE(found(made, leave_out)) << c.kernel.name;
    EXPECT_TRUE(found(made, [](sass::RawInst& w) { set_bits(w, immediate, 16); }));                                   // other lanes
    EXPECT_TRUE(found(made, [](sass::RawInst& w) { set_bits(w, guard, 0); }));
    EXPECT_TRUE(found(made, [](sass::RawInst& w) { set_bits(w, bits(90, 87), 7); }));                                 // of all lanes
    EXPECT_TRUE(found(made, [](sass::RawInst& w) { set_bits(w, bits(83, 81), (get_bits(w, bits(83, 81)) + 1) % 7); }));   // another predicate
    if (c.claims.word_place) {
      EXPECT_TRUE(found(made, [](sass::RawInst& w) { set_bits(w, result, 255); }));
    }
    for (const uint32_t k : stores_of(c)) {
      const sass::RawInst w = word_at(c, c.spliced.cubin, k);
      const auto data = static_cast<uint8_t>(get_bits(w, data_of_store));
      const std::vector<uint32_t> parts = inserted_words(c, [&](const sass::RawInst& x, const sass::Effects& fx) { return fx.def.gpr.test(data) && is_guarded_by(x, odd); });
      if (parts.empty()) continue;   // by lane groups
      if (c.claims.word_place && get_bits(w, lanes_of_store) == *c.claims.word_place) {
        EXPECT_TRUE(found(k, [](sass::RawInst& s) { set_bits(s, bits(75, 73), 5); }));   // 64 bits
        EXPECT_TRUE(found(k, [](sass::RawInst& s) { set_bits(s, guard, 0); }));
        EXPECT_TRUE(found(k, [&](sass::RawInst& s) { set_bits(s, lanes_of_store, data); }));
      }
      const auto last = std::find_if(parts.rbegin(), parts.rend(), [&](uint32_t part) { return part < k; });
      ASSERT_NE(last, parts.rend()) << c.kernel.name;
      EXPECT_TRUE(found(*last, leave_out)) << c.kernel.name;                                             // the second word is missing
      EXPECT_TRUE(found(*last, [](sass::RawInst& s) { set_bits(s, guard, 7); })) << c.kernel.name;       // the first is
      ++halves;
    }
    for (const uint32_t k : inserted_words(c, [](const sass::RawInst&, const sass::Effects& fx) { return fx.mnemonic == "SEL"; })) {
      EXPECT_TRUE(found(k, [](sass::RawInst& w) { set_bits(w, bit(90), 0); })) << c.kernel.name;         // the other lanes
      EXPECT_TRUE(found(k, [](sass::RawInst& w) { set_bits(w, immediate, 8); })) << c.kernel.name;
    }
  }
  EXPECT_GE(halves, 3u);
}

// Nobody else may write the predicates or the place, the kernel neither.
TEST(LaneWords, OtherClaims) {
  size_t seen = 0;
  for (const Case& c : by_lanes()) {
    Case wrong = c;
    wrong.claims.odd_lanes = 0;   // the kernel's own
    EXPECT_TRUE(rules(wrong.verify()).contains("stored-by-lanes")) << c.kernel.name;
    if (!c.claims.word_place) continue;
    wrong = c;
    wrong.claims.word_place = 0;
    EXPECT_TRUE(rules(wrong.verify()).contains("stored-by-lanes")) << c.kernel.name;
    ++seen;
  }
  EXPECT_GE(seen, 3u);
}

}  // namespace
}  // namespace lane_words
}  // namespace xtrace::instrument::test
