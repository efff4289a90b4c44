// Broken records of full blocks under `mem` (one word for each lane group) are caught by the verifier.
#include <gtest/gtest.h>

#include <set>

#include "instrument/sass/encode.h"
#include "instrument/scratch.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test::sabotage_words_test {
namespace {

namespace enc = sass::enc;

constexpr uint16_t mov_imm = 0x802, mov_ur = 0x1c02, imad_imm = 0x824, lop3_ur = 0x1c12, vote = 0x806, voteu = 0x886, r2ur = 0x2ca,
                   p2r = 0x803, stg_uniform = 0x1986, uiadd3_imm = 0x890;
constexpr BitRange guard_field = bits(15, 12), lane_field = bits(31, 24), place_field = bits(63, 40), size_field = bits(75, 73);
constexpr BitRange imm_field = bits(63, 32), vote_field = bits(90, 87), ur_field = bits(37, 32), a_field = bits(31, 24), addend_field = bits(71, 64);

// "saxpy" has predicates left for lane groups, "transpose_tiled" none.
class SabotageWords : public testing::TestWithParam<const char*> {
 protected:
  virtual bool sectors() const { return false; }
  void SetUp() override {
    shape.block = {32, 8, 1};
    shape.low_words_tell = true;
    wire::SlotLayout layout = some_layout(shape, false, false);
    layout.lead_bytes = wire::mem_line;
    layout.whole_sectors = sectors();
    const Kernel kernel = fixture_kernel(GetParam());
    const auto splicer = Splicer::create(kernel.cubin, kernel.name, shape);
    ASSERT_TRUE(splicer) << splicer.error().to_string();
    const std::vector<bool> full(splicer->blocks().size(), true);
    const std::vector<uint64_t> executions(splicer->blocks().size(), 1);
    auto spliced = splicer->counted(full, executions).splice(plan_of(ProbeKind::mem), layout);
    ASSERT_TRUE(spliced) << spliced.error().to_string();
    mem = Case{kernel, std::move(*spliced), {}};
    mem.claims = mem.spliced.claims;
    ASSERT_TRUE(mem.verify().empty());
    for (uint32_t k = mem.claims.prologue_words; k < word_count(mem); ++k)
      if (test::inserted(mem, k)) inserted.push_back(k);
  }
  sass::RawInst word(uint32_t k) const { return word_at(mem, mem.spliced.cubin, k); }
  // Those that are part of a record: behind the rest of the prologue.
  std::vector<uint32_t> words(uint16_t opcode) const {
    std::vector<uint32_t> found;
    uint32_t begin = 0;
    for (uint32_t k : inserted)
      if (sass::opcode13(word(k)) == mov_imm && get_bits(word(k), imm_field) >> 28 == 6 && begin == 0) begin = k;
    for (uint32_t k : inserted)
      if (k >= begin && sass::opcode13(word(k)) == opcode) found.push_back(k);
    return found;
  }
  template <typename F>
  void caught(const std::vector<uint32_t>& which, F change, const std::string& rule = "address-recorded") {
    for (const uint32_t k : which) {
      const auto found = broken(mem, k, change);
      EXPECT_TRUE(found.contains(rule)) << "word " << k << ": " << testing::PrintToString(found);
    }
  }
  template <typename F>
  void misread(F change) {
    for (size_t k = 0; k < mem.claims.accesses.size(); ++k) {
      Case c = mem;
      if (!change(c.claims.accesses[k])) continue;
      EXPECT_TRUE(rules(c.verify()).contains("address-recorded")) << "access " << k;
    }
  }
  // Those of another access, which are others.
  uint32_t other_numbers(uint32_t numbers) const { return numbers == 0 ? 1 : 0; }
  bool has_groups() const { return !mem.claims.lane_groups.empty(); }
  LaunchShape shape = small_shape();
  Case mem;
  std::vector<uint32_t> inserted;
};

TEST_P(SabotageWords, OneForEachLaneGroup) {
  EXPECT_EQ(has_groups(), std::string(GetParam()) == "saxpy");
  EXPECT_EQ(mem.claims.lane_masks.size(), has_groups() ? 0u : 3u);
  size_t by_groups = 0;
  for (uint32_t k : words(stg_uniform)) by_groups += get_bits(word(k), lane_field) != 255;
  EXPECT_GE(by_groups, 1u);
}
TEST_P(SabotageWords, AnotherGroup) {
  std::vector<uint32_t> guarded;
  for (uint16_t op : {mov_imm, mov_ur, imad_imm})
    for (uint32_t k : words(op))
      if (get_bits(word(k), guard_field) != 7) guarded.push_back(k);
  EXPECT_EQ(!guarded.empty(), has_groups());
  caught(guarded, [](sass::RawInst& w) { set_bits(w, guard_field, 7); });
  caught(guarded, [](sass::RawInst& w) { set_bits(w, guard_field, get_bits(w, guard_field) ^ 8); });
  caught(words(lop3_ur), [](sass::RawInst& w) { set_bits(w, a_field, 255); });
  caught(words(lop3_ur), [this](sass::RawInst& w) {
    set_bits(w, a_field, mem.claims.lane_masks[get_bits(w, a_field) == mem.claims.lane_masks[0] ? 1 : 0]);
  });
}
TEST_P(SabotageWords, AnotherBlock) {
  caught(words(mov_imm), [](sass::RawInst& w) { set_bits(w, imm_field, get_bits(w, imm_field) ^ 1); });
}
TEST_P(SabotageWords, OtherLanes) {
  caught(words(vote), [](sass::RawInst& w) { set_bits(w, vote_field, get_bits(w, vote_field) ^ 8); });
  caught(words(voteu), [](sass::RawInst& w) { set_bits(w, vote_field, get_bits(w, vote_field) ^ 1); });
}
TEST_P(SabotageWords, AnotherRegister) {
  caught(words(r2ur), [](sass::RawInst& w) { set_bits(w, a_field, get_bits(w, a_field) ^ 1); });
  caught(words(r2ur), [](sass::RawInst& w) { set_bits(w, guard_field, get_bits(w, guard_field) ^ 8); });
  caught(words(mov_ur), [](sass::RawInst& w) { set_bits(w, ur_field, get_bits(w, ur_field) ^ 1); });
  caught(words(lop3_ur), [](sass::RawInst& w) { set_bits(w, ur_field, get_bits(w, ur_field) ^ 1); });
  caught(words(imad_imm), [](sass::RawInst& w) { set_bits(w, addend_field, get_bits(w, addend_field) ^ 1); });
  caught(words(imad_imm), [](sass::RawInst& w) { set_bits(w, imm_field, get_bits(w, imm_field) - 1); });
}
TEST_P(SabotageWords, AnotherPlace) {
  caught(words(stg_uniform), [](sass::RawInst& w) { set_bits(w, place_field, get_bits(w, place_field) ^ 64); });
  std::vector<uint32_t> by_groups;
  for (uint32_t k : words(stg_uniform))
    if (get_bits(word(k), lane_field) != 255) by_groups.push_back(k);
  caught(by_groups, [](sass::RawInst& w) { set_bits(w, lane_field, 255); });
  caught(words(p2r), [](sass::RawInst& w) { set_bits(w, imm_field, 0); });
}
TEST_P(SabotageWords, Gone) {
  caught(words(stg_uniform), [](sass::RawInst& w) {
    const sass::Control c = sass::get_control(w);
    w = enc::nop();
    sass::set_control(w, c);
  });
}
TEST_P(SabotageWords, DecodersTakeSomethingElse) {
  using wire::Access;
  misread([](Access& a) { return a.base != a.none && (a.base = 0, true); });
  misread([](Access& a) { return a.base != a.none && (a.base_of = a.base_of == Access::BaseOf::first_of_mask ? Access::BaseOf::first_of_warp : Access::BaseOf::first_of_mask, true); });
  misread([this](Access& a) { return a.numbers != a.none && (a.numbers = other_numbers(a.numbers), true); });
  misread([](Access& a) { return a.numbers != a.none && (a.numbers = Access::none, true); });
  misread([](Access& a) { return a.offset += 4, true; });
  misread([](Access& a) { return a.mask != a.none && (a.mask = 0, true); });
  misread([](Access& a) { return a.mask != a.none && (a.mask = Access::none, true); });
}
TEST_P(SabotageWords, NobodySawTheBlockFull) {
  Case c = mem;
  c.claims.full_blocks.assign(c.claims.full_blocks.size(), false);
  EXPECT_TRUE(rules(c.verify()).contains("address-recorded"));
}

// How long a record is.
TEST_P(SabotageWords, AnotherLength) {
  size_t moves = 0;
  for (uint32_t k : inserted) {
    if ((sass::opcode13(word(k)) & 0xfff) != uiadd3_imm) continue;
    ++moves;
    caught({k}, [](sass::RawInst& w) { set_bits(w, imm_field, get_bits(w, imm_field) + 32); }, "record-length");
    caught({k}, [](sass::RawInst& w) {
      const sass::Control c = sass::get_control(w);
      w = enc::nop();
      sass::set_control(w, c);
    }, "record-length");
  }
  EXPECT_GE(moves, 1u);
  size_t records = 0;
  for (size_t b = 0; b < mem.claims.record_bytes.size(); ++b) {
    const uint32_t bytes = mem.claims.record_bytes[b];
    records += bytes != 0;
    for (const uint32_t other : {bytes + 32, bytes - 32, bytes + 4, 0u}) {
      if (other == bytes) continue;
      Case c = mem;
      c.claims.record_bytes[b] = other;
      EXPECT_TRUE(rules(c.verify()).contains("record-length")) << "block " << b << ": " << other << " for " << bytes;
    }
  }
  EXPECT_EQ(records, moves);
  caught(words(stg_uniform), [](sass::RawInst& w) { set_bits(w, place_field, get_bits(w, place_field) + 4096); }, "record-length");
  Case c = mem;
  c.claims.record_bytes.clear();
  EXPECT_TRUE(rules(c.verify()).contains("record-length"));
}
// A store behind where the cursor has moved goes into the next record.
TEST_P(SabotageWords, BehindItsRecord) {
  uint32_t tried = 0;
  for (size_t k = 1; k < inserted.size(); ++k) {
    const uint32_t at = inserted[k];
    if (at != inserted[k - 1] + 1 || sass::opcode13(word(at - 1)) != stg_uniform || (sass::opcode13(word(at)) & 0xfff) != uiadd3_imm) continue;
    ++tried;
    Bytes cubin = mem.spliced.cubin;
    set_word(mem, cubin, at - 1, word(at));
    set_word(mem, cubin, at, word(at - 1));
    EXPECT_TRUE(rules(mem.verify(cubin)).contains("record-length")) << "word " << at;
  }
  EXPECT_EQ(tried != 0, std::string(GetParam()) == "transpose_tiled") << "in saxpy the kernel's own stand between";
}

// The same in whole sectors.
class SabotageSectorWords : public SabotageWords {
 protected:
  bool sectors() const override { return true; }
};
TEST_P(SabotageSectorWords, WriteOneInPart) {
  ASSERT_TRUE(mem.claims.sector_word);
  for (const uint32_t bytes : mem.claims.record_bytes) EXPECT_EQ(bytes % wire::sector_bytes, 0u);
  const auto stores = words(stg_uniform);
  EXPECT_GE(stores.size(), 1u);
  caught(stores, [](sass::RawInst& w) { set_bits(w, lane_field, 255); }, "sector-filled");
  caught(stores, [](sass::RawInst& w) { set_bits(w, place_field, get_bits(w, place_field) ^ 16); }, "sector-filled");
  for (const uint32_t k : inserted) {
    const sass::Effects fx = sass::effects(**sass::find_arch(90), word(k), 0);
    if (fx.mnemonic != "LOP3" || !fx.use.gpr.test(*mem.claims.sector_word)) continue;
    caught({k}, [](sass::RawInst& w) { set_bits(w, imm_field, 4); }, "sector-filled");
  }
  for (const uint32_t k : words(mov_imm))
    caught({k}, [this](sass::RawInst& w) { set_bits(w, bits(23, 16), *mem.claims.sector_word); }, "sector-filled");
}
// What is caught of them without sectors is caught here.
TEST_P(SabotageSectorWords, AnotherHead) {
  caught(words(mov_imm), [](sass::RawInst& w) { set_bits(w, imm_field, get_bits(w, imm_field) ^ 1); });
  caught(words(stg_uniform), [](sass::RawInst& w) { set_bits(w, place_field, get_bits(w, place_field) + 32); });
  caught(words(imad_imm), [](sass::RawInst& w) { set_bits(w, addend_field, get_bits(w, addend_field) ^ 1); });
  caught(words(mov_ur), [](sass::RawInst& w) { set_bits(w, ur_field, get_bits(w, ur_field) ^ 1); });
}
TEST_P(SabotageSectorWords, AnotherLength) {
  for (size_t b = 0; b < mem.claims.record_bytes.size(); ++b) {
    const uint32_t bytes = mem.claims.record_bytes[b];
    for (const uint32_t other : {bytes + 32, bytes + 16, bytes - 32}) {
      Case c = mem;
      c.claims.record_bytes[b] = other;
      EXPECT_TRUE(rules(c.verify()).contains("record-length")) << "block " << b << ": " << other << " for " << bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, SabotageWords, testing::Values("saxpy", "transpose_tiled"),
                         [](const auto& p) { return std::string(p.param); });
INSTANTIATE_TEST_SUITE_P(Kernels, SabotageSectorWords, testing::Values("saxpy", "transpose_tiled"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace xtrace::instrument::test::sabotage_words_test
