// Clocks that `inst` leaves out and a decoder places, against the clocks of the original kernel: the model of time knows them all.
// From the clock that was read before they are no further off than the probe's own instructions there take.
#include "instrument/cubin/kernel_info.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/interp/spliced_launch.h"

namespace xtrace::interp_test {
namespace {

// Mean cycles from the first instruction of a block's execution to each of the others, by pc.
class Offsets {
 public:
  void add(uint32_t pc, uint64_t cycles) {
    auto& [sum, n] = all_[pc];
    sum += static_cast<double>(cycles);
    ++n;
  }
  std::optional<double> mean(uint32_t pc) const {
    const auto found = all_.find(pc);
    if (found == all_.end()) return std::nullopt;
    return found->second.first / static_cast<double>(found->second.second);
  }

 private:
  std::map<uint32_t, std::pair<double, uint64_t>> all_;
};

class ClockWitness final : public replay::interp::WitnessSink {
 public:
  explicit ClockWitness(const std::vector<wire::Block>& blocks) {
    for (const wire::Block& b : blocks) heads_.insert({b.first_pc, {}});
  }
  void executed(uint32_t, uint32_t, uint32_t, uint32_t) override {}
  void reached(uint32_t warp, uint32_t pc, uint64_t clock) override {
    if (heads_.contains(pc)) began_[warp] = clock;
    offsets.add(pc, clock - began_[warp]);
  }
  Offsets offsets;

 private:
  std::map<uint32_t, int> heads_;
  std::map<uint32_t, uint64_t> began_;
};

// Of an instruction, by original offset: cycles of the words inserted in front of it, and whether one of these waits, or it itself for
// what it did not wait for: for the probe's stores.
struct Added {
  uint32_t cycles = 0;
  bool wait = false;
};
std::map<uint32_t, Added> added_by_probe(const instrument::Spliced& spliced, ByteView code, const std::string& kernel) {
  const auto image = *cubin::Image::parse(spliced.cubin);
  const auto info = *cubin::kernel_info(image, kernel);
  const Bytes& text = image.sections()[info.text_section].data;
  const auto unspliced = *cubin::Image::parse(code);
  const Bytes& original = unspliced.sections()[info.text_section].data;
  const auto wait_of = [](const Bytes& in, size_t at) { return sass::get_control(*read_at<sass::RawInst>(in, at, "word")).wait_mask; };
  std::map<uint32_t, Added> added;
  Added pending;
  for (size_t w = 0; w < spliced.map.original_of_new.size(); ++w) {
    if (const uint32_t pc = spliced.map.original_of_new[w]; pc != wire::AddressMap::inserted) {
      pending.wait |= (wait_of(text, w * sass::inst_bytes) & ~wait_of(original, pc)) != 0;
      added[pc] = pending;
      pending = {};
    } else {
      pending.cycles += sass::get_control(*read_at<sass::RawInst>(text, w * sass::inst_bytes, "word")).stall;
      pending.wait |= wait_of(text, w * sass::inst_bytes) != 0;
    }
  }
  return added;
}

class ImpliedClocks : public SplicedLaunch, public testing::WithParamInterface<const char*> {
 protected:
  const char* refusal(ProbeKind, std::optional<Records>) const override { return nullptr; }
};

TEST_P(ImpliedClocks, LieWhereTheInstructionsIssued) {
  ASSERT_NO_FATAL_FAILURE(observe(recorded_launch(GetParam())));
  ClockWitness witness(splicer->blocks());
  run(launch.code, &witness);
  Offsets traced;
  std::map<uint32_t, Added> added;
  std::map<uint32_t, bool> placed, no_register;
  look = [&](const trace::WarpTrace& t, const wire::AddressMap& map, const instrument::Spliced& spliced) {
    if (added.empty()) added = added_by_probe(spliced, launch.code, launch.record.kernel);
    for (uint32_t r = 0; r < t.records(); ++r) {
      const wire::Block& b = map.blocks[t.index[r]];
      const auto clocks = t.clocks(r);
      for (uint32_t k = 0; k < clocks.size(); ++k) {
        const uint32_t pc = b.first_pc + k * sass::inst_bytes;
        traced.add(pc, clocks[k] - clocks[0]);
        placed[pc] = !b.has_clock(k);
        no_register[pc] = !b.clock_at.empty() && b.clock_at[k].bytes == wire::ClockPlace::absent;
      }
    }
  };
  clock_gap = instrument::usual_clock_gap;
  ASSERT_NO_FATAL_FAILURE(trace(ProbeKind::inst, trace::TraceKind::inst, Records::brief));
  size_t compared = 0;
  for (const wire::Block& b : splicer->blocks()) {
    const auto pc_of = [&](uint32_t k) { return b.first_pc + k * sass::inst_bytes; };
    // Without records, where lanes part, a block may stand between those of other lanes.
    if (!witness.offsets.mean(b.first_pc) || placed[b.first_pc]) continue;
    for (uint32_t from = 0, to = 0; from < b.instructions; from = to) {   // from a clock that was read up to the next one
      to = from + 1;
      while (to < b.instructions && placed[pc_of(to)]) ++to;
      double probe = 0;
      bool waits = added[pc_of(from)].wait;
      for (uint32_t k = from + 1; k <= to && k < b.instructions; ++k) {
        probe += added[pc_of(k)].cycles;
        waits |= added[pc_of(k)].wait;
      }
      bool known = !waits;   // where a wait ended, too
      for (uint32_t k = from; k < to; ++k) known = known && !no_register[pc_of(k)];
      if (!known) continue;
      for (uint32_t k = from + 1; k < to; ++k) {
        const double truth = *witness.offsets.mean(pc_of(k)) - *witness.offsets.mean(pc_of(from));
        const double found = *traced.mean(pc_of(k)) - *traced.mean(pc_of(from));
        EXPECT_LE(std::abs(found - truth), probe + 1e-6) << splicer->text(OrigPc{pc_of(k)}) << " of B" << &b - splicer->blocks().data()
                                                         << ": " << found << ", truth " << truth;
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 3u);   // collatz: most of its instructions stand in one loop, in which the probe waits for a store
}
INSTANTIATE_TEST_SUITE_P(Kernels, ImpliedClocks,
                         testing::Values("saxpy", "transpose_tiled", "reduce_sum", "sgemm", "wmma_gemm", "spmv_csr", "warp_scan", "device_calls",
                                         "switch_table", "double_math", "constant_global", "collatz", "loop_exits", "grid_3d", "many_registers"),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace xtrace::interp_test
