// POSIX files as the bundle needs them: append without a torn middle, read at an offset, replace atomically.
// Every file is created 0600: a recording holds the application's data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace xtrace::bundle {

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Created empty (O_TRUNC), write only.
Result<Fd> create_file(const std::filesystem::path& path);
Result<Fd> open_for_reading(const std::filesystem::path& path);
Result<uint64_t> size_of(const Fd& fd, const std::filesystem::path& path);

// Writes all of `bytes` at the file position. On failure the file is cut back to `end_before`, best effort,
// so that what was there before stays the tail; `path` is for the message.
Status append_all(const Fd& fd, ByteView bytes, uint64_t end_before, const std::filesystem::path& path);

// Makes the file end at `end`, and the next append begin there.
Status cut_back(const Fd& fd, uint64_t end, const std::filesystem::path& path);

// Fills `out` from `offset`; bad_input when the file ends earlier.
Status read_exactly(const Fd& fd, std::span<std::byte> out, uint64_t offset,
                    const std::filesystem::path& path);

// Writes `path`.tmp and renames it over `path`.
Status replace_file(const std::filesystem::path& path, ByteView bytes);

std::string errno_text(int error);

}  // namespace xtrace::bundle
