// Whole-file input and atomic output.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/bytes.h"

namespace xtrace {

// Missing or unreadable files give bad_input naming the path and errno text.
Result<Bytes> read_file(const std::filesystem::path& path);
// Writes `path`.tmp, then renames: a reader never sees half a file. environment error on a full disk.
Status write_file(const std::filesystem::path& path, ByteView bytes);
Status write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace xtrace
