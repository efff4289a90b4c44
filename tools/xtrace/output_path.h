// Can what a command is asked to write be written? Asked before the work, which may take hours.
#pragma once

#include <string>

#include "base/status.h"

namespace xtrace::cli {

// A folder is made; of a file, its folder must be there. An empty path and "-" (stdout) are fine.
Status can_be_written(const std::string& path, bool folder);

}  // namespace xtrace::cli
