#include "trace/warp_decoder.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace xtrace::trace {

using wire::Chunk;
using wire::chunk_bytes;
using wire::RecordKind;
using wire::WarpHeader;

WarpDecoder::WarpDecoder(const wire::AddressMap& map, TraceKind kind)
    : map_(map), kind_(kind), max_record_bytes_(chunk_bytes) {
  if (kind == TraceKind::inst)
    for (const wire::Block& b : map.blocks) max_record_bytes_ = std::max(max_record_bytes_, b.record_bytes);
  for (const wire::Block& b : map.blocks) may_be_empty_ |= b.other_part;   // a warp may meet nothing of its part
}

uint64_t WarpDecoder::physical(uint64_t position) const {
  const uint64_t cursor = lead_ + position;
  return wraps_ ? cursor & (slot_.size - 1) : cursor;
}

bool WarpDecoder::chunk_at(uint64_t record_start, uint32_t number, Chunk& c) const {
  const uint64_t p = physical(record_start) + uint64_t{number} * chunk_bytes;
  if (p > slot_.bytes.size() || slot_.bytes.size() - p < chunk_bytes) return false;
  std::memcpy(&c, slot_.bytes.data() + p, chunk_bytes);
  return true;
}

WarpDecoder::Head WarpDecoder::head_at(uint64_t position) const {
  Head h;
  Chunk c;
  if (!chunk_at(position, 0, c)) {
    h.problem = Loss::slot_missing;
    return h;
  }
  h.kind = wire::kind_of(c.word[0]);
  h.index = wire::index_of(c.word[0]);
  h.mask = c.word[1];
  if (h.kind == RecordKind::none || h.kind > RecordKind::edge_end) return h;
  const bool block_kind = h.kind == RecordKind::block || h.kind == RecordKind::inst;
  const bool expected = (kind_ == TraceKind::block && h.kind == RecordKind::block) ||
                        (kind_ == TraceKind::inst && h.kind == RecordKind::inst) ||
                        (kind_ == TraceKind::pair && !block_kind);
  if (!expected) {
    h.problem = Loss::kind_mismatch;
    return h;
  }
  if (h.index >= (block_kind ? map_.blocks.size() : map_.sites.size())) {
    h.problem = Loss::unknown_index;
    return h;
  }
  if (block_kind) {
    const wire::Block& b = map_.blocks[h.index];
    if (b.record_bytes == 0) {
      h.problem = Loss::unprobed_block;
      return h;
    }
    h.bytes = b.record_bytes;
    h.clocks = h.kind == RecordKind::inst ? b.clocks : 1;
  } else {
    if (map_.sites[h.index].edge != (h.kind != RecordKind::pair)) {
      h.problem = Loss::kind_mismatch;
      return h;
    }
    h.bytes = chunk_bytes;
    h.clocks = h.kind == RecordKind::pair ? 2 : 1;
  }
  h.valid = true;
  return h;
}

bool WarpDecoder::is_record(ByteView bytes) {
  slot_ = {bytes, bytes.size(), false, false, false};
  lead_ = 0;
  wraps_ = false;
  return head_at(0).valid;
}

void WarpDecoder::append_clock32(uint32_t low, WarpTrace& out) {
  const uint32_t step = low - static_cast<uint32_t>(last_clock_);
  if (forward_only_) lose(Loss::epoch_assumed, 0, out);
  last_clock_ += forward_only_ ? uint64_t{step} : static_cast<uint64_t>(int64_t{static_cast<int32_t>(step)});
  forward_only_ = false;
  out.clock.push_back(last_clock_);
}

