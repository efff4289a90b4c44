#include "tests/json_document.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace xtrace {

JsonDocument::JsonDocument(std::string_view text) : root_(std::make_shared<const nlohmann::json>(parse_json(text))) {}

bool JsonDocument::is_valid() const { return !root_->is_discarded(); }

const nlohmann::json* JsonDocument::find(const std::string& pointer) const {
  const nlohmann::json::json_pointer at(pointer);
  return is_valid() && root_->contains(at) ? &root_->at(at) : nullptr;
}

std::string JsonDocument::at(const std::string& pointer) const {
  const nlohmann::json* value = find(pointer);
  if (value == nullptr) return "nothing";
  std::string line = json_text(*value, -1);
  line.pop_back();
  return line;
}

std::string JsonDocument::text(const std::string& pointer) const {
  const nlohmann::json* value = find(pointer);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "no string: " + at(pointer);
}

long JsonDocument::size(const std::string& pointer) const {
  const nlohmann::json* value = find(pointer);
  return value != nullptr && value->is_structured() ? static_cast<long>(value->size()) : -1;
}

std::string one_line(std::string_view json) { return JsonDocument(json).at(""); }

}  // namespace xtrace
