// The special function unit against what an H200 gave: some signs and exponents of every function, all significands of each;
// check_mufu does all. Of the 16-bit types everything.
#include <gtest/gtest.h>

#include "tests/mufu/hash.h"

namespace xtrace::mufu {
namespace {

std::vector<uint64_t> sums_of(const std::string& name) {
  static const std::vector<Recorded> all = recorded();
  for (const Recorded& r : all)
    if (r.name == name) return r.sums;
  ADD_FAILURE() << "h200.txt lacks " << name;
  return std::vector<uint64_t>(exponents);
}

class Mufu : public testing::TestWithParam<Function> {};
class NarrowMufu : public Mufu {};

TEST_P(Mufu, GivesWhatTheHardwareGave) {
  // Zeros and subnormal numbers, four octaves around one, infinities and NaN, a negative octave.
  constexpr unsigned some[] = {0x000, 0x07c, 0x07e, 0x07f, 0x080, 0x0ff, 0x17d};
  const std::vector<uint64_t> sums = sums_of(GetParam().name);
  for (unsigned e : some) EXPECT_EQ(sum_of(GetParam(), e), sums[e]) << "operands " << std::hex << (e << 23) << " and up";
}

TEST_P(NarrowMufu, GivesWhatTheHardwareGave) {
  for (unsigned type : {1u, 2u})
    EXPECT_EQ(narrow_sum_of(GetParam(), type), sums_of(std::string(GetParam().name) + type_names[type])[0]) << type_names[type];
}

std::string name_of(const testing::TestParamInfo<Function>& p) { return p.param.name; }
std::vector<Function> with_narrow() {
  std::vector<Function> some;
  for (const Function& f : functions)
    if (f.narrow) some.push_back(f);
  return some;
}
INSTANTIATE_TEST_SUITE_P(Functions, Mufu, testing::ValuesIn(functions), name_of);
INSTANTIATE_TEST_SUITE_P(Functions, NarrowMufu, testing::ValuesIn(with_narrow()), name_of);

}  // namespace
}  // namespace xtrace::mufu
