// Broken stores of bases under `mem` (registers that are a base and a known number for each lane) are caught by the verifier.
#include <gtest/gtest.h>

#include <set>

#include "instrument/sass/encode.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

namespace enc = sass::enc;

constexpr BitRange data_field = bits(39, 32), place_field = bits(63, 40), guard_field = bits(15, 12), size_field = bits(75, 73);
constexpr uint16_t imad_imm = 0x824, stg_uniform = 0x1986;

class SabotageBases : public testing::Test {
 protected:
  void SetUp() override {
    splice_at({32, 8, 1}, "transpose");
    ASSERT_EQ(products.size(), 11u) << "four loads, four stores, a row of the tile, and a column in two blocks";
  }
  // In clusters the CTA's rank, and so the base of its shared memory, is not known.
  void splice_at(Dim3 block, const char* name, Dim3 cluster = {2, 1, 1}) {
    products.clear();
    stores.clear();
    shape.block = block;
    shape.cluster = cluster;
    shape.low_words_tell = true;
    wire::SlotLayout layout = some_layout(shape, false, false);
    layout.lead_bytes = wire::mem_line;
    const Kernel kernel = fixture_kernel(name);
    auto spliced = splice(kernel.cubin, kernel.name, shape, plan_of(ProbeKind::mem), layout);
    ASSERT_TRUE(spliced) << spliced.error().to_string();
    mem = Case{kernel, std::move(*spliced), {}};
    mem.claims = mem.spliced.claims;
    ASSERT_TRUE(mem.verify().empty());
    for (uint32_t k = mem.claims.prologue_words; k + 1 < word_count(mem); ++k) {
      if (!test::inserted(mem, k) || sass::opcode13(word(k)) != imad_imm) continue;
      if (sass::opcode13(word(k + 1)) != stg_uniform) continue;   // of the prologue
      products.push_back(k);
      stores.push_back(k + 1);
    }
  }
  sass::RawInst word(uint32_t k) const { return word_at(mem, mem.spliced.cubin, k); }
  template <typename F>
  void caught(const std::vector<uint32_t>& words, F change, const std::string& rule = "address-recorded") {
    for (const uint32_t k : words) {
      const auto found = broken(mem, k, change);
      EXPECT_TRUE(found.contains(rule)) << "word " << k << ": " << testing::PrintToString(found);
    }
  }
  LaunchShape shape = small_shape();
  Case mem;
  std::vector<uint32_t> products, stores;
};

