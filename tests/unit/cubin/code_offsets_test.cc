// Metadata after code moved the way cubins.h describes: first copy at 0x80 + 2 * old, second at 0x80 + 2 *
// size + old.
#include <gmock/gmock.h>

#include "cubins.h"
#include "instrument/cubin/eiattr.h"

namespace xtrace::cubin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint32_t> list(const Image& image, const KernelInfo& k, uint8_t attribute) {
  const auto records = image.info_records(*k.info_section);
  for (const InfoRecord& r : *records)
    if (r.attribute == attribute) return words(r.payload);
  ADD_FAILURE() << "no record " << unsigned{attribute};
  return {};
}

void add_record(Image& image, const KernelInfo& k, uint8_t attribute, const std::vector<uint32_t>& payload) {
  auto records = *image.info_records(*k.info_section);
  InfoRecord r{4, attribute, 0, Bytes(payload.size() * 4)};
  std::memcpy(r.payload.data(), payload.data(), r.payload.size());
  records.push_back(r);
  image.set_info_records(*k.info_section, records);
}

TEST(CodeOffsets, ListsHoldEveryCopyInOrder) {
  Image image = image_of("sm_90/calls");
  const KernelInfo k = info_of(image, "calls");
  ASSERT_THAT(list(image, k, 0x1c), ElementsAre(0x70, 0x270));
  const auto masks = list(image, k, 0x29);
  ASSERT_TRUE(double_code(image, k).has_value());
  EXPECT_THAT(list(image, k, 0x1c), ElementsAre(0x160, 0x560, 0x10f0, 0x12f0));
  EXPECT_THAT(
      list(image, k, 0x28),
      ElementsAre(0x780, 0x7c0, 0x800, 0x840, 0x880, 0x9e0, 0xb00, 0xbe0, 0xcc0, 0xda0, 0xe80,  //
                  0x1400, 0x1420, 0x1440, 0x1460, 0x1480, 0x1530, 0x15c0, 0x1630, 0x16a0, 0x1710, 0x1780));
  auto twice = masks;
  twice.insert(twice.end(), masks.begin(), masks.end());
  EXPECT_EQ(list(image, k, 0x29), twice);
  EXPECT_EQ(list(image, k, 0x17), (std::vector<uint32_t>{0, 0x100002, 0x11f000}));  // no offsets: as it was
}

TEST(CodeOffsets, WithoutACopyOnlyThePrimary) {
  Image image = image_of("sm_90/variables");
  const KernelInfo k = info_of(image, "variables");
  ASSERT_TRUE(double_code(image, k, false).has_value());
  EXPECT_THAT(list(image, k, 0x31), ElementsAre(0x800, 0xa80));
  EXPECT_THAT(list(image, k, 0x46), ElementsAre(0xc20));
  EXPECT_THAT(list(image, k, 0x0f), ElementsAre(24));  // EXTERNS: a symbol, not an offset
}

TEST(CodeOffsets, GroupsKeepTheirOtherWords) {
  struct Case {
    uint8_t attribute;
    std::vector<uint32_t> old, moved;
  };
  const Case cases[] = {
      {0x2e, {0x10, 7, 0x20, 9}, {0xa0, 7, 0xc0, 9, 0x1090, 7, 0x10a0, 9}},
      {0x44, {0x30, 0xff}, {0xe0, 0xff, 0x10b0, 0xff}},
      {0x55, {1, 0x40}, {1, 0x100, 1, 0x10c0}},
      {0x39, {0x50, 0xff, 8, 0x100}, {0x120, 0xff, 8, 0x100, 0x10d0, 0xff, 8, 0x100}},
      {0x25, {0x7f0}, {0x1060, 0x1870}},
  };
  for (const Case& c : cases) {
    Image image = image_of("sm_90/calls");
    const KernelInfo k = info_of(image, "calls");
    add_record(image, k, c.attribute, c.old);
    ASSERT_TRUE(double_code(image, k).has_value());
    EXPECT_EQ(list(image, k, c.attribute), c.moved) << unsigned{c.attribute};
  }
}

