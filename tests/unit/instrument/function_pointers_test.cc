// Calls through function pointers: where they may lead, and the branches by which spliced code gets there.
#include "instrument/function_pointers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/branch.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

const char* const kernels[] = {"pointers_virtual", "pointers_table", "pointers_argument"};

Result<Code> code_of(ByteView cubin, const std::string& kernel) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(cubin));
  XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, kernel));
  return read_code(image, info);
}

TEST(FunctionPointers, LeadToEveryFunctionThatConstantsName) {
  for (const char* arch : {"sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"}) {
    size_t with_calls = 0;
    for (const Kernel& k : fixture_kernels(arch)) {
      if (k.file.stem() != "pointers") continue;
      SCOPED_TRACE(k.name + " " + arch);
      const auto code = code_of(k.cubin, k.name);
      ASSERT_TRUE(code) << code.error().to_string();
      if (std::ranges::none_of(code->pointers.calls, [&](InstIndex i) { return bool{code->reachable[i]}; })) continue;   // makes objects, calls nothing
      ++with_calls;
      const cubin::Image image = *cubin::Image::parse(k.cubin);
      const cubin::KernelInfo info = *cubin::kernel_info(image, k.name);
      EXPECT_EQ(code->pointers.entries.size(), info.functions.size()) << "all of them are virtual, or in the table";
      ASSERT_GE(code->pointers.entries.size(), 2u);
      for (const InstIndex call : code->pointers.calls) {
        ASSERT_TRUE(code->reachable[call]);
        const auto next = code->successors(call);
        for (const InstIndex entry : code->pointers.entries) {
          EXPECT_THAT(next, Contains(entry));
          const auto f = std::ranges::find(code->functions, entry, &Function::entry);
          ASSERT_NE(f, code->functions.end());
          EXPECT_THAT(f->calls_to_it, Contains(call));
          for (const InstIndex ret : f->rets) EXPECT_THAT(code->successors(ret), Contains(call + 1));
        }
      }
    }
    EXPECT_EQ(with_calls, 3u);
  }
}

TEST(FunctionPointers, WithoutAFunctionToLeadToAreRefusedByName) {
  const Kernel k = fixture_kernel("pointers_table");
  cubin::Image image = *cubin::Image::parse(k.cubin);
  const cubin::KernelInfo info = *cubin::kernel_info(image, k.name);
  const uint32_t bank = info.constant_sections.at(2);
  image.set_section_data(bank, Bytes(image.sections()[bank].data.size()));
  const auto code = code_of(*image.write(), k.name);
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(code.error().message, HasSubstr("call through a register, whose targets are not proved, at pointers_table@0x"));
}

// Words behind all copies: the branches, and the traps between them.
std::vector<uint32_t> words_behind(const Case& c, bool traps) {
  uint32_t last = 0;
  for (uint32_t k = 0; k < word_count(c); ++k)
    if (!inserted(c, k)) last = k;
  std::vector<uint32_t> found;
  for (uint32_t k = last + 1; k < word_count(c); ++k) {
    const sass::Effects fx = sass::effects(**sass::find_arch(90), word_at(c, c.spliced.cubin, k), k * 16);
    if (traps ? fx.mnemonic == "BPT" : fx.flow == sass::Flow::branch) found.push_back(k);
  }
  return found;
}

TEST(FunctionPointers, EveryBranchAndTrapMatters) {
  const sass::Arch& arch = **sass::find_arch(90);
  for (const char* kernel : kernels)
    for (const uint32_t one_in : {1u, 4u}) {
      SCOPED_TRACE(kernel);
      const Case c = splice_case(fixture_kernel(kernel), plan_of(ProbeKind::block, one_in));
      EXPECT_TRUE(c.verify().empty());
      const auto branches = words_behind(c, false), traps = words_behind(c, true);
      const auto code = code_of(c.kernel.cubin, c.kernel.name);
      ASSERT_TRUE(code);
      EXPECT_EQ(branches.size(), code->pointers.entries.size()) << "of the traced copy: in the other one all have moved by as much";
      EXPECT_GT(traps.size(), 0u);
      const std::set<std::string> rule{"pointer-followed"};
      for (const uint32_t k : branches) {
        EXPECT_EQ(broken(c, k, [](sass::RawInst& w) { w = sass::enc::with_guard(w, sass::enc::Pred{0}); }), rule) << "under a guard";
        EXPECT_EQ(broken(c, k,
                         [&](sass::RawInst& w) {
                           const auto fx = sass::effects(arch, w, k * 16);
                           ASSERT_TRUE(sass::set_target(arch, w, k * 16, *fx.target + 16));
                         }),
                  rule)
            << "past a record, or past the function's first instruction";
      }
      for (const uint32_t k : traps) EXPECT_EQ(broken(c, k, [](sass::RawInst& w) { w = sass::enc::nop(); }), rule);
      for (uint32_t k = 0; k < word_count(c); ++k) {
        if (!sass::register_branch_base(arch, word_at(c, c.spliced.cubin, k), k * 16) ||
            sass::effects(arch, word_at(c, c.spliced.cubin, k), k * 16).mnemonic != "CALL")
          continue;
        for (const int64_t to : {0, 16})
          EXPECT_EQ(broken(c, k,
                           [&](sass::RawInst& w) {
                             const int64_t base = to == 0 ? 0 : *sass::register_branch_base(arch, w, k * 16) + to;
                             ASSERT_TRUE(sass::set_register_branch_base(arch, w, k * 16, base));
                           }),
                    rule)
              << "as in the original, or a function further";
      }
    }
}

}  // namespace
}  // namespace xtrace::instrument::test
