#include "trace/point_trace.h"

#include <algorithm>
#include <cstring>

#include "trace/implied_points.h"
#include "trace/lane_values.h"
#include "trace/mark_columns.h"
#include "trace/slot_walk.h"

namespace xtrace::trace {
namespace {

constexpr uint8_t tag_last = 0, tag_event = 1;

uint32_t word_at(ByteView bytes, uint64_t offset) {
  uint32_t v;
  std::memcpy(&v, bytes.data() + offset, sizeof v);
  return v;
}

// A clock of 32 bits, next to one of 64: at most 2^31 cycles away.
uint64_t extended(uint32_t low, uint64_t near) {
  return near + static_cast<uint64_t>(int64_t{static_cast<int32_t>(low - static_cast<uint32_t>(near))});
}

class RecordReader {
 public:
  RecordReader(const wire::AddressMap& map, PointVisitor& visitor) : map_(map), visitor_(visitor), implied_(map), joined_(map.points.size()) {
    uint32_t holder = 0;
    for (uint32_t n = 0; n < map.points.size(); ++n) {
      if (map.points[n].record_bytes != 0) holder = n;
      if (map.points[n].joined) joined_[holder].push_back(n);
    }
  }

  void start(uint64_t clock) {
    clock_ = clock;
    implied_.begin();
  }
  uint64_t clocks() const { return clocks_; }

  // The records that lie in `bytes`, up to a zero or to the end. Gives the number of events.
  Result<uint32_t> run(ByteView bytes, uint64_t at, bool ends_by_zero, PointWarp& w) {
    uint64_t events = 0;
    const auto lose = [&](Loss loss, uint64_t lost) { w.marks.push_back({loss, static_cast<uint32_t>(events), lost}); };
    for (;;) {
      if (!ends_by_zero && at == bytes.size()) break;
      if (at + sizeof(uint32_t) > bytes.size()) {
        lose(Loss::guard_overrun, 0);
        break;
      }
      const uint32_t word0 = word_at(bytes, at);
      if (word0 == 0 && ends_by_zero) break;
      if (wire::kind_of(word0) != wire::RecordKind::point) {
        lose(wire::kind_of(word0) > wire::RecordKind::point ? Loss::unknown_kind : Loss::kind_mismatch, 0);
        break;
      }
      const uint32_t number = wire::index_of(word0);
      if (number >= map_.points.size() || map_.points[number].record_bytes == 0) {
        lose(Loss::unknown_index, 0);
        break;
      }
      const uint32_t size = map_.points[number].record_bytes;
      w.bytes_written += size;
      if (at + size > bytes.size()) {
        lose(Loss::guard_overrun, size);
        break;
      }
      const ByteView record = bytes.subspan(at, size);
      event_.active = word_at(record, sizeof(uint32_t));
      read(number, record);
      XT_TRY(bool whole, implied_.visit(event_, visitor_, events));
      for (size_t k = 0; k < joined_[number].size() && whole; ++k) {
        read(joined_[number][k], record);
        XT_TRY(whole, implied_.visit(event_, visitor_, events));
      }
      if (!whole) {
        lose(Loss::value_untold, size);
        break;
      }
      at += size;
      w.bytes_kept += size;
    }
    return static_cast<uint32_t>(events);
  }

 private:
  // The values of a point, by the lanes of the event before it.
  void read(uint32_t number, ByteView record) {
    const wire::Point& point = map_.points[number];
    event_.point = number;
    event_.scalars.clear();
    event_.columns.clear();
    for (const wire::Value& v : point.values) {
      if (v.is_column()) {
        LaneValues& lanes = event_.columns.emplace_back();
        if (!v.is_recorded()) continue;
        for (unsigned lane = 0; lane < 32; ++lane) {
          const uint32_t word = event_.active >> lane & 1 ? word_at(record, v.place + sizeof(uint32_t) * lane) : 0;
          lanes[lane] = v.kind == wire::Value::Kind::target ? original_of(word) : word;
        }
        continue;
      }
      uint64_t value = v.is_recorded() ? word_at(record, v.place) : 0;
      if (v.is_clock()) {
        value = clock_ = extended(static_cast<uint32_t>(value), clock_);
        ++clocks_;
      }
      event_.scalars.push_back(v.kind == wire::Value::Kind::lanes ? value & event_.active : value);
    }
  }

  // Jump tables lead to where probes of the spliced code stand.
  uint32_t original_of(uint32_t pc) const {
    for (size_t word = pc / 16; word < map_.original_of_new.size(); ++word)
      if (map_.original_of_new[word] != wire::AddressMap::inserted) return map_.original_of_new[word];
    return pc;
  }

