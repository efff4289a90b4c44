// h200.txt: what each word did on the GPU. One line a word:
//   LOW HIGH CLASS DIGEST CHANGED MOVED ; SASS       measured (sets as measure.h has them, in hex, place 0
//   first) LOW HIGH CLASS fault REASON ; SASS               the GPU stopped at it
// Lines that begin with # say where and when.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/values/workers.h"

namespace xtrace::values {

struct RecordedWord {
  Word word;
  Outcome outcome;
};
// bad_input naming the line.
Result<std::vector<RecordedWord>> parse_recorded(std::string_view text);
std::string to_text(const RecordedWord& r);

// All recorded words through the interpreter. Words that read the machine are left out.
struct Replayed {
  size_t equal = 0, refused = 0;
  std::vector<std::string> different;  // texts
};
Replayed replay_recorded(const std::vector<RecordedWord>& recorded);

}  // namespace xtrace::values
