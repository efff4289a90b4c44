#include "tools/xtrace/closest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace xtrace::cli {
namespace {

// Letters that are put in, left out or changed (Levenshtein).
size_t changes(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = corner + (a[i] != b[j]);
      corner = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view closest(std::string_view word, std::span<const std::string_view> names) {
  std::string_view best;
  size_t fewest = 1 + word.size() / 3;   // more is another word
  for (std::string_view name : names)
    if (const size_t n = changes(word, name); n <= fewest && (best.empty() || n < fewest)) best = name, fewest = n;
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> names) {
  const std::string_view name = closest(word, names);
  return name.empty() ? std::string() : fmt::format("did you mean {}? ", name);
}

}  // namespace xtrace::cli
