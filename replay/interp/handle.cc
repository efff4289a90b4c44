#include "replay/interp/handle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "replay/interp/memory_map.h"
#include "replay/interp/program.h"

namespace xtrace::replay::interp {
namespace {

constexpr unsigned size_bit = 51;
constexpr uint64_t address_unit = 64, size_unit = 16;

}  // namespace

const std::byte* handle_bytes(Step& s, const Operand (&pair)[2], int64_t offset, unsigned bytes, unsigned lane) {
  const uint64_t handle = uint64_t{s.row(pair[1])[0]} << 32 | s.row(pair[0])[0];
  const uint64_t address = (handle & ((uint64_t{1} << size_bit) - 1)) * address_unit, size = (handle >> size_bit) * size_unit;
  const auto bad = [&](const std::string& why) -> const std::byte* {
    s.fail(ErrorKind::device,
           fmt::format("a read of {} bytes at {:#x} of the constants that handle {:#x} describes ({:#x} bytes at {:#x}){}", bytes,
                       offset, handle, size, address, why),
           static_cast<int>(lane));
    return nullptr;
  };
  if (offset < 0 || static_cast<uint64_t>(offset) + bytes > size || offset % bytes != 0) return bad("");
  const std::byte* p = s.memory->find(address + static_cast<uint64_t>(offset), bytes);
  return p != nullptr ? p : bad(", outside recorded memory: " + s.memory->nearest(address + static_cast<uint64_t>(offset)));
}

void execute_through_handle(Step& s, const Inst& i) {
  const HandleConstant& h = s.program->handles.at(i.index);
  const Operand pair[] = {{h.ur[0]}, {h.ur[1]}};
  for (uint32_t k = 0; k < h.words; ++k) {
    const std::byte* p = handle_bytes(s, pair, h.offset + 4 * k, 4, 0);
    if (p == nullptr) return;
    uint32_t v = 0;
    std::memcpy(&v, p, sizeof v);
    std::fill_n(s.out(s.program->layout.handle(k)), lane_count, v);
  }
  h.operation(s, i);
}

}  // namespace xtrace::replay::interp
