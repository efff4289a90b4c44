#include "trace/mem_trace.h"

#include <bit>
#include <cstring>

#include "trace/slot_walk.h"

namespace xtrace::trace {
namespace {

using wire::Access;

constexpr uint32_t warp_lanes = 32;

template <typename T>
T value_at(ByteView bytes, uint64_t offset) {
  T v;
  std::memcpy(&v, bytes.data() + offset, sizeof v);
  return v;
}

class Record {
 public:
  Record(const wire::AddressMap& map, const wire::Block& block, uint32_t warp_in_cta, ByteView bytes)
      : map_(map), bytes_(bytes), warp_in_cta_(warp_in_cta), full_(block.full) {}

  uint32_t active() const { return full_ ? ~0u : value_at<uint32_t>(bytes_, sizeof(uint32_t)); }

  uint32_t mask(const Access& a) const {
    uint32_t mask = active();
    if (a.mask != Access::none) mask &= value_at<uint32_t>(bytes_, a.mask);
    return a.lanes < 32 ? mask & ((1u << a.lanes) - 1) : mask;
  }

  bool made(const Access& a) const { return a.mask == Access::none || scalar(a.mask) != 0; }
  void operands(const Access& a, std::vector<uint32_t>& out) const {
    out.clear();
    for (const Access::Operand& o : a.operands) out.push_back(static_cast<uint32_t>(scalar(o.place)));
  }

  void addresses(const Access& a, uint32_t mask, LaneAddresses& out) const {
    const uint64_t base = (scalar(a.uniform_high) << 32) + scalar(a.uniform_low) + static_cast<uint64_t>(int64_t{a.offset});
    const bool low_only = !a.wide || a.high_is_known;
    const std::vector<uint32_t>* numbers = a.numbers == Access::none ? nullptr : &map_.lane_numbers[a.numbers];
    const auto number = [&](unsigned lane) -> uint32_t {
      if (numbers == nullptr) return 0;
      return (*numbers)[numbers->size() == warp_lanes ? lane : warp_in_cta_ * warp_lanes + lane];
    };
    // The mask names the lanes for which the base was taken, cut by those that give addresses.
    const uint32_t of = a.base_of == Access::BaseOf::first_of_mask ? mask : a.base_of == Access::BaseOf::first_active ? active() : 1;
    const uint32_t of_base = a.base == Access::none || of == 0 ? 0 : number(static_cast<unsigned>(std::countr_zero(of)));
    for (; mask != 0; mask &= mask - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(mask));
      const auto more = static_cast<uint32_t>(a.numbers == Access::none ? column(a.low, lane) : number(lane) - of_base);
      const uint64_t unscaled = static_cast<uint32_t>(scalar(a.base)) + more;
      const uint64_t low = a.scale == 0 ? unscaled : static_cast<uint32_t>(unscaled << a.scale);
      const uint64_t sum = (column(a.high, lane) << 32) + low + base;
      out[lane] = low_only ? of_low_word(a, static_cast<uint32_t>(sum)) : sum;
    }
  }

 private:
  uint64_t of_low_word(const Access& a, uint32_t low) const {
    return a.wide && a.high_is_known ? uint64_t{map_.layout.memory_highs.of_low(low)} << 32 | low : low;
  }
  uint64_t scalar(uint32_t place) const { return place == Access::none ? 0 : value_at<uint32_t>(bytes_, place); }
  uint64_t column(uint32_t place, unsigned lane) const {
    return place == Access::none ? 0 : value_at<uint32_t>(bytes_, place + sizeof(uint32_t) * lane);
  }
  const wire::AddressMap& map_;
  ByteView bytes_;
  uint32_t warp_in_cta_;
  bool full_;
};

class SlotDecoder {
 public:
  SlotDecoder(const wire::AddressMap& map, std::span<const AccessRange> ranges, MemVisitor& visitor)
      : map_(map), ranges_(ranges), visitor_(visitor) {}

