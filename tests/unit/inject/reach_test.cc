#include "capture/inject/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace xtrace::inject {
namespace {

using bundle::RegionKind;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Bytes words(std::initializer_list<uint64_t> values) {
  Bytes out;
  for (const uint64_t v : values) append(out, v);
  return out;
}
std::vector<uint64_t> begins(const std::vector<KnownRegion*>& regions) {
  std::vector<uint64_t> out;
  for (const KnownRegion* r : regions) out.push_back(r->begin);
  return out;
}

constexpr uint64_t A = 0x7f0000000000, B = 0x7f0000100000, C = 0x302000000;

RegionTable table_abc() {
  RegionTable t;
  t.add({A, 0x1000, RegionKind::device, {}, false});
  t.add({B, 0x1000, RegionKind::device, {}, false});
  t.add({C, 0x1000, RegionKind::async_pool, {}, false});
  return t;
}

TEST(RegionTable, CutsWhatIsKnownAlready) {
  RegionTable t;
  EXPECT_EQ(t.add({0x1000, 0x100, RegionKind::global, "g", false}), 1u);
  EXPECT_EQ(t.add({0x2000, 0x100, RegionKind::global, "h", false}), 1u);
  EXPECT_EQ(t.add({0x0f00, 0x2000, RegionKind::asked, {}, false}), 3u);  // before g, between, after h
  EXPECT_EQ(t.find(0x0f00)->size, 0x100u);
  EXPECT_EQ(t.find(0x1000)->symbol, "g");
  EXPECT_EQ(t.find(0x1100)->begin, 0x1100u);
  EXPECT_EQ(t.find(0x1100)->size, 0xf00u);
  EXPECT_EQ(t.find(0x2100)->begin, 0x2100u);
  EXPECT_EQ(t.find(0x2eff)->end(), 0x2f00u);
  EXPECT_EQ(t.find(0x2f00), nullptr);
  EXPECT_EQ(t.add({0x1000, 0x1000, RegionKind::asked, {}, false}), 0u);
}

TEST(RegionTable, SelectsOnceAndSumsBytes) {
  RegionTable t = table_abc();
  std::vector<KnownRegion*> fresh;
  EXPECT_TRUE(t.select(A + 0xfff, fresh));
  EXPECT_TRUE(t.select(A, fresh));
  EXPECT_FALSE(t.select(A + 0x1000, fresh));
  EXPECT_THAT(begins(fresh), ElementsAre(A));
  EXPECT_EQ(t.selected_bytes(), 0x1000u);
  t.select_all(fresh);
  EXPECT_THAT(begins(t.selected()), ElementsAre(C, A, B));
  EXPECT_EQ(t.selected_bytes(), 0x3000u);
}

TEST(RegionTable, MappingsThatTouchComeTogether) {
  RegionTable t;
  for (const uint64_t begin : {0x10200000ull, 0x10400000ull, 0x10600000ull, 0x10a00000ull})
    t.add({begin, 0x200000, RegionKind::vmm, {}, false});
  t.add({0x10800000, 0x1000, RegionKind::device, {}, false});  // touches, but is no mapping
  std::vector<KnownRegion*> fresh;
  EXPECT_TRUE(t.select(0x10400010, fresh));
  EXPECT_THAT(begins(fresh), UnorderedElementsAre(0x10200000, 0x10400000, 0x10600000));
}

TEST(WordScanner, FindsPointersIntoKnownRegionsTransitively) {
  RegionTable t = table_abc();
  WordScanner scanner(t);
  std::vector<KnownRegion*> fresh;
  scanner.scan(words({1, B + 0x10, B + 0x20, 0}), 8, fresh);
  EXPECT_THAT(begins(fresh), ElementsAre(B));
  fresh.clear();
  scanner.scan(words({C + 0xfff, C, A + 0x1000}), 8, fresh);
  EXPECT_THAT(begins(fresh), ElementsAre(C));
  EXPECT_THAT(begins(t.selected()), ElementsAre(C, B));
}

TEST(WordScanner, StrideFourSeesPackedPointers) {
  RegionTable t = table_abc();
  Bytes block(16);
  std::memcpy(block.data() + 4, &A, 8);
  std::vector<KnownRegion*> fresh;
  WordScanner(t).scan(block, 8, fresh);
  EXPECT_THAT(begins(fresh), IsEmpty());
  WordScanner(t).scan(block, 4, fresh);
  EXPECT_THAT(begins(fresh), ElementsAre(A));
}

TEST(WordScanner, ATrailingPartialWordIsNoWord) {
  RegionTable t = table_abc();
  Bytes block = words({A});
  block.resize(7);
  std::vector<KnownRegion*> fresh;
  WordScanner(t).scan(block, 8, fresh);
  EXPECT_THAT(begins(fresh), IsEmpty());
}

TEST(MappedRanges, AreReadFromTheTextOfTheKernel) {
  const auto ranges = mapped_ranges(
      "302000000-48ea000000 ---p 00000000 00:00 0 \n"
      "7f0000000000-7f0000001000 rw-p 00000000 08:01 12   /usr/lib/x-7f0000005000.so\n"
      "not a line\n"
      "7f0000001000-7f0000003000 r--p 00001000 08:01 12   /usr/lib/x.so\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]");
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].begin, 0x302000000u);
  EXPECT_EQ(ranges[0].end, 0x48ea000000u);
  EXPECT_EQ(ranges[1].begin, 0x7f0000000000u);
  EXPECT_EQ(ranges[1].end, 0x7f0000003000u) << "ranges that touch are one";
  EXPECT_EQ(ranges[2].end, 0xffffffffff601000u);
  EXPECT_TRUE(mapped_ranges("").empty());
}

