#include "replay/interp/special.h"

#include "replay/interp/program.h"

namespace xtrace::replay::interp {
namespace {

// The linear number of a thread in its CTA, and its coordinates. Block dimensions stand in bank 0.
struct Thread {
  uint32_t x, y, z;
};
Thread thread_of(const Step& s, unsigned lane) {
  const ByteView bank = s.program->banks.bank(0);
  const auto dim = [&](unsigned k) {
    return *read_at<uint32_t>(bank, s.program->arch->bank0_block_dim + 4 * k, "block");
  };
  const uint32_t n = s.warp->number * lane_count + lane, x = dim(0), y = dim(1);
  return {n % x, n / x % y, n / x / y};
}

uint64_t global_timer(const Step& s) {
  const uint64_t cycles = s.warp->clock - first_clock;
  return first_nanosecond + static_cast<uint64_t>(static_cast<double>(cycles) * nanoseconds_per_cycle);
}

uint32_t high(uint64_t v) { return static_cast<uint32_t>(v >> 32); }

struct Register {
  uint32_t index;
  uint32_t (*read)(const Step&, unsigned lane);
};
// [sass.md 3.3]
constexpr Register registers[] = {
    {0, [](const Step&, unsigned l) { return uint32_t{l}; }},
    // Warp slot in bits 14:8, SM in 28:20 [measured H200]. Here a warp has the slot of its number.
    {3, [](const Step& s, unsigned) { return s.cta->sm << 20 | s.warp->number % 64 << 8; }},
    {33, [](const Step& s, unsigned l) { return thread_of(s, l).x; }},
    {34, [](const Step& s, unsigned l) { return thread_of(s, l).y; }},
    {35, [](const Step& s, unsigned l) { return thread_of(s, l).z; }},
    {37, [](const Step& s, unsigned) { return s.cta->index.x; }},
    {38, [](const Step& s, unsigned) { return s.cta->index.y; }},
    {39, [](const Step& s, unsigned) { return s.cta->index.z; }},
    {47, [](const Step&, unsigned) { return high(shared_window); }},
    {46, [](const Step&, unsigned) { return high(local_window); }},
    {56, [](const Step&, unsigned l) { return 1u << l; }},
    {57, [](const Step&, unsigned l) { return (1u << l) - 1; }},
    {58, [](const Step&, unsigned l) { return (2u << l) - 1; }},
    {59, [](const Step&, unsigned l) { return ~((2u << l) - 1); }},
    {60, [](const Step&, unsigned l) { return ~((1u << l) - 1); }},
    {67, [](const Step& s, unsigned) { return s.cta->sm; }},
    {80, [](const Step& s, unsigned) { return static_cast<uint32_t>(s.warp->clock); }},
    {81, [](const Step& s, unsigned) { return high(s.warp->clock); }},
    {82, [](const Step& s, unsigned) { return static_cast<uint32_t>(global_timer(s)); }},
    {83, [](const Step& s, unsigned) { return high(global_timer(s)); }},
    {136, [](const Step& s, unsigned) { return s.cta->rank; }},
    {255, [](const Step&, unsigned) { return 0u; }},
};

const Register* find(uint32_t index) {
  for (const Register& r : registers)
    if (r.index == index) return &r;
  return nullptr;
}

}  // namespace

bool special_register_known(uint32_t index) { return find(index) != nullptr; }

uint32_t special_register(const Step& s, uint32_t index, unsigned lane) { return find(index)->read(s, lane); }

uint32_t special_register_high(const Step& s, uint32_t index, unsigned lane) {
  if (index == 80 || index == 82) return special_register(s, index + 1, lane);
  return 0;
}

}  // namespace xtrace::replay::interp
