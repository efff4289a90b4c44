#include "tools/xtrace/output_path.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"

namespace xtrace::cli {

namespace fs = std::filesystem;

Status can_be_written(const std::string& path, bool folder) {
  if (path.empty() || path == "-") return {};
  if (!folder && written_in_place(path)) {
    if (fs::is_directory(path)) return environment("can not write {}: it is a folder", path);
    if (::access(path.c_str(), W_OK) != 0) return environment("can not write {}: {}", path, std::strerror(errno));
    return {};
  }
  std::error_code ec;
  fs::path where = path;
  if (folder) {
    fs::create_directories(where, ec);
    if (ec) return environment("can not create {}: {}", path, ec.message());
  } else {
    where = where.has_parent_path() ? where.parent_path() : fs::path(".");
    if (!fs::is_directory(where, ec)) return environment("can not write {}: {} is no folder", path, where.string());
  }
  if (::access(where.c_str(), W_OK | X_OK) != 0) return environment("can not write into {}: {}", where.string(), std::strerror(errno));
  return {};
}

}  // namespace xtrace::cli
