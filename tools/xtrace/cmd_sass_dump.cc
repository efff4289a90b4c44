// xtrace sass dump: instructions as text, with control bits.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "instrument/sass/print.h"
#include "tools/xtrace/cmd_sass.h"
#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

using nlohmann::json;

Result<std::vector<sass::RawInst>> words_of(const cubin::Section& text) {
  if (text.data.size() % sass::inst_bytes != 0)
    return bad_input("{} has {} bytes: expected a multiple of {}", text.name, text.data.size(),
                     sass::inst_bytes);
  std::vector<sass::RawInst> words(text.data.size() / sass::inst_bytes);
  for (size_t i = 0; i < words.size(); ++i) {
    XT_TRY(words[i], read_at<sass::RawInst>(text.data, i * sass::inst_bytes, "instruction"));
  }
  return words;
}

void print_function(const SassCubin& c, const std::string& name, const std::vector<sass::RawInst>& words) {
  const std::string readable = printable(demangled(name));
  fmt::print(".text.{}:  // {}, {} instructions{}\n", printable(name), c.arch->name, words.size(),
             readable == name ? "" : ", " + readable);
  std::vector<std::string> texts;
  size_t width = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    texts.push_back(sass::print(*c.arch, words[i], static_cast<uint32_t>(i * sass::inst_bytes)));
    if (texts.back().size() <= 64) width = std::max(width, texts.back().size());
  }
  for (size_t i = 0; i < words.size(); ++i)
    fmt::print("  /*{:04x}*/  {:<{}} ;  {}\n", i * sass::inst_bytes, texts[i], width,
               sass::print_control(words[i]));
}

json function_json(const SassCubin& c, const std::string& name, const std::vector<sass::RawInst>& words) {
  json out = {{"name", name}, {"demangled", demangled(name)}, {"instructions", json::array()}};
  for (size_t i = 0; i < words.size(); ++i) {
    const auto pc = static_cast<uint32_t>(i * sass::inst_bytes);
    out["instructions"].push_back({{"pc", pc},
                                   {"word", fmt::format("{:016x}_{:016x}", words[i].hi, words[i].lo)},
                                   {"text", sass::print(*c.arch, words[i], pc)},
                                   {"control", sass::print_control(words[i])}});
  }
  return out;
}

}  // namespace

Result<int> sass_dump(const SassOptions& options) {
  json document = {{"file", options.input}, {"cubins", json::array()}};
  const auto dump = [&](const SassCubin& c, const std::vector<std::string>& names) -> Status {
    json functions = json::array();
    if (!options.json) fmt::print("// {}: {}\n", c.where, c.arch->name);
    for (const std::string& name : names) {
      const auto section = c.image.find_section(".text." + name);
      XT_CHECK(section.has_value(), "a function without its section");
      XT_TRY_IN(const std::vector<sass::RawInst> words, words_of(c.image.sections()[*section]), "in {}",
                c.where);
      if (options.json) {
        functions.push_back(function_json(c, name, words));
      } else {
        print_function(c, name, words);
      }
    }
    if (options.json)
      document["cubins"].push_back(
          {{"where", c.where}, {"sm", c.arch->sm}, {"functions", std::move(functions)}});
    return {};
  };
  if (!options.kernel.empty()) {
    XT_TRY(const SassFunction f, find_function(options));
    XT_TRY_STATUS(dump(f.cubin, {f.name}));
  } else {
    const auto visit = [&](SassCubin& c) -> Result<bool> {
      if (auto done = dump(c, functions_of(c.image)); !done) return tl::make_unexpected(std::move(done).error());
      return true;
    };
    XT_TRY_STATUS(for_each_cubin(options, visit));
  }
  if (options.json) fmt::print("{}", json_text(document, 1));
  return 0;
}

}  // namespace xtrace::cli
