// The mem probe on the interpreter: what the trace says of every memory access is what the interpreter saw of the original
// kernel by itself, access by access, lane by lane.
#include <gtest/gtest.h>

#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/assemble.h"
#include "instrument/sass/print.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/interp/traced_mem.h"

namespace xtrace::interp_test {
namespace {

using traced_mem::AccessWitness;
using traced_mem::Check;
using instrument::ProbeKind;

class MemTrace : public testing::TestWithParam<std::string> {
 protected:
  void trace(uint32_t one_in, bool high, bool table, bool some = false, bool counted = false) {
    Check{recorded_launch(GetParam()), GetParam()}.trace(one_in, high, table, some, counted);
  }
};

TEST_P(MemTrace, IsTheWitness) { trace(1, false, false); }
TEST_P(MemTrace, WithoutHighWords) { trace(1, true, false); }
TEST_P(MemTrace, OfSampledCtas) { trace(2, true, false); }
TEST_P(MemTrace, InSlotsOfTheirOwnSize) { trace(1, false, true); }
TEST_P(MemTrace, AtSomePlaces) { trace(1, true, false, true); }
TEST_P(MemTrace, KnowingFullBlocks) { trace(1, true, false, false, true); }
TEST_P(MemTrace, KnowingFullBlocksOfSampledCtas) { trace(2, false, false, false, true); }
TEST_P(MemTrace, KnowingFullBlocksAtSomePlaces) { trace(1, true, true, true, true); }
// Where a kernel leaves no register for that, as without.
TEST_P(MemTrace, InWholeSectors) {
  Check check{recorded_launch(GetParam()), GetParam()};
  check.sectors = true;
  check.trace(1, true, false, false, true);
  check.trace(2, false, false, false, true);
  check.trace(1, true, true, true, true);
  check.trace(1, false, false);
}

// Kernels with a register for that and with records of full blocks alone: no sector is written in part.
TEST(MemInWholeSectors, FillsThem) {
  for (const char* kernel : {"big_shared", "bulk_copy", "cluster_shared", "async_copy", "bank_conflicts", "wgmma_layouts"}) {
    SCOPED_TRACE(kernel);
    Check check{recorded_launch(kernel), kernel};
    check.sectors = true;
    check.whole = false;
    check.of_lanes = true;   // one lane makes the copies of bulk_copy: records of such blocks fill nothing
    check.trace(1, true, false, false, true);
    EXPECT_NE(check.filled, 0u);
  }
}

// What nvcc makes of the same sources for sm_80, where the interpreter executes it.
TEST(MemOfOlderCode, IsTheWitness) {
  size_t executed = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(XTRACE_SOURCE_DIR) + "/fixtures/cubins/sm_80/kernels13")) {
    const std::string kernel = file.path().stem();
    SCOPED_TRACE(kernel);
    Check check{recorded_launch(kernel), kernel + "-sm_80"};
    auto code = read_file(file.path());
    ASSERT_TRUE(code);
    check.launch.code = std::move(*code);
    const auto backend = replay::make_interp_backend();
    ASSERT_TRUE(backend->prepare(check.launch));
    const auto module = backend->load(check.launch.code);
    ASSERT_TRUE(module) << module.error().to_string();
    ASSERT_TRUE(backend->restore(*module, replay::RestoreScope::all));
    if (const auto outcome = backend->run(*module); !outcome && outcome.error().kind == ErrorKind::unsupported) continue;
    ++executed;
    for (const bool counted : {false, true}) check.trace(1, counted, false, false, counted);
    check.trace(2, true, true, true, true);
  }
  EXPECT_GE(executed, 8u);
}

// A lock and a flag that are polled.
TEST(MemWithoutPolls, IsTheRestOfTheWitness) {
  for (const char* kernel : {"spin_lock", "grid_sync"})
    for (const bool counted : {false, true}) {
      SCOPED_TRACE(kernel);
      Check{recorded_launch(kernel), kernel, true}.trace(1, true, false, false, counted);
      Check{recorded_launch(kernel), kernel, true}.trace(2, false, true, true, counted);
    }
}

