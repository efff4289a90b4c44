// Loops that wait for others, found in the code of the recorded kernels.
#include <gtest/gtest.h>

#include <set>

#include "instrument/instrument.h"
#include "tests/unit/interp/recordings.h"

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

}  // namespace
}  // namespace xtrace::interp_test
