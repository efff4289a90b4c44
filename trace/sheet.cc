#include "trace/sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "trace/csv.h"

namespace xtrace::trace {
namespace {

std::string text_of(const Cell& cell, const char* nothing) {
  if (const auto* n = std::get_if<uint64_t>(&cell)) return fmt::format("{}", *n);
  if (const auto* h = std::get_if<Hex>(&cell)) return fmt::format("{:#x}", h->value);
  if (const auto* d = std::get_if<double>(&cell)) return fmt::format("{:.1f}", *d);
  if (const auto* s = std::get_if<std::string>(&cell)) return s->empty() ? nothing : *s;
  return nothing;
}

// A title wider than what stands below it takes two lines, broken at the '_' that makes it narrowest: {"ungraded", "median"}.
std::pair<std::string, std::string> broken(const std::string& title, size_t widest_value) {
  std::pair<std::string, std::string> best{"", title};
  if (title.size() <= widest_value) return best;
  for (size_t at = title.find('_'); at != std::string::npos; at = title.find('_', at + 1))
    if (std::max(at, title.size() - at - 1) < std::max(best.first.size(), best.second.size()))
      best = {title.substr(0, at), title.substr(at + 1)};
  return best;
}

}  // namespace

std::string render_text(const Sheet& sheet) {
  std::vector<std::vector<std::string>> lines(2, std::vector<std::string>(sheet.columns.size()));   // the titles
  for (const auto& row : sheet.rows) {
    auto& line = lines.emplace_back();
    for (const Cell& cell : row) line.push_back(text_of(cell, "-"));
  }
  std::vector<size_t> width(sheet.columns.size());
  std::vector<bool> words(sheet.columns.size(), false);
  const auto measure = [&](size_t c) {
    for (const auto& line : lines) width[c] = std::max(width[c], line[c].size());
  };
  for (size_t c = 0; c < width.size(); ++c) {
    measure(c);
    std::tie(lines[0][c], lines[1][c]) = broken(sheet.columns[c], width[c]);
    measure(c);
  }
  if (std::all_of(lines[0].begin(), lines[0].end(), [](const std::string& s) { return s.empty(); })) lines.erase(lines.begin());
  for (const auto& row : sheet.rows)
    for (size_t c = 0; c < row.size(); ++c)
      if (std::holds_alternative<std::string>(row[c])) words[c] = true;
  std::string out;
  for (const auto& line : lines) {
    for (size_t c = 0; c < line.size(); ++c) {
      if (c > 0) out += "  ";
      out += words[c] ? fmt::format("{:<{}}", line[c], width[c]) : fmt::format("{:>{}}", line[c], width[c]);
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

std::string render_csv(const Sheet& sheet) {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) out += ',';
      out += csv_quoted(cells[c]);
    }
    out += '\n';
  };
  line(sheet.columns);
  for (const auto& row : sheet.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) cells.push_back(text_of(cell, ""));
    line(cells);
  }
  return out;
}

std::string render_json(const Sheet& sheet) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const auto& row : sheet.rows) {
    nlohmann::ordered_json o = nlohmann::ordered_json::object();
    for (size_t c = 0; c < row.size(); ++c) {
      nlohmann::ordered_json& field = o[sheet.columns[c]];
      if (const auto* n = std::get_if<uint64_t>(&row[c])) field = *n;
      else if (const auto* h = std::get_if<Hex>(&row[c])) field = h->value;
      else if (const auto* d = std::get_if<double>(&row[c])) field = *d;
      else if (const auto* s = std::get_if<std::string>(&row[c])) field = *s;
    }
    array.push_back(std::move(o));
  }
  return json_text(array, 1);
}

}  // namespace xtrace::trace
