// Spliced kernels on the interpreter: outputs stay what the H200 left, and what the probes recorded is what
// the interpreter saw of the original kernel by itself, event by event.
#include "tests/unit/interp/spliced_code.h"
#include "trace/stretch.h"

namespace xtrace::interp_test {
namespace {

// Lanes of every execution of one instruction, by warp.
class PcWitness final : public replay::interp::WitnessSink {
 public:
  explicit PcWitness(uint32_t pc) : pc_(pc) {}
  void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t) override {
    if (pc == pc_) masks[warp].push_back(active);
  }
  std::map<uint32_t, std::vector<uint32_t>> masks;

 private:
  uint32_t pc_;
};

class Spliced : public SplicedCode {};

TEST_P(Spliced, BlockTraceIsTheWitness) {
  for (Records r : {Records::wrapping, Records::plain, Records::brief}) {
    SCOPED_TRACE(static_cast<int>(r));
    trace(ProbeKind::block, trace::TraceKind::block, r);
  }
}
TEST_P(Spliced, InstTraceIsTheWitness) {
  for (Records r : {Records::wrapping, Records::plain}) {
    SCOPED_TRACE(static_cast<int>(r));
    trace(ProbeKind::inst, trace::TraceKind::inst, r);
  }
}
TEST_P(Spliced, TracesInWholeSectorsAreTheWitness) {
  if (!splicer->can_fill_sectors(false)) return;
  for (const uint32_t gap : {0u, instrument::usual_clock_gap}) {
    clock_gap = gap;
    trace(ProbeKind::inst, trace::TraceKind::inst, Records::sectors);
  }
  if (splicer->can_fill_sectors(true)) trace(ProbeKind::inst, trace::TraceKind::inst, Records::sectors, 4);
  slots_of_their_own = true;
  trace(ProbeKind::inst, trace::TraceKind::inst, Records::sectors);
}
TEST_P(Spliced, PackedInstTraceIsTheWitness) {
  for (Records r : {Records::packed, Records::brief}) {
    SCOPED_TRACE(static_cast<int>(r));
    trace(ProbeKind::inst, trace::TraceKind::inst, r);
  }
}
// With clocks left out that others tell, and records of whole blocks.
TEST_P(Spliced, InstTraceWithImpliedClocksIsTheWitness) {
  for (const uint32_t gap : {1u, 8u, instrument::usual_clock_gap, 1000u}) {
    clock_gap = gap;
    for (Records r : {Records::plain, Records::packed, Records::brief}) {
      SCOPED_TRACE(fmt::format("at most {} cycles, {}", gap, static_cast<int>(r)));
      trace(ProbeKind::inst, trace::TraceKind::inst, r);
    }
  }
  clock_gap = instrument::usual_clock_gap;
  for (Records r : {Records::packed, Records::brief}) trace(ProbeKind::inst, trace::TraceKind::inst, r, 4);
}
// Sparse sites: each part is the witness of its blocks, under `inst` with clocks at its sites alone; and together they have every
// block under `block`, and every instruction under `inst`, once.
TEST_P(Spliced, PartsOfSparseSitesAreTheWitness) {
  const instrument::Splicer whole = *splicer;
  const auto together = [&](ProbeKind probe, trace::TraceKind kind, Records records, uint32_t n) {
    SCOPED_TRACE(fmt::format("{} site:1/{}, {}", instrument::probe_info(probe).name, n, static_cast<int>(records)));
    std::vector<uint32_t> blocks(whole.blocks().size(), 0);
    std::map<uint32_t, uint32_t> clocks;   // by pc: parts in which it was looked at
    parts = n;
    uint32_t replayed = 0;
    for (part = 0; part < n; ++part) {
      SCOPED_TRACE(part);
      splicer = whole.sparse({n, part});
      const auto note = [&](const wire::AddressMap& map) {
        EXPECT_EQ(map.sites_one_in, n);
        for (uint32_t b = 0; b < map.blocks.size(); ++b) {
          const wire::Block& block = map.blocks[b];
          const bool polls = leaves_out(b);
          EXPECT_EQ(block.unrecorded, polls || of_other_part(probe, b)) << b;
          EXPECT_EQ(block.other_part, !polls && of_other_part(probe, b)) << b;
          const bool recorded = block.record_bytes != 0 || (map.layout.entry_in_head && b == 0);
          EXPECT_EQ(recorded, !block.unrecorded) << b;
          blocks[b] += recorded || polls;
          uint32_t sites = 0, read = 0;
          for (uint32_t k = 0; k < block.instructions; ++k) {
            const bool site = (block.first_pc / 16 + k) % n == part;
            clocks[block.first_pc + 16 * k] += site && (recorded || polls);
            sites += site;
            read += recorded && block.has_clock(k);
            const bool absent = recorded && !block.clock_at.empty() && block.clock_at[k].bytes == wire::ClockPlace::absent;
            EXPECT_TRUE(site || !absent) << b << " " << k;
          }
          if (!recorded || probe != ProbeKind::inst || block.clock_at.empty()) continue;
          EXPECT_GE(read, 1u) << b;
          EXPECT_LE(read, sites) << b;
          if (records == Records::brief && sites == 1) { EXPECT_EQ(block.record_bytes, 8u) << b; }
        }
      };
      bool any = false;
      for (uint32_t b = 0; b < blocks.size(); ++b) any |= !of_other_part(probe, b);
      if (!any) continue;
      std::optional<wire::AddressMap> of_splice;
      look = [&](const trace::WarpTrace&, const wire::AddressMap&, const instrument::Spliced& s) {
        if (!of_splice) of_splice = s.map;
      };
      trace(probe, kind, records);
      look = nullptr;
      if (!of_splice) return;   // refused as refusal() says
      note(*of_splice);
      ++replayed;
    }
    EXPECT_GE(replayed, 1u);
    for (uint32_t b = 0; b < blocks.size(); ++b) {
      if (probe == ProbeKind::block)
        EXPECT_EQ(blocks[b], leaves_out(b) ? replayed : 1u) << b;
      else
        EXPECT_GE(blocks[b], 1u) << b;
    }
    for (const auto& [pc, n_clocks] : clocks)
      if (probe == ProbeKind::inst) { EXPECT_EQ(n_clocks, 1u) << pc; }
  };
  clock_gap = instrument::usual_clock_gap;
  together(ProbeKind::block, trace::TraceKind::block, Records::brief, 4);
  together(ProbeKind::inst, trace::TraceKind::inst, Records::brief, 4);
  left_out = whole.polling();
  for (Records r : {Records::wrapping, Records::plain}) together(ProbeKind::block, trace::TraceKind::block, r, 2);
  for (Records r : {Records::wrapping, Records::plain, Records::packed}) together(ProbeKind::inst, trace::TraceKind::inst, r, 2);
}
// Loops that wait for others leave no records: the trace is the rest, event by event, in every form.
TEST_P(Spliced, TraceWithoutPollsIsTheRestOfTheWitness) {
  left_out = splicer->polling();
  if (std::find(left_out.begin(), left_out.end(), true) == left_out.end()) return;
  for (uint32_t one_in : {1, 2}) {
    SCOPED_TRACE(one_in);
    for (Records r : {Records::wrapping, Records::plain, Records::brief}) {
      SCOPED_TRACE(static_cast<int>(r));
      trace(ProbeKind::block, trace::TraceKind::block, r, one_in);
    }
    for (uint32_t gap : {0u, instrument::usual_clock_gap}) {
      clock_gap = gap;
      for (Records r : {Records::wrapping, Records::plain, Records::packed, Records::brief}) {
        SCOPED_TRACE(static_cast<int>(r));
        trace(ProbeKind::inst, trace::TraceKind::inst, r, one_in);
      }
    }
  }
}
// Two clocks around one instruction, one site a replay: a record for each of its executions.
TEST_P(Spliced, PairsAreTheExecutionsOfTheirInstruction) {
  std::vector<uint32_t> pcs;
  for (const wire::Block& b : splicer->blocks())
    for (uint32_t k = 0; k < b.instructions; ++k) pcs.push_back(b.first_pc + 16 * k);
  size_t replayed = 0;
  const size_t step = std::max<size_t>(1, pcs.size() / 12) | 1;  // odd and even places
  for (size_t n = 0; n < pcs.size(); n += step) {
    SCOPED_TRACE(fmt::format("site {:#x}", pcs[n]));
    PcWitness witness(pcs[n]);
    run(launch.code, &witness);
    std::vector<uint32_t> bytes(warps, 0);
    // One record for the instruction; where it is a branch, one more whenever a block behind it is entered,
    // from wherever.
    for (const auto& [warp, events] : seen)
      bytes[warp] = static_cast<uint32_t>(wire::chunk_bytes * (witness.masks[warp].size() + events.size()));
    std::erase_if(witness.masks, [](const auto& warp) { return warp.second.empty(); });
    const bool headless = n % 2 == 0;  // plain slots without heads, and wrapping ones
    instrument::RecordForm form;
    form.headless = headless;
    instrument::SlotPlan slots =
        instrument::plan_slots(bytes, 2 * wire::chunk_bytes, !headless, form, uint64_t{1} << 30);
    const auto buffer = place_records(*backend, slots);
    ASSERT_TRUE(buffer);
    instrument::Plan plan;
    plan.probe = ProbeKind::pair;
    plan.pair_sites = {OrigPc{pcs[n]}};
    plan.full_blocks = full_blocks(false);
    plan.one_in = n / step / 2 % 2 == 0 ? 1 : 4;
    plan.seed = 7;
    const auto result = splicer->splice(plan, slots.layout);
    if (!result && result.error().kind == ErrorKind::unsupported) {  // some sites are refused by name
      ASSERT_TRUE(backend->release(*buffer));
      continue;
    }
    ASSERT_TRUE(result) << result.error().to_string();
    ASSERT_NO_FATAL_FAILURE(run(result->cubin));
    const trace::DeviceReader read = reader_of(*backend);
    trace::RecordView view{result->map, {}, slots.entries, read, 0, 0};
    if (headless) {
      auto plain = trace::view_plain_slots(result->map, read, slots.entries);
      ASSERT_TRUE(plain) << plain.error().to_string();
      view = std::move(*plain);
    } else {
      auto headers = backend->read(DevPtr{slots.layout.headers}, uint64_t{warps} * sizeof(wire::WarpHeader));
      ASSERT_TRUE(headers);
      view.headers = std::move(*headers);
    }
    std::map<uint32_t, std::vector<uint32_t>> decoded;
    const auto summary = trace::decode(view.map, trace::TraceKind::pair, view.headers, view.read,
                                       {view.table, true, {}}, [&](const trace::WarpTrace& t) -> Status {
                                         for (uint32_t k = 0; k < t.records(); ++k)
                                           if (t.kind[k] != wire::RecordKind::edge_end)
                                             decoded[t.warp].push_back(t.mask[k]);
                                         return {};
                                       });
    ASSERT_TRUE(summary) << summary.error().to_string();
    std::erase_if(witness.masks, [&](const auto& warp) {
      return !wire::cta_is_sampled(warp.first / splicer->warps_per_cta(), plan.one_in, plan.seed);
    });
    EXPECT_TRUE(decoded == witness.masks);
    EXPECT_EQ(summary->losses.count(trace::LossSeverity::lost), 0u);
    EXPECT_EQ(summary->losses.count(trace::LossSeverity::distrust), 0u);
    ASSERT_TRUE(backend->release(*buffer));
    ++replayed;
  }
  EXPECT_GE(replayed, std::min<size_t>(3, pcs.size() - 1));
}

// Stretches of blocks and of the kernel: one record for each execution, and those of all blocks fill the time that the warps
// take from their first instruction to their last.
TEST_P(Spliced, StretchesOfBlocksFillTheKernel) {
  instrument::RecordForm form;
  form.headless = true;
  const auto measure = [&](instrument::Around around, uint32_t pc, std::map<uint32_t, uint32_t>& records) -> std::optional<double> {
    std::vector<uint32_t> bytes(warps, 0);
    for (const auto& [warp, events] : seen) bytes[warp] = static_cast<uint32_t>(2 * wire::chunk_bytes * events.size());
    instrument::SlotPlan slots = instrument::plan_slots(bytes, wire::chunk_bytes, false, form, uint64_t{1} << 30);
    const auto buffer = place_records(*backend, slots);
    if (!buffer) return std::nullopt;
    instrument::Plan plan;
    plan.probe = ProbeKind::pair;
    plan.pair_sites = {OrigPc{pc}};
    plan.around = around;
    plan.full_blocks = full_blocks(false);
    plan.executions = executions();
    const auto result = splicer->splice(plan, slots.layout);
    if (!result) {
      EXPECT_EQ(result.error().kind, ErrorKind::unsupported) << result.error().to_string();
      EXPECT_TRUE(backend->release(*buffer));
      return std::nullopt;
    }
    run(result->cubin);
    const trace::DeviceReader read = reader_of(*backend);
    const auto view = trace::view_plain_slots(result->map, read, slots.entries);
    EXPECT_TRUE(view);
    double cycles = 0;
    EXPECT_TRUE(trace::decode(view->map, trace::TraceKind::pair, view->headers, view->read, {view->table, true, {}},
                              [&](const trace::WarpTrace& t) -> Status {
                                trace::for_each_stretch(t, [&](uint64_t d) {
                                  cycles += static_cast<double>(d) - result->map.sites[0].overhead_cycles;
                                  ++records[t.warp];
                                });
                                return {};
                              }));
    EXPECT_TRUE(backend->release(*buffer));
    return cycles;
  };
  std::map<uint32_t, uint32_t> lives;
  const auto life = measure(instrument::Around::kernel, 0, lives);
  if (!life) return;
  EXPECT_EQ(lives.size(), warps);
  double sum = 0;
  uint64_t stretches = 0;
  const auto& blocks = splicer->blocks();
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    std::map<uint32_t, uint32_t> expected, records;
    for (const auto& [warp, events] : seen)
      for (const Event& e : events)
        if (e.block == b) ++expected[warp];
    if (expected.empty()) continue;
    SCOPED_TRACE(fmt::format("block {:#x}", blocks[b].first_pc));
    const auto cycles = measure(instrument::Around::block, blocks[b].first_pc, records);
    if (!cycles) return;
    const bool is_exit = blocks[b].exits && blocks[b].instructions == 1;   // its stretch ends where it begins
    if (!is_exit) {
      EXPECT_EQ(records, expected);
    }
    sum += *cycles;
    for (const auto& [warp, n] : records) stretches += n;
  }
  if (GetParam().arch != "sm_90") return;   // moving a clock takes several instructions there
  EXPECT_GT(sum, 0.94 * *life);
  EXPECT_LT(sum, 1.04 * *life + static_cast<double>(stretches));   // each with a clock
}

