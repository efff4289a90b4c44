// What the layout of a `mem` record and its writer both go by.
#pragma once

#include <optional>

#include "instrument/clocks.h"
#include "instrument/probes/probes.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {

// Bytes that a record, and what stands in front of its columns, is a multiple of.
inline uint32_t record_unit(const Scope& scope) {
  return scope.lines ? wire::mem_line : scope.sectors ? wire::sector_bytes : wire::chunk_bytes;
}

// Behind a word that has put 0 there: 1 where the uniform guard holds.
inline sass::RawInst held_guard(sass::enc::Ureg to, const MemRecord::Scalar& s) {
  sass::RawInst w = sass::enc::umov_imm(to, 1);
  set_bits(w, bits(15, 12), s.index | (s.negated ? 8u : 0u));
  return w;
}

// Where the kernel waits for what it loads, behind the access at i; else the end of its block.
inline InstIndex quiet_place(const Code& code, const ProbeBlock& block, InstIndex i) {
  return i == block.last() ? i : find_shadows(code, block, i + 1, block.last()).memory.value_or(block.last());
}

// The part of a value that differs from lane to lane is a multiple of the lane's number, of its row, or of its place in the row. The
// register that helps to find it may hold 4 * lane. What is none of these is taken from the first lane.
inline bool by_lanes(const Strided& l) { return l.step == 0 && l.stride % 4 == 0; }
inline bool by_rows(const Strided& l) { return l.stride == 0; }
inline bool by_columns(const Strided& l) { return l.step == 0u - (l.stride << l.shift) && l.stride % 4 == 0; }
inline bool by_product(const std::optional<Strided>& l) { return l && (by_lanes(*l) || by_rows(*l) || by_columns(*l)); }

}  // namespace xtrace::instrument
