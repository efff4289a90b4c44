#include "trace/trace_file.h"

#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "trace/map_columns.h"
#include "trace/mark_columns.h"
#include "trace/varint.h"

namespace xtrace::trace {
namespace {

constexpr char magic[8] = {'X', 'T', 'R', 'T', 'R', 'A', 'C', 'E'};
constexpr uint32_t tag_meta = 0x4154454d;   // "META"
constexpr uint32_t tag_warps = 0x50524157;  // "WARP"
constexpr uint32_t tag_end = 0x54444e45;    // "ENDT"
constexpr size_t frame_target = 4u << 20;   // raw bytes after which a frame of warps is closed
constexpr uint64_t most_raw = 8ull << 30;   // a frame that claims more is damaged: one warp never has that

struct FrameHeader {
  uint32_t tag, zero;
  uint64_t compressed, raw;
};
static_assert(sizeof(FrameHeader) == 24);

std::string encode_meta(const TraceMeta& meta) {
  std::string out;
  const TraceIdentity& id = meta.identity;
  put_string(out, id.bundle);
  put_varint(out, id.launch_ordinal);
  put_string(out, id.kernel);
  put_varint(out, id.code.low);
  put_varint(out, id.code.high);
  for (const Dim3& d : {id.grid, id.block})
    for (uint32_t v : {d.x, d.y, d.z}) put_varint(out, v);
  put_varint(out, id.sm);
  put_string(out, id.device);
  out.append(reinterpret_cast<const char*>(&id.sm_clock_ghz), sizeof id.sm_clock_ghz);
  put_string(out, id.verdict);
  put_varint(out, id.notes.size());
  for (const auto& [key, value] : id.notes) {
    put_string(out, key);
    put_string(out, value);
  }
  put_varint(out, static_cast<uint64_t>(meta.kind));
  encode_map(out, meta.map);
  put_varint(out, meta.headers.size());
  out.append(reinterpret_cast<const char*>(meta.headers.data()),
             meta.headers.size() * sizeof(wire::WarpHeader));
  put_varint(out, meta.labels.size());
  for (const std::string& s : meta.labels) put_string(out, s);
  return out;
}

void encode_warp(std::string& out, const WarpTrace& t) {
  for (uint64_t v : {uint64_t{t.warp}, uint64_t{t.cta}, uint64_t{t.warp_in_cta}, uint64_t{t.sm},
                     uint64_t{t.hardware_slot}, uint64_t{t.cta_part}, t.start_clock, t.start_time, uint64_t{t.exited}, t.exit_clock,
                     t.bytes_written, t.bytes_kept, t.bytes_dropped})
    put_varint(out, v);
  put_varint(out, t.gaps.size());
  for (uint32_t g : t.gaps) put_varint(out, g);
  put_marks(out, t.marks);
  put_varint(out, t.records());
  for (wire::RecordKind k : t.kind) out.push_back(static_cast<char>(k));
  for (uint32_t i : t.index) put_varint(out, i);
  out.append(reinterpret_cast<const char*>(t.mask.data()), t.mask.size() * sizeof(uint32_t));
  uint64_t previous = t.start_clock;
  for (uint64_t c : t.clock) {
    put_signed(out, static_cast<int64_t>(c - previous));
    previous = c;
  }
}

// Clocks of a record; 0 when kind and index can not stand in such a trace.
uint32_t clocks_of(const TraceMeta& meta, wire::RecordKind kind, uint32_t index) {
  switch (kind) {
    case wire::RecordKind::block:
      return meta.kind == TraceKind::block && index < meta.map.blocks.size() ? 1 : 0;
    case wire::RecordKind::inst:
      return meta.kind == TraceKind::inst && index < meta.map.blocks.size() ? meta.map.blocks[index].clocks
                                                                            : 0;
    case wire::RecordKind::pair:
      return meta.kind == TraceKind::pair && index < meta.map.sites.size() ? 2 : 0;
    case wire::RecordKind::edge_begin:
    case wire::RecordKind::edge_end:
      return meta.kind == TraceKind::pair && index < meta.map.sites.size() ? 1 : 0;
    default:
      return 0;
  }
}

void decode_warp(VarintReader& in, const TraceMeta& meta, WarpTrace& t) {
  t.clear();
  for (uint32_t* v : {&t.warp, &t.cta, &t.warp_in_cta, &t.sm, &t.hardware_slot, &t.cta_part}) *v = in.varint32();
  t.start_clock = in.varint();
  t.start_time = in.varint();
  t.exited = in.varint() != 0;
  for (uint64_t* v : {&t.exit_clock, &t.bytes_written, &t.bytes_kept, &t.bytes_dropped}) *v = in.varint();
  t.gaps.resize(in.count());
  for (uint32_t& g : t.gaps) g = in.varint32();
  take_marks(in, t.marks);
  const uint64_t n = in.count(7);  // kind 1, index 1, mask 4, at least one clock
  for (char k : in.bytes(n)) t.kind.push_back(static_cast<wire::RecordKind>(static_cast<uint8_t>(k)));
  if (!in.ok()) return;
  t.index.resize(n);
  for (uint32_t& i : t.index) i = in.varint32();
  t.mask.resize(n);
  const std::string_view masks = in.bytes(n * sizeof(uint32_t));
  if (!in.ok()) return;
  if (n != 0) std::memcpy(t.mask.data(), masks.data(), masks.size());
  uint64_t clock = t.start_clock;
  for (uint64_t i = 0; i < n && in.ok(); ++i) {
    const uint32_t clocks = clocks_of(meta, t.kind[i], t.index[i]);
    if (clocks == 0 || clocks > in.left()) return in.fail();
    for (uint32_t k = 0; k < clocks; ++k) {
      clock += static_cast<uint64_t>(in.signed_varint());
      t.clock.push_back(clock);
    }
    t.clock_begin.push_back(static_cast<uint32_t>(t.clock.size()));
  }
}

}  // namespace

// --- writing

Result<std::unique_ptr<TraceFileWriter>> TraceFileWriter::create(const std::filesystem::path& path,
                                                                 const TraceMeta& meta, int zstd_level) {
  std::unique_ptr<TraceFileWriter> w(new TraceFileWriter(zstd_level, meta.map));
  w->kind_ = meta.kind;
  XT_TRY_STATUS(w->output_.create(path));
  XT_TRY_STATUS(w->output_.write(magic, sizeof magic));
  const uint32_t versions[2] = {trace_file_version, wire::version};
  XT_TRY_STATUS(w->output_.write(versions, sizeof versions));
  XT_TRY_STATUS(w->put_frame(tag_meta, encode_meta(meta)));
  return w;
}

Status TraceFileWriter::put_frame(uint32_t tag, const std::string& raw) {
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (!context) return environment("out of memory for compression");
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level_);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string compressed(ZSTD_compressBound(raw.size()), '\0');
  const size_t n =
      ZSTD_compress2(context.get(), compressed.data(), compressed.size(), raw.data(), raw.size());
  if (ZSTD_isError(n)) return internal("zstd: {}", ZSTD_getErrorName(n));
  const FrameHeader header{tag, 0, n, raw.size()};
  XT_TRY_STATUS(output_.write(&header, sizeof header));
  return output_.write(compressed.data(), n);
}

