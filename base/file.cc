#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace xtrace {
namespace {

std::string errno_text() { return std::generic_category().message(errno); }

struct Fd {
  int fd;
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<Bytes> read_file(const std::filesystem::path& path) {
  Fd f{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (f.fd < 0) return bad_input("can not open {}: {}", path.string(), errno_text());
  std::error_code ec;
  if (!std::filesystem::is_regular_file(path, ec)) return bad_input("{} is not a regular file", path.string());
  const uint64_t size = std::filesystem::file_size(path, ec);
  if (ec) return bad_input("can not read the size of {}: {}", path.string(), ec.message());
  Bytes bytes(size);
  uint64_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(f.fd, bytes.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return bad_input("can not read {}: {}", path.string(), errno_text());
    if (n == 0) return bad_input("{} shrank while it was read: expected {} bytes, found {}", path.string(), size, done);
    done += static_cast<uint64_t>(n);
  }
  return bytes;
}

Status write_file(const std::filesystem::path& path, ByteView bytes) {
  const std::filesystem::path tmp = path.string() + ".tmp";
  Fd f{::open(tmp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (f.fd < 0) return environment("can not create {}: {}", tmp.string(), errno_text());
  uint64_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(f.fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const std::string why = errno_text();
      ::unlink(tmp.c_str());
      return environment("can not write {}: {}", tmp.string(), why);
    }
    done += static_cast<uint64_t>(n);
  }
  if (::rename(tmp.c_str(), path.c_str()) != 0) {
    const std::string why = errno_text();
    ::unlink(tmp.c_str());
    return environment("can not rename {} to {}: {}", tmp.string(), path.string(), why);
  }
  return {};
}

Status write_file(const std::filesystem::path& path, std::string_view text) {
  return write_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace xtrace
