#include "trace/perfetto_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "trace/loss.h"
#include "trace/varint.h"

namespace xtrace::trace {
namespace {

// Field numbers of Perfetto's trace_packet.proto, track_event.proto, track_descriptor.proto,
// debug_annotation.proto and interned_data.proto. They are stable: traces are long-lived.
namespace field {
constexpr uint32_t trace_packet = 1;
constexpr uint32_t packet_timestamp = 8, packet_sequence_id = 10, packet_track_event = 11,
                   packet_interned = 12, packet_sequence_flags = 13, packet_track_descriptor = 60;
constexpr uint32_t event_annotations = 4, event_type = 9, event_name_iid = 10, event_track = 11,
                   event_name = 23;
constexpr uint32_t descriptor_uuid = 1, descriptor_name = 2, descriptor_process = 3, descriptor_thread = 4;
constexpr uint32_t process_pid = 1, process_name = 6;
constexpr uint32_t thread_pid = 1, thread_tid = 2, thread_name = 5;
constexpr uint32_t annotation_name_iid = 1, annotation_uint = 3, annotation_string = 6,
                   annotation_pointer = 7, annotation_name = 10;
constexpr uint32_t interned_event_names = 2, interned_annotation_names = 3;
constexpr uint32_t interned_iid = 1, interned_name = 2;
}  // namespace field

constexpr uint64_t slice_begin = 1, slice_end = 2, instant_event = 3;
constexpr uint64_t state_cleared = 1, needs_state = 2;
constexpr uint64_t sequence_id = 1;
constexpr uint64_t annotation_pc = 1, annotation_mask = 2, annotation_instructions = 3;  // iids

// Thread ids lie far above process ids: equal numbers would make a warp the main thread of a process.
constexpr uint64_t first_pid = 1, first_tid = 1'000'000;
constexpr uint64_t tool_track = 1, sm_track = 0x100000000ull, warp_track = 0x200000000ull;

void put_int(std::string& out, uint32_t number, uint64_t value) {
  put_varint(out, uint64_t{number} << 3);
  put_varint(out, value);
}
void put_bytes(std::string& out, uint32_t number, std::string_view bytes) {
  put_varint(out, uint64_t{number} << 3 | 2);
  put_string(out, bytes);
}
std::string interned(uint64_t iid, std::string_view name) {
  std::string s;
  put_int(s, field::interned_iid, iid);
  put_bytes(s, field::interned_name, name);
  return s;
}
std::string annotation(uint64_t name_iid, uint32_t value_field, uint64_t value) {
  std::string s;
  put_int(s, field::annotation_name_iid, name_iid);
  put_int(s, value_field, value);
  return s;
}

}  // namespace

std::vector<std::string> block_labels(const wire::AddressMap& map, const std::vector<std::string>& lines) {
  std::vector<std::string> labels;
  for (size_t b = 0; b < map.blocks.size(); ++b)
    labels.push_back(b < lines.size() && !lines[b].empty()
                         ? fmt::format("B{} {}", b, lines[b])
                         : fmt::format("B{} 0x{:04x}", b, map.blocks[b].first_pc));
  return labels;
}

Result<std::unique_ptr<PerfettoExporter>> PerfettoExporter::create(const std::filesystem::path& path,
                                                                   const wire::AddressMap& map,
                                                                   TraceKind kind, ClockModel clocks,
                                                                   std::vector<std::string> labels,
                                                                   const PerfettoOptions& options) {
  const size_t things = kind == TraceKind::pair ? map.sites.size() : map.blocks.size();
  if (labels.empty()) {
    if (kind == TraceKind::pair) {
      for (const wire::Site& s : map.sites) labels.push_back(fmt::format("0x{:04x}", s.pc));
    } else {
      labels = block_labels(map, {});
    }
  }
  if (labels.size() != things)
    return bad_input("timeline: {} labels for {} {}", labels.size(), things,
                     kind == TraceKind::pair ? "sites" : "blocks");
  if (kind == TraceKind::block)
    for (size_t b = 0; b < labels.size(); ++b)
      if (map.blocks[b].implied || map.blocks[b].placed) labels[b] += " (placed)";
  std::unique_ptr<PerfettoExporter> e(
      new PerfettoExporter(map, kind, std::move(clocks), std::move(labels), options));
  XT_TRY_STATUS(e->output_.create(path));

  std::string names;
  put_bytes(names, field::interned_annotation_names, interned(annotation_pc, "pc"));
  put_bytes(names, field::interned_annotation_names, interned(annotation_mask, "mask"));
  put_bytes(names, field::interned_annotation_names, interned(annotation_instructions, "instructions"));
  std::string body;
  put_bytes(body, field::packet_interned, names);
  e->packet(body);

  std::string process, descriptor;
  put_int(process, field::process_pid, first_pid + 0x10000);
  put_bytes(process, field::process_name, "xtrace");
  put_int(descriptor, field::descriptor_uuid, tool_track);
  put_bytes(descriptor, field::descriptor_process, process);
  body.clear();
  put_bytes(body, field::packet_track_descriptor, descriptor);
  e->packet(body);
  e->instant(tool_track, 0, e->clocks_.statement(), 0);
  if (kind != TraceKind::pair && map.sites_one_in > 1)
    e->instant(tool_track, 0, fmt::format("one part of site:1/{}: a slice lasts as long as it must where what follows is not of this part", map.sites_one_in), 0);
  return e;
}

PerfettoExporter::PerfettoExporter(const wire::AddressMap& map, TraceKind kind, ClockModel clocks,
                                   std::vector<std::string> labels, const PerfettoOptions& options)
    : map_(map),
      kind_(kind),
      clocks_(std::move(clocks)),
      labels_(std::move(labels)),
      options_(options),
      gaps_(map),
      named_(labels_.size(), false) {}

void PerfettoExporter::packet(const std::string& body) {
  std::string p = body;
  put_int(p, field::packet_sequence_id, sequence_id);
  put_int(p, field::packet_sequence_flags, first_packet_ ? state_cleared | needs_state : needs_state);
  first_packet_ = false;
  put_bytes(out_, field::trace_packet, p);
}

void PerfettoExporter::describe_sm(uint32_t sm) {
  if (sm >= sm_described_.size()) sm_described_.resize(sm + 1, false);
  if (sm_described_[sm]) return;
  sm_described_[sm] = true;
  std::string process, descriptor, body;
  put_int(process, field::process_pid, first_pid + sm);
  put_bytes(process, field::process_name, fmt::format("SM {}", sm));
  put_int(descriptor, field::descriptor_uuid, sm_track + sm);
  put_bytes(descriptor, field::descriptor_process, process);
  put_bytes(body, field::packet_track_descriptor, descriptor);
  packet(body);
}

void PerfettoExporter::describe_warp(const WarpTrace& t) {
  const std::string name = fmt::format("CTA {} warp {}", t.cta, t.warp_in_cta);
  std::string thread, descriptor, body;
  put_int(thread, field::thread_pid, first_pid + t.sm);
  put_int(thread, field::thread_tid, first_tid + t.warp);
  put_bytes(thread, field::thread_name, name);
  put_int(descriptor, field::descriptor_uuid, warp_track + t.warp);
  put_bytes(descriptor, field::descriptor_name, name);
  put_bytes(descriptor, field::descriptor_thread, thread);
  put_bytes(body, field::packet_track_descriptor, descriptor);
  packet(body);
}

uint64_t PerfettoExporter::name_iid(uint32_t index, std::string& names) {
  if (!named_[index]) {
    named_[index] = true;
    put_bytes(names, field::interned_event_names, interned(index + 1, labels_[index]));
  }
  return index + 1;
}

void PerfettoExporter::slice(uint64_t track, uint64_t begin_ns, uint64_t end_ns, uint32_t index,
                             uint32_t mask) {
  if (summary_.slices >= options_.max_slices) {
    ++summary_.slices_left_out;
    return;
  }
  ++summary_.slices;
  const bool pair = kind_ == TraceKind::pair;
  std::string event, body, names;
  put_int(event, field::event_type, slice_begin);
  put_int(event, field::event_track, track);
  put_int(event, field::event_name_iid, name_iid(index, names));
  put_bytes(event, field::event_annotations,
            annotation(annotation_pc, field::annotation_pointer,
                       pair ? map_.sites[index].pc : map_.blocks[index].first_pc));
  put_bytes(event, field::event_annotations, annotation(annotation_mask, field::annotation_pointer, mask));
  put_bytes(event, field::event_annotations,
            annotation(annotation_instructions, field::annotation_uint,
                       pair ? 1 : map_.blocks[index].instructions));
  put_int(body, field::packet_timestamp, begin_ns);
  if (!names.empty()) put_bytes(body, field::packet_interned, names);
  put_bytes(body, field::packet_track_event, event);
  packet(body);

  event.clear();
  body.clear();
  put_int(event, field::event_type, slice_end);
  put_int(event, field::event_track, track);
  put_int(body, field::packet_timestamp, std::max(begin_ns, end_ns));
  put_bytes(body, field::packet_track_event, event);
  packet(body);
}

void PerfettoExporter::instant(uint64_t track, uint64_t ns, const std::string& name, uint64_t bytes) {
  std::string event, body;
  put_int(event, field::event_type, instant_event);
  put_int(event, field::event_track, track);
  put_bytes(event, field::event_name, name);
  if (bytes != 0) {
    std::string a;
    put_int(a, field::annotation_uint, bytes);
    put_bytes(a, field::annotation_name, "bytes");
    put_bytes(event, field::event_annotations, a);
  }
  put_int(body, field::packet_timestamp, ns);
  put_bytes(body, field::packet_track_event, event);
  packet(body);
}

uint64_t PerfettoExporter::time_of(const WarpTrace& t, uint64_t clock) const {
  return static_cast<uint64_t>(std::llround(std::max(0.0, clocks_.nanoseconds(t.sm, clock))));
}

// In a part of sparse sites: nothing of other parts lies between, and when the next one began was read.
bool PerfettoExporter::ends_at_next(const WarpTrace& t, uint32_t i) const {
  if (kind_ == TraceKind::pair || map_.sites_one_in == 1) return true;
  if (i + 1 == t.records() || !gaps_.none_behind(t, i)) return false;
  return kind_ == TraceKind::block || map_.blocks[t.index[i + 1]].has_clock(0);
}

// When the execution of record i ended, at the earliest.
uint64_t PerfettoExporter::least_end(const WarpTrace& t, uint32_t i) const {
  const wire::Block& block = map_.blocks[t.index[i]];
  const auto clocks = t.clocks(i);
  if (kind_ == TraceKind::inst) return clocks.back() + (block.clock_at.empty() ? 1 : std::max<uint64_t>(1, block.clock_at.back().stall));
  return clocks.front() + std::max(block.least_cycles, block.instructions);
}

Status PerfettoExporter::add(const WarpTrace& t) {
  ++summary_.warps;
  const uint64_t track = warp_track + t.warp;
  describe_sm(t.sm);
  describe_warp(t);
  const uint64_t end_clock =
      t.exited && t.exit_clock ? t.exit_clock : (t.clock.empty() ? t.start_clock : t.clock.back());
  size_t mark = 0;
  std::vector<LossMark> marks = t.marks;
  std::stable_sort(marks.begin(), marks.end(), [](auto& a, auto& b) { return a.record < b.record; });
  auto marks_before = [&](uint32_t record, uint64_t clock) {
    for (; mark < marks.size() && marks[mark].record <= record; ++mark)
      instant(track, time_of(t, clock), fmt::format("loss: {}", loss_info(marks[mark].loss).name),
              marks[mark].bytes);
  };
  for (uint32_t i = 0; i < t.records(); ++i) {
    const auto clocks = t.clocks(i);
    if (clocks.empty()) continue;
    marks_before(i, clocks.front());
    uint64_t end = end_clock;
    if (t.kind[i] == wire::RecordKind::pair) {
      end = clocks.back();
    } else if (i + 1 < t.records() && !t.clocks(i + 1).empty()) {
      end = t.clocks(i + 1).front();
    }
    if (!ends_at_next(t, i)) end = std::min(end, least_end(t, i));
    // An edge_end closes what edge_begin opened: the slice runs from one to the other.
    if (t.kind[i] != wire::RecordKind::edge_end)
      slice(track, time_of(t, clocks.front()), time_of(t, end), t.index[i], t.mask[i]);
    XT_TRY_STATUS(flush(1u << 20));
  }
  marks_before(t.records(), end_clock);
  last_ns_ = std::max(last_ns_, time_of(t, end_clock));
  return flush(1u << 20);
}

Status PerfettoExporter::flush(size_t above) {
  if (out_.size() < above) return {};
  XT_TRY_STATUS(output_.write(out_.data(), out_.size()));
  summary_.bytes += out_.size();
  out_.clear();
  return {};
}

Result<PerfettoSummary> PerfettoExporter::finish() {
  if (summary_.slices_left_out != 0)
    instant(tool_track, last_ns_,
            fmt::format("limit of {} slices reached: {} slices are not shown", options_.max_slices,
                        summary_.slices_left_out),
            0);
  XT_TRY_STATUS(flush(0));
  XT_TRY_STATUS(output_.finish());
  return summary_;
}

}  // namespace xtrace::trace
