// Launches of the kernels that generate.py writes: the same inputs everywhere, and what is left compared by
// digest.
#pragma once

#include <filesystem>

#include "replay/backend.h"

namespace xtrace::random_kernels {

// Of the regions of a launch.
enum : size_t { in_region, out_region, own_region, common_region, regions };

// A cubin, as it is or packed by zstd.
Result<Bytes> read_cubin(const std::filesystem::path& file);

// Kernels of a cubin that carry a name of generate.py, in order of number.
Result<std::vector<std::string>> kernels_of(ByteView cubin);

// bad_input when the name says no shape.
Result<replay::LaunchImage> launch_of(const Bytes& cubin, const std::string& kernel);

// 16 hexadecimal digits of everything that a launch may write.
std::string digest(const std::vector<Bytes>& contents);

// Runs the launch once. A launch that does not complete is a device error, one that is refused unsupported.
Result<std::vector<Bytes>> run(replay::Backend& backend, const replay::LaunchImage& launch, ByteView cubin);

}  // namespace xtrace::random_kernels
