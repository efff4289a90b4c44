#include "tests/soak/plan.h"

#include "instrument/cta_part.h"
#include "instrument/slot_plan.h"
#include "tests/unit/interp/device_records.h"
#include "trace/plain_slots.h"
#include "trace/point_trace.h"

namespace xtrace::soak {
namespace {

using instrument::ProbeKind;

constexpr uint64_t equal_slots = 1ull << 30, equal_slots_on_gpu = 32ull << 20;   // else a size for each
constexpr uint64_t read_ahead = 64ull << 20;

// What was traced, by warp: of each block, of each point, or of the one instruction.
struct Found {
  Found(uint32_t warps, size_t kinds) : tallies(warps, std::vector<Tally>(kinds)), sm(warps) {}
  std::vector<std::vector<Tally>> tallies;
  std::vector<std::optional<uint32_t>> sm;   // of warps that left records or a head
};
struct MemCounter final : trace::MemVisitor {
  explicit MemCounter(Found& f) : found(f), blocks(f.tallies[0].size()) {}
  Status block(uint32_t b, uint32_t active) override { return blocks[b].add(active), Status{}; }
  Status access(uint32_t, uint32_t, const trace::LaneAddresses&) override { return {}; }
  Status operands(uint32_t, uint32_t, std::span<const uint32_t>) override { return {}; }
  Status warp(const trace::MemWarp& w) override {
    found.sm[w.warp] = w.sm;
    found.tallies[w.warp] = std::exchange(blocks, std::vector<Tally>(blocks.size()));
    return {};
  }
  Found& found;
  std::vector<Tally> blocks;   // of the warp that comes next
};
struct PointCounter final : trace::PointVisitor {
  explicit PointCounter(Found& f) : found(f) {}
  Status begin(const trace::PointWarp& w) override {
    warp = w.warp;
    found.sm[warp] = w.sm;
    return {};
  }
  Status event(const trace::PointEvent& e) override { return found.tallies[warp][e.point].add(e.active), Status{}; }
  Status end(const trace::PointWarp&) override { return {}; }
  Found& found;
  uint32_t warp = 0;
};

// One counting replay, or two of them on hardware.
struct Counts {
  std::vector<wire::BlockCount> blocks;
  std::vector<bool> agreed;        // by block: in all of them
  std::vector<uint32_t> bytes;     // by warp: what the probe will write, at most
  bool same_bytes = true;          // of every warp
};

std::string first_loss(const trace::LossCounts& losses) {
  for (const trace::LossInfo& info : trace::all_losses())
    if (info.severity != trace::LossSeverity::note && losses.count(info.loss) != 0)
      return fmt::format("{}, first in warp {}", info.name, losses.row(info.loss).first_warp);
  return {};
}

std::string told(const Expected& e) {
  return e.least == e.most ? fmt::format("{} with {}", e.most, e.lanes) : fmt::format("{} to {} with {}", e.least, e.most, e.lanes);
}

class Run {
 public:
  Run(Recording& recording, const instrument::Splicer& splicer, const Plan& plan)
      : r_(recording), left_out_(plan.without_polls ? splicer.polling() : std::vector<bool>()),
        s_(plan.without_polls && plan.probe == ProbeKind::mem ? splicer.without(left_out_) : splicer), p_(plan),
        backend_(recording.backend()), points_probe_(instrument::probe_info(plan.probe).points) {}

  Status run(std::vector<bool>* recorded) {
    if (points_probe_) {
      XT_TRY(points_, s_.points(p_.probe));
    }
    // Of sparse sites the interpreter counts the first part; how much the others write is known from its log.
    const bool known = !r_.on_hardware() && p_.sites.part != 0 && p_.sites_are_counted && !p_.brief;
    XT_TRY(Counts counts, known ? Result<Counts>(as_logged()) : count());
    if (p_.probe == ProbeKind::mem && p_.brief && (p_.without_polls || !r_.waits())) {
      XT_TRY(counts, count_again(counts));
    }
    if (p_.probe == ProbeKind::count) return count_alone(counts);
    const Status done = trace(counts);
    if (recorded != nullptr) *recorded = recorded_;
    if (buffer_.value != 0) XT_TRY_STATUS(backend_.release(buffer_));
    return done;
  }

