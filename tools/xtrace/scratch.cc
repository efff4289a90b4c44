#include "tools/xtrace/scratch.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace xtrace::cli {

Result<Scratch> Scratch::make() {
  std::error_code ec;
  const std::filesystem::path base = std::filesystem::temp_directory_path(ec);
  if (ec) {
    const char* named = std::getenv("TMPDIR");
    return with_hint(environment("no folder for temporary files: {}: {}", named != nullptr ? named : "/tmp", ec.message()), "TMPDIR names one");
  }
  std::string name = (base / "xtrace-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    return with_hint(environment("can not create {}: {}", name, std::strerror(errno)), "TMPDIR names another folder for temporary files");
  return Scratch(name);
}

}  // namespace xtrace::cli
