// `count` where every predicate of the kernel is in use: one stands aside in a register while a lane is elected. And where every register is, but one
// that the kernel waits for later. The counts are those that the interpreter saw of the original code, and the verifier sees when the predicate does
// not come back, or nobody waits.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "instrument/verify.h"
#include "tests/unit/interp/assembled_launch.h"
#include "tests/unit/interp/spliced_launch.h"

namespace xtrace::interp_test::count_lends_test {
namespace {

constexpr uint16_t sel_imm = 0x807, isetp_imm = 0x80c, mov_imm = 0x802, p2r = 0x803, vote = 0x806;
constexpr BitRange guard_field = bits(15, 12), result_field = bits(23, 16), source_field = bits(31, 24), imm_field = bits(63, 32);
constexpr uint64_t p2r_at = 0x180, alone_at = 0x30;
constexpr unsigned registers_of_launch_bounds = 30;
constexpr size_t last_of_launch_bounds = 0x17a;

// Lanes go their own ways by seven predicates, twice, so that all are needed the first time; P2R, a block by itself, needs all of them at once.
// EXITs are where collatz has its own.
replay::LaunchImage all_predicates_in_use() {
  std::vector<std::string> lines = {"IADD3 R8, RZ, 0x1, RZ",
                                    "S2R R4, SR_LANEID",
                                    "ISETP.LT.AND P0, PT, R4, 0x3, PT",
                                    "ISETP.LT.AND P1, PT, R4, 0x7, PT",
                                    "ISETP.LT.AND P2, PT, R4, 0xb, PT",
                                    "ISETP.LT.AND P3, PT, R4, 0xf, PT",
                                    "ISETP.LT.AND P4, PT, R4, 0x13, PT",
                                    "@!PT EXIT",
                                    "ISETP.LT.AND P5, PT, R4, 0x17, PT",
                                    "ISETP.GT.AND P6, PT, R4, 0x1c, PT"};
  const auto pass = [&](unsigned p5_skips, unsigned p6_skips) {
    for (unsigned p = 0; p < 7; ++p) {
      lines.push_back(fmt::format("@P{} BRA {:#x}", p, 16 * (lines.size() + (p == 5 ? p5_skips : p == 6 ? p6_skips : 2))));
      lines.push_back("IADD3 R8, R8, 0x1, RZ");
    }
  };
  pass(4, 3);   // to P2R, and past it
  EXPECT_EQ(16 * lines.size(), p2r_at);
  lines.push_back("P2R R9, PR, RZ, 0x7f");
  pass(2, 2);
  replay::LaunchImage launch = assembled_launch("collatz", lines, 0x29, [](const std::string& line) { return line.find(", R4, ") != std::string::npos; });
  launch.after = launch.before;
  return launch;
}

// Every register that the launch can have is in use but R7, which waits behind the first block for a result that nobody reads. EXITs are where
// launch_bounds has its own.
replay::LaunchImage one_register_awaited() {
  std::vector<std::string> lines = {"S2R R7, SR_LANEID", "ISETP.LT.AND P0, PT, R8, 0x3, PT", "@P0 BRA 0x40", "IADD3 R8, R8, 0x1, RZ"};
  for (unsigned r = 0; r < registers_of_launch_bounds; ++r)
    if (r != 7) lines.push_back(fmt::format("IADD3 R8, R8, R{}, RZ", r));
  replay::LaunchImage launch = assembled_launch("launch_bounds", lines, last_of_launch_bounds, [](const std::string& line) { return line == "IADD3 R8, R8, R29, RZ"; });
  launch.after = launch.before;
  return launch;
}

class CountedLaunch : public SplicedLaunch {
 protected:
  const char* refusal(ProbeKind, std::optional<Records>) const override { return nullptr; }

  // What a replay counts; `alone`: and executions are known.
  std::vector<wire::BlockCount> counts(replay::InterpBackend& on, bool alone) {
    const auto blocks = static_cast<uint32_t>(splicer->blocks().size());
    instrument::SlotPlan plan = instrument::plan_counters(warps, blocks, !alone);
    const auto buffer = on.allocate(plan.total_bytes, "counters");
    EXPECT_TRUE(buffer);
    instrument::place(plan, buffer->value);
    instrument::Plan count;
    count.probe = ProbeKind::count;
    count.counts_alone = alone;
    if (alone) count.executions = executions();
    auto result = splicer->splice(count, plan.layout);
    EXPECT_TRUE(result) << result.error().to_string();
    EXPECT_NO_FATAL_FAILURE(run_as_recorded(on, launch, result->cubin, nullptr));
    const auto bytes = on.read(DevPtr{plan.layout.counters}, buffer->value + plan.total_bytes - plan.layout.counters);
    EXPECT_TRUE(bytes && on.release(*buffer));
    std::vector<wire::BlockCount> sums = instrument::sum_counters(result->map, *bytes);
    last = std::move(*result);
    sums.resize(blocks);
    return sums;
  }
  std::vector<wire::BlockCount> witnessed() const {
    std::vector<wire::BlockCount> expected(splicer->blocks().size());
    for (const auto& [warp, events] : seen)
      for (const Event& e : events) {
        expected[e.block].warps += 1;
        expected[e.block].lanes += static_cast<uint32_t>(std::popcount(e.mask));
      }
    return expected;
  }

