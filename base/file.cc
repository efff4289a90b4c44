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
  Fd f{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};   // else a pipe waits for who writes into it
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

namespace {

// "" or what went wrong.
std::string write_all(int fd, ByteView bytes) {
  for (uint64_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_text();
    done += static_cast<uint64_t>(n);
  }
  return {};
}

// /dev/stdout, /dev/fd/3: a name of a file that is open already. In the folder that it leads to another file may have its name.
bool names_open_file(const std::filesystem::path& path) {
  std::error_code ec;
  const std::filesystem::path to = std::filesystem::read_symlink(path, ec);
  const std::filesystem::path folder = std::filesystem::weakly_canonical(std::filesystem::absolute(path, ec).parent_path(), ec);
  return to.string().starts_with("/proc/") || folder.string().starts_with("/proc/");
}

}  // namespace

bool written_in_place(const std::filesystem::path& path) {
  std::error_code ec;
  const std::filesystem::file_status found = std::filesystem::status(path, ec);
  return names_open_file(path) || (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found));
}

Status write_file(const std::filesystem::path& path, ByteView bytes) {
  if (written_in_place(path)) {
    Fd f{::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
    if (f.fd < 0) return environment("can not open {}: {}", path.string(), errno_text());
    if (const std::string why = write_all(f.fd, bytes); !why.empty()) return environment("can not write {}: {}", path.string(), why);
    return {};
  }
  std::error_code none, ec;
  const std::filesystem::path target = std::filesystem::is_symlink(path, none) ? std::filesystem::weakly_canonical(path, ec) : path;
  if (ec) return environment("can not follow {}: {}", path.string(), ec.message());
  const std::filesystem::path tmp = target.string() + ".tmp";
  Fd f{::open(tmp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (f.fd < 0) return environment("can not create {}: {}", tmp.string(), errno_text());
  if (const std::string why = write_all(f.fd, bytes); !why.empty()) {
    ::unlink(tmp.c_str());
    return environment("can not write {}: {}", tmp.string(), why);
  }
  if (::rename(tmp.c_str(), target.c_str()) != 0) {
    const std::string why = errno_text();
    ::unlink(tmp.c_str());
    return environment("can not rename {} to {}: {}", tmp.string(), target.string(), why);
  }
  return {};
}

Status write_file(const std::filesystem::path& path, std::string_view text) {
  return write_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace xtrace
