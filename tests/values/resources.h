// Files that the programs carry inside, since they run far from where they were built.
#pragma once

#include <string_view>

#include "base/bytes.h"

namespace xtrace::values {

std::string_view oracle_vectors();    // tests/oracle/vectors.txt
std::string_view oracle_forms();      // sm90_forms.txt
std::string_view oracle_generated();  // generated.txt
std::string_view recorded_results();  // tests/values/h200.txt
ByteView slot_cubin();                // slot.cu, compiled

}  // namespace xtrace::values
