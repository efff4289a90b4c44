// What a recording lacks. Who replays it must not take the launches that are there for all that the program made.
#pragma once

#include <string>

#include "capture/bundle/bundle_reader.h"

namespace xtrace::cli {

// Empty: the bundle is complete.
std::string what_is_missing(const bundle::BundleReader& reader);
// "holds 13 launches", or what it lacks: why a launch may not be there.
std::string what_it_holds(const bundle::BundleReader& reader);

}  // namespace xtrace::cli