// Kernels with accesses that are not covered, without any, or that are refused.
constexpr const char* not_whole[] = {"three_instructions", "async_copy",
                                     "bulk_copy", "cluster_copy", "warp_specialised", "tensor_copy", "wgmma_gemm", "wgmma_layouts", "wgmma_rounding",
                                     "wgmma_bfloat16"};
std::vector<std::string> whole_kernels() {
  std::vector<std::string> names = recorded_kernels();
  std::erase_if(names, [](const std::string& name) {
    return std::find(std::begin(not_whole), std::end(not_whole), name) != std::end(not_whole);
  });
  return names;
}
INSTANTIATE_TEST_SUITE_P(Kernels, MemTrace, testing::ValuesIn(whole_kernels()), [](const auto& p) { return p.param; });

TEST(MemNotWhole, SaysWhatIsMissing) {
  for (const char* kernel : not_whole) {
    const replay::LaunchImage launch = recorded_launch(kernel);
    const bundle::LaunchRecord& r = launch.record;
    const auto splicer = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
    if (splicer && !splicer->not_covered().empty()) continue;
    instrument::RecordForm form;
    form.lines = true;
    instrument::SlotPlan slots = instrument::plan_slots(std::vector<uint32_t>(r.grid.count() * 64), 1024, false, form, 1 << 30);
    instrument::place(slots, 1ull << 40);
    const auto spliced = splicer ? splicer->splice({ProbeKind::mem, {}, 1, 0, {}, {}}, slots.layout)
                                 : Result<instrument::Spliced>(tl::make_unexpected(splicer.error()));
    ASSERT_FALSE(spliced) << kernel;
    EXPECT_EQ(spliced.error().kind, ErrorKind::unsupported) << kernel;
  }
}

// --- the forms that the thirteen kernels do not have: code written here, in place of saxpy's

struct Line {
  const char* text;
  uint8_t wait = 0, write = 7, read = 7, stall = 2;
};
// EXITs stay where the metadata of saxpy lists them: 0x70 and 0x120.
constexpr Line forms[] = {
    {"S2R R0, SR_TID.X", 0, 0},
    {"ULDC.64 UR4, c[0x0][0x208]"},
    {"ULDC.64 UR6, c[0x0][0x218]"},
    {"LDC.64 R2, c[0x0][0x218]", 0, 1},
    {"SHF.L.U32 R4, R0, 0x2, RZ", 0x1, 7, 7, 5},
    {"LOP3.LUT R5, R4, 0x7f, RZ, 0xc0, !PT", 0, 7, 7, 5},
    {"UMOV UR8, 0x100", 0, 7, 7, 12},
    {"@!PT EXIT"},
    {"LDG.E R6, [R4.U32+UR6+0x10]", 0, 2},                       // a register of 32 bits and a uniform base
    {"ISETP.LT.U32.AND P0, PT, R0, 0x28, PT", 0, 7, 7, 13},
    {"@!P0 LDG.E R7, desc[UR4][R2.64+0x8]", 0x2, 3},            // the address was loaded
    {"STS [R5+UR8+0x4], R6", 0x4, 7, 0},
    {"@P0 ATOMS.ADD RZ, [R5+0x200], R0", 0, 7, 0},
    {"LDGSTS.E [R5+0x300], desc[UR4][R2.64+0x10]", 0, 7, 0},
    {"SHF.L.U32 R5, R5, 0x2, RZ", 0x1, 7, 7, 5},                 // the register changes
    {"LDSM.16.M88.2 R8, [R5+UR8]", 0, 4},
    {"LD.E R6, desc[UR4][R2.64+0x4]", 0, 2},
    {"ATOMG.E.ADD.STRONG.GPU PT, R6, desc[UR4][R2.64+0x20], R0", 0x4, 2},
    {"EXIT"},
};

// What the changed code leaves is what the launch leaves.
void run_original(replay::LaunchImage& launch) {
  const auto backend = replay::make_interp_backend();
  ASSERT_TRUE(backend->prepare(launch));
  const auto module = backend->load(launch.code);
  ASSERT_TRUE(module) << module.error().to_string();
  ASSERT_TRUE(backend->restore(*module, replay::RestoreScope::all));
  const auto outcome = backend->run(*module);
  ASSERT_TRUE(outcome) << outcome.error().to_string();
  ASSERT_TRUE(outcome->completed) << outcome->failure;
  launch.after = *backend->read_regions(*module);
}

