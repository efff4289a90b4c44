#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/file.h"
#include "instrument/code.h"
#include "instrument/relocate.h"
#include "instrument/sass/print.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

struct Config {
  ProbeKind probe;
  uint32_t one_in;
  bool table;
};
const std::vector<Config> configs = {
    {ProbeKind::count, 1, false}, {ProbeKind::block, 1, false}, {ProbeKind::inst, 1, false},
    {ProbeKind::count, 4, false}, {ProbeKind::block, 4, true},  {ProbeKind::inst, 4, true},
};

Result<Code> code_of(const Kernel& k) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(k.cubin));
  XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, k.name));
  return read_code(image, info);
}

TEST(Splice, EmptyPlanIsTheIdentity) {
  size_t kernels = 0;
  for (const char* arch : {"sm_80", "sm_86", "sm_90", "sm_100", "sm_120"})
    for (const Kernel& k : fixture_kernels(arch)) {
      const auto spliced = splice(k.cubin, k.name, small_shape(), Plan{}, {});
      ASSERT_TRUE(spliced) << spliced.error().to_string();
      EXPECT_EQ(spliced->cubin, k.cubin) << k.file << " " << k.name;
      ++kernels;
    }
  EXPECT_GE(kernels, 20u);
}

TEST(Splice, LayoutWithoutInsertionsIsTheIdentity) {
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto code = code_of(k);
    if (!code) continue;
    std::vector<uint32_t> tables;
    for (const JumpTable& t : code->jump_tables) tables.push_back(t.offset);
    const auto body = lay_out(*code, Insertions(code->insts.size()), 0, tables);
    ASSERT_TRUE(body) << body.error().to_string();
    for (InstIndex i = 0; i < code->insts.size(); ++i) ASSERT_EQ(body->words[i], code->insts[i].raw) << where(*code, i);
  }
}

TEST(Splice, EveryFixtureUnderEveryProbe) {
  size_t spliced_kernels = 0;
  for (const Kernel& k : fixture_kernels("sm_90"))
    for (const Config& c : configs) {
      SCOPED_TRACE(fmt::format("{} {} {} 1/{} {}", k.file.string(), k.name, probe_info(c.probe).name, c.one_in,
                               c.table ? "table" : "stride"));
      const auto code = code_of(k);
      const auto spliced = splice(k.cubin, k.name, small_shape(), plan_of(c.probe, c.one_in),
                                  some_layout(small_shape(), c.table, true));
      if (!spliced) {   // refusals are for a reason, and by the reader of the code or the scratch authority
        EXPECT_EQ(spliced.error().kind, ErrorKind::unsupported) << spliced.error().to_string();
        EXPECT_FALSE(spliced.error().message.empty());
        continue;
      }
      ++spliced_kernels;
      ASSERT_TRUE(code);
      const wire::AddressMap& map = spliced->map;
      size_t originals = 0;
      for (uint32_t pc : map.original_of_new) originals += pc != wire::AddressMap::inserted;
      EXPECT_EQ(originals, code->insts.size() * (c.one_in > 1 ? 2 : 1));
      EXPECT_GE(spliced->report.sites, map.blocks.size());
      for (const wire::Block& b : map.blocks)
        EXPECT_EQ(b.clocks, c.probe == ProbeKind::inst ? b.instructions : 0);
    }
  EXPECT_GE(spliced_kernels, 13 * configs.size());
}

TEST(Splice, PlainSlots) {
  for (const char* name : {"saxpy", "transpose", "warp_scan", "histogram", "sgemm", "spmv", "switch"})
    for (ProbeKind probe : {ProbeKind::count, ProbeKind::block, ProbeKind::inst}) {
      const Kernel k = fixture_kernel(name);
      wire::SlotLayout l = some_layout(small_shape(), false, probe == ProbeKind::count);
      for (uint64_t slots : {l.slots, uint64_t{0x1000fff00000}}) {   // in one 4 GiB window, and across its end
        l.slots = slots;
        const auto spliced = splice(k.cubin, k.name, small_shape(), plan_of(probe), l);
        ASSERT_TRUE(spliced) << name << ": " << spliced.error().to_string();
      }
    }
}

