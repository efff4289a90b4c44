// Address records: decoding, losses, the file, sectors and wavefronts. Expected numbers are worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "tests/json_document.h"
#include "trace/mem_analysis.h"
#include "trace/trace_file.h"

namespace xtrace::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::Access;

constexpr uint64_t base = 0x400000000;
constexpr uint32_t all = ~0u;

// Two warps of one CTA in slots of 1 KiB. Block 0 reads global memory by a register of 64 bits, block 1 nothing, block 2
// stores to shared memory by a register and a uniform one, some lanes only, and reads local memory.
wire::AddressMap small_map() {
  wire::AddressMap map;
  map.blocks.resize(3);
  for (uint32_t b = 0; b < 3; ++b) map.blocks[b].first_pc = 0x100 * b;
  map.blocks[0].record_bytes = 128 + 2 * 128;
  map.blocks[2].record_bytes = 128 + 2 * 128;
  Access load;
  load.pc = 0x10;
  load.bytes = 4;
  load.wide = true;
  load.offset = -16;
  load.low = 128;
  load.high = 256;
  Access store;
  store.pc = 0x210;
  store.block = 2;
  store.space = Access::Space::shared;
  store.kind = Access::Kind::store;
  store.bytes = 4;
  store.offset = 8;
  store.low = 128;
  store.uniform_low = 12;
  store.mask = 8;
  Access local;
  local.pc = 0x220;
  local.block = 2;
  local.space = Access::Space::local;
  local.bytes = 4;
  local.low = 256;
  map.accesses = {load, store, local};
  map.layout.slots = base;
  map.layout.slot_bytes = 1024 + 128;
  map.layout.lead_bytes = 128;
  map.layout.warps = 2;
  map.layout.warps_per_cta = 2;
  return map;
}

class Slots {
 public:
  explicit Slots(const wire::AddressMap& map) : map_(map), bytes_(map.layout.warps * map.layout.slot_bytes) {
    for (uint32_t w = 0; w < map.layout.warps; ++w) start(w);
  }
  void start(uint32_t warp) { write_at(std::span(bytes_), at(warp, 0), wire::SlotHead{77, 3u << 20 | 5u << 8 | 9}); }
  void erase(uint32_t warp) { write_at(std::span(bytes_), at(warp, 0), uint64_t{0}); }
  void word(uint32_t warp, uint64_t offset, uint32_t v) { write_at(std::span(bytes_), at(warp, map_.layout.lead_bytes + offset), v); }
  void column(uint32_t warp, uint64_t offset, const std::function<uint32_t(uint32_t)>& of) {
    for (uint32_t lane = 0; lane < 32; ++lane) word(warp, offset + 4 * lane, of(lane));
  }
  // An execution of block 0 at `offset`: lane l reads 0x7f0000001000 + 4 * l, with 16 added before the offset.
  void load(uint32_t warp, uint64_t offset, uint32_t active = all) {
    word(warp, offset, wire::word0(wire::RecordKind::mem, 0));
    word(warp, offset + 4, active);
    column(warp, offset + 128, [](uint32_t l) { return 0x1010 + 4 * l; });
    column(warp, offset + 256, [](uint32_t) { return 0x7f00; });
  }
  DeviceReader reader() const { return buffer_reader(base, bytes_); }

 private:
  uint64_t at(uint32_t warp, uint64_t offset) const { return uint64_t{warp} * map_.layout.slot_bytes + offset; }
  const wire::AddressMap& map_;
  Bytes bytes_;
};

