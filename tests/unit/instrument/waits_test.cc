// What the waits of probes cost the kernel.
#include <gtest/gtest.h>

#include <array>

#include "instrument/code.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument {
namespace {

// Words of the spliced text that wait, where the original instruction that follows does not, on a scoreboard on which a load of the
// kernel is under way: each costs a trip to memory.
std::vector<std::string> waits_for_loads(const test::Kernel& k, const Spliced& spliced, const Code& code) {
  std::vector<std::string> found;
  const auto image = cubin::Image::parse(spliced.cubin);
  const auto& text = image->sections()[*image->text_section(k.name)].data;
  std::array<uint32_t, 6> loads{};
  const auto own_wait = [&](uint32_t n) -> uint8_t {   // of the original instruction at or behind word n
    const std::vector<uint32_t>& original = spliced.map.original_of_new;
    while (n < original.size() && original[n] == wire::AddressMap::inserted) ++n;
    return n < original.size() ? sass::get_control(code.insts[code.index(original[n])].raw).wait_mask : uint8_t{0};
  };
  for (uint32_t n = 0; n < spliced.map.original_of_new.size(); ++n) {
    const auto w = *read_at<sass::RawInst>(text, uint64_t{n} * sass::inst_bytes, "word");
    const sass::Control c = sass::get_control(w);
    const uint32_t original = spliced.map.original_of_new[n];
    const bool own = original != wire::AddressMap::inserted;
    const auto added = static_cast<uint8_t>(c.wait_mask & ~own_wait(n));
    for (unsigned sb = 0; sb < 6; ++sb) {
      if (added >> sb & 1 && loads[sb] != 0) found.push_back(fmt::format("word {}, scoreboard {}", n, sb));
      if (c.wait_mask >> sb & 1) loads[sb] = 0;
    }
    if (!own) continue;
    const sass::Effects& fx = code.insts[code.index(original)].fx;
    if (c.write_barrier < 6 && fx.kind == sass::MemKind::load && fx.space != sass::MemSpace::constant) ++loads[c.write_barrier];
  }
  return found;
}

TEST(Waits, NoStoreMakesTheKernelWaitForItsOwnLoads) {
  size_t kernels = 0;
  for (const test::Kernel& k : test::fixture_kernels("sm_90")) {
    const auto image = cubin::Image::parse(k.cubin);
    const auto info = cubin::kernel_info(*image, k.name);
    const auto code = read_code(*image, *info);
    if (!code) continue;
    for (const ProbeKind probe : {ProbeKind::block, ProbeKind::inst, ProbeKind::mem}) {
      Plan plan = test::plan_of(probe);
      plan.full_blocks.assign(code->insts.size(), true);
      const wire::SlotLayout layout = test::some_layout(test::small_shape(), false, false);
      const auto spliced = splice(k.cubin, k.name, test::small_shape(), plan, layout);
      if (!spliced) continue;
      ++kernels;
      const auto found = waits_for_loads(k, *spliced, *code);
      EXPECT_TRUE(found.empty()) << k.name << " under " << probe_info(probe).name << ": " << found.size() << ", first "
                                 << found[0];
    }
  }
  EXPECT_GE(kernels, 26u);
}

}  // namespace
}  // namespace xtrace::instrument
