// Text to instruction and back over the words of tests/oracle, and the errors of texts that are none.
#include "instrument/sass/assemble.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "instrument/sass/form.h"
#include "instrument/sass/print.h"

namespace xtrace::sass {
namespace {

const Arch& sm(unsigned number) { return **find_arch(number); }

struct Row {
  const Arch* arch;
  RawInst word;
  uint32_t pc;
  bool same_control(const RawInst& other) const {
    RawInst a = word, b = other;
    set_control(a, Control{});
    set_control(b, Control{});
    return a == b;
  }
};

std::vector<Row> read_rows(const std::string& name) {
  std::ifstream in(std::string(XTRACE_SOURCE_DIR) + "/tests/oracle/" + name);
  EXPECT_TRUE(in.good()) << name;
  std::vector<Row> rows;
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream s(line);
    std::string arch, lo, hi, pc;
    s >> arch >> lo >> hi >> pc;
    rows.push_back({*find_arch(static_cast<unsigned>(std::stoul(arch.substr(3)))),
                    {std::stoull(lo, nullptr, 16), std::stoull(hi, nullptr, 16)},
                    static_cast<uint32_t>(std::stoul(pc, nullptr, 16))});
  }
  return rows;
}

// Texts that the search does not find a word for. May only shrink.
const std::set<std::string> not_assembled = {
    "sm_100 @P5 F2FP.E4M3.F16.UNPACK_B_MERGE_C R6, R4, RZ",
    "sm_100 @P5 F2FP.RELU.E4M3.F16.UNPACK_B_MERGE_C R6, R4, RZ",
    "sm_100 @P5 F2FP.SATFINITE.E4M3.F16.UNPACK_B_MERGE_C R6, R4, RZ",
    "sm_100 @P5 F2FP.SATFINITE.RELU.E4M3.F16.UNPACK_B_MERGE_C R6, R4, RZ",
};

struct Counts {
  size_t rows = 0, sm90 = 0, sm90_identical = 0;
  std::map<std::string, size_t> different;  // rows for sm_90 with another word, by mnemonic
  std::map<std::string, size_t> shown;      // of these, rows that differ in a bit that the text shows
};

// True when the words differ in a bit of the row that changes its text.
bool differs_visibly(const Row& r, const RawInst& other) {
  const std::string text = print(*r.arch, r.word, r.pc);
  for (unsigned b = 0; b < 105; ++b) {
    RawInst w = r.word;
    if (get_bits(w, bit(b)) == get_bits(other, bit(b))) continue;
    set_bits(w, bit(b), get_bits(other, bit(b)));
    if (print(*r.arch, w, r.pc) != text) return true;
  }
  return false;
}

// Every row must come back as the same text.
Counts round_trip(const std::string& file) {
  Counts counts;
  for (const Row& r : read_rows(file)) {
    ++counts.rows;
    const std::string text = print(*r.arch, r.word, r.pc);
    const Result<RawInst> w = assemble(*r.arch, text, r.pc);
    const std::string name = fmt::format("{} {}", r.arch->name, text);
    if (not_assembled.contains(name)) {
      EXPECT_FALSE(w.has_value()) << name << " can be assembled now: take it off the list";
      continue;
    }
    if (!w) {
      ADD_FAILURE() << name << "\n  " << w.error().to_string();
      continue;
    }
    EXPECT_EQ(print(*r.arch, *w, r.pc), text) << r.arch->name;
    if (r.arch->sm != 90) continue;
    ++counts.sm90;
    if (r.same_control(*w)) {
      ++counts.sm90_identical;
    } else {
      const std::string mnemonic(find_form(*r.arch, r.word)->mnemonic);
      ++counts.different[mnemonic];
      if (differs_visibly(r, *w)) ++counts.shown[mnemonic];
    }
  }
  return counts;
}

using Different = std::map<std::string, size_t>;

// Words of compilers: the bits that a text does not show are known for nearly all forms.
TEST(Assemble, WordsOfCompiledKernels) {
  const Counts c = round_trip("vectors.txt");
  EXPECT_EQ(c.rows, 2544u);
  EXPECT_EQ(c.different, (Different{{"FSEL", 1}}));  // payload of a NaN
  EXPECT_GE(c.sm90_identical * 100, c.sm90 * 99);
}

TEST(Assemble, WordsOfEveryOpcodeSeenOnSm90) {
  const Counts c = round_trip("sm90_forms.txt");
  EXPECT_EQ(c.rows, 459u);
  // IGMMA: several codes for one N. WARPGROUP: a bit of DEPBAR that nothing shows.
  EXPECT_EQ(c.different, (Different{{"IGMMA", 2}, {"WARPGROUP", 1}}));
  EXPECT_GE(c.sm90_identical * 100, c.sm90 * 99);
}

// Generated words carry values in bits that the text does not show, which no text can give back: they are
// counted by mnemonic, and the counts may only shrink.
TEST(Assemble, GeneratedWords) {
  static const Different allowed = {
      {"ATOM", 76},     {"ATOMG", 76},  {"BMOV", 2},     {"ELECT", 2},  {"F2F", 32},      {"F2FP", 85},
      {"F2I", 64},      {"FMUL", 220},  {"I2F", 75},     {"I2IP", 10},  {"IADD3", 5},     {"IGMMA", 5},
      {"IMAD", 74},     {"ISETP", 106}, {"LD", 32},      {"LDG", 32},   {"LEA", 17},      {"MATCH", 1},
      {"RED", 67},      {"STAS", 3},    {"SYNCS.LD", 1}, {"UIADD3", 2}, {"UIADD3.64", 2}, {"UIMAD", 16},
      {"UISETP", 43},   {"ULEA", 10},   {"UTMALDG", 1},  {"UTMAPF", 3}, {"UTMAREDG", 6},  {"VABSDIFF4", 18},
      {"WARPGROUP", 1},
  };
  const Counts c = round_trip("generated.txt");
  EXPECT_EQ(c.rows, 10186u);
  EXPECT_EQ(c.different, allowed);
  // IGMMA: several codes for one N. BMOV: two opcodes with one text.
  EXPECT_EQ(c.shown, (Different{{"BMOV", 1}, {"IGMMA", 5}}));
}

// --- single texts ---

TEST(Assemble, ControlWord) {
  const auto word = [](std::string_view text) { return assemble(sm(90), text, 0).value(); };
  EXPECT_EQ(get_control(word("MOV R1, R2")), (Control{.stall = 1}));
  const Control c{.stall = 5,
                  .keep_issuing = true,
                  .write_barrier = 0,
                  .read_barrier = Control::no_barrier,
                  .wait_mask = 3,
                  .reuse = 3};
  const RawInst w = word("@!P0 FADD R1, R2, R3 stall=5 keep wr=0 rd=- wait=0x3 reuse=AB");
  EXPECT_EQ(get_control(w), c);
  EXPECT_EQ(print(sm(90), w, 0) + " " + print_control(w),
            "@!P0 FADD R1, R2, R3 stall=5 keep wr=0 rd=- wait=0x3 reuse=AB");
  EXPECT_FALSE(get_control(word("EXIT stall=5 yield")).keep_issuing);
}

TEST(Assemble, BranchesAreRelativeToTheirOffset) {
  for (const int64_t pc : {0, 0x40, 0x1000}) {
    const RawInst w = assemble(sm(90), "@P0 BRA 0x190", pc).value();
    EXPECT_EQ(print(sm(90), w, static_cast<uint32_t>(pc)), "@P0 BRA 0x190");
  }
  EXPECT_FALSE(assemble(sm(90), "BRA 0x190", -16).has_value());
}

// Worked out by hand from the fields of sass.md.
TEST(Assemble, OperandKindsSelectTheOpcode) {
  struct Case {
    std::string text;
    uint16_t opcode;
  };
  const Case cases[] = {
      {"MOV R1, R2", 0x202},           {"MOV R1, 0x2", 0x802},         {"MOV R1, c[0x0][0x28]", 0xa02},
      {"MOV R1, UR2", 0x1c02},         {"FFMA R1, R2, R3, R4", 0x223}, {"FFMA R1, R2, R3, 1.5", 0x423},
      {"FFMA R1, R2, 1.5, R3", 0x823}, {"F2I.F64 R2, R4", 0x311},      {"F2I R2, R4", 0x305},
  };
  for (const Case& c : cases) EXPECT_EQ(opcode13(assemble(sm(90), c.text, 0).value()), c.opcode) << c.text;
}

struct BadText {
  unsigned sm;
  std::string text, error;
};
const BadText bad_texts[] = {
    {90, "FOO R1", "column 1: expected a mnemonic of sm_90, found 'FOO'"},
    {90, "", "column 1: expected a mnemonic of sm_90, found the end of the text"},
    {90, "MOV R1, 5",
     "column 9: expected a constant like c[0x0][0x0] or a constant like cx[UR0][0x0] or a register R0..R254 "
     "or RZ or a uniform register like UR4 or an immediate like 0x0, found '5'"},
    {90, "MOV R1", "column 7: expected ', ' or a register R0..R254 or RZ, found the end of the text"},
    {90, "MOV R300, R1", "column 5: expected a value that its field can hold, found 'R300'"},
    {90, "MOV R1, R2, R3", "column 13: expected a number like 0x1, found 'R3'"},
    {90, "MOV R1; R2", "column 7: expected ', ' or a register R0..R254 or RZ, found ';'"},
    {90, "@P9 MOV R1, R2", "column 1: expected a guard like @P0 or @!UP2, found '@P9'"},
    {90, "@UP1 MOV R1, R2", "column 1: expected a guard like @P0, which MOV takes, found '@UP1'"},
    {90, "@P0 UMOV UR1, UR2", "column 1: expected a guard like @UP0, which UMOV takes, found '@P0'"},
    {90, "LDG.E.65 R1, [R2]", "column 6: expected ' ' or a modifier of LDG, found '.65'"},
    {90, "LDG.E R1, [R2",
     "column 14: expected a register R0..R254 or RZ or an operand like [R0.U32+UR0], found the end of the "
     "text"},
    {90, "LDG.E R0, desc[UR4][R2.64+0x1000000]",
     "column 27: expected a value that its field can hold, found '0x1000000]'"},
    {90, "BRA 0x13", "column 5: expected a value that its field can hold, found '0x13'"},
    {90, "BRA R3", "column 5: expected an operand like 0x10, found 'R3'"},
    {90, "ISETP.XX.AND P0, PT, R1, R2, PT", "column 6: expected a modifier like '.F', found '.XX.AND'"},
    {90, "SHFL.IDX PT, R1, R2, 0x20, 0x1f",
     "column 22: expected a number of at most 0x1f or a register R0..R254 or RZ, found '0x20'"},
    {90, "LOP3.LUT R0, R1, R2, R3, 0x100, !PT",
     "column 26: expected a number of at most 0xff, found '0x100'"},
    {90, "S2R R1, SR_NOTHING", "column 9: expected an operand like SR_LANEID, found 'SR_NOTHING'"},
    {90, "FADD R1, R2, 1.5.5", "column 17: expected an immediate like 0 or the end of the text, found '.5'"},
    {90, "EXIT P9", "column 6: expected a value that its field can hold, found 'P9'"},
    {90, "MOV R1, R2 stall=1 wait",
     "column 20: expected stall=, keep, yield, wr=, rd=, wait= or reuse=, found 'wait'"},
    {90, "MOV R1, R2 stall=99", "column 18: expected a stall of 0 to 15 cycles, found '99'"},
    {90, "MOV R1, R2 stall=5 keep wr=8", "column 28: expected a scoreboard 0 to 5, or -, found '8'"},
    {90, "MOV R1, R2 stall=5 foo",
     "column 20: expected stall=, keep, yield, wr=, rd=, wait= or reuse=, found 'foo'"},
    {90, "MOV R1, R2 stall=1 reuse=D", "column 26: expected operands A, B or C, found 'D'"},
    {120, "MOV.65 R0, R1", "column 4: expected ' ' or '.64', found '.65'"},
    {75, "WARPGROUP.ARRIVE", "column 1: expected a mnemonic of sm_75, found 'WARPGROUP.ARRIVE'"},
};

TEST(Assemble, ErrorsNameColumnAndWhatWasExpected) {
  for (const BadText& b : bad_texts) {
    const Result<RawInst> w = assemble(sm(b.sm), b.text, 0);
    ASSERT_FALSE(w.has_value()) << b.text << " gives " << print(sm(b.sm), *w, 0);
    EXPECT_EQ(w.error().kind, ErrorKind::bad_input);
    EXPECT_EQ(w.error().message, b.error) << b.text;
  }
}

}  // namespace
}  // namespace xtrace::sass