  // Inserted words of the last splice with an opcode, anywhere or in front of an instruction.
  std::vector<size_t> inserted(uint16_t opcode, std::optional<uint64_t> in_front_of = std::nullopt) const {
    std::vector<size_t> found;
    for (size_t k = last.claims.prologue_words; k < words().size(); ++k) {
      const bool own = last.map.original_of_new[k] != wire::AddressMap::inserted;
      if (own && in_front_of && last.map.original_of_new[k] == *in_front_of) return found;
      if (own && in_front_of) found.clear();
      if (!own && sass::opcode13(words()[k]) == opcode) found.push_back(k);
    }
    return found;
  }
  const std::vector<sass::RawInst>& words() const {
    if (of_ == last.cubin) return words_;
    const auto image = cubin::Image::parse(last.cubin);
    const Bytes& text = image->sections()[*image->text_section(launch.record.kernel)].data;
    at_ = static_cast<size_t>(std::search(last.cubin.begin(), last.cubin.end(), text.begin(), text.end()) - last.cubin.begin());
    words_.resize(text.size() / sass::inst_bytes);
    std::memcpy(words_.data(), text.data(), text.size());
    of_ = last.cubin;
    return words_;
  }
  std::set<std::string> broken(size_t k, const std::function<void(sass::RawInst&)>& change) const {
    sass::RawInst w = words()[k];
    change(w);
    Bytes cubin = last.cubin;
    write_at(std::span(cubin), at_ + k * sass::inst_bytes, w);
    const auto violations = instrument::verify_splice(launch.code, cubin, launch.record.kernel, last.claims);
    EXPECT_TRUE(violations);
    std::set<std::string> names;
    for (const instrument::Violation& v : *violations) names.emplace(v.rule);
    return names;
  }
  static auto sets(BitRange range, uint64_t value) {
    return [=](sass::RawInst& w) { set_bits(w, range, value); };
  }
  static auto with_control(void (*change)(sass::Control&)) {
    return [=](sass::RawInst& w) {
      sass::Control c = sass::get_control(w);
      change(c);
      sass::set_control(w, c);
    };
  }
  static void to_nop(sass::RawInst& w) {
    const sass::Control c = sass::get_control(w);
    w = sass::RawInst{0x0000000000007918, 0x0000000000000000};
    sass::set_control(w, c);
  }

  instrument::Spliced last;

