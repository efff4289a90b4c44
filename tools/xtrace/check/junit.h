// A run as JUnit XML, which CI systems show: a suite per bundle, a test case per row. What is inconclusive is
// a failure of type "inconclusive": it must not look like a pass.
#pragma once

#include <string>
#include <string_view>

#include "tools/xtrace/check/result.h"

namespace xtrace::check {

std::string render_junit(const CheckRun& run);

// Safe in XML text and attributes: markup is escaped; what XML can not hold (control characters, bytes that
// are not UTF-8) becomes '?'.
std::string xml_text(std::string_view text);

}  // namespace xtrace::check
