#include "tools/xtrace/quantity.h"

#include <fmt/format.h>

namespace xtrace::cli {

std::string human_bytes(uint64_t bytes) {
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(units))
    value /= 1024, ++unit;  // 1024.0 KiB reads as 1.0 MiB
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string human_dim(const Dim3& d) {
  return d == Dim3{0, 0, 0} ? "-" : fmt::format("{},{},{}", d.x, d.y, d.z);
}

std::string cuda_version(uint32_t version) {
  return version == 0 ? "unknown" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string shell_quoted(const std::vector<std::string>& argv) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  std::string out;
  for (const std::string& arg : argv) {
    if (!out.empty()) out += ' ';
    if (!arg.empty() && arg.find_first_not_of(plain) == std::string::npos) {
      out += arg;
      continue;
    }
    out += '\'';
    for (const char c : arg) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

std::string hex_bytes(ByteView bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i != 0 && i % 4 == 0) out += ' ';
    out += fmt::format("{:02x}", std::to_integer<unsigned>(bytes[i]));
  }
  return out;
}

std::string hex_value(ByteView bytes) {
  if (bytes.empty() || bytes.size() > 8) return hex_bytes(bytes);
  std::string out = "0x";
  for (size_t i = bytes.size(); i-- > 0;) out += fmt::format("{:02x}", std::to_integer<unsigned>(bytes[i]));
  return out;
}

}  // namespace xtrace::cli
