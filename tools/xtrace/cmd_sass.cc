// xtrace sass: looks at machine code: cubins, fatbins, and programs or libraries that hold them.
#include "tools/xtrace/cmd_sass.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "instrument/sass/inst.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/render_error.h"

namespace xtrace::cli {
namespace {

struct Action {
  std::string_view name;
  Result<int> (*run)(const SassOptions&);
  bool needs_kernel, takes_json, takes_dot, takes_output;
};
constexpr Action actions[] = {
    {"dump", sass_dump, false, true, false, false},
    {"cfg", sass_cfg, true, false, true, false},
    {"explain", sass_explain, false, false, false, false},
    {"asm", sass_asm, false, false, false, false},
    {"liveness", sass_liveness, true, true, false, false},
    {"extract", sass_extract, true, false, false, true},
};

std::string action_names() {
  std::string names;
  for (const Action& a : actions) names += fmt::format("{}{}", names.empty() ? "" : ", ", a.name);
  return names;
}

// What the options of this action may not be; empty when they are fine.
std::string misuse(const Action& a, const SassOptions& o) {
  if (a.needs_kernel && o.kernel.empty()) return fmt::format("{} needs --kernel", a.name);
  if (o.json && !a.takes_json) return fmt::format("--json has no meaning for {}", a.name);
  if (o.dot && !a.takes_dot) return fmt::format("--dot has no meaning for {}", a.name);
  if (!o.output.empty() && !a.takes_output) return fmt::format("--output has no meaning for {}", a.name);
  if (a.takes_output && o.output.empty()) return fmt::format("{} needs --output", a.name);
  const bool takes_file = a.name != "explain" && a.name != "asm";
  if (!takes_file && !o.kernel.empty()) return fmt::format("--kernel has no meaning for {}", a.name);
  if (a.name != "asm" && o.pc != 0) return fmt::format("--pc has no meaning for {}", a.name);
  if (o.pc % sass::inst_bytes != 0) return fmt::format("--pc {:#x}: instructions start at multiples of {}", o.pc, sass::inst_bytes);
  return {};
}

}  // namespace

int run_sass(int argc, char** argv) {
  SassOptions o;
  CommandLine line(
      "sass",
      {{"xtrace sass dump libcufft.so --sm 90", "every function for sm_90, with control bits"},
       {"xtrace sass dump app --kernel saxpy --json", "one kernel for a program"},
       {"xtrace sass cfg app --kernel saxpy --dot | dot -Tsvg", "its control flow as a picture"},
       {"xtrace sass liveness app --kernel saxpy", "live registers before every instruction"},
       {"xtrace sass explain 000fe20000000f00_0000001100272202",
        "a labelled diagram of one word, high half first"},
       {"xtrace sass asm '@P0 BRA 0x190 stall=5 yield' --pc 0x40", "the word of a text as dump prints it"},
       {"xtrace sass extract libx.so --kernel f -o f.cubin",
        "one kernel with what it reaches, to be loaded alone"}});
  line.positional("ACTION", o.action, "dump, cfg, liveness, explain, asm or extract");
  line.positional(
      "FILE", o.input,
      "cubin, fatbin, object, program or library; for explain a word of 128 bits, for asm a text");
  line.option("--kernel", o.kernel, "function, mangled or not, or a part of its name that no other has");
  line.option(
      "--sm", o.sm, {1, 999},
      "architecture: 75, 80, 86, 87, 89, 90, 100, 103, 120 or 121; explain and asm take 90 without it");
  line.option("--pc", o.pc, {0, 0xffff'ffff}, "offset of the instruction in its section, for branch targets (asm)");
  line.flag("--json", o.json, "print one JSON object (dump, liveness)");
  line.flag("--dot", o.dot, "print a graph for graphviz (cfg)");
  line.option("-o,--output", o.output, "file to write (extract)");
  const auto action_named = [](std::string_view name) {
    return std::find_if(std::begin(actions), std::end(actions), [&](const Action& a) { return a.name == name; });
  };
  const auto unknown_action = [](std::string_view name) {
    return usage_error("sass", fmt::format("unknown action '{}'", name), "the actions are " + action_names());
  };
  // Before the complaint that a file is missing.
  if (argc == 2 && argv[1][0] != '-' && action_named(argv[1]) == std::end(actions)) return unknown_action(argv[1]);
  if (const auto status = line.parse(argc, argv)) return *status;

  const auto action = action_named(o.action);
  if (action == std::end(actions)) return unknown_action(o.action);
  if (const std::string bad = misuse(*action, o); !bad.empty())
    return usage_error("sass", bad, "see: xtrace help sass");
  if (o.sm != 0)
    if (const auto arch = sass::find_arch(static_cast<unsigned>(o.sm)); !arch)
      return wrong_value("sass", arch.error());
  const Result<int> status = action->run(o);
  return status ? *status : report("sass", status.error());
}

}  // namespace xtrace::cli
