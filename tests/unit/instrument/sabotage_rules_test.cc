// Rules of the verifier that hold for some architectures, records or registers: each broken on purpose.
#include <gtest/gtest.h>

#include "instrument/cubin/kernel_info.h"
#include "instrument/liveness.h"
#include "instrument/sass/effects.h"
#include "instrument/sass/encode.h"
#include "tests/unit/instrument/sabotage.h"

namespace xtrace::instrument::test {
namespace {

namespace enc = sass::enc;

// On sm_80 R2UR has variable latency, on sm_100 an ALU instruction waits longer for a clock.
TEST(SabotageArchitectures, UseAUniformRegisterBeforeItArrived) {
  const Case c = splice_case(fixture_kernels("sm_80").at(0), plan_of(ProbeKind::block));
  ASSERT_TRUE(c.verify().empty());
  const sass::Arch& sm80 = **sass::find_arch(80);
  uint32_t last = 0;
  for (uint32_t k = 0; k < c.claims.prologue_words; ++k)
    if (sass::effects(sm80, word_at(c, c.spliced.cubin, k), 0).mnemonic == "R2UR") last = k;
  ASSERT_GT(last, 0u);
  EXPECT_TRUE(broken(c, last, [](sass::RawInst& w) {
                change_control(w, [](sass::Control& control) { control.write_barrier = sass::Control::no_barrier; });
              }).contains("result-too-early"));
  Bytes cubin = c.spliced.cubin;   // nothing in the prologue waits for it
  for (uint32_t k = last + 1; k < c.claims.prologue_words; ++k) {
    sass::RawInst w = word_at(c, cubin, k);
    change_control(w, [](sass::Control& control) { control.wait_mask = 0; });
    set_word(c, cubin, k, w);
  }
  EXPECT_TRUE(rules(c.verify(cubin)).contains("result-too-early"));
}

TEST(SabotageArchitectures, UseAClockBeforeItArrived) {
  const Kernel kernel = fixture_kernels("sm_100").at(0);
  const auto splicer = Splicer::create(kernel.cubin, kernel.name, small_shape());
  ASSERT_TRUE(splicer) << splicer.error().to_string();
  wire::SlotLayout layout = some_layout(small_shape(), false, false);
  layout.index_bits = splicer->index_bits();
  layout.short_records = true;
  layout.lead_bytes = sizeof(wire::SlotHead);
  const auto spliced = splicer->splice(plan_of(ProbeKind::block), layout);
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  const Case c{kernel, *spliced, spliced->claims};
  ASSERT_TRUE(c.verify().empty());
  // All that lies between a clock and the LEA that reads it takes one cycle.
  size_t tried = 0;
  for (uint32_t k = c.claims.prologue_words; k + 1 < word_count(c); ++k) {
    const auto mnemonic = [&](uint32_t at) {
      return sass::effects(**sass::find_arch(100), word_at(c, c.spliced.cubin, at), 0).mnemonic;
    };
    if (!inserted(c, k) || mnemonic(k) != "CS2R") continue;
    Bytes cubin = c.spliced.cubin;
    for (uint32_t at = k; mnemonic(at) != "LEA"; ++at) {
      sass::RawInst w = word_at(c, cubin, at);
      change_control(w, [](sass::Control& control) { control.stall = 1, control.keep_issuing = true; });
      set_word(c, cubin, at, w);
    }
    ++tried;
    EXPECT_TRUE(rules(c.verify(cubin)).contains("result-too-early"));
    break;
  }
  EXPECT_EQ(tried, 1u);
}

// Records in whole sectors of a kernel all of whose blocks are full.
Case sector_case() {
  const Kernel kernel = fixture_kernel("saxpy");
  const auto splicer = Splicer::create(kernel.cubin, kernel.name, small_shape());
  EXPECT_TRUE(splicer && splicer->can_fill_sectors(false));
  wire::SlotLayout layout = some_layout(small_shape(), false, false);
  layout.index_bits = splicer->index_bits();
  layout.whole_sectors = true;
  layout.lead_bytes = wire::sector_bytes;
  Plan plan = plan_of(ProbeKind::inst);
  plan.full_blocks.assign(splicer->blocks().size(), true);
  auto spliced = splicer->splice(plan, layout);
  EXPECT_TRUE(spliced) << spliced.error().to_string();
  return {kernel, *spliced, spliced->claims};
}

TEST(SabotageSectors, WriteOneInPart) {
  constexpr uint16_t stg_uniform = 0x1986;
  constexpr BitRange lanes = bits(31, 24), mask = bits(63, 32);
  const Case c = sector_case();
  ASSERT_TRUE(c.verify().empty());
  ASSERT_TRUE(c.claims.sector_word);
  size_t stores = 0, places = 0, makers = 0, clocks = 0;
  for (uint32_t k = 0; k < word_count(c); ++k) {
    const sass::RawInst w = word_at(c, c.spliced.cubin, k);
    const sass::Effects fx = effects_at(c, k);
    const auto seen = [&](auto change) { return broken(c, k, change).contains("sector-filled"); };
    if (k >= c.claims.prologue_words && !inserted(c, k)) continue;
    if (sass::opcode13(w) == stg_uniform) {
      ++stores;
      EXPECT_TRUE(seen([&](sass::RawInst& x) { set_bits(x, lanes, 255); })) << "word " << k;
    } else if (fx.mnemonic == "LOP3" && fx.def.gpr.test(*c.claims.sector_word)) {
      ++makers;
      EXPECT_TRUE(seen([&](sass::RawInst& x) { set_bits(x, mask, 24); })) << "word " << k;
      EXPECT_TRUE(seen([&](sass::RawInst& x) { x = enc::nop(); })) << "word " << k;
    } else if (fx.mnemonic == "LOP3" && fx.use.gpr.test(*c.claims.sector_word)) {
      ++places;
      EXPECT_TRUE(seen([&](sass::RawInst& x) { set_bits(x, mask, 8); })) << "word " << k;
    } else if (fx.mnemonic == "CS2R" && fx.def.gpr.count() == 1) {
      ++clocks;
      EXPECT_TRUE(seen([&](sass::RawInst& x) { set_bits(x, bits(23, 16), *c.claims.sector_word); })) << "word " << k;
    }
  }
  EXPECT_EQ(makers, 1u);
  EXPECT_GE(stores, 2u);
  EXPECT_GE(places, 1u);
  EXPECT_GE(clocks, 4u);
}

// The kernel with another instruction at 0x20, on which nothing depends here.
Kernel kernel_with(const char* name, const sass::RawInst& w) {
  Kernel k = fixture_kernel(name);
  auto image = cubin::Image::parse(k.cubin);
  const auto info = cubin::kernel_info(*image, k.name);
  EXPECT_TRUE(info);
  Bytes text = image->sections()[info->text_section].data;
  write_at(std::span(text), 0x20, w);
  image->set_section_data(info->text_section, std::move(text));
  k.cubin = *image->write();
  return k;
}

TEST(SabotageRegisters, UseWhatTheKernelGivesAway) {
  constexpr uint32_t held = 24;
  const sass::RawInst release{uint64_t{held} << 32 | 0x79c8, 0x000fe200080e0500};   // USETMAXREG.DEALLOC.CTAPOOL 0x18
  const Case c = splice_case(kernel_with("spmv", release), plan_of(ProbeKind::block));
  ASSERT_TRUE(c.verify().empty());
  EXPECT_EQ(c.spliced.report.new_registers, c.spliced.report.original_registers);
  uint32_t moves = 0;
  for (uint32_t k = c.claims.prologue_words; k < word_count(c); ++k) {
    const sass::Effects fx = effects_at(c, k);
    if (!inserted(c, k)) continue;
    for (unsigned r = held - 2; r < 255; ++r) EXPECT_FALSE(fx.def.gpr.test(r)) << "word " << k;
    if (fx.mnemonic != "MOV") continue;
    ++moves;
    for (unsigned r : {held - 2, held, held + 5})
      EXPECT_TRUE(broken(c, k, [&](sass::RawInst& w) { set_bits(w, bits(23, 16), r); }).contains("register-clobber"))
          << "word " << k << " R" << r;
  }
  EXPECT_GT(moves, 5u);
  auto image = cubin::Image::parse(c.spliced.cubin);
  const auto info = cubin::kernel_info(*image, c.kernel.name);
  ASSERT_TRUE(cubin::set_register_count(*image, *info, c.spliced.report.original_registers + 8));
  EXPECT_TRUE(rules(c.verify(*image->write())).contains("register-limit"));
}

// A register that an instruction of the kernel has yet to read may be written after a wait for it, and not before.
TEST(SabotageRegisters, DoNotWaitForARegister) {
  size_t tried = 0;
  for (const char* name : {"sgemm", "constant_global", "device_calls", "wmma", "reduce_sum"}) {
    const Case c = splice_case(fixture_kernel(name), plan_of(ProbeKind::block));
    const auto image = cubin::Image::parse(c.kernel.cubin);
    const auto info = cubin::kernel_info(*image, c.kernel.name);
    const auto code = read_code(*image, *info);
    ASSERT_TRUE(code);
    const Liveness live(*code);
    const uint32_t own = info->register_count - reserved_registers;
    for (uint32_t k = c.claims.prologue_words; k < word_count(c) && tried < 50; ++k) {
      if (!inserted(c, k) || effects_at(c, k).mnemonic != "MOV") continue;
      uint32_t next = k;
      while (next + 1 < word_count(c) && inserted(c, next)) ++next;
      if (inserted(c, next)) break;
      const InstIndex at = code->index(c.claims.original_of_new[next]);
      for (unsigned sb = 0; sb < 6; ++sb) {
        const auto waits = static_cast<uint8_t>(1u << sb);
        const sass::RegSet pending = live.writable_after_wait(at, own, waits) & ~live.writable_before(at, own);
        for (unsigned r = 0; r < own; ++r) {
          if (!pending.test(r)) continue;
          ++tried;
          for (const uint8_t mask : {waits, uint8_t{0}}) {
            const auto found = broken(c, k, [&](sass::RawInst& w) {
              set_bits(w, bits(23, 16), r);
              change_control(w, [&](sass::Control& control) { control.wait_mask = mask; });
            });
            EXPECT_EQ(found.contains("register-clobber"), mask == 0) << name << " word " << k << " R" << r << " SB" << sb;
          }
        }
      }
    }
  }
  EXPECT_GE(tried, 10u);
}

TEST(SabotageCounts, SignalAScoreboardThatIsCounted) {
  const Case c = splice_case(kernel_with("saxpy", {0x0000d0400000791a, 0x000fe20000000000}),   // DEPBAR.LE SB5, 0x1
                             plan_of(ProbeKind::block));
  ASSERT_TRUE(c.verify().empty());
  const uint32_t store = find_word(c, [&](uint32_t i, const sass::Effects& fx) {
    return inserted(c, i) && fx.mnemonic == "STG";
  });
  const auto found = broken(c, store, [](sass::RawInst& w) {
    change_control(w, [](sass::Control& control) { control.read_barrier = 5; });
  });
  EXPECT_TRUE(found.contains("scoreboard-count")) << testing::PrintToString(found);
}

TEST(SabotageMetadata, FewerRegistersThanBefore) {
  const Case c = splice_case(fixture_kernel("spmv"), plan_of(ProbeKind::block));
  auto image = cubin::Image::parse(c.spliced.cubin);
  ASSERT_TRUE(image);
  const auto info = cubin::kernel_info(*image, c.kernel.name);
  ASSERT_TRUE(info);
  ASSERT_TRUE(cubin::set_register_count(*image, *info, c.spliced.report.original_registers - 1));
  EXPECT_TRUE(rules(c.verify(*image->write())).contains("metadata"));
}

TEST(SabotageMetadata, AnExitThatIsNotListed) {
  const Case c = splice_case(fixture_kernel("spmv"), plan_of(ProbeKind::block));
  const uint32_t k = find_word(c, [&](uint32_t i, const sass::Effects& fx) {
    return inserted(c, i) && fx.mnemonic == "VOTE";
  });
  EXPECT_TRUE(broken(c, k, [](sass::RawInst& w) { w = enc::exit(); }).contains("metadata"));
}

}  // namespace
}  // namespace xtrace::instrument::test