struct Seen {
  uint32_t warp, index, mask;
  std::vector<uint64_t> addresses;
  bool operator==(const Seen&) const = default;
};
class Collector : public MemVisitor {
 public:
  Status block(uint32_t block, uint32_t active) override {
    blocks.push_back({block, active});
    return {};
  }
  Status access(uint32_t index, uint32_t mask, const LaneAddresses& a) override {
    Seen s{0, index, mask, {}};
    for (uint32_t l = 0; l < 32; ++l)
      if (mask >> l & 1) s.addresses.push_back(a[l]);
    seen.push_back(std::move(s));
    return {};
  }
  Status operands(uint32_t index, uint32_t active, std::span<const uint32_t> words) override {
    seen.push_back({0, index, active, {words.begin(), words.end()}});
    return {};
  }
  Status warp(const MemWarp& w) override {
    for (Seen& s : seen)
      if (s.warp == 0) s.warp = w.warp + 1;
    warps.push_back(w);
    return {};
  }
  std::vector<std::pair<uint32_t, uint32_t>> blocks;
  std::vector<Seen> seen;   // warp + 1
  std::vector<MemWarp> warps;
};

TEST(MemTrace, AddressesAreColumnsScalarsAndOffset) {
  const wire::AddressMap map = small_map();
  Slots slots(map);
  slots.load(0, 0, 0x3);
  slots.word(0, 384, wire::word0(wire::RecordKind::mem, 2));
  slots.word(0, 384 + 4, 0xf);
  slots.word(0, 384 + 8, 0x15);        // lanes 0 2 4 by the guard, of which 4 is not active
  slots.word(0, 384 + 12, 0x100);      // uniform register
  slots.column(0, 384 + 128, [](uint32_t l) { return 0xfffffff8 + 16 * l; });   // wraps at 32 bits
  slots.column(0, 384 + 256, [](uint32_t) { return 0x40; });
  Collector c;
  const auto summary = decode_mem(map, slots.reader(), {}, std::vector<uint64_t>{768, 0}, c);
  ASSERT_TRUE(summary) << summary.error().to_string();
  EXPECT_TRUE(summary->losses.none());
  EXPECT_EQ(summary->losses.count(Loss::count_changed), 0u);
  EXPECT_EQ(summary->records, 2u);
  EXPECT_EQ(summary->bytes_written, 768u);
  EXPECT_EQ(c.warps[0].sm, 3u);
  EXPECT_EQ(c.warps[0].hardware_slot, 5u);
  EXPECT_THAT(c.blocks, ElementsAre(std::pair{0u, 3u}, std::pair{2u, 15u}));
  EXPECT_THAT(c.seen, ElementsAre(Seen{1, 0, 0x3, {0x7f0000001000, 0x7f0000001004}}, Seen{1, 1, 0x5, {0x100, 0x120}},
                                  Seen{1, 2, 0xf, {0x40, 0x40, 0x40, 0x40}}));
}

TEST(HighWords, FollowFromLowOnesWhereNoTwoBytesShareOne) {
  using wire::HighWords;
  using Pieces = std::vector<HighWords::Piece>;
  const auto pieces = [](std::vector<HighWords::Range> memory) { return HighWords::of(memory).pieces(); };
  constexpr uint64_t f0 = 0x7f00ull << 32, f1 = 0x7f01ull << 32;
  EXPECT_EQ(pieces({}), Pieces{});
  EXPECT_EQ(pieces({{f0 + 0x1000, f0 + 0x2000}, {f0 + 0x8000, f0 + 0x9000}}), (Pieces{{0x1000, 0x7f00}}));
  // Memory that goes on behind a multiple of 4 GiB, and some that begins there.
  EXPECT_EQ(pieces({{f1 - 0x1000, f1 + 0x1000}}), (Pieces{{0, 0x7f01}, {0xfffff000, 0x7f00}}));
  EXPECT_EQ(pieces({{f1, f1 + 0x1000}, {f1 - 0x1000, f1}}), (Pieces{{0, 0x7f01}, {0xfffff000, 0x7f00}}));
  // The same low word in both, by a single byte or from end to end.
  EXPECT_EQ(pieces({{f0 + 0x1000, f0 + 0x2000}, {f1 + 0x1fff, f1 + 0x3000}}), Pieces{});
  EXPECT_EQ(pieces({{f0 + 0x1000, f0 + 0x2000}, {f1 + 0x2000, f1 + 0x3000}}), (Pieces{{0x1000, 0x7f00}, {0x2000, 0x7f01}}));
  EXPECT_EQ(pieces({{f0 + 0x1000, f0 + 0x9000}, {f1 + 0x2000, f1 + 0x3000}, {f0 + 0x2000, f0 + 0x3000}}), Pieces{});
  EXPECT_EQ(pieces({{f0, f1}}), (Pieces{{0, 0x7f00}}));
  EXPECT_EQ(pieces({{f0 + 0x1000, f1 + 0x1000}}), (Pieces{{0, 0x7f01}, {0x1000, 0x7f00}}));
  EXPECT_EQ(pieces({{f0, f1 + 1}}), Pieces{});
  EXPECT_EQ(pieces({{f0 + 8, f0 + 8}, {f0 + 16, f0 + 32}, {f1 + 4, f1 + 4}}), (Pieces{{16, 0x7f00}}));

  const HighWords two = HighWords::of_pieces({{0x100, 0x7f01}, {0xfffff000, 0x7f00}});
  EXPECT_EQ(two.of_low(0x100), 0x7f01u);
  EXPECT_EQ(two.of_low(0xffffefff), 0x7f01u);
  EXPECT_EQ(two.of_low(0xfffff000), 0x7f00u);
  EXPECT_EQ(two.of_low(0), 0x7f01u);   // outside
  EXPECT_EQ(HighWords().of_low(5), 0u);
}

