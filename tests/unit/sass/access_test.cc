// Where addresses stand in memory instructions, against the text of the vendor's disassembler.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "instrument/sass/access.h"

namespace xtrace::sass {
namespace {

struct Row {
  RawInst word;
  std::string text;
};

std::vector<Row> rows_of_sm90() {
  std::vector<Row> rows;
  for (const char* name : {"vectors.txt", "generated.txt", "sm90_forms.txt"}) {
    std::ifstream in(std::string(XTRACE_SOURCE_DIR) + "/tests/oracle/" + name);
    EXPECT_TRUE(in.good()) << name;
    for (std::string line; std::getline(in, line);) {
      std::istringstream s(line);
      std::string arch, lo, hi, pc, text;
      if (!(s >> arch >> lo >> hi >> pc) || arch != "sm_90") continue;
      std::getline(s, text);
      rows.push_back({{std::stoull(lo, nullptr, 16), std::stoull(hi, nullptr, 16)}, text.substr(1)});
    }
  }
  return rows;
}

// Registers and offset of "[R2.64+UR4+-0x10]", as the vendor prints them.
struct Printed {
  int vector = -1, uniform = -1;
  bool pair = false;
  int64_t offset = 0;
};
Printed parse(const std::string& brackets) {
  Printed p;
  std::smatch m;
  if (std::regex_search(brackets, m, std::regex(R"((^|[\[+])R(\d+)(\.64)?)"))) {
    p.vector = std::stoi(m[2]);
    p.pair = m[3].matched;
  }
  if (std::regex_search(brackets, m, std::regex(R"(UR(\d+))"))) p.uniform = std::stoi(m[1]);
  if (std::regex_search(brackets, m, std::regex(R"(([\[+])(-?)0x([0-9a-f]+)\])"))) {
    p.offset = static_cast<int64_t>(std::stoull(m[3], nullptr, 16));
    if (m[2].length() != 0) p.offset = -p.offset;
  }
  return p;
}

std::vector<std::string> brackets_of(std::string text) {
  text = std::regex_replace(text, std::regex(R"(desc\[UR\d+\])"), "");
  std::vector<std::string> out;
  const std::regex one(R"(\[[^\]]*\])");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), one); at != std::sregex_iterator(); ++at) out.push_back(at->str());
  return out;
}

TEST(Access, StandsWhereTheVendorPrintsIt) {
  const Arch& arch = **find_arch(90);
  std::set<std::string> mnemonics;
  size_t checked = 0;
  for (const Row& row : rows_of_sm90()) {
    const auto found = accesses(arch, row.word);
    const auto* all = std::get_if<std::vector<Access>>(&found);
    if (all == nullptr || all->empty()) continue;
    SCOPED_TRACE(row.text);
    std::vector<std::string> brackets = brackets_of(row.text);
    ASSERT_EQ(brackets.size(), all->size());
    if (all->size() == 2) std::swap(brackets[0], brackets[1]);   // LDGSTS prints the shared address first
    for (size_t k = 0; k < all->size(); ++k) {
      const Access& a = (*all)[k];
      const Printed p = parse(brackets[k]);
      EXPECT_EQ(a.low == Access::none ? -1 : a.low, p.vector);
      EXPECT_EQ(a.uniform_low == Access::none ? -1 : a.uniform_low, p.uniform);
      EXPECT_EQ(a.offset, p.offset);
      if (p.pair) {
        EXPECT_TRUE(a.wide);
        EXPECT_EQ(a.high, a.low + 1);
      }
      EXPECT_GT(a.bytes, 0);
      ++checked;
    }
    mnemonics.insert(row.text.substr(row.text.starts_with('@') ? row.text.find(' ') + 1 : 0).substr(0, 4));
  }
  EXPECT_GT(checked, 100u);
  for (const char* name : {"LDG.", "STG.", "LD.E", "ST.E", "LDS ", "STS ", "LDL ", "STL ", "LDSM", "STSM", "ATOM", "REDG", "LDGS"})
    EXPECT_TRUE(mnemonics.contains(name)) << name;
}

TEST(Access, WhatIsNotCoveredHasAReason) {
  const Arch& arch = **find_arch(90);
  std::set<std::string> not_covered;
  for (const Row& row : rows_of_sm90()) {
    const auto found = accesses(arch, row.word);
    if (const auto* why = std::get_if<NotCovered>(&found)) {
      EXPECT_FALSE(why->empty());
      not_covered.insert(row.text.substr(row.text.starts_with('@') ? row.text.find(' ') + 1 : 0).substr(0, 5));
    }
  }
  for (const char* name : {"UTMAL", "UBLKC", "HGMMA", "SYNCS"}) EXPECT_TRUE(not_covered.contains(name)) << name;
  const auto nothing = accesses(arch, RawInst{0x0000000000007918, 0x000fc00000000000});   // NOP
  EXPECT_TRUE(std::get<std::vector<Access>>(nothing).empty());
}

// The first word of the name and the type; guards stand in front of some of these rows.
TEST(SumsFloats, AtomicsThatAddFloatingPointNumbers) {
  const std::regex name(R"((?:@\S+ )?([A-Z]+)\S*?(?:\.(B?F\d+)\S*)? .*)");
  std::set<std::string> sums, others;
  for (const Row& row : rows_of_sm90()) {
    std::smatch m;
    if (!std::regex_match(row.text, m, name)) continue;
    if (effects(**find_arch(90), row.word, 0).kind == MemKind::none) continue;
    (sums_floats(**find_arch(90), row.word) ? sums : others).insert(m[1].str() + " " + m[2].str());
  }
  const std::set<std::string> expected{"ATOM BF16", "ATOM F16", "ATOM F32", "ATOM F64", "ATOMG BF16", "ATOMG F16", "ATOMG F32",
                                       "ATOMG F64", "REDG BF16", "REDG F16", "REDG F32", "REDG F64", "UTMAREDG "};
  EXPECT_EQ(sums, expected);
  // Integers, and minima and maxima, do not depend on the order.
  EXPECT_TRUE(others.contains("REDG ") && others.contains("ATOMS ") && others.contains("ATOM F16"));
}

}  // namespace
}  // namespace xtrace::sass
