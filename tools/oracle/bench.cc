// sass_bench [--sm N] FILE: instructions a second of one core's time (the thread's CPU time, as the core may be shared) over
// the code of a file, best of five passes over up to four million instructions: form and control word, effects, text.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "base/file.h"
#include "instrument/cubin/fatbin.h"
#include "instrument/cubin/image.h"
#include "instrument/sass/effects.h"
#include "instrument/sass/form.h"
#include "instrument/sass/print.h"
#include "tools/oracle/arguments.h"

namespace xtrace {
namespace {

constexpr size_t limit = 4'000'000;

Result<std::vector<sass::RawInst>> read_words(const std::string& path, unsigned sm) {
  std::vector<sass::RawInst> words;
  XT_TRY(const Bytes file, read_file(path));
  XT_TRY(const std::vector<cubin::FatbinEntry> entries, cubin::fatbin_entries(file));
  for (const cubin::FatbinEntry& e : entries) {
    if (e.kind != cubin::FatbinEntry::Kind::cubin || (e.sm != 0 && e.sm != sm)) continue;
    XT_TRY(const Bytes code, cubin::unwrap(file, e));
    XT_TRY(const cubin::Image image, cubin::Image::parse(code));
    if (image.sm() != sm) continue;
    for (const cubin::Section& s : image.sections()) {
      if (!s.name.starts_with(".text.")) continue;
      for (size_t at = 0; at + sass::inst_bytes <= s.data.size() && words.size() < limit;
           at += sass::inst_bytes) {
        XT_TRY(words.emplace_back(), read_at<sass::RawInst>(s.data, at, "instruction"));
      }
    }
    if (words.size() >= limit) break;
  }
  if (words.empty()) return bad_input("{} holds no instructions for sm_{}", path, sm);
  return words;
}

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <typename Work>
void measure(std::string_view what, const std::vector<sass::RawInst>& words, Work work) {
  double best = 0;
  uint64_t sum = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const double start = cpu_seconds();
    for (size_t i = 0; i < words.size(); ++i)
      sum += work(words[i], static_cast<uint32_t>(i * sass::inst_bytes));
    best = std::max(best, static_cast<double>(words.size()) / (cpu_seconds() - start));
  }
  fmt::print("  {:<22} {:>8.2f} M instructions/s  (checksum {:x})\n", what, best / 1e6, sum);
}

int run(const std::string& path, unsigned sm) {
  const auto arch = sass::find_arch(sm);
  const auto words = arch ? read_words(path, sm) : tl::make_unexpected(arch.error());
  if (!words) {
    fmt::print(stderr, "sass_bench: {}\n", words.error().to_string());
    return exit_code(words.error().kind);
  }
  const sass::Arch& a = **arch;
  fmt::print("{} instructions of {} for {}\n", words->size(), path, a.name);
  measure("form and control", *words, [&](const sass::RawInst& w, uint32_t) {
    const sass::Form* form = find_form(a, w);
    const sass::Control c = sass::get_control(w);
    return (form != nullptr ? form->attrs : 1) + c.stall + c.wait_mask + c.write_barrier + c.reuse;
  });
  measure("effects", *words, [&](const sass::RawInst& w, uint32_t pc) {
    const sass::Effects e = effects(a, w, pc);
    return static_cast<uint64_t>(e.known) + e.access_bytes + e.use.pred + (e.target ? 1 : 0);
  });
  measure("text", *words, [&](const sass::RawInst& w, uint32_t pc) { return print(a, w, pc).size(); });
  return 0;
}

}  // namespace
}  // namespace xtrace

int main(int argc, char** argv) {
  unsigned sm = 90;
  xtrace::Arguments arguments(argc, argv, "sass_bench [--sm N] FILE");
  arguments.option("--sm", sm);
  const std::vector<std::string> files = arguments.files();
  if (files.size() != 1) arguments.refuse();
  return xtrace::run(files.front(), sm);
}
