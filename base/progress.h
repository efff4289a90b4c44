// One line of progress on stderr for work that takes longer than a moment: redrawn on a terminal, one line per ten
// seconds otherwise, silent for work that ends within the first second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace xtrace {

class Progress {
 public:
  // `total` 0 means unknown. `enabled` false makes every call a no-op (--quiet).
  Progress(std::string what, uint64_t total, bool enabled = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(uint64_t done_now = 1, const std::string& detail = {});

 private:
  void draw(const std::string& detail);

  std::string what_;
  uint64_t total_, done_ = 0;
  bool enabled_, terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace xtrace