Status TraceFileWriter::add(const WarpTrace& trace) {
  if (kind_ == TraceKind::mem || kind_ == TraceKind::point) return internal("a {} trace has no such warps", name_of(kind_));
  encode_warp(pending_, trace);
  return close_warp(trace.records());
}

Status TraceFileWriter::MemWriter::block(uint32_t block, uint32_t active) {
  encoder_.block(block, active);
  return {};
}
Status TraceFileWriter::MemWriter::access(uint32_t index, uint32_t mask, const LaneAddresses& addresses) {
  encoder_.access(index, mask, addresses);
  return {};
}
Status TraceFileWriter::MemWriter::operands(uint32_t index, uint32_t active, std::span<const uint32_t> words) {
  encoder_.operands(index, active, words);
  return {};
}
Status TraceFileWriter::MemWriter::warp(const MemWarp& warp) {
  if (file_.kind_ != TraceKind::mem) return internal("not a mem trace");
  return file_.close_warp(encoder_.finish(warp, file_.pending_));
}

Status TraceFileWriter::PointWriter::begin(const PointWarp& warp) {
  if (file_.kind_ != TraceKind::point) return internal("not a point trace");
  encoder_.begin(warp);
  return {};
}
Status TraceFileWriter::PointWriter::event(const PointEvent& event) {
  encoder_.event(event);
  return {};
}
Status TraceFileWriter::PointWriter::end(const PointWarp& warp) {
  return file_.close_warp(encoder_.end(warp, file_.pending_));
}

Status TraceFileWriter::close_warp(uint64_t records) {
  ++warps_;
  records_ += records;
  if (pending_.size() < frame_target) return {};
  XT_TRY_STATUS(put_frame(tag_warps, pending_));
  pending_.clear();
  return {};
}

