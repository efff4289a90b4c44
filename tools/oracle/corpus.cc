// sass_corpus [--per-signature N] [--sm N] --out FOLDER FILE...: walks the device code of files (cubin,
// fatbin, executable, shared library; compressed entries are unwrapped in memory). For every architecture
// FOLDER/sm_N.tsv gets a few words of every "signature": opcode and modifier bits without registers and
// immediates, with the number of instructions it stands for. Columns: count, low, high, pc, exact (0: no
// form, 1: form with bounds on its effects, 2: form with exact effects), mnemonic, our text, registers in the
// effects. pc is the position of the line times 16: where the word stands in the file that corpus.py hands to
// nvdisasm. Checks on every instruction: control word and branch target survive reading and writing; on every
// cubin: what was parsed is written back byte for byte. Findings go to standard error and make the exit
// status 1.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
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

using sass::get_control;
using sass::opcode13;
using sass::RawInst;
using sass::set_control;

struct WordHash {
  size_t operator()(const RawInst& w) const {
    uint64_t h = w.lo * 0x9e3779b97f4a7c15ull ^ (w.hi + 0x7f4a7c15ull) * 0xc2b2ae3d27d4eb4full;
    return h ^ h >> 29;
  }
};

// The words of one signature, and how many instructions have it.
struct Sample {
  uint64_t count = 0;
  bool fixed = false, defines = false;  // by our table: latency, and whether registers are written
  std::string_view mnemonic;
  std::vector<RawInst> words;
};

struct Corpus {
  const sass::Arch* arch = nullptr;
  uint64_t instructions = 0, cubins = 0, functions = 0, broken = 0;
  std::unordered_map<RawInst, Sample, WordHash> signatures;
  // Contradictions between our latency class and the scoreboards that the code carries, by mnemonic.
  std::map<std::string_view, uint64_t> fixed_with_scoreboard, variable_without_scoreboard,
      variable_with_scoreboard;
};

uint64_t field(const RawInst& w, unsigned high, unsigned low) { return get_bits(w, bits(high, low)); }

constexpr uint64_t control_bits = ((1ull << 20) - 1) << 41;
constexpr uint64_t default_control = 0x000fe20000000000;  // stall 1, keep issuing, no barriers

// What must be equal for two words to print alike but for registers and numbers.
RawInst signature(const RawInst& w, const sass::Form* form) {
  RawInst s;
  s.lo = w.lo & 0xfff;
  s.hi = w.hi & ~control_bits & ~0xffull;
  const auto note = [&](unsigned at, bool value) { s.lo |= uint64_t{value} << at; };
  note(12, field(w, 15, 12) != 7);
  note(13, field(w, 23, 16) == 255);
  note(14, field(w, 31, 24) == 255 || field(w, 29, 24) == 63);
  note(15, field(w, 71, 64) == 255 || field(w, 69, 64) == 63);
  const bool moves = form != nullptr && form->cls == sass::OpClass::branch;
  if (moves) {
    s.hi &= ~((1ull << 18) - 1);
    s.lo |= field(w, 33, 32) << 32;
    return s;
  }
  const uint64_t imm = field(w, 63, 32);
  if (form != nullptr && (w.lo & 0xfff) < 0xe00 && form->cls != sass::OpClass::lsu &&
      form->cls != sass::OpClass::mio && sass::alu_layout(opcode13(w)).s == sass::SourceS::imm) {
    note(16, imm == 0);
    note(17, (imm & (imm - 1)) == 0);
    note(18, imm >> 31 != 0);
    note(19, (imm >> 23 & 0xff) == 255);
    return s;
  }
  note(16, field(w, 39, 32) == 255);
  s.lo |= w.lo & 0xfull << 60;  // sign, absolute value, half selection
  if (form != nullptr && (form->cls == sass::OpClass::gmma || form->mnemonic == "SHFL"))
    s.lo |= w.lo & 0xffffffull << 40;
  s.lo |= uint64_t{field(w, 59, 40) == 0} << 20;
  return s;
}

