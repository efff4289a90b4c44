#include "base/json.h"

#include <nlohmann/json.hpp>

namespace xtrace {
namespace {

template <typename Json>
std::string text_of(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

nlohmann::json parse_json(std::string_view text) { return nlohmann::json::parse(text, nullptr, false); }
nlohmann::ordered_json parse_ordered_json(std::string_view text) { return nlohmann::ordered_json::parse(text, nullptr, false); }

std::string json_text(const nlohmann::json& value, int indent) { return text_of(value, indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) { return text_of(value, indent); }

}  // namespace xtrace
