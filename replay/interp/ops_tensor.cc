// Copies of boxes through tensor maps (value/tensor_map.h): to shared memory, completing on an mbarrier, from shared memory,
// and reductions. Made at once, like bulk copies (ops_mbarrier.cc).
#include <algorithm>

#include "replay/interp/address.h"
#include "replay/interp/mbarrier.h"
#include "replay/interp/memory_map.h"
#include "replay/interp/op_table.h"
#include "replay/interp/value/tensor_map.h"

namespace xtrace::replay::interp {
namespace {

// i.a: address of the map. i.b[0]: the first of consecutive uniform registers { shared address, barrier (loads), coordinates }.
// i.imm: dimensions. i.c[0]: CTAs of .MULTICAST (i.flag[0]) in its
// upper half. [ptxas 13]
struct Box {
  value::TensorMap map;
  value::Coordinates at{};
  uint32_t shared = 0, barrier = 0;
};

uint32_t block_word(const Step& s, const Inst& i, unsigned k) {
  return s.regs[i.b[0].row + static_cast<int32_t>(k)].lane[0];
}

// Of the tensor, whose rows have no other alignment than 16 bytes.
std::byte* tensor_bytes(Step& s, uint64_t address, uint32_t bytes) {
  std::byte* p = s.memory->find(address, bytes);
  if (p == nullptr)
    s.fail(ErrorKind::device, fmt::format("a copy of {} bytes of a tensor at {:#x}, outside recorded memory: {}", bytes, address,
                                          s.memory->nearest(address)));
  return p;
}

bool refuse(Step& s, ErrorKind kind, std::string why) {
  s.fail(kind, std::move(why));
  return false;
}

void log(WitnessSink& witness, const Step& s, const Inst& i, bool load, uint64_t map, const Box& box) {
  Moved m;
  m.map = map;
  m.shared = box.shared;
  if (load) m.barrier = box.barrier;
  if (i.flag[0]) m.ctas = s.row(i.c[0])[0] >> 16;
  m.at.assign(box.at.begin(), box.at.begin() + i.imm);
  witness.moved(m);
}

bool read_box(Step& s, const Inst& i, bool load, Box& box) {
  const uint64_t address = uint64_t{s.row(i.a[1])[0]} << 32 | s.row(i.a[0])[0];
  if (address % 64 != 0)
    return refuse(s, ErrorKind::device, fmt::format("a tensor map at {:#x}, not aligned to 64 bytes", address));
  const std::byte* p = tensor_bytes(s, address, value::tensor_map_bytes);
  if (p == nullptr) return false;
  const auto parsed = value::parse_tensor_map(ByteView(p, value::tensor_map_bytes));
  if (const auto* why = std::get_if<std::string>(&parsed)) return refuse(s, ErrorKind::unsupported, *why);
  box.map = std::get<value::TensorMap>(parsed);
  if (box.map.rank != i.imm)
    return refuse(s, ErrorKind::device,
                  fmt::format("a copy of {} dimensions through a tensor map of {}", i.imm, box.map.rank));
  box.shared = block_word(s, i, 0);
  if (box.shared % 128 != 0)
    return refuse(s, ErrorKind::device,
                  fmt::format("a box at {:#x} of shared memory, not aligned to 128 bytes", box.shared));
  if (load) box.barrier = block_word(s, i, 1);
  for (unsigned d = 0; d < i.imm; ++d) box.at[d] = static_cast<int32_t>(block_word(s, i, (load ? 2 : 1) + d));
  if (s.witness != nullptr) log(*s.witness, s, i, load, address, box);
  if (const char* why = value::bad_coordinates(box.map, box.at, load)) return refuse(s, ErrorKind::device, why);
  for (unsigned d = 1; d < i.imm && !load; ++d)
    if (box.map.step[d] != 1)
      return refuse(s, ErrorKind::unsupported, "a store through a tensor map with traversal strides, which was not measured");
  return true;
}

void load_to(Step& s, const Box& box, uint32_t shared, uint32_t barrier) {
  const unsigned l = first_lane(s.mask);
  value::each_granule(box.map, box.at, shared, [&](const value::Granule& g) {
    const std::byte* from = nullptr;
    if (s.faulted || (g.inside != 0 && (from = tensor_bytes(s, g.global, g.inside)) == nullptr)) return;
    std::byte* to = cluster_bytes(s, g.shared, value::granule_bytes, l);
    if (to == nullptr) return;
    const auto arrived = value::loaded_granule(box.map, from, g.inside);
    std::memcpy(to, arrived.data(), arrived.size());
  });
  if (!s.faulted)
    change_barrier(s, cluster_bytes(s, barrier, 8, l), {0, -static_cast<int32_t>(box.map.box_bytes())}, l);
}

void tensor_load(Step& s, const Inst& i) {
  Box box;
  if (!read_box(s, i, true, box)) return;
  if (!i.flag[0]) return load_to(s, box, box.shared, box.barrier);
  // To the same offset of every CTA, on the barrier at the same offset there. CTAs are named in the upper half of the register;
  // offsets of pixels are in its lower one. [code of nvcc 13.0; measured H200]
  constexpr uint32_t offset = window_bytes - 1;
  for (uint32_t m = s.row(i.c[0])[0] >> 16; m != 0 && !s.faulted; m &= m - 1) {
    const uint32_t rank = first_lane(m) << rank_shift;
    load_to(s, box, (box.shared & offset) | rank, (box.barrier & offset) | rank);
  }
}

// f(the granule's bytes in the tensor, its bytes in shared memory). What lies beyond the last element of a row, up to 16 bytes,
// is written too, where there is memory. [measured H200]
template <typename F>
void store(Step& s, const Inst& i, F f) {
  Box box;
  if (!read_box(s, i, false, box)) return;
  const unsigned l = first_lane(s.mask);
  value::each_granule(box.map, box.at, box.shared, [&](const value::Granule& g) {
    if (s.faulted || g.inside == 0) return;
    const std::byte* from = cluster_bytes(s, g.shared, value::granule_bytes, l);
    if (from == nullptr) return;
    std::byte* to = s.memory->find(g.global, value::granule_bytes);
    if (to != nullptr) return f(box.map, to, from);
    to = tensor_bytes(s, g.global, g.inside);
    if (to == nullptr) return;
    std::array<std::byte, value::granule_bytes> whole{};
    std::memcpy(whole.data(), to, g.inside);
    f(box.map, whole.data(), from);
    std::memcpy(to, whole.data(), g.inside);
  });
}
void tensor_store(Step& s, const Inst& i) {
  store(s, i, [](const value::TensorMap&, std::byte* to, const std::byte* from) {
    std::memcpy(to, from, value::granule_bytes);
  });
}
void tensor_reduce(Step& s, const Inst& i) {
  store(s, i, [&](const value::TensorMap& map, std::byte* to, const std::byte* from) {
    if (!value::reduce_granule(map, static_cast<value::TensorReduction>(i.op), to, from))
      s.fail(ErrorKind::unsupported, "a reduction of elements of this type, which was not measured");
  });
}

void decode_copy(Decoder& d, Inst& i, bool load) {
  d.urs(i.a, 24, 2);
  i.imm = d.take(81, 79) + 1;
  if (i.imm > value::most_dimensions) d.refuse("the number of dimensions");
  d.expect(82, 82, 0, ".IM2COL");
  Operand block[2 + value::most_dimensions];
  const unsigned words = (load ? 2 : 1) + std::min(i.imm, value::most_dimensions);
  d.urs(block, 32, words);
  i.b[0] = block[0];
  for (unsigned k = 1; k < words; ++k)
    if (block[k].row != block[0].row + static_cast<int32_t>(k)) d.refuse("operands beyond the last uniform register");
  if (d.flag(76)) d.hint(45, 40);  // a cache policy
  i.unit = Unit::global_memory;
}
void decode_load(Decoder& d, Inst& i) {
  decode_copy(d, i, true);
  if (d.opcode() == 0x13b4) {
    i.flag[0] = d.flag(75);
    if (!i.flag[0]) d.refuse("a load with a mask of CTAs that is not .MULTICAST");
    d.urs(i.c, 64, 1);
  }
  i.exec = tensor_load;
}
void decode_store(Decoder& d, Inst& i) {
  decode_copy(d, i, false);
  i.exec = tensor_store;
}
void decode_reduce(Decoder& d, Inst& i) {
  decode_copy(d, i, false);
  i.op = d.take(89, 87);
  i.exec = tensor_reduce;
}
// Fetches into the L2 cache, and orders accesses to tensor maps.
void nothing(Step&, const Inst&) {}
void decode_prefetch(Decoder& d, Inst& i) {
  d.hint(63, 16);
  d.hint(104, 64);
  i.exec = nothing;
}

constexpr Op ops[] = {
    {"UTMALDG", 0x1b4, decode_load},   {"UTMASTG", 0x1b5, decode_store},    {"UTMAREDG", 0x1b6, decode_reduce},
    {"UTMAPF", 0x1b8, decode_prefetch}, {"UTMACCTL", 0x1b9, decode_prefetch},
};

}  // namespace

std::span<const Op> tensor_ops() { return ops; }

}  // namespace xtrace::replay::interp
