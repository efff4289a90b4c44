// Where addresses stand in memory instructions, against the text of the vendor's disassembler.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
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

std::vector<Row> rows_of(const std::string& wanted) {
  std::vector<Row> rows;
  for (const char* name : {"vectors.txt", "generated.txt", "sm90_forms.txt"}) {
    std::ifstream in(std::string(XTRACE_SOURCE_DIR) + "/tests/oracle/" + name);
    EXPECT_TRUE(in.good()) << name;
    for (std::string line; std::getline(in, line);) {
      std::istringstream s(line);
      std::string arch, lo, hi, pc, text;
      if (!(s >> arch >> lo >> hi >> pc) || arch != wanted) continue;
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
  int scale = 0;
  int64_t offset = 0;
};
Printed parse(const std::string& brackets) {
  Printed p;
  std::smatch m;
  if (std::regex_search(brackets, m, std::regex(R"((^|[\[+])R(\d+)(\.64)?)"))) {
    p.vector = std::stoi(m[2]);
    p.pair = m[3].matched;
  }
  if (std::regex_search(brackets, m, std::regex(R"(R\d+\.X(\d+))"))) p.scale = std::countr_zero(std::stoul(m[1]));
  if (std::regex_search(brackets, m, std::regex(R"(UR(\d+))"))) p.uniform = std::stoi(m[1]);
  if (std::regex_search(brackets, m, std::regex(R"(([\[+])(-?)0x([0-9a-f]+)\])"))) {
    p.offset = static_cast<int64_t>(std::stoull(m[3], nullptr, 16));
    if (m[2].length() != 0) p.offset = -p.offset;
  }
  return p;
}

// Of one lane, by the modifiers of the name.
int bytes_in(const std::string& text) {
  const size_t from = text.starts_with('@') ? text.find(' ') + 1 : 0;
  const std::string name = text.substr(from, text.find(' ', from) - from) + ".";
  const auto has = [&](const char* modifier) { return name.find(modifier) != std::string::npos; };
  if (name.starts_with("LDSM") || name.starts_with("STSM")) return 16;
  if (has(".U8.") || has(".S8.")) return 1;
  if (has(".U16.") || has(".S16.")) return 2;
  if (has(".128.") || has("BF16x8.") || has("F16x8.") || has("F32x4.")) return 16;
  if (has(".64.") || has(".U64.") || has(".S64.") || has(".F64.") || has("F16x4.") || has("F32x2.")) return 8;
  return 4;
}

std::vector<std::string> brackets_of(std::string text) {
  text = std::regex_replace(text, std::regex(R"(desc\[UR\d+\])"), "");
  std::vector<std::string> out;
  const std::regex one(R"(\[[^\]]*\])");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), one); at != std::sregex_iterator(); ++at) out.push_back(at->str());
  return out;
}

// What each uniform register says of a copy, as its text says: "role URn", in any order.
std::multiset<std::string> printed_operands(const std::string& text, unsigned urz) {
  std::smatch m;
  const std::regex form(R"((?:@\S+ )?(\S+) \[(U\w+)\](?:, \[(U\w+)\])?(?:, (U\w+))?(?:, desc\[U\w+\])?)");
  if (!std::regex_match(text, m, form)) return {"another text: " + text};
  const std::string name = m[1].str() + ".";
  const auto has = [&](const char* modifier) { return name.find(modifier) != std::string::npos; };
  std::multiset<std::string> out;
  const auto add = [&](const char* role, const std::string& reg, unsigned behind = 0) {
    const unsigned first = reg == "URZ" ? urz : static_cast<unsigned>(std::stoul(reg.substr(2)));
    out.insert(first + behind >= urz || first == urz ? fmt::format("{} zero", role) : fmt::format("{} UR{}", role, first + behind));
  };
  if (name.starts_with("UBLKPF")) {
    add("global_low", m[2]), add("global_high", m[2], 1), add("size", m[3].matched ? m[3] : m[4]);
  } else if (name.starts_with("UBLK")) {   // the spaces: first where it goes, then where it comes from
    const bool to = name[name.find('.') + 1] == 'S', from = name[name.find('.') + 3] == 'S';
    if (to) add("shared", m[2]), add("barrier", m[2], 1);
    else add("global_low", m[2]), add("global_high", m[2], 1);
    if (from) add(to ? "shared_from" : "shared", m[3]);
    else add("global_low", m[3]), add("global_high", m[3], 1);
    add(has(".MULTICAST.") ? "size_ctas" : "size", m[4]);
  } else {
    const auto dimensions = static_cast<unsigned>(name[name.find("D.") - 1] - '0');
    unsigned next = 0;
    if (!name.starts_with("UTMAPF")) add("shared", m[2], next++);
    if (name.starts_with("UTMALDG")) add("barrier", m[2], next++);
    for (unsigned d = 0; d < dimensions; ++d) add("coordinate", m[2], next++);
    add("map_low", m[3]), add("map_high", m[3], 1);
    if (m[4].matched) add(has(".MULTICAST.") ? "ctas" : "pixels", m[4]);
  }
  return out;
}
std::multiset<std::string> operands_of(const Access& a) {
  constexpr const char* roles[] = {"global_low", "global_high", "shared",  "shared_from", "barrier", "size",
                                   "size_ctas",  "map_low",     "map_high", "coordinate", "ctas",    "pixels"};
  std::multiset<std::string> out;
  for (const UniformOperand& o : a.operands)
    out.insert(o.reg == Access::none ? fmt::format("{} zero", roles[static_cast<size_t>(o.role)]) : fmt::format("{} UR{}", roles[static_cast<size_t>(o.role)], o.reg));
  return out;
}

