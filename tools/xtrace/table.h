// Text tables: aligned columns, two spaces between them, one column that gives way when the line is too long.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace xtrace::cli {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
  // At most one column has it: makes a cell at most `width` wide when the table does not fit.
  std::string (*shorten)(const std::string& cell, size_t width) = nullptr;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell a column. Control characters are shown as '?'.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // `width` 0: as wide as it needs. Every line begins with `indent` spaces and ends with a newline.
  std::string render(size_t width = 0, size_t indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Text from a recording, safe to print: control characters become '?'.
std::string printable(std::string_view text);
// Columns a text takes: code points of UTF-8.
size_t display_width(std::string_view text);
// $COLUMNS, else the width of the terminal on stdout, else 0.
size_t terminal_width();

}  // namespace xtrace::cli
