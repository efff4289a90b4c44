// Who is traced: where the decision stands, and that the verifier sees when warps that leave at it could not begin anew.
#include "instrument/decision.h"

#include <gtest/gtest.h>

#include <functional>

#include "instrument/blocks.h"
#include "instrument/sass/encode.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

namespace enc = sass::enc;

struct Entry {
  Code code;
  Blocks blocks;
  InstIndex repeatable = 0;
};
Result<Entry> entry_of(const Kernel& kernel) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(kernel.cubin));
  XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, kernel.name));
  XT_TRY(Code code, read_code(image, info));
  Entry e{std::move(code), {}, 0};
  e.blocks = find_blocks(e.code);
  e.repeatable = repeatable_entry(e.code, e.blocks);
  return e;
}

TEST(Decision, RepeatableEntriesTouchNoMemory) {
  size_t kernels = 0, instructions = 0;
  for (const char* arch : {"sm_80", "sm_90", "sm_120"})
    for (const Kernel& k : fixture_kernels(arch)) {
      const auto e = entry_of(k);
      if (!e) continue;
      SCOPED_TRACE(fmt::format("{} {}", arch, k.name));
      ASSERT_LT(e->repeatable, e->code.insts.size());
      for (InstIndex i = 0; i < e->repeatable; ++i) {
        const sass::Effects& fx = e->code.insts[i].fx;
        EXPECT_TRUE(fx.kind == sass::MemKind::none || fx.space == sass::MemSpace::constant) << where(e->code, i);
        EXPECT_EQ(fx.flow, sass::Flow::next) << where(e->code, i);
      }
      ++kernels;
      instructions += e->repeatable;
    }
  EXPECT_GT(kernels, 40u);
  EXPECT_GT(instructions, 6 * kernels);
}

// saxpy: LDC R1; S2R R0, TID; S2UR UR4, CTAID; LDC R7; IMAD (the first wait); ULDC; ISETP P0; @P0 EXIT
class SampledSaxpy : public testing::Test {
 protected:
  void SetUp() override {
    auto e = entry_of(c.kernel);
    ASSERT_TRUE(e) << e.error().to_string();
    entry = std::move(*e);
    ASSERT_EQ(entry.repeatable, 7u);
    ASSERT_TRUE(c.verify().empty());
    for (uint32_t k = 0; k < c.claims.prologue_first; ++k)
      if (inserted(c, k) && effects(k).flow == sass::Flow::branch) branch = k;
    ASSERT_GT(branch, 0u);
  }
  sass::Effects effects(uint32_t k) const {
    return sass::effects(*entry.code.arch, word_at(c, c.spliced.cubin, k), k * sass::inst_bytes);
  }
  uint32_t find(std::string_view mnemonic, uint32_t from = 0) const {
    for (uint32_t k = from; k < word_count(c); ++k)
      if (inserted(c, k) && effects(k).mnemonic == mnemonic) return k;
    ADD_FAILURE() << "no " << mnemonic;
    return 0;
  }
  // Another instruction in the place of i, in the original and in both copies; and a change to the prologue's first word and to the
  // comparison in front of the branch.
  std::set<std::string> with(InstIndex i, const sass::RawInst& w, const std::function<void(sass::RawInst&)>& change = {}) const {
    Case changed = c;
    auto image = cubin::Image::parse(changed.kernel.cubin);
    const auto info = cubin::kernel_info(*image, changed.kernel.name);
    Bytes text = image->sections()[info->text_section].data;
    write_at(std::span(text), i * sass::inst_bytes, w);
    image->set_section_data(info->text_section, std::move(text));
    changed.kernel.cubin = *image->write();
    for (uint32_t k = 0; k < word_count(c); ++k)
      if (c.claims.original_of_new[k] == i * sass::inst_bytes) set_word(changed, changed.spliced.cubin, k, w);
    for (const uint32_t k : {c.claims.prologue_first, find("ISETP")}) {
      if (!change) break;
      sass::RawInst changing = word_at(changed, changed.spliced.cubin, k);
      change(changing);
      set_word(changed, changed.spliced.cubin, k, changing);
    }
    return rules(changed.verify());
  }

  const Case c = splice_case(fixture_kernel("saxpy"), plan_of(ProbeKind::block, 4));
  Entry entry;
  uint32_t branch = 0;
};

// The kernel's own first wait, its ISETP and the 13 cycles behind that: the decision waits for nothing by itself.
TEST_F(SampledSaxpy, TheDecisionStandsWhereTheKernelWaits) {
  uint32_t next = branch;
  while (inserted(c, next)) ++next;
  EXPECT_EQ(c.claims.original_of_new[next], 7 * sass::inst_bytes);
  for (uint32_t k = 0; k < branch; ++k) EXPECT_NE(effects(k).mnemonic, "NOP") << "word " << k;
  const uint32_t hash = find("IMAD");
  EXPECT_EQ(c.claims.original_of_new[hash + 1], 4 * sass::inst_bytes);
}

// The grid has two dimensions, of which saxpy loads one itself.
TEST_F(SampledSaxpy, OnlyNumbersThatTheKernelLacksAreLoaded) {
  std::vector<uint64_t> loaded;
  for (uint32_t k = 0; k < branch; ++k)
    if (inserted(c, k) && effects(k).mnemonic == "S2R") loaded.push_back(get_bits(word_at(c, c.spliced.cubin, k), bits(79, 72)));
  EXPECT_EQ(loaded, std::vector<uint64_t>{enc::sr_ctaid_x + 1});
}

