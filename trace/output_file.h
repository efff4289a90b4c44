// A file that appears under its name once it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "base/status.h"

namespace xtrace::trace {

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();   // removes what is there unless finish() succeeded
  // Of `path`.tmp; finish() renames it. Environment errors with the path (disk full, no permission), here and below.
  Status create(const std::filesystem::path& path);
  Status write(const void* data, size_t size);
  Status finish();
  uint64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_, temporary_;
  std::ofstream file_;
  uint64_t bytes_ = 0;
  bool begun_ = false;
};

}  // namespace xtrace::trace