 private:
  bool sampled(uint32_t warp) const {
    wire::SlotLayout l;
    l.one_in = p_.one_in;
    l.seed = p_.seed;
    l.cta_part = p_.cta_part;
    l.select = p_.select;
    l.warps_per_cta = s_.warps_per_cta();
    return l.is_sampled(warp);
  }
  instrument::Plan plan(ProbeKind probe) const {
    instrument::Plan p;
    p.probe = probe;
    p.one_in = p_.one_in;
    p.seed = p_.seed;
    p.rotates = p_.cta_part != 0;
    p.select = p_.select;
    p.unrecorded = left_out_;
    return p;
  }
  Result<instrument::Spliced> splice(const instrument::Plan& plan, const wire::SlotLayout& layout) const {
    auto spliced = s_.splice(plan, layout);
    if (!spliced || p_.cta_part == 0) return spliced;
    return instrument::for_cta_part(*spliced, r_.mangled(), p_.cta_part);
  }
  bool leaves_out(uint32_t block) const { return !left_out_.empty() && left_out_[block]; }

  // It is known that no warp of the sample missed one of the lanes that it was launched with.
  bool all_launched(uint32_t block) const {
    bool all = r_.last_lanes() != 32;
    for (uint32_t w = 0; w < r_.warps() && all; ++w) {
      if (!sampled(w)) continue;
      const auto e = r_.at(w, block, s_.blocks()[block].first_pc);
      all = e && e->least == e->most && e->lanes == e->most * ((w + 1) % s_.warps_per_cta() == 0 ? r_.last_lanes() : 32);
    }
    return all;
  }
  Counts as_logged() const {
    Counts counts;
    counts.bytes.resize(r_.warps());
    counts.blocks.resize(s_.blocks().size());
    counts.agreed.resize(s_.blocks().size(), false);
    for (uint32_t w = 0; w < r_.warps(); ++w) {
      if (!sampled(w)) continue;
      for (const wire::Point& p : points_)
        counts.bytes[w] += static_cast<uint32_t>(p.record_bytes * r_.at(w, p.block, p.pc, p.after)->most);
      for (uint32_t b = 0; !points_probe_ && b < s_.blocks().size(); ++b)
        if (!leaves_out(b)) counts.bytes[w] += static_cast<uint32_t>(s_.record_bytes(p_.probe, b) * r_.at(w, b, s_.blocks()[b].first_pc)->most);
    }
    return counts;
  }

  // `mem`, knowing which blocks are full: their records are shorter, in whole sectors as long as the splicer makes them.
  Result<Counts> count_again(const Counts& first) {
    std::vector<bool> full;
    std::vector<uint64_t> executions;
    for (uint32_t b = 0; b < first.blocks.size(); ++b) {
      full.push_back(first.blocks[b].lanes == 32 * first.blocks[b].warps && !leaves_out(b));
      executions.push_back(first.blocks[b].warps);
    }
    s_ = s_.counted(full, executions);
    form_ = s_.mem_form();
    if (p_.sectors && s_.can_fill_sectors(plan(p_.probe).samples())) {
      instrument::RecordForm whole = form_;
      whole.whole_sectors = true;
      instrument::SlotPlan nowhere = instrument::plan_slots(std::vector<uint32_t>(r_.warps(), 0), 0, false, whole, equal_slots);
      instrument::place(nowhere, 1ull << 40);
      if (const auto trial = s_.splice(plan(p_.probe), nowhere.layout)) {
        form_ = whole;
        for (const wire::Block& b : trial->map.blocks) lengths_.push_back(b.record_bytes);
      } else if (trial.error().kind != ErrorKind::unsupported) {
        return tl::make_unexpected(trial.error());
      }
    }
    return count();
  }

  // Blocks must be what the interpreter saw of the sampled warps, wherever they run.
  Result<Counts> count() {
    const auto blocks = static_cast<uint32_t>(s_.blocks().size());
    instrument::SlotPlan counters = instrument::plan_counters(r_.warps(), blocks);
    XT_TRY(const DevPtr buffer, backend_.allocate(counters.total_bytes, "counters"));
    instrument::place(counters, buffer.value);
    instrument::Plan p = plan(ProbeKind::count);
    p.select.sms.clear();
    if (points_probe_) p.counted = p_.probe;
    p.counted_bytes = lengths_;
    const auto spliced = splice(p, counters.layout);
    Counts counts;
    Status done = spliced ? Status{} : tl::make_unexpected(spliced.error());
    for (int replay = 0; done && replay < (r_.on_hardware() ? 2 : 1); ++replay) done = count_once(*spliced, buffer, counters, counts);
    XT_TRY_STATUS(backend_.release(buffer));
    if (!done) return tl::make_unexpected(done.error());
    return counts;
  }

