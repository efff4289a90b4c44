#include "capture/inject/messages.h"

#include <fcntl.h>
#include <unistd.h>

namespace xtrace::inject {

MessageFile::MessageFile(const std::string& session)
    : fd_(::open((session + "/messages").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}

MessageFile::~MessageFile() {
  if (fd_ >= 0) ::close(fd_);
}

void MessageFile::add(std::string_view kind, std::string_view text) {
  if (fd_ < 0) return;
  std::string line(kind);
  line += '\t';
  for (const char c : text) {
    if (c == '\n')
      line += " | ";
    else
      line += c;
  }
  line += '\n';
  if (::write(fd_, line.data(), line.size()) < 0) return;  // nobody left to tell
}

bool MessageFile::claim(const std::string& session) {
  const int fd = ::open((session + "/owner").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const std::string pid = std::to_string(::getpid()) + "\n";
  const bool ok = ::write(fd, pid.data(), pid.size()) == static_cast<ssize_t>(pid.size());
  ::close(fd);
  return ok;
}

}  // namespace xtrace::inject