// Lanes on both sides of a multiple of 4 GiB, which the address register and the offset straddle as well.
TEST(MemTrace, HighWordsOfBothSidesOf4GiB) {
  wire::AddressMap map = small_map();
  map.accesses[0].high = Access::none;
  map.accesses[0].high_is_known = true;
  map.accesses[0].offset = -16;
  map.layout.memory_highs = wire::HighWords::of_pieces({{0, 0x7f01}, {0xfffff000, 0x7f00}});
  Slots slots(map);
  slots.load(0, 0, 0x3);
  slots.word(0, map.accesses[0].low, 0x8);
  slots.word(0, map.accesses[0].low + 4, 0x10);
  Collector c;
  ASSERT_TRUE(decode_mem(map, slots.reader(), {}, {}, c));
  EXPECT_THAT(c.seen[0].addresses, ElementsAre(0x7f00fffffff8, 0x7f0100000000));
}

TEST(MemTrace, KnownHighWordsAndCarries) {
  wire::AddressMap map = small_map();
  map.accesses[0].high = Access::none;
  map.accesses[0].high_is_known = true;
  map.layout.memory_highs = wire::HighWords::of_pieces({{0, 0x7f00}});
  Slots slots(map);
  slots.load(0, 0, 1);
  Collector c;
  ASSERT_TRUE(decode_mem(map, slots.reader(), {}, {}, c));
  EXPECT_EQ(c.seen[0].addresses[0], 0x7f0000001000u);
  // 32-bit register plus a 64-bit uniform base: the carry counts.
  map = small_map();
  map.accesses[0].high = Access::none;
  map.accesses[0].uniform_low = 8;
  map.accesses[0].uniform_high = 12;
  Slots again(map);
  again.load(0, 0, 1);
  again.word(0, 8, 0xffffff00);
  again.word(0, 12, 0x7e);
  Collector d;
  ASSERT_TRUE(decode_mem(map, again.reader(), {}, {}, d));
  EXPECT_EQ(d.seen[0].addresses[0], 0x7f00000f00u);
}

