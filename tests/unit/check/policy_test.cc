#include "tools/xtrace/check/policy.h"

#include <gtest/gtest.h>

namespace xtrace::check {
namespace {

Limits limits(const std::string& text, const std::string& kernel = "k", const std::string& demangled = "") {
  const auto policy = Policy::parse(text, "p.toml");
  EXPECT_TRUE(policy) << policy.error().message;
  return policy ? policy->limits_for(kernel, demangled) : Limits{};
}

TEST(Policy, AnEmptyOneDemandsFidelityAndSpace) {
  const Limits l = limits("");
  EXPECT_EQ(l.require, std::vector<std::string>{"block"});
  EXPECT_EQ(l.sample, "all");
  EXPECT_TRUE(l.semantics && l.occupancy && l.local_memory);
  EXPECT_FALSE(l.timing_required);
  for (std::string_view probe : probe_names) {
    EXPECT_EQ(l.of(l.budget, probe), std::nullopt);
    EXPECT_EQ(l.of(l.code_growth, probe), std::nullopt);
  }
  for (double d : l.drift) EXPECT_EQ(d, 0.02);
}

TEST(Policy, EveryKey) {
  const Limits l = limits(
      "[default]\n"
      "require = ['inst', 'pair']\nsample = 'cta:1/16'\nsemantics = 'any'\noccupancy = 'any'\nlocal_memory = 'any'\n"
      "timing = 'required'\nbudget = 1.05\ncode_growth.inst = 3.5\nbytes_per_record = 40\nadded_registers = 8\n"
      "drift.ratio = 0.1\ndrift.records = 0\n");
  EXPECT_EQ(l.require, (std::vector<std::string>{"inst", "pair"}));
  EXPECT_EQ(l.sample, "cta:1/16");
  EXPECT_FALSE(l.semantics || l.occupancy || l.local_memory);
  EXPECT_TRUE(l.timing_required);
  EXPECT_EQ(l.budget, (PerProbe{1.05, 1.05, 1.05}));
  EXPECT_EQ(l.code_growth, (PerProbe{std::nullopt, 3.5, std::nullopt}));
  EXPECT_EQ(l.bytes_per_record, (PerProbe{40, 40, std::nullopt})) << "records of pair are not of one replay";
  EXPECT_EQ(l.added_registers, 8.0);
  EXPECT_EQ(l.drift, (std::array<double, metric_count>{0.1, 0.02, 0.02, 0.02, 0, 0.02}));
}

TEST(Policy, LaterSectionsReplaceEarlierOnes) {
  const std::string text =
      "[kernel.\"gemm\"]\nbudget.block = 1.2\nrequire = []\n"
      "[default]\nbudget.block = 1.1\nbudget.inst = 2\n"
      "[kernel.'^sgemm\\(']\nbudget.block = 1.3\n";
  EXPECT_EQ(limits(text, "saxpy").budget[0], 1.1) << "[default] first, wherever it stands";
  EXPECT_EQ(limits(text, "dgemm").budget[0], 1.2);
  EXPECT_EQ(limits(text, "dgemm").budget[1], 2.0);
  EXPECT_TRUE(limits(text, "dgemm").require.empty());
  EXPECT_EQ(limits(text, "_Z5sgemmi", "sgemm(int)").budget[0], 1.3) << "the demangled name counts as well";
}

TEST(Policy, SectionsThatNoKernelMatches) {
  const auto policy = Policy::parse("[default]\n[kernel.\"gemm\"]\n[kernel.\"^scan$\"]\n[kernel.\"scan<int>\"]\n", "p.toml");
  ASSERT_TRUE(policy) << policy.error().to_string();
  EXPECT_EQ(policy->idle_sections({{"sgemm", "sgemm"}, {"_Z4scanIiEvv", "void scan<int>()"}}), std::vector<std::string>{"^scan$"});
  EXPECT_EQ(policy->idle_sections({}).size(), 3u);
}

TEST(Policy, RefusesByNameAndLine) {
  const struct {
    const char *text, *message, *hint;
  } cases[] = {
      {"[default]\nbudgets = 1\n", "p.toml: line 2: unknown key budgets", "budget"},
      {"[default]\nbudget.blok = 1\n", "p.toml: line 2: unknown key budget.blok", "block, inst, pair"},
      {"[default]\nbytes_per_record.pair = 1\n", "p.toml: line 2: unknown key bytes_per_record.pair", "block, inst"},
      {"[default]\nsemantics.block = 'any'\n", "p.toml: line 2: unknown key semantics.block", "semantics = "},
      {"[default]\nbudget = 0.9\n", "p.toml: line 2: budget is 0.9, below 1", ""},
      {"[default]\ndrift.ratio = -0.1\n", "p.toml: line 2: drift.ratio is -0.1, below 0", ""},
      {"[default]\nbudget = 'low'\n", "p.toml: line 2: budget is a string, expected a number", ""},
      {"[default]\nrequire = 'block'\n", "p.toml: line 2: require is a string, expected an array of strings", ""},
      {"[default]\nrequire = ['block', 'warp']\n", "p.toml: line 2: require is 'warp', expected one of: block, inst, pair", ""},
      {"[default]\nrequire = ['block', 'block']\n", "p.toml: line 2: require names 'block' twice", ""},
      {"[default]\noccupancy = 'equal'\n", "p.toml: line 2: occupancy is 'equal', expected one of: same, any", ""},
      {"[default]\nsample = 'cta:1/0'\n", "p.toml: line 2: sample is 'cta:1/0', expected all or cta:1/N", ""},
      {"[defaults]\n", "p.toml: line 1: unknown section [defaults]", "[default]"},
      {"[kernel]\n", "p.toml: line 1: unknown section [kernel]", "[default]"},
      {"[default.\"x\"]\n", "p.toml: line 1: unknown section [default.\"...\"]", "[default]"},
  };
  for (const auto& c : cases) {
    const auto r = Policy::parse(c.text, "p.toml");
    ASSERT_FALSE(r) << c.text;
    EXPECT_EQ(r.error().message, c.message);
    EXPECT_NE(r.error().hint.find(c.hint), std::string::npos) << r.error().hint;
    EXPECT_EQ(exit_code(r.error().kind), exit_bad_input);
  }
  const auto regex = Policy::parse("[default]\n[kernel.'(']\n", "p.toml");
  ASSERT_FALSE(regex);
  EXPECT_NE(regex.error().message.find("line 2: malformed regular expression '('"), std::string::npos);
}

}  // namespace
}  // namespace xtrace::check
