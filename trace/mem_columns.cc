#include "trace/mem_columns.h"

#include <algorithm>

#include "trace/lane_values.h"
#include "trace/mark_columns.h"

namespace xtrace::trace {
namespace {

// Form of an access: which lanes, in the low bits; how their addresses stand (LaneShape), above.
enum Lanes : uint8_t { lanes_none = 0, lanes_active = 1, lanes_own = 2 };
constexpr unsigned shape_shift = 2;
constexpr uint8_t columns_end = 0, columns_block = 1;

}  // namespace

MemEncoder::MemEncoder(const wire::AddressMap& map) : last_(map.accesses.size(), 0) {
  for (const wire::Access& a : map.accesses) {
    may_lack_.push_back(a.mask != wire::Access::none);
    last_words_.emplace_back(a.operands.size(), 0);
  }
}

void MemEncoder::block(uint32_t block, uint32_t active) {
  events_.push_back(static_cast<char>(columns_block));
  put_varint(events_, block);
  put_u32(events_, active);
  active_ = active;
  ++records_;
}

void MemEncoder::access(uint32_t index, uint32_t mask, const LaneAddresses& addresses) {
  if (mask == 0) {
    events_.push_back(static_cast<char>(lanes_none));
    return;
  }
  int64_t stride = 0;
  const LaneShape shape = shape_of(mask, addresses, stride);
  const Lanes lanes = mask == active_ ? lanes_active : lanes_own;
  events_.push_back(static_cast<char>(lanes | static_cast<uint8_t>(shape) << shape_shift));
  if (lanes == lanes_own) put_u32(events_, mask);
  put_lanes(events_, shape, mask, addresses, stride, last_[index]);
}

void MemEncoder::operands(uint32_t index, uint32_t active, std::span<const uint32_t> words) {
  if (may_lack_[index]) {
    events_.push_back(static_cast<char>(active != 0));
    if (active == 0) return;
  }
  for (size_t k = 0; k < words.size(); ++k) {
    uint32_t& last = last_words_[index][k];
    put_signed(events_, static_cast<int32_t>(words[k] - last));
    last = words[k];
  }
}

uint64_t MemEncoder::finish(const MemWarp& w, std::string& out) {
  for (uint64_t v : {uint64_t{w.warp}, uint64_t{w.cta}, uint64_t{w.warp_in_cta}, uint64_t{w.sm}, uint64_t{w.hardware_slot},
                     uint64_t{w.cta_part}, w.bytes_written, w.bytes_kept})
    put_varint(out, v);
  put_marks(out, w.marks);
  out += events_;
  out.push_back(static_cast<char>(columns_end));
  events_.clear();
  std::fill(last_.begin(), last_.end(), 0);
  for (std::vector<uint32_t>& words : last_words_) std::fill(words.begin(), words.end(), 0);
  const uint64_t records = records_;
  records_ = 0;
  return records;
}

Result<uint64_t> decode_mem_warp(VarintReader& in, const wire::AddressMap& map, std::span<const AccessRange> ranges,
                                 MemVisitor& visitor) {
  MemWarp w;
  for (uint32_t* v : {&w.warp, &w.cta, &w.warp_in_cta, &w.sm, &w.hardware_slot, &w.cta_part}) *v = in.varint32();
  for (uint64_t* v : {&w.bytes_written, &w.bytes_kept}) *v = in.varint();
  take_marks(in, w.marks);
  std::vector<uint64_t> last(map.accesses.size(), 0);
  std::vector<std::vector<uint32_t>> words;
  for (const wire::Access& a : map.accesses) words.emplace_back(a.operands.size(), 0);
  LaneAddresses addresses{};
  uint64_t records = 0;
  for (uint8_t tag = take_u8(in); in.ok() && tag != columns_end; tag = take_u8(in)) {
    const uint32_t block = in.varint32(), active = take_u32(in);
    if (tag != columns_block || block >= ranges.size()) in.fail();
    if (!in.ok()) break;
    ++records;
    XT_TRY_STATUS(visitor.block(block, active));
    for (uint32_t k = ranges[block].first; k < ranges[block].last; ++k) {
      if (map.accesses[k].form != wire::Access::Form::lanes) {
        const uint8_t made = map.accesses[k].mask == wire::Access::none ? 1 : take_u8(in);
        if (made > 1) in.fail();
        if (!in.ok()) return records;
        if (made == 0) {
          XT_TRY_STATUS(visitor.operands(k, 0, words[k]));
          continue;
        }
        for (uint32_t& word : words[k]) word += static_cast<uint32_t>(in.signed_varint());
        if (!in.ok()) return records;
        XT_TRY_STATUS(visitor.operands(k, active, words[k]));
        continue;
      }
      const uint8_t form = take_u8(in), lanes = form & 3, shape = form >> shape_shift;
      if (lanes > lanes_own || shape > static_cast<uint8_t>(LaneShape::differences)) in.fail();
      const uint32_t mask = lanes == lanes_none ? 0 : lanes == lanes_active ? active : take_u32(in);
      if (lanes != lanes_none && mask == 0) in.fail();
      if (!in.ok()) return records;
      if (mask != 0) {
        take_lanes(in, LaneShape{shape}, mask, addresses, last[k]);
        if (!in.ok()) return records;
      }
      XT_TRY_STATUS(visitor.access(k, mask, addresses));
    }
  }
  if (in.ok()) XT_TRY_STATUS(visitor.warp(w));
  return records;
}

}  // namespace xtrace::trace
