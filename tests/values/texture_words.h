// Words of texture and surface forms. Their modifiers have no text in the table of forms, so the words are made of fields.
#pragma once

#include <vector>

#include "tests/values/objects.h"
#include "tests/values/words.h"

namespace xtrace::values {

const std::vector<Word>& texture_words();
// What a word of class texture or surface wants in place of the 0s and 1s of its handle. `slot` stays 0.
Choice choice_of(const Word& w, const Objects& objects);

}  // namespace xtrace::values
