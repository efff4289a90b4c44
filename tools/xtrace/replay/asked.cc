#include "tools/xtrace/replay/asked.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/file.h"

namespace xtrace::cli {
namespace {

using Kind = wire::Value::Kind;

std::string trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {};
  return std::string(text.substr(from, text.find_last_not_of(" \t\r") - from + 1));
}

// The number behind a prefix, below `limit`.
std::optional<uint8_t> index_of(std::string_view text, std::string_view prefix, unsigned limit) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  unsigned n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || n >= limit) return std::nullopt;
  return static_cast<uint8_t>(n);
}

std::optional<wire::Value> value_of(const std::string& word, bool behind) {
  if (word == "clock") return wire::Value{Kind::clock};
  if (word == "time") return wire::Value{Kind::time};
  if (word == "ready" && behind) return wire::Value{Kind::clock_ready};
  if (const auto r = index_of(word, "R", 255)) return wire::Value{Kind::vector, *r};
  if (const auto u = index_of(word, "UR", 63)) return wire::Value{Kind::uniform, *u};
  if (const auto p = index_of(word, "P", 7)) return wire::Value{Kind::lanes, *p};
  if (const auto p = index_of(word, "!P", 7)) return wire::Value{Kind::lanes, *p, true};
  return std::nullopt;
}

Status parse_line(const std::string& line, const std::string& what, AskedTexts& to) {
  constexpr const char* hint = "write: at op:LDG record clock, R4, P0 behind clock, ready";
  std::istringstream words(line);
  std::string word, expression, before, behind;
  std::string* part = nullptr;
  bool first = true;
  while (words >> word) {
    if (first && word != "at") return with_hint(bad_input("{}: expected at, found '{}'", what, word), hint);
    if (first) part = &expression;
    else if (word == "record") part = &before;
    else if (word == "behind") part = &behind;
    else *part += (part->empty() ? "" : " ") + word;
    first = false;
  }
  if (expression.empty()) return with_hint(bad_input("{}: expected a place behind at", what), hint);
  if (before.empty() && behind.empty()) return with_hint(bad_input("{}: nothing to record at {}", what, expression), hint);
  AskedRule rule;
  rule.name = expression;
  XT_TRY(rule.at, Place::parse(expression, what));
  if (!before.empty()) {
    XT_TRY(rule.before, parse_values(before, false, what, rule.data_before));
  }
  if (!behind.empty()) {
    XT_TRY(rule.behind, parse_values(behind, true, what, rule.data_behind));
  }
  to.custom.push_back(std::move(rule));
  return {};
}

}  // namespace

Result<std::vector<wire::Value>> parse_values(const std::string& text, bool behind, const std::string& what, bool& data) {
  std::vector<wire::Value> values;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string word = trimmed(part);
    if (word == "data" && !data) {
      data = true;
      continue;
    }
    if (word == "data") return bad_input("{}: data stands there twice", what);
    const auto value = value_of(word, behind);
    if (!value && word == "ready")
      return with_hint(bad_input("{}: an instruction has no result in front of itself, found 'ready'", what),
                       what == "--regs" ? "ready is for --regs-behind" : "write it behind the word behind");
    if (!value)
      return with_hint(bad_input("{}: expected a value, found '{}'", what, word),
                       behind ? "values are clock, ready, time, data, R4, UR6, P0, !P0" : "values are clock, time, data, R4, UR6, P0, !P0");
    if (std::find(values.begin(), values.end(), *value) != values.end())
      return bad_input("{}: {} stands there twice", what, word);
    values.push_back(*value);
  }
  if ((values.empty() && !data) || trimmed(text).ends_with(',')) return bad_input("{}: expected a value at the end", what);
  return values;
}

Status parse_custom(const std::string& text, AskedTexts& to) {
  if (!text.starts_with('@')) return parse_line(text, "--custom", to);
  const std::string path = text.substr(1);
  XT_TRY(const Bytes bytes, read_file(path));
  std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  size_t number = 0, rules = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    XT_TRY_STATUS(parse_line(line, fmt::format("{} line {}", path, number), to));
    ++rules;
  }
  if (rules == 0) return bad_input("{}: no line says what to record", path);
  return {};
}

Status parse_regs(const std::string& before, const std::string& behind, AskedTexts& to) {
  if (before.empty() && behind.empty()) return {};
  AskedRule rule;
  if (!before.empty()) {
    XT_TRY(rule.before, parse_values(before, false, "--regs", rule.data_before));
  }
  if (!behind.empty()) {
    XT_TRY(rule.behind, parse_values(behind, true, "--regs-behind", rule.data_behind));
  }
  to.reg.push_back(std::move(rule));
  return {};
}

Status parse_range(const std::string& text, AskedTexts& to) {
  AskedRule rule;
  rule.name = text;
  XT_TRY(rule.at, Place::parse(text, "--range"));
  to.range.push_back(std::move(rule));
  return {};
}

}  // namespace xtrace::cli