  const wire::AddressMap& map_;
  PointVisitor& visitor_;
  ImpliedPoints implied_;
  std::vector<std::vector<uint32_t>> joined_;   // by point: those that its record holds as well
  PointEvent event_;
  uint64_t clock_ = 0, clocks_ = 0;
};

Result<DecodeSummary> decode_wrapping(const wire::AddressMap& map, std::span<const wire::WarpHeader> headers,
                                      const DeviceReader& read, std::span<const wire::SlotEntry> table, uint32_t part,
                                      RecordReader& reader, PointVisitor& visitor) {
  const wire::SlotLayout& l = map.layout;
  DecodeSummary summary;
  for (uint32_t warp = 0; warp < l.warps; ++warp) {
    PointWarp w;
    w.warp = warp;
    w.cta = warp / l.warps_per_cta;
    w.warp_in_cta = warp % l.warps_per_cta;
    w.part = part;
    w.cta_part = l.cta_part;
    const wire::WarpHeader& h = headers[warp];
    if (!l.is_sampled(warp) || (l.by_sm() && h.start_clock == 0)) {
      ++summary.unsampled_warps;
      if (h.start_clock != 0) summary.losses.add(Loss::unsampled_records, warp, 0, 0);
      continue;
    }
    ++summary.sampled_warps;
    w.sm = h.sm;
    w.hardware_slot = h.hardware_slot;
    w.start_clock = h.start_clock;
    w.start_time = h.start_time;
    XT_TRY_STATUS(visitor.begin(w));
    const auto [address, size] = place_of_slot(l, table, warp);
    if (h.start_clock == 0) {
      w.marks.push_back({Loss::never_started, 0, 0});
    } else if (h.bytes == wire::not_exited) {
      w.marks.push_back({Loss::not_exited, 0, 0});
    } else if (l.lead_bytes + uint64_t{h.bytes} > size) {
      w.bytes_written = h.bytes;
      w.marks.push_back({Loss::wrapped, 0, h.bytes});
    } else if (h.bytes != 0) {
      XT_TRY_IN(const ByteView slot, read(address, l.lead_bytes + uint64_t{h.bytes}), "reading the slot of warp {}", warp);
      reader.start(h.start_clock);
      XT_TRY(const uint32_t records, reader.run(slot, l.lead_bytes, false, w));
      summary.records += records;
    }
    summary.bytes_written += w.bytes_written;
    summary.bytes_kept += w.bytes_kept;
    for (const LossMark& m : w.marks) summary.losses.add(m.loss, warp, m.record, m.bytes);
    XT_TRY_STATUS(visitor.end(w));
  }
  summary.bytes_dropped = summary.bytes_written - summary.bytes_kept;
  return summary;
}

}  // namespace

PointShape shape_of(const wire::Point& point) {
  PointShape s;
  for (const wire::Value& v : point.values) ++(v.is_column() ? s.columns : s.scalars);
  return s;
}

Status check_points(const wire::AddressMap& map) {
  const wire::Point* holder = nullptr;   // of the record that joined ones are in
  for (size_t k = 0; k < map.points.size(); ++k) {
    const wire::Point& p = map.points[k];
    if (p.block >= map.blocks.size()) return bad_input("address map: point {} is in block {} of {}", k, p.block, map.blocks.size());
    if (p.record_bytes != 0) holder = &p;
    else if (!p.joined) continue;
    const bool in_block = holder != nullptr && holder->block == p.block && !p.is_behind(map.blocks[p.block]) && !holder->is_behind(map.blocks[p.block]);
    if (p.joined && (!in_block || p.implied || p.record_bytes != 0))
      return bad_input("address map: point {} is joined to the record of another, and there is none in front of it in its block", k);
    uint64_t least = 2 * sizeof(uint32_t);
    for (const wire::Value& v : p.values)
      if (v.is_recorded()) least = std::max<uint64_t>(least, uint64_t{v.place} + (v.is_column() ? wire::column_bytes : sizeof(uint32_t)));
    if (least > holder->record_bytes)
      return bad_input("address map: point {} has a value up to byte {} of a record of {}", k, least, holder->record_bytes);
  }
  return check_implied(map);
}

Result<DecodeSummary> decode_points(const wire::AddressMap& map, std::span<const wire::WarpHeader> starts,
                                    const DeviceReader& read, std::span<const wire::SlotEntry> table,
                                    std::span<const uint64_t> counted_bytes, uint32_t part, PointVisitor& visitor) {
  XT_TRY_STATUS(check_points(map));
  if (starts.size() < map.layout.warps) return bad_input("{} warp starts, the launch has {} warps", starts.size(), map.layout.warps);
  RecordReader reader(map, visitor);
  Result<DecodeSummary> summary = tl::make_unexpected(Error{});
  if (map.layout.wraps) {
    summary = decode_wrapping(map, starts, read, table, part, reader, visitor);
  } else {
    bool open = false;
    const auto begin = [&](PointWarp& w) {
      open = true;
      w.part = part;
      w.start_clock = starts[w.warp].start_clock;
      w.start_time = starts[w.warp].start_time;
      return visitor.begin(w);
    };
    summary = walk_slots<PointWarp>(
        map, read, table, counted_bytes,
        [&](ByteView slot, PointWarp& w) -> Result<uint32_t> {
          XT_TRY_STATUS(begin(w));
          reader.start(w.start_clock);
          return reader.run(slot, map.layout.lead_bytes, true, w);
        },
        [&](PointWarp& w) -> Status {
          if (!open) XT_TRY_STATUS(begin(w));   // it never started
          open = false;
          return visitor.end(w);
        });
  }
  if (summary) summary->clocks = reader.clocks();
  return summary;
}

// --- in a file

PointEncoder::PointEncoder(const wire::AddressMap& map) : map_(map) {
  for (const wire::Point& p : map.points) last_.emplace_back(p.values.size(), 0);
}

void PointEncoder::begin(const PointWarp& warp) {
  events_.clear();
  records_ = 0;
  clock_ = warp.start_clock;
  for (auto& values : last_) std::fill(values.begin(), values.end(), 0);
}

void PointEncoder::event(const PointEvent& e) {
  ++records_;
  if (map_.points[e.point].implied) return;
  events_.push_back(static_cast<char>(tag_event));
  put_varint(events_, e.point);
  put_u32(events_, e.active);
  const wire::Point& point = map_.points[e.point];
  size_t scalar = 0, column = 0;
  for (size_t k = 0; k < point.values.size(); ++k) {
    uint64_t& last = point.values[k].is_clock() ? clock_ : last_[e.point][k];
    if (!point.values[k].is_recorded()) {
      ++(point.values[k].is_column() ? column : scalar);
    } else if (!point.values[k].is_column()) {
      const uint64_t value = e.scalars[scalar++];
      put_signed(events_, static_cast<int64_t>(value - last));
      last = value;
    } else if (const LaneValues& values = e.columns[column++]; e.active != 0) {
      int64_t stride = 0;
      const LaneShape shape = shape_of(e.active, values, stride);
      events_.push_back(static_cast<char>(shape));
      put_lanes(events_, shape, e.active, values, stride, last);
    }
  }
}

uint64_t PointEncoder::end(const PointWarp& w, std::string& out) {
  for (uint64_t v : {uint64_t{w.warp}, uint64_t{w.cta}, uint64_t{w.warp_in_cta}, uint64_t{w.sm}, uint64_t{w.hardware_slot},
                     uint64_t{w.part}, uint64_t{w.cta_part}, w.start_clock, w.start_time, w.bytes_written, w.bytes_kept})
    put_varint(out, v);
  put_marks(out, w.marks);
  out += events_;
  out.push_back(static_cast<char>(tag_last));
  return records_;
}

Result<uint64_t> decode_point_warp(VarintReader& in, const wire::AddressMap& map, ImpliedPoints& implied, PointVisitor& visitor) {
  PointWarp w;
  for (uint32_t* v : {&w.warp, &w.cta, &w.warp_in_cta, &w.sm, &w.hardware_slot, &w.part, &w.cta_part}) *v = in.varint32();
  for (uint64_t* v : {&w.start_clock, &w.start_time, &w.bytes_written, &w.bytes_kept}) *v = in.varint();
  take_marks(in, w.marks);
  if (!in.ok()) return uint64_t{0};
  XT_TRY_STATUS(visitor.begin(w));
  std::vector<std::vector<uint64_t>> last_values;
  for (const wire::Point& p : map.points) last_values.emplace_back(p.values.size(), 0);
  uint64_t records = 0, clock = w.start_clock;
  implied.begin();
  PointEvent e;
  for (uint8_t tag = take_u8(in); in.ok() && tag != tag_last; tag = take_u8(in)) {
    e.point = in.varint32();
    e.active = take_u32(in);
    if (tag != tag_event || e.point >= map.points.size() || map.points[e.point].implied) in.fail();
    if (!in.ok()) break;
    e.scalars.clear();
    e.columns.clear();
    const wire::Point& point = map.points[e.point];
    for (size_t k = 0; k < point.values.size() && in.ok(); ++k) {
      uint64_t& last = point.values[k].is_clock() ? clock : last_values[e.point][k];
      if (!point.values[k].is_column() && !point.values[k].is_recorded()) {
        e.scalars.push_back(0);
        continue;
      }
      if (!point.values[k].is_column()) {
        e.scalars.push_back(last += static_cast<uint64_t>(in.signed_varint()));
        continue;
      }
      LaneValues& values = e.columns.emplace_back();
      if (e.active == 0 || !point.values[k].is_recorded()) continue;
      const uint8_t shape = take_u8(in);
      if (shape > static_cast<uint8_t>(LaneShape::differences)) in.fail();
      if (in.ok()) take_lanes(in, LaneShape{shape}, e.active, values, last);
    }
    if (!in.ok()) break;
    XT_TRY(const bool whole, implied.visit(e, visitor, records));
    if (!whole) in.fail();
  }
  if (in.ok()) XT_TRY_STATUS(visitor.end(w));
  return records;
}

}  // namespace xtrace::trace
