// Which instructions of a kernel a place means.
#pragma once

#include "instrument/instrument.h"
#include "replay/session.h"
#include "tools/xtrace/replay/asked.h"

namespace xtrace::cli {

// `text`: the place as it was written. unsupported: no instruction is there; says what there is.
Result<instrument::Places> places_of(const instrument::Splicer& splicer, const replay::LaunchImage& launch, const Place& place,
                                     const std::string& text);
// What reg, custom and range record on this kernel. unsupported: a place where there is no instruction.
Result<instrument::Asked> resolve(const AskedTexts& asked, const instrument::Splicer& splicer, const replay::LaunchImage& launch);

// Whether a recording holds all that the kernel reads. unsupported: it reads objects that the driver keeps (textures, surfaces).
Status holds_all(const instrument::Splicer& splicer);

}  // namespace xtrace::cli
