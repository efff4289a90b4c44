// The fixtures of fixtures/cubins, and a way to move code that changes every offset.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "instrument/cubin/kernel_info.h"

namespace xtrace::cubin {

inline const char* const kFixtures[] = {
    "sm_80/calls",       "sm_80/calls_lineinfo", "sm_80/jump_table",  "sm_80/plain",
    "sm_80/relocatable", "sm_80/variables",      "sm_86/calls",       "sm_86/jump_table",
    "sm_86/plain",       "sm_86/variables",      "sm_90/calls",       "sm_90/calls_lineinfo",
    "sm_90/jump_table",  "sm_90/plain",          "sm_90/plain_abi7",  "sm_90/relocatable",
    "sm_90/variables",   "sm_100/calls",         "sm_100/jump_table", "sm_100/plain",
    "sm_100/variables",  "sm_120/calls",         "sm_120/jump_table", "sm_120/plain",
    "sm_120/variables"};

inline Bytes fixture(const std::string& name) {
  auto bytes = read_file(std::filesystem::path(XTRACE_SOURCE_DIR) / "fixtures/cubins" / (name + ".cubin"));
  EXPECT_TRUE(bytes.has_value()) << (bytes ? "" : bytes.error().to_string());
  return bytes ? *bytes : Bytes{};
}

inline Image parsed(ByteView bytes) {
  auto image = Image::parse(bytes);
  EXPECT_TRUE(image.has_value()) << (image ? "" : image.error().to_string());
  return image ? std::move(*image) : Image{};
}
inline Image image_of(const std::string& name) { return parsed(fixture(name)); }

inline KernelInfo info_of(const Image& image, const std::string& kernel) {
  auto info = kernel_info(image, kernel);
  EXPECT_TRUE(info.has_value()) << (info ? "" : info.error().to_string());
  return info ? std::move(*info) : KernelInfo{};
}

inline std::vector<uint32_t> words(ByteView bytes) {
  std::vector<uint32_t> w(bytes.size() / 4);
  std::memcpy(w.data(), bytes.data(), w.size() * 4);
  return w;
}

// A prologue of 0x80 bytes, then the code with a NOP before every instruction, then a plain copy of the old
// code.
struct Doubled {
  uint32_t old_bytes;
  uint32_t first(uint32_t old) const { return 0x80 + 2 * old; }
  uint32_t second(uint32_t old) const { return 0x80 + 2 * old_bytes + old; }
  uint32_t bytes() const { return 0x80 + 3 * old_bytes; }
  MovedCode moved(bool copy = true) const {
    const Doubled d = *this;
    MovedCode m;
    m.instruction = [d, copy](uint32_t old) {
      return copy ? std::vector<uint32_t>{d.first(old), d.second(old)} : std::vector<uint32_t>{d.first(old)};
    };
    m.boundary = [d](uint32_t old) { return old == 0 ? 0 : d.first(old); };
    m.new_text_bytes = copy ? bytes() : 0x80 + 2 * old_bytes;
    return m;
  }
};

// Moves `kernel` of `image` that way; the code itself is left as zeros.
inline Result<MovedReport> double_code(Image& image, const KernelInfo& kernel, bool copy = true) {
  const Doubled d{static_cast<uint32_t>(image.sections()[kernel.text_section].size)};
  const MovedCode moved = d.moved(copy);
  image.set_section_data(kernel.text_section, Bytes(moved.new_text_bytes));
  return map_code_offsets(image, kernel, moved);
}

}  // namespace xtrace::cubin
