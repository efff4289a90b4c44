// Spliced kernels with results as late as the control bits allow: they compute what they did, and a probe's wait that is taken away, or a
// register that it takes too early, is seen. Which of these matter the splice verifier says, which knows nothing of the interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "instrument/cubin/kernel_info.h"
#include "instrument/instrument.h"
#include "instrument/slot_plan.h"
#include "instrument/verify.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/device_records.h"
#include "tests/unit/interp/recordings.h"

namespace xtrace::interp_test {
namespace {

using instrument::ProbeKind;
using wire::Value;

constexpr uint16_t op_mov_imm = 0x802;

class LateSplice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    launch = recorded_launch(GetParam());
    replay::InterpOptions options;
    options.late = true;
    backend = replay::make_interp_backend(options);
    ASSERT_TRUE(backend->prepare(launch));
    const bundle::LaunchRecord& r = launch.record;
    auto made = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
    ASSERT_TRUE(made) << made.error().to_string();
    instrument::Asked asked;
    asked.reg.push_back({{}, {{Value::Kind::vector, 0}}, {}, {}});
    splicer = made->asked(asked);
  }

  // The kernel under a probe, its records in slots that wrap; nothing: it is refused.
  std::optional<instrument::Spliced> spliced(ProbeKind probe) {
    const bundle::LaunchRecord& r = launch.record;
    const std::vector<uint32_t> bytes(r.grid.count() * splicer->warps_per_cta(), 1024);
    instrument::SlotPlan slots = instrument::plan_slots(bytes, splicer->largest_record(probe), true, {}, uint64_t{1} << 30);
    EXPECT_TRUE(place_records(*backend, slots));
    instrument::Plan plan;
    plan.probe = probe;
    auto result = splicer->splice(plan, slots.layout);
    if (!result) {
      EXPECT_EQ(result.error().kind, ErrorKind::unsupported) << result.error().to_string();
      return std::nullopt;
    }
    return std::move(*result);
  }

  // Why the launch stops, or what it leaves otherwise than recorded; empty: it is as recorded.
  std::string run(ByteView cubin) {
    const auto module = backend->load(cubin);
    if (!module) return module.error().to_string();
    EXPECT_TRUE(backend->restore(*module, replay::RestoreScope::all));
    const auto outcome = backend->run(*module);
    std::string problem = !outcome ? outcome.error().to_string() : outcome->failure;
    if (problem.empty()) {
      const auto regions = backend->read_regions(*module);
      for (size_t k = 0; k < regions->size(); ++k)
        if ((*regions)[k] != launch.after[k]) problem = fmt::format("region {} differs", k);
    }
    EXPECT_TRUE(backend->unload(*module));
    return problem;
  }

  replay::LaunchImage launch;
  std::unique_ptr<replay::InterpBackend> backend;
  std::optional<instrument::Splicer> splicer;
};

// The words of a spliced kernel's text, to be changed one at a time.
class SplicedWords {
 public:
  SplicedWords(const Bytes& cubin, const std::string& kernel) : cubin_(cubin) {
    const auto image = cubin::Image::parse(cubin_);
    const Bytes& text = image->sections()[*image->text_section(kernel)].data;
    count_ = static_cast<uint32_t>(text.size() / sass::inst_bytes);
    // Its contents are unique in the file.
    while (std::memcmp(cubin_.data() + begin_, text.data(), text.size()) != 0) begin_ += sass::inst_bytes;
  }
  uint32_t count() const { return count_; }
  sass::RawInst get(uint32_t k) const { return *read_at<sass::RawInst>(cubin_, begin_ + uint64_t{k} * sass::inst_bytes, "word"); }
  Bytes with(uint32_t k, const sass::RawInst& w) const {
    Bytes changed = cubin_;
    write_at(std::span(changed), begin_ + uint64_t{k} * sass::inst_bytes, w);
    return changed;
  }

 private:
  Bytes cubin_;
  uint64_t begin_ = 0;
  uint32_t count_ = 0;
};

class ExecutedWords final : public replay::interp::WitnessSink {
 public:
  void executed(uint32_t, uint32_t pc, uint32_t, uint32_t lanes) override {
    by_word.resize(std::max<size_t>(by_word.size(), pc / 16 + 1));
    by_word[pc / 16] = by_word[pc / 16] || lanes != 0;
  }
  bool was(uint32_t k) const { return k < by_word.size() && by_word[k]; }
  std::vector<bool> by_word;
};

