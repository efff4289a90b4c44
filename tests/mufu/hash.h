// What h200.txt keeps of the special function unit: for every function, sign and exponent the sum of mix(operand << 32 | result)
// over the 2^23 operands; for every 16-bit type the sum over its 65,536.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "replay/interp/value/mufu.h"

namespace xtrace::mufu {

namespace value = replay::interp::value;

inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

struct Function {
  const char* name;
  unsigned code;  // [77:74] of the word
  uint32_t (*value)(uint32_t);
  bool narrow;  // has 16-bit types
};
constexpr Function functions[] = {
    {"cos", 0, value::mufu_cos, true},        {"sin", 1, value::mufu_sin, true},   {"ex2", 2, value::mufu_ex2, true},
    {"lg2", 3, value::mufu_lg2, true},        {"rcp", 4, value::mufu_rcp, true},   {"rsq", 5, value::mufu_rsq, true},
    {"rcp64h", 6, value::mufu_rcp64h, false}, {"rsq64h", 7, value::mufu_rsq64h, false},
    {"sqrt", 8, value::mufu_sqrt, true},      {"tanh", 9, value::mufu_tanh, true},
};
constexpr unsigned exponents = 512;  // sign and exponent, as the upper 9 bits of the operand
constexpr const char* type_names[] = {"", ".f16", ".bf16"};

struct Recorded {
  std::string name;  // "sin", "sin.f16"
  std::vector<uint64_t> sums;
};
// The file; throws what is wrong with it.
std::vector<Recorded> recorded();

// The interpreter's.
uint64_t sum_of(const Function& f, unsigned exponent);
uint64_t narrow_sum_of(const Function& f, unsigned type);

}  // namespace xtrace::mufu
