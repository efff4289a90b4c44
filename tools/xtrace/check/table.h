// A run as one table for people, and below it what speaks against the rows.
#pragma once

#include <cstddef>
#include <string>

#include "tools/xtrace/check/result.h"

namespace xtrace::check {

// `width` as in Table::render.
std::string render_table(const CheckRun& run, size_t width);

}  // namespace xtrace::check
