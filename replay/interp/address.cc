#include "replay/interp/address.h"

#include "replay/interp/memory_map.h"
#include "replay/interp/program.h"

namespace xtrace::replay::interp {
namespace {

bool aligned(Step& s, uint64_t address, unsigned bytes, unsigned lane, const char* space) {
  if (address % bytes == 0) return true;
  s.fail(ErrorKind::device,
         fmt::format("misaligned access to {} memory: {} bytes at {:#x}", space, bytes, address),
         static_cast<int>(lane));
  return false;
}

// Shared memory of another CTA of the cluster.
std::byte* distributed_bytes(Step& s, uint32_t rank, uint32_t address, unsigned bytes, unsigned lane) {
  if (!aligned(s, address, bytes, lane, "distributed shared")) return nullptr;
  const Cluster* cluster = s.cta->cluster.get();
  const std::span<std::byte> shared =
      cluster != nullptr && rank < cluster->shared.size() ? cluster->shared[rank] : std::span<std::byte>();
  if (uint64_t{address} + bytes <= shared.size()) return shared.data() + address;
  s.fail(ErrorKind::device,
         fmt::format(
             "an access of {} bytes at {:#x} of the shared memory of CTA {} of the cluster, which has {:#x} "
             "bytes or has ended",
             bytes, address, rank, shared.size()),
         static_cast<int>(lane));
  return nullptr;
}

std::byte* at_global(Step& s, uint64_t address, unsigned bytes, unsigned lane) {
  if (!aligned(s, address, bytes, lane, "global")) return nullptr;
  std::byte* p = s.memory->find(address, bytes);
  if (p == nullptr)
    s.fail(ErrorKind::device,
           fmt::format("an access of {} bytes at {:#x}, outside recorded memory: {}", bytes, address,
                       s.memory->nearest(address)),
           static_cast<int>(lane));
  return p;
}

std::byte* at_shared(Step& s, uint32_t address, unsigned bytes, unsigned lane) {
  if (!aligned(s, address, bytes, lane, "shared")) return nullptr;
  if (s.cta->rank != 0 && address >> rank_shift == s.cta->rank) address -= s.cta->rank << rank_shift;
  if (uint64_t{address} + bytes <= s.cta->shared.size()) return s.cta->shared.data() + address;
  s.fail(ErrorKind::device,
         fmt::format("an access of {} bytes at {:#x} of shared memory, which has {:#x} bytes", bytes, address,
                     s.cta->shared.size()),
         static_cast<int>(lane));
  return nullptr;
}

std::byte* at_local(Step& s, uint32_t address, unsigned bytes, unsigned lane) {
  if (!aligned(s, address, bytes, lane, "local")) return nullptr;
  const uint32_t size = s.program->local_bytes;
  if (uint64_t{address} + bytes <= size) return s.warp->local.data() + uint64_t{lane} * size + address;
  s.fail(ErrorKind::device,
         fmt::format("an access of {} bytes at {:#x} of local memory: a thread has {:#x} bytes", bytes,
                     address, size),
         static_cast<int>(lane));
  return nullptr;
}

void log(const Step& s, sass::MemSpace space, uint64_t address, unsigned bytes, unsigned lane) {
  if (s.witness != nullptr) s.witness->accessed(space, lane, address, bytes);
}

}  // namespace

void decode_address(Decoder& d, Inst& i, const AddressFields& f) {
  const auto zero = Operand{d.program().layout.zero()};
  i.c[2] = i.c[3] = i.a[1] = zero;
  const bool below_4g = !d.flag(72);  // an address of 32 bits [measured H200]
  i.offset = d.take_signed(f.offset_high, f.offset_low);
  if (!d.extended()) {
    d.gprs(i.a, 24, below_4g ? 1 : 2);
    return;
  }
  const bool wide = d.flag(f.wide_bit), descriptor = d.flag(f.desc_bit);
  if (below_4g) {
    if (wide || descriptor) d.refuse("a 32-bit address with a part of 64 bits");
    d.gprs(i.a, 24, 1);
    d.urs(&i.c[2], f.ur_low, 1);
    return;
  }
  d.gprs(i.a, 24, wide ? 2 : 1);
  if (!wide) i.a[1] = zero;
  if (descriptor && !wide) d.refuse("a descriptor with a 32-bit address");
  Operand uniform[2];
  d.urs(uniform, f.ur_low, 2);
  // The descriptor that kernels load from c[0x0][0x208] has no part in the address.
  if (!descriptor) i.c[2] = uniform[0], i.c[3] = uniform[1];
}

void decode_address32(Decoder& d, Inst& i, unsigned ur_low) {
  i.c[2] = Operand{d.program().layout.zero()};
  d.gprs(i.a, 24, 1);
  i.offset = d.take_signed(63, 40);
  if (d.extended()) d.urs(&i.c[2], ur_low, 1);
}

void decode_scale(Decoder& d, Inst& i) {
  const uint32_t scale = d.program().arch->sm < 90 ? d.take(79, 78) : 0;
  i.scale = static_cast<uint8_t>(scale == 0 ? 0 : scale + 1);
}

std::byte* global_bytes(Step& s, uint64_t address, unsigned bytes, unsigned lane) {
  log(s, sass::MemSpace::global, address, bytes, lane);
  return at_global(s, address, bytes, lane);
}

std::byte* piece_bytes(Step& s, uint64_t address, unsigned bytes, unsigned lane) { return at_global(s, address, bytes, lane); }

std::byte* shared_bytes(Step& s, uint32_t address, unsigned bytes, unsigned lane) {
  log(s, sass::MemSpace::shared, address, bytes, lane);
  return at_shared(s, address, bytes, lane);
}

std::byte* local_bytes(Step& s, uint32_t address, unsigned bytes, unsigned lane) {
  log(s, sass::MemSpace::local, address, bytes, lane);
  return at_local(s, address, bytes, lane);
}

std::byte* cluster_bytes(Step& s, uint32_t address, unsigned bytes, unsigned lane) {
  const uint32_t rank = address >> rank_shift, offset = address & (window_bytes - 1);
  return rank == s.cta->rank ? at_shared(s, offset, bytes, lane)
                             : distributed_bytes(s, rank, offset, bytes, lane);
}

std::byte* generic_bytes(Step& s, uint64_t address, unsigned bytes, unsigned lane) {
  log(s, sass::MemSpace::generic, address, bytes, lane);
  if (in_shared_window(address))
    return cluster_bytes(s, static_cast<uint32_t>(address - shared_window), bytes, lane);
  if (in_local_window(address))
    return at_local(s, static_cast<uint32_t>(address - local_window), bytes, lane);
  return at_global(s, address, bytes, lane);
}

void decode_access_size(Decoder& d, Inst& i) {
  constexpr uint8_t sizes[] = {1, 1, 2, 2, 4, 8, 16, 0};
  const uint32_t size = d.take(75, 73);
  i.bytes = sizes[size];
  i.flag[0] = size == 1 || size == 3;
  if (i.bytes == 0) d.refuse("the access size");
}

}  // namespace xtrace::replay::interp
