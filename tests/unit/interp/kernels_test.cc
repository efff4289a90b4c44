// The recorded kernels: what the interpreter leaves in memory against what an H200 left there, every byte.
// For the launches that were made without one this shows only that nothing has changed.
//
// reduce_sum is no exception today, and could be: four CTAs add to one float by RED, in whatever order they
// arrive. The interpreter adds in the order of CTAs, and the recorded sum is the same. Should a new recording
// hold another order's sum, the four bytes of its second region may differ, and this test has to say which
// they are.
#include <gtest/gtest.h>

#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/interp/run_as_recorded.h"

namespace xtrace::interp_test {
namespace {

class Recorded : public testing::TestWithParam<std::string> {};

TEST_P(Recorded, OutputIsThatOfTheHardware) {
  const replay::LaunchImage launch = recorded_launch(GetParam());
  ASSERT_EQ(launch.after.size(), launch.before.size());
  std::vector<Bytes> left;
  ASSERT_NO_FATAL_FAILURE(run_original(launch, left));
  bool changed = false;
  for (size_t r = 0; r < left.size(); ++r) {
    const Bytes &want = launch.after[r], &got = left[r];
    changed |= want != launch.before[r];
    size_t different = 0, first = 0;
    for (size_t k = want.size(); k-- > 0;)
      if (want[k] != got[k]) ++different, first = k;
    EXPECT_EQ(different, 0u) << "region " << r << ", first at offset " << first << ": expected "
                             << std::to_integer<int>(want[first]) << ", found "
                             << std::to_integer<int>(got[first]);
  }
  EXPECT_TRUE(changed || GetParam() == "three_instructions")
      << "the recorded launch changed nothing: this test shows nothing";
}

INSTANTIATE_TEST_SUITE_P(Kernels, Recorded, testing::ValuesIn(recorded_kernels()),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace xtrace::interp_test
