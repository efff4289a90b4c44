#include "trace/plain_slots.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>

#include "base/bytes.h"
#include "trace/executions.h"
#include "trace/implied_blocks.h"
#include "trace/implied_clocks.h"

namespace xtrace::trace {
namespace {

using wire::chunk_bytes;

constexpr uint64_t view_base = 1ull << 40;      // addresses of the view's own slots
constexpr uint32_t no_record = 0xf0000000;      // a word0 that decode() knows as none
constexpr uint32_t half_span = 1 << 16;
constexpr uint64_t clock_epoch = 1ull << 33, time_epoch = 1ull << 40;   // so that nothing before the first warp is negative

template <typename T>
T value_at(ByteView bytes, uint64_t offset) {
  T v;
  std::memcpy(&v, bytes.data() + offset, sizeof v);
  return v;
}

// What lies in one slot, chunk by chunk.
class Stream {
 public:
  Stream(const wire::AddressMap& map, const ImpliedBlocks& implied, uint32_t warp, ByteView slot, uint64_t start_clock)
      : map_(map), all_lanes_(map.layout.lanes_of(warp)), slot_(slot), clock_(start_clock), at_(map.layout.lead_bytes),
        executions_(map, implied, all_lanes_) {}

  // Appends what the records stand for to `out` (if it is not null).
  void run(Bytes* out) {
    executions_.write_to(out);
    if (map_.layout.entry_in_head) execution(0, all_lanes_);
    while (!ended_) {
      if (map_.layout.short_records)
        short_record();
      else if (map_.layout.short_pairs)
        short_pair();
      else
        chunked_record();
    }
    if (map_.layout.ends_at != 0 && terminated_ && !gave_up_ && !executions_.end_on_ways(ends_)) return give_up();
    executions_.finish();
  }
  uint32_t bytes() const { return executions_.bytes(); }
  uint32_t last_clock() const { return static_cast<uint32_t>(std::max(clock_, executions_.last_clock())); }
  bool terminated() const { return terminated_; }
  uint64_t doubtful() const { return doubtful_; }
  uint64_t stored() const { return at_ - map_.layout.lead_bytes - unwritten_; }   // bytes of records in the slot

 private:
  void execution(uint32_t block, uint32_t mask) { executions_.add({block, mask, clock_, clock_}); }
  // By lane, as counted in the loops in front of the block; or the numbers of the ways to it.
  std::array<uint32_t, 32> rounds_of(uint32_t block) const {
    const wire::Block& behind = map_.blocks[block];
    if (!behind.rounds_alike) return value_at<std::array<uint32_t, 32>>(slot_, at_ + behind.rounds_at);
    std::array<uint32_t, 32> rounds;
    rounds.fill(value_at<uint32_t>(slot_, at_ + behind.rounds_at));
    return rounds;
  }
  // Where no record is: a column for lanes that end, which it reads.
  void pass_ends() {
    if (map_.layout.ends_at == 0 || at_ != map_.layout.ends_at || at_ + wire::column_bytes > slot_.size()) return;
    ends_ = value_at<std::array<uint32_t, 32>>(slot_, at_);
    at_ += wire::column_bytes;
    unwritten_ += 4 * static_cast<uint64_t>(std::count(ends_.begin(), ends_.end(), 0u));
  }
  // Room for `bytes` and a first word that is not zero.
  bool begins(uint32_t bytes) {
    pass_ends();
    const bool room = at_ + bytes <= slot_.size();
    terminated_ = room && value_at<uint32_t>(slot_, at_) == 0;
    ended_ = !room || terminated_;
    return !ended_;
  }
  void give_up() {
    executions_.finish();
    executions_.put({{no_record, 0, 0, 0}});
    ended_ = terminated_ = gave_up_ = true;
  }

  void short_record() {
    if (!begins(sizeof(uint32_t))) return;
    const uint32_t n = map_.layout.index_bits;
    const auto word = value_at<uint32_t>(slot_, at_);
    const uint32_t block = (word & ((1u << n) - 1)) - 1;
    if (block >= map_.blocks.size() || map_.blocks[block].record_bytes == 0) return give_up();
    const uint32_t size = map_.blocks[block].record_bytes;
    if (!begins(size)) return;
    clock_ += ((word >> n) - static_cast<uint32_t>(clock_)) & (~0u >> n);
    const bool full = map_.blocks[block].full;
    const uint32_t mask = full ? all_lanes_ : value_at<uint32_t>(slot_, at_ + sizeof word);
    if (map_.blocks[block].has_ways && !executions_.come_by_ways(block, mask, rounds_of(block))) return give_up();
    if (map_.blocks[block].rounds_at != 0 && !map_.blocks[block].has_ways && !executions_.leave_loops(block, mask, rounds_of(block), clock_)) return give_up();
    execution(block, mask);
    if (map_.blocks[block].forks) {
      const auto through = value_at<uint32_t>(slot_, at_ + sizeof word);
      if ((through & ~mask) != 0) return give_up();
      const uint64_t clock = clock_ + map_.blocks[block].fork_cycles;
      if (through != 0) executions_.add({block + 1, through, clock, clock});
    }
    if (map_.blocks[block].rounds_bytes() > 4) unwritten_ += 4 * static_cast<uint64_t>(32 - std::popcount(mask));   // each lane its word
    uint64_t at = at_;
    for (uint32_t next : map_.blocks[block].chain) {
      at += sizeof word;
      clock_ += value_at<uint32_t>(slot_, at) - static_cast<uint32_t>(clock_);
      execution(next, all_lanes_);
    }
    at_ += size;
  }