TEST(Splice, PairAtEveryReachableInstruction) {
  size_t sites = 0, edges = 0, refused = 0;
  for (const char* name : {"spmv", "switch", "device_calls", "warp_scan"}) {
    const Kernel k = fixture_kernel(name);
    const auto code = code_of(k);
    ASSERT_TRUE(code) << code.error().to_string();
    for (InstIndex i = 0; i < code->insts.size(); ++i) {
      if (!code->reachable[i]) continue;
      Plan plan = plan_of(ProbeKind::pair);
      plan.pair_sites = {OrigPc{code->pc(i)}};
      const auto spliced = splice(k.cubin, k.name, small_shape(), plan, some_layout(small_shape(), false, true));
      if (!spliced) {   // no registers free there: refused, not paid for with occupancy
        EXPECT_EQ(spliced.error().kind, ErrorKind::unsupported) << where(*code, i) << ": " << spliced.error().to_string();
        ++refused;
        continue;
      }
      ASSERT_EQ(spliced->map.sites.size(), 1u);
      EXPECT_EQ(spliced->map.sites[0].pc, code->pc(i));
      ++sites;
      edges += spliced->map.sites[0].edge;
    }
  }
  EXPECT_GT(sites, 200u);
  EXPECT_GT(edges, 20u);
  EXPECT_LT(refused, sites / 10);
}

TEST(Splice, OtherArchitecturesAreRefusedByName) {
  for (const Kernel& k : fixture_kernels("sm_80")) {
    const auto spliced = splice(k.cubin, k.name, small_shape(), plan_of(ProbeKind::block),
                                some_layout(small_shape(), false, true));
    ASSERT_FALSE(spliced);
    EXPECT_EQ(spliced.error().kind, ErrorKind::unsupported);
    EXPECT_NE(spliced.error().message.find("sm_80"), std::string::npos) << spliced.error().message;
    return;
  }
  FAIL() << "no sm_80 fixture";
}

TEST(Splice, UnknownKernelIsBadInput) {
  const Kernel k = fixture_kernel("saxpy");
  const auto spliced = splice(k.cubin, "nobody", small_shape(), Plan{}, {});
  ASSERT_FALSE(spliced);
  EXPECT_EQ(spliced.error().kind, ErrorKind::bad_input);
}

// nvdisasm, where there is one, reads every spliced cubin without a complaint and finds the same original opcodes.
TEST(Splice, NvdisasmReadsTheResult) {
  const char* given = std::getenv("XTRACE_NVDISASM");
  const std::string tool = given ? given : "nvdisasm";
  if (std::system((tool + " --version > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no nvdisasm on this machine (set XTRACE_NVDISASM)";
  const std::filesystem::path dir = std::filesystem::temp_directory_path() / "xtrace_splice_test";
  std::filesystem::create_directories(dir);
  size_t files = 0;
  for (const Kernel& k : fixture_kernels("sm_90"))
    for (const Config& c : configs) {
      const auto spliced = splice(k.cubin, k.name, small_shape(), plan_of(c.probe, c.one_in),
                                  some_layout(small_shape(), c.table, true));
      if (!spliced) continue;
      ASSERT_TRUE(write_file(dir / "spliced.cubin", ByteView(spliced->cubin)));
      const std::string command = fmt::format("{} -c {} > {} 2> {}", tool, (dir / "spliced.cubin").string(),
                                              (dir / "text").string(), (dir / "complaints").string());
      EXPECT_EQ(std::system(command.c_str()), 0) << k.name;
      EXPECT_EQ(read_file(dir / "complaints")->size(), 0u) << k.name;
      EXPECT_GT(read_file(dir / "text")->size(), 1000u) << k.name;
      ++files;
    }
  EXPECT_GT(files, 50u);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace xtrace::instrument::test
