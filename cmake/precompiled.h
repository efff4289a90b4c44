// What most files include, parsed once (XTRACE_PCH). Every file still includes what it uses: the build with
// -DXTRACE_PCH=OFF checks that. Nothing of xtrace belongs here.
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
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>