  Status compare_with_log(uint32_t block, const wire::BlockCount& c) const {
    Expected expected;
    for (uint32_t w = 0; w < r_.warps(); ++w) {
      const auto e = sampled(w) ? r_.at(w, block, s_.blocks()[block].first_pc) : Expected{};
      if (!e) return {};
      expected.add(*e);
    }
    if (expected.holds({c.warps, c.lanes})) return {};
    return internal("block {}: counted {} executions with {} lanes, the interpreter saw {}", block, c.warps, c.lanes, told(expected));
  }

  // What `count` shows a user.
  Status count_alone(const Counts& counted) {
    const auto blocks = static_cast<uint32_t>(s_.blocks().size());
    instrument::SlotPlan counters = instrument::plan_counters(r_.warps(), blocks, false);
    XT_TRY(const DevPtr buffer, backend_.allocate(counters.total_bytes, "counters"));
    instrument::place(counters, buffer.value);
    instrument::Plan p = plan(ProbeKind::count);
    p.select.sms.clear();
    p.counts_alone = true;
    for (const wire::BlockCount& c : counted.blocks) p.executions.push_back(c.warps);
    const auto done = [&]() -> Status {
      XT_TRY(const instrument::Spliced spliced, splice(p, counters.layout));
      XT_TRY_STATUS(backend_.fill(buffer, counters.total_bytes, 0));
      XT_TRY_STATUS(r_.replay(spliced.cubin));
      XT_TRY(const Bytes bytes, backend_.read(DevPtr{counters.layout.counters}, buffer.value + counters.total_bytes - counters.layout.counters));
      const std::vector<wire::BlockCount> sums = instrument::sum_counters(spliced.map, bytes);
      Status equal;
      for (uint32_t b = 0; equal && b < blocks; ++b) equal = compare_with_log(b, sums[b]);
      return equal ? equal : tl::make_unexpected(std::move(equal).error().in("counted alone"));
    }();
    XT_TRY_STATUS(backend_.release(buffer));
    return done;
  }

  Status count_once(const instrument::Spliced& spliced, DevPtr buffer, const instrument::SlotPlan& counters, Counts& counts) {
    const auto blocks = static_cast<uint32_t>(s_.blocks().size());
    XT_TRY_STATUS(backend_.fill(buffer, counters.total_bytes, 0));
    if (Status done = r_.replay(spliced.cubin); !done) return tl::make_unexpected(std::move(done).error().in("in the counting replay"));
    XT_TRY(const Bytes bytes, backend_.read(buffer, counters.total_bytes));
    const std::vector<wire::BlockCount> sums = instrument::sum_counters(spliced.map, ByteView(bytes).subspan(counters.layout.counters - counters.layout.headers));
    const bool first = counts.blocks.empty();
    for (uint32_t b = 0; b < blocks; ++b) {
      const wire::BlockCount c = sums[b];
      if (first) counts.agreed.push_back(true), counts.blocks.push_back(c);
      counts.agreed[b] = counts.agreed[b] && c.warps == counts.blocks[b].warps && c.lanes == counts.blocks[b].lanes;
      counts.blocks[b] = c;
      XT_TRY_STATUS(compare_with_log(b, c));
    }
    counts.bytes.resize(r_.warps());
    for (uint32_t w = 0; w < r_.warps(); ++w) {
      XT_TRY(const auto h, read_at<wire::WarpHeader>(bytes, w * sizeof(wire::WarpHeader), "header"));
      if ((h.start_clock != 0) != sampled(w)) return internal("warp {} {} counted", w, sampled(w) ? "of the sample was not" : "was");
      if (h.start_clock == 0) continue;
      if (h.bytes == wire::not_exited) return internal("warp {} did not end", w);
      uint32_t n = p_.probe == ProbeKind::block ? h.bytes : p_.probe == ProbeKind::inst ? h.exit_clock_lo : h.sm;
      if (p_.probe == ProbeKind::pair) n = 2 * h.bytes;
      counts.same_bytes &= first || counts.bytes[w] == n;
      counts.bytes[w] = std::max(counts.bytes[w], n);
    }
    return {};
  }

