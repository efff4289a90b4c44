// Addresses of memory instructions: reading their fields, and forming them lane by lane.
#pragma once

#include "replay/interp/decoder.h"
#include "replay/interp/special.h"
#include "replay/interp/step.h"

namespace xtrace::replay::interp {

// Where the fields of a global or generic address stand, by instruction. [nvdisasm 13, measured H200]
struct AddressFields {
  unsigned ur_low;    // of the uniform register
  unsigned wide_bit;  // the vector part has 64 bits
  unsigned desc_bit;  // the uniform register is a memory descriptor and no part of the address
  unsigned offset_high, offset_low;
};
// i.c[2..3]: uniform base (RZ when there is none), i.a[0..1]: vector part, i.offset.
void decode_address(Decoder& d, Inst& i, const AddressFields& f);
// A 32-bit address in shared or local memory; the uniform register, where the form has one, at `ur_low`.
void decode_address32(Decoder& d, Inst& i, unsigned ur_low);
// [R.X4], .X8, .X16 of shared memory, which sm_90 does not have.
void decode_scale(Decoder& d, Inst& i);

inline uint64_t address64(const Step& s, const Inst& i, unsigned l) {
  const uint64_t vector = uint64_t{s.row(i.a[1])[l]} << 32 | s.row(i.a[0])[l];
  const uint64_t uniform = uint64_t{s.row(i.c[3])[0]} << 32 | s.row(i.c[2])[0];
  return vector + uniform + static_cast<uint64_t>(i.offset);
}
inline uint32_t address32(const Step& s, const Inst& i, unsigned l) {
  return (s.row(i.a[0])[l] << i.scale) + s.row(i.c[2])[0] + static_cast<uint32_t>(i.offset);
}

// The bytes that lane l accesses; on a bad address the step fails and nullptr comes back.
std::byte* global_bytes(Step& s, uint64_t address, unsigned bytes, unsigned lane);
// Of a copy that is made for the warp as a whole: no lane accesses it.
std::byte* piece_bytes(Step& s, uint64_t address, unsigned bytes, unsigned lane);
std::byte* shared_bytes(Step& s, uint32_t address, unsigned bytes, unsigned lane);
// A shared address that may name another CTA of the cluster: its rank stands in the upper byte.
std::byte* cluster_bytes(Step& s, uint32_t address, unsigned bytes, unsigned lane);
std::byte* local_bytes(Step& s, uint32_t address, unsigned bytes, unsigned lane);
std::byte* generic_bytes(Step& s, uint64_t address, unsigned bytes, unsigned lane);

// Bytes of an access, [75:73]; sign extension in i.flag[0].
void decode_access_size(Decoder& d, Inst& i);

}  // namespace xtrace::replay::interp
