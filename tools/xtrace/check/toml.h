// The part of TOML that policy files need: [section], [section."name"], bare dotted keys, and strings,
// numbers and one-line arrays of strings as values. Everything else of TOML is refused with its line number,
// so that no file means something else here than to another parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace xtrace::check {

using TomlValue = std::variant<double, std::string, std::vector<std::string>>;
std::string_view kind_of(const TomlValue& value);  // "a number", "a string", "an array of strings"

struct TomlEntry {
  std::string key;  // "budget.block"
  TomlValue value;
  uint32_t line = 0;  // from 1
};

struct TomlSection {
  std::string kind;  // "default", "kernel"
  std::string name;  // of [kernel."name"]; empty without one
  bool named = false;
  uint32_t line = 0;
  std::vector<TomlEntry> entries;
};

// Sections in the order of the file. Refused beside syntax errors: a key outside a section, a section or a
// key that occurs twice, a key that is both a value and a prefix of another ("drift" and "drift.ratio").
Result<std::vector<TomlSection>> parse_toml(std::string_view text);

}  // namespace xtrace::check
