// Kernel names for people.
#pragma once

#include <cstddef>
#include <string>

namespace xtrace::cli {

// The C++ name of a mangled one; the name itself when it is not mangled (Triton, extern "C").
std::string demangled(const std::string& mangled);

// At most `width` columns: first without return type and parameters, then with template arguments as <..>,
// then cut.
std::string shorten_kernel(const std::string& name, size_t width);

// A text of messages with every mangled name in it replaced by such a name.
std::string with_readable_names(const std::string& text);

}  // namespace xtrace::cli