  // Gives the number of records.
  Result<uint32_t> run(ByteView slot, MemWarp& w) {
    uint64_t at = map_.layout.lead_bytes;
    uint32_t records = 0;
    const auto lose = [&](Loss loss, uint64_t bytes) { w.marks.push_back({loss, records, bytes}); };
    for (;; ++records) {
      if (at + sizeof(uint32_t) > slot.size()) {
        lose(Loss::guard_overrun, 0);
        break;
      }
      const auto word0 = value_at<uint32_t>(slot, at);
      if (word0 == 0) break;
      if (wire::kind_of(word0) != wire::RecordKind::mem) {
        lose(wire::kind_of(word0) > wire::RecordKind::mem ? Loss::unknown_kind : Loss::kind_mismatch, 0);
        break;
      }
      const uint32_t block = wire::index_of(word0);
      if (block >= map_.blocks.size() || map_.blocks[block].record_bytes == 0) {
        lose(block >= map_.blocks.size() ? Loss::unknown_index : Loss::unprobed_block, 0);
        break;
      }
      const uint32_t size = map_.blocks[block].record_bytes;
      if (at + size > slot.size()) {
        lose(Loss::guard_overrun, size);
        w.bytes_written += size;
        break;
      }
      XT_TRY_STATUS(visit(block, Record(map_, map_.blocks[block], w.warp_in_cta, slot.subspan(at, size))));
      at += size;
      w.bytes_written += size;
      w.bytes_kept += size;
    }
    return records;
  }

 private:
  Status visit(uint32_t block, const Record& record) {
    XT_TRY_STATUS(visitor_.block(block, record.active()));
    for (uint32_t k = ranges_[block].first; k < ranges_[block].last; ++k) {
      if (map_.accesses[k].form != Access::Form::lanes) {
        record.operands(map_.accesses[k], words_);
        XT_TRY_STATUS(visitor_.operands(k, record.made(map_.accesses[k]) ? record.active() : 0, words_));
        continue;
      }
      const uint32_t mask = record.mask(map_.accesses[k]);
      record.addresses(map_.accesses[k], mask, addresses_);
      XT_TRY_STATUS(visitor_.access(k, mask, addresses_));
    }
    return {};
  }

  const wire::AddressMap& map_;
  std::span<const AccessRange> ranges_;
  MemVisitor& visitor_;
  LaneAddresses addresses_{};
  std::vector<uint32_t> words_;
};

}  // namespace

Result<std::vector<AccessRange>> accesses_by_block(const wire::AddressMap& map) {
  std::vector<AccessRange> ranges(map.blocks.size());
  uint32_t block = 0;
  for (uint32_t k = 0; k < map.accesses.size(); ++k) {
    const Access& a = map.accesses[k];
    if (a.block >= map.blocks.size() || a.block < block)
      return bad_input("address map: access {} is of block {}, behind one of block {}", k, a.block, block);
    if (a.high_is_known && !map.layout.memory_highs.known())
      return bad_input("address map: the high word of access {} is not recorded, and the low one does not tell it", k);
    const uint64_t size = map.blocks[a.block].record_bytes;
    for (uint32_t place : {a.uniform_low, a.uniform_high, a.base, a.mask})
      if (place != Access::none && place + sizeof(uint32_t) > size)
        return bad_input("address map: access {} has a word at {} in a record of {} bytes", k, place, size);
    for (const Access::Operand& o : a.operands)
      if (o.place != Access::none && o.place + uint64_t{sizeof(uint32_t)} > size)
        return bad_input("address map: access {} has a word at {} in a record of {} bytes", k, o.place, size);
    for (uint32_t place : {a.low, a.high})
      if (place != Access::none && uint64_t{place} + wire::mem_line > size)
        return bad_input("address map: access {} has a column at {} in a record of {} bytes", k, place, size);
    if (a.numbers != Access::none) {
      if (a.numbers >= map.lane_numbers.size()) return bad_input("address map: access {} has no numbers", k);
      const size_t numbers = map.lane_numbers[a.numbers].size();
      if (numbers != warp_lanes && numbers != size_t{warp_lanes} * map.layout.warps_per_cta)
        return bad_input("address map: access {} has numbers of {} threads", k, numbers);
    }
    if (a.block != block || ranges[block].last == 0) ranges[a.block].first = k;
    block = a.block;
    ranges[block].last = k + 1;
  }
  return ranges;
}

Result<DecodeSummary> decode_mem(const wire::AddressMap& map, const DeviceReader& read,
                                 std::span<const wire::SlotEntry> table, std::span<const uint64_t> counted_bytes,
                                 MemVisitor& visitor) {
  if (map.layout.wraps || map.layout.headers != 0) return internal("address records stand in plain slots with heads");
  XT_TRY(const std::vector<AccessRange> ranges, accesses_by_block(map));
  SlotDecoder decoder(map, ranges, visitor);
  return walk_slots<MemWarp>(map, read, table, counted_bytes,
                             [&](ByteView slot, MemWarp& w) { return decoder.run(slot, w); },
                             [&](const MemWarp& w) { return visitor.warp(w); });
}

}  // namespace xtrace::trace
