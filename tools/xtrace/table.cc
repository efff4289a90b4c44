#include "tools/xtrace/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace xtrace::cli {
namespace {

constexpr size_t gap = 2;
constexpr size_t narrowest = 12;  // a shortened column says at least this much

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return out;
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

size_t terminal_width() {
  if (const char* columns = std::getenv("COLUMNS")) {
    const long width = std::strtol(columns, nullptr, 10);
    if (width > 0) return static_cast<size_t>(width);
  }
  winsize size = {};
  if (::isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) return size.ws_col;
  return 0;
}

void Table::add_row(std::vector<std::string> cells) {
  XT_CHECK(cells.size() == columns_.size(), "a table row has one cell a column");
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::render(size_t width, size_t indent) const {
  std::vector<std::vector<std::string>> lines;
  lines.emplace_back();
  for (const Column& c : columns_) lines[0].push_back(c.title);
  lines.insert(lines.end(), rows_.begin(), rows_.end());

  std::vector<size_t> widths(columns_.size());
  const auto measure = [&](size_t column) {
    widths[column] = 0;
    for (const auto& l : lines) widths[column] = std::max(widths[column], display_width(l[column]));
  };
  size_t total = indent;
  for (size_t i = 0; i < columns_.size(); ++i) {
    measure(i);
    total += widths[i] + (i == 0 ? 0 : gap);
  }
  for (size_t i = 0; i < columns_.size() && width != 0 && total > width; ++i) {
    if (columns_[i].shorten == nullptr) continue;
    const size_t others = total - widths[i];
    const size_t budget = std::max(narrowest, width > others ? width - others : 0);
    for (size_t l = 1; l < lines.size(); ++l)
      if (display_width(lines[l][i]) > budget) lines[l][i] = columns_[i].shorten(lines[l][i], budget);
    measure(i);
    total = others + widths[i];
  }

  std::string out;
  for (const auto& l : lines) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string padding(widths[i] - display_width(l[i]), ' ');
      if (i != 0) line.append(gap, ' ');
      line += columns_[i].align == Align::right ? padding + l[i] : l[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace xtrace::cli