TEST(CodeOffsets, IndirectBranchesBranchInsideTheirCopy) {
  Image image = image_of("sm_90/jump_table");
  const KernelInfo k = info_of(image, "jump_table");
  ASSERT_TRUE(double_code(image, k).has_value());
  const auto branches = info_of(image, "jump_table").indirect_branches;
  ASSERT_EQ(branches.size(), 6u);
  EXPECT_EQ(branches[0].instruction, 0x380u);
  EXPECT_THAT(branches[0].targets, ElementsAre(0x6e0, 0x3a0, 0x2260));
  EXPECT_EQ(branches[1].instruction, 0x3700u);
  EXPECT_THAT(branches[1].targets, ElementsAre(0x38b0, 0x3710, 0x4670));
  EXPECT_EQ(branches[4].instruction, 0xea0u);
}

TEST(CodeOffsets, Symbols) {
  Image image = image_of("sm_90/calls");
  const KernelInfo k = info_of(image, "calls");
  ASSERT_TRUE(double_code(image, k).has_value());
  const Image again = parsed(*image.write());
  EXPECT_EQ(again.symbols()[k.symbol].value, 0u);  // the prologue belongs to the kernel
  EXPECT_EQ(again.symbols()[k.symbol].size, 0x1880u);
  const auto functions = info_of(again, "calls").functions;
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].offset, 0x580u);
  EXPECT_EQ(functions[0].size, 0x1c0u);
  EXPECT_EQ(functions[1].offset, 0x740u);
  EXPECT_EQ(functions[1].size, 0x940u);
}

// {offset, addend} of the relocations of one type and target.
std::vector<std::pair<uint64_t, int64_t>> places(const Image& image, uint32_t target, uint32_t type) {
  std::vector<std::pair<uint64_t, int64_t>> all;
  for (const Relocation& r : image.relocations())
    if (r.target_section == target && r.type == type) all.emplace_back(r.offset, r.addend);
  return all;
}

TEST(CodeOffsets, ReturnAddressesInRelocations) {
  Image image = image_of("sm_90/relocatable");
  const KernelInfo k = info_of(image, "relocatable");
  using P = std::pair<uint64_t, int64_t>;
  ASSERT_THAT(places(image, k.text_section, 57),
              ElementsAre(P(0x340, 0), P(0x300, 0x320), P(0x2a0, 0), P(0x210, 0x230), P(0xa0, 0xc0)));
  ASSERT_TRUE(double_code(image, k).has_value());
  EXPECT_THAT(places(image, k.text_section, 57),
              ElementsAre(P(0x700, 0), P(0x680, 0x6c0), P(0x5c0, 0), P(0x4a0, 0x4e0), P(0x1c0, 0x200),  //
                          P(0xcc0, 0), P(0xc80, 0xca0), P(0xc20, 0), P(0xb90, 0xbb0), P(0xa20, 0xa40)));
  EXPECT_THAT(places(image, k.text_section, 75),
              ElementsAre(P(0x4c0, 0), P(0x1e0, 0), P(0xba0, 0), P(0xa30, 0)));
}

TEST(CodeOffsets, RelAndRelaSideBySide) {
  Image image = image_of("sm_80/relocatable");
  const KernelInfo k = info_of(image, "relocatable");
  const uint32_t rel = *image.find_section(".rel.text.relocatable"),
                 rela = *image.find_section(".rela.text.relocatable");
  const uint64_t rel_bytes = image.sections()[rel].size, rela_bytes = image.sections()[rela].size;
  ASSERT_TRUE(double_code(image, k).has_value());
  const Image again = parsed(*image.write());
  EXPECT_EQ(again.sections()[rel].size, 2 * rel_bytes);
  EXPECT_EQ(again.sections()[rela].size, 2 * rela_bytes);
}

