// Every tenth recorded word on this GPU: the same results, the same registers read and written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/values/recorded.h"
#include "tests/values/resources.h"

namespace xtrace::values {
namespace {

TEST(GpuValues, RecordedWordsGiveTheRecordedResults) {
  const auto recorded = parse_recorded(recorded_results());
  ASSERT_TRUE(recorded) << recorded.error().to_string();
  std::vector<Word> words;
  std::vector<Measured> wanted;
  for (size_t i = 0; i < recorded->size(); i += 10) {
    const RecordedWord& r = (*recorded)[i];
    if (r.outcome.kind != Outcome::Kind::measured || !values_are_compared(r.word)) continue;
    words.push_back(r.word);
    wanted.push_back(r.outcome.measured);
  }
  std::string folder = std::filesystem::temp_directory_path() / "xtrace-values-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  WorkOptions o;
  o.folder = folder;
  o.processes = 2;
  const auto outcomes = measure_all(words, o);
  std::filesystem::remove_all(folder);
  if (!outcomes && outcomes.error().kind == ErrorKind::environment)
    GTEST_SKIP() << outcomes.error().to_string();
  ASSERT_TRUE(outcomes) << outcomes.error().to_string();
  size_t measured = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const Outcome& x = (*outcomes)[i];
    EXPECT_EQ(x.kind, Outcome::Kind::measured) << text(words[i]) << ": " << x.why;
    if (x.kind != Outcome::Kind::measured) continue;
    ++measured;
    EXPECT_EQ(x.measured.digest, wanted[i].digest) << text(words[i]);
    EXPECT_EQ(text(x.measured.changed), text(wanted[i].changed)) << text(words[i]);
    EXPECT_EQ(text(x.measured.moved), text(wanted[i].moved)) << text(words[i]);
  }
  std::printf("%zu of %zu words measured\n", measured, words.size());
}

}  // namespace
}  // namespace xtrace::values
