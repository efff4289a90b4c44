// nvdisasm's text of real instruction words against ours: tests/oracle/*.txt.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "instrument/sass/effects.h"
#include "instrument/sass/form.h"
#include "instrument/sass/print.h"

namespace xtrace::sass {
namespace {

struct Row {
  const Arch* arch;
  RawInst word;
  uint32_t pc;
  std::string text;
};

std::vector<Row> read_rows(const std::string& name) {
  std::ifstream in(std::string(XTRACE_SOURCE_DIR) + "/tests/oracle/" + name);
  EXPECT_TRUE(in.good()) << name;
  std::vector<Row> rows;
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream s(line);
    std::string arch, lo, hi, pc, text;
    s >> arch >> lo >> hi >> pc;
    std::getline(s, text);
    const auto a = find_arch(static_cast<unsigned>(std::stoul(arch.substr(3))));
    EXPECT_TRUE(a.has_value()) << line;
    rows.push_back({*a,
                    {std::stoull(lo, nullptr, 16), std::stoull(hi, nullptr, 16)},
                    static_cast<uint32_t>(std::stoul(pc, nullptr, 16)),
                    text.substr(1)});
  }
  return rows;
}

// Ours without its last operand where the oracle has a label, and the oracle without reuse marks.
bool same_text(std::string oracle, std::string ours) {
  for (size_t at; (at = oracle.find(".reuse")) != std::string::npos;) oracle.erase(at, 6);
  if (oracle.ends_with('*')) {
    oracle.pop_back();
    const size_t last = ours.rfind(' ');
    if (last != std::string::npos) ours.resize(last + 1);
  }
  return oracle == ours;
}

// Mnemonic and first opcode of forms whose text is not exact for any word tried, or that the oracle does not
// know: forms that no library uses. What becomes exact leaves the list.
const std::vector<std::string> forms_without_a_row = {
    "BGMMA 0x19f2",        "BGMMA 0x1df2",        "BMMA 0x23d",          "CCTL 0x1d8f",         "CSMTEST 0x80d",
    "IDE 0x951",           "NANOTRAP 0x95a",      "PLOP3 0x21d",         "PLOP3 0x21e",         "PLOP3 0x21f",
    "R2B 0x31e",           "RTT 0x94f",           "SCATTER 0x218",       "SYNCS.CAS 0x13b2",    "SYNCS.CCTL 0x19b1",
    "UCGABAR_GET 0x15c7",  "UCGABAR_SET 0x13c7",  "UCLEA 0x18bc",        "UPLOP3 0x129d",       "UPLOP3 0x129e",
    "UPLOP3 0x129f",       "USETMAXREG 0x13c8",   "WARPSYNC 0x348",
};

void compare(const std::string& file, size_t expected_rows) {
  const std::vector<Row> rows = read_rows(file);
  EXPECT_EQ(rows.size(), expected_rows);
  std::map<std::string, std::pair<size_t, size_t>> counts;  // architecture: exact, all
  for (const Row& r : rows) {
    const std::string arch(r.arch->name);
    const uint16_t opcode = opcode13(r.word);
    EXPECT_NE(find_form(*r.arch, r.word), nullptr) << arch << " " << std::hex << opcode << " " << r.text;
    const std::string ours = print(*r.arch, r.word, r.pc);
    auto& [exact, all] = counts[arch];
    ++all;
    if (same_text(r.text, ours)) {
      ++exact;
      continue;
    }
    ADD_FAILURE() << arch << fmt::format(" {:016x} {:016x}", r.word.lo, r.word.hi) << "\n  oracle " << r.text
                  << "\n  ours   " << ours;
  }
  for (const auto& [arch, c] : counts)
    testing::Test::RecordProperty(arch, fmt::format("{} of {} exact", c.first, c.second));
}

TEST(Oracle, TextOfCompiledKernels) { compare("vectors.txt", 2544); }
TEST(Oracle, TextOfEveryOpcodeSeenOnSm90) { compare("sm90_forms.txt", 459); }
TEST(Oracle, TextOfGeneratedWords) { compare("generated.txt", 10186); }
TEST(Oracle, TextOfTexturesAndSurfaces) { compare("texture.txt", 950); }

// A form without a row would be a form whose text nobody compared. Listed are those whose text lacks
// modifiers (docs/isa.md), and one that the oracle does not know.
TEST(Oracle, EveryFormHasARow) {
  std::set<const Form*> compared;
  for (const std::string file : {"vectors.txt", "sm90_forms.txt", "generated.txt", "texture.txt"})
    for (const Row& r : read_rows(file)) compared.insert(find_form(*r.arch, r.word));
  std::set<std::string> without;
  for (const Form& f : all_forms())
    if (!compared.contains(&f)) without.insert(fmt::format("{} {:#x}", f.mnemonic, f.opcodes[0]));
  EXPECT_THAT(without, testing::ElementsAreArray(forms_without_a_row));
}

// Register names in the oracle's text, as an independent check of the effects: each of them is read or
// written.
TEST(Oracle, EveryRegisterOfTheTextIsInTheEffects) {
  for (const std::string file : {"vectors.txt", "sm90_forms.txt", "generated.txt", "texture.txt"}) {
    for (const Row& r : read_rows(file)) {
      const Effects e = effects(*r.arch, r.word, r.pc);
      const RegSet gpr = e.use.gpr | e.def.gpr, ur = e.use.ur | e.def.ur;
      const unsigned pred = e.use.pred | e.def.pred, upred = e.use.upred | e.def.upred;
      const unsigned barrier = e.use.barrier | e.def.barrier;
      const std::string& t = r.text;
      for (size_t i = 0; i < t.size(); ++i) {
        const bool word_start = i == 0 || !(std::isalnum(t[i - 1]) || t[i - 1] == '_' || t[i - 1] == '.');
        if (!word_start) continue;
        const std::string_view rest = std::string_view(t).substr(i);
        const size_t prefix = rest.starts_with("UR") || rest.starts_with("UP") ? 2 : 1;
        if (rest.size() <= prefix || !std::isdigit(rest[prefix])) continue;
        size_t end = prefix;
        while (end < rest.size() && std::isdigit(rest[end])) ++end;
        if (end < rest.size() && (std::isalpha(rest[end]) || rest[end] == '_')) continue;
        const unsigned n = static_cast<unsigned>(std::stoul(std::string(rest.substr(prefix, end - prefix))));
        const std::string_view kind = rest.substr(0, prefix);
        const bool known = kind == "R"    ? gpr[n]
                           : kind == "UR" ? ur[n]
                           : kind == "P"  ? (pred >> n & 1) != 0
                           : kind == "UP" ? (upred >> n & 1) != 0
                           : kind == "B"  ? (barrier >> n & 1) != 0
                                          : true;
        EXPECT_TRUE(known) << t;
      }
    }
  }
}

}  // namespace
}  // namespace xtrace::sass