// Each wait that the splicer put in and that the verifier misses when it is gone.
TEST_P(LateSplice, AWaitThatIsGoneIsSeen) {
  size_t results = 0, results_seen = 0, stores = 0, stores_seen = 0;
  for (const ProbeKind probe : {ProbeKind::block, ProbeKind::inst, ProbeKind::reg}) {
    const auto s = spliced(probe);
    if (!s) continue;
    ExecutedWords executed;
    backend->set_witness(&executed);
    ASSERT_EQ(run(s->cubin), "");
    backend->set_witness(nullptr);
    const SplicedWords words(s->cubin, launch.record.kernel);
    for (uint32_t k = 0; k < words.count(); ++k) {
      if (k >= s->map.original_of_new.size() || s->map.original_of_new[k] != wire::AddressMap::inserted || !executed.was(k)) continue;
      sass::Control c = sass::get_control(words.get(k));
      for (unsigned sb = 0; sb < 6; ++sb) {
        if ((c.wait_mask >> sb & 1) == 0) continue;
        sass::Control less = c;
        less.wait_mask &= static_cast<uint8_t>(~(1u << sb));
        sass::RawInst w = words.get(k);
        sass::set_control(w, less);
        const Bytes changed = words.with(k, w);
        const auto violations = instrument::verify_splice(launch.code, changed, launch.record.kernel, s->claims);
        ASSERT_TRUE(violations) << violations.error().to_string();
        if (violations->empty()) continue;   // the kernel waits anyway
        // A store that nobody waits for has read its registers when a later instruction of its queue has: code of vendors relies on that,
        // the splicer does not.
        const bool in_order = std::all_of(violations->begin(), violations->end(), [](const auto& v) { return v.rule == "store-overwritten"; });
        const bool is_seen = !run(changed).empty();
        ++(in_order ? stores : results);
        (in_order ? stores_seen : results_seen) += is_seen;
        EXPECT_TRUE(in_order || is_seen) << instrument::probe_info(probe).name << " word " << k << " SB" << sb << ": " << violations->front().text;
      }
    }
  }
  RecordProperty("results", static_cast<int>(results));
  RecordProperty("stores", static_cast<int>(stores));
  RecordProperty("stores_seen", static_cast<int>(stores_seen));
  EXPECT_GT(results, 0u);
  EXPECT_EQ(results_seen, results);
  EXPECT_GT(stores_seen * 3, stores) << "a third of " << stores;
}

// A probe's register that is changed for one in which a result of the kernel may still arrive.
TEST_P(LateSplice, ARegisterThatIsTakenTooEarlyIsSeen) {
  const auto s = spliced(ProbeKind::block);
  ASSERT_TRUE(s);
  ExecutedWords executed;
  backend->set_witness(&executed);
  ASSERT_EQ(run(s->cubin), "");
  backend->set_witness(nullptr);
  const SplicedWords words(s->cubin, launch.record.kernel);
  size_t tried = 0;
  for (uint32_t k = 0; k < words.count() && tried < 40; ++k) {
    const bool inserted = k < s->map.original_of_new.size() && s->map.original_of_new[k] == wire::AddressMap::inserted;
    if (!inserted || !executed.was(k) || sass::opcode13(words.get(k)) != op_mov_imm) continue;
    for (uint8_t r = 0; r < 32; ++r) {
      sass::RawInst w = words.get(k);
      set_bits(w, bits(23, 16), r);
      const Bytes changed = words.with(k, w);
      const auto violations = instrument::verify_splice(launch.code, changed, launch.record.kernel, s->claims);
      ASSERT_TRUE(violations) << violations.error().to_string();
      const auto late = std::find_if(violations->begin(), violations->end(),
                                     [](const auto& v) { return v.text.find("may arrive later: nobody waited") != std::string::npos; });
      if (late == violations->end()) continue;
      ++tried;
      EXPECT_NE(run(changed).find("may come"), std::string::npos) << "word " << k << ": " << late->text;
    }
  }
  // In these two nothing is under way where the probe writes.
  EXPECT_EQ(tried > 0, GetParam() != "saxpy" && GetParam() != "async_copy");
}

INSTANTIATE_TEST_SUITE_P(Kernels, LateSplice, testing::Values("saxpy", "spmv_csr", "sgemm", "warp_scan", "async_copy", "cluster_shared"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace xtrace::interp_test