// Of the instruction without its scoreboards.
bool latency_class_is_fixed(const sass::Arch& arch, RawInst w) {
  set_control(w, {});
  return effects(arch, w, 0).fixed_latency;
}

// What a splicer may rewrite must come back as it was.
bool survives(const sass::Arch& arch, const RawInst& w, const sass::Form* form, uint32_t pc) {
  RawInst copy = w;
  set_control(copy, get_control(w));
  if (form != nullptr && (form->cls == sass::OpClass::branch || form->has(sass::lepc_target))) {
    const sass::Effects e = effects(arch, w, pc);
    if (e.target && !set_target(arch, copy, pc, *e.target)) return false;
    const auto base = register_branch_base(arch, w, pc);
    if (base && !set_register_branch_base(arch, copy, pc, *base)) return false;
  }
  return copy == w;
}

class Walker {
 public:
  explicit Walker(size_t per_signature) : per_signature_(per_signature) {}

  void cubin(ByteView bytes, const std::string& where) {
    auto image = cubin::Image::parse(bytes);
    if (!image) return finding(where + ": " + image.error().to_string());
    const auto written = image->write();
    if (!written || written->size() != bytes.size() ||
        !std::equal(bytes.begin(), bytes.end(), written->begin()))
      finding(where + ": not written back byte for byte");
    const auto arch = sass::find_arch(image->sm());
    if (!arch) {
      ++left_out_[image->sm()];
      return;
    }
    Corpus& c = corpora_[image->sm()];
    c.arch = *arch;
    ++c.cubins;
    for (const cubin::Section& s : image->sections()) {
      if (!s.name.starts_with(".text.")) continue;
      ++c.functions;
      code(c, s.data, where + " " + s.name);
    }
  }

  void write(const std::filesystem::path& folder) const {
    for (const auto& [sm, c] : corpora_) {
      std::FILE* out = std::fopen((folder / fmt::format("sm_{}.tsv", sm)).c_str(), "w");
      XT_CHECK(out != nullptr, "the output folder can not be written");
      uint32_t pc = 0;
      for (const auto& [key, sample] : c.signatures) {
        for (size_t i = 0; i < sample.words.size(); ++i) {
          const uint64_t share =
              sample.count / sample.words.size() + (i < sample.count % sample.words.size());
          line(out, *c.arch, sample.words[i], share, pc);
          pc += 16;
        }
      }
      std::fclose(out);
      fmt::print("sm_{}\t{} cubins\t{} functions\t{} instructions\t{} signatures\t{} broken\n", sm, c.cubins,
                 c.functions, c.instructions, c.signatures.size(), c.broken);
      for (const auto& [mnemonic, n] : c.fixed_with_scoreboard)
        fmt::print("  {} x{}: fixed latency by our table, writes a scoreboard\n", mnemonic, n);
      for (const auto& [mnemonic, n] : c.variable_without_scoreboard)
        if (!c.variable_with_scoreboard.contains(mnemonic))
          fmt::print("  {} x{}: variable latency by our table, never has a scoreboard\n", mnemonic, n);
    }
    for (const auto& [sm, cubins] : left_out_)
      fmt::print("sm_{}\tleft out, {} cubins: not in the table\n", sm, cubins);
  }

  bool found() const { return found_; }

 private:
  void finding(const std::string& text) {
    found_ = true;
    std::fputs((text + "\n").c_str(), stderr);
  }

