// xtrace sass liveness: what is live before every instruction.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "instrument/liveness.h"
#include "instrument/sass/print.h"
#include "tools/xtrace/cmd_sass.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

using instrument::InstIndex;
using instrument::LiveSet;
using nlohmann::json;

// "R0-3 R7": runs of registers.
std::string runs(const sass::RegSet& set, std::string_view prefix) {
  std::string s;
  for (size_t i = 0; i < set.size(); ++i) {
    if (!set[i]) continue;
    size_t last = i;
    while (last + 1 < set.size() && set[last + 1]) ++last;
    s += fmt::format("{}{}{}", s.empty() ? "" : " ", prefix, i);
    if (last != i) s += fmt::format("-{}", last);
    i = last;
  }
  return s;
}

std::string everything(const LiveSet& live) {
  std::string s;
  for (const std::string& part : {runs(live.gpr, "R"), runs(live.ur, "UR"),
                                  runs(sass::RegSet(live.pred), "P"), runs(sass::RegSet(live.upred), "UP")})
    if (!part.empty()) s += fmt::format("{}{}", s.empty() ? "" : " ", part);
  return s;
}

}  // namespace

Result<int> sass_liveness(const SassOptions& options) {
  XT_TRY(const SassFunction f, find_function(options));
  XT_TRY_IN(const cubin::KernelInfo info, cubin::kernel_info(f.cubin.image, f.name), "in {}", f.cubin.where);
  XT_TRY_IN(const instrument::Code code, instrument::read_code(f.cubin.image, info), "in {}", f.cubin.where);
  const instrument::Liveness liveness(code);
  json document = {{"kernel", f.name},
                   {"sm", code.arch->sm},
                   {"registers", info.register_count},
                   {"instructions", json::array()}};
  size_t most = 0;
  InstIndex at = 0;
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (code.reachable[i] && liveness.before(i).gpr.count() > most) {
      most = liveness.before(i).gpr.count();
      at = i;
    }
  if (!options.json)
    fmt::print("{}: {}, {} registers; at most {} live, before {:#x}\n", printable(f.name), code.arch->name,
               info.register_count, most, code.pc(at));
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i]) continue;
    const LiveSet& live = liveness.before(i);
    const std::string text = sass::print(*code.arch, code.insts[i].raw, code.pc(i));
    if (options.json) {
      document["instructions"].push_back({{"pc", code.pc(i)},
                                          {"text", text},
                                          {"live",
                                           {{"gpr", runs(live.gpr, "R")},
                                            {"ur", runs(live.ur, "UR")},
                                            {"pred", runs(sass::RegSet(live.pred), "P")},
                                            {"upred", runs(sass::RegSet(live.upred), "UP")}}}});
    } else {
      const std::string all = everything(live);
      fmt::print("  {:04x}  {:>3}  {}\n", code.pc(i), live.gpr.count(),
                 all.empty() ? text : fmt::format("{:<48}  {}", text, all));
    }
  }
  if (options.json) fmt::print("{}", json_text(document, 1));
  return 0;
}

}  // namespace xtrace::cli
