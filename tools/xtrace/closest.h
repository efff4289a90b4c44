// Which name somebody meant who wrote another.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace xtrace::cli {

// Of `names` the one that takes the fewest changes of a letter to become; empty where all of them take too many.
std::string_view closest(std::string_view word, std::span<const std::string_view> names);
// "did you mean NAME? ", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> names);

}  // namespace xtrace::cli
