// The losses of one warp, as they stand in a trace file: number, then loss, record and bytes of each.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trace/varint.h"
#include "trace/warp_trace.h"

namespace xtrace::trace {

inline void put_marks(std::string& out, std::span<const LossMark> marks) {
  put_varint(out, marks.size());
  for (const LossMark& m : marks) {
    put_varint(out, static_cast<uint64_t>(m.loss));
    put_varint(out, m.record);
    put_varint(out, m.bytes);
  }
}
// A loss that is none fails the reader.
inline void take_marks(VarintReader& in, std::vector<LossMark>& marks) {
  marks.resize(in.count(3));
  for (LossMark& m : marks) {
    const uint64_t loss = in.varint();
    if (loss >= loss_count) in.fail();
    m.loss = static_cast<Loss>(in.ok() ? loss : 0);
    m.record = in.varint32();
    m.bytes = in.varint();
  }
}

}  // namespace xtrace::trace
