// sass_live [--kernels N] [--seed S] [--sm N] FILE...: an independent check of the register sets of the form
// table. In a whole kernel without calls to others nothing may be live at the entry: a register that is, is
// read somewhere before anything wrote it, so some form writes too little or reads too much. A guarded write
// counts as a write here: code that reads under the same guard is what compilers emit. What is left then are
// merges into undefined halves (PRMT, LOP3) and paths that can not happen. Prints, for every architecture,
// how many of up to N random kernels are clean, and for the others the mnemonic of the first instruction that
// reads such a register.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "instrument/code.h"
#include "instrument/cubin/fatbin.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/print.h"
#include "tools/oracle/arguments.h"

namespace xtrace {
namespace {

struct Live {
  sass::RegSet gpr, ur;
  unsigned pred = 0, upred = 0;
  bool operator==(const Live&) const = default;
  bool none() const { return gpr.none() && ur.none() && (pred | upred) == 0; }
};

// Live before every instruction; every write kills.
std::vector<Live> live_before(const instrument::Code& code) {
  const size_t n = code.insts.size();
  std::vector<Live> in(n);
  std::vector<std::vector<instrument::InstIndex>> predecessors(n);
  std::vector<instrument::InstIndex> work;
  for (instrument::InstIndex i = 0; i < n; ++i) {
    if (!code.reachable[i]) continue;
    for (instrument::InstIndex s : code.successors(i)) predecessors[s].push_back(i);
    work.push_back(i);
  }
  while (!work.empty()) {
    const instrument::InstIndex i = work.back();
    work.pop_back();
    Live out;
    for (instrument::InstIndex s : code.successors(i)) {
      out.gpr |= in[s].gpr;
      out.ur |= in[s].ur;
      out.pred |= in[s].pred;
      out.upred |= in[s].upred;
    }
    const sass::Effects& fx = code.insts[i].fx;
    const Live before{(out.gpr & ~fx.def.gpr) | fx.use.gpr, (out.ur & ~fx.def.ur) | fx.use.ur,
                      (out.pred & ~unsigned{fx.def.pred}) | fx.use.pred,
                      (out.upred & ~unsigned{fx.def.upred}) | fx.use.upred};
    if (before == in[i]) continue;
    in[i] = before;
    work.insert(work.end(), predecessors[i].begin(), predecessors[i].end());
  }
  return in;
}

struct Tally {
  uint64_t kernels = 0, instructions = 0, refused = 0, with_calls = 0, analysed = 0, clean = 0;
  std::map<std::string, uint64_t> readers;
  std::map<std::string, std::string> example;
};

void analyse(const cubin::Image& image, const std::string& kernel, Tally& t) {
  ++t.kernels;
  const auto info = cubin::kernel_info(image, kernel);
  const auto code = info ? instrument::read_code(image, *info) : tl::make_unexpected(info.error());
  if (!code) {
    ++t.refused;
    return;
  }
  if (code->functions.size() > 1) {  // returns lead to every caller: paths that can not happen
    ++t.with_calls;
    return;
  }
  ++t.analysed;
  t.instructions += code->insts.size();
  const std::vector<Live> live = live_before(*code);
  const Live& entry = live[0];
  if (entry.none()) {
    ++t.clean;
    return;
  }
  // The first reader in code order.
  for (instrument::InstIndex i = 0; i < code->insts.size(); ++i) {
    if (!code->reachable[i]) continue;
    const sass::Effects& fx = code->insts[i].fx;
    const bool reads = (fx.use.gpr & entry.gpr).any() || (fx.use.ur & entry.ur).any() ||
                       (fx.use.pred & entry.pred) != 0 || (fx.use.upred & entry.upred) != 0;
    if (!reads) continue;
    ++t.readers[std::string(fx.mnemonic)];
    std::string registers;
    for (unsigned r = 0; r < 255; ++r)
      if (fx.use.gpr[r] && entry.gpr[r]) registers += fmt::format(" R{}", r);
    for (unsigned r = 0; r < 255; ++r)
      if (fx.use.ur[r] && entry.ur[r]) registers += fmt::format(" UR{}", r);
    t.example.emplace(fx.mnemonic, fmt::format("{} reads{} (kernel {})",
                                               sass::print(*code->arch, code->insts[i].raw, code->pc(i)),
                                               registers, kernel.substr(0, 60)));
    return;
  }
}

int run(size_t wanted, unsigned seed, unsigned only, const std::vector<std::string>& files) {
  std::mt19937 random(seed);
  std::map<unsigned, Tally> tallies;
  bool unread = false;
  for (const std::string& file : files) {
    const auto bytes = read_file(file);
    auto entries = bytes ? cubin::fatbin_entries(*bytes) : tl::make_unexpected(bytes.error());
    if (!entries) {
      fmt::print(stderr, "sass_live: {}: {}\n", file, entries.error().to_string());
      unread = true;
      continue;
    }
    std::shuffle(entries->begin(), entries->end(), random);
    std::map<unsigned, uint64_t> here;  // in this file
    for (const cubin::FatbinEntry& e : *entries) {
      if (e.kind != cubin::FatbinEntry::Kind::cubin || (only != 0 && e.sm != only) || !sass::find_arch(e.sm))
        continue;
      if (here[e.sm] >= wanted / files.size() + 1) continue;
      const auto code = unwrap(*bytes, e);
      const auto image = code ? cubin::Image::parse(*code) : tl::make_unexpected(code.error());
      if (!image) continue;
      std::vector<std::string> kernels = image->kernels();
      std::shuffle(kernels.begin(), kernels.end(), random);
      if (kernels.size() > 20) kernels.resize(20);
      for (const std::string& k : kernels) analyse(*image, k, tallies[e.sm]);
      here[e.sm] += kernels.size();
    }
  }
  for (const auto& [sm, t] : tallies) {
    fmt::print(
        "sm_{}: {} kernels ({} refused, {} with calls left out), {} instructions; nothing live at the entry "
        "of {} of {}\n",
        sm, t.kernels, t.refused, t.with_calls, t.instructions, t.clean, t.analysed);
    for (const auto& [mnemonic, n] : t.readers)
      fmt::print("  {} x{}: {}\n", mnemonic, n, t.example.at(mnemonic));
  }
  if (tallies.empty()) fmt::print(stderr, "sass_live: no kernel was looked at\n");
  return unread || tallies.empty() ? exit_bad_input : 0;
}

}  // namespace
}  // namespace xtrace

int main(int argc, char** argv) {
  size_t kernels = 1000;
  unsigned seed = 1, only = 0;
  xtrace::Arguments arguments(argc, argv, "sass_live [--kernels N] [--seed S] [--sm N] FILE...");
  arguments.option("--kernels", kernels);
  arguments.option("--seed", seed);
  arguments.option("--sm", only);
  return xtrace::run(kernels, seed, only, arguments.files());
}
