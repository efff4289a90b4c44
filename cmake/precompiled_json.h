// The same for what reads and writes JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "cmake/precompiled.h"
