// sass_gaps FILE...: the smallest distance in cycles, by stall counts inside a block, that the code of each architecture keeps
// between a result of fixed latency and its reader, for the pairs that probe code uses. Up to three million instructions
// an architecture. A distance counts when it was seen three times. Also prints how many registers of EIATTR_REGCOUNT kernels
// leave unused, at least.
#include <fmt/format.h>

#include <array>
#include <map>
#include <string>

#include "base/file.h"
#include "instrument/cubin/fatbin.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/form.h"

namespace xtrace {
namespace {

constexpr uint64_t limit = 3'000'000, seen_often = 3;
constexpr unsigned longest = 40;   // cycles; what lies further apart is not looked at

struct Group {
  std::string_view name, mnemonics;
};
constexpr Group producers[] = {{"R2UR", " R2UR "},
                               {"clock", " CS2R "},
                               {"UMOV", " UMOV "},
                               {"uniform", " UIADD3 ULOP3 "},
                               {"IMAD", " IMAD "},
                               {"ALU", " IADD3 LOP3 SHF MOV PRMT LEA ISETP R2P P2R VOTE "}};
constexpr Group consumers[] = {{"IMAD", " IMAD "}, {"ALU", " IADD3 LOP3 SHF MOV PRMT LEA ISETP "}};

std::string_view group_of(std::span<const Group> groups, std::string_view mnemonic) {
  for (const Group& g : groups)
    if (g.mnemonics.find(fmt::format(" {} ", mnemonic)) != std::string_view::npos) return g.name;
  return {};
}

std::string_view consumer_of(const sass::Effects& fx, const sass::Form& form) {
  if (fx.kind != sass::MemKind::none && fx.space != sass::MemSpace::constant) return "memory";
  if (form.cls == sass::OpClass::uniform) return "uniform";
  return group_of(consumers, fx.mnemonic);
}

// A register or predicate that holds a result, and the cycles since.
struct Held {
  std::string_view producer;   // empty: none that counts
  unsigned age = 0;
};

struct Tally {
  uint64_t instructions = 0;
  std::map<std::pair<std::string_view, std::string_view>, std::map<unsigned, uint64_t>> gaps;
  int least_unused = 255;
};

class Kernel {
 public:
  Kernel(const sass::Arch& arch, Tally& tally) : arch_(arch), tally_(tally) {}

  void walk(const Bytes& text) {
    for (uint64_t at = 0; at + sass::inst_bytes <= text.size(); at += sass::inst_bytes) {
      const auto word = read_at<sass::RawInst>(text, at, "instruction");
      if (word) step(*word);
    }
  }
  int highest() const { return highest_; }

 private:
  void step(const sass::RawInst& w) {
    ++tally_.instructions;
    const sass::Form* form = sass::find_form(arch_, w);
    const sass::Effects fx = sass::effects(arch_, w, 0);
    if (form == nullptr || fx.flow != sass::Flow::next || fx.target || fx.may_switch_path) {
      gprs_ = {};
      urs_ = {};
      preds_ = {};
      return;
    }
    const std::string_view consumer = consumer_of(fx, *form);
    for (unsigned r = 0; r < 255; ++r) {
      if (fx.use.gpr.test(r)) read(gprs_[r], consumer);
      if (fx.use.ur.test(r)) read(urs_[r], consumer == "ALU" || consumer == "IMAD" ? "vector" : consumer);
      if (fx.use.gpr.test(r) || fx.def.gpr.test(r)) highest_ = std::max(highest_, static_cast<int>(r));
    }
    const auto guard = get_bits(w, bits(14, 12));
    if (guard < 7 && !form->guard_is_uniform()) read(preds_[guard], "guard");
    const Held made{fx.fixed_latency ? group_of(producers, fx.mnemonic) : std::string_view{}, 0};
    for (unsigned r = 0; r < 255; ++r) {
      if (fx.def.gpr.test(r)) gprs_[r] = made;
      if (fx.def.ur.test(r)) urs_[r] = made;
    }
    for (unsigned p = 0; p < 7; ++p)
      if (fx.def.pred >> p & 1) preds_[p] = made;
    const unsigned stall = sass::get_control(w).stall;
    for (auto* results : {&gprs_, &urs_})
      for (Held& r : *results) pass(r, stall);
    for (Held& r : preds_) pass(r, stall);
  }
  void read(const Held& r, std::string_view consumer) {
    if (!r.producer.empty() && !consumer.empty()) ++tally_.gaps[{r.producer, consumer}][r.age];
  }
  static void pass(Held& r, unsigned stall) {
    r.age += stall;
    if (r.age > longest) r.producer = {};
  }

  const sass::Arch& arch_;
  Tally& tally_;
  std::array<Held, 255> gprs_{}, urs_{};
  std::array<Held, 7> preds_{};
  int highest_ = -1;
};

Status add_file(const std::string& path, std::map<unsigned, Tally>& tallies) {
  XT_TRY(const Bytes file, read_file(path));
  XT_TRY(const std::vector<cubin::FatbinEntry> entries, cubin::fatbin_entries(file));
  for (const cubin::FatbinEntry& e : entries) {
    if (e.kind != cubin::FatbinEntry::Kind::cubin || tallies[e.sm].instructions > limit) continue;
    XT_TRY(const Bytes code, cubin::unwrap(file, e));
    XT_TRY(const cubin::Image image, cubin::Image::parse(code));
    const auto arch = sass::find_arch(image.sm());
    if (!arch) continue;
    Tally& t = tallies[image.sm()];
    for (const std::string& name : image.kernels()) {
      const auto info = cubin::kernel_info(image, name);
      if (!info) continue;
      Kernel kernel(**arch, t);
      kernel.walk(image.sections()[info->text_section].data);
      if (kernel.highest() >= 0 && info->register_count > 0)
        t.least_unused = std::min(t.least_unused, static_cast<int>(info->register_count) - kernel.highest() - 1);
    }
  }
  return {};
}

void print(unsigned sm, const Tally& t) {
  fmt::print("sm_{}: {} instructions, at least {} registers unused\n", sm, t.instructions, t.least_unused);
  for (const auto& [pair, gaps] : t.gaps) {
    uint64_t all = 0, often = 0;
    unsigned least = 0;
    for (const auto& [cycles, n] : gaps) {
      all += n;
      if (often < seen_often && (often += n) >= seen_often) least = cycles;
    }
    if (often >= seen_often) fmt::print("  {} to {}: {} ({} pairs)\n", pair.first, pair.second, least, all);
  }
}

}  // namespace
}  // namespace xtrace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: sass_gaps FILE...\n", stderr);
    return 64;
  }
  std::map<unsigned, xtrace::Tally> tallies;
  for (int i = 1; i < argc; ++i)
    if (const xtrace::Status added = xtrace::add_file(argv[i], tallies); !added) {
      fmt::print(stderr, "sass_gaps: {}\n", added.error().to_string());
      return xtrace::exit_code(added.error().kind);
    }
  for (const auto& [sm, tally] : tallies)
    if (tally.instructions > 0) xtrace::print(sm, tally);
  return 0;
}