TEST(WordScanner, ReportsOnlyMappedAddresses) {
  RegionTable t = table_abc();
  unsigned asked = 0;
  WordScanner scanner(t, [&] {
    ++asked;
    return std::vector<AddressRange>{{0x200000000, 0x300000000}, {0x7e0000000000, 0x7e0000010000}};
  });
  std::vector<KnownRegion*> fresh;
  scanner.scan(words({A, 5}), 8, fresh);
  EXPECT_EQ(asked, 0u) << "known regions need no mappings";
  scanner.scan(words({0x7dffffffffff, 0x7e0000000000, 0x7e000000ffff, 0x7e0000010000, 0x1ffffffff, 0x2ffffffff,
                      0x300000000}),
               8, fresh);
  EXPECT_THAT(scanner.take_unknown(), ElementsAre(0x7e0000000000, 0x2ffffffff));
  EXPECT_EQ(asked, 1u);
  // The limit counts what can be an address, not what looks like one.
  Bytes lookalikes;
  for (uint64_t i = 0; i < 2 * WordScanner::unknown_limit; ++i) append(lookalikes, 0x100000000000 + (i << 16));
  scanner.scan(lookalikes, 8, fresh);
  EXPECT_FALSE(scanner.unknown_overflow());
}

TEST(WordScanner, ReportsUnknownAddressesOncePerPage) {
  RegionTable t = table_abc();
  WordScanner scanner(t);
  std::vector<KnownRegion*> fresh;
  const uint64_t unknown = 0x7e0000000000;
  const Bytes data = words({unknown, unknown + 8, unknown + 0x10000, 42, 0xffff800000000000, A});
  scanner.scan(data, 8, fresh);
  EXPECT_THAT(scanner.take_unknown(), ElementsAre(unknown, unknown + 0x10000));
  scanner.scan(data, 8, fresh);
  EXPECT_THAT(scanner.take_unknown(), IsEmpty());
  scanner.found(unknown);  // the driver knew it: the page is open again
  scanner.scan(words({unknown + 0x800}), 8, fresh);
  EXPECT_THAT(scanner.take_unknown(), ElementsAre(unknown + 0x800));
}

TEST(WordScanner, SeesRegionsAddedAfterItWasMade) {
  RegionTable t = table_abc();
  WordScanner scanner(t);
  std::vector<KnownRegion*> fresh;
  const uint64_t late = 0x7e0000000000;
  scanner.scan(words({late}), 8, fresh);
  EXPECT_THAT(begins(fresh), IsEmpty());
  t.add({late, 0x100, RegionKind::asked, {}, false});
  scanner.scan(words({late + 4}), 8, fresh);
  EXPECT_THAT(begins(fresh), ElementsAre(late));
}

TEST(WordScanner, BoundsTheNumberOfQuestions) {
  RegionTable t;
  WordScanner scanner(t);
  Bytes data;
  for (uint64_t i = 0; i < WordScanner::unknown_limit + 10; ++i)
    append(data, uint64_t{0x20000000} + i * 0x10000);
  std::vector<KnownRegion*> fresh;
  scanner.scan(data, 8, fresh);
  EXPECT_EQ(scanner.take_unknown().size(), WordScanner::unknown_limit);
  EXPECT_TRUE(scanner.unknown_overflow());
}

}  // namespace
}  // namespace xtrace::inject
