// Loops that wait for others, found in the code of the recorded kernels.
#include <gtest/gtest.h>

#include <set>

#include "instrument/instrument.h"
#include "tests/unit/interp/assembled_launch.h"
#include "tests/unit/interp/spliced_launch.h"

namespace xtrace::interp_test {
namespace {

std::set<std::string> waiting_code(const std::string& kernel) {
  const replay::LaunchImage launch = recorded_launch(kernel);
  const bundle::LaunchRecord& r = launch.record;
  const auto splicer = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
  std::set<std::string> opcodes;
  if (!splicer) return opcodes;  // refused
  const std::vector<bool> waiting = splicer->waiting();
  for (size_t b = 0; b < waiting.size(); ++b)
    for (uint32_t i = 0; waiting[b] && i < splicer->blocks()[b].instructions; ++i) {
      std::string text = splicer->text(OrigPc{splicer->blocks()[b].first_pc + i * 16});
      if (text.starts_with('@')) text = text.substr(text.find(' ') + 1);
      opcodes.insert(text.substr(0, text.find(' ')));
    }
  return opcodes;
}

TEST(Waiting, KernelsThatWait) {
  std::set<std::string> waits;
  for (const std::string& kernel : recorded_kernels())
    if (!waiting_code(kernel).empty()) waits.insert(kernel);
  EXPECT_EQ(waits, (std::set<std::string>{"bulk_copy", "cluster_copy", "grid_sync", "spin_lock", "tensor_copy", "warp_specialised"}));
}

TEST(Waiting, IsTheLoopAndNothingElse) {
  EXPECT_EQ(waiting_code("tensor_copy"),
            (std::set<std::string>{"BRA", "ISETP.GE.U32.AND", "SYNCS.PHASECHK.TRANS64.TRYWAIT", "VIADD"}));
  EXPECT_TRUE(waiting_code("warp_specialised").contains("USETMAXREG.TRY_ALLOC.CTAPOOL"));
  EXPECT_EQ(waiting_code("grid_sync"),
            (std::set<std::string>{"BRA", "CCTL.IVALL", "ISETP.GT.AND", "LD.E.STRONG.GPU", "LOP3.LUT", "YIELD"}));
}

// All loops of the recorded kernels that wait do nothing else.
TEST(Waiting, RecordedKernelsPoll) {
  for (const char* kernel : {"bulk_copy", "cluster_copy", "grid_sync", "spin_lock", "tensor_copy", "warp_specialised"}) {
    const replay::LaunchImage launch = recorded_launch(kernel);
    const bundle::LaunchRecord& r = launch.record;
    const auto splicer = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
    ASSERT_TRUE(splicer) << splicer.error().to_string();
    EXPECT_EQ(splicer->polling(), splicer->waiting()) << kernel;
  }
}

// In place of saxpy's code, whose EXITs are at 0x70 and 0x120. Everything waits for what was loaded but IADD3 and BRA.
replay::LaunchImage launch_of(std::vector<std::string> lines) {
  return assembled_launch("saxpy", std::move(lines), 0x12, [](const std::string& line) { return !line.starts_with("IADD3") && !line.starts_with("BRA"); });
}

// A flag is polled; with `work` beside a load that asks nobody.
struct Loop {
  size_t waiting = 0, polling = 0;   // blocks
};
Loop loop_with(const char* work) {
  const replay::LaunchImage launch =
      launch_of({"ULDC.64 UR4, c[0x0][0x208]", "LDC.64 R2, c[0x0][0x218]", "LDG.E.STRONG.SYS R4, desc[UR4][R2.64]", work,
                 "ISETP.NE.AND P0, PT, R4, RZ, PT", "@P0 BRA 0x20", "NOP", "@!PT EXIT"});
  const auto splicer = instrument::Splicer::create(launch.code, "saxpy", {launch.record.grid, launch.record.block});
  EXPECT_TRUE(splicer) << splicer.error().to_string();
  const std::vector<bool> waiting = splicer->waiting(), polling = splicer->polling();
  return {static_cast<size_t>(std::count(waiting.begin(), waiting.end(), true)),
          static_cast<size_t>(std::count(polling.begin(), polling.end(), true))};
}
TEST(Waiting, LoopsThatReadDataDoNotOnlyPoll) {
  const Loop alone = loop_with("IADD3 R5, R5, 0x1, RZ"), asks_twice = loop_with("LDG.E.STRONG.SYS R6, desc[UR4][R2.64+0x4]"),
             beside_data = loop_with("LDG.E R6, desc[UR4][R2.64+0x4]"), beside_shared = loop_with("LDS R6, [RZ]");
  EXPECT_EQ(alone.waiting, 1u);
  EXPECT_EQ(alone.polling, 1u);
  EXPECT_EQ(asks_twice.polling, 1u);
  EXPECT_EQ(beside_data.waiting, 1u);
  EXPECT_EQ(beside_data.polling, 0u);
  EXPECT_EQ(beside_shared.waiting, 1u);
  EXPECT_EQ(beside_shared.polling, 0u);
}

// Lanes get to 0xb0 by a block of two instructions that could do without a record, or by a loop that has none.
class TwoWays : public SplicedLaunch {
 protected:
  const char* refusal(ProbeKind, std::optional<Records>) const override { return nullptr; }
};
TEST_F(TwoWays, AreToldApart) {
  replay::LaunchImage image = launch_of({"S2R R0, SR_TID.X", "ULDC.64 UR4, c[0x0][0x208]", "LDC.64 R2, c[0x0][0x218]",
                                         "ISETP.LT.U32.AND P0, PT, R0, 0x28, PT", "@P0 BRA 0x80", "IADD3 R5, R0, 0x1, RZ", "BRA 0xb0",
                                         "@!PT EXIT", "LDG.E.STRONG.SYS R4, desc[UR4][R2.64]", "ISETP.EQ.AND P1, PT, R4, 0x12345678, PT",
                                         "@P1 BRA 0x80"});
  image.after = image.before;
  observe(std::move(image));
  trace(ProbeKind::block, trace::TraceKind::block, Records::brief);
  left_out = splicer->polling();
  EXPECT_EQ(std::count(left_out.begin(), left_out.end(), true), 1);
  trace(ProbeKind::block, trace::TraceKind::block, Records::brief);
  clock_gap = instrument::usual_clock_gap;
  trace(ProbeKind::inst, trace::TraceKind::inst, Records::brief);
}

}  // namespace
}  // namespace xtrace::interp_test
