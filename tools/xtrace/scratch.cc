#include "tools/xtrace/scratch.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace xtrace::cli {

Result<Scratch> Scratch::make() {
  std::error_code ec;
  const std::filesystem::path base = std::filesystem::temp_directory_path(ec);
  if (ec) return environment("no folder for temporary files: {}", ec.message());
  std::string name = (base / "xtrace-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return environment("can not create {}: {}", name, std::strerror(errno));
  return Scratch(name);
}

}  // namespace xtrace::cli
