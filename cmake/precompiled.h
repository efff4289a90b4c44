// What most files include, parsed once (XTRACE_PCH). Every file still includes what it uses: the build with
// -DXTRACE_PCH=OFF checks that. Nothing of xtrace belongs here, and no JSON: behind its header
// GCC instantiates templates for half a second in every file.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>