TEST(MemForms, AreTheWitness) {
  Check check{recorded_launch("saxpy"), "forms"};
  replay::LaunchImage& launch = check.launch;
  auto image = cubin::Image::parse(launch.code);
  ASSERT_TRUE(image);
  const auto info = cubin::kernel_info(*image, "saxpy");
  ASSERT_TRUE(info);
  Bytes text = image->sections()[info->text_section].data;
  uint64_t at = 0;
  for (const Line& line : forms) {
    auto w = sass::assemble(**sass::find_arch(90), line.text, static_cast<int64_t>(at));
    ASSERT_TRUE(w) << line.text << ": " << w.error().to_string();
    sass::Control c;
    c.stall = line.stall;
    c.keep_issuing = line.stall < 12;
    c.wait_mask = line.wait;
    c.write_barrier = line.write;
    c.read_barrier = line.read;
    sass::set_control(*w, c);
    write_at(std::span(text), at, *w);
    at += sass::inst_bytes;
  }
  image->set_section_data(info->text_section, std::move(text));
  ASSERT_TRUE(cubin::set_register_count(*image, *info, 24));
  launch.code = *image->write();
  launch.record.dynamic_shared_bytes = 4096;
  ASSERT_NO_FATAL_FAILURE(run_original(launch));
  for (const bool high : {false, true})
    for (const bool counted : {false, true}) check.trace(1, high, false, false, counted);
  check.trace(2, true, true);
}

// A function that calls itself, on stacks that begin at other heights: by data, in lanes of one warp.
TEST(MemForms, StackPointersOfLanesDiffer) {
  Check check{recorded_launch("recursion"), "stacks"};
  replay::LaunchImage& launch = check.launch;
  auto image = cubin::Image::parse(launch.code);
  ASSERT_TRUE(image);
  const auto info = cubin::kernel_info(*image, "recursion");
  ASSERT_TRUE(info);
  const sass::Arch& arch = **sass::find_arch(90);
  Bytes text = image->sections()[info->text_section].data;
  // In place of value % 10, the depth; R4 is the value.
  constexpr uint64_t first = 0xe0;
  uint64_t at = first;
  for (const char* line : {"LOP3.LUT R5, R4, 0x7, RZ, 0xc0, !PT", "LOP3.LUT R9, R4, 0x10, RZ, 0xc0, !PT", "IADD3 R1, R1, -R9, RZ"}) {
    auto w = sass::assemble(arch, line, static_cast<int64_t>(at));
    ASSERT_TRUE(w) << line << ": " << w.error().to_string();
    const auto old = read_at<sass::RawInst>(text, at, "word");
    ASSERT_TRUE(old);
    ASSERT_EQ(sass::print(arch, *old, at).substr(0, 4), at == first ? "IMAD" : at == first + 16 ? "SHF." : "IMAD");
    sass::set_control(*w, sass::get_control(*old));
    write_at(std::span(text), at, *w);
    at += sass::inst_bytes;
  }
  image->set_section_data(info->text_section, std::move(text));
  launch.code = *image->write();
  ASSERT_NO_FATAL_FAILURE(run_original(launch));
  const auto backend = replay::make_interp_backend();
  ASSERT_TRUE(backend->prepare(launch));
  AccessWitness witness;
  ASSERT_NO_FATAL_FAILURE(run_as_recorded(*backend, launch, launch.code, &witness));
  size_t apart = 0;
  for (const auto& [warp, events] : witness.take())
    for (const traced_mem::Event& e : events)
      apart += e.space == sass::MemSpace::local && std::adjacent_find(e.addresses.begin(), e.addresses.end(), std::not_equal_to<>()) != e.addresses.end();
  EXPECT_GT(apart, 1000u);
  for (const bool high : {false, true})
    for (const bool counted : {false, true}) check.trace(1, high, false, false, counted);
  check.trace(2, true, true);
}