TEST_F(SabotageBases, AnotherStride) {
  caught(products, [](sass::RawInst& w) { set_bits(w, bits(63, 32), get_bits(w, bits(63, 32)) - 1); });
}
TEST_F(SabotageBases, AnotherRegister) {
  caught(products, [](sass::RawInst& w) { set_bits(w, bits(71, 64), get_bits(w, bits(71, 64)) ^ 1); });
}
TEST_F(SabotageBases, NothingLeftOfTheLane) {
  caught(products, [](sass::RawInst& w) { set_bits(w, bits(31, 24), 255); });
}
TEST_F(SabotageBases, AnotherPlace) {
  caught(stores, [](sass::RawInst& w) { set_bits(w, place_field, get_bits(w, place_field) ^ 64); });
}
TEST_F(SabotageBases, AnotherWord) {
  caught(stores, [](sass::RawInst& w) { set_bits(w, data_field, get_bits(w, data_field) ^ 2); });
}
TEST_F(SabotageBases, ByOtherLanes) {
  caught(stores, [](sass::RawInst& w) { set_bits(w, guard_field, get_bits(w, guard_field) ^ 8); });
}
TEST_F(SabotageBases, HalfOfAPair) {
  std::vector<uint32_t> pairs;
  for (const uint32_t k : stores)
    if (get_bits(word(k), size_field) == 5) pairs.push_back(k);
  EXPECT_GE(pairs.size(), 6u) << "lanes and base in one store";
  caught(pairs, [](sass::RawInst& w) { set_bits(w, size_field, 4); });
}
TEST_F(SabotageBases, Gone) {
  caught(stores, [](sass::RawInst& w) {
    const sass::Control c = sass::get_control(w);
    w = enc::nop();
    sass::set_control(w, c);
  });
}
// Rows of 16 threads: two of them in a warp. What picks the row, or the place in it, stands in front of the product.
TEST_F(SabotageBases, AnotherRow) {
  splice_at({16, 16, 1}, "sgemm");
  std::vector<uint32_t> picks;
  for (const uint32_t k : products)
    if (const uint16_t op = sass::opcode13(word(k - 1)); op == 0x812 || op == 0x819) picks.push_back(k - 1);
  EXPECT_GE(picks.size(), 4u) << "loads of a row and of a column of the tiles";
  caught(picks, [](sass::RawInst& w) { set_bits(w, bits(63, 32), get_bits(w, bits(63, 32)) ^ 1); });
}
// Rows of 12 threads: no product takes away what lanes differ by, and the first lane's word goes out by way of a uniform register.
TEST_F(SabotageBases, OfTheFirstLane) {
  using wire::Access;
  constexpr uint16_t r2ur = 0x2ca, mov_ur = 0x1c02;
  splice_at({12, 8, 1}, "sgemm");
  std::vector<uint32_t> takes, moves;
  for (uint32_t k = mem.claims.prologue_words; k + 1 < word_count(mem); ++k) {
    if (!test::inserted(mem, k) || sass::opcode13(word(k)) != r2ur) continue;
    uint32_t next = k + 1;
    while (test::inserted(mem, next) && sass::opcode13(word(next)) != mov_ur) ++next;
    if (!test::inserted(mem, next) || sass::opcode13(word(next + 1)) != stg_uniform) continue;   // of the prologue
    takes.push_back(k);
    moves.push_back(next);
  }
  ASSERT_GE(takes.size(), 2u);
  caught(takes, [](sass::RawInst& w) { set_bits(w, bits(31, 24), get_bits(w, bits(31, 24)) ^ 1); });
  caught(takes, [](sass::RawInst& w) { set_bits(w, guard_field, get_bits(w, guard_field) ^ 8); });
  caught(moves, [](sass::RawInst& w) { set_bits(w, bits(37, 32), get_bits(w, bits(37, 32)) ^ 1); });
  size_t bases = 0;
  for (size_t k = 0; k < mem.claims.accesses.size(); ++k) {
    const auto misread = [&](auto change) {
      Case c = mem;
      change(c.claims.accesses[k]);
      EXPECT_TRUE(rules(c.verify()).contains("address-recorded")) << "access " << k;
    };
    const Access& a = mem.claims.accesses[k];
    misread([](Access& w) { w.offset += 4; });
    if (a.numbers == a.none) continue;
    misread([](Access& w) { w.numbers = w.numbers == 0 ? 1 : 0; });
    misread([](Access& w) { w.numbers = Access::none; });
    if (a.base_of == Access::BaseOf::first_of_warp) continue;
    ++bases;
    misread([](Access& w) { w.base_of = Access::BaseOf::first_of_warp; });
    misread([](Access& w) { w.base = Access::none; });
  }
  EXPECT_GE(bases, 2u);
}
// Without clusters nothing is recorded of addresses in shared memory.
TEST_F(SabotageBases, NothingRecorded) {
  using wire::Access;
  splice_at({32, 8, 1}, "transpose", {0, 0, 0});
  EXPECT_EQ(products.size(), 8u) << "four loads, four stores";
  size_t known = 0;
  for (size_t k = 0; k < mem.claims.accesses.size(); ++k) {
    const Access& a = mem.claims.accesses[k];
    if (a.numbers == a.none || a.base != a.none) continue;
    ++known;
    EXPECT_EQ(a.space, Access::Space::shared);
    const auto misread = [&](auto change) {
      Case c = mem;
      change(c.claims.accesses[k]);
      EXPECT_TRUE(rules(c.verify()).contains("address-recorded")) << "access " << k;
    };
    misread([](Access& w) { w.numbers = w.numbers == 0 ? 1 : 0; });
    misread([](Access& w) { w.numbers = Access::none; });
    misread([](Access& w) { w.base = 8; });
    misread([](Access& w) { w.offset += 4; });
    Case c = mem;   // in a cluster the same code proves less
    c.claims.launch.cluster = {2, 1, 1};
    EXPECT_TRUE(rules(c.verify()).contains("address-recorded"));
  }
  EXPECT_GE(known, 8u) << "four stores of a row, four loads of a column";
}
// In another shape of CTA the same code proves nothing: the column that should be there is missed.
TEST_F(SabotageBases, AnotherCta) {
  Case c = mem;
  c.claims.launch.block = {24, 16, 1};
  size_t missed = 0;
  for (const Violation& v : c.verify()) missed += v.rule == "address-recorded";
  EXPECT_GE(missed, 16u);
}

}  // namespace
}  // namespace xtrace::instrument::test
