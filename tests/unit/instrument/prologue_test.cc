// Loads of special registers: the kernel's own serve the prologue, and ours stand behind them.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/instrument/sabotage.h"

namespace xtrace::instrument::test {
namespace {

constexpr BitRange special_register = bits(79, 72), result_register = bits(23, 16);
constexpr uint64_t virtid = 3, ctaid_x = 37;

struct Loads {
  std::vector<uint64_t> ours;       // special registers
  bool first = false;               // one of ours stands in front of the kernel's last one in the entry block
};
Loads loads_of(const Case& c) {
  Loads found;
  uint32_t last_own = 0, first_ours = ~0u;
  const uint32_t entry_end = c.spliced.map.blocks[0].instructions * sass::inst_bytes;
  for (uint32_t k = 0; k < word_count(c); ++k) {
    const std::string_view mnemonic = effects_at(c, k).mnemonic;
    const uint32_t origin = c.claims.original_of_new[k];
    if (mnemonic != "S2R" && mnemonic != "S2UR") continue;
    if (origin == wire::AddressMap::inserted) {
      found.ours.push_back(get_bits(word_at(c, c.spliced.cubin, k), special_register));
      first_ours = std::min(first_ours, k);
    } else if (origin < entry_end) {
      last_own = k;
    }
  }
  found.first = first_ours < last_own;
  return found;
}

// Of a grid and CTAs in one dimension; nothing where the kernel is refused.
std::optional<Case> in_one_dimension(const Kernel& k) { return short_block_case(k, {{120, 1, 1}, {128, 1, 1}, {0, 0, 0}, 0}); }

// Both load the numbers of thread and CTA themselves. Where the rest of the prologue stands the registers of reduce_sum still hold them; that of
// saxpy with the number of the CTA holds something else.
TEST(Prologue, TakesTheKernelsOwnNumbers) {
  const std::vector<std::pair<const char*, std::vector<uint64_t>>> expected{{"reduce_sum", {virtid}}, {"saxpy", {ctaid_x, virtid}}};
  for (const auto& [name, ours] : expected) {
    const auto c = in_one_dimension(fixture_kernel(name));
    ASSERT_TRUE(c);
    const Loads loads = loads_of(*c);
    EXPECT_EQ(loads.ours, ours) << name;
    EXPECT_FALSE(loads.first) << name;
  }
}

TEST(Prologue, LoadsBehindTheKernels) {
  size_t behind = 0, fewer = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto c = in_one_dimension(k);
    if (!c) continue;
    const Loads loads = loads_of(*c);
    behind += !loads.first;
    fewer += loads.ours.size() == 1;
  }
  EXPECT_GE(behind, 15u);
  EXPECT_GE(fewer, 10u);
}

}  // namespace
}  // namespace xtrace::instrument::test