  void short_pair() {
    constexpr uint32_t size = 8;
    if (!begins(size)) return;
    executions_.put({{wire::word0(wire::RecordKind::pair, 0), ~0u, value_at<uint32_t>(slot_, at_), value_at<uint32_t>(slot_, at_ + 4)}});
    clock_ += value_at<uint32_t>(slot_, at_ + 4) - static_cast<uint32_t>(clock_);
    at_ += size;
  }

  void chunked_record() {
    if (!begins(sizeof(uint32_t))) return;
    const auto head = value_at<uint32_t>(slot_, at_);
    const uint32_t n = map_.layout.index_bits;
    const bool inst = n != 0 || wire::kind_of(head) == wire::RecordKind::inst;
    if (!inst) {
      if (!begins(chunk_bytes)) return;
      auto c = value_at<wire::Chunk>(slot_, at_);
      const bool pair = wire::kind_of(c.word[0]) == wire::RecordKind::pair;
      clock_ += (pair ? c.word[3] : c.word[2]) - static_cast<uint32_t>(clock_);
      if (!pair) c.word[3] = static_cast<uint32_t>(clock_ >> 32);   // counted from the head's clock, like all others
      executions_.put(c);
      at_ += chunk_bytes;
      return;
    }
    const uint32_t index = n != 0 ? (head & ((1u << n) - 1)) - 1 : wire::index_of(head);
    if (index >= map_.blocks.size() || map_.blocks[index].record_bytes == 0) return give_up();
    if (!begins(map_.blocks[index].record_bytes)) return;
    inst_record(index, head);
    at_ += map_.blocks[index].record_bytes;
  }

  void inst_record(uint32_t index, uint32_t head) {
    const wire::Block& block = map_.blocks[index];
    const uint32_t n = map_.layout.index_bits;
    const auto previous = static_cast<uint32_t>(clock_);
    auto clock = previous;
    const Executions::Execution at = executions_.begin(index, block.full ? all_lanes_ : value_at<uint32_t>(slot_, at_ + sizeof head));
    const std::span<uint64_t> clocks = executions_.clocks_of(at);
    bool any = false;
    uint8_t last_bytes = 0;
    for (uint32_t i = 0; i < block.clocks; ++i) {
      if (!block.has_clock(i)) continue;
      const wire::ClockPlace place = block.clock_at.empty() ? wire::ClockPlace{static_cast<uint16_t>(8 + 4 * i), 4}
                                                            : block.clock_at[i];
      const uint32_t before = clock;
      switch (place.bytes) {
        case wire::ClockPlace::in_head: clock += ((head >> n) - clock) & (~0u >> n); break;
        case 2:
          clock += static_cast<uint16_t>(value_at<uint16_t>(slot_, at_ + place.byte) - static_cast<uint16_t>(clock));
          break;
        default: clock = value_at<uint32_t>(slot_, at_ + place.byte);
      }
      // Between two whole clocks 65,536 cycles or more may have passed at once, where the halves can not say.
      if (!any && halves_ && clock - previous >= half_span) ++doubtful_;
      any = true;
      last_bytes = place.bytes;
      clock_ += static_cast<uint32_t>(clock - before);
      clocks[i] = clock_;
    }
    halves_ = !block.clock_at.empty() && last_bytes == 2;
    place_clocks(block, clocks);
    executions_.add({at.block, at.mask, clocks.front(), clocks.back(), at.clocks});
  }