TEST(MemTrace, LossesAreCounted) {
  const wire::AddressMap map = small_map();
  const auto losses = [&](const std::function<void(Slots&)>& damage, std::vector<uint64_t> counted = {}) {
    Slots slots(map);
    slots.load(0, 0);
    slots.load(1, 0);
    damage(slots);
    Collector c;
    const auto summary = decode_mem(map, slots.reader(), {}, counted, c);
    EXPECT_TRUE(summary);
    return summary->losses;
  };
  EXPECT_TRUE(losses([](Slots&) {}).none());
  EXPECT_EQ(losses([](Slots& s) { s.erase(1); }).count(Loss::never_started), 1u);
  EXPECT_EQ(losses([](Slots& s) { s.word(0, 384, wire::word0(wire::RecordKind::block, 0)); }).count(Loss::kind_mismatch), 1u);
  EXPECT_EQ(losses([](Slots& s) { s.word(0, 384, 0xf0000000); }).count(Loss::unknown_kind), 1u);
  EXPECT_EQ(losses([](Slots& s) { s.word(0, 384, wire::word0(wire::RecordKind::mem, 9)); }).count(Loss::unknown_index), 1u);
  EXPECT_EQ(losses([](Slots& s) { s.word(0, 384, wire::word0(wire::RecordKind::mem, 1)); }).count(Loss::unprobed_block), 1u);
  // Three records do not fit: the third ends behind the slot.
  EXPECT_EQ(losses([](Slots& s) {
              s.load(0, 384);
              s.word(0, 768, wire::word0(wire::RecordKind::mem, 0));
            }).count(Loss::guard_overrun), 1u);
  EXPECT_EQ(losses([](Slots&) {}, {384, 768}).count(Loss::count_changed), 1u);
}

TEST(MemTrace, UnsampledWarps) {
  wire::AddressMap map = small_map();
  map.layout.warps = 64;
  map.layout.one_in = 4;
  map.layout.seed = 1;
  Slots slots(map);
  uint32_t expected = 0;
  for (uint32_t w = 0; w < 64; ++w)
    if (!wire::cta_is_sampled(w / 2, 4, 1)) slots.erase(w), ++expected;
  Collector c;
  auto summary = decode_mem(map, slots.reader(), {}, {}, c);
  ASSERT_TRUE(summary);
  EXPECT_TRUE(summary->losses.none());
  EXPECT_EQ(summary->unsampled_warps, expected);
  for (uint32_t w = 0; w < 64; ++w) slots.start(w);
  summary = decode_mem(map, slots.reader(), {}, {}, c);
  EXPECT_EQ(summary->losses.count(Loss::unsampled_records), expected);
}

TEST(MemTrace, MapsThatContradictThemselves) {
  Collector c;
  for (const auto& damage : std::vector<std::function<void(wire::AddressMap&)>>{
           [](auto& m) { m.accesses[2].block = 0; }, [](auto& m) { m.accesses[0].block = 7; },
           [](auto& m) { m.accesses[0].low = 300; }, [](auto& m) { m.accesses[1].mask = 0xfffffffe; }}) {
    wire::AddressMap map = small_map();
    damage(map);
    const Slots slots(map);
    const auto summary = decode_mem(map, slots.reader(), {}, {}, c);
    ASSERT_FALSE(summary);
    EXPECT_EQ(summary.error().kind, ErrorKind::bad_input);
  }
}

// --- the file

class MemFile : public ::testing::Test {
 protected:
  void SetUp() override { path_ = std::filesystem::path(::testing::TempDir()) / fmt::format("xtrace_mem_{}.xtrace", getpid()); }
  void TearDown() override { std::filesystem::remove(path_); }

  // Every shape of address vectors, under every kind of mask.
  void write(MemVisitor& v, uint32_t records = 200) {
    uint64_t random = 1;
    for (uint32_t n = 0; n < records; ++n) {
      const uint32_t active = n % 3 == 0 ? all : 0xf0f0f0f1 << (n % 7);
      (void)v.block(0, active);
      LaneAddresses a{};
      for (uint32_t l = 0; l < 32; ++l) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        a[l] = n % 4 == 0 ? 0x7f0000000000 : n % 4 == 1 ? 0x7f0000000000 + 4 * l : n % 4 == 2 ? 0x1000 - 8ull * l : random;
      }
      (void)v.access(0, n % 5 == 4 ? 0 : n % 5 == 3 ? active & 0xff00ffff : active, a);
    }
    MemWarp w;
    w.warp = 1;
    w.cta = 0;
    w.warp_in_cta = 1;
    w.sm = 131;
    w.hardware_slot = 63;
    w.cta_part = 9;
    w.bytes_written = w.bytes_kept = 76800;
    w.marks.push_back({Loss::count_changed, 3, 0});
    (void)v.warp(w);
  }
  std::filesystem::path path_;
};

