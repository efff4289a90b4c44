// The mem probe where accesses are made once for the warp: bulk copies, and boxes through tensor maps.
#include <gtest/gtest.h>

#include "instrument/cubin/kernel_info.h"
#include "tests/unit/interp/assembled_launch.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/interp/traced_mem.h"

namespace xtrace::interp_test {
namespace {

using instrument::ProbeKind;
using traced_mem::Check;
using wire::Access;

constexpr const char* copying[] = {"bulk_copy", "cluster_copy", "tensor_copy", "warp_specialised"};

// Where from, where to, how much, on which barrier, of which coordinates.
TEST(MemOfCopies, IsTheWitness) {
  for (const char* kernel : copying)
    for (const bool counted : {false, true}) {
      SCOPED_TRACE(kernel);
      Check check{recorded_launch(kernel), kernel, true};
      check.whole = false;
      check.exact = std::string_view(kernel) != "warp_specialised";
      for (const bool sectors : {false, true}) {
        check.sectors = sectors;
        check.trace(1, true, false, false, counted);
        EXPECT_GT(check.copies, 0u);
        check.trace(2, false, true, true, counted);
      }
    }
}

// Under uniform predicates, which hold in every second CTA.
replay::LaunchImage guarded_launch() {
  replay::LaunchImage launch = assembled_launch(
      "saxpy",
      {"S2R R0, SR_CTAID.X", "R2UR UR4, R0", "ULOP3.LUT UR4, UR4, 0x1, URZ, 0xc0, !UPT", "UISETP.NE.U32.AND UP0, UPT, UR4, URZ, UPT",
       "ULDC.64 UR6, c[0x0][0x218]", "UMOV UR8, 0x400", "UMOV UR5, 0x1", "@!PT EXIT", "@UP0 UBLKCP.G.S [UR6], [UR8], UR5",
       "@!UP0 UBLKCP.G.S [UR6], [UR8], UR5", "@UP0 UMOV UR5, 0x2", "@!UP0 UBLKCP.G.S [UR6], [UR8], UR5",
       "UISETP.EQ.U32.AND UP0, UPT, UR4, URZ, UPT", "@UP0 UBLKCP.G.S [UR6], [UR8], UR5"},
      0x12, [](const std::string&) { return true; });
  launch.record.dynamic_shared_bytes = 4096;
  const auto backend = replay::make_interp_backend();
  EXPECT_TRUE(backend->prepare(launch));
  const auto module = backend->load(launch.code);
  EXPECT_TRUE(module);
  EXPECT_TRUE(backend->restore(*module, replay::RestoreScope::all));
  const auto outcome = backend->run(*module);
  EXPECT_TRUE(outcome && outcome->completed);
  launch.after = *backend->read_regions(*module);
  return launch;
}

TEST(MemOfCopies, MadeWhereTheirPredicateHolds) {
  Check check{guarded_launch(), "guarded"};
  const uint64_t warps = check.launch.record.grid.count() * check.launch.record.block.count() / 32;
  for (const bool counted : {false, true}) {
    check.trace(1, false, false, false, counted);
    EXPECT_EQ(check.copies, 2 * warps) << "one in half of the CTAs, three in the others";
  }
}

// A splice under `mem`, its words, and what the verifier says of others.
struct Spliced {
  Spliced(const std::string& name, bool full) : Spliced(recorded_launch(name), full) {}
  Spliced(replay::LaunchImage image_of_launch, bool full) : kernel(image_of_launch.record.kernel), launch(std::move(image_of_launch)) {
    const bundle::LaunchRecord& r = launch.record;
    auto splicer = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
    EXPECT_TRUE(splicer);
    // As if no lane had ever been missing: words are then put together in other ways.
    const size_t blocks = splicer->blocks().size();
    if (full) splicer = splicer->counted(std::vector<bool>(blocks, true), std::vector<uint64_t>(blocks, 1));
    const auto warps = static_cast<uint32_t>(r.grid.count()) * splicer->warps_per_cta();
    instrument::SlotPlan slots = instrument::plan_slots(std::vector<uint32_t>(warps, 4096), splicer->largest_record(ProbeKind::mem), false,
                                                        splicer->mem_form(), uint64_t{1} << 30);
    instrument::place(slots, 1ull << 40);
    auto made = splicer->splice({ProbeKind::mem, {}, 1, 0, {}, {}}, slots.layout);
    EXPECT_TRUE(made) << made.error().to_string();
    spliced = std::move(*made);
    image = *cubin::Image::parse(spliced.cubin);
    section = cubin::kernel_info(image, r.kernel)->text_section;
  }
  size_t words() const { return image.sections()[section].data.size() / sass::inst_bytes; }
  sass::RawInst word(size_t k) const { return *read_at<sass::RawInst>(image.sections()[section].data, k * sass::inst_bytes, "word"); }
  bool inserted(size_t k) const { return k >= spliced.claims.prologue_words && spliced.map.original_of_new[k] == wire::AddressMap::inserted; }
  // In the entry block, where the rest of the prologue stands and nothing is copied.
  bool at_entry(size_t k) const {
    while (k < words() && spliced.map.original_of_new[k] == wire::AddressMap::inserted) ++k;
    return k < words() && spliced.map.original_of_new[k] < 16 * spliced.map.blocks[0].instructions;
  }
  bool breaks(ByteView cubin, const instrument::SpliceClaims& claims) const {
    const auto found = instrument::verify_splice(launch.code, cubin, kernel, claims);
    return found && std::any_of(found->begin(), found->end(), [](const auto& v) { return v.rule == "address-recorded"; });
  }
  template <typename F>
  bool breaks(size_t k, F change) const {
    cubin::Image edited = image;
    Bytes text = image.sections()[section].data;
    sass::RawInst w = word(k);
    change(w);
    write_at(std::span(text), k * sass::inst_bytes, w);
    edited.set_section_data(section, std::move(text));
    return breaks(*edited.write(), spliced.claims);
  }
  std::string kernel;
  replay::LaunchImage launch;
  instrument::Spliced spliced;
  cubin::Image image;
  uint32_t section = 0;
};

class BrokenCopies : public testing::TestWithParam<bool> {};

TEST_P(BrokenCopies, AnotherRegisterOrPlace) {
  constexpr uint16_t mov_ur = 0x1c02, lop3_ur = 0x1c12, stg = 0x1986;
  for (const char* kernel : copying) {
    const Spliced s(kernel, GetParam());
    ASSERT_FALSE(s.breaks(s.spliced.cubin, s.spliced.claims)) << kernel;
    size_t moves = 0, stores = 0;
    for (size_t k = 0; k < s.words(); ++k) {
      if (!s.inserted(k)) continue;
      const uint16_t op = sass::opcode13(s.word(k));
      if ((op == mov_ur || op == lop3_ur) && !s.at_entry(k)) {
        ++moves;
        EXPECT_TRUE(s.breaks(k, [](sass::RawInst& x) { set_bits(x, bits(37, 32), get_bits(x, bits(37, 32)) ^ 1); })) << kernel << ", word " << k;
      } else if (op == stg && (GetParam() || sass::opcode13(s.word(k - 1)) == mov_ur)) {   // what those that are not full begin with is record-length's
        ++stores;
        EXPECT_TRUE(s.breaks(k, [](sass::RawInst& x) { set_bits(x, bits(63, 40), get_bits(x, bits(63, 40)) ^ 64); })) << kernel << ", word " << k;
      }
    }
    EXPECT_GE(moves, 5u) << kernel;
    EXPECT_GE(stores, 1u) << kernel;
  }
}

TEST_P(BrokenCopies, DecodersTakeSomethingElse) {
  for (const char* kernel : copying) {
    const Spliced s(kernel, GetParam());
    size_t copies = 0;
    for (size_t k = 0; k < s.spliced.claims.accesses.size(); ++k) {
      const auto misread = [&](auto change) {
        instrument::SpliceClaims claims = s.spliced.claims;
        change(claims.accesses[k]);
        return s.breaks(s.spliced.cubin, claims);
      };
      const Access& a = s.spliced.claims.accesses[k];
      if (a.form == Access::Form::lanes) {
        EXPECT_TRUE(misread([](Access& x) { x.form = Access::Form::bulk; }));
        continue;
      }
      ++copies;
      EXPECT_TRUE(misread([](Access& x) { x.form = Access::Form::lanes; }));
      EXPECT_TRUE(misread([](Access& x) { x.form = x.form == Access::Form::bulk ? Access::Form::tensor : Access::Form::bulk; }));
      EXPECT_TRUE(misread([](Access& x) { x.pixels = true; }));
      EXPECT_TRUE(misread([](Access& x) { x.operands.pop_back(); }));
      EXPECT_TRUE(misread([](Access& x) { x.operands.push_back({Access::Role::pixels, Access::none}); }));
      for (size_t n = 0; n < a.operands.size(); ++n) {
        EXPECT_TRUE(misread([&](Access& x) { x.operands[n].role = x.operands[n].role == Access::Role::barrier ? Access::Role::shared : Access::Role::barrier; }));
        EXPECT_TRUE(misread([&](Access& x) { x.operands[n].place ^= 4; })) << kernel << ", operand " << n;
        EXPECT_TRUE(misread([&](Access& x) { x.operands[n].place = Access::none; }));
      }
    }
    EXPECT_GE(copies, 1u) << kernel;
  }
}

TEST_P(BrokenCopies, WhetherTheyAreMade) {
  const Spliced s(guarded_launch(), GetParam());
  ASSERT_FALSE(s.breaks(s.spliced.cubin, s.spliced.claims));
  size_t zeros = 0, ones = 0;
  for (size_t k = 0; k < s.words(); ++k) {
    constexpr uint16_t umov_imm = 0x882;
    if (!s.inserted(k) || (sass::opcode13(s.word(k)) & 0xfff) != umov_imm) continue;
    const bool one = get_bits(s.word(k), bits(15, 12)) != 7;
    if (!one && get_bits(s.word(k), bits(63, 32)) != 0) continue;   // the prologue's
    (one ? ones : zeros) += 1;
    EXPECT_TRUE(s.breaks(k, [](sass::RawInst& x) { set_bits(x, bits(63, 32), get_bits(x, bits(63, 32)) ^ 1); })) << "word " << k;
    EXPECT_TRUE(s.breaks(k, [](sass::RawInst& x) { set_bits(x, bits(21, 16), get_bits(x, bits(21, 16)) ^ 1); })) << "word " << k;
    if (!one) continue;
    EXPECT_TRUE(s.breaks(k, [](sass::RawInst& x) { set_bits(x, bits(15, 12), get_bits(x, bits(15, 12)) ^ 8); })) << "word " << k;
    EXPECT_TRUE(s.breaks(k, [](sass::RawInst& x) { set_bits(x, bits(15, 12), get_bits(x, bits(15, 12)) ^ 1); })) << "word " << k;
    EXPECT_TRUE(s.breaks(k, [](sass::RawInst& x) { set_bits(x, bits(15, 12), 7); })) << "word " << k;
  }
  EXPECT_EQ(ones, 3u) << "UP0, !UP0 for two copies, UP0 anew";
  EXPECT_EQ(zeros, ones);
  for (size_t k = 0; k < s.spliced.claims.accesses.size(); ++k) {
    const auto misread = [&](auto change) {
      instrument::SpliceClaims claims = s.spliced.claims;
      change(claims.accesses[k]);
      return s.breaks(s.spliced.cubin, claims);
    };
    EXPECT_TRUE(misread([](Access& x) { x.mask = Access::none; }));
    EXPECT_TRUE(misread([](Access& x) { x.mask ^= 4; }));
  }
}

INSTANTIATE_TEST_SUITE_P(Records, BrokenCopies, testing::Bool(), [](const auto& p) { return p.param ? "OfFullBlocks" : "OfOthers"; });

}  // namespace
}  // namespace xtrace::interp_test