TEST_F(SampledSaxpy, WhatCanNotBeExecutedTwice) {
  const sass::RawInst same = entry.code.insts[5].raw;
  EXPECT_TRUE(with(5, same).empty());
  EXPECT_TRUE(with(5, enc::stg(enc::VectorAddress{{2}}, {0}, enc::Size::b32)).contains("entry-repeated"));
  EXPECT_TRUE(with(5, enc::ldg({10}, enc::VectorAddress{{2}}, enc::Size::b32)).contains("entry-repeated"));
  EXPECT_TRUE(with(5, enc::iadd3_imm({0}, {9}, 1, enc::RZ)).contains("entry-repeated"));   // nobody has written R9
  EXPECT_FALSE(with(5, enc::iadd3_imm({9}, {0}, 1, enc::RZ)).contains("entry-repeated"));
  const sass::RawInst warpsync{0x7948, 0x000fe20003800000};   // WARPSYNC 0x0: defines nothing
  EXPECT_TRUE(with(5, warpsync).contains("entry-repeated"));
}

TEST_F(SampledSaxpy, BeginAnewTooEarly) {
  const auto controlled = [](sass::RawInst w, auto change) {
    sass::Control control = sass::get_control(w);
    change(control);
    sass::set_control(w, control);
    return w;
  };
  // A load that nobody has waited for: under the scoreboard that the prologue waits for, and under another.
  const auto load = [&](uint8_t sb) {
    return controlled(enc::ldc({9}, 0, 0x210), [sb](sass::Control& control) { control.write_barrier = sb, control.stall = 4; });
  };
  EXPECT_FALSE(with(5, load(0)).contains("entry-repeated"));
  EXPECT_TRUE(with(5, load(1)).contains("entry-repeated"));
  // A result that takes its time: the prologue waits for that as well.
  const sass::RawInst fast = controlled(entry.code.insts[6].raw, [](sass::Control& control) { control.stall = 1, control.keep_issuing = true; });
  EXPECT_FALSE(with(6, fast).contains("entry-repeated"));
  const auto hasty = [&](sass::RawInst& w) {
    w = controlled(w, [](sass::Control& control) { control.stall = 1, control.keep_issuing = true; });
  };
  EXPECT_TRUE(with(6, fast, hasty).contains("entry-repeated"));
}

TEST_F(SampledSaxpy, BranchElsewhere) {
  const uint32_t prologue = c.claims.prologue_first * sass::inst_bytes;
  for (const uint32_t target : {prologue + sass::inst_bytes, uint32_t{0}, 8u * sass::inst_bytes})
    EXPECT_TRUE(broken(c, branch, [&](sass::RawInst& w) {
                  ASSERT_TRUE(sass::set_target(*entry.code.arch, w, branch * sass::inst_bytes, target));
                }).contains("branch-target"));
  EXPECT_TRUE(broken(c, branch, [](sass::RawInst& w) { w = enc::nop(); }).contains("entry-repeated"));   // nobody is traced
  // Out of the traced copy.
  const uint32_t first = c.claims.prologue_first + c.claims.prologue_words;
  ASSERT_TRUE(inserted(c, first));
  EXPECT_TRUE(broken(c, first, [&](sass::RawInst& w) { w = enc::bra(first * sass::inst_bytes, prologue); }).contains("branch-target"));
}

TEST_F(SampledSaxpy, RegistersOfTheDecision) {
  const uint32_t load = find("S2R"), hash = find("IMAD"), compare = find("ISETP");
  const auto to = [](uint8_t r) { return [r](sass::RawInst& w) { set_bits(w, bits(23, 16), r); }; };
  EXPECT_TRUE(broken(c, load, to(0)).contains("register-clobber"));      // the kernel loads R0 meanwhile
  EXPECT_TRUE(broken(c, hash, to(0)).contains("register-clobber"));
  EXPECT_TRUE(broken(c, load, to(200)).contains("register-limit"));
  EXPECT_TRUE(broken(c, hash, [](sass::RawInst& w) {
                sass::Control control = sass::get_control(w);
                control.wait_mask = 0;
                sass::set_control(w, control);
              }).contains("result-too-early"));
  // LDC R1 of the kernel's beginning has a scoreboard here, which is waited for: it would come in the middle of the prologue.
  uint32_t stack = 0;
  while (effects(stack).mnemonic != "LDC" || !effects(stack).def.gpr.test(1)) ++stack;
  const sass::Control signals = sass::get_control(word_at(c, c.spliced.cubin, stack));
  ASSERT_LT(signals.write_barrier, 6);
  Bytes without = c.spliced.cubin;
  for (uint32_t k = stack; k <= c.claims.prologue_first; ++k) {
    sass::RawInst w = word_at(c, without, k);
    sass::Control control = sass::get_control(w);
    control.wait_mask &= static_cast<uint8_t>(~(1u << signals.write_barrier));
    sass::set_control(w, control);
    set_word(c, without, k, w);
  }
  EXPECT_TRUE(rules(c.verify(without)).contains("entry-repeated"));
  EXPECT_TRUE(broken(c, compare, [](sass::RawInst& w) { set_bits(w, bits(83, 81), 0); }).contains("record-clobbered"));   // P0, the kernel's
}

}  // namespace
}  // namespace xtrace::instrument::test
