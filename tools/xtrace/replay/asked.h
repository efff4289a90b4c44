// What reg, custom and range were told on the command line: --regs, --regs-behind, --custom, --range.
//
//   values   := value { "," value }          value := clock | time | R4 | UR6 | P0 | !P0, behind an instruction also: ready
//   custom   := at EXPRESSION [record values] [behind values]          EXPRESSION as in --at (places.h)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/xtrace/replay/places.h"
#include "trace/wire/address_map.h"

namespace xtrace::cli {

struct AskedRule {
  std::optional<Place> at;           // none: everywhere
  std::vector<wire::Value> before, behind;
  std::string name;
  bool data_before = false, data_behind = false;   // the registers that an access stores, and those that it loads
};
struct AskedTexts {
  std::vector<AskedRule> reg, custom, range;
};

// "clock, R4, !P0". bad_input names the word that was not understood; `what` says where it stands. `data` becomes true where the word
// data is among them.
Result<std::vector<wire::Value>> parse_values(const std::string& text, bool behind, const std::string& what, bool& data);
// One line of --custom; a text that begins with @ is a file of such lines, in which # begins a comment.
Status parse_custom(const std::string& text, AskedTexts& to);
Status parse_regs(const std::string& before, const std::string& behind, AskedTexts& to);
Status parse_range(const std::string& text, AskedTexts& to);

}  // namespace xtrace::cli