  Status trace(const Counts& counts) {
    // Warps that wait write another number of records each time; without those of the loops in which they do, no more than come out of
    // them in other groups.
    const bool varies = r_.waits() || !counts.same_bytes;
    instrument::RecordForm form = form_;
    uint32_t largest = points_probe_ ? wire::chunk_bytes : s_.largest_record(p_.probe);
    for (const uint32_t bytes : lengths_) largest = std::max(largest, bytes);
    for (const wire::Point& p : points_) largest = std::max(largest, p.record_bytes);
    if (points_probe_) form = instrument::form_of(points_);
    const bool wraps = (p_.wraps || (varies && !p_.without_polls)) && !form.lines && !form.sectors && p_.probe != ProbeKind::mem;
    instrument::Plan p = plan(p_.probe);
    p.clock_gap = p_.clock_gap;
    if (p_.probe == ProbeKind::pair) p.pair_sites = {OrigPc{p_.pair_pc}};
    const bool brief = p_.brief && !wraps && (p_.probe == ProbeKind::block || p_.probe == ProbeKind::inst);
    if (brief) {
      form.index_bits = s_.index_bits();
      form.short_records = p_.probe == ProbeKind::block;
      form.whole_sectors = p_.sectors && p_.probe == ProbeKind::inst && s_.can_fill_sectors(p.samples());
      for (uint32_t b = 0; b < counts.blocks.size(); ++b) {
        p.full_blocks.push_back(counts.blocks[b].lanes == 32 * counts.blocks[b].warps || all_launched(b));
        p.executions.push_back(counts.blocks[b].warps);
      }
    }
    std::vector<uint32_t> bytes = counts.bytes;
    for (uint32_t w = 0; w < bytes.size(); ++w) {
      uint32_t& b = bytes[w];
      if (b == 0 && sampled(w)) b = wire::chunk_bytes;   // it met none of this part, and has a head
      // Packed records may take more than unpacked ones where registers are few, and have counts of rounds.
      if (p_.probe == ProbeKind::inst) b *= form.whole_sectors ? 8 : 2;   // a sector for each clock
      else if (brief) b = b / wire::chunk_bytes * (8 + 4 * 32);
      if (varies && b != 0) b = 2 * b + 64 * largest;
    }
    instrument::SlotPlan slots = instrument::plan_slots(bytes, largest, wraps, form,
                                                        p_.table ? 0 : r_.on_hardware() ? equal_slots_on_gpu : equal_slots);
    XT_TRY(buffer_, interp_test::place_records(backend_, slots));
    end_ = buffer_.value + slots.total_bytes;
    XT_TRY(const instrument::Spliced spliced, splice(p, slots.layout));
    for (size_t b = 0; b < lengths_.size(); ++b)
      if (spliced.map.blocks[b].record_bytes != lengths_[b])
        return internal("block {}: a record of {} bytes, {} when it was made for the counting replay", b, spliced.map.blocks[b].record_bytes, lengths_[b]);
    if (Status done = r_.replay(spliced.cubin); !done) return tl::make_unexpected(std::move(done).error().in("in the traced replay"));
    Found found(r_.warps(), points_probe_ ? points_.size() : p_.probe == ProbeKind::pair ? 1 : s_.blocks().size());
    XT_TRY(const trace::DecodeSummary summary, decode(spliced, slots, wraps, varies ? std::vector<uint32_t>() : counts.bytes, found));
    if (!summary.losses.none()) return internal("records were lost: {}", first_loss(summary.losses));
    if (summary.losses.count(trace::Loss::count_changed) != 0)
      return internal("warp {} wrote another number of bytes than was counted", summary.losses.row(trace::Loss::count_changed).first_warp);
    XT_TRY_STATUS(of_this_part(spliced.map));
    XT_TRY_STATUS(as_the_interpreter(spliced.map, found));
    if (points_probe_ || p_.probe == ProbeKind::pair || !p_.select.sms.empty()) return {};
    return as_counted(spliced.map, found, counts);
  }

