// One operation: registers and predicates before and after.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <utility>
#include <vector>

#include "tests/unit/interp/machine.h"

namespace xtrace::interp_test {

inline uint32_t f(float v) { return std::bit_cast<uint32_t>(v); }
inline constexpr uint32_t qnan = 0x7fffffff, inf = 0x7f800000;

// One row: registers R<n> = v before, R<n> = v after. Predicates as lane masks.
struct Row {
  const char* text;
  uint64_t lo, hi;
  std::vector<std::pair<unsigned, uint32_t>> before;
  std::vector<std::pair<unsigned, uint32_t>> after;
  std::vector<std::pair<unsigned, uint32_t>> preds_before = {};
  std::vector<std::pair<unsigned, uint32_t>> preds_after = {};
};

inline void check(const Row& row) {
  SCOPED_TRACE(row.text);
  Machine m;
  for (auto [i, v] : row.before) m.set(i, v);
  for (auto [i, v] : row.preds_before) m.p(i) = v;
  EXPECT_EQ(m.run(row.lo, row.hi, row.text), "");
  for (auto [i, v] : row.after)
    for (unsigned l : {0u, 13u, 31u}) EXPECT_EQ(m.r(i)[l], v) << "R" << i << " lane " << l;
  for (auto [i, v] : row.preds_after) EXPECT_EQ(m.p(i), v) << "P" << i;
}

}  // namespace xtrace::interp_test
