#include "tools/xtrace/scratch.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace xtrace::cli {

Result<Scratch> Scratch::make() {
  const char* named = std::getenv("TMPDIR");
  const std::filesystem::path base = named != nullptr && *named != 0 ? named : "/tmp";
  std::error_code ec;
  if (!std::filesystem::is_directory(base, ec))
    return with_hint(environment("no folder for temporary files: {}: {}", base.string(), ec ? ec.message() : "Not a directory"), "TMPDIR names one");
  std::string name = (base / "xtrace-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    return with_hint(environment("can not create {}: {}", name, std::strerror(errno)), "TMPDIR names another folder for temporary files");
  return Scratch(name);
}

}  // namespace xtrace::cli