TEST_P(Spliced, DelayedKernelsComputeTheSame) {
  std::vector<instrument::Delay> delays;
  for (const wire::Block& b : splicer->blocks()) delays.push_back({OrigPc{b.first_pc}, 20});
  const auto result = splicer->delayed(delays);
  ASSERT_TRUE(result) << result.error().to_string();
  run(result->cubin);
}

TEST_P(Spliced, SampledTraceIsTheWitnessOfItsCtas) {
  for (uint32_t one_in : {2, 4}) {
    SCOPED_TRACE(one_in);
    for (Records r : {Records::wrapping, Records::plain, Records::brief})
      trace(ProbeKind::block, trace::TraceKind::block, r, one_in);
    for (Records r : {Records::wrapping, Records::plain, Records::packed, Records::brief})
      trace(ProbeKind::inst, trace::TraceKind::inst, r, one_in);
  }
}

TEST_P(Spliced, SelectedTraceIsTheWitnessOfItsWarps) {
  for (const wire::Selection& select : {wire::Selection{{{0, 1}, {3, 3}}, {{0, 2}}, {}}, wire::Selection{{}, {}, {{0, 1}, {4, 4}}}}) {
    for (Records r : {Records::wrapping, Records::plain, Records::brief})
      trace(ProbeKind::block, trace::TraceKind::block, r, 1, select);
    for (Records r : {Records::wrapping, Records::packed}) trace(ProbeKind::inst, trace::TraceKind::inst, r, 2, select);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Spliced, testing::ValuesIn(codes()),
                         [](const auto& p) { return p.param.kernel + "_" + p.param.arch; });

}  // namespace
}  // namespace xtrace::interp_test
