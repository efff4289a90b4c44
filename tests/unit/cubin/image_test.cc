#include "instrument/cubin/image.h"

#include <elf.h>
#include <gmock/gmock.h>

#include "cubins.h"

namespace xtrace::cubin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class EveryFixture : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cubins, EveryFixture, testing::ValuesIn(kFixtures), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '/', '_');
  return name;
});

TEST_P(EveryFixture, WritesWhatItRead) {
  const Bytes bytes = fixture(GetParam());
  EXPECT_EQ(*parsed(bytes).write(), bytes);
}

TEST_P(EveryFixture, InfoRecordsRoundTrip) {
  const Bytes bytes = fixture(GetParam());
  Image image = parsed(bytes);
  unsigned sections = 0;
  for (uint32_t i = 0; i < image.sections().size(); ++i) {
    if (image.sections()[i].type != 0x70000000) continue;
    const auto records = image.info_records(i);
    ASSERT_TRUE(records.has_value()) << records.error().to_string();
    EXPECT_FALSE(records->empty());
    image.set_section_data(i, {});
    image.set_info_records(i, *records);
    ++sections;
  }
  EXPECT_GE(sections, 2u);
  EXPECT_EQ(*image.write(), bytes);
}

// After every section grew by an odd amount each keeps its own bytes, its alignment and its place in the
// order.
TEST_P(EveryFixture, KeepsContentsWhenEverythingGrows) {
  Image image = image_of(GetParam());
  std::vector<Bytes> want;
  for (uint32_t i = 0; i < image.sections().size(); ++i) {
    const Section& s = image.sections()[i];
    if (s.type >= 0x70000000 && !s.nobits()) {
      Bytes longer = s.data;
      longer.resize(longer.size() + 5, std::byte{0xa5});
      image.set_section_data(i, longer);
    }
  }
  for (const Section& s : image.sections()) want.push_back(s.data);
  const Image again = parsed(*image.write());
  ASSERT_EQ(again.sections().size(), want.size());
  for (uint32_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(again.sections()[i].data, want[i]) << again.sections()[i].name;
  EXPECT_EQ(again.relocations().size(), image.relocations().size());
  EXPECT_EQ(again.kernels(), image.kernels());
}

struct Headers {
  Elf64_Ehdr file;
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Phdr> segments;
  explicit Headers(const Bytes& bytes) {
    std::memcpy(&file, bytes.data(), sizeof file);
    sections.resize(file.e_shnum);
    segments.resize(file.e_phnum);
    std::memcpy(sections.data(), bytes.data() + file.e_shoff, sections.size() * sizeof(Elf64_Shdr));
    std::memcpy(segments.data(), bytes.data() + file.e_phoff, segments.size() * sizeof(Elf64_Phdr));
  }
};

// Offsets as readelf prints them for the fixture, moved by hand.
TEST(Image, GrowingATextSectionMovesWhatFollows) {
  Image image = image_of("sm_90/plain");
  const uint32_t text = *image.text_section("scale");
  ASSERT_EQ(text, 14u);
  Bytes code = image.sections()[text].data;
  ASSERT_EQ(code.size(), 0x200u);
  code.resize(0x280);
  image.set_section_data(text, code);
  const Headers h(*image.write());
  EXPECT_EQ(h.sections[13].sh_offset, 0x848u);  // .rela.debug_frame, before: stays
  EXPECT_EQ(h.sections[14].sh_offset, 0x880u);
  EXPECT_EQ(h.sections[14].sh_size, 0x280u);
  EXPECT_EQ(h.sections[15].sh_offset, 0xb00u);  // .text.block_sum
  EXPECT_EQ(h.sections[15].sh_size, 0x400u);
  EXPECT_EQ(h.sections[17].sh_offset, 0xf00u);  // .nv.shared.block_sum, NOBITS
  EXPECT_EQ(h.sections[17].sh_size, 0x800u);
  EXPECT_EQ(h.sections[18].sh_offset, 0xf00u);  // .nv.constant0.scale
  EXPECT_EQ(h.sections[19].sh_offset, 0x1120u);
  EXPECT_EQ(h.file.e_shoff, 0x1348u);
  EXPECT_EQ(h.file.e_phoff, 0x1848u);
  // PHDR, LOAD of the headers, text, shared memory (no bytes in the file), constants.
  std::vector<std::vector<uint64_t>> segments;
  for (const Elf64_Phdr& p : h.segments) segments.push_back({p.p_offset, p.p_filesz, p.p_memsz});
  using S = std::vector<uint64_t>;
  EXPECT_THAT(segments, ElementsAre(S{0x1848, 0x118, 0x118}, S{0x1848, 0x118, 0x118}, S{0x880, 0x680, 0x680},
                                    S{0xf00, 0, 0x800}, S{0xf00, 0x444, 0x444}));
}

TEST(Image, ShiftsByAlignmentOnly) {
  Image image = image_of("sm_90/plain");
  const uint32_t info = *image.find_section(".nv.info.scale");
  Bytes data = image.sections()[info].data;
  data.resize(data.size() + 8);
  image.set_section_data(info, data);
  const Headers h(*image.write());
  EXPECT_EQ(h.sections[10].sh_offset, 0x7b8u);  // .nv.info.block_sum, align 4
  EXPECT_EQ(h.sections[13].sh_offset, 0x850u);  // .rela.debug_frame, align 8: was 0x848
  EXPECT_EQ(h.sections[14].sh_offset, 0x880u);  // the gap before the code takes it up
  EXPECT_EQ(h.file.e_shoff, 0x12c8u);
}

TEST(Image, SectionsOverOneRangeStayTogether) {
  Image image = image_of("sm_100/variables");
  const uint32_t plain = *image.find_section(".nv.constant3"),
                 shared = *image.find_section(".nv.merc.nv.constant.user");
  ASSERT_EQ(Headers(fixture("sm_100/variables")).sections[plain].sh_offset,
            Headers(fixture("sm_100/variables")).sections[shared].sh_offset);
  Bytes data = image.sections()[plain].data;
  data.resize(data.size() + 0x40, std::byte{7});
  image.set_section_data(plain, data);
  EXPECT_EQ(image.sections()[shared].data, data);
  const Headers h(*image.write());
  EXPECT_EQ(h.sections[plain].sh_offset, h.sections[shared].sh_offset);
  EXPECT_EQ(h.sections[plain].sh_size, data.size());
  EXPECT_EQ(h.sections[shared].sh_size, data.size());
}

TEST(Image, AddedRelocationsComeLast) {
  Image image = image_of("sm_90/calls");
  const uint32_t empty = *image.find_section(".rela.text.calls"), text = *image.find_section(".text.calls");
  const auto before = image.relocations();
  ASSERT_EQ(before.size(), 5u);
  Relocation r{empty, text, 0x180, 57, 10, 0x1234, true};
  image.add_relocation(r);
  r.offset = 0x190;
  image.add_relocation(r);
  for (const Image& i : {image, parsed(*image.write())}) {
    const auto after = i.relocations();
    ASSERT_EQ(after.size(), 7u);
    EXPECT_EQ(i.sections()[empty].size, 48u);
  }
  const auto after = image.relocations();
  EXPECT_EQ(after[4].offset, before[4].offset);
  EXPECT_EQ(after[5].offset, 0x180u);
  EXPECT_EQ(after[5].target_section, text);
  EXPECT_EQ(after[6].offset, 0x190u);
  EXPECT_EQ(after[6].addend, 0x1234);
  EXPECT_EQ(after[6].type, 57u);
  EXPECT_EQ(after[6].symbol, 10u);
  image.set_relocation(6, 0x1a0, -16);
  EXPECT_EQ(image.relocations()[6].offset, 0x1a0u);
  EXPECT_EQ(image.relocations()[6].addend, -16);
  // The program header that covers the code still does, and nothing of .rela is loaded.
  const Headers h(*image.write());
  bool covered = false;
  for (const Elf64_Phdr& p : h.segments)
    covered |= (p.p_flags & PF_X) != 0 && p.p_offset == h.sections[text].sh_offset && p.p_filesz == 0x800;
  EXPECT_TRUE(covered);
}

TEST(Image, RelRelocationsHaveNoAddend) {
  Image image = image_of("sm_80/calls");
  auto all = image.relocations();
  ASSERT_EQ(all.size(), 9u);
  EXPECT_FALSE(all[0].has_addend);
  EXPECT_EQ(all[0].offset, 0x23cu);
  EXPECT_EQ(all[0].type, 2u);
  all[0].offset = 0x44;
  image.add_relocation(all[0]);
  const Image again = parsed(*image.write());
  EXPECT_EQ(again.relocations().size(), 10u);
  EXPECT_EQ(again.relocations()[9].offset, 0x44u);
}

TEST(Image, SymbolsAreEditedInPlace) {
  Image image = image_of("sm_90/calls");
  const uint32_t mix = *image.find_symbol("$calls$_Z3mixff");
  EXPECT_EQ(image.symbols()[mix].value, 0x280u);
  EXPECT_EQ(image.symbols()[mix].size, 224u);
  EXPECT_FALSE(image.symbols()[mix].is_entry());
  image.set_symbol(mix, 0x300, 0x100);
  const Image again = parsed(*image.write());
  EXPECT_EQ(again.symbols()[mix].value, 0x300u);
  EXPECT_EQ(again.symbols()[mix].size, 0x100u);
  EXPECT_EQ(again.symbols()[mix].name, "$calls$_Z3mixff");
  EXPECT_EQ(again.symbols()[mix + 1].value, 0x360u);
}

TEST(Image, KernelsAndVersions) {
  EXPECT_THAT(image_of("sm_90/plain").kernels(), ElementsAre("scale", "block_sum"));
  EXPECT_EQ(image_of("sm_80/plain").sm(), 80u);
  EXPECT_EQ(image_of("sm_86/plain").sm(), 86u);
  EXPECT_EQ(image_of("sm_90/plain").sm(), 90u);
  EXPECT_EQ(image_of("sm_100/plain").sm(), 100u);
  EXPECT_EQ(image_of("sm_120/plain").sm(), 120u);
  const auto missing = image_of("sm_90/plain").text_section("scales");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(missing.error().message, "no kernel named scales in this cubin; it has scale, block_sum");
}

TEST(Image, OldGenerationKeepsTheSmInTheLowByte) {
  const Bytes bytes = fixture("sm_90/plain_abi7");
  ASSERT_EQ(bytes[EI_OSABI], std::byte{0x33});
  EXPECT_EQ(parsed(bytes).sm(), 90u);  // e_flags 0x005a055a
  Bytes ampere = bytes;
  write_at(std::span(ampere), offsetof(Elf64_Ehdr, e_flags), uint32_t{0x00500550});
  EXPECT_EQ(parsed(ampere).sm(), 80u);
}

TEST(Image, MalformedInfoRecords) {
  Image image = image_of("sm_90/plain");
  const uint32_t info = *image.find_section(".nv.info.scale");
  image.set_section_data(info,
                         Bytes{std::byte{4}, std::byte{0x1c}, std::byte{8}, std::byte{0}, std::byte{1}});
  const auto truncated = image.info_records(info);
  ASSERT_FALSE(truncated.has_value());
  EXPECT_THAT(truncated.error().to_string(), HasSubstr("attribute 0x1c in section .nv.info.scale"));
  image.set_section_data(info, Bytes{std::byte{9}, std::byte{0x1c}, std::byte{8}, std::byte{0}});
  const auto format = image.info_records(info);
  ASSERT_FALSE(format.has_value());
  EXPECT_EQ(format.error().message, "info record of .nv.info.scale at 0x0: expected format 1..4, found 9");
}

// One lie each, at the place where it stands in sm_90/plain.
struct Lie {
  const char* name;
  uint64_t at;
  unsigned width;
  uint64_t value;
  const char* message;
};
constexpr uint64_t kSections = 0x12c8, kSegments = 0x17c8, kSymbols = 0x3d0, kRelocations = 0x848;
constexpr uint64_t section_field(unsigned section, uint64_t field) {
  return kSections + section * 64 + field;
}
const Lie kLies[] = {
    {"magic", 0, 4, 0x464c4500, "expected magic 7f 45 4c 46, found 00"},
    {"class", 4, 1, 1, "64-bit little-endian"},
    {"data", 5, 1, 2, "64-bit little-endian"},
    {"abi", 7, 1, 0, "expected EI_OSABI 0x33 or 0x41, found 0x0"},
    {"machine", 18, 2, 62, "expected e_machine 190 (EM_CUDA), found 62"},
    {"sm", 48, 4, 0x06000004, "name no SM version"},
    {"ehsize", 52, 2, 52, "e_ehsize: expected 64, found 52"},
    {"shoff", 40, 8, 0xffffffffffffff00, "section header table (e_shoff, e_shnum) lies outside"},
    {"shnum0", 60, 2, 0, "section header table"},
    {"shnum", 60, 2, 0xfe00, "section header table (e_shoff, e_shnum) lies outside"},
    {"shentsize", 58, 2, 40, "e_shentsize: expected 64, found 40"},
    {"shstrndx", 62, 2, 20, "e_shstrndx: expected the index of a string table below 20, found 20"},
    {"phentsize", 54, 2, 32, "e_phentsize: expected 56, found 32"},
    {"phoff", 32, 8, 0x7fffffffffffffff, "program header table (e_phoff, e_phnum) lies outside"},
    {"phoff_overlap", 32, 8, 0x800, "overlaps"},
    {"section_offset", section_field(14, 24), 8, 0x100000, "section 14 (.text.scale)"},
    {"section_size", section_field(14, 32), 8, ~0ull, "section 14 (.text.scale)"},
    {"section_overlap", section_field(14, 32), 8, 0x201,
     "section 15 (.text.block_sum) at 0xa80 size 0x400 overlaps section 14"},
    {"align", section_field(14, 48), 8, 96, "sh_addralign of section 14: expected 0 or a power of two"},
    {"huge_align", section_field(14, 48), 8, 1ull << 40, "sh_addralign of section 14"},
    {"section_name", section_field(14, 0), 4, 0xfffff, "name of section 14 lies outside"},
    {"symtab_entsize", section_field(3, 56), 8, 16, "expected entries of 24 bytes, found sh_entsize 16"},
    {"symtab_link", section_field(3, 40), 4, 99, "sh_link of symbol table"},
    {"two_symtabs", section_field(8, 4), 4, SHT_SYMTAB, "two symbol tables: sections 3 and 8"},
    {"symbol_section", kSymbols + 11 * 24 + 6, 2, 77,
     "symbol 11 (scale) lies in section 77, the file has 20"},
    {"symbol_name", kSymbols + 11 * 24, 4, 0xffff, "name of symbol 11 lies outside"},
    {"rela_info", section_field(13, 44), 4, 1000, "patches section 1000, the file has 20"},
    {"rela_entsize", section_field(13, 56), 8, 0, "expected entries of 24 bytes"},
    {"rela_symbol", kRelocations + 12, 4, 15, "names symbol 15, the symbol table has 15"},
    {"segment", kSegments + 2 * 56 + 32, 8, 0x4000, "segment 2 (p_offset, p_filesz) lies outside"},
};
class Lies : public testing::TestWithParam<Lie> {};
INSTANTIATE_TEST_SUITE_P(Image, Lies, testing::ValuesIn(kLies),
                         [](const auto& info) { return info.param.name; });

TEST_P(Lies, AreNamed) {
  const Lie& lie = GetParam();
  Bytes bytes = fixture("sm_90/plain");
  std::memcpy(bytes.data() + lie.at, &lie.value, lie.width);
  const auto image = Image::parse(bytes);
  ASSERT_FALSE(image.has_value());
  EXPECT_EQ(image.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(image.error().to_string(), HasSubstr(lie.message));
}

}  // namespace
}  // namespace xtrace::cubin
