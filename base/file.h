// Whole-file input and atomic output.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/bytes.h"

namespace xtrace {

// Missing or unreadable files give bad_input naming the path and errno text.
Result<Bytes> read_file(const std::filesystem::path& path);
// Writes `path`.tmp, then renames: a reader never sees half a file. A link stays one, and its target is replaced. environment error
// on a full disk.
Status write_file(const std::filesystem::path& path, ByteView bytes);
Status write_file(const std::filesystem::path& path, std::string_view text);
// A device, a pipe, a file that is open already (/dev/stdout): a rename would put a file where it was, so write_file adds to it.
bool written_in_place(const std::filesystem::path& path);

}  // namespace xtrace
