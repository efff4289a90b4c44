#include "replay/interp/late_distance.h"

#include <algorithm>
#include <array>

namespace xtrace::replay::interp {
namespace {

struct Named {
  std::string_view mnemonic;
  Producer producer;
};
// The rest of the vector instructions is Producer::alu, of the uniform ones uniform_alu.
constexpr Named named[] = {
    {"IMAD", Producer::fma},          {"FFMA", Producer::fma},          {"FADD", Producer::fma},          {"FMUL", Producer::fma},
    {"VIADD", Producer::fma},         {"HADD2", Producer::half},        {"HFMA2", Producer::half},        {"HMUL2", Producer::half},
    {"HFMA2.MMA", Producer::half_on_mma}, {"DADD", Producer::fp64},     {"DMUL", Producer::fp64},         {"DFMA", Producer::fp64},
    {"DSETP", Producer::fp64},        {"CS2R", Producer::clock},        {"UMOV", Producer::uniform_move}, {"ULDC", Producer::uniform_move},
    {"VOTEU", Producer::uniform_move}, {"R2UR", Producer::to_uniform},
};

}  // namespace

Producer producer_of(const sass::Effects& e) {
  for (const Named& n : named)
    if (n.mnemonic == e.mnemonic) return n.producer;
  if (e.mnemonic.ends_with("MMA")) return Producer::matrix;
  return e.mnemonic.starts_with('U') ? Producer::uniform_alu : Producer::alu;
}

Consumer consumer_of(const sass::Effects& e) {
  if (!e.fixed_latency) return e.flow == sass::Flow::next && e.known ? Consumer::memory : Consumer::other;
  switch (producer_of(e)) {
    case Producer::fma:
      return Consumer::fma;
    case Producer::fp64:
      return Consumer::fp64;
    case Producer::uniform_move:
    case Producer::uniform_alu:
      return Consumer::uniform;
    case Producer::matrix:
    case Producer::half_on_mma:
    case Producer::half:
    case Producer::alu:
    case Producer::clock:
    case Producer::to_uniform:
    case Producer::other:
      return Consumer::alu;
  }
  return Consumer::other;
}

unsigned smallest_distance(Producer from, Consumer to) {
  const bool uniform = from == Producer::uniform_move || from == Producer::uniform_alu;
  if (to == Consumer::guard) return from == Producer::other ? 0 : uniform ? 11 : 13;
  if (to == Consumer::uniform_guard) return from == Producer::other ? 0 : 11;
  if (to == Consumer::predicate) return from == Producer::other ? 0 : 4;
  switch (from) {
    case Producer::alu:
      return to == Consumer::fma ? 3 : to == Consumer::fp64 ? 6 : 4;
    case Producer::fma:
      return to == Consumer::fma ? 2 : to == Consumer::memory ? 4 : to == Consumer::fp64 ? 6 : 3;
    case Producer::half:
      return 4;
    case Producer::clock:
      return 4;
    case Producer::half_on_mma:
      return 6;
    case Producer::fp64:
      return to == Consumer::memory ? 6 : 8;
    case Producer::matrix:
      return 14;  // of HMMA.1688, the smallest shape; 27 of others
    case Producer::uniform_move:
      return 2;
    case Producer::uniform_alu:
      return to == Consumer::uniform ? 4 : 6;
    case Producer::to_uniform:
      return 13;
    case Producer::other:
      return 0;
  }
  return 0;
}

}  // namespace xtrace::replay::interp
