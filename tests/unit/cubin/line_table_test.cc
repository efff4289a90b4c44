#include "instrument/cubin/line_table.h"

#include <gmock/gmock.h>

#include "cubins.h"
#include "instrument/cubin/dwarf_cursor.h"

namespace xtrace::cubin {
namespace {

using testing::HasSubstr;

// As nvdisasm -g prints them.
TEST(SourceLines, OfTheFixture) {
  const Image image = image_of("sm_90/calls_lineinfo");
  const auto lines = source_lines(image, info_of(image, "calls"));
  ASSERT_TRUE(lines.has_value()) << lines.error().to_string();
  const std::pair<uint32_t, uint32_t> want[] = {
      {0x0, 16},   {0x10, 17},  {0x40, 17}, {0x50, 18}, {0x80, 19}, {0x130, 20}, {0x140, 19}, {0x150, 20},
      {0x180, 21}, {0x270, 22}, {0x290, 5}, {0x350, 6}, {0x360, 9}, {0x390, 11}, {0x420, 12}};
  for (const auto& [pc, line] : want) {
    ASSERT_TRUE(lines->contains(pc)) << std::hex << pc;
    EXPECT_EQ(lines->at(pc).line, line) << std::hex << pc;
    EXPECT_EQ(lines->at(pc).file, "/src/calls.cu") << std::hex << pc;
  }
  EXPECT_EQ(lines->at(0x380).file,
            "/usr/local/cuda/bin/../targets/x86_64-linux/include/sm_30_intrinsics.hpp");
  EXPECT_EQ(lines->size(), 0x800u / 16);
}

TEST(SourceLines, EmptyWithoutLineInfo) {
  const Image image = image_of("sm_90/calls");
  const auto lines = source_lines(image, info_of(image, "calls"));
  ASSERT_TRUE(lines.has_value());
  EXPECT_TRUE(lines->empty());
}

class MovedLines : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cubins, MovedLines, testing::Values("sm_80/calls_lineinfo", "sm_90/calls_lineinfo"),
                         [](const auto& info) { return std::string(info.param).substr(0, 5); });

TEST_P(MovedLines, FollowTheirInstructionsIntoEveryCopy) {
  Image image = image_of(GetParam());
  const KernelInfo k = info_of(image, "calls");
  const auto old = *source_lines(image, k);
  ASSERT_GT(old.size(), 100u);
  const Doubled d{static_cast<uint32_t>(image.sections()[k.text_section].size)};
  const auto report = double_code(image, k);
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->dropped.empty());
  const Image again = parsed(*image.write());
  const auto moved = source_lines(again, info_of(again, "calls"));
  ASSERT_TRUE(moved.has_value()) << moved.error().to_string();
  for (const auto& [pc, position] : old) {
    for (const uint32_t place : {d.first(pc), d.first(pc) + 16, d.second(pc)}) {
      ASSERT_TRUE(moved->contains(place)) << std::hex << pc << " at " << place;
      EXPECT_EQ(moved->at(place).line, position.line) << std::hex << pc << " at " << place;
      EXPECT_EQ(moved->at(place).file, position.file);
    }
  }
  EXPECT_FALSE(moved->contains(0x70));  // the prologue has no source
  EXPECT_EQ(moved->size(), 3 * old.size());
}

// Rows, and the bytes of vendor opcodes, of a table.
std::pair<size_t, std::vector<Bytes>> contents(const Image& image, const char* section) {
  const Bytes& data = image.sections()[*image.find_section(section)].data;
  size_t rows = 0;
  std::vector<Bytes> others;
  DwarfCursor c(data, 0, data.size(), section);
  while (!c.done()) {
    const auto header = read_line_header(c, section);
    EXPECT_TRUE(header.has_value()) << header.error().to_string();
    DwarfCursor program(data, header->program, header->unit.end, section);
    while (!program.done()) {
      const auto op = read_line_op(program, *header);
      EXPECT_TRUE(op.has_value());
      rows += op->kind == LineOp::Kind::special || op->kind == LineOp::Kind::copy;
      if (op->kind == LineOp::Kind::other)
        others.emplace_back(data.begin() + op->begin, data.begin() + op->end);
    }
    c.seek(header->unit.end);
  }
  return {rows, others};
}

