// `mem` where no register is free: one of the kernel's stands aside in local memory. What the trace says is checked with all kernels
// (mem_test.cc); here, that the verifier sees when a register does not come back.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "instrument/cubin/kernel_info.h"
#include "instrument/instrument.h"
#include "instrument/slot_plan.h"
#include "instrument/verify.h"
#include "tests/unit/interp/recordings.h"

namespace xtrace::interp_test {
namespace {

using instrument::ProbeKind;
using instrument::SpliceClaims;

constexpr uint16_t stl_uniform = 0x1987, ldl_uniform = 0x1983;
constexpr BitRange place_field = bits(63, 40);

class Spilled : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    launch = recorded_launch(GetParam());
    const bundle::LaunchRecord& r = launch.record;
    const auto splicer = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
    ASSERT_TRUE(splicer) << splicer.error().to_string();
    instrument::RecordForm form;
    form.lines = true;
    instrument::SlotPlan slots = instrument::plan_slots(std::vector<uint32_t>(r.grid.count() * 64), 1024, false, form, 1 << 30);
    instrument::place(slots, 1ull << 40);
    auto result = splicer->splice({ProbeKind::mem, {}, 1, 0, {}, {}}, slots.layout);
    ASSERT_TRUE(result) << result.error().to_string();
    spliced = std::move(*result);
    const auto image = cubin::Image::parse(spliced.cubin);
    const auto info = cubin::kernel_info(*image, r.kernel);
    const Bytes& text = image->sections()[info->text_section].data;
    at = static_cast<size_t>(std::search(spliced.cubin.begin(), spliced.cubin.end(), text.begin(), text.end()) - spliced.cubin.begin());
    frame = info->frame_bytes;
    for (size_t k = 0; k < text.size() / sass::inst_bytes; ++k) {
      const bool inserted = spliced.map.original_of_new[k] == wire::AddressMap::inserted;
      if (inserted && sass::opcode13(word(k)) == stl_uniform) saves.push_back(k);
      if (inserted && sass::opcode13(word(k)) == ldl_uniform) restores.push_back(k);
    }
  }
  sass::RawInst word(size_t k) const { return *read_at<sass::RawInst>(spliced.cubin, at + k * sass::inst_bytes, "word"); }
  std::set<std::string> rules(const Bytes& cubin, const SpliceClaims& claims) const {
    std::set<std::string> names;
    const auto violations = instrument::verify_splice(launch.code, cubin, launch.record.kernel, claims);
    EXPECT_TRUE(violations);
    for (const instrument::Violation& v : *violations) names.emplace(v.rule);
    return names;
  }
  std::set<std::string> broken(size_t k, const std::function<void(sass::RawInst&)>& change) const {
    Bytes cubin = spliced.cubin;
    sass::RawInst w = word(k);
    change(w);
    write_at(std::span(cubin), at + k * sass::inst_bytes, w);
    return rules(cubin, spliced.claims);
  }
  static void to_nop(sass::RawInst& w) {
    const sass::Control c = sass::get_control(w);
    w = sass::RawInst{0x0000000000007918, 0x0000000000000000};
    sass::set_control(w, c);
  }

  replay::LaunchImage launch;
  instrument::Spliced spliced;
  size_t at = 0;
  uint32_t frame = 0;
  std::vector<size_t> saves, restores;
};
INSTANTIATE_TEST_SUITE_P(Kernels, Spilled, testing::Values("many_registers", "launch_bounds"), [](const auto& p) { return p.param; });

TEST_P(Spilled, InAFrameThatIsLargerByThat) {
  EXPECT_GT(spliced.report.spills, 0u);
  EXPECT_EQ(saves.size(), spliced.report.spills);
  EXPECT_EQ(restores.size(), spliced.report.spills);
  EXPECT_EQ(frame, spliced.report.spill_frame);
  EXPECT_EQ(frame % 16, 0u);
  EXPECT_GE(frame, spliced.report.original_frame + 4);
  EXPECT_FALSE(spliced.report.costs_occupancy);
  EXPECT_EQ(spliced.report.new_registers, spliced.report.original_registers);
  EXPECT_EQ(rules(spliced.cubin, spliced.claims), std::set<std::string>{});
}

TEST_P(Spilled, ARegisterThatDoesNotComeBackIsSeen) {
  const std::string rule = "spilled-register";
  for (const size_t k : {restores.front(), restores.back()}) {
    SCOPED_TRACE(k);
    EXPECT_TRUE(broken(k, to_nop).contains(rule));
    EXPECT_TRUE(broken(k, [](sass::RawInst& w) { set_bits(w, bits(23, 16), get_bits(w, bits(23, 16)) ^ 1); }).contains(rule));        // another register
    EXPECT_TRUE(broken(k, [](sass::RawInst& w) { set_bits(w, place_field, get_bits(w, place_field) + 4); }).contains(rule));          // another place
    EXPECT_TRUE(broken(k, [](sass::RawInst& w) { set_bits(w, bits(15, 12), 0); }).contains(rule));                                    // some lanes alone
  }
  size_t early = 0;   // but where the kernel waits for the same scoreboard next
  for (const size_t k : restores)
    early += broken(k + 1, [](sass::RawInst& w) {
      sass::Control c = sass::get_control(w);
      c.wait_mask = 0;
      sass::set_control(w, c);
    }).contains("register-clobber");
  EXPECT_GT(early, 0u);
  for (const size_t k : {saves.front(), saves.back()}) {
    SCOPED_TRACE(k);
    EXPECT_TRUE(broken(k, to_nop).contains(rule));
    EXPECT_TRUE(broken(k, [](sass::RawInst& w) { set_bits(w, place_field, get_bits(w, place_field) + 16); }).contains(rule));          // in the kernel's frame
    EXPECT_TRUE(broken(k - 1, [](sass::RawInst& w) { set_bits(w, bits(53, 38), 0x20); }).contains(rule));                             // not the stack's top
    EXPECT_TRUE(broken(k, [](sass::RawInst& w) {
      sass::Control c = sass::get_control(w);
      c.read_barrier = sass::Control::no_barrier;
      sass::set_control(w, c);
    }).contains("store-overwritten"));
  }
}

TEST_P(Spilled, AFrameWithoutRoomIsSeen) {
  SpliceClaims claims = spliced.claims;
  claims.spill_frame -= 16;
  EXPECT_TRUE(rules(spliced.cubin, claims).contains("spilled-register"));
  claims.spill_frame = 0;
  EXPECT_TRUE(rules(spliced.cubin, claims).contains("spilled-register"));
}

}  // namespace
}  // namespace xtrace::interp_test