  void code(Corpus& c, ByteView text, const std::string& where) {
    for (size_t at = 0; at + 16 <= text.size(); at += 16) {
      RawInst w;
      std::memcpy(&w.lo, text.data() + at, 8);
      std::memcpy(&w.hi, text.data() + at + 8, 8);
      ++c.instructions;
      const sass::Form* form = find_form(*c.arch, w);
      if (!survives(*c.arch, w, form, static_cast<uint32_t>(at)) && c.broken++ < 5)
        finding(fmt::format("{} {:#x}: control or target not written back", where, at));
      Sample& sample = c.signatures[signature(w, form)];
      if (++sample.count == 1 && form != nullptr) {
        const sass::Effects e = effects(*c.arch, w, static_cast<uint32_t>(at));
        sample.fixed = latency_class_is_fixed(*c.arch, w);
        sample.defines = (e.def.gpr | e.def.ur).any() || (e.def.pred | e.def.upred) != 0;
        sample.mnemonic = form->mnemonic;
      }
      if (form != nullptr) {
        const bool waits = get_control(w).write_barrier != sass::Control::no_barrier;
        if (sample.fixed && waits) ++c.fixed_with_scoreboard[sample.mnemonic];
        if (!sample.fixed && sample.defines)
          ++(waits ? c.variable_with_scoreboard : c.variable_without_scoreboard)[sample.mnemonic];
      }
      if (sample.words.size() < per_signature_) {
        w.hi = (w.hi & ~control_bits) | default_control;
        sample.words.push_back(w);
      }
    }
  }

  static void registers(std::string& out, const sass::RegSet& set, std::string_view prefix) {
    for (size_t i = 0; i < set.size(); ++i)
      if (set[i]) out += fmt::format("{}{} ", prefix, i);
  }

  static void line(std::FILE* out, const sass::Arch& arch, const RawInst& w, uint64_t count, uint32_t pc) {
    const sass::Form* form = find_form(arch, w);
    int exact = 0;
    std::string names;
    if (form != nullptr) {
      const sass::Effects e = effects(arch, w, pc);
      exact = e.exact ? 2 : 1;
      registers(names, e.use.gpr | e.def.gpr, "R");
      registers(names, e.use.ur | e.def.ur, "UR");
      registers(names, sass::RegSet(e.use.pred | e.def.pred), "P");
      registers(names, sass::RegSet(e.use.upred | e.def.upred), "UP");
      registers(names, sass::RegSet(e.use.barrier | e.def.barrier), "B");
    }
    fmt::print(out, "{}\t{:016x}\t{:016x}\t{:x}\t{}\t{}\t{}\t{}\n", count, w.lo, w.hi, pc, exact,
               form == nullptr ? "?" : form->mnemonic, print(arch, w, pc), names);
  }

  size_t per_signature_;
  std::map<unsigned, Corpus> corpora_;
  std::map<unsigned, uint64_t>
      left_out_;  // cubins of architectures without 128-bit instructions or not in the table
  bool found_ = false;
};

int run(int argc, char** argv) {
  size_t per_signature = 3;
  unsigned only = 0;
  std::string folder;
  Arguments arguments(argc, argv, "sass_corpus [--per-signature N] [--sm N] --out FOLDER FILE...");
  arguments.option("--per-signature", per_signature);
  arguments.option("--sm", only);
  arguments.option("--out", folder);
  if (folder.empty()) arguments.refuse();
  const std::vector<std::string> files = arguments.files();
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) {
    fmt::print(stderr, "sass_corpus: can not create {}: {}\n", folder, ec.message());
    return exit_bad_input;
  }
  Walker walker(per_signature);
  bool failed = false;
  for (const std::string& file : files) {
    const auto bytes = read_file(file);
    const auto entries = bytes ? cubin::fatbin_entries(*bytes) : tl::make_unexpected(bytes.error());
    if (!entries) {
      fmt::print(stderr, "{}: {}\n", file, entries.error().to_string());
      failed = true;
      continue;
    }
    for (const cubin::FatbinEntry& e : *entries) {
      if (e.kind != cubin::FatbinEntry::Kind::cubin || (only != 0 && e.sm != only)) continue;
      const std::string where = fmt::format("{} at {:#x}", file, e.offset);
      const auto code = unwrap(*bytes, e);
      if (code) {
        walker.cubin(*code, where);
      } else {
        fmt::print(stderr, "{}: {}\n", where, code.error().to_string());
        failed = true;
      }
    }
    fmt::print(stderr, "read {}\n", file);
  }
  walker.write(folder);
  return failed || walker.found() ? 1 : 0;
}

}  // namespace
}  // namespace xtrace

int main(int argc, char** argv) { return xtrace::run(argc, argv); }
