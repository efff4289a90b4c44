// Measures many words on the GPU. Each word may end its process (a fault takes the context with it) or hang it, so the work is
// done by processes forked from this one, which must not have a context of its own. One at a time holds the GPU; the others
// stand by, ready, and the next one goes on behind the word that ended its predecessor. Results are evaluated on all
// processors meanwhile.
#pragma once

#include <filesystem>

#include "tests/values/measure.h"

namespace xtrace::values {

inline constexpr unsigned kept_warps = 64;  // of keep_results

struct Outcome {
  enum class Kind : uint8_t { not_reached, measured, fault } kind = Kind::not_reached;
  Measured measured;
  std::string why;  // of a fault
};

struct WorkOptions {
  std::filesystem::path folder;
  unsigned processes = 8;
  double seconds = 240, seconds_without_progress = 15;
  bool keep_results =
      false;  // *.raw: rows that changed, of the first 64 warps, of words on which the interpreter differs
};
// Parallel to `words`. bad_input or environment when no process could do anything.
Result<std::vector<Outcome>> measure_all(const std::vector<Word>& words, const WorkOptions& options);

// The words of a folder of measure_all().
std::vector<Word> read_words(const std::filesystem::path& folder);

// One line, and back. "-" for empty sets.
std::string to_line(const Measured& m);
std::optional<Measured> from_line(const std::string& digest, const std::string& changed,
                                  const std::string& moved);

}  // namespace xtrace::values
