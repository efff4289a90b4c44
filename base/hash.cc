#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace xtrace {

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 hash128(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.low64, h.high64};
}

Result<Hash128> parse_hash128(const std::string& hex) {
  if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string::npos)
    return bad_input("malformed hash '{}': expected 32 lower-case hex digits", hex);
  return Hash128{std::stoull(hex.substr(16), nullptr, 16), std::stoull(hex.substr(0, 16), nullptr, 16)};
}

}  // namespace xtrace