// Its words are held against the access that they are for.
TEST(MemForms, BrokenStackPointersAreCaught) {
  const replay::LaunchImage launch = recorded_launch("recursion");
  const bundle::LaunchRecord& r = launch.record;
  const auto splicer = instrument::Splicer::create(launch.code, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
  ASSERT_TRUE(splicer);
  instrument::SlotPlan slots = instrument::plan_slots(std::vector<uint32_t>(16, 4096), splicer->largest_record(ProbeKind::mem), false,
                                                      splicer->mem_form(), uint64_t{1} << 30);
  instrument::place(slots, 1ull << 40);
  const auto spliced = splicer->splice({ProbeKind::mem, {}, 1, 0, {}, {}}, slots.layout);
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  const auto breaks = [&](const Bytes& cubin, const instrument::SpliceClaims& claims) {
    const auto found = instrument::verify_splice(launch.code, cubin, r.kernel, claims);
    return found && std::any_of(found->begin(), found->end(), [](const auto& v) { return v.rule == "address-recorded"; });
  };
  ASSERT_FALSE(breaks(spliced->cubin, spliced->claims));
  const auto image = cubin::Image::parse(spliced->cubin);
  ASSERT_TRUE(image);
  const auto info = cubin::kernel_info(*image, r.kernel);
  ASSERT_TRUE(info);
  const Bytes& text = image->sections()[info->text_section].data;
  const auto changed = [&](uint64_t at, auto change) {
    Bytes other = text;
    auto w = *read_at<sass::RawInst>(text, at, "word");
    change(w);
    write_at(std::span(other), at, w);
    cubin::Image edited = *image;
    edited.set_section_data(info->text_section, std::move(other));
    return breaks(*edited.write(), spliced->claims);
  };
  constexpr uint16_t imad_imm = 0x824, r2ur = 0x2ca, stg = 0x1986;
  size_t products = 0, firsts = 0, guarded = 0;
  for (uint64_t at = uint64_t{spliced->claims.prologue_words} * sass::inst_bytes; at < text.size(); at += sass::inst_bytes) {
    if (spliced->map.original_of_new[at / sass::inst_bytes] != wire::AddressMap::inserted) continue;
    const auto w = *read_at<sass::RawInst>(text, at, "word");
    const bool stack = get_bits(w, sass::opcode13(w) == r2ur ? bits(31, 24) : bits(71, 64)) == 1;
    if (sass::opcode13(w) == imad_imm && stack) {
      ++products;
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(63, 32), 0xfffffffe); }));
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(71, 64), 2); }));
    } else if (sass::opcode13(w) == r2ur && stack) {
      ++firsts;
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(31, 24), 2); }));
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(83, 81), get_bits(x, bits(83, 81)) ^ 1); }));
    } else if (sass::opcode13(w) == stg && get_bits(w, bits(15, 12)) != 7) {
      ++guarded;
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(15, 12), get_bits(x, bits(15, 12)) ^ 8); })) << "the other lanes";
      EXPECT_TRUE(changed(at, [](sass::RawInst& x) { set_bits(x, bits(63, 40), get_bits(x, bits(63, 40)) + 128); }));
    }
  }
  EXPECT_GE(products, 2u);
  EXPECT_EQ(products, firsts);
  EXPECT_EQ(products, guarded);
  for (size_t k = 0; k < spliced->claims.accesses.size(); ++k) {
    if (spliced->claims.accesses[k].base == wire::Access::none || spliced->claims.accesses[k].low == wire::Access::none) continue;
    const auto misread = [&](auto change) {
      instrument::SpliceClaims claims = spliced->claims;
      change(claims.accesses[k]);
      return breaks(spliced->cubin, claims);
    };
    EXPECT_TRUE(misread([](wire::Access& a) { a.low += 4; }));
    EXPECT_TRUE(misread([](wire::Access& a) { a.base += 4; }));
    EXPECT_TRUE(misread([](wire::Access& a) { a.base = wire::Access::none; }));
    EXPECT_TRUE(misread([](wire::Access& a) { a.numbers = 0; }));
  }
}

}  // namespace
}  // namespace xtrace::interp_test