Status TraceFileWriter::finish(const DecodeSummary& s) {
  if (!pending_.empty()) XT_TRY_STATUS(put_frame(tag_warps, pending_));
  std::string out;
  for (uint64_t v : {warps_, records_, s.sampled_warps, s.unsampled_warps, s.records, s.clocks,
                     s.bytes_written, s.bytes_kept, s.bytes_dropped})
    put_varint(out, v);
  put_varint(out, loss_count);
  for (const LossInfo& info : all_losses()) {
    const LossCounts::Row& r = s.losses.row(info.loss);
    put_string(out, info.name);
    for (uint64_t v : {r.occurrences, r.bytes, uint64_t{r.first_warp}, uint64_t{r.first_record}})
      put_varint(out, v);
  }
  XT_TRY_STATUS(put_frame(tag_end, out));
  return output_.finish();
}

// --- reading

Result<std::unique_ptr<TraceFileReader>> TraceFileReader::open(const std::filesystem::path& path) {
  std::unique_ptr<TraceFileReader> r(new TraceFileReader(path));
  std::error_code ec;
  r->file_bytes_ = std::filesystem::file_size(path, ec);
  if (ec) return bad_input("can not read trace {}: {}", path.string(), ec.message());
  r->file_.open(path, std::ios::binary);
  char head[sizeof magic];
  uint32_t versions[2];
  r->file_.read(head, sizeof head);
  r->file_.read(reinterpret_cast<char*>(versions), sizeof versions);
  if (!r->file_ || std::memcmp(head, magic, sizeof magic) != 0)
    return bad_input("{} is not an xtrace trace file: the first 8 bytes are not XTRTRACE", path.string());
  if (versions[0] != trace_file_version)
    return bad_input("{} has trace format version {}, this program reads version {}", path.string(),
                     versions[0], trace_file_version);
  XT_TRY(Frame frame, r->read_frame());
  if (frame.tag != tag_meta)
    return bad_input("{}: expected the header frame, found tag {:#x}", path.string(), frame.tag);
  XT_TRY_STATUS(r->parse_meta(frame.raw));
  return r;
}

Result<TraceFileReader::Frame> TraceFileReader::read_frame() {
  const auto at = static_cast<uint64_t>(file_.tellg());
  FrameHeader header;
  if (at + sizeof header > file_bytes_)
    return bad_input("{} is incomplete: it ends at {:#x} after {} whole warps, without a trailer",
                     path_.string(), at, warps_read_);
  file_.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file_ || header.compressed > file_bytes_ - at - sizeof header)
    return bad_input(
        "{} is incomplete: the frame at {:#x} needs {} bytes, {} follow ({} whole warps before it)",
        path_.string(), at, header.compressed, file_bytes_ - at - sizeof header, warps_read_);
  std::string compressed(header.compressed, '\0');
  file_.read(compressed.data(), static_cast<std::streamsize>(compressed.size()));
  if (!file_) return environment("can not read {}: {}", path_.string(), std::strerror(errno));
  const unsigned long long content = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  if (content != header.raw || header.raw > most_raw)
    return bad_input("{}: damaged frame at {:#x}: its header says {} bytes, its contents {}", path_.string(),
                     at, header.raw, content);
  Frame frame{header.tag, std::string(header.raw, '\0')};
  const size_t n = ZSTD_decompress(frame.raw.data(), frame.raw.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(n) || n != header.raw)
    return bad_input("{}: damaged frame at {:#x}: {}", path_.string(), at,
                     ZSTD_isError(n) ? ZSTD_getErrorName(n) : "short contents");
  return frame;
}

Status TraceFileReader::parse_meta(const std::string& raw) {
  VarintReader in(raw);
  TraceIdentity& id = meta_.identity;
  id.bundle = in.string();
  id.launch_ordinal = in.varint();
  id.kernel = in.string();
  id.code.low = in.varint();
  id.code.high = in.varint();
  for (Dim3* d : {&id.grid, &id.block})
    for (uint32_t* v : {&d->x, &d->y, &d->z}) *v = in.varint32();
  id.sm = in.varint32();
  id.device = in.string();
  if (const auto b = in.bytes(sizeof id.sm_clock_ghz); b.size() == sizeof id.sm_clock_ghz)
    std::memcpy(&id.sm_clock_ghz, b.data(), b.size());
  id.verdict = in.string();
  id.notes.resize(in.count(2));
  for (auto& [key, value] : id.notes) {
    key = in.string();
    value = in.string();
  }
  const uint64_t kind = in.varint();
  if (kind > static_cast<uint64_t>(TraceKind::point)) in.fail();
  meta_.kind = static_cast<TraceKind>(in.ok() ? kind : 0);
  decode_map(in, meta_.map);
  const uint64_t headers = in.count(sizeof(wire::WarpHeader));
  meta_.headers.resize(headers);
  const std::string_view bytes = in.bytes(headers * sizeof(wire::WarpHeader));
  if (in.ok() && headers != 0) std::memcpy(meta_.headers.data(), bytes.data(), bytes.size());
  meta_.labels.resize(in.count());
  for (std::string& s : meta_.labels) s = in.string();
  if (!in.ok() || !in.at_end()) return bad_input("{}: damaged header frame", path_.string());
  return check_points(meta_.map);
}