  const wire::AddressMap& map_;
  const uint32_t all_lanes_;   // of the warp
  ByteView slot_;
  uint64_t clock_, at_;
  Executions executions_;
  uint64_t doubtful_ = 0, unwritten_ = 0;
  std::array<uint32_t, 32> ends_{};   // by lane: number of the way on which it ended
  bool ended_ = false, terminated_ = false, gave_up_ = false;
  bool halves_ = false;          // the record before ended with half a clock
};

Result<ByteView> slot_of(const wire::AddressMap& map, const DeviceReader& read, std::span<const wire::SlotEntry> table,
                         uint32_t warp) {
  const wire::SlotLayout& l = map.layout;
  const SlotPlace slot = place_of_slot(l, table, warp);
  return read(slot.address, slot.bytes);
}

struct Slots {
  wire::AddressMap map;      // as spliced
  ImpliedBlocks implied;
  DeviceReader read;
  std::vector<wire::SlotEntry> table;

  Result<ByteView> of(uint32_t warp) const { return slot_of(map, read, table, warp); }
};

// Extends the short clocks and times of the heads, SM by SM in the order of their clocks.
void extend(std::vector<wire::WarpHeader>& headers) {
  constexpr uint64_t time_step = 1ull << wire::head_time_shift, time_span = time_step << 16;
  constexpr uint64_t clocks_in_doubt = 1 << 22;   // by then the time may have gone round (at any clock above 0.5 GHz)
  std::map<uint32_t, std::vector<wire::WarpHeader*>> sms;
  for (wire::WarpHeader& h : headers)
    if (h.start_clock != 0) sms[h.sm].push_back(&h);
  std::optional<uint64_t> reference;
  for (auto& [sm, warps] : sms) {
    const auto first_clock = static_cast<uint32_t>(warps[0]->start_clock);
    for (wire::WarpHeader* h : warps)
      h->start_clock = clock_epoch + first_clock +
                       static_cast<int64_t>(static_cast<int32_t>(static_cast<uint32_t>(h->start_clock) - first_clock));
    std::stable_sort(warps.begin(), warps.end(), [](auto* a, auto* b) { return a->start_clock < b->start_clock; });
    if (!reference) reference = warps[0]->start_time;
    const auto signed_steps = [&](uint64_t time, uint64_t from) {
      return static_cast<int64_t>(static_cast<int16_t>(static_cast<uint16_t>((time - from) >> wire::head_time_shift)));
    };
    uint64_t time = time_epoch + *reference +
                    static_cast<uint64_t>(signed_steps(warps[0]->start_time, *reference) * static_cast<int64_t>(time_step));
    uint64_t clock = warps[0]->start_clock;
    const uint64_t time0 = time, clock0 = clock;
    for (wire::WarpHeader* h : warps) {
      const uint64_t steps = static_cast<uint16_t>((h->start_time - time) >> wire::head_time_shift);
      const uint64_t passed = h->start_clock - clock;
      // Neighbours in time may have read it in the other order.
      int64_t forward = steps < 0x8000 || passed > clocks_in_doubt ? static_cast<int64_t>(steps * time_step)
                                                                   : -static_cast<int64_t>((0x10000 - steps) * time_step);
      if (passed > clocks_in_doubt) {
        const double ns_per_clock = time > time0 + time_span / 8
                                        ? static_cast<double>(time - time0) / static_cast<double>(clock - clock0)
                                        : 1 / 1.755;   // H200 at work, until the launch itself says [measured H200]
        const double turns = (static_cast<double>(passed) * ns_per_clock - static_cast<double>(forward)) /
                             static_cast<double>(time_span);
        forward += static_cast<int64_t>(std::max(0.0, turns + 0.5)) * static_cast<int64_t>(time_span);
      }
      time += static_cast<uint64_t>(forward);
      clock = h->start_clock;
      h->start_time = time;
    }
  }
}

}  // namespace

Result<std::vector<wire::WarpHeader>> warp_starts(const wire::AddressMap& map, const DeviceReader& read,
                                                  std::span<const wire::SlotEntry> table) {
  const wire::SlotLayout& l = map.layout;
  if (l.wraps || l.headers != 0) return internal("wrapping slots are read as they are");
  if (l.table != 0 && table.size() < l.warps)
    return bad_input("slot table has {} entries, the launch {} warps", table.size(), l.warps);
  std::vector<wire::WarpHeader> headers(l.warps);
  for (uint32_t w = 0; w < l.warps; ++w) {
    if (!l.is_sampled(w)) {
      // A head all the same: decode() knows by the bytes that the warp should have left none.
      const SlotPlace place = place_of_slot(l, table, w);
      if (l.headless || place.address == 0) continue;
      XT_TRY(const ByteView slot, read(place.address, sizeof(wire::SlotHead)));
      if (slot.size() >= sizeof(uint64_t) && value_at<uint64_t>(slot, 0) != 0) headers[w].bytes = chunk_bytes;
      continue;
    }
    XT_TRY(const ByteView slot, slot_of(map, read, table, w));
    if (l.headless) {
      // The first record's clock is as good a start as any. All warps are taken to have started.
      const bool any = slot.size() >= chunk_bytes && value_at<uint32_t>(slot, 0) != 0;
      headers[w].start_clock = clock_epoch + (any ? value_at<wire::Chunk>(slot, 0).word[l.short_pairs ? 0 : 2] : 0);
      headers[w].start_time = time_epoch;
      continue;
    }
    if (slot.size() < l.lead_bytes || l.lead_bytes < sizeof(wire::SlotHead)) continue;
    const auto head = value_at<wire::SlotHead>(slot, 0);
    if (value_at<uint64_t>(slot, 0) == 0) continue;
    headers[w].sm = head.sm();
    headers[w].hardware_slot = head.hardware_slot();
    headers[w].start_clock = 1ull << 32 | head.start_clock;
    headers[w].start_time = uint64_t{head.start_time()} << wire::head_time_shift;
  }
  if (!l.headless) extend(headers);
  return headers;
}

Result<RecordView> view_plain_slots(const wire::AddressMap& map, DeviceReader read,
                                    std::span<const wire::SlotEntry> table) {
  const wire::SlotLayout& l = map.layout;
  XT_TRY(std::vector<wire::WarpHeader> headers, warp_starts(map, read, table));
  auto slots = std::make_shared<Slots>(Slots{map, ImpliedBlocks(map), std::move(read), {table.begin(), table.end()}});
  RecordView view;
  uint32_t most = 0;
  for (uint32_t w = 0; w < l.warps; ++w) {
    wire::WarpHeader& h = headers[w];
    if (h.start_clock == 0) continue;
    XT_TRY(const ByteView slot, slots->of(w));
    Stream s(slots->map, slots->implied, w, slot, h.start_clock);
    s.run(nullptr);
    h.bytes = s.bytes() + (s.terminated() ? 0 : chunk_bytes);
    h.exit_clock_lo = s.last_clock();
    view.doubtful_clocks += s.doubtful();
    view.stored_bytes += (l.headless ? 0 : l.whole_sectors ? l.lead_bytes : sizeof(wire::SlotHead)) + s.stored();
    most = std::max(most, h.bytes);
  }

  view.map = map;
  wire::SlotLayout& out = view.map.layout;
  out.table = 0;
  out.slots = view_base;
  out.slot_bytes = std::bit_ceil(2 * chunk_bytes + most);
  out.lead_bytes = chunk_bytes;
  out.index_bits = 0;
  out.short_records = out.short_pairs = out.headless = out.whole_sectors = false;
  out.entry_in_head = false;
  out.ends_at = 0;
  std::vector<bool> recorded(map.blocks.size());
  for (size_t b = 0; b < map.blocks.size(); ++b) {
    recorded[b] = recorded[b] || map.blocks[b].record_bytes != 0 || map.blocks[b].implied || (l.entry_in_head && b == 0);
    for (uint32_t next : map.blocks[b].chain) recorded[next] = true;
    if (map.blocks[b].forks) recorded[b + 1] = true;
  }
  for (size_t b = 0; b < map.blocks.size(); ++b) {
    wire::Block& block = view.map.blocks[b];
    block.chain.clear();
    block.rounds_at = 0;
    block.forks = block.numbered = block.has_ways = false;
    if (recorded[b]) block.record_bytes = block.clocks == 0 ? chunk_bytes : wire::inst_record_bytes(block.clocks);
  }
  view.headers.resize(headers.size() * sizeof(wire::WarpHeader));
  std::memcpy(view.headers.data(), headers.data(), view.headers.size());
  const uint32_t slot_bytes = out.slot_bytes;
  view.read = [slots, slot_bytes, headers = std::move(headers), warp = ~0u, chunks = Bytes()](
                  uint64_t address, uint64_t bytes) mutable -> Result<ByteView> {
    const uint64_t w = (address - view_base) / slot_bytes, offset = (address - view_base) % slot_bytes;
    if (address < view_base || w >= headers.size())
      return internal("a slot at {:#x}, there are {}", address, headers.size());
    if (warp != w) {
      chunks.assign(chunk_bytes, std::byte{0});   // where the head would be
      if (headers[w].start_clock != 0) {
        XT_TRY(const ByteView slot, slots->of(static_cast<uint32_t>(w)));
        Stream(slots->map, slots->implied, static_cast<uint32_t>(w), slot, headers[w].start_clock).run(&chunks);
      }
      warp = static_cast<uint32_t>(w);
    }
    if (offset > chunks.size()) return ByteView();
    return ByteView(chunks).subspan(offset, std::min<uint64_t>(bytes, chunks.size() - offset));
  };
  return view;
}

}  // namespace xtrace::trace