  // Sparse sites: block and inst record what the part has, no more and no less.
  Status of_this_part(const wire::AddressMap& map) {
    if (p_.probe != ProbeKind::block && p_.probe != ProbeKind::inst) return {};
    recorded_.clear();
    for (uint32_t b = 0; b < map.blocks.size(); ++b) {
      const wire::Block& block = map.blocks[b];
      bool wanted = p_.probe == ProbeKind::block && b % p_.sites.one_in == p_.sites.part;
      for (uint32_t pc = block.first_pc; p_.probe == ProbeKind::inst && pc < block.first_pc + 16 * block.instructions; pc += 16)
        wanted |= p_.sites.one_in == 1 || (pc / 16 % p_.sites.one_in == p_.sites.part && (!p_.some_places || s_.covers(OrigPc{pc})));
      if (has_records(map, b) != (wanted && !leaves_out(b)))
        return internal("block {} {} of part {} and leaves {}records", b, wanted ? "is" : "is not", p_.sites.part, wanted ? "no " : "");
      recorded_.push_back(wanted);
    }
    return {};
  }

  // Every warp of the sample is there, on one of its SMs; and what it did is what the interpreter saw.
  Status as_the_interpreter(const wire::AddressMap& map, const Found& found) const {
    for (uint32_t w = 0; w < r_.warps(); ++w) {
      const bool there = found.sm[w].has_value();
      if (there && (!sampled(w) || !wire::Selection::has(p_.select.sms, *found.sm[w])))
        return internal("warp {} was traced and is not in the sample", w);
      if (!there && sampled(w) && p_.select.sms.empty()) return internal("warp {} of the sample is missing", w);
      if (!there) continue;
      for (uint32_t k = 0; k < found.tallies[w].size(); ++k) {
        const Tally& t = found.tallies[w][k];
        const uint32_t block = points_probe_ ? points_[k].block : p_.probe == ProbeKind::pair ? pair_block() : k;
        const bool recorded = points_probe_ ? points_[k].is_present() : p_.probe == ProbeKind::pair || has_records(map, k);
        const uint32_t pc = points_probe_ ? points_[k].pc : p_.probe == ProbeKind::pair ? p_.pair_pc : map.blocks[k].first_pc;
        const auto expected = recorded ? r_.at(w, block, pc, points_probe_ && points_[k].after) : Expected{};
        if (!expected) continue;
        Expected e = expected->every(p_.sites.nth);
        // Groups that came one after another are not told apart.
        if (!points_probe_ && p_.probe != ProbeKind::pair && map.blocks[k].implied && !map.blocks[k].loop) e.least = 0, e.most = e.lanes;
        if (!e.holds(t))
          return internal("warp {} {} {}: {} executions with {} lanes traced, the interpreter saw {}", w, points_probe_ ? "point" : "block", k,
                          t.executions, t.lanes, told(e));
      }
    }
    return {};
  }
  uint32_t pair_block() const {
    uint32_t b = 0;
    while (p_.pair_pc < s_.blocks()[b].first_pc || p_.pair_pc >= s_.blocks()[b].first_pc + 16 * s_.blocks()[b].instructions) ++b;
    return b;
  }
  bool has_records(const wire::AddressMap& map, uint32_t block) const {
    return !map.blocks[block].unrecorded && (p_.probe != ProbeKind::mem || map.blocks[block].record_bytes != 0);
  }

  // And what this machine counted of the same warps, group by group.
  Status as_counted(const wire::AddressMap& map, const Found& found, const Counts& counts) const {
    for (uint32_t b = 0; b < map.blocks.size(); ++b) {
      if (!has_records(map, b) || !counts.agreed[b] || r_.waiting(b) || (r_.waits() && r_.by_groups(b))) continue;
      Tally t;
      for (const auto& warp : found.tallies) t.executions += warp[b].executions, t.lanes += warp[b].lanes;
      const bool same_groups = t.executions == counts.blocks[b].warps || (map.blocks[b].implied && !map.blocks[b].loop) || r_.waits();
      if (!same_groups || t.lanes != counts.blocks[b].lanes)
        return internal("block {}: {} executions with {} lanes traced, {} with {} counted", b, t.executions, t.lanes, counts.blocks[b].warps,
                        counts.blocks[b].lanes);
    }
    return {};
  }

