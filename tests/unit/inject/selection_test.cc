#include "capture/inject/selection.h"

#include <gtest/gtest.h>

namespace xtrace::inject {
namespace {

using Answer = LaunchSelector::Answer;

struct SpecCase {
  const char* text;
  std::vector<uint64_t> taken;  // of ordinals 0..19
};

TEST(LaunchSpec, TakesWhatItsGrammarSays) {
  const SpecCase cases[] = {
      {"", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}},
      {"0,5-9", {0, 5, 6, 7, 8, 9}},
      {"every:7", {0, 7, 14}},
      {"every:7,skip:3", {3, 10, 17}},
      {"skip:18", {18, 19}},
      {"max:2", {0, 1}},
      {"3,every:10,max:2", {0, 3}},
      {"0-4,skip:2", {2, 3, 4}},
      {"every:5,skip:1,max:3", {1, 6, 11}},
  };
  for (const SpecCase& c : cases) {
    const auto spec = bundle::LaunchSpec::parse(c.text);
    ASSERT_TRUE(spec) << c.text;
    auto selector = LaunchSelector::make("", *spec);
    ASSERT_TRUE(selector) << c.text;
    std::vector<uint64_t> taken;
    for (uint64_t i = 0; i < 20; ++i)
      if (selector->next("k") == Answer::take) taken.push_back(i);
    EXPECT_EQ(taken, c.taken) << c.text;
    EXPECT_EQ(selector->matched(), 20u);
  }
}

TEST(LaunchSpec, RefusesWhatItDoesNotKnow) {
  const std::pair<const char*, const char*> cases[] = {
      {"x", "expected a whole number, found 'x'"},
      {"1,,2", "found ''"},
      {"5-3", "range 5-3 is empty"},
      {"each:2", "unknown word 'each'"},
      {"every:0", "every:0"},
      {"max:", "found ''"},
      {"1-2-3", "found '2-3'"},
      {"-4", "found ''"},
      {"99999999999999999999", "whole number"},
      {"1,", "found ''"},
  };
  for (const auto& [text, message] : cases) {
    const auto spec = bundle::LaunchSpec::parse(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_NE(spec.error().message.find(message), std::string::npos) << spec.error().message;
  }
}

TEST(LaunchSelector, PatternMatchesMangledAndDemangledNames) {
  auto by_demangled = LaunchSelector::make("ns::gemm<", {});
  ASSERT_TRUE(by_demangled);
  EXPECT_EQ(by_demangled->next("_ZN2ns4gemmILi8EEEvPf"), Answer::take);
  EXPECT_EQ(by_demangled->next("_ZN2ns4axpyILi8EEEvPf"), Answer::other_kernel);
  auto by_mangled = LaunchSelector::make("^_ZN2ns4", {});
  ASSERT_TRUE(by_mangled);
  EXPECT_EQ(by_mangled->next("_ZN2ns4axpyILi8EEEvPf"), Answer::take);
  EXPECT_EQ(by_mangled->next("plain"), Answer::other_kernel);
}

TEST(LaunchSelector, OrdinalsCountMatchingLaunchesOnly) {
  auto selector = LaunchSelector::make("^b$", *bundle::LaunchSpec::parse("1"));
  ASSERT_TRUE(selector);
  EXPECT_EQ(selector->next("a"), Answer::other_kernel);
  EXPECT_EQ(selector->next("b"), Answer::not_asked);
  EXPECT_EQ(selector->next("a"), Answer::other_kernel);
  EXPECT_FALSE(selector->exhausted());
  EXPECT_EQ(selector->next("b"), Answer::take);
  EXPECT_TRUE(selector->exhausted());
  EXPECT_EQ(selector->matched(), 2u);
}

TEST(LaunchSelector, UnnamedLaunchesMatchOnlyWithoutPattern) {
  auto any = LaunchSelector::make("", {});
  EXPECT_EQ(any->next_unnamed(), Answer::take);
  auto some = LaunchSelector::make("k", {});
  EXPECT_EQ(some->next_unnamed(), Answer::other_kernel);
  EXPECT_EQ(some->matched(), 0u);
}

TEST(LaunchSelector, RefusesABrokenPattern) {
  const auto selector = LaunchSelector::make("a(", {});
  ASSERT_FALSE(selector);
  EXPECT_NE(selector.error().message.find("malformed regular expression 'a('"),
            std::string::npos);
}

TEST(RecordSettings, SizesHavePowersOf1024) {
  const std::pair<const char*, uint64_t> good[] = {{"0", 0},        {"123", 123},         {"1k", 1024},
                                                   {"2M", 2 << 20}, {"32G", 32ull << 30}, {"1T", 1ull << 40}};
  for (const auto& [text, bytes] : good) {
    const auto size = bundle::parse_size(text);
    ASSERT_TRUE(size) << text;
    EXPECT_EQ(*size, bytes) << text;
  }
  for (const char* text : {"", "G", "1.5G", "-1", "1GB", "99999999T", "7+"})
    EXPECT_FALSE(bundle::parse_size(text)) << text;
}

TEST(RecordSettings, TravelThroughTheEnvironmentUnchanged) {
  bundle::RecordSettings sent;
  sent.output = "/o/run.xtr";
  sent.session = "/s";
  sent.kernel = "a|b";
  sent.launches = "0,every:3";
  sent.scope = "all";
  sent.max_bytes = 77;
  sent.zstd_level = 5;
  sent.overwrite = 1;
  sent.drain_timeout_ms = 250;
  sent.cupti = "/c/libcupti.so";
  sent.cupti_paths = "/a:/b";
  const auto variables = bundle::to_environment(sent);
  const auto got = bundle::settings_from_environment([&](const char* name) -> const char* {
    for (const auto& [n, v] : variables)
      if (n == name) return v.c_str();
    return nullptr;
  });
  ASSERT_TRUE(got);
  EXPECT_EQ(bundle::to_environment(*got), variables);
  EXPECT_EQ(got->scope, "all");
  EXPECT_EQ(got->drain_timeout_ms, 250u);
}

TEST(RecordSettings, NeedOutputAndSession) {
  const auto got = bundle::settings_from_environment([](const char*) -> const char* { return nullptr; });
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().message.find("XTRACE_RECORD_OUTPUT"), std::string::npos);
}

}  // namespace
}  // namespace xtrace::inject
