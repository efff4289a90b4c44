#include "tools/xtrace/check/result.h"

#include <fmt/format.h>

#include <algorithm>

namespace xtrace::check {

using diff::Verdict;

std::string text_of(const Environment& e) {
  return fmt::format("{} on {}, driver {}", e.backend, e.device, e.driver);
}

Verdict Row::verdict() const {
  Verdict v = Verdict::trusted;
  for (const Finding& f : findings) v = diff::worst(v, f.verdict);
  return v;
}

void Row::add(std::string code, Verdict verdict, std::string text) {
  findings.push_back({std::move(code), verdict, std::move(text)});
}

bool CheckRun::timing_judged() const {
  return std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.timing.has_value(); });
}

Verdict CheckRun::verdict() const {
  if (rows.empty()) return Verdict::inconclusive;
  Verdict v = Verdict::trusted;
  for (const Row& r : rows) v = diff::worst(v, r.verdict());
  for (const Finding& f : findings) v = diff::worst(v, f.verdict);
  return v;
}

int CheckRun::exit_status() const {
  int status = diff::exit_status(verdict());
  if (!errors.empty()) status = 0;
  for (const RunError& e : errors) status = std::max(status, e.exit);  // 3 bad input, 4 internal
  return status;
}

std::string where(const Row& r) {
  return fmt::format("{} launch {} {}, {} {}", r.bundle, r.launch,
                     r.kernel_text.empty() ? r.kernel : r.kernel_text, r.probe, r.sample);
}

}  // namespace xtrace::check
