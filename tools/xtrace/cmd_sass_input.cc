// The cubins of a file, and one function among them.
#include <set>

#include "base/file.h"
#include "instrument/cubin/fatbin.h"
#include "tools/xtrace/cmd_sass.h"
#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

constexpr size_t names_listed = 8;
constexpr std::string_view text_prefix = ".text.";

std::string join(const std::set<std::string>& names) {
  std::string s;
  for (const std::string& n : names) s += fmt::format("{}{}", s.empty() ? "" : ", ", n);
  return s;
}

// How well a name answers the question: 2 it is the name, 1 it holds it, 0 neither.
int match(const std::string& name, const std::string& wanted) {
  if (name == wanted) return 2;
  const std::string readable = demangled(name);
  if (readable == wanted || readable.substr(0, readable.find('(')) == wanted) return 2;
  return name.find(wanted) != std::string::npos || readable.find(wanted) != std::string::npos ? 1 : 0;
}

}  // namespace

Status for_each_cubin(const SassOptions& options, const std::function<Result<bool>(SassCubin&)>& visit) {
  XT_TRY(const Bytes file, read_file(options.input));
  XT_TRY_IN(const std::vector<cubin::FatbinEntry> entries, cubin::fatbin_entries(file), "in {}",
            options.input);
  std::set<std::string> others;
  bool any = false;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].kind != cubin::FatbinEntry::Kind::cubin) {
      others.insert(entries[i].kind == cubin::FatbinEntry::Kind::ptx
                        ? fmt::format("PTX for sm_{}", entries[i].sm)
                        : fmt::format("entry of kind {}", entries[i].raw_kind));
      continue;
    }
    // A bare cubin says its architecture only in its own header.
    if (options.sm != 0 && entries[i].sm != 0 && entries[i].sm != options.sm) {
      others.insert(fmt::format("sm_{}", entries[i].sm));
      continue;
    }
    SassCubin c;
    c.where = entries.size() == 1 ? options.input : fmt::format("{} entry {}", options.input, i);
    XT_TRY_IN(c.bytes, cubin::unwrap(file, entries[i]), "in {}", c.where);
    XT_TRY_IN(c.image, cubin::Image::parse(c.bytes), "in {}", c.where);
    const auto arch = sass::find_arch(c.image.sm());
    if (!arch || (options.sm != 0 && c.image.sm() != options.sm)) {
      others.insert(fmt::format("sm_{}", c.image.sm()));
      continue;
    }
    c.arch = *arch;
    any = true;
    XT_TRY(const bool more, visit(c));
    if (!more) return {};
  }
  if (any) return {};
  return bad_input("{} holds no machine code {}; it holds {}", options.input,
                   options.sm != 0 ? fmt::format("for sm_{}", options.sm) : "of a known architecture",
                   join(others));
}

std::vector<std::string> functions_of(const cubin::Image& image) {
  std::vector<std::string> names;
  for (const cubin::Section& s : image.sections())
    if (s.name.starts_with(text_prefix)) names.push_back(s.name.substr(text_prefix.size()));
  return names;
}

Result<SassFunction> find_function(const SassOptions& options) {
  std::vector<SassFunction> exact, part;
  std::set<std::string> near, archs;
  size_t functions = 0;
  XT_TRY_STATUS(for_each_cubin(options, [&](SassCubin& c) -> Result<bool> {
    for (const std::string& name : functions_of(c.image)) {
      ++functions;
      const int how = match(name, options.kernel);
      if (how == 0) continue;
      (how == 2 ? exact : part).push_back({c, name});
    }
    return true;
  }));
  std::vector<SassFunction>& found = exact.empty() ? part : exact;
  if (found.empty())
    return with_hint(
        bad_input("no function named '{}' among the {} of {}", options.kernel, functions, options.input),
        fmt::format("list them with: xtrace sass dump {} | grep '^\\.text'", options.input));
  if (found.size() == 1) return std::move(found.front());
  for (const SassFunction& f : found) {
    archs.insert(std::string(f.cubin.arch->name));
    if (near.size() < names_listed) near.insert(printable(demangled(f.name)));
  }
  const bool one_name = near.size() == 1;
  return with_hint(bad_input("'{}' names {} functions of {}: {}", options.kernel, found.size(), options.input,
                             one_name ? "one for each of " + join(archs) : join(near)),
                   archs.size() > 1 ? "choose an architecture with --sm" : "give more of the name");
}

}  // namespace xtrace::cli
