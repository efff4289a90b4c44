// Broken stores of addresses (one word a lane) are caught by the verifier.
#include <gtest/gtest.h>

#include <set>

#include "instrument/sass/encode.h"
#include "tests/unit/instrument/sabotage.h"

namespace xtrace::instrument::test {
namespace {

namespace enc = sass::enc;

// A splice under `mem` that the verifier takes.
void make_mem_case(const Kernel& kernel, Case& made) {
  wire::SlotLayout layout = some_layout(small_shape(), false, false);
  layout.lead_bytes = wire::mem_line;
  auto spliced = splice(kernel.cubin, kernel.name, small_shape(), plan_of(ProbeKind::mem), layout);
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  made = Case{kernel, std::move(*spliced), {}};
  made.claims = made.spliced.claims;
  ASSERT_TRUE(made.verify().empty());
}

class SabotageAddresses : public testing::Test {
 protected:
  void SetUp() override {
    kernel = fixture_kernel("sgemm");
    ASSERT_NO_FATAL_FAILURE(make_mem_case(kernel, mem));
  }
  // A store of a register of the kernel, one word a lane.
  bool is_column(uint32_t k) {
    const sass::RawInst w = word_at(mem, mem.spliced.cubin, k);
    return inserted(mem, k) && sass::opcode13(w) == 0x1986 && get_bits(w, bits(31, 24)) != 255;
  }
  template <typename F>
  void all_columns(const std::string& rule, F change) {
    size_t tried = 0;
    for (uint32_t k = mem.claims.prologue_words; k < word_count(mem); ++k) {
      if (!is_column(k)) continue;
      ++tried;
      const auto found = broken(mem, k, change);
      EXPECT_TRUE(found.contains(rule)) << "word " << k << ": " << testing::PrintToString(found);
    }
    EXPECT_GT(tried, 10u);
  }
  Kernel kernel;
  Case mem;
};

// A column's place goes by 4 * lane. In spmv no register is free for it in the whole kernel: each block with columns makes it, once.
TEST(SabotageLanes, AnotherNumberThanTheLanes) {
  const Kernel k = fixture_kernel("spmv_csr");
  Case c;
  ASSERT_NO_FATAL_FAILURE(make_mem_case(k, c));
  size_t loads = 0, shifts = 0, columns = 0;
  for (uint32_t w = c.claims.prologue_words; w < word_count(c); ++w) {
    const sass::RawInst word = word_at(c, c.spliced.cubin, w);
    if (!inserted(c, w)) continue;
    columns += sass::opcode13(word) == 0x1986 && get_bits(word, bits(31, 24)) != 255;
    if (sass::opcode13(word) == 0x919 && get_bits(word, bits(79, 72)) == 0) {   // S2R LANEID
      ++loads;
      EXPECT_TRUE(broken(c, w, [](sass::RawInst& x) { set_bits(x, bits(79, 72), 33); }).contains("address-recorded")) << "TID.X, word " << w;
    } else if (sass::opcode13(word) == 0x819 && get_bits(word, bits(80, 73)) == 3) {   // SHF.L
      ++shifts;
      EXPECT_TRUE(broken(c, w, [](sass::RawInst& x) { set_bits(x, bits(39, 32), 3); }).contains("address-recorded")) << "8 * lane, word " << w;
    }
  }
  EXPECT_GT(columns, 30u);
  EXPECT_LT(4 * shifts, columns) << "for several columns at once";
  EXPECT_GE(loads, shifts);   // and those that a base is made by
}

// [R0.X4+0x10] in shared memory of older code: decoders multiply.
TEST(ScaledAddresses, TakeTheirScale) {
  for (const Kernel& k : fixture_kernels("sm_80")) {
    if (k.name.find("transpose_tiled") == std::string::npos) continue;
    Case c;
    ASSERT_NO_FATAL_FAILURE(make_mem_case(k, c));
    size_t scaled = 0;
    for (wire::Access& a : c.claims.accesses) {
      scaled += a.scale != 0;
      ++a.scale;
      EXPECT_TRUE(rules(c.verify()).contains("address-recorded"));
      --a.scale;
    }
    EXPECT_GT(scaled, 0u);
    return;
  }
  FAIL() << "no such kernel";
}

TEST_F(SabotageAddresses, DropAStore) {
  all_columns("address-recorded", [](sass::RawInst& w) {
    const sass::Control c = sass::get_control(w);
    w = enc::nop();
    sass::set_control(w, c);
  });
}
TEST_F(SabotageAddresses, StoreAnotherRegister) {
  all_columns("address-recorded", [](sass::RawInst& w) { set_bits(w, bits(39, 32), get_bits(w, bits(39, 32)) ^ 1); });
}
TEST_F(SabotageAddresses, StoreToAnotherPlace) {
  all_columns("address-recorded", [](sass::RawInst& w) { set_bits(w, bits(63, 40), get_bits(w, bits(63, 40)) + 128); });
}
TEST_F(SabotageAddresses, StoreByTheGuardOfTheKernel) {
  all_columns("address-recorded", [](sass::RawInst& w) { set_bits(w, bits(15, 12), 0); });
}
TEST_F(SabotageAddresses, StoreWithoutAReadBarrier) {
  all_columns("store-overwritten", [](sass::RawInst& w) {
    change_control(w, [](sass::Control& c) { c.read_barrier = sass::Control::no_barrier; });
  });
}
TEST_F(SabotageAddresses, StoreBeforeTheAddressHasArrived) {
  // Where an access waits for its address (a pointer that was loaded), what takes the address must: it comes first.
  size_t caught = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    wire::SlotLayout layout = some_layout(small_shape(), false, false);
    layout.lead_bytes = wire::mem_line;
    auto spliced = splice(k.cubin, k.name, small_shape(), plan_of(ProbeKind::mem), layout);
    if (!spliced) continue;
    mem = Case{k, std::move(*spliced), {}};
    mem.claims = mem.spliced.claims;
    for (uint32_t w = mem.claims.prologue_words; w < word_count(mem); ++w) {
      const sass::RawInst& word = word_at(mem, mem.spliced.cubin, w);
      const bool base = inserted(mem, w) && sass::opcode13(word) == 0x824;   // IMAD: less the lane's part
      if ((!is_column(w) && !base) || sass::get_control(word).wait_mask == 0) continue;
      caught += broken(mem, w, [](sass::RawInst& x) {
                  change_control(x, [](sass::Control& c) { c.wait_mask = 0; });
                }).contains("result-too-early");
    }
  }
  EXPECT_GT(caught, 0u);
}
TEST_F(SabotageAddresses, ChangeTheRegisterBetweenStoreAndAccess) {
  // The words of the record's head, sent to an address register that is stored before them, in front of its second access.
  size_t caught = 0;
  for (uint32_t k = mem.claims.prologue_words; k + 1 < word_count(mem); ++k) {
    if (!is_column(k) || !is_column(k + 1)) continue;
    const auto reg = static_cast<uint8_t>(get_bits(word_at(mem, mem.spliced.cubin, k), bits(39, 32)));
    caught += broken(mem, k + 1, [&](sass::RawInst& w) {
                const sass::Control c = sass::get_control(w);
                w = enc::mov_imm(enc::Gpr{reg}, 0);
                sass::set_control(w, c);
              }).contains("register-clobber");
  }
  EXPECT_GT(caught, 0u);
}
TEST_F(SabotageAddresses, RecordOtherLanesOrAnotherUniformRegister) {
  // Guarded accesses, and addresses with a uniform part.
  size_t votes = 0, moves = 0;
  for (const char* name : {"transpose", "reduce"}) {
    const Kernel k = fixture_kernel(name);
    wire::SlotLayout layout = some_layout(small_shape(), false, false);
    layout.lead_bytes = wire::mem_line;
    LaunchShape shape = small_shape();
    shape.cluster = {2, 1, 1};   // so that the CTA's rank is not known, and a uniform register goes out
    auto spliced = splice(k.cubin, k.name, shape, plan_of(ProbeKind::mem), layout);
    ASSERT_TRUE(spliced) << spliced.error().to_string();
    mem = Case{k, std::move(*spliced), {}};
    mem.claims = mem.spliced.claims;
    ASSERT_TRUE(mem.verify().empty());
    const auto found = [&](uint32_t w, auto change) { return broken(mem, w, change).contains("address-recorded"); };
    for (uint32_t w = mem.claims.prologue_words; w + 1 < word_count(mem); ++w) {
      if (!inserted(mem, w)) continue;
      const sass::RawInst word = word_at(mem, mem.spliced.cubin, w);
      const bool is_vote = sass::opcode13(word) == 0x806 && get_bits(word, bits(90, 87)) != 7;
      const bool is_move = sass::opcode13(word) == 0x1c02;
      if (!is_vote && !is_move) continue;
      votes += is_vote;
      moves += is_move;
      EXPECT_TRUE(found(w, [&](sass::RawInst& x) { set_bits(x, bit(is_vote ? 90 : 32), get_bits(x, bit(is_vote ? 90 : 32)) ^ 1); })) << w;
      EXPECT_TRUE(found(w, [&](sass::RawInst& x) { set_bits(x, bit(is_vote ? 87 : 33), get_bits(x, bit(is_vote ? 87 : 33)) ^ 1); })) << w;
      EXPECT_TRUE(found(w, [&](sass::RawInst& x) {
        const sass::Control c = sass::get_control(x);
        x = enc::nop();
        sass::set_control(x, c);
      })) << w;
      uint32_t store = w + 1;
      while (effects_at(mem, store).mnemonic != "STG") ++store;
      EXPECT_TRUE(found(store, [&](sass::RawInst& x) { set_bits(x, bits(63, 40), get_bits(x, bits(63, 40)) ^ 64); })) << store;
    }
  }
  EXPECT_GT(votes, 5u);
  EXPECT_GT(moves, 0u);
}
TEST_F(SabotageAddresses, WrongClaims) {
  Case c = mem;
  ASSERT_FALSE(c.claims.addresses.empty());
  const auto column = std::find_if(c.claims.addresses.begin(), c.claims.addresses.end(),
                                   [](const AddressClaim& a) { return a.kind == AddressClaim::Kind::column; });
  ASSERT_NE(column, c.claims.addresses.end());
  c.claims.addresses.erase(column);
  EXPECT_EQ(rules(c.verify()), (std::set<std::string>{"address-recorded", "record-clobbered"}));
  c = mem;
  c.claims.memory_high_is_known = false;
  EXPECT_TRUE(rules(c.verify()).empty()) << "high words were recorded";
  // A splice that left the high words out, and does not say so.
  LaunchShape shape = small_shape();
  shape.low_words_tell = true;
  wire::SlotLayout layout = some_layout(shape, false, false);
  layout.lead_bytes = wire::mem_line;
  auto spliced = splice(kernel.cubin, kernel.name, shape, plan_of(ProbeKind::mem), layout);
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  c = Case{kernel, std::move(*spliced), {}};
  c.claims = c.spliced.claims;
  EXPECT_TRUE(c.verify().empty());
  c.claims.memory_high_is_known = false;
  EXPECT_TRUE(rules(c.verify()).contains("address-recorded"));
}

}  // namespace
}  // namespace xtrace::instrument::test