 private:
  mutable Bytes of_;
  mutable std::vector<sass::RawInst> words_;
  mutable size_t at_ = 0;
};

class LentPredicate : public CountedLaunch {
 protected:
  void SetUp() override { observe(all_predicates_in_use()); }
};

TEST_F(LentPredicate, CountsAreThoseOfTheWitness) {
  const std::vector<wire::BlockCount> expected = witnessed();
  for (const bool late : {false, true})
    for (const bool alone : {false, true}) {
      SCOPED_TRACE(fmt::format("late {}, alone {}", late, alone));
      replay::InterpOptions options;
      options.late = late;
      const auto on = replay::make_interp_backend(options);
      ASSERT_TRUE(on->prepare(launch));
      EXPECT_EQ(counts(*on, alone), expected);
      EXPECT_GE(inserted(sel_imm).size(), 7u);
      EXPECT_EQ(inserted(sel_imm).size(), inserted(isetp_imm).size());
      EXPECT_EQ(inserted(sel_imm, p2r_at).size(), 1u);
    }
}

TEST_F(LentPredicate, OneThatDoesNotComeBackIsSeen) {
  counts(*backend, true);
  const std::string rule = "lent-predicate";
  const auto takes = inserted(sel_imm), returns = inserted(isetp_imm);
  ASSERT_FALSE(returns.empty());
  EXPECT_EQ(broken(returns[0], [](sass::RawInst&) {}), std::set<std::string>{});
  for (const size_t k : {returns.front(), returns.back()}) {
    SCOPED_TRACE(k);
    const uint64_t predicate = get_bits(words()[k], bits(83, 81)), reg = get_bits(words()[k], source_field);
    EXPECT_TRUE(broken(k, to_nop).contains(rule));
    EXPECT_TRUE(broken(k, sets(bits(83, 81), predicate ^ 1)).contains(rule));   // another predicate
    EXPECT_TRUE(broken(k, sets(source_field, reg ^ 1)).contains(rule));         // from another register
    EXPECT_TRUE(broken(k, sets(imm_field, 1)).contains(rule));                  // the contrary
    EXPECT_TRUE(broken(k, sets(bits(78, 76), 5)).contains(rule));               // likewise
    EXPECT_TRUE(broken(k, sets(guard_field, 0)).contains(rule));                // in some lanes
    EXPECT_TRUE(broken(k, sets(bits(90, 87), 0)).contains(rule));               // together with another one
    EXPECT_TRUE(broken(k, sets(bits(75, 74), 1)).contains(rule));               // or anyhow
    EXPECT_TRUE(broken(k, sets(bits(86, 84), predicate ^ 2)).contains(rule));   // and another one likewise
    EXPECT_TRUE(broken(k, sets(bits(72, 72), 1)).contains(rule));
    EXPECT_TRUE(broken(k, sets(bits(71, 68), 0)).contains(rule));
  }
  for (const size_t k : {takes.front(), takes.back()}) {
    SCOPED_TRACE(k);
    // Then nothing stands aside, and a predicate in use is written.
    EXPECT_TRUE(broken(k, to_nop).contains("register-clobber"));
    EXPECT_TRUE(broken(k, sets(guard_field, 0)).contains("register-clobber"));
    EXPECT_TRUE(broken(k, sets(bits(89, 87), get_bits(words()[k], bits(89, 87)) ^ 1)).contains("register-clobber"));   // another one does
    EXPECT_TRUE(broken(k, sets(bits(90, 90), 1)).contains("register-clobber"));                                         // its contrary
    EXPECT_TRUE(broken(k, sets(imm_field, 0)).contains("register-clobber"));
    EXPECT_TRUE(broken(k, sets(source_field, 4)).contains("register-clobber"));
    EXPECT_TRUE(broken(k, sets(result_field, get_bits(words()[k], result_field) ^ 2)).contains(rule));                  // in another register
  }
}

TEST_F(LentPredicate, TheRegisterThatItStandsInIsNobodyElses) {
  counts(*backend, true);
  const size_t k = inserted(sel_imm, p2r_at).at(0);
  const uint64_t reg = get_bits(words()[k], result_field);
  size_t moves = 0;
  for (size_t at = k + 1; at < inserted(isetp_imm, p2r_at).at(0); ++at)
    if (sass::opcode13(words()[at]) == mov_imm) {
      ++moves;
      EXPECT_TRUE(broken(at, sets(result_field, reg)).contains("lent-predicate"));
    }
  EXPECT_GE(moves, 1u);
}

// P2R reads all of them right behind.
TEST_F(LentPredicate, TheKernelWaitsForItsReturn) {
  counts(*backend, true);
  const size_t k = inserted(isetp_imm, p2r_at).at(0);
  EXPECT_EQ(last.map.original_of_new[k + 1], p2r_at);
  EXPECT_TRUE(broken(k, with_control([](sass::Control& c) { c.stall -= 1; })).contains("result-too-early"));
  EXPECT_FALSE(broken(k, with_control([](sass::Control& c) { c.stall += 1; })).contains("result-too-early"));
  EXPECT_EQ(sass::opcode13(words()[k + 1]), p2r);
}

class AwaitedRegister : public CountedLaunch {
 protected:
  void SetUp() override { observe(one_register_awaited()); }
};

TEST_F(AwaitedRegister, HoldsTheSum) {
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    replay::InterpOptions options;
    options.late = late;
    const auto on = replay::make_interp_backend(options);
    ASSERT_TRUE(on->prepare(launch));
    EXPECT_EQ(counts(*on, true), witnessed());
    EXPECT_EQ(last.map.blocks[1].first_pc, alone_at);
    EXPECT_TRUE(last.map.blocks[1].narrow_count && last.map.blocks[1].packed_count);
    EXPECT_FALSE(last.report.costs_occupancy);
    EXPECT_EQ(last.report.new_registers, last.report.original_registers);
  }
  const auto votes = inserted(vote, alone_at);
  ASSERT_EQ(votes.size(), 1u);
  EXPECT_EQ(broken(votes[0], [](sass::RawInst&) {}), std::set<std::string>{});
  EXPECT_TRUE(broken(votes[0], with_control([](sass::Control& c) { c.wait_mask = 0; })).contains("register-clobber"));
}

}  // namespace
}  // namespace xtrace::interp_test::count_lends_test