// A function pointer with an offset into the moved code, from data of the module.
TEST(CodeOffsets, AddendsElsewhereFollowTheInstruction) {
  Image image = image_of("sm_90/variables");
  const KernelInfo k = info_of(image, "variables");
  const uint32_t table = *image.find_section(".rela.nv.constant4"),
                 data = *image.find_section(".nv.constant4");
  uint32_t section_symbol = 0;
  for (uint32_t i = 1; i < image.symbols().size(); ++i)
    if ((image.symbols()[i].info & 0xf) == 3 && image.symbols()[i].section == k.text_section)
      section_symbol = i;
  ASSERT_NE(section_symbol, 0u);
  const size_t before = image.relocations().size();
  image.add_relocation({table, data, 0, 2, section_symbol, 0x690, true});
  image.add_relocation({table, data, 8, 2, k.functions[0].symbol, 0x10, true});
  image.add_relocation({table, data, 16, 2, k.functions[0].symbol, 0, true});
  ASSERT_TRUE(double_code(image, k).has_value());
  EXPECT_EQ(image.relocations()[before].addend, 0xda0);
  EXPECT_EQ(image.relocations()[before].offset, 0u);
  EXPECT_EQ(image.relocations()[before + 1].addend, 0x20);
  EXPECT_EQ(image.relocations()[before + 2].addend, 0);
}

template <typename T>
T at(const Image& image, const char* section, uint64_t offset) {
  return *read_at<T>(image.sections()[*image.find_section(section)].data, offset, "test");
}

TEST(CodeOffsets, DebugFrameWithRela) {
  Image image = image_of("sm_90/calls");
  const KernelInfo k = info_of(image, "calls");
  ASSERT_EQ(at<uint64_t>(image, ".debug_frame", 0x4c), 0x280u);
  const auto report = double_code(image, k);
  ASSERT_TRUE(report.has_value());
  EXPECT_THAT(report->dropped, ElementsAre());
  EXPECT_EQ(at<uint64_t>(image, ".debug_frame", 0x4c), 0x580u);  // the kernel, prologue included
  EXPECT_EQ(at<uint32_t>(image, ".debug_frame", 0x55), 0x60u);   // 0x80 -> 0x180, in units of 4
  EXPECT_EQ(at<uint32_t>(image, ".debug_frame", 0x60), 0xf8u);   // 0x270 -> 0x560, from 0x180 on
  EXPECT_EQ(at<uint64_t>(image, ".debug_frame", 0xcc), 0x1c0u);  // $calls$_Z3mixff
  EXPECT_EQ(at<uint32_t>(image, ".debug_frame", 0xd5), 0x48u);
  std::map<uint64_t, int64_t> starts;
  for (const Relocation& r : image.relocations())
    if (r.target_section == *image.find_section(".debug_frame")) starts[r.offset] = r.addend;
  EXPECT_EQ(starts.at(0x44), 0);
  EXPECT_EQ(starts.at(0xc4), 0x580);
  EXPECT_EQ(starts.at(0x144), 0x740);
}

TEST(CodeOffsets, DebugFrameOfARelocatableFile) {
  Image image = image_of("sm_90/relocatable");
  const auto report = double_code(image, info_of(image, "relocatable"));
  ASSERT_TRUE(report.has_value());
  EXPECT_THAT(report->dropped, ElementsAre());
  EXPECT_EQ(at<uint64_t>(image, ".debug_frame", 0x54), 0x100u);  // _Z5halvef, in a section of its own
  EXPECT_EQ(at<uint64_t>(image, ".debug_frame", 0xb4), 0x980u);
}

TEST(CodeOffsets, DebugFrameWithRel) {
  Image image = image_of("sm_80/calls");
  const KernelInfo k = info_of(image, "calls");
  ASSERT_EQ(at<uint64_t>(image, ".debug_frame", 0xcc), 0x260u);
  ASSERT_TRUE(double_code(image, k).has_value());
  EXPECT_EQ(at<uint64_t>(image, ".debug_frame", 0xcc), 0x540u);
  EXPECT_EQ(at<uint64_t>(image, ".debug_frame", 0xd4), 0x1c0u);
}

