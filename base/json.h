// JSON to and from text, compiled once: what nlohmann/json instantiates for parse() and dump() costs two seconds of compile time in
// every file that calls them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace xtrace {

// A discarded value (is_discarded()) where the text is no JSON.
nlohmann::json parse_json(std::string_view text);
// The same with members in the order of the text.
nlohmann::ordered_json parse_ordered_json(std::string_view text);

// Spaces a level of nesting, and a line break at the end. Names from a recording may hold anything: bytes that are not UTF-8 are replaced.
std::string json_text(const nlohmann::json& value, int indent);
std::string json_text(const nlohmann::ordered_json& value, int indent);

}  // namespace xtrace
