#include "trace/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/json.h"
#include "trace/csv.h"

namespace xtrace::trace {
namespace {

std::string count_text(const InstructionRow& r, uint64_t count, const char* not_known) {
  return r.recorded ? fmt::format("{}", count) : not_known;
}

std::string graded_text(const InstructionRow& r) {
  if (!r.graded) return "-";
  return fmt::format("{:.0f} [{:.0f} {:.0f}]", r.graded->median, r.graded->p25, r.graded->p75);
}

std::string_view clock_of(const wire::Block& block, uint32_t pc) {
  if (block.clocks == 0) return {};
  const size_t i = (pc - block.first_pc) / inst_bytes;
  if (block.has_clock(i)) return "read";
  return block.clock_at[i].bytes == wire::ClockPlace::absent ? "none" : "implied";
}

// "12.3"; "12.3~": from where the stall counts say; "~", "-": no interval, of an instruction without a clock of its own, of one with.
std::string ungraded_text(const InstructionRow& r) {
  const bool placed = r.clock == "implied" || r.clock == "none";
  if (!r.ungraded_mean) return placed ? "~" : "-";
  return fmt::format("{:.1f}{}", *r.ungraded_mean, r.ungraded_from_implied ? "~" : "");
}

}  // namespace

std::vector<InstructionRow> instruction_table(const TableSources& sources) {
  XT_CHECK(sources.map && sources.counts, "a table needs an address map and counts");
  std::vector<InstructionRow> rows;
  for (const Aggregate::Instruction& i : sources.counts->instructions()) {
    InstructionRow r;
    r.pc = i.pc;
    r.block = i.block;
    r.warps = sources.counts->count_of(i).warps;
    r.threads = sources.counts->count_of(i).lanes;
    const wire::Block& block = sources.map->blocks[i.block];
    r.recorded = !block.unrecorded;
    if (i.ungraded.count() != 0) r.ungraded_mean = i.ungraded.mean();
    r.ungraded_from_implied = i.from_implied != 0;
    if (r.recorded) r.clock = clock_of(block, i.pc);
    // Of a part nothing but its sites has a clock: what lies in front of the first one may have waited.
    const bool has_begin = sources.map->sites_one_in == 1 || block.has_clock(0);
    if (!r.clock.empty() && has_begin && r.warps != 0) r.offset_mean = i.offset_sum / static_cast<double>(r.warps);
    const std::string hidden = sources.hidden ? sources.hidden(i.pc) : "";
    if (sources.times && hidden.empty()) r.graded = sources.times->grade(i.pc, sources.enough_samples);
    if (!r.graded) {
      uint64_t samples = 0, deferred = 0;
      if (sources.times)
        for (auto it = sources.times->all().lower_bound({i.pc, 0});
             it != sources.times->all().end() && it->first.pc == i.pc; ++it) {
          samples = std::max(samples, it->second.cycles.count());
          deferred += it->second.deferred.count();
        }
      const std::string refusal = sources.refusal ? sources.refusal(i.pc) : "";
      if (!refusal.empty()) {
        r.no_grade = refusal;
      } else if (!hidden.empty()) {
        r.no_grade = hidden;
      } else if (samples != 0) {
        r.no_grade = fmt::format("{} samples, {} wanted", samples, sources.enough_samples);
      } else if (deferred != 0) {
        r.no_grade = "other lanes ran in between, always";
      } else if (block.other_part) {
        r.no_grade = fmt::format("not recorded: not of this part (site:1/{})", sources.map->sites_one_in);
      } else if (!r.recorded) {
        r.no_grade = "not recorded: a loop that waits for others";
      } else if (r.warps == 0) {
        r.no_grade = "not executed";
      } else {
        r.no_grade = "not measured";
      }
    }
    if (sources.sass) r.sass = sources.sass(i.pc);
    if (sources.source) r.source = sources.source(i.pc);
    rows.push_back(std::move(r));
  }
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.pc < b.pc; });
  return rows;
}

