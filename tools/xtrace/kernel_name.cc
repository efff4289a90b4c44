#include "tools/xtrace/kernel_name.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <memory>

namespace xtrace::cli {
namespace {

// "void f<int>(int*)" -> "f<int>". Parentheses also occur inside template arguments: "f<(int)3>(int)".
std::string without_signature(std::string name) {
  if (name.starts_with("void ")) name.erase(0, 5);
  if (!name.ends_with(")")) return name;
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return i == 0 ? name : name.substr(0, i);
  }
  return name;
}

// "f<a, b<c>>::g<d>" -> "f<..>::g<..>". Names with operator< are left alone: their brackets do not balance.
std::string without_template_arguments(const std::string& name) {
  if (name.find("operator") != std::string::npos) return name;
  std::string out;
  int depth = 0;
  for (const char c : name) {
    if (c == '<' && depth++ == 0) out += "<..";
    if (c == '>' && --depth < 0) return name;
    if (depth == 0) out += c;
  }
  return depth == 0 ? out : name;
}

}  // namespace

std::string demangled(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  // A bare type code such as "i" also demangles: only _Z names are C++ functions.
  return status == 0 && name && mangled.starts_with("_Z") ? std::string(name.get()) : mangled;
}

std::string shorten_kernel(const std::string& name, size_t width) {
  if (name.size() <= width) return name;
  std::string shorter = without_signature(name);
  if (shorter.size() <= width) return shorter;
  shorter = without_template_arguments(shorter);
  if (shorter.size() <= width) return shorter;
  return width <= 2 ? shorter.substr(0, width) : shorter.substr(0, width - 2) + "..";
}

std::string with_readable_names(const std::string& text) {
  constexpr size_t width = 60;
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && in_name(text[end])) ++end;
    const std::string word = text.substr(at, end == at ? 1 : end - at);
    out += word.starts_with("_Z") ? shorten_kernel(demangled(word), width) : word;
    at += word.size();
  }
  return out;
}

}  // namespace xtrace::cli
