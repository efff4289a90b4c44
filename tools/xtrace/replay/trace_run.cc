#include "tools/xtrace/replay/trace_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "tools/xtrace/replay/sectors.h"
#include "trace/invariants.h"
#include "trace/plain_slots.h"

namespace xtrace::cli {
namespace {

constexpr uint64_t stride_budget = 8ull << 30;     // equal slots up to here, else one size a warp
constexpr uint32_t largest_slot = 1u << 30;        // of one warp
constexpr uint64_t left_free = 1ull << 30;         // device memory that trace buffers never take
constexpr uint64_t read_whole = 4ull << 30;        // host memory for a buffer
constexpr uint64_t read_ahead = 64ull << 20;       // for larger ones, at a time
constexpr uint64_t read_apart = 64ull << 10;       // slots of so much on an average are read one by one, as far as they were written
constexpr uint64_t read_through = 64ull << 10;     // between slots that are wanted: another copy takes as long

trace::TraceKind trace_kind(instrument::ProbeKind probe) {
  switch (probe) {
    case instrument::ProbeKind::inst: return trace::TraceKind::inst;
    case instrument::ProbeKind::pair: return trace::TraceKind::pair;
    default: return trace::TraceKind::block;
  }
}

// Short records and the heads of packed ones keep 32 - n bits of the clock: enough for launches that end, at any SM clock up to 2 GHz, before they come
// round.
constexpr double clocks_per_us = 2000;
bool outlasts(double us, uint32_t index_bits) { return us * clocks_per_us >= static_cast<double>(1ull << (32 - index_bits)); }

// 0: the launch may last too long, even if the probe slows it down less than `slowed_down` times.
uint32_t short_index_bits(const LaunchContext& c, const Counts& counts) {
  constexpr double slowed_down = 8, longest_instruction_us = 0.5;
  const uint32_t n = c.splicer.index_bits();
  if (!counts.stable || n >= 16) return 0;
  double us = 0;
  if (c.backend.info().measures_time) {
    // The shortest: one of them may have waited for something else, and what the traced replay took is looked at again.
    for (double t : c.reference.microseconds)
      if (t > 0) us = us == 0 ? t : std::min(us, t);
    if (us == 0) return 0;
  } else {
    // Of a part of sparse sites the warps' bytes are a share.
    double recorded = 0, executed = 0;
    for (uint32_t b = 0; b < counts.blocks.size(); ++b) {
      const auto warps = static_cast<double>(counts.blocks[b].warps);
      executed += warps * wire::inst_record_bytes(c.splicer.blocks()[b].instructions);
      recorded += warps * c.splicer.record_bytes(instrument::ProbeKind::inst, b);
    }
    if (recorded == 0) return 0;
    for (uint32_t bytes : counts.inst_bytes) us = std::max(us, bytes / 4 * longest_instruction_us * executed / recorded);
  }
  return outlasts(us * slowed_down, n) ? 0 : n;
}

// Bytes of each warp's records as they are written, at most.
struct Stored {
  std::vector<uint32_t> bytes;
  bool without_entry = false;   // one record less for each warp: the entry block's stands in the head
  bool ends = false;            // a column more: of lanes that end on ways that they number
  // Where `bytes` were counted record by record: what each block's takes, and the bytes that do if one of them turns out otherwise.
  std::vector<uint32_t> by_block{}, at_most{};
  bool holds(const wire::AddressMap& map) const {
    XT_CHECK(ends || map.layout.ends_at == 0, "lanes number the same ways wherever records lie");
    for (size_t b = 0; b < by_block.size(); ++b)
      if (map.blocks[b].record_bytes > by_block[b] && !(b == 0 && map.layout.entry_in_head)) return false;
    return true;
  }
};

// `counted`: bytes of records in chunks. What a record takes depends on the registers that are free where it is made, and on
// the records around it: on what the splicer makes of it, at any address.
Result<Stored> stored_bytes(LaunchContext& c, const Drawn& drawn, const instrument::Plan& plan, instrument::RecordForm form,
                            const Counts& counts, const std::vector<uint32_t>& counted, bool entry_in_head) {
  if (!counts.stable || (plan.probe != instrument::ProbeKind::inst && !form.short_records)) return Stored{counted};
  XT_TRY(const instrument::Spliced trial, trial_splice(c, plan, form));
  Stored stored;
  stored.without_entry = entry_in_head && trial.map.layout.entry_in_head;
  double most = 0;   // of a record in a chunk
  uint64_t exact = 0, bound = 0;
  std::vector<uint32_t> by_block(trial.map.blocks.size());
  for (uint32_t b = 0; b < trial.map.blocks.size(); ++b) {
    const wire::Block& block = trial.map.blocks[b];
    const uint32_t chunked = c.splicer.record_bytes(plan.probe, b);
    by_block[b] = stored.without_entry && b == 0 ? 0 : block.record_bytes;
    if (counts.blocks[b].warps == 0 || chunked == 0) continue;
    const double record = static_cast<double>(block.record_bytes) / static_cast<double>(1 + block.chain.size());
    most = std::max(most, record / chunked);
    exact += counts.left_out.has(b) ? 0 : counts.blocks[b].warps * by_block[b];
  }
  const uint32_t entry = stored.without_entry ? c.splicer.record_bytes(plan.probe, 0) : 0;
  for (uint32_t b : counted)
    bound += stored.bytes.emplace_back(static_cast<uint32_t>(std::min(std::ceil((b - std::min(b, entry)) * most), static_cast<double>(~0u))));
  stored.ends = trial.map.layout.ends_at != 0;
  // Slots that are longer than what is written keep its sectors apart, and the memory behind the L2 takes each of them by itself.
  if (counts.is_exact() && exact < bound - bound / 8) {
    XT_TRY(auto counted_again, count_records(c, drawn, counts, by_block));
    if (counted_again) {
      stored.at_most = std::exchange(stored.bytes, std::move(*counted_again));
      stored.by_block = std::move(by_block);
    }
  }
  if (stored.ends)
    for (std::vector<uint32_t>* bytes : {&stored.bytes, &stored.at_most})
      for (uint32_t& b : *bytes) b = b == 0 ? 0 : b + wire::column_bytes;
  return stored;
}

void add_invariants(const trace::InvariantResult& result, diff::SemanticEvidence& e) {
  e.invariant_violations = result.violations();
  e.invariants = e.invariant_violations == 0 ? diff::Invariants::hold : diff::Invariants::violated;
  for (const trace::InvariantInfo& info : trace::all_invariants()) {
    const auto& row = result.row(info.invariant);
    if (!row.first) continue;
    e.invariants_text = fmt::format("{}: warp {} record {}: expected {}, found {}", info.name, row.first->warp,
                                    row.first->record, row.first->expected, row.first->found);
    break;
  }
}

}  // namespace

std::vector<uint32_t> with_heads(const LaunchContext& c, const Drawn& drawn, std::vector<uint32_t> bytes) {
  for (uint32_t w = 0; w < c.warps; ++w)
    if (drawn.has(w, c.warps_per_cta)) bytes[w] = std::max(1u, bytes[w]);
  return bytes;
}

std::vector<uint32_t> room_for_more(std::vector<uint32_t> bytes, uint32_t largest_record) {
  constexpr uint64_t times = 2, records = 64;
  for (uint32_t& b : bytes)
    if (b != 0) b = static_cast<uint32_t>(std::min(b * times + records * largest_record, uint64_t{largest_slot}));
  return bytes;
}

Result<std::unique_ptr<TraceBuffer>> TraceBuffer::create(replay::Backend& backend, std::span<const uint32_t> bytes,
                                                         uint32_t largest_record, bool wraps,
                                                         instrument::RecordForm form) {
  const uint32_t most = bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  if (most > largest_slot)
    return with_hint(unsupported("a warp writes {:.1f} GiB of records, a slot holds {} GiB",
                                 static_cast<double>(most) / (1 << 30), largest_slot >> 30),
                     "a sparser probe (block instead of inst), or fewer iterations of the kernel's loops");
  std::unique_ptr<TraceBuffer> b(new TraceBuffer(backend));
  const uint64_t free = backend.free_bytes();
  const uint64_t usable = free > left_free ? free - left_free : 0;
  b->plan_ = instrument::plan_slots(bytes, largest_record, wraps, form, std::min(stride_budget, usable / 2));
  if (b->plan_.total_bytes > usable)
    return with_hint(unsupported("the trace needs {:.1f} GiB of device memory, {:.1f} GiB are free",
                                 static_cast<double>(b->plan_.total_bytes) / (1 << 30),
                                 static_cast<double>(free) / (1 << 30)),
                     "trace fewer CTAs: --sample=cta:1/16");
  XT_TRY(b->buffer_, backend.allocate(b->plan_.total_bytes, "trace records"));
  instrument::place(b->plan_, b->buffer_.value);
  if (b->plan_.layout.table != 0)
    XT_TRY_STATUS(backend.write(DevPtr{b->plan_.layout.table}, std::as_bytes(std::span(b->plan_.entries))));
  return b;
}

BufferImage TraceBuffer::image() const {
  BufferImage image{buffer_, plan_.total_bytes, {plan_.layout.table}, {}};
  const ByteView entries = std::as_bytes(std::span(plan_.entries));
  if (plan_.layout.table != 0) image.table_bytes.assign(entries.begin(), entries.end());
  return image;
}

TraceBuffer::~TraceBuffer() {
  if (buffer_.value != 0) (void)backend_.release(buffer_);
}

Status TraceBuffer::clear() {
  ahead_.clear();
  const wire::SlotLayout& l = plan_.layout;
  if (l.headers != 0)
    XT_TRY_STATUS(backend_.fill(DevPtr{l.headers}, uint64_t{l.warps} * sizeof(wire::WarpHeader), 0));
  return backend_.fill(DevPtr{l.slots}, buffer_.value + plan_.total_bytes - l.slots, 0);
}

Status TraceBuffer::clear(const wire::SlotLayout& smaller) {
  XT_CHECK(plan_.layout.headers == 0 && smaller.table == 0 && smaller.slots == plan_.layout.slots &&
               smaller.slots + uint64_t{smaller.warps} * smaller.slot_bytes <= buffer_.value + plan_.total_bytes,
           "plain slots of one size in the place of the buffer's own");
  ahead_.clear();
  return backend_.fill(DevPtr{smaller.slots}, uint64_t{smaller.warps} * smaller.slot_bytes, 0);
}

Result<std::vector<TraceBuffer::Slots>> TraceBuffer::read_slots(const wire::SlotLayout& smaller) {
  std::vector<Slots> all;
  const uint64_t size = smaller.slot_bytes;
  for (uint32_t w = 0; w < smaller.warps; ++w) {
    if (!smaller.is_sampled(w)) continue;
    if (all.empty() || (w - all.back().first_warp - all.back().warps) * size > read_through) all.push_back({w, 0, {}});
    all.back().warps = w + 1 - all.back().first_warp;
  }
  for (Slots& s : all) {
    XT_TRY(s.bytes, backend_.read(DevPtr{smaller.slots + s.first_warp * size}, s.warps * size));
  }
  return all;
}

Result<trace::RecordView> TraceBuffer::view(const wire::AddressMap& map) {
  ahead_.clear();
  if (plan_.layout.headers == 0) return trace::view_plain_slots(map, reader(map.layout), plan_.entries);
  XT_TRY(Bytes headers,
         backend_.read(DevPtr{plan_.layout.headers}, uint64_t{plan_.layout.warps} * sizeof(wire::WarpHeader)));
  return trace::RecordView{map, std::move(headers), plan_.entries, reader(), 0, 0};
}

trace::DeviceReader TraceBuffer::reader() { return reader(plan_.layout); }

trace::DeviceReader TraceBuffer::reader(const wire::SlotLayout& slots) {
  const bool smaller = slots.slot_bytes < plan_.layout.slot_bytes;
  const uint64_t end = smaller ? slots.slots + uint64_t{slots.warps} * slots.slot_bytes : buffer_.value + plan_.total_bytes;
  const uint64_t length = end - buffer_.value;
  // Launches that wait leave most of what may have been needed untouched.
  const bool apart = slots.wraps && length / std::max(1u, slots.warps) >= read_apart;
  return [this, end, length, apart](uint64_t address, uint64_t bytes) -> Result<ByteView> {
    const bool inside = address >= ahead_at_ && address + bytes <= ahead_at_ + ahead_.size();
    if (!inside) {
      if (address < buffer_.value || address > end || bytes > end - address)
        return internal("records outside the trace buffer: {} bytes at {:#x}", bytes, address);
      // Slots of a table lie in any order: a buffer that fits is read whole.
      const bool whole = length <= read_whole && !apart;
      ahead_at_ = whole ? buffer_.value : address;
      XT_TRY(ahead_, backend_.read(DevPtr{ahead_at_}, whole ? length : apart ? bytes : std::min(std::max(bytes, read_ahead), end - address)));
    }
    return ByteView(ahead_).subspan(address - ahead_at_, bytes);
  };
}

std::vector<LoadedPart> TraceRun::loaded() const { return loaded_parts(parts, rotated, image()); }

namespace {

Result<std::unique_ptr<TraceRun>> run_with(LaunchContext& c, instrument::ProbeKind probe, const Drawn& drawn, const Counts& counts, bool compare, const replay::Resources& clean,
                                           uint32_t index_bits) {
  auto run = std::make_unique<TraceRun>();
  run->kind = trace_kind(probe);
  const std::vector<uint32_t>& bytes =
      probe == instrument::ProbeKind::inst ? counts.inst_bytes : counts.block_bytes;
  instrument::Plan plan{probe, {}, drawn.one_in, drawn.seed, counts.all_launched(), counts.executions(), instrument::ProbeKind::mem,
                             drawn.select, instrument::Around::instruction, counts.left_out.unrecorded};
  plan.clock_gap = drawn.clock_gap;
  plan.cta_part = cta_parts_of(c, drawn).front();
  plan.rotates = run->rotated = drawn.rotates;
  instrument::RecordForm form{index_bits, index_bits != 0 && probe == instrument::ProbeKind::block};
  if (!counts.left_out.unrecorded.empty()) form.spare_bytes = spare_bytes;
  if (probe == instrument::ProbeKind::inst) {
    XT_TRY(form.whole_sectors, in_whole_sectors(c, drawn, plan, form, counts));
  }
  for (const bool entry_in_head : {true, false}) {
    XT_TRY(Stored stored, stored_bytes(c, drawn, plan, form, counts, bytes, entry_in_head));
    for (;;) {
      // Of sparse sites a warp may have met none, and still has its head.
      stored.bytes = with_heads(c, drawn, std::move(stored.bytes));
      if (!counts.stable) stored.bytes = room_for_more(std::move(stored.bytes), c.splicer.largest_record(probe));
      run->buffer.reset();
      XT_TRY(run->buffer, TraceBuffer::create(c.backend, stored.bytes, c.splicer.largest_record(probe), !counts.stable, form));
      XT_TRY(run->spliced, c.splicer.splice(plan, run->buffer->layout()));
      if (stored.holds(run->spliced.map)) break;
      stored.bytes = std::exchange(stored.at_most, {});
      stored.by_block.clear();
    }
    if (!stored.without_entry || run->spliced.map.layout.entry_in_head) break;   // else its record needs room after all
  }
  XT_TRY(run->parts, load_cta_parts(c, drawn, std::move(run->spliced)));
  run->spliced = run->parts.front().spliced;
  run->module = run->parts.front().module;
  XT_TRY(const replay::Resources resources, c.backend.resources(run->module));

  std::optional<trace::InvariantChecker> invariants;
  std::vector<uint64_t> counted;
  if (counts.is_exact()) counted.assign(bytes.begin(), bytes.end());
  uint64_t stored_bytes = 0;
  for (CtaPart& part : run->parts) {
    XT_TRY_STATUS(run->buffer->clear());
    XT_TRY(const double us, run_restored(c.backend, part.module));
    if (index_bits != 0 && outlasts(us, index_bits)) {
      XT_TRY_STATUS(unload(c, run->parts));
      run->buffer.reset();
      return run_with(c, probe, drawn, counts, compare, clean, 0);
    }
    run->microseconds = std::max(run->microseconds, us);
    if (compare) XT_TRY_STATUS(compare_now(c, part.module, run->semantics));

    XT_TRY(const trace::RecordView view, run->buffer->view(part.spliced.map));
    if (!run->aggregate) {
      run->map = view.map;
      run->map.layout.all_parts = drawn.rotates;
      run->aggregate.emplace(run->map, run->kind);
      invariants.emplace(run->map, run->kind);
    }
    run->doubtful_clocks += view.doubtful_clocks;
    const std::vector<wire::BlockCount> before = run->aggregate->blocks();
    XT_TRY(const trace::DecodeSummary summary, trace::decode(view.map, run->kind, view.headers, view.read, {view.table, true, counted},
                                                             [&](const trace::WarpTrace& t) -> Status {
                                                               run->aggregate->add(t);
                                                               invariants->check(t);
                                                               return {};
                                                             }));
    part.records = summary.records;
    part.blocks = less(run->aggregate->blocks(), before);
    run->summary.add(summary);
    stored_bytes += view.stored_bytes != 0 ? view.stored_bytes : summary.bytes_written;
  }
  add_clean_facts(c, run->semantics);
  diff::SemanticEvidence& e = run->semantics;
  add_invariants(invariants->result(), e);
  run->clocks_ran_back = e.invariant_violations != 0 && invariants->result().row(trace::Invariant::clock_order).violated == e.invariant_violations;
  if (drawn.select.sms.empty())
    XT_TRY_STATUS(compare_path(c, run->map, counts, run->aggregate->blocks(), e));
  else
    compare_warps(run->summary, e);
  run->records = run->summary.records;
  run->losses = run->summary.losses;
  add_losses(run->losses, e);
  run->space = space_of(c, run->spliced.report, clean, resources, stored_bytes);
  run->space.whole_sectors = form.whole_sectors;
  return run;
}

}  // namespace

namespace {

Result<std::unique_ptr<TraceRun>> run_traced_once(LaunchContext& c, instrument::ProbeKind probe, const Drawn& drawn, const Counts& counts, bool compare,
                                                  const replay::Resources& clean) {
  const bool may_be_short = probe == instrument::ProbeKind::block || probe == instrument::ProbeKind::inst;
  if (const std::vector<bool> polling = c.splicer.polling(); may_be_short && has_any(polling)) {
    XT_TRY(const Counts others, count_without_polls(c, drawn, polling));
    if (others.stable) {
      XT_TRY(auto run, run_with(c, probe, drawn, others, compare, clean, short_index_bits(c, others)));
      if (run->semantics.path != diff::PathMatch::differs && run->semantics.lost == 0) return run;
      XT_TRY_STATUS(unload(c, run->parts));   // by chance the counting replays agreed
    }
  }
  if (drawn.rotates && !counts.stable) return parts_differ();
  XT_TRY(auto run, run_with(c, probe, drawn, counts, compare, clean, may_be_short ? short_index_bits(c, counts) : 0));
  // Slots that hold what was counted, and no more, are no place for a warp that waits longer now.
  const bool another_path = run->semantics.path == diff::PathMatch::differs || run->semantics.path == diff::PathMatch::waited ||
                            run->semantics.lost != 0;
  if (!another_path || !counts.stable) return run;
  const bool waits = c.splicer.waits();
  if (!waits) {
    XT_TRY(const bool varies, paths_vary(c, drawn, counts));
    if (!varies) return run;
  }
  XT_TRY_STATUS(unload(c, run->parts));
  if (drawn.rotates) return parts_differ();
  run.reset();
  Counts unstable = counts;
  unstable.stable = false;
  XT_TRY(run, run_with(c, probe, drawn, unstable, compare, clean, 0));
  if (waits && run->semantics.path == diff::PathMatch::unstable) {
    XT_TRY(const bool varies, paths_vary(c, drawn, counts));
    if (!varies) run->semantics.path = diff::PathMatch::differs;
  }
  return run;
}

}  // namespace

// A warp that was put aside for another process comes back with another SM's clock: that is nothing of the trace's, and seldom twice.
Result<std::unique_ptr<TraceRun>> run_traced(LaunchContext& c, instrument::ProbeKind probe, const Drawn& drawn, const Counts& counts, bool compare,
                                             const replay::Resources& clean) {
  constexpr unsigned most_repeated = 2;
  XT_TRY(auto run, run_traced_once(c, probe, drawn, counts, compare, clean));
  std::string before;
  for (unsigned k = 0; k < most_repeated && run->clocks_ran_back; ++k) {
    const std::vector<double>& us = c.reference.microseconds;
    if (before.empty())
      before = fmt::format("{} violations, first: {}; the launch took {:.0f} us, the clean one {:.0f} us", run->semantics.invariant_violations,
                           run->semantics.invariants_text, run->microseconds, us.empty() ? 0.0 : *std::min_element(us.begin(), us.end()));
    XT_TRY_STATUS(unload(c, run->parts));
    run.reset();
    XT_TRY(run, run_traced_once(c, probe, drawn, counts, compare, clean));
  }
  if (!before.empty() && !run->clocks_ran_back) run->semantics.repeated_text = std::move(before);
  return run;
}

}  // namespace xtrace::cli