std::string render_text(const std::vector<InstructionRow>& rows) {
  std::string out =
      fmt::format("{:>7} {:>5} {:>12} {:>14} {:>9} {:>18} {:>7} {:<26} {}\n", "pc", "block", "warps",
                  "threads", "ungraded", "cycles [p25 p75]", "samples", "source", "sass");
  for (const InstructionRow& r : rows) {
    const std::string samples = r.graded ? fmt::format("{}", r.graded->samples) : "-";
    out += fmt::format("{:>#7x} {:>5} {:>12} {:>14} {:>9} {:>18} {:>7} {:<26} {}", r.pc,
                       fmt::format("B{}", r.block), count_text(r, r.warps, "-"), count_text(r, r.threads, "-"), ungraded_text(r),
                       graded_text(r), samples, r.source, r.sass);
    if (!r.graded) out += fmt::format("{}({})", r.sass.empty() ? "" : "  ", r.no_grade);
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

std::string render_counts(const std::vector<InstructionRow>& rows) {
  std::string out = fmt::format("{:>7} {:>5} {:>12} {:>14}  {:<26} {}\n", "pc", "block", "warps", "threads", "source", "sass");
  for (const InstructionRow& r : rows) {
    out += fmt::format("{:>#7x} {:>5} {:>12} {:>14}  {:<26} {}", r.pc, fmt::format("B{}", r.block), r.warps, r.threads,
                       r.source, r.sass);
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

std::string render_csv(const std::vector<InstructionRow>& rows) {
  std::string out =
      "pc,block,warps,threads,clock,offset_mean_cycles,ungraded_mean_cycles,ungraded_from_implied,graded_median_cycles,graded_p25_cycles,graded_p75_cycles,"
      "graded_p90_cycles,graded_mean_cycles,graded_samples,graded_one_in,graded_rates,graded_rate_spread,no_"
      "grade,"
      "source,sass\n";
  for (const InstructionRow& r : rows) {
    out += fmt::format("{:#x},{},{},{},{},", r.pc, r.block, count_text(r, r.warps, ""), count_text(r, r.threads, ""), r.clock);
    out += r.offset_mean ? fmt::format("{:.3f},", *r.offset_mean) : ",";
    if (r.ungraded_mean) out += fmt::format("{:.3f},{}", *r.ungraded_mean, r.ungraded_from_implied ? 1 : 0);
    else out += ",";
    if (r.graded) {
      const GradedTimes::Grade& g = *r.graded;
      out += fmt::format(",{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{},{},{:.4f},", g.median, g.p25, g.p75,
                         g.p90, g.mean, g.samples, g.one_in, g.rates, g.rate_spread);
    } else {
      out += ",,,,,,,,,,";
    }
    out += fmt::format("{},{},{}\n", csv_quoted(r.no_grade), csv_quoted(r.source), csv_quoted(r.sass));
  }
  return out;
}

std::string render_json(const std::vector<InstructionRow>& rows) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const InstructionRow& r : rows) {
    nlohmann::ordered_json o;
    o["pc"] = r.pc;
    o["block"] = r.block;
    o["warps"] = r.recorded ? nlohmann::ordered_json(r.warps) : nullptr;
    o["threads"] = r.recorded ? nlohmann::ordered_json(r.threads) : nullptr;
    o["clock"] = r.clock.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(r.clock);
    o["offset_mean_cycles"] = r.offset_mean ? nlohmann::ordered_json(*r.offset_mean) : nlohmann::ordered_json();
    o["ungraded_mean_cycles"] = nullptr;
    if (r.ungraded_mean) {
      o["ungraded_mean_cycles"] = *r.ungraded_mean;
      o["ungraded_from_implied"] = r.ungraded_from_implied;
    }
    o["graded"] = nullptr;
    if (r.graded) {
      const GradedTimes::Grade& g = *r.graded;
      o["graded"] = {{"median_cycles", g.median},    {"p25_cycles", g.p25},
                     {"p75_cycles", g.p75},          {"p90_cycles", g.p90},
                     {"mean_cycles", g.mean},        {"samples", g.samples},
                     {"one_in", g.one_in},           {"rates", g.rates},
                     {"rate_spread", g.rate_spread}, {"clock_read_cycles_subtracted", clock_read_cycles}};
    } else {
      o["no_grade"] = r.no_grade;
    }
    o["source"] = r.source;
    o["sass"] = r.sass;
    array.push_back(std::move(o));
  }
  // Strings of the caller may hold anything: bytes that are not UTF-8 are replaced.
  return json_text(array, 1);
}

}  // namespace xtrace::trace