  trace::DeviceReader reader() {
    return [this](uint64_t address, uint64_t size) -> Result<ByteView> {
      if (address < piece_at_ || address + size > piece_at_ + piece_.size()) {
        piece_at_ = address;
        XT_TRY(piece_, backend_.read(DevPtr{address}, std::min(std::max(size, r_.on_hardware() ? read_ahead : size), end_ - address)));
      }
      return ByteView(piece_).subspan(address - piece_at_, size);
    };
  }

  // `counted`: bytes of each warp; empty: not known.
  Result<trace::DecodeSummary> decode(const instrument::Spliced& spliced, const instrument::SlotPlan& slots, bool wraps,
                                      const std::vector<uint32_t>& counted, Found& found) {
    const trace::DeviceReader read = reader();
    const std::vector<uint64_t> bytes(counted.begin(), counted.end());
    if (p_.probe == ProbeKind::mem) {
      MemCounter counter(found);
      return trace::decode_mem(spliced.map, read, slots.entries, bytes, counter);
    }
    Bytes headers;
    if (wraps) {
      XT_TRY(headers, backend_.read(DevPtr{slots.layout.headers}, uint64_t{r_.warps()} * sizeof(wire::WarpHeader)));
    }
    if (points_probe_) {
      std::vector<wire::WarpHeader> starts(r_.warps());
      if (wraps) std::memcpy(starts.data(), headers.data(), headers.size());
      else {
        XT_TRY(starts, trace::warp_starts(spliced.map, read, slots.entries));
      }
      PointCounter counter(found);
      return trace::decode_points(spliced.map, starts, read, slots.entries, bytes, p_.sites.part, counter);
    }
    trace::RecordView view{spliced.map, std::move(headers), slots.entries, read, 0, 0};
    if (!wraps) {
      XT_TRY(view, trace::view_plain_slots(spliced.map, read, slots.entries));
    }
    const bool pair = p_.probe == ProbeKind::pair;
    const trace::TraceKind kind = pair ? trace::TraceKind::pair
                                  : p_.probe == ProbeKind::inst ? trace::TraceKind::inst : trace::TraceKind::block;
    return trace::decode(view.map, kind, view.headers, view.read, {view.table, true, {}}, [&](const trace::WarpTrace& t) -> Status {
      found.sm[t.warp] = t.sm;
      for (uint32_t k = 0; k < t.records(); ++k)
        if (t.kind[k] != wire::RecordKind::edge_end) found.tallies[t.warp][pair ? 0 : t.index[k]].add(t.mask[k]);
      return {};
    });
  }

  Recording& r_;
  const std::vector<bool> left_out_;   // by block; empty: none
  std::vector<bool> recorded_;         // block, inst: by block
  instrument::Splicer s_;
  const Plan& p_;
  instrument::RecordForm form_{0, false, false, p_.probe == ProbeKind::mem};
  std::vector<uint32_t> lengths_;      // mem in whole sectors: of its records, by block
  replay::Backend& backend_;
  const bool points_probe_;
  std::vector<wire::Point> points_;
  DevPtr buffer_{};
  uint64_t end_ = 0, piece_at_ = 0;
  Bytes piece_;
};

}  // namespace

std::string Plan::text() const {
  std::string s = fmt::format("{} {} cta:1/{}@{}+{} site:1/{}+{} nth:{}", kernel, instrument::probe_info(probe).name, one_in, seed, cta_part, sites.one_in,
                              sites.part, sites.nth);
  for (const auto& [name, ranges] : {std::pair{"cta", &select.ctas}, {"warp", &select.warps}, {"sm", &select.sms}})
    for (const auto& r : *ranges) s += fmt::format(" {}:{}-{}", name, r.first, r.last);
  if (pair_pc != ~0u) s += fmt::format(" at {:#x}", pair_pc);
  return s + (some_places ? " some places" : "") + (wraps ? " wrapping" : "") + (brief ? " brief" : "") + (sectors ? " sectors" : "") + (table ? " table" : "") +
         (without_polls ? " without polls" : "") + (clock_gap != 0 ? fmt::format(" clocks:{}", clock_gap) : "");
}

Status run_plan(Recording& recording, const instrument::Splicer& splicer, const Plan& plan, std::vector<bool>* recorded) {
  return Run(recording, splicer, plan).run(recorded);
}

}  // namespace xtrace::soak
