// What is read of the code of real cubins.
#include <gtest/gtest.h>

#include "base/file.h"
#include "instrument/code.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

// What the loader writes into is found, and where that is an access, its address is not covered.
TEST(Relocated, ImmediatesOfAVariablesAddress) {
  const Bytes cubin = read_file(std::string(XTRACE_SOURCE_DIR) + "/fixtures/cubins/sm_90/patched_address.cubin").value();
  const auto image = cubin::Image::parse(cubin);
  auto code = read_code(*image, *cubin::kernel_info(*image, "patched_address"));
  ASSERT_TRUE(code);
  std::vector<uint32_t> at;
  for (InstIndex i = 0; i < code->insts.size(); ++i)
    if (code->insts[i].relocated) at.push_back(code->pc(i));
  EXPECT_EQ(at, (std::vector<uint32_t>{0x30, 0x80}));
  const InstIndex load = code->index(0x120);
  EXPECT_TRUE(std::holds_alternative<std::vector<sass::Access>>(accesses(*code, load)));
  code->insts[load].relocated = true;
  EXPECT_EQ(std::get<sass::NotCovered>(accesses(*code, load)), "the loader fills in its offset");
}

// LDC R1 of kernels without a stack.
TEST(Code, NoConstantIsLoadedWithoutAScoreboard) {
  size_t given = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto image = cubin::Image::parse(k.cubin);
    const auto info = cubin::kernel_info(*image, k.name);
    const auto code = read_code(*image, *info);
    if (!code) continue;
    const Bytes& text = image->sections()[info->text_section].data;
    for (InstIndex i = 0; i < code->insts.size(); ++i) {
      if (!code->reachable[i] || code->insts[i].fx.mnemonic != "LDC") continue;
      const sass::Control now = sass::get_control(code->insts[i].raw);
      const sass::Control before = sass::get_control(*read_at<sass::RawInst>(text, code->pc(i), "word"));
      EXPECT_LT(now.write_barrier, 6) << where(*code, i);
      if (before.write_barrier == now.write_barrier) continue;
      ++given;
      EXPECT_GE(now.stall, 2) << where(*code, i);
      // Nobody counts groups on it, and the next instruction does not wait for it at once.
      for (InstIndex j = 0; j < code->insts.size(); ++j)
        EXPECT_FALSE(code->reachable[j] && code->insts[j].fx.uses_scoreboard_count && code->insts[j].fx.depbar_scoreboard == now.write_barrier)
            << where(*code, j);
    }
  }
  EXPECT_GE(given, 10u);
}

}  // namespace
}  // namespace xtrace::instrument::test
