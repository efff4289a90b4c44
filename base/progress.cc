#include "base/progress.h"

#include <unistd.h>

#include "base/notice.h"

namespace xtrace {

using namespace std::chrono_literals;

Progress::Progress(std::string what, uint64_t total, bool enabled)
    : what_(std::move(what)), total_(total), enabled_(enabled), terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()), last_(start_) {}

Progress::~Progress() {
  if (drawn_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(uint64_t done_now, const std::string& detail) {
  done_ += done_now;
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < 1s) return;
  if (now - last_ < (terminal_ ? 100ms : 10000ms)) return;
  last_ = now;
  draw(detail);
}

void Progress::draw(const std::string& detail) {
  drawn_ = true;
  std::string line = total_ ? fmt::format("{}: {} of {} ({} %)", what_, done_, total_, 100 * done_ / total_)
                            : fmt::format("{}: {}", what_, done_);
  if (!detail.empty()) line += ", " + detail;
  if (terminal_)
    notice("\r\033[K{}", line);
  else
    notice("{}\n", line);
  std::fflush(stderr);
}

}  // namespace xtrace
