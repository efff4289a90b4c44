// What a recording lacks. Who replays it must not take the launches that are there for all that the program made.
#pragma once

#include <string>

#include "capture/bundle/bundle_reader.h"

namespace xtrace::cli {

// Empty: the bundle is complete.
std::string what_is_missing(const bundle::BundleReader& reader);

}  // namespace xtrace::cli