class AccessOf : public testing::TestWithParam<unsigned> {};
TEST_P(AccessOf, StandsWhereTheVendorPrintsIt) {
  const Arch& arch = **find_arch(GetParam());
  std::set<std::string> mnemonics;
  size_t checked = 0, of_the_warp = 0;
  for (const Row& row : rows_of(fmt::format("sm_{}", GetParam()))) {
    const auto found = accesses(arch, row.word);
    const auto* all = std::get_if<std::vector<Access>>(&found);
    if (all == nullptr || all->empty()) continue;
    SCOPED_TRACE(row.text);
    if (all->front().form != Access::Form::lanes) {
      ASSERT_EQ(all->size(), 1u);
      EXPECT_EQ(operands_of(all->front()), printed_operands(row.text, arch.urz));
      ++of_the_warp;
      continue;
    }
    EXPECT_FALSE(std::regex_search(row.text.substr(row.text.rfind(']')), std::regex(R"(, !?U?P[0-6T])"))) << "a predicate decides which lanes read";
    std::vector<std::string> brackets = brackets_of(row.text);
    ASSERT_EQ(brackets.size(), all->size());
    if (all->size() == 2) std::swap(brackets[0], brackets[1]);   // LDGSTS prints the shared address first
    for (size_t k = 0; k < all->size(); ++k) {
      const Access& a = (*all)[k];
      const Printed p = parse(brackets[k]);
      EXPECT_EQ(a.low == Access::none ? -1 : a.low, p.vector);
      EXPECT_EQ(a.uniform_low == Access::none ? -1 : a.uniform_low, p.uniform);
      EXPECT_EQ(a.scale, p.scale);
      EXPECT_EQ(a.offset, p.offset);
      if (p.pair) {
        EXPECT_TRUE(a.wide);
        EXPECT_EQ(a.high, a.low + 1);
      }
      EXPECT_EQ(a.bytes, bytes_in(row.text));
      ++checked;
    }
    mnemonics.insert(row.text.substr(row.text.starts_with('@') ? row.text.find(' ') + 1 : 0).substr(0, 4));
  }
  EXPECT_GE(of_the_warp, GetParam() == 90 ? 40u : GetParam() == 100 ? 1u : 0u);
  EXPECT_GT(checked, GetParam() == 86 || GetParam() == 103 ? 10u : 40u);
  std::vector<const char*> names;
  if (GetParam() != 103) names.push_back("LDG.");
  if (GetParam() != 103 && GetParam() != 89) names.push_back("STG.");
  if (GetParam() == 90) names.insert(names.end(), {"LD.E", "ST.E", "LDS ", "STS ", "LDL ", "STL ", "LDSM", "STSM", "ATOM", "REDG", "LDGS"});
  for (const char* name : names) EXPECT_TRUE(mnemonics.contains(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Arch, AccessOf, testing::Values(75, 80, 86, 89, 90, 100, 103, 120), [](const auto& p) { return fmt::format("sm_{}", p.param); });

TEST(Access, WhatIsNotCoveredHasAReason) {
  const Arch& arch = **find_arch(90);
  std::set<std::string> not_covered;
  for (const Row& row : rows_of("sm_90")) {
    const auto found = accesses(arch, row.word);
    if (const auto* why = std::get_if<NotCovered>(&found)) {
      EXPECT_FALSE(why->empty());
      not_covered.insert(row.text.substr(row.text.starts_with('@') ? row.text.find(' ') + 1 : 0).substr(0, 5));
    }
  }
  for (const char* name : {"HGMMA", "SYNCS"}) EXPECT_TRUE(not_covered.contains(name)) << name;
  const auto nothing = accesses(arch, RawInst{0x0000000000007918, 0x000fc00000000000});   // NOP
  EXPECT_TRUE(std::get<std::vector<Access>>(nothing).empty());
}

// The first word of the name and the type; guards stand in front of some of these rows.
TEST(SumsFloats, AtomicsThatAddFloatingPointNumbers) {
  const std::regex name(R"((?:@\S+ )?([A-Z]+)\S*?(?:\.(B?F\d+)\S*)? .*)");
  std::set<std::string> sums, others;
  for (const Row& row : rows_of("sm_90")) {
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
