// A recorded launch as everything here runs it: linked code (nvcc -rdc=true) in the form of whole-program compilation.
#pragma once

#include "capture/bundle/bundle_reader.h"
#include "replay/backend.h"

namespace xtrace::cli {

// Edits launch.code where it is linked (instrument/linked_code.h), and says so in launch.notes; or why it stays as it is, to be replayed clean.
Status make_whole(replay::LaunchImage& launch);

// replay::load_launch, made whole.
Result<replay::LaunchImage> load_whole_launch(const bundle::BundleReader& bundle, uint64_t ordinal);

}  // namespace xtrace::cli