TEST_F(MemFile, GivesBackWhatWasWritten) {
  TraceMeta meta;
  meta.kind = TraceKind::mem;
  meta.map = small_map();
  meta.map.layout.memory_highs = wire::HighWords::of_pieces({{0, 0x7f00}});
  meta.map.accesses[0].high_is_known = true;
  Collector written;
  write(written);
  {
    const auto file = TraceFileWriter::create(path_, meta);
    ASSERT_TRUE(file);
    write((*file)->mem());
    EXPECT_FALSE((*file)->add(WarpTrace{}));
    DecodeSummary s;
    s.records = 200;
    ASSERT_TRUE((*file)->finish(s));
  }
  const auto file = TraceFileReader::open(path_);
  ASSERT_TRUE(file) << file.error().to_string();
  const wire::AddressMap& map = (*file)->meta().map;
  ASSERT_EQ(map.accesses.size(), 3u);
  EXPECT_EQ(map.accesses[1].space, Access::Space::shared);
  EXPECT_EQ(map.accesses[1].mask, 8u);
  EXPECT_EQ(map.accesses[1].high, Access::none);
  EXPECT_EQ(map.accesses[0].offset, -16);
  EXPECT_TRUE(map.accesses[0].high_is_known);
  EXPECT_EQ(map.layout.memory_highs, meta.map.layout.memory_highs);
  Collector read;
  WarpTrace other;
  EXPECT_FALSE((*file)->next(other));
  EXPECT_EQ((*file)->next(read).value(), true);
  EXPECT_EQ((*file)->next(read).value(), false);
  EXPECT_EQ(read.seen, written.seen);
  EXPECT_EQ(read.blocks, written.blocks);
  EXPECT_EQ(read.warps, written.warps);
  // Affine vectors of 32 lanes take bytes, not hundreds.
  MemEncoder encoder(meta.map);
  LaneAddresses a{};
  for (uint32_t l = 0; l < 32; ++l) a[l] = 0x7f0000001000 + 4 * l;
  for (int n = 0; n < 1000; ++n) {
    encoder.block(0, all);
    encoder.access(0, all, a);
  }
  std::string out;
  EXPECT_EQ(encoder.finish({}, out), 1000u);
  EXPECT_LT(out.size(), 10'000u);
}

TEST_F(MemFile, DamagedWarpsAreRefused) {
  const wire::AddressMap map = small_map();
  const auto ranges = accesses_by_block(map);
  ASSERT_TRUE(ranges);
  MemEncoder encoder(map);
  std::string good;
  Collector c;
  {
    class Encode : public MemVisitor {
     public:
      Encode(MemEncoder& e, std::string& out) : e_(e), out_(out) {}
      Status block(uint32_t b, uint32_t m) override { return e_.block(b, m), Status{}; }
      Status access(uint32_t k, uint32_t m, const LaneAddresses& a) override { return e_.access(k, m, a), Status{}; }
      Status operands(uint32_t k, uint32_t m, std::span<const uint32_t> words) override { return e_.operands(k, m, words), Status{}; }
      Status warp(const MemWarp& w) override { return (void)e_.finish(w, out_), Status{}; }
     private:
      MemEncoder& e_;
      std::string& out_;
    } encode(encoder, good);
    write(encode, 20);
  }
  VarintReader whole(good);
  EXPECT_EQ(decode_mem_warp(whole, map, *ranges, c).value(), 20u);
  EXPECT_TRUE(whole.ok() && whole.at_end());
  for (size_t n = 0; n < good.size(); n += 7) {   // cut anywhere: never whole
    VarintReader cut(std::string_view(good).substr(0, n));
    const auto records = decode_mem_warp(cut, map, *ranges, c);
    EXPECT_TRUE(records);
    EXPECT_FALSE(cut.ok()) << n;
  }
  std::string bad = good;
  for (size_t n = 0; n < bad.size(); ++n) {        // any byte changed: refused or read, never past the end
    bad[n] = static_cast<char>(bad[n] ^ 0x5a);
    VarintReader in(bad);
    (void)decode_mem_warp(in, map, *ranges, c);
    bad[n] = good[n];
  }
}

// --- sectors and wavefronts

LaneAddresses lanes(const std::function<uint64_t(uint64_t)>& of) {
  LaneAddresses a{};
  for (uint64_t l = 0; l < 32; ++l) a[l] = of(l);
  return a;
}

TEST(MemAnalysis, Sectors) {
  EXPECT_EQ(sectors_of(all, 4, lanes([](uint64_t l) { return 4 * l; })), 4u);
  EXPECT_EQ(sectors_of(all, 4, lanes([](uint64_t l) { return 16 + 4 * l; })), 5u);
  EXPECT_EQ(sectors_of(all, 4, lanes([](uint64_t l) { return 32 * l; })), 32u);
  EXPECT_EQ(sectors_of(all, 4, lanes([](uint64_t) { return 64; })), 1u);
  EXPECT_EQ(sectors_of(all, 16, lanes([](uint64_t l) { return 16 * l; })), 16u);
  EXPECT_EQ(sectors_of(0x00010001, 8, lanes([](uint64_t l) { return 8 * l; })), 2u);
  EXPECT_EQ(sectors_of(0, 4, lanes([](uint64_t) { return 0; })), 0u);
  // Local: the same word of 32 lanes is one line.
  EXPECT_EQ(local_sectors_of(all, 4, lanes([](uint64_t) { return 0x40; })), 4u);
  EXPECT_EQ(local_sectors_of(all, 16, lanes([](uint64_t) { return 0x40; })), 16u);
  EXPECT_EQ(local_sectors_of(0xff, 4, lanes([](uint64_t l) { return 4 * l; })), 8u);
}

TEST(MemAnalysis, Wavefronts) {
  const auto taken = [](uint32_t mask, uint32_t bytes, const std::function<uint64_t(uint64_t)>& of) {
    return wavefronts_of(mask, bytes, lanes(of)).taken;
  };
  EXPECT_EQ(taken(all, 4, [](uint64_t l) { return 4 * l; }), 1u);
  EXPECT_EQ(taken(all, 4, [](uint64_t) { return 64; }), 1u);               // one word for all
  EXPECT_EQ(taken(all, 4, [](uint64_t l) { return 8 * l; }), 2u);
  EXPECT_EQ(taken(all, 4, [](uint64_t l) { return 128 * l; }), 32u);       // a column of 32 words
  EXPECT_EQ(taken(all, 4, [](uint64_t l) { return 132 * l; }), 1u);        // padded
  EXPECT_EQ(taken(0xff, 4, [](uint64_t l) { return 128 * l; }), 8u);
  EXPECT_EQ(taken(all, 1, [](uint64_t l) { return l; }), 1u);              // four lanes to a word
  EXPECT_EQ(taken(all, 8, [](uint64_t l) { return 8 * l; }), 2u);
  EXPECT_EQ(taken(all, 16, [](uint64_t l) { return 16 * l; }), 4u);
  EXPECT_EQ(taken(all, 16, [](uint64_t l) { return 128 * l; }), 32u);      // rows of 128 bytes, without a swizzle
  EXPECT_EQ(taken(0xff, 16, [](uint64_t l) { return 128 * l + 16 * (l % 8); }), 1u);
  EXPECT_EQ(wavefronts_of(all, 4, lanes([](uint64_t l) { return 128 * l; })).least, 1u);
  EXPECT_EQ(wavefronts_of(all, 16, lanes([](uint64_t l) { return 16 * l; })).least, 4u);
  EXPECT_EQ(wavefronts_of(0, 4, lanes([](uint64_t) { return 0; })).taken, 0u);
}

// fixtures/kernels/bank_conflicts.cu: what ncu counted on an H200 for the eight strides together, by warp.
TEST(MemAnalysis, WavefrontsAreTheHardwares) {
  const auto sum = [](uint32_t bytes, uint32_t lanes_an_element, bool atomic) {
    uint32_t taken = 0;
    for (uint64_t stride : {1, 2, 4, 8, 31, 32, 33, 0})
      taken += wavefronts_of(all, bytes, lanes([&](uint64_t l) { return l / lanes_an_element * stride * bytes % 16384; }), atomic)
                   .taken;
    return taken;
  };
  EXPECT_EQ(sum(4, 1, false), 50u);
  EXPECT_EQ(sum(8, 1, false), 67u);
  EXPECT_EQ(sum(16, 1, false), 102u);
  EXPECT_EQ(sum(16, 4, false), 30u);
  EXPECT_EQ(sum(4, 1, true), 81u);
}

TEST(MemAnalysis, ImpossibleAddressesAreFound) {
  const wire::AddressMap map = small_map();
  MemAnalysis a(map, {{0x1000, 0x2000}, {0x7f0000000000, 0x7f0000100000}});
  ASSERT_TRUE(a.access(0, 3, lanes([](uint64_t l) { return 0x7f0000000ff8 + 4 * l; })));
  EXPECT_EQ(a.impossible(), 0u);
  EXPECT_EQ(a.checked(), 2u);
  ASSERT_TRUE(a.access(0, 1, lanes([](uint64_t) { return 0x1ffe; })));     // not aligned
  EXPECT_EQ(a.impossible(), 1u);
  EXPECT_THAT(a.first_impossible(), HasSubstr("not aligned"));
  ASSERT_TRUE(a.access(0, 3, lanes([](uint64_t l) { return 0x1ffc + 4 * l; })));   // the second lane is behind the end
  EXPECT_EQ(a.impossible(), 2u);
  ASSERT_TRUE(a.access(1, 1, lanes([](uint64_t) { return 0x20; })));       // shared memory is no part of it
  EXPECT_EQ(a.impossible(), 2u);
}

TEST(MemAnalysis, GenericLanesOutsideMemoryAreWindows) {
  wire::AddressMap map = small_map();
  map.accesses[0].space = Access::Space::generic;
  MemAnalysis a(map, {{0x1000, 0x2000}});
  ASSERT_TRUE(a.block(0, all));
  ASSERT_TRUE(a.access(0, all, lanes([](uint64_t l) { return l < 16 ? 0x1000 + 4 * l : 0x7ff100000000 + 4 * l; })));
  EXPECT_EQ(a.accesses()[0].sectors, 2u);
  EXPECT_EQ(a.accesses()[0].window_lanes, 16u);
  EXPECT_EQ(a.impossible(), 0u);
  EXPECT_EQ(a.blocks()[0].lanes, 32u);
}

TEST(MemAnalysis, Tables) {
  const wire::AddressMap map = small_map();
  std::vector<AccessRow> rows{{map.accesses[0], {10, 9, 200, 0, 36, 0, 0}, "LDG.E R0, [R2]", "a.cu:7"},
                              {map.accesses[1], {10, 10, 320, 0, 0, 40, 10}, "STS [R2], R0", ""}};
  const std::string text = render_text(rows);
  EXPECT_THAT(text, HasSubstr("4.00"));
  EXPECT_THAT(render_csv(rows), HasSubstr("0x10,0,global,load,4,10,9,200,0,36,,,lanes,,,,,,,,,,a.cu:7,\"LDG.E R0, [R2]\"\n"));
  EXPECT_THAT(render_csv(rows), HasSubstr("0x210,2,shared,store,4,10,10,320,0,,40,10,lanes,,,,,,,,,,,\"STS [R2], R0\"\n"));
  const auto json = JsonDocument(render_json(rows));
  EXPECT_EQ(json.at("/0/sectors_per_request"), "4.0");
  EXPECT_EQ(json.at("/0/wavefronts"), "null");
  EXPECT_EQ(json.at("/1/wavefronts"), "40");
  EXPECT_EQ(json.at("/1/sectors"), "null");
}

}  // namespace
}  // namespace xtrace::trace
