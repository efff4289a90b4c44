#include "tools/xtrace/replay/reduce.h"

#include <fmt/format.h>

#include <algorithm>

namespace xtrace::cli {

std::string places_text(const std::vector<uint32_t>& pcs) {
  std::string text;
  for (uint32_t pc : pcs) text += fmt::format("{}pc:{:#x}", text.empty() ? "" : " or ", pc);
  return text;
}

Result<Reduction> reduce(std::vector<uint32_t> pcs, const Trial& trial) {
  Reduction r;
  const auto diverges = [&](const std::vector<uint32_t>& some) -> Result<bool> {
    ++r.trials;
    XT_TRY(std::string what, trial(some));
    if (what.empty()) return false;
    r.what = std::move(what);
    return true;
  };
  XT_TRY(const bool all, diverges(pcs));
  if (!all) return r;
  XT_TRY(r.unprobed, diverges({}));
  if (r.unprobed) return r;

  // In `parts` pieces of about the same size: one piece alone, or all but one; finer when neither diverges.
  for (size_t parts = 2; pcs.size() > 1;) {
    bool smaller = false;
    for (const bool alone : {true, false}) {
      if (!alone && parts == 2) break;   // all but one of two is the other one
      for (size_t k = 0; k < parts && !smaller; ++k) {
        const auto begin = pcs.begin() + static_cast<ptrdiff_t>(k * pcs.size() / parts);
        const auto end = pcs.begin() + static_cast<ptrdiff_t>((k + 1) * pcs.size() / parts);
        std::vector<uint32_t> some(begin, end);
        if (!alone) {
          some.assign(pcs.begin(), begin);
          some.insert(some.end(), end, pcs.end());
        }
        XT_TRY(smaller, diverges(some));
        if (smaller) {
          pcs = std::move(some);
          parts = alone ? 2 : parts - 1;
        }
      }
      if (smaller) break;
    }
    if (smaller) continue;
    if (parts == pcs.size()) break;
    parts = std::min(2 * parts, pcs.size());
  }
  XT_TRY(const bool again, diverges(pcs));
  if (!again)
    return with_hint(unsupported("{} diverged once and then did not: what happens changes from replay to replay", places_text(pcs)),
                     "reduce again with another --seed, or look at the kernel for races");
  r.pcs = std::move(pcs);
  return r;
}

}  // namespace xtrace::cli