// False when a chunk of the record was not read back.
bool WarpDecoder::append(uint64_t position, const Head& h, WarpTrace& out) {
  Chunk c;
  if (!chunk_at(position, h.bytes / chunk_bytes - 1, c) || !chunk_at(position, 0, c)) return false;
  if (h.kind != RecordKind::inst && h.kind != RecordKind::pair) {
    last_clock_ = uint64_t{c.word[3]} << 32 | c.word[2];
    forward_only_ = false;
    out.clock.push_back(last_clock_);
  } else {
    uint32_t word = 2, chunk = 0;
    for (uint32_t i = 0; i < h.clocks; ++i, ++word) {
      if (word == 4) {
        word = 0;
        chunk_at(position, ++chunk, c);
      }
      append_clock32(c.word[word], out);
    }
  }
  out.kind.push_back(h.kind);
  out.index.push_back(h.index);
  out.mask.push_back(h.mask);
  out.clock_begin.push_back(static_cast<uint32_t>(out.clock.size()));
  out.bytes_kept += h.bytes;
  return true;
}

// The first position from `from` on whence record after record leads exactly to the end of the segment (of an
// open one: to its end or across it); the end when there is none. A chunk inside an inst record holds clocks;
// that one of them reads as a header whose chain of records still meets the end is possible only for a clock
// within the first few hundred of a range of 2^28.
uint64_t WarpDecoder::resynchronise(uint64_t from, const Segment& s) const {
  if (from >= s.end) return s.end;
  const size_t n = (s.end - from) / chunk_bytes;
  std::vector<bool> leads(n + 1, false);
  leads[n] = true;
  size_t first = n;
  for (size_t i = n; i-- > 0;) {
    const Head h = head_at(from + i * chunk_bytes);
    if (!h.valid) continue;
    const size_t next = i + h.bytes / chunk_bytes;
    if (next <= n ? leads[next] : s.open) {
      leads[i] = true;
      first = i;
    }
  }
  return from + first * chunk_bytes;
}

// Decodes a segment from `from` on; `end` is where the whole stream ends. Gives the position behind the last
// record kept or counted as lost: past the end of the segment after a crossing record, before it when one was
// left to the caller.
uint64_t WarpDecoder::walk(const Segment& s, uint64_t from, uint64_t end, WarpTrace& out) {
  uint64_t position = from;
  while (position < s.end) {
    const Head h = head_at(position);
    Loss problem = h.problem;
    if (h.valid) {
      const uint64_t next = position + h.bytes;
      if (next > end) {
        problem = Loss::truncated_record;
      } else if (next > s.end && !s.crossing_kept) {
        return position;
      } else if (slot_.tail_shared && physical(position) + h.bytes > slot_.size) {
        lose(Loss::neighbour_overwrote, h.bytes, out);
        gap(out);
        position = next;
        continue;
      } else if (append(position, h, out)) {
        position = next;
        continue;
      } else {
        lose(Loss::slot_missing, h.bytes, out);
        gap(out);
        position = next;
        continue;
      }
    }
    const uint64_t next = resynchronise(position + chunk_bytes, s);
    lose(problem, next - position, out);
    gap(out);
    position = next;
  }
  return position;
}

void WarpDecoder::salvage_records(WarpTrace& out) {
  const uint64_t limit = std::min<uint64_t>(slot_.size, slot_.bytes.size());
  if (limit < lead_) return;
  // A cursor that wrapped has written into the lead; one that did not has left it zero.
  const auto lead = slot_.bytes.first(lead_);
  if (wraps_ && std::any_of(lead.begin(), lead.end(), [](std::byte b) { return b != std::byte{0}; })) return;
  for (uint64_t position = 0; lead_ + position + chunk_bytes <= limit;) {
    const Head h = head_at(position);
    if (!h.valid || lead_ + position + h.bytes > limit || !append(position, h, out)) break;
    position += h.bytes;
  }
}

void WarpDecoder::check_clock_bounds(const WarpHeader& header, WarpTrace& out) {
  if (!out.clock.empty() && !out.front_missing() && out.clock.front() < out.start_clock)
    out.marks.push_back({Loss::clock_before_start, 0, 0});
  if (!out.exited) return;
  const uint64_t last = out.clock.empty() ? out.start_clock : out.clock.back();
  const uint32_t step = header.exit_clock_lo - static_cast<uint32_t>(last);
  // No 64-bit exit clock exists: behind missing records any distance is possible, else half the range is a
  // step back.
  if (step < 0x80000000u || out.tail_missing() || out.clock.empty()) {
    out.exit_clock = last + step;
  } else {
    out.exit_clock = last;
    lose(Loss::clock_after_exit, 0, out);
  }
}