TEST(CodeOffsets, OtherKernelsStayAsTheyAre) {
  Image image = image_of("sm_90/plain");
  ASSERT_TRUE(double_code(image, info_of(image, "scale")).has_value());
  const Image old = image_of("sm_90/plain"), again = parsed(*image.write());
  const uint32_t text = *again.text_section("block_sum"), info = *again.find_section(".nv.info.block_sum");
  EXPECT_EQ(again.sections()[text].data, old.sections()[text].data);
  EXPECT_EQ(again.sections()[info].data, old.sections()[info].data);
  EXPECT_EQ(again.symbols()[*again.find_symbol("block_sum")].size, 1024u);
}

TEST(CodeOffsets, MercuryCapsulesAreReported) {
  Image image = image_of("sm_100/plain");
  const auto report = double_code(image, info_of(image, "scale"));
  ASSERT_TRUE(report.has_value());
  EXPECT_THAT(report->dropped, ElementsAre("nv.capmerc, nv.merc: stale, kept verbatim"));
}

TEST(CodeOffsets, RefusesUnknownAttributesByName) {
  Image image = image_of("sm_90/calls");
  add_record(image, info_of(image, "calls"), 0x5a, {0x10});
  const KernelInfo k = info_of(image, "calls");
  EXPECT_THAT(k.unknown_payload_attributes, ElementsAre(0x5a));
  const auto report = double_code(image, k);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(report.error().message, HasSubstr("attribute 0x5a (EIATTR_MERCURY_FINALIZER_OPTIONS)"));
}

struct Broken {
  const char* name;
  uint8_t attribute;
  std::vector<uint32_t> payload;
  ErrorKind kind;
  const char* message;
};
TEST(CodeOffsets, BrokenLists) {
  const Broken cases[] = {
      {"no instruction", 0x1c, {0x74}, ErrorKind::bad_input, "names offset 0x74 of .text.calls"},
      {"outside", 0x1c, {0x800}, ErrorKind::bad_input, "no instruction of its 0x800 bytes"},
      {"odd group", 0x2e, {0x10}, ErrorKind::bad_input, "expected groups of 8 bytes, found 4 bytes"},
      {"masks without offsets", 0x29, {1, 2}, ErrorKind::bad_input, "does not have as many"},
      {"resume points", 0x3a, {1, 0x10}, ErrorKind::unsupported, "cannot stand in several copies"},
      {"ray tracing", 0x6a, {0x10}, ErrorKind::unsupported, "RT_LIVESTATE_SASS_MAP"},
  };
  for (const Broken& c : cases) {
    Image image = image_of("sm_90/calls");
    add_record(image, info_of(image, "calls"), c.attribute, c.payload);
    const auto report = double_code(image, info_of(image, "calls"));
    ASSERT_FALSE(report.has_value()) << c.name;
    EXPECT_EQ(report.error().kind, c.kind) << c.name;
    EXPECT_THAT(report.error().message, HasSubstr(c.message)) << c.name;
  }
}

TEST(CodeOffsets, AListNeverOutgrowsItsRecord) {
  Image image = image_of("sm_90/calls");
  add_record(image, info_of(image, "calls"), 0x25, std::vector<uint32_t>(9000, 0x10));
  const auto report = double_code(image, info_of(image, "calls"));
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("would need 72000 bytes"));
}

TEST(CodeOffsets, AnInstructionWithoutAPlaceIsAFaultOfTheCaller) {
  Image image = image_of("sm_90/calls");
  const KernelInfo k = info_of(image, "calls");
  MovedCode moved = Doubled{0x800}.moved();
  moved.instruction = [](uint32_t) { return std::vector<uint32_t>{}; };
  const auto report = map_code_offsets(image, k, moved);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().kind, ErrorKind::internal);
}

}  // namespace
}  // namespace xtrace::cubin
