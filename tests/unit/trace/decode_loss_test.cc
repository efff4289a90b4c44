// Every loss, made on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "encoder.h"
#include "trace/decode.h"

namespace xtrace::trace {
namespace {

using testing::all;
using testing::Buffer;
using testing::diamond_loop;
using ::testing::ElementsAre;
using testing::events_of;
using testing::fill_others;

struct LossCase {
  const char* what;
  Loss loss;
  TraceKind kind;
  std::function<void(Buffer&)> make;  // warp 0 is the victim
  uint64_t kept_records, lost_bytes;
  uint64_t other_losses = 0;  // of severity lost or distrust that necessarily come with it
};

void three_blocks(Buffer& b) {
  b.start(0, 100);
  for (uint32_t i : {0u, 1u, 3u}) b.block(0, i, all, 110 + i);
}

const LossCase loss_cases[] = {
    {"stopped", Loss::not_exited, TraceKind::block, [](Buffer& b) { three_blocks(b); }, 3, 0},
    {"no header", Loss::never_started, TraceKind::block, [](Buffer&) {}, 0, 0},
    {"empty", Loss::no_records, TraceKind::block,
     [](Buffer& b) {
       b.start(0, 5);
       b.exit(0, 9);
     },
     0, 0},
    {"bytes + 4", Loss::ragged_bytes, TraceKind::block,
     [](Buffer& b) {
       three_blocks(b);
       b.exit(0, 200);
       b.headers[0].bytes += 4;
     },
     3, 0},
    {"longer than its slot", Loss::guard_overrun, TraceKind::block,
     [](Buffer& b) {
       b.start(0, 100);
       for (uint32_t i = 0; i < 61; ++i) b.block(0, i % 2 ? 3 : 1, all, 110 + i);
       b.exit(0, 500);
     },
     60, 16},
    {"wrapped", Loss::wrapped, TraceKind::block,
     [](Buffer& b) {
       b.map.layout.wraps = true;
       b.start(0, 100);
       for (uint32_t i = 0; i < 100; ++i) b.block(0, i % 2 ? 3 : 1, all, 110 + i);
       b.exit(0, 500);
     },
     64, 36 * 16},
    {"short buffer", Loss::slot_missing, TraceKind::block,
     [](Buffer& b) {
       three_blocks(b);
       b.exit(0, 200);
       b.map.layout.warps = b.map.layout.warps_per_cta = 1;
       b.memory.resize(64 + 40);
     },
     2, 16},
    {"last record cut", Loss::truncated_record, TraceKind::inst,
     [](Buffer& b) {
       uint64_t c = 100;
       b.start(0, c);
       b.inst_run(0, 0, all, c);
       b.inst_run(0, 2, all, c);
       b.exit(0, c + 1);
       b.headers[0].bytes -= 16;
     },
     1, 32},
    {"kind 9", Loss::unknown_kind, TraceKind::block,
     [](Buffer& b) {
       three_blocks(b);
       b.raw(0, {0x90000001, all, 1, 0});
       b.block(0, 4, all, 150);
       b.exit(0, 200);
     },
     4, 16},
    {"block 77", Loss::unknown_index, TraceKind::block,
     [](Buffer& b) {
       three_blocks(b);
       b.raw(0, {0x1000004d, all, 1, 0});
       b.block(0, 4, all, 150);
       b.exit(0, 200);
     },
     4, 16},
    {"inst record in a block trace", Loss::kind_mismatch, TraceKind::block,
     [](Buffer& b) {
       three_blocks(b);
       b.raw(0, {0x20000001, all, 1, 0});
       b.block(0, 4, all, 150);
       b.exit(0, 200);
     },
     4, 16},
    {"edge record at a pair site", Loss::kind_mismatch, TraceKind::pair,
     [](Buffer& b) {
       b.start(0, 5);
       b.pair(0, 0, all, 6, 9);
       b.edge(0, true, 0, all, 12);
       b.exit(0, 30);
     },
     1, 16},
    {"block without probe", Loss::unprobed_block, TraceKind::block,
     [](Buffer& b) {
       b.map.blocks[2].record_bytes = 0;
       three_blocks(b);
       b.block(0, 2, all, 140);
       b.exit(0, 200);
     },
     3, 16},
    {"clock before start", Loss::clock_before_start, TraceKind::block,
     [](Buffer& b) {
       b.start(0, 100);
       b.block(0, 0, all, 99);
       b.exit(0, 200);
     },
     1, 0},
    {"32-bit clock before start", Loss::clock_before_start, TraceKind::pair,
     [](Buffer& b) {
       b.start(0, 0x1'0000'0002);
       b.pair(0, 0, all, 0xffff'ffff, 0x1'0000'0005);
       b.exit(0, 0x1'0000'0009);
     },
     1, 0},
    {"clock after exit", Loss::clock_after_exit, TraceKind::block,
     [](Buffer& b) {
       three_blocks(b);
       b.exit(0, 112);
     },
     3, 0},
    {"32-bit clocks behind a wrap", Loss::epoch_assumed, TraceKind::pair,
     [](Buffer& b) {
       b.map.layout.wraps = true;
       b.start(0, 100);
       for (uint32_t i = 0; i < 65; ++i) b.pair(0, 0, all, 110 + 10 * i, 115 + 10 * i);
       b.exit(0, 900);
     },
     64, 0, 1},
    {"unsampled CTA wrote", Loss::unsampled_records, TraceKind::block,
     [](Buffer& b) {
       b.map.layout.one_in = 2;
       b.map.layout.seed = 0;
       while (wire::cta_is_sampled(0, 2, b.map.layout.seed) || !wire::cta_is_sampled(1, 2, b.map.layout.seed))
         b.map.layout.seed += 0x10000001;
       b.block(0, 0, all, 20);
       std::swap(b.headers[1].bytes, b.headers[1].sm);  // and warp 1 left only a header
     },
     0, 0, 1},
};

TEST(DecodeLoss, EachIsCountedOnceWithItsBytes) {
  for (const LossCase& c : loss_cases) {
    SCOPED_TRACE(c.what);
    Buffer b(diamond_loop(c.kind));
    for (uint32_t w = 1; w < 4; ++w) {
      b.start(w, 1000);
      if (c.kind == TraceKind::block) b.block(w, 0, all, 1010);
      if (c.kind == TraceKind::inst) b.inst(w, 0, all, {1010, 1020, 1030});
      b.exit(w, 1200);
    }
    c.make(b);
    std::vector<WarpTrace> t;
    const auto s = b.decode(c.kind, t);
    ASSERT_TRUE(s) << s.error().to_string();
    if (c.loss == Loss::unsampled_records) {
      EXPECT_EQ(s->losses.count(c.loss), 2u);
      EXPECT_EQ(s->unsampled_warps, 2u);
      continue;
    }
    EXPECT_EQ(s->losses.count(c.loss), 1u);
    EXPECT_EQ(s->losses.row(c.loss).first_warp, 0u);
    if (c.loss != Loss::epoch_assumed) {
      EXPECT_EQ(s->losses.row(c.loss).bytes, c.lost_bytes);
    }
    EXPECT_EQ(t[0].records(), c.kept_records);
    const uint64_t own = loss_info(c.loss).severity == LossSeverity::note ? 0 : 1;
    EXPECT_EQ(s->losses.count(LossSeverity::lost) + s->losses.count(LossSeverity::distrust),
              own + c.other_losses);
    EXPECT_EQ(t[0].bytes_written, t[0].bytes_dropped + (t[0].exited ? t[0].bytes_kept : 0));
    EXPECT_EQ(!t[0].gaps.empty(), loss_info(c.loss).severity == LossSeverity::lost || c.other_losses != 0);
  }
}

TEST(DecodeLoss, EveryKindHasATest) {
  std::set<Loss> tested{Loss::neighbour_overwrote, Loss::neighbour_overran, Loss::count_changed,   // below
                        Loss::value_untold};                                                    // implied_points_test.cc
  for (const LossCase& c : loss_cases) tested.insert(c.loss);
  for (const LossInfo& info : all_losses()) EXPECT_TRUE(tested.count(info.loss)) << info.name;
}

TEST(DecodeLoss, OverrunKeepsWhatFitsAndDistrustsTheNextSlot) {
  Buffer b(diamond_loop(TraceKind::block));
  fill_others(b, TraceKind::block);
  b.start(0, 100);
  for (uint32_t i = 0; i < 70; ++i) b.block(0, i % 2 ? 3 : 1, all, 110 + i);  // 1024 - 64 = 60 records fit
  b.exit(0, 500);
  std::vector<WarpTrace> t;
  const auto s = b.decode(TraceKind::block, t);
  ASSERT_TRUE(s);
  EXPECT_EQ(t[0].records(), 60u);
  EXPECT_EQ(t[0].bytes_dropped, 160u);
  EXPECT_THAT(t[0].gaps, ElementsAre(60u));
  EXPECT_EQ(s->losses.row(Loss::guard_overrun).bytes, 160u);
  EXPECT_EQ(s->losses.count(Loss::neighbour_overran), 1u);
  EXPECT_EQ(s->losses.row(Loss::neighbour_overran).first_warp, 1u);
}

TEST(DecodeLoss, CountOfTheCountingReplay) {
  Buffer b(diamond_loop(TraceKind::block));
  fill_others(b, TraceKind::block, 0);
  std::vector<uint64_t> counted{64, 64, 80, 64};
  DecodeOptions o;
  o.counted_bytes = counted;
  std::vector<WarpTrace> t;
  const auto s = b.decode(TraceKind::block, t, o);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->losses.count(Loss::count_changed), 1u);
  EXPECT_EQ(s->losses.row(Loss::count_changed).first_warp, 2u);
  EXPECT_TRUE(s->losses.none());
}

TEST(DecodeLoss, RecordsBehindADamagedChunkAreFoundAgain) {
  Buffer b(diamond_loop(TraceKind::inst));
  fill_others(b, TraceKind::inst);
  uint64_t c = 100;
  b.start(0, c);
  for (uint32_t i : {0u, 2u, 3u, 4u}) b.inst_run(0, i, all, c);
  b.exit(0, c + 9);
  b.memory[64 + 32] = std::byte{0x55};  // word 0 of the record of B2
  b.memory[64 + 35] = std::byte{0x77};
  std::vector<WarpTrace> t;
  const auto s = b.decode(TraceKind::inst, t);
  ASSERT_TRUE(s);
  ASSERT_THAT(t[0].index, ElementsAre(0u, 3u, 4u));
  EXPECT_THAT(t[0].gaps, ElementsAre(1u));
  EXPECT_EQ(t[0].bytes_dropped, 48u);
  EXPECT_EQ(events_of(t[0])[2], b.events[0][3]);
}

TEST(DecodeLoss, AClockThatLooksLikeAHeaderDoesNotMisleadTheSearch) {
  Buffer b(diamond_loop(TraceKind::inst));
  fill_others(b, TraceKind::inst);
  uint64_t c = 0x2000'0000 - 100;
  b.start(0, c);
  b.inst_run(0, 0, all, c);
  c = 0x2000'0004 - 9;
  b.inst_run(0, 2, all, c);  // its third clock, first word of a chunk, is 0x20000004: "inst record of B4"
  ASSERT_EQ(b.events[0][1].clocks[2], 0x2000'0004u);
  b.inst_run(0, 3, all, c);
  b.inst_run(0, 4, all, c);
  b.exit(0, c + 9);
  b.memory[64 + 32 + 3] = std::byte{0x77};  // the header of B2
  std::vector<WarpTrace> t;
  ASSERT_TRUE(b.decode(TraceKind::inst, t));
  ASSERT_THAT(t[0].index, ElementsAre(0u, 3u, 4u));
  EXPECT_EQ(events_of(t[0])[2], b.events[0][3]);
}

}  // namespace
}  // namespace xtrace::trace
