// Records in plain slots, in every form.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/instrument/plain_splices.h"

namespace xtrace::instrument::test {
namespace {

TEST(Splice, PlainSlots) {
  size_t packed = 0, in_head = 0, chained = 0, absent = 0, implied = 0, head_alone = 0, counts = 0, sectors = 0;
  const LaunchShape one{{120, 1, 1}, {128, 1, 1}, {0, 0, 0}, 0}, two = small_shape(), three{{4, 5, 6}, {8, 4, 4}, {0, 0, 0}, 0};
  for (const char* arch : {"sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"})
  for (const Kernel& k : fixture_kernels(arch))
    for (const PlainConfig& c : plain_configs)
      for (const auto& [shape, slots] : std::vector<std::pair<LaunchShape, uint64_t>>{
               {one, 0x100000400000}, {two, 0x100000400000}, {three, 0x100000400000},
               {two, 0x1000fff00000}}) {   // in one 4 GiB window, and across its end
        SCOPED_TRACE(fmt::format("{} {} {} full {} table {} short {} sectors {} grid {}x{}x{}", arch, k.name, probe_info(c.probe).name, c.full, c.table,
                                 c.is_short, c.sectors, shape.grid.x, shape.grid.y, shape.grid.z));
        const auto spliced = splice_plain(k, c, slots, shape);
        if (!spliced) {
          EXPECT_EQ(spliced.error().kind, ErrorKind::unsupported) << spliced.error().to_string();
          continue;
        }
        const wire::AddressMap& map = spliced->map;
        in_head += map.layout.entry_in_head;
        sectors += map.layout.whole_sectors;
        std::optional<bool> aligned;
        for (size_t b = 0; b < map.blocks.size(); ++b) {
          const wire::Block& block = map.blocks[b];
          chained += block.chain.size();
          if (map.layout.whole_sectors) {
            EXPECT_EQ(block.record_bytes % wire::sector_bytes, 0u) << "block " << b;
          }
          if (map.layout.short_records && block.chain.empty() && block.record_bytes != 0) {
            // Full blocks have one word, unless all records have two: where blocks that are not full are not seldom (one of few is
            // not), or where blocks are paired.
            const uint32_t own = block.record_bytes - block.rounds_bytes();   // counts stand behind; one alone in the second word
            counts += block.rounds_at != 0;
            const bool two = own == 8;
            EXPECT_TRUE(two || (block.full && own == 4)) << "block " << b;
            if (block.rounds_alike) continue;
            if (block.full) {
              EXPECT_EQ(aligned.value_or(two), two) << "block " << b;
              aligned = two;
            }
          }
          if (!block.chain.empty()) {
            EXPECT_EQ(block.record_bytes, block.chain.size() == 1 ? 8u : 16u);
          }
          if (block.clock_at.empty()) continue;
          // Every clock has a word of its own, none is word0, and the record is not longer than an unpacked one.
          ++packed;
          EXPECT_TRUE(c.probe == ProbeKind::inst);
          ASSERT_EQ(block.clock_at.size(), block.instructions);
          std::set<uint32_t> bytes;   // all of a clock, and nothing twice
          for (const wire::ClockPlace& p : block.clock_at) {
            absent += p.bytes == wire::ClockPlace::absent;
            implied += p.bytes == wire::ClockPlace::implied;
            EXPECT_TRUE(c.clock_gap != 0 || p.bytes != wire::ClockPlace::implied);
            for (uint32_t k = 0; k < p.bytes && p.bytes <= 4; ++k) EXPECT_TRUE(bytes.insert(p.byte + k).second);
          }
          head_alone += bytes.empty() && !block.implied;
          if (bytes.empty()) continue;
          EXPECT_GE(*bytes.begin(), block.full ? 4u : 8u);
          EXPECT_LT(*bytes.rbegin(), block.record_bytes);
        }
      }
  EXPECT_GT(packed, 100u);
  EXPECT_GT(chained, 20u);
  EXPECT_LT(absent, 1000u);   // of some 60,000 clocks
  EXPECT_GT(implied, 10000u);
  EXPECT_GT(head_alone, 100u);   // the clock above the block number, and no other
  EXPECT_GE(in_head, 13u);
  EXPECT_GE(counts, 8u);   // blocks behind loops whose rounds are counted
  EXPECT_GT(sectors, 150u);
}

}  // namespace
}  // namespace xtrace::instrument::test
