// The verifier, tested by breaking spliced code on purpose: each fault must be found, and for the right reason.
#include <gtest/gtest.h>

#include <set>

#include "instrument/cubin/kernel_info.h"
#include "instrument/liveness.h"
#include "instrument/sass/effects.h"
#include "instrument/sass/encode.h"
#include "instrument/sass/print.h"
#include "tests/unit/instrument/sabotage.h"

namespace xtrace::instrument::test {
namespace {

namespace enc = sass::enc;

class Sabotage : public testing::Test {
 protected:
  void SetUp() override {
    block = splice_case(fixture_kernel("spmv"), plan_of(ProbeKind::block));
    inst = splice_case(fixture_kernel("spmv"), plan_of(ProbeKind::inst));
    ASSERT_TRUE(block.verify().empty());
    ASSERT_TRUE(inst.verify().empty());
  }
  Case block, inst;
};

TEST_F(Sabotage, ClobberALiveRegister) {
  // A probe's MOV, sent to a register that the kernel reads later.
  const uint32_t k = find_word(block, [&](uint32_t i, const sass::Effects& fx) {
    return inserted(block, i) && fx.mnemonic == "MOV" && i > word_count(block) / 3;
  });
  bool found = false;
  for (uint8_t r = 0; r < 24 && !found; ++r)
    found = broken(block, k, [&](sass::RawInst& w) { set_bits(w, bits(23, 16), r); }).contains("register-clobber");
  EXPECT_TRUE(found);
}

// A wait one cycle behind the store that it is for does not see it yet.
TEST_F(Sabotage, WaitTooSoon) {
  size_t changed = 0;
  for (const Case* c : {&block, &inst})
    for (uint32_t k = 0; k + 1 < word_count(*c); ++k) {
      const auto at = [&](uint32_t w) { return sass::get_control(word_at(*c, c->spliced.cubin, w)); };
      if (!inserted(*c, k) || at(k).read_barrier >= 6 || !(at(k + 1).wait_mask >> at(k).read_barrier & 1)) continue;
      EXPECT_GE(at(k).stall, 2);
      EXPECT_TRUE(broken(*c, k, [](sass::RawInst& w) { change_control(w, [](sass::Control& control) { control.stall = 1; }); })
                      .contains("store-overwritten"))
          << k;
      ++changed;
    }
  EXPECT_GT(changed, 0u);
}

// Nor does one behind an original load: an H200 stored what the register held before.
TEST_F(Sabotage, WaitTooSoonForTheKernelsResult) {
  const Kernel kernel = fixture_kernel("saxpy");
  const LaunchShape shape = small_shape();
  auto splicer = Splicer::create(kernel.cubin, kernel.name, shape);
  ASSERT_TRUE(splicer);
  Asked asked;
  asked.reg.push_back({{}, {{wire::Value::Kind::vector, 2}}, {}, {}});
  auto spliced = splicer->asked(asked).splice(plan_of(ProbeKind::reg), some_layout(shape, false, false));
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  const SpliceClaims claims = spliced->claims;
  const Case c{kernel, std::move(*spliced), claims};
  ASSERT_TRUE(c.verify().empty());
  size_t changed = 0;
  for (uint32_t k = 1; k + 1 < word_count(c); ++k) {
    const auto at = [&](uint32_t w) { return sass::get_control(word_at(c, c.spliced.cubin, w)); };
    const uint8_t taken = at(k - 1).write_barrier;
    if (inserted(c, k - 1) || taken >= 6 || at(k - 1).stall != 1 || !inserted(c, k) || !inserted(c, k + 1)) continue;
    if (effects_at(c, k).mnemonic != "NOP" || !(at(k + 1).wait_mask >> taken & 1)) continue;
    // The wait goes to the pause in front of the store.
    Bytes cubin = c.spliced.cubin;
    for (const uint32_t w : {k, k + 1}) {
      sass::RawInst moved = word_at(c, cubin, w);
      change_control(moved, [&](sass::Control& control) {
        control.wait_mask = static_cast<uint8_t>(w == k ? control.wait_mask | 1u << taken : control.wait_mask & ~(1u << taken));
      });
      set_word(c, cubin, w, moved);
    }
    EXPECT_TRUE(rules(c.verify(cubin)).contains("result-too-early")) << k;
    ++changed;
  }
  EXPECT_GT(changed, 0u);
}

TEST_F(Sabotage, ClobberAUniformRegister) {
  const uint32_t k = find_word(block, [&](uint32_t i, const sass::Effects& fx) {
    return inserted(block, i) && fx.mnemonic == "UIADD3";
  });
  size_t caught = 0;   // one of the uniform registers that the kernel uses
  for (uint8_t ur = 4; ur < 12; ++ur)
    caught += broken(block, k, [&](sass::RawInst& w) { set_bits(w, bits(21, 16), ur); }).contains("register-clobber");
  EXPECT_GT(caught, 0u);
}

TEST_F(Sabotage, DropTheReadBarrierOfAStore) {
  const uint32_t k = find_word(block, [&](uint32_t i, const sass::Effects& fx) {
    return inserted(block, i) && fx.mnemonic == "STG";
  });
  const auto found = broken(block, k, [](sass::RawInst& w) {
    change_control(w, [](sass::Control& c) { c.read_barrier = sass::Control::no_barrier; });
  });
  EXPECT_EQ(found, std::set<std::string>{"store-overwritten"});
}

TEST_F(Sabotage, DropTheWaitBeforeTheNextRecord) {
  // Inside a loop: the word0 of the next round is written without a wait.
  size_t caught = 0;
  for (uint32_t k = block.claims.prologue_words; k < word_count(block); ++k) {
    if (!inserted(block, k) || effects_at(block, k).mnemonic != "MOV") continue;
    const auto found = broken(block, k, [](sass::RawInst& w) {
      change_control(w, [](sass::Control& c) { c.wait_mask = 0; });
    });
    caught += found == std::set<std::string>{"store-overwritten"};
  }
  EXPECT_GT(caught, 2u);
}

TEST_F(Sabotage, DropAnOriginalWait) {
  const uint32_t k = find_word(block, [&](uint32_t i, const sass::Effects&) {
    return !inserted(block, i) && sass::get_control(word_at(block, block.spliced.cubin, i)).wait_mask != 0;
  });
  const auto found = broken(block, k, [](sass::RawInst& w) {
    change_control(w, [](sass::Control& c) { c.wait_mask = 0; });
  });
  EXPECT_EQ(found, std::set<std::string>{"original-bits"});
}

TEST_F(Sabotage, SkewABranch) {
  const uint32_t k = find_word(block, [&](uint32_t i, const sass::Effects& fx) {
    return !inserted(block, i) && fx.flow == sass::Flow::branch && fx.guarded;
  });
  const int64_t target = *effects_at(block, k).target;
  for (int skew : {-1, 1}) {
    const auto found = broken(block, k, [&](sass::RawInst& w) {
      ASSERT_TRUE(sass::set_target(sm_90(), w, k * sass::inst_bytes, target + skew * 16));
    });
    EXPECT_TRUE(found.contains("branch-target")) << skew << testing::PrintToString(found);
  }
}

TEST_F(Sabotage, SkewAReconvergencePoint) {
  const uint32_t k = find_word(block, [&](uint32_t i, const sass::Effects& fx) {
    return !inserted(block, i) && fx.is_bssy_target;
  });
  const int64_t target = *effects_at(block, k).target;
  const auto found = broken(block, k, [&](sass::RawInst& w) {
    ASSERT_TRUE(sass::set_target(sm_90(), w, k * sass::inst_bytes, target + 16));
  });
  EXPECT_TRUE(found.contains("branch-target"));
}

TEST_F(Sabotage, ChangeAnOriginalOperand) {
  const uint32_t k = find_word(block, [&](uint32_t i, const sass::Effects& fx) {
    return !inserted(block, i) && fx.fixed_latency && fx.def.gpr.any();
  });
  const auto found = broken(block, k, [](sass::RawInst& w) { w.lo ^= 1ull << 24; });
  EXPECT_TRUE(found.contains("original-bits"));
}

TEST_F(Sabotage, StoreAClockThatHasNotArrived) {
  // Where the store follows the clock at once, the clock's stall count is all there is between them.
  size_t caught = 0;
  for (uint32_t k = inst.claims.prologue_words; k < word_count(inst); ++k) {
    if (!inserted(inst, k) || effects_at(inst, k).mnemonic != "CS2R") continue;
    const auto found = broken(inst, k, [](sass::RawInst& w) {
      change_control(w, [](sass::Control& c) { c.stall = 1; });
    });
    if (found.empty()) continue;
    EXPECT_EQ(found, std::set<std::string>{"result-too-early"});
    ++caught;
  }
  EXPECT_GE(caught, inst.spliced.map.blocks.size());   // at least the last store of every block
}

TEST_F(Sabotage, RegisterAboveTheCount) {
  const uint32_t k = find_word(block, [&](uint32_t i, const sass::Effects& fx) {
    return inserted(block, i) && fx.mnemonic == "MOV";
  });
  const auto found = broken(block, k, [&](sass::RawInst& w) {
    set_bits(w, bits(23, 16), block.spliced.report.new_registers - 2);
  });
  EXPECT_TRUE(found.contains("register-limit"));
}

TEST_F(Sabotage, IllegalControlWord) {
  const uint32_t k = find_word(block, [&](uint32_t i, const sass::Effects& fx) {
    return inserted(block, i) && fx.mnemonic == "VOTE";
  });
  const auto found = broken(block, k, [](sass::RawInst& w) {
    change_control(w, [](sass::Control& c) {
      c.stall = 14;
      c.keep_issuing = true;
    });
  });
  EXPECT_EQ(found, std::set<std::string>{"control-word"});
}

TEST_F(Sabotage, ReuseInFrontOfAnInsertion) {
  const uint32_t k = find_word(inst, [&](uint32_t i, const sass::Effects& fx) {
    return !inserted(inst, i) && inserted(inst, i + 1) && fx.fixed_latency &&
           sass::get_control(word_at(inst, inst.spliced.cubin, i)).keep_issuing;
  });
  const auto found = broken(inst, k, [](sass::RawInst& w) {
    change_control(w, [](sass::Control& c) { c.reuse = 1; });
  });
  EXPECT_TRUE(found.contains("control-word"));
}

TEST_F(Sabotage, WrongClaims) {
  Case c = block;
  const uint32_t k = find_word(c, [&](uint32_t i, const sass::Effects&) { return !inserted(c, i); });
  c.claims.original_of_new[k] = wire::AddressMap::inserted;
  EXPECT_EQ(rules(c.verify()), std::set<std::string>{"original-order"});
}

TEST(SabotageCalls, WrongReturnAddress) {
  const Case c = splice_case(fixture_kernel("device_calls"), plan_of(ProbeKind::block));
  ASSERT_TRUE(c.verify().empty());
  size_t caught = 0;
  for (uint32_t k = c.claims.prologue_words; k < word_count(c); ++k) {
    const sass::RawInst w = word_at(c, c.spliced.cubin, k);
    if (inserted(c, k) || sass::opcode13(w) != 0x802) continue;
    caught += broken(c, k, [](sass::RawInst& x) { x.lo ^= 1ull << 36; }).contains("return-address");
  }
  EXPECT_GT(caught, 0u);
}

TEST(SabotageCalls, SkewThePlaceThatACallReturnsTo) {
  const Case c = splice_case(fixture_kernel("guarded"), plan_of(ProbeKind::block));
  ASSERT_TRUE(c.verify().empty());
  const uint32_t k = find_word(c, [&](uint32_t i, const sass::Effects& fx) {
    return !inserted(c, i) && fx.mnemonic == "LEPC";
  });
  const int64_t target = *effects_at(c, k).target;
  const auto found = broken(c, k, [&](sass::RawInst& w) {
    ASSERT_TRUE(sass::set_target(sm_90(), w, k * sass::inst_bytes, target + 16));
  });
  EXPECT_EQ(found, std::set<std::string>{"branch-target"});
}

TEST(SabotageTables, WrongJumpTableOffset) {
  const Case c = splice_case(fixture_kernel("switch"), plan_of(ProbeKind::block, 4));
  ASSERT_TRUE(c.verify().empty());
  size_t caught = 0;
  for (uint32_t k = c.claims.prologue_words; k < word_count(c); ++k) {
    const sass::RawInst w = word_at(c, c.spliced.cubin, k);
    if (inserted(c, k) || (w.lo & 0xfff) != 0xb82) continue;
    caught += broken(c, k, [](sass::RawInst& x) { x.lo ^= 1ull << 40; }).contains("jump-table");
  }
  EXPECT_EQ(caught, 2u);   // once in the instrumented code, once in the untouched copy
}

// --- packed records: words of a register by lane groups

class SabotagePacked : public testing::Test {
 protected:
  void SetUp() override {
    kernel = fixture_kernel("sgemm");
    const auto splicer = Splicer::create(kernel.cubin, kernel.name, small_shape());
    ASSERT_TRUE(splicer) << splicer.error().to_string();
    Plan plan = plan_of(ProbeKind::inst);
    plan.full_blocks.assign(splicer->blocks().size(), true);
    auto spliced = splicer->splice(plan, some_layout(small_shape(), false, false));
    ASSERT_TRUE(spliced) << spliced.error().to_string();
    packed = Case{kernel, std::move(*spliced), {}};
    packed.claims = packed.spliced.claims;
    ASSERT_TRUE(packed.verify().empty());
  }
  bool is_store(uint32_t k) { return inserted(packed, k) && effects_at(packed, k).mnemonic == "STG"; }
  Kernel kernel;
  Case packed;
};

TEST_F(SabotagePacked, UseTheCursorTooEarly) {
  // The prologue's last word waits until the cursor and the lane groups are there.
  const auto found = broken(packed, packed.claims.prologue_words - 1, [](sass::RawInst& w) {
    change_control(w, [](sass::Control& c) {
      c.stall = 1;
      c.keep_issuing = true;
    });
  });
  EXPECT_EQ(found, std::set<std::string>{"result-too-early"});
}

TEST_F(SabotagePacked, StoreARegisterOfTheKernel) {
  const uint32_t k = find_word(packed, [&](uint32_t i, const sass::Effects&) { return is_store(i); });
  const auto found = broken(packed, k, [](sass::RawInst& w) { set_bits(w, bits(39, 32), 16); });
  EXPECT_TRUE(found.contains("record-clobbered")) << testing::PrintToString(found);
}

TEST_F(SabotagePacked, GuardByAPredicateOfTheKernel) {
  const uint32_t k = find_word(packed, [&](uint32_t i, const sass::Effects& fx) {
    return inserted(packed, i) && fx.mnemonic == "CS2R" && fx.guarded;
  });
  const auto found = broken(packed, k, [](sass::RawInst& w) { set_bits(w, bits(15, 12), 0); });
  EXPECT_TRUE(found.contains("record-clobbered")) << testing::PrintToString(found);
}

TEST_F(SabotagePacked, OverwriteWordsBeforeTheyAreStored) {
  // A clock for one lane group, taken for all: the words of the other groups are gone.
  size_t caught = 0, tried = 0;
  for (uint32_t k = packed.claims.prologue_words; k < word_count(packed); ++k) {
    if (!inserted(packed, k) || effects_at(packed, k).mnemonic != "CS2R" || !effects_at(packed, k).guarded) continue;
    ++tried;
    caught += broken(packed, k, [](sass::RawInst& w) { set_bits(w, bits(15, 12), 7); }).contains("record-clobbered");
  }
  EXPECT_GT(tried, 20u);
  EXPECT_GT(10 * caught, 9 * tried);   // the first odd clocks of a record have nothing in front of them
}

TEST_F(SabotagePacked, DropAStore) {
  // What it would have stored is overwritten by the next words, or never read.
  size_t caught = 0, tried = 0;
  for (uint32_t k = packed.claims.prologue_words; k < word_count(packed); ++k) {
    if (!is_store(k)) continue;
    ++tried;
    caught += broken(packed, k, [](sass::RawInst& w) {
                const sass::Control c = sass::get_control(w);
                w = enc::nop();
                sass::set_control(w, c);
              }).contains("record-clobbered");
  }
  EXPECT_GT(tried, 10u);
  EXPECT_GT(caught, tried / 2);
}

}  // namespace
}  // namespace xtrace::instrument::test
