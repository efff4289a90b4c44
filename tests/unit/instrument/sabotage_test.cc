// The verifier, tested by breaking spliced code on purpose: each fault must be found, and for the right reason.
#include <gtest/gtest.h>

#include <set>

#include "instrument/sass/effects.h"
#include "instrument/sass/encode.h"
#include "instrument/sass/print.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

namespace enc = sass::enc;

const sass::Arch& arch() { return **sass::find_arch(90); }

sass::Effects effects_at(const Case& c, uint32_t k) {
  return sass::effects(arch(), word_at(c, c.spliced.cubin, k), k * sass::inst_bytes);
}
bool inserted(const Case& c, uint32_t k) { return c.spliced.map.original_of_new[k] == wire::AddressMap::inserted; }

// The first word of the primary copy for which `test` holds.
template <typename F>
uint32_t find_word(const Case& c, F test) {
  for (uint32_t k = c.claims.prologue_words; k < word_count(c); ++k)
    if (test(k, effects_at(c, k))) return k;
  ADD_FAILURE() << "no such word";
  return 0;
}

std::set<std::string> rules(const std::vector<Violation>& violations) {
  std::set<std::string> names;
  for (const Violation& v : violations) names.insert(std::string(v.rule));
  return names;
}

template <typename F>
std::set<std::string> broken(const Case& c, uint32_t k, F change) {
  Bytes cubin = c.spliced.cubin;
  sass::RawInst w = word_at(c, cubin, k);
  change(w);
  set_word(c, cubin, k, w);
  return rules(c.verify(cubin));
}

template <typename F>
void change_control(sass::RawInst& w, F change) {
  sass::Control control = sass::get_control(w);
  change(control);
  sass::set_control(w, control);
}

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
      ASSERT_TRUE(sass::set_target(arch(), w, k * sass::inst_bytes, target + skew * 16));
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
    ASSERT_TRUE(sass::set_target(arch(), w, k * sass::inst_bytes, target + 16));
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

TEST_F(Sabotage, UseTheCursorTooEarly) {
  // The last word of a short block's probe carries the cycles that the next store needs.
  size_t caught = 0;
  for (uint32_t k = inst.claims.prologue_words; k < word_count(inst); ++k) {
    if (!inserted(inst, k) || effects_at(inst, k).mnemonic != "UIADD3") continue;
    const auto found = broken(inst, k, [](sass::RawInst& w) {
      // Same destination as the record address: written right in front of stores that use it.
      set_bits(w, bits(21, 16), 60);
    });
    caught += found.contains("result-too-early") || found.contains("register-clobber");
  }
  EXPECT_GT(caught, 0u);
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

}  // namespace
}  // namespace xtrace::instrument::test
