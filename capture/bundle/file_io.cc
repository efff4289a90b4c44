#include "capture/bundle/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace xtrace::bundle {
namespace {

constexpr mode_t file_mode = 0600;
constexpr char disk_hint[] = "free space or raise the file size limit, or record to another file system";

tl::unexpected<Error> write_error(const std::filesystem::path& path, int error) {
  auto e = environment("can not write {}: {}", path.string(), errno_text(error));
  if (error == ENOSPC || error == EFBIG || error == EDQUOT) return with_hint(std::move(e), disk_hint);
  return e;
}

// 0 or the errno of the write that failed.
int write_all(int fd, ByteView bytes) {
  uint64_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    done += static_cast<uint64_t>(n);
  }
  return 0;
}

}  // namespace

std::string errno_text(int error) { return std::generic_category().message(error); }

Fd& Fd::operator=(Fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

Result<Fd> create_file(const std::filesystem::path& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, file_mode));
  if (!fd.valid()) return environment("can not create {}: {}", path.string(), errno_text(errno));
  return fd;
}

Result<Fd> open_for_reading(const std::filesystem::path& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));   // else a pipe waits for who writes into it
  if (!fd.valid()) return bad_input("can not open {}: {}", path.string(), errno_text(errno));
  return fd;
}

Result<uint64_t> size_of(const Fd& fd, const std::filesystem::path& path) {
  struct stat st;
  if (::fstat(fd.get(), &st) != 0)
    return environment("can not stat {}: {}", path.string(), errno_text(errno));
  if (!S_ISREG(st.st_mode)) return bad_input("{} is not a regular file", path.string());
  return static_cast<uint64_t>(st.st_size);
}

Status append_all(const Fd& fd, ByteView bytes, uint64_t end_before, const std::filesystem::path& path) {
  const int error = write_all(fd.get(), bytes);
  if (error == 0) return {};
  // A torn tail is harmless (readers drop it); cutting it only gives the space back.
  if (::ftruncate(fd.get(), static_cast<off_t>(end_before)) != 0) return write_error(path, error);
  return write_error(path, error);
}

Status cut_back(const Fd& fd, uint64_t end, const std::filesystem::path& path) {
  const auto offset = static_cast<off_t>(end);
  if (::ftruncate(fd.get(), offset) != 0 || ::lseek(fd.get(), offset, SEEK_SET) != offset)
    return environment("can not cut back {}: {}", path.string(), errno_text(errno));
  return {};
}

Status read_exactly(const Fd& fd, std::span<std::byte> out, uint64_t offset,
                    const std::filesystem::path& path) {
  uint64_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(fd.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return environment("can not read {}: {}", path.string(), errno_text(errno));
    if (n == 0)
      return bad_input("{} ends early: expected {} bytes at offset {:#x}, found {}", path.string(),
                       out.size(), offset, done);
    done += static_cast<uint64_t>(n);
  }
  return {};
}

Status replace_file(const std::filesystem::path& path, ByteView bytes) {
  const std::filesystem::path temporary = path.string() + ".tmp";
  XT_TRY(Fd fd, create_file(temporary));
  if (const int error = write_all(fd.get(), bytes); error != 0) {
    ::unlink(temporary.c_str());
    return write_error(temporary, error);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return environment("can not rename {} to {}: {}", temporary.string(), path.string(), errno_text(error));
  }
  return {};
}

}  // namespace xtrace::bundle
