#include "trace/output_file.h"

#include <cerrno>
#include <cstring>
#include <system_error>

namespace xtrace::trace {

Status OutputFile::create(const std::filesystem::path& path) {
  path_ = path;
  temporary_ = path;
  temporary_ += ".tmp";
  file_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!file_) return environment("can not create {}: {}", temporary_.string(), std::strerror(errno));
  begun_ = true;
  return {};
}

OutputFile::~OutputFile() {
  if (!begun_) return;
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

Status OutputFile::write(const void* data, size_t size) {
  file_.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  if (!file_) return environment("can not write {} bytes to {}: {}", size, temporary_.string(), std::strerror(errno));
  bytes_ += size;
  return {};
}

Status OutputFile::finish() {
  file_.close();
  if (!file_) return environment("can not finish {}: {}", temporary_.string(), std::strerror(errno));
  std::error_code ec;
  std::filesystem::rename(temporary_, path_, ec);
  if (ec) return environment("can not rename {} to {}: {}", temporary_.string(), path_.string(), ec.message());
  begun_ = false;
  return {};
}

}  // namespace xtrace::trace
