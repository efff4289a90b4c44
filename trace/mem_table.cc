// The table of `mem`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "trace/csv.h"
#include "trace/mem_analysis.h"

namespace xtrace::trace {
namespace {

double ratio(uint64_t a, uint64_t b) { return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b); }
bool of_lanes(const AccessRow& r) { return r.access.form == wire::Access::Form::lanes; }
bool is_shared(const AccessRow& r) { return r.access.space == wire::Access::Space::shared; }
bool has_wavefronts(const AccessRow& r) { return of_lanes(r) && is_shared(r); }
// Of boxes through maps that are not known nobody knows them.
bool has_sectors(const AccessRow& r) { return !is_shared(r) && r.stats.moved.not_known == 0; }

struct Column {
  std::string title;
  bool words;
  size_t width = 0;
};
std::string in_columns(std::vector<Column> columns, std::vector<std::vector<std::string>> lines) {
  std::vector<std::string> titles;
  for (const Column& c : columns) titles.push_back(c.title);
  lines.insert(lines.begin(), std::move(titles));
  for (const auto& line : lines)
    for (size_t c = 0; c < line.size(); ++c) columns[c].width = std::max(columns[c].width, line[c].size());
  std::string out;
  for (const auto& line : lines) {
    for (size_t c = 0; c < line.size(); ++c)
      out += columns[c].words ? fmt::format("{:<{}}  ", line[c], columns[c].width) : fmt::format("{:>{}}  ", line[c], columns[c].width);
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

std::string kind_of(const AccessRow& r) {
  return of_lanes(r) ? std::string(name_of(r.access.kind)) : fmt::format("{} {}", name_of(r.access.form), name_of(r.access.kind));
}
// Of those whose bytes are known.
std::string bytes_of(const AccessRow& r) {
  if (of_lanes(r)) return fmt::format("{}", r.access.bytes);
  const uint64_t known = r.stats.requests - r.stats.moved.not_known;
  return known == 0 ? "-" : fmt::format("{}{}", r.stats.moved.bytes % known == 0 ? "" : "~", r.stats.moved.bytes / known);
}
std::string range_of(const Extent& e) { return e.empty() ? "-" : fmt::format("{:#x}:{:#x}", e.begin, e.end); }

// What was moved, of accesses that are made once for the warp.
std::string render_moved(const std::vector<AccessRow>& rows) {
  const std::vector<Column> columns{{"pc", false},     {"kind", true},      {"moved", false}, {"outside", false},
                                    {"copies", false}, {"in memory", true}, {"in shared memory", true}, {"through", true}};
  std::vector<std::vector<std::string>> lines;
  for (const AccessRow& r : rows) {
    if (of_lanes(r)) continue;
    const MovedStats& m = r.stats.moved;
    std::string through;
    for (const auto& [address, executions] : m.maps) {
      const auto text = r.maps.find(address);
      if (!through.empty()) through += "; ";
      if (m.maps.size() > 1) through += fmt::format("{} times ", executions);
      through += text == r.maps.end() ? fmt::format("{:#x}", address) : text->second;
    }
    if (m.not_known != 0) through += fmt::format(" ({} of {} not known: {})", m.not_known, r.stats.requests, m.why_not_known);
    lines.push_back({fmt::format("{:#x}", r.access.pc), kind_of(r), fmt::format("{}", m.bytes), fmt::format("{}", m.outside),
                     m.copies == 0 ? "-" : fmt::format("{}", m.copies), range_of(m.global), range_of(m.shared), through});
  }
  return lines.empty() ? "" : "\n" + in_columns(columns, std::move(lines));
}

}  // namespace

std::string render_text(const std::vector<AccessRow>& rows) {
  const std::vector<Column> columns{{"pc", false},       {"space", true}, {"kind", true},        {"bytes", false},  {"requests", false}, {"lanes", false},
                                    {"sectors", false}, {"/req", false}, {"wavefronts", false}, {"/least", false}, {"source", true},    {"sass", true}};
  std::vector<std::vector<std::string>> lines;
  for (const AccessRow& r : rows) {
    const AccessStats& s = r.stats;
    const auto number = [](bool applies, uint64_t n) { return applies ? fmt::format("{}", n) : std::string("-"); };
    const auto share = [](bool applies, uint64_t n, uint64_t of) { return applies ? fmt::format("{:.2f}", ratio(n, of)) : std::string("-"); };
    lines.push_back({fmt::format("{:#x}", r.access.pc), std::string(name_of(r.access.space)), kind_of(r), bytes_of(r),
                     number(true, s.requests), number(of_lanes(r), s.lanes), number(has_sectors(r), s.sectors),
                     share(has_sectors(r), s.sectors, s.requests), number(has_wavefronts(r), s.wavefronts),
                     share(has_wavefronts(r), s.wavefronts, s.least_wavefronts), r.source, r.sass});
  }
  return in_columns(columns, std::move(lines)) + render_moved(rows);
}

std::string render_csv(const std::vector<AccessRow>& rows) {
  std::string out =
      "pc,block,space,kind,bytes,executions,requests,lanes,window_lanes,sectors,wavefronts,least_wavefronts,form,moved_bytes,outside_bytes,copies,"
      "global_begin,global_end,shared_begin,shared_end,maps,maps_not_known,source,sass\n";
  const auto number = [](bool applies, uint64_t n) { return applies ? fmt::format("{}", n) : std::string(); };
  const auto range = [](const Extent& e) { return e.empty() ? std::string(",") : fmt::format("{:#x},{:#x}", e.begin, e.end); };
  for (const AccessRow& r : rows) {
    const AccessStats& s = r.stats;
    const bool lanes = of_lanes(r);
    out += fmt::format("{:#x},{},{},{},{},{},{},{},{},{},{},{},{},", r.access.pc, r.access.block, name_of(r.access.space), name_of(r.access.kind),
                       number(lanes, r.access.bytes), s.executions, s.requests, number(lanes, s.lanes), number(lanes, s.window_lanes),
                       number(has_sectors(r), s.sectors), number(has_wavefronts(r), s.wavefronts), number(has_wavefronts(r), s.least_wavefronts),
                       name_of(r.access.form));
    out += fmt::format("{},{},{},{},{},{},{},{},{}\n", number(!lanes, s.moved.bytes), number(!lanes, s.moved.outside), number(!lanes, s.moved.copies),
                       range(s.moved.global), range(s.moved.shared), number(!lanes, s.moved.maps.size()), number(!lanes, s.moved.not_known),
                       csv_quoted(r.source), csv_quoted(r.sass));
  }
  return out;
}

namespace {

nlohmann::ordered_json moved_json(const AccessRow& r) {
  const MovedStats& m = r.stats.moved;
  const auto range = [](const Extent& e) { return e.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json{{"begin", e.begin}, {"end", e.end}}; };
  nlohmann::ordered_json maps = nlohmann::ordered_json::array();
  for (const auto& [address, executions] : m.maps) {
    const auto text = r.maps.find(address);
    maps.push_back({{"address", address}, {"executions", executions}, {"text", text == r.maps.end() ? "" : text->second}});
  }
  return {{"bytes", m.bytes},          {"outside_bytes", m.outside}, {"copies", m.copies}, {"global", range(m.global)},
          {"shared", range(m.shared)}, {"maps", std::move(maps)},    {"maps_not_known", m.not_known}, {"why_not_known", m.why_not_known}};
}

}  // namespace

std::string render_json(const std::vector<AccessRow>& rows) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const AccessRow& r : rows) {
    const AccessStats& s = r.stats;
    nlohmann::ordered_json o{{"pc", r.access.pc},
                             {"block", r.access.block},
                             {"space", name_of(r.access.space)},
                             {"kind", name_of(r.access.kind)},
                             {"form", name_of(r.access.form)},
                             {"bytes", nullptr},
                             {"executions", s.executions},
                             {"requests", s.requests},
                             {"lanes", nullptr},
                             {"window_lanes", nullptr},
                             {"sectors", nullptr},
                             {"sectors_per_request", nullptr},
                             {"wavefronts", nullptr},
                             {"least_wavefronts", nullptr},
                             {"moved", nullptr}};
    if (of_lanes(r)) {
      o["bytes"] = r.access.bytes;
      o["lanes"] = s.lanes;
      o["window_lanes"] = s.window_lanes;
    } else {
      o["moved"] = moved_json(r);
    }
    if (has_wavefronts(r)) {
      o["wavefronts"] = s.wavefronts;
      o["least_wavefronts"] = s.least_wavefronts;
    } else if (has_sectors(r)) {
      o["sectors"] = s.sectors;
      if (s.requests != 0) o["sectors_per_request"] = ratio(s.sectors, s.requests);
    }
    o["source"] = r.source;
    o["sass"] = r.sass;
    array.push_back(std::move(o));
  }
  return json_text(array, 1);
}

}  // namespace xtrace::trace
