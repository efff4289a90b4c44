// Numbers for people: sizes, shapes, versions, command lines, raw bytes.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/types.h"

namespace xtrace::cli {

std::string human_bytes(uint64_t bytes);                         // "512 B", "1.5 MiB"
std::string human_dim(const Dim3& d);                            // "4,2,1"; "-" for 0,0,0
std::string cuda_version(uint32_t version);                      // 13010 -> "13.1"; "unknown" for 0
std::string shell_quoted(const std::vector<std::string>& argv);  // "./app 'a b'"
std::string hex_bytes(ByteView bytes);                           // "04000000 01000000": groups of four
// Up to 8 bytes as one little-endian number, "0x00000400"; more as hex_bytes.
std::string hex_value(ByteView bytes);

}  // namespace xtrace::cli
