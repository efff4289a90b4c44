// A table of named columns, and how it is written: for people, as CSV, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace xtrace::trace {

// Nothing; a number; a pc or a register's value, shown as hex; cycles or a ratio; text.
struct Hex {
  uint64_t value = 0;
};
using Cell = std::variant<std::monostate, uint64_t, Hex, double, std::string>;

struct Sheet {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;   // each as long as columns
};

std::string render_text(const Sheet& sheet);   // long titles on two lines
std::string render_csv(const Sheet& sheet);    // RFC 4180, first line names the columns
std::string render_json(const Sheet& sheet);   // array of objects; what is missing is null

}  // namespace xtrace::trace