Status TraceFileReader::parse_end(const std::string& raw) {
  VarintReader in(raw);
  const uint64_t warps = in.varint(), records = in.varint();
  DecodeSummary& s = summary_;
  for (uint64_t* v : {&s.sampled_warps, &s.unsampled_warps, &s.records, &s.clocks, &s.bytes_written,
                      &s.bytes_kept, &s.bytes_dropped})
    *v = in.varint();
  const uint64_t rows = in.count(5);
  for (uint64_t i = 0; i < rows; ++i) {
    const std::string name = in.string();
    const uint64_t occurrences = in.varint(), bytes = in.varint();
    const uint32_t warp = in.varint32(), record = in.varint32();
    bool known = false;
    for (const LossInfo& info : all_losses()) {
      if (info.name != name) continue;
      s.losses.set(info.loss, {occurrences, bytes, warp, record});
      known = true;
    }
    if (!known && in.ok())
      return bad_input("{}: the trailer counts a loss '{}' that is not known", path_.string(), name);
  }
  if (!in.ok() || !in.at_end()) return bad_input("{}: damaged trailer", path_.string());
  if (warps != warps_read_ || records != records_read_)
    return bad_input("{}: the trailer says {} warps with {} records, the file holds {} with {}",
                     path_.string(), warps, records, warps_read_, records_read_);
  return {};
}

Result<bool> TraceFileReader::more() {
  if (ended_) return false;
  while (at_ == warps_.size()) {
    XT_TRY(Frame frame, read_frame());
    if (frame.tag == tag_end) {
      XT_TRY_STATUS(parse_end(frame.raw));
      ended_ = true;
      return false;
    }
    if (frame.tag != tag_warps)
      return bad_input("{}: unknown frame with tag {:#x} after {} warps", path_.string(), frame.tag,
                       warps_read_);
    warps_ = std::move(frame.raw);
    at_ = 0;
  }
  return true;
}

Result<bool> TraceFileReader::close_warp(const VarintReader& in, uint64_t records) {
  if (!in.ok()) return bad_input("{}: damaged warp after {} whole ones", path_.string(), warps_read_);
  at_ = warps_.size() - in.left();
  ++warps_read_;
  records_read_ += records;
  return true;
}

Result<bool> TraceFileReader::next(WarpTrace& out) {
  if (meta_.kind == TraceKind::mem || meta_.kind == TraceKind::point)
    return bad_input("{} is a {} trace", path_.string(), name_of(meta_.kind));
  XT_TRY(const bool another, more());
  if (!another) return false;
  VarintReader in(std::string_view(warps_).substr(at_));
  decode_warp(in, meta_, out);
  return close_warp(in, out.records());
}

Result<bool> TraceFileReader::next(MemVisitor& visitor) {
  if (meta_.kind != TraceKind::mem) return bad_input("{} is no mem trace", path_.string());
  XT_TRY(const bool another, more());
  if (!another) return false;
  if (ranges_.empty()) {
    XT_TRY(ranges_, accesses_by_block(meta_.map));
  }
  VarintReader in(std::string_view(warps_).substr(at_));
  XT_TRY(const uint64_t records, decode_mem_warp(in, meta_.map, ranges_, visitor));
  return close_warp(in, records);
}

Result<bool> TraceFileReader::next(PointVisitor& visitor) {
  if (meta_.kind != TraceKind::point) return bad_input("{} is no point trace", path_.string());
  XT_TRY(const bool another, more());
  if (!another) return false;
  VarintReader in(std::string_view(warps_).substr(at_));
  if (!implied_) implied_.emplace(meta_.map);
  XT_TRY(const uint64_t records, decode_point_warp(in, meta_.map, *implied_, visitor));
  return close_warp(in, records);
}

}  // namespace xtrace::trace
