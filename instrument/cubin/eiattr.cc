#include "instrument/cubin/eiattr.h"

#include <algorithm>
#include <iterator>

namespace xtrace::cubin {
namespace {

constexpr Eiattr kTable[] = {
#define X(code, name, format, payload, meaning) {code, name, format, Eiattr::Payload::payload, meaning},
#include "instrument/cubin/eiattr.def"
#undef X
};

constexpr bool sorted() {
  for (size_t i = 1; i < std::size(kTable); ++i)
    if (kTable[i - 1].code >= kTable[i].code) return false;
  return true;
}
static_assert(sorted(), "eiattr.def is sorted by code, each code once");

}  // namespace

std::span<const Eiattr> eiattr_table() { return kTable; }

const Eiattr* find_eiattr(uint8_t code) {
  const auto* row = std::ranges::lower_bound(kTable, code, {}, &Eiattr::code);
  return row != std::end(kTable) && row->code == code ? row : nullptr;
}

bool is_movable(uint8_t code) {
  const Eiattr* row = find_eiattr(code);
  return row != nullptr && row->payload != Eiattr::Payload::unknown &&
         row->payload != Eiattr::Payload::refused;
}

}  // namespace xtrace::cubin
