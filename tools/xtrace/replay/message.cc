#include "tools/xtrace/replay/message.h"

#include <unistd.h>

#include <cerrno>
#include <vector>

namespace xtrace::cli {
namespace {

using nlohmann::json;

constexpr uint64_t largest_message = 4ull << 30;

bool write_exactly(int fd, const void* from, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::write(fd, static_cast<const char*>(from) + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool read_exactly(int fd, void* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::read(fd, static_cast<char*>(to) + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

bool send(int fd, const json& message) {
  const std::vector<uint8_t> bytes = json::to_cbor(message);
  const uint64_t size = bytes.size();
  return write_exactly(fd, &size, sizeof size) && write_exactly(fd, bytes.data(), bytes.size());
}

std::optional<json> receive(int fd) {
  uint64_t size = 0;
  if (!read_exactly(fd, &size, sizeof size) || size > largest_message) return std::nullopt;
  std::vector<uint8_t> bytes(size);
  if (!read_exactly(fd, bytes.data(), size)) return std::nullopt;
  json message = json::from_cbor(bytes, true, false);
  if (message.is_discarded()) return std::nullopt;
  return message;
}

}  // namespace xtrace::cli
