// JSON as tests look at it: values by their place, compared as text. GoogleTest's macros over nlohmann::json itself, and its header, cost
// seconds of compile time a program.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace xtrace {

class JsonDocument {
 public:
  explicit JsonDocument(std::string_view text);
  bool is_valid() const;

  // What stands at a JSON pointer ("/rows/0/code"), on one line, names in the order of the alphabet, strings in quotes: `null`, `3`,
  // `"ok"`. "nothing" where nothing stands, which is no JSON.
  std::string at(const std::string& pointer) const;
  // Of a string there, what is in the quotes. Of anything else "no string: " and the value.
  std::string text(const std::string& pointer) const;
  // Of an array or an object there: how many. Of anything else -1.
  long size(const std::string& pointer) const;

 private:
  const nlohmann::json* find(const std::string& pointer) const;
  std::shared_ptr<const nlohmann::json> root_;
};

// A document as at() writes it.
std::string one_line(std::string_view json);

}  // namespace xtrace
