// Decodes the slot of one warp (private to decode.cc; how records lie in a slot: trace/wire/record.h).
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "trace/warp_trace.h"
#include "trace/wire/address_map.h"
#include "trace/wire/record.h"

namespace xtrace::trace {

// The slot of one warp, and what its neighbours in memory did to the bytes they share.
struct SlotView {
  ByteView bytes;             // from the start of the slot on
  uint64_t size = 0;          // power of two
  bool front_shared = false;  // records of the slot before may have run into the first lead_bytes
  bool tail_shared = false;   // the warp of the slot behind wrote its own first lead_bytes
  bool overrun_into = false;  // not wrapping: the warp of the slot before ran past its end
};

class WarpDecoder {
 public:
  WarpDecoder(const wire::AddressMap& map, TraceKind kind);
  WarpDecoder(const wire::AddressMap&& map, TraceKind kind) = delete;   // it must outlive this

  // Fills `out`, whose identity and start are set already, from the slot.
  void decode(const wire::WarpHeader& header, const SlotView& slot, bool salvage, WarpTrace& out);
  // True when the bytes, which begin where a first record would, read as a record.
  bool is_record(ByteView bytes);
  uint32_t max_record_bytes() const { return max_record_bytes_; }

 private:
  // What a chunk says when it is read as the first of a record.
  struct Head {
    bool valid = false;
    Loss problem = Loss::unknown_kind;  // when not valid
    wire::RecordKind kind = wire::RecordKind::none;
    uint32_t index = 0, mask = 0;
    uint32_t bytes = 0;  // of the whole record
    uint32_t clocks = 0;
  };
  // A stretch of the stream of records that can be read in one go. Positions count bytes since the first
  // record.
  struct Segment {
    uint64_t begin = 0, end = 0;
    bool open = false;           // records go on behind `end`
    bool crossing_kept = false;  // a record that begins inside and ends behind can be read
    bool search = false;         // `begin` is not known to be the start of a record
  };

  uint64_t physical(uint64_t position) const;
  bool chunk_at(uint64_t record_start, uint32_t number, wire::Chunk& c) const;
  Head head_at(uint64_t position) const;
  bool append(uint64_t position, const Head& head, WarpTrace& out);
  void append_clock32(uint32_t low, WarpTrace& out);
  uint64_t resynchronise(uint64_t from, const Segment& segment) const;
  uint64_t walk(const Segment& segment, uint64_t from, uint64_t end, WarpTrace& out);
  void salvage_records(WarpTrace& out);
  void check_clock_bounds(const wire::WarpHeader& header, WarpTrace& out);
  static void lose(Loss loss, uint64_t bytes, WarpTrace& out) {
    out.marks.push_back({loss, out.records(), bytes});
  }
  static void gap(WarpTrace& out) {
    if (out.gaps.empty() || out.gaps.back() != out.records()) out.gaps.push_back(out.records());
  }

  const wire::AddressMap& map_;
  const TraceKind kind_;
  uint32_t max_record_bytes_;
  bool may_be_empty_ = false;

  SlotView slot_;
  uint64_t lead_ = 0;
  bool wraps_ = false;
  uint64_t last_clock_ = 0;
  bool forward_only_ =
      false;  // the next 32-bit clock follows dropped records: any distance below 2^32 is forward
};

}  // namespace xtrace::trace
