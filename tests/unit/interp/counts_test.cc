// What `count` counts is what the interpreter saw of the original kernel by itself.
#include "tests/unit/interp/spliced_code.h"

namespace xtrace::interp_test {
namespace {

class Counted : public SplicedCode {
 protected:
  // `apart`: the last warp of each CTA in counters of its own.
  void counts_are_those_of_the_witness(bool apart = false);
};

TEST_P(Counted, AreThoseOfTheWitness) {
  counts_are_those_of_the_witness();
  counts_are_those_of_the_witness(true);
  left_out = splicer->polling();
  counts_are_those_of_the_witness();
}

void Counted::counts_are_those_of_the_witness(bool apart) {
  const auto blocks = static_cast<uint32_t>(splicer->blocks().size()), counters = apart ? 2 * blocks : blocks;
  instrument::SlotPlan plan = instrument::plan_counters(warps, counters);
  const auto buffer = backend->allocate(plan.total_bytes, "counters");
  ASSERT_TRUE(buffer);
  instrument::place(plan, buffer->value);
  instrument::Plan count;
  count.probe = ProbeKind::count;
  count.unrecorded = left_out;
  count.last_apart = apart;
  const auto result = spliced(count, plan.layout, {});
  if (!result) return;
  ASSERT_NO_FATAL_FAILURE(run(result->cubin));

  std::vector<wire::BlockCount> expected(counters);
  for (const auto& [warp, events] : seen)
    for (const Event& e : events) {
      wire::BlockCount& c = expected[e.block + (apart && (warp + 1) % splicer->warps_per_cta() == 0 ? blocks : 0)];
      c.warps += 1;
      c.lanes += static_cast<uint32_t>(std::popcount(e.mask));
    }
  const auto counted = backend->read(DevPtr{plan.layout.counters}, buffer->value + plan.total_bytes - plan.layout.counters);
  ASSERT_TRUE(counted);
  const std::vector<wire::BlockCount> sums = instrument::sum_counters(result->map, *counted);
  uint64_t executions = 0;
  for (uint32_t b = 0; b < counters; ++b) {
    EXPECT_EQ(sums[b].warps, expected[b].warps) << "block " << b;
    EXPECT_EQ(sums[b].lanes, expected[b].lanes) << "block " << b;
    executions += sums[b].warps;
  }
  EXPECT_GE(executions, warps);
  // What each warp would write under the probes that need slots.
  const auto headers = backend->read(DevPtr{plan.layout.headers}, uint64_t{warps} * sizeof(wire::WarpHeader));
  ASSERT_TRUE(headers);
  const std::vector<uint32_t> block_bytes = bytes_of(ProbeKind::block), inst_bytes = bytes_of(ProbeKind::inst),
                              mem_bytes = bytes_of(ProbeKind::mem);
  for (uint32_t w = 0; w < warps; ++w) {
    const auto h = read_at<wire::WarpHeader>(*headers, w * sizeof(wire::WarpHeader), "header");
    ASSERT_TRUE(h);
    EXPECT_EQ(h->bytes, block_bytes[w]) << "warp " << w;
    EXPECT_EQ(h->exit_clock_lo, inst_bytes[w]) << "warp " << w;
    EXPECT_EQ(h->sm, mem_bytes[w]) << "warp " << w;
  }
  ASSERT_TRUE(backend->release(*buffer));
}

// Points that record every other execution count their own in between, in registers of the same plan.
TEST_P(Counted, AreThoseOfTheWitnessBesidePointsThatTakeTurns) {
  if (GetParam().arch != "sm_90") return;
  const instrument::Splicer turns = splicer->sparse({8, 0, 2});
  instrument::SlotPlan plan = instrument::plan_counters(warps, static_cast<uint32_t>(splicer->blocks().size()));
  const auto buffer = backend->allocate(plan.total_bytes, "counters");
  ASSERT_TRUE(buffer);
  instrument::place(plan, buffer->value);
  instrument::Plan count;
  count.probe = ProbeKind::count;
  count.counted = ProbeKind::latency;
  const auto result = turns.splice(count, plan.layout);
  if (result) {
    ASSERT_NO_FATAL_FAILURE(run(result->cubin));
    const auto bytes = backend->read(DevPtr{plan.layout.counters}, buffer->value + plan.total_bytes - plan.layout.counters);
    ASSERT_TRUE(bytes);
    std::vector<wire::BlockCount> sums = instrument::sum_counters(result->map, *bytes), expected(sums.size());
    for (const auto& [warp, events] : seen)
      for (const Event& e : events) {
        expected[e.block].warps += 1;
        expected[e.block].lanes += static_cast<uint32_t>(std::popcount(e.mask));
      }
    EXPECT_EQ(sums, expected);
  } else {
    EXPECT_EQ(result.error().kind, ErrorKind::unsupported) << result.error().to_string();
  }
  ASSERT_TRUE(backend->release(*buffer));
}

// Packed where the executions are known, else not; by whatever warp. `many`: they are said to be more than they are.
TEST_P(Counted, AloneAreThoseOfTheWitness) {
  std::vector<wire::BlockCount> expected(splicer->blocks().size());
  for (const auto& [warp, events] : seen)
    for (const Event& e : events) {
      expected[e.block].warps += 1;
      expected[e.block].lanes += static_cast<uint32_t>(std::popcount(e.mask));
    }
  enum class Known { nothing, few, many };
  for (const Known known : {Known::few, Known::many, Known::nothing}) {
    SCOPED_TRACE(static_cast<int>(known));
    instrument::SlotPlan plan = instrument::plan_counters(warps, static_cast<uint32_t>(expected.size()), false);
    const auto buffer = backend->allocate(plan.total_bytes, "counters");
    ASSERT_TRUE(buffer);
    instrument::place(plan, buffer->value);
    instrument::Plan count;
    count.probe = ProbeKind::count;
    count.counts_alone = true;
    for (const wire::BlockCount& c : expected)
      if (known != Known::nothing) count.executions.push_back(c.warps + (known == Known::many ? 1u << 20 : 0));
    const auto result = spliced(count, plan.layout, {});
    if (!result) return;
    ASSERT_NO_FATAL_FAILURE(run(result->cubin));
    const auto bytes = backend->read(DevPtr{plan.layout.counters}, buffer->value + plan.total_bytes - plan.layout.counters);
    ASSERT_TRUE(bytes);
    uint32_t packed = 0, narrow = 0, narrow_packed = 0;
    const std::vector<wire::BlockCount> sums = instrument::sum_counters(result->map, *bytes);
    for (uint32_t b = 0; b < expected.size(); ++b) {
      const wire::Block& block = result->map.blocks[b];
      packed += block.packed_count && !block.narrow_count;
      narrow += block.narrow_count;
      narrow_packed += block.narrow_count && block.packed_count;
      EXPECT_EQ(sums[b].warps, expected[b].warps) << "block " << b;
      EXPECT_EQ(sums[b].lanes, expected[b].lanes) << "block " << b;
    }
    EXPECT_EQ(packed > 0, known != Known::nothing);
    // Where registers are few: of the one that there is, by a loop in two additions unless it goes round seldom.
    if (GetParam().kernel == "many_registers" && GetParam().arch == "sm_90") {
      EXPECT_GT(narrow_packed, 0u);
      EXPECT_EQ(narrow == narrow_packed, known == Known::few);
    }
    ASSERT_TRUE(backend->release(*buffer));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Counted, testing::ValuesIn(codes()),
                         [](const auto& p) { return p.param.kernel + "_" + p.param.arch; });

}  // namespace
}  // namespace xtrace::interp_test