void WarpDecoder::decode(const WarpHeader& header, const SlotView& slot, bool salvage, WarpTrace& out) {
  slot_ = slot;
  lead_ = map_.layout.lead_bytes;
  wraps_ = map_.layout.wraps;
  last_clock_ = out.start_clock;
  forward_only_ = false;
  out.exited = header.bytes != wire::not_exited;
  if (!out.exited) {
    if (salvage) salvage_records(out);
    lose(Loss::not_exited, 0, out);
    gap(out);
    check_clock_bounds(header, out);
    return;
  }

  out.bytes_written = header.bytes;
  uint64_t end = header.bytes;
  if (end % chunk_bytes != 0) {
    lose(Loss::ragged_bytes, 0, out);
    end = align_down(end, chunk_bytes);
  }
  if (slot.overrun_into) lose(Loss::neighbour_overran, 0, out);
  uint64_t position = 0;  // everything before it is decoded or counted

  if (!wraps_) {
    // `room`: how far the stream can be read. Behind it bytes are missing, for one of two reasons.
    const uint64_t room = slot.size > lead_ ? slot.size - lead_ : 0;
    const uint64_t readable =
        slot.bytes.size() > lead_ ? align_down(slot.bytes.size() - lead_, chunk_bytes) : 0;
    Segment s{0, std::min({end, room, readable}), false, false, false};
    s.open = s.end < end;
    position = walk(s, 0, end, out);
    if (position < end) {
      lose(room < end && room <= readable ? Loss::guard_overrun : Loss::slot_missing, end - position, out);
      gap(out);
    }
  } else {
    const bool dropped = end > slot.size;
    const uint64_t begin = dropped ? end - slot.size : 0;
    const uint64_t lap =
        align_up(lead_ + begin, slot.size) - lead_;  // where the cursor meets the end of the slot
    const bool laps = lap < end;
    if (dropped) {
      // What is left of the oldest record, and with it the position of the first whole one, is found from
      // behind.
      Segment front{begin, laps && slot.front_shared ? lap : end, laps && slot.front_shared, true, true};
      position = resynchronise(begin, front);
      // A record that crosses the end of the slot and has lost its head has an unknown length, and the chunks
      // at the start of the slot that it jumped over are a lap older than they look: skip what the longest
      // record could cover.
      const uint64_t jump = max_record_bytes_ - chunk_bytes;
      const uint64_t cursor = lead_ + begin, in_lap = physical(begin);
      if (cursor >= slot.size && in_lap < jump) {
        if (position < begin + (jump - in_lap))
          position = resynchronise(std::min(end, begin + (jump - in_lap)), front);
      } else if (!front.open && laps && position >= lap && position < lap + jump) {
        position = resynchronise(std::min(end, lap + jump), front);
      }
      lose(Loss::wrapped, position, out);
      gap(out);
      forward_only_ = true;
    }
    if (laps && slot.front_shared) {
      position = walk({begin, lap, true, true, dropped}, position, end, out);
      const uint64_t clear = std::min(end, std::max(position, lap + max_record_bytes_ - chunk_bytes));
      const Segment rest{clear, end, false, false, true};
      const uint64_t next = resynchronise(clear, rest);
      if (next > position) {
        lose(Loss::neighbour_overwrote, next - position, out);
        gap(out);
      }
      position = walk(rest, next, end, out);
    } else {
      position = walk({begin, end, false, false, dropped}, position, end, out);
    }
  }
  out.bytes_dropped = out.bytes_written - out.bytes_kept;
  if (end == 0 && kind_ != TraceKind::pair && !may_be_empty_) {
    lose(Loss::no_records, 0, out);
    gap(out);
  }
  check_clock_bounds(header, out);
}

}  // namespace xtrace::trace
