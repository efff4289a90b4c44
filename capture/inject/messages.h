// Lines from the injected library to `xtrace record`, by a file of the session directory: nothing is ever
// printed by the application's process. See capture/bundle/record_settings.h.
#pragma once

#include <string>
#include <string_view>

namespace xtrace::inject {

class MessageFile {
 public:
  // A file that can not be opened makes every call a no-op: there is nobody left to tell.
  explicit MessageFile(const std::string& session);
  ~MessageFile();
  MessageFile(const MessageFile&) = delete;
  MessageFile& operator=(const MessageFile&) = delete;

  // One write of one line; line ends in `text` become " | ".
  void add(std::string_view kind, std::string_view text);

  // Whether this process is the first of the session. Creates `owner` with its pid.
  static bool claim(const std::string& session);

 private:
  int fd_ = -1;
};

}  // namespace xtrace::inject