TEST_P(MovedLines, KeepEveryRowAndVendorOpcode) {
  for (const char* section : {".debug_line", ".nv_debug_line_sass"}) {
    Image image = image_of(GetParam());
    const auto [old_rows, old_others] = contents(image, section);
    ASSERT_GT(old_rows, 10u);
    const KernelInfo k = info_of(image, "calls");
    ASSERT_TRUE(double_code(image, k, false).has_value());
    const auto [rows, others] = contents(image, section);
    EXPECT_EQ(rows, old_rows);
    EXPECT_EQ(others, old_others);
    const ByteView old = image.original_data(*image.find_section(section));
    EXPECT_FALSE(std::ranges::equal(image.sections()[*image.find_section(section)].data, old));
  }
}

// The end of each sequence, relative to the address it sets.
std::vector<uint64_t> sequence_ends(const Image& image) {
  const Bytes& data = image.sections()[*image.find_section(".debug_line")].data;
  std::vector<uint64_t> ends;
  DwarfCursor c(data, 0, data.size(), "test");
  const auto header = read_line_header(c, "test");
  DwarfCursor program(data, header->program, header->unit.end, "test");
  for (uint64_t address = 0; !program.done();) {
    const auto op = read_line_op(program, *header);
    address += op->address_advance;
    if (op->kind != LineOp::Kind::end_sequence) continue;
    ends.push_back(address);
    address = 0;
  }
  return ends;
}

// A caller may say that the section ends behind the last copy: the primary sequence still ends where that
// copy starts.
TEST(MovedLine, ThePrimarySequenceDoesNotRunIntoTheCopy) {
  Image image = image_of("sm_90/calls_lineinfo");
  const KernelInfo k = info_of(image, "calls");
  ASSERT_THAT(sequence_ends(image), testing::ElementsAre(0x800));
  const Doubled d{0x800};
  MovedCode moved = d.moved();
  moved.boundary = [d](uint32_t old) { return old == 0 ? 0 : old == 0x800 ? d.bytes() : d.first(old); };
  ASSERT_TRUE(map_code_offsets(image, k, moved).has_value());
  EXPECT_THAT(sequence_ends(image), testing::ElementsAre(0x1080, 0x1880));
}

TEST(MovedLine, WhatCanNotBeReadStaysAndIsReported) {
  Image image = image_of("sm_90/calls_lineinfo");
  const KernelInfo k = info_of(image, "calls");
  const uint32_t section = *image.find_section(".debug_line");
  Bytes data = image.sections()[section].data;
  data[4] = std::byte{9};  // DWARF version
  image.set_section_data(section, data);
  const auto report = double_code(image, k);
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->dropped.size(), 1u);
  EXPECT_THAT(report->dropped[0],
              HasSubstr("debug_line: stale, kept verbatim (.debug_line: line table of DWARF version 9"));
  EXPECT_EQ(image.sections()[section].data, data);
  const auto lines = source_lines(image, k);
  ASSERT_FALSE(lines.has_value());
  EXPECT_EQ(lines.error().kind, ErrorKind::unsupported);
}

TEST(Dwarf, Leb128) {
  const std::pair<uint64_t, size_t> unsigned_values[] = {
      {0, 1}, {127, 1}, {128, 2}, {0x3fff, 2}, {~0ull, 10}};
  for (const auto& [value, size] : unsigned_values) {
    Bytes b;
    append_uleb(b, value);
    EXPECT_EQ(b.size(), size);
    EXPECT_EQ(*DwarfCursor(b, 0, b.size(), "test").uleb(), value);
  }
  for (const int64_t value :
       {int64_t{0}, int64_t{63}, int64_t{64}, int64_t{-64}, int64_t{-65}, INT64_MIN, INT64_MAX}) {
    Bytes b;
    append_sleb(b, value);
    EXPECT_EQ(*DwarfCursor(b, 0, b.size(), "test").sleb(), value);
  }
  const Bytes endless(12, std::byte{0xff});
  EXPECT_FALSE(DwarfCursor(endless, 0, endless.size(), "test").uleb().has_value());
  EXPECT_FALSE(DwarfCursor(endless, 0, 3, "test").sleb().has_value());
}

}  // namespace
}  // namespace xtrace::cubin
