#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/file.h"
#include "instrument/code.h"
#include "instrument/relocate.h"
#include "instrument/sass/print.h"
#include "tests/unit/instrument/plain_splices.h"

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
  for (const char* arch : {"sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"})
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

class EveryFixture : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Splice, EveryFixture, ::testing::Values("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"));

TEST_P(EveryFixture, UnderEveryProbe) {
  size_t spliced_kernels = 0;
  for (const Kernel& k : fixture_kernels(GetParam()))
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
  EXPECT_GE(spliced_kernels, 4 * configs.size());
}

// Under inst with implied clocks the prologue's second half stands where the kernel first waits, though a clock is read before.
TEST(Splice, ClocksAreReadInFrontOfTheRestOfThePrologue) {
  size_t spread = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto splicer = Splicer::create(k.cubin, k.name, small_shape());
    if (!splicer) continue;
    wire::SlotLayout layout = some_layout(small_shape(), false, false);
    layout.index_bits = splicer->index_bits();
    Plan plan = plan_of(ProbeKind::inst);
    plan.full_blocks.assign(splicer->blocks().size(), true);
    const auto all = splicer->splice(plan, layout);
    plan.clock_gap = usual_clock_gap;
    const auto some = splicer->splice(plan, layout);
    if (!all || !some) continue;
    EXPECT_LE(some->claims.prologue_words, all->claims.prologue_words) << k.name;
    const bool head_first = some->map.blocks[0].has_clock(0) && !some->map.blocks[0].grouped;
    spread += head_first && some->claims.prologue_words < all->claims.prologue_words;
  }
  EXPECT_GE(spread, 10u);
}

// Parts of sparse sites: where no lane is missing, clocks of a block with several sites share a register by lane groups, two to a word.
TEST(Splice, ClocksOfSparseSitesArePacked) {
  size_t several = 0, packed = 0, halves = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto whole = Splicer::create(k.cubin, k.name, small_shape());
    if (!whole) continue;
    wire::SlotLayout layout = some_layout(small_shape(), false, false);
    layout.index_bits = whole->index_bits();
    Plan plan = plan_of(ProbeKind::inst);
    plan.clock_gap = usual_clock_gap;
    plan.full_blocks.assign(whole->blocks().size(), true);
    for (uint32_t part = 0; part < 8; ++part) {
      const auto spliced = whole->sparse({8, part}).splice(plan, layout);
      if (!spliced) continue;
      for (const wire::Block& b : spliced->map.blocks) {
        uint32_t clocks = 0, whole_words = 0;
        for (uint32_t i = 0; i < b.clocks && b.record_bytes != 0 && !b.clock_at.empty(); ++i) {
          clocks += b.has_clock(i);
          whole_words += b.has_clock(i) && b.clock_at[i].bytes != 2;
        }
        if (clocks < 3) continue;
        ++several;
        packed += b.grouped;
        halves += whole_words < clocks;
        EXPECT_LE(b.record_bytes, 8 * clocks) << k.name << " " << b.first_pc;
      }
    }
  }
  EXPECT_GT(several, 100u);
  EXPECT_GT(packed, several / 2) << "of " << several;
  EXPECT_GT(halves, several / 4) << "of " << several;
}

// The record of a block in which lanes may end stands in it, whatever follows.
TEST(Splice, RecordsAreStoredBeforeLanesEnd) {
  size_t ends = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    const auto splicer = Splicer::create(k.cubin, k.name, small_shape());
    if (!splicer) continue;
    wire::SlotLayout layout = some_layout(small_shape(), false, false);
    layout.index_bits = splicer->index_bits();
    layout.short_records = true;
    layout.lead_bytes = sizeof(wire::SlotHead);
    Plan plan = plan_of(ProbeKind::block);
    plan.full_blocks.assign(splicer->blocks().size(), true);
    const auto spliced = splicer->splice(plan, layout);
    if (!spliced) continue;
    const Case c{k, *spliced, spliced->claims};
    for (const wire::Block& b : spliced->map.blocks) {
      if (!b.exits || b.record_bytes == 0) continue;
      const uint32_t last_pc = b.first_pc + (b.instructions - 1) * sass::inst_bytes;
      bool inside = false, stored = false;
      for (uint32_t w = c.claims.prologue_words, previous = ~0u; w < word_count(c); ++w) {
        if (!inserted(c, w)) previous = c.claims.original_of_new[w];
        if (previous == last_pc) break;
        inside = previous != ~0u && previous + sass::inst_bytes >= b.first_pc;   // what stands in front of its first one, too
        const sass::Effects fx = sass::effects(**sass::find_arch(90), word_at(c, c.spliced.cubin, w), 0);
        stored |= inside && inserted(c, w) && fx.mnemonic == "STG";
      }
      ++ends;
      EXPECT_TRUE(stored) << k.name << " block at " << b.first_pc;
    }
  }
  EXPECT_GE(ends, 15u);
}

TEST(Splice, PairAtEveryReachableInstruction) {
  size_t sites = 0, edges = 0, refused = 0;
  for (const bool wraps : {true, false})
  for (const char* name : {"spmv", "switch", "device_calls", "warp_scan", "sgemm", "wmma"}) {
    const Kernel k = fixture_kernel(name);
    const auto code = code_of(k);
    ASSERT_TRUE(code) << code.error().to_string();
    for (InstIndex i = 0; i < code->insts.size(); ++i) {
      if (!code->reachable[i]) continue;
      Plan plan = plan_of(ProbeKind::pair);
      plan.pair_sites = {OrigPc{code->pc(i)}};
      wire::SlotLayout layout = some_layout(small_shape(), false, wraps);
      layout.headless = !wraps;
      if (layout.headless) layout.lead_bytes = 0;
      const auto spliced = splice(k.cubin, k.name, small_shape(), plan, layout);
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

// NOPs of so many cycles in front of chosen instructions, and nothing else; without any, the code as it was.
TEST(Splice, DelaysAreNopsInFrontOfInstructions) {
  size_t kernels = 0;
  for (const char* arch : {"sm_75", "sm_90", "sm_120"})
    for (const Kernel& k : fixture_kernels(arch)) {
      const auto splicer = Splicer::create(k.cubin, k.name, small_shape());
      if (!splicer) continue;   // refused under every probe
      SCOPED_TRACE(fmt::format("{} {}", arch, k.name));
      const auto none = splicer->delayed({});
      ASSERT_TRUE(none) << none.error().to_string();
      EXPECT_EQ(none->report.new_code_bytes, none->report.original_code_bytes);
      EXPECT_EQ(none->report.new_registers, none->report.original_registers);
      std::vector<Delay> delays;
      for (const wire::Block& b : splicer->blocks()) delays.push_back({OrigPc{b.first_pc}, 1 + b.first_pc / 16 % 40});
      const auto spliced = splicer->delayed(delays);
      ASSERT_TRUE(spliced) << spliced.error().to_string();
      EXPECT_EQ(spliced->report.sites, delays.size());
      const Case c{k, *spliced, spliced->claims};
      std::map<uint32_t, uint32_t> cycles;   // by original offset of what follows
      uint32_t pending = 0;
      uint32_t end = word_count(c);   // behind it lie branches of function pointers
      while (spliced->map.original_of_new[end - 1] == wire::AddressMap::inserted) --end;
      for (uint32_t w = 0; w < end; ++w) {
        const sass::RawInst word = word_at(c, c.spliced.cubin, w);
        if (const uint32_t from = spliced->map.original_of_new[w]; from != wire::AddressMap::inserted) {
          if (pending != 0) cycles[from] = pending;
          pending = 0;
        } else {
          EXPECT_EQ(sass::effects(**sass::find_arch(90), word, 0).mnemonic, "NOP");
          pending += sass::get_control(word).stall;
        }
      }
      EXPECT_EQ(cycles.size(), delays.size());
      for (const Delay& d : delays) EXPECT_EQ(cycles[d.at.value], d.cycles);
      ++kernels;
    }
  EXPECT_GT(kernels, 25u);
}

// A failed assertion ends the launch: its call may leave the section. The place that it would return to moves with the code.
TEST(Splice, FailedAssertionsAreCalledFromSplicedCode) {
  const Kernel k = fixture_kernel("guarded");
  const auto code = code_of(k);
  ASSERT_TRUE(code) << code.error().to_string();
  size_t calls = 0;
  for (InstIndex i = 0; i < code->insts.size(); ++i) {
    if (!code->insts[i].asserts) continue;
    ++calls;
    EXPECT_TRUE(code->successors(i).empty());
    ASSERT_EQ(code->insts[i - 1].fx.mnemonic, "LEPC");
    EXPECT_EQ(*code->insts[i - 1].fx.target, code->pc(i + 1));
  }
  EXPECT_EQ(calls, 1u);
  for (ProbeKind probe : {ProbeKind::count, ProbeKind::block, ProbeKind::inst}) {
    const Case c = splice_case(k, plan_of(probe));
    EXPECT_TRUE(c.verify().empty());
    for (uint32_t w = 0; w < word_count(c); ++w) {
      const sass::Effects fx = sass::effects(**sass::find_arch(90), word_at(c, c.spliced.cubin, w), w * sass::inst_bytes);
      if (fx.mnemonic == "LEPC") {
        EXPECT_GT(*fx.target, int64_t{w} * sass::inst_bytes + sass::inst_bytes);
      }
    }
  }
}

// Packed inst records: the places that were asked for, and the head of each block, have a clock where a register is free.
TEST(Splice, ClocksAtPlaces) {
  const Kernel k = fixture_kernel("sgemm");
  const auto all = Splicer::create(k.cubin, k.name, small_shape());
  ASSERT_TRUE(all);
  Places places(all->section_instructions());
  for (const Splicer::Instruction& i : all->instructions()) {
    places[i.pc.value / sass::inst_bytes] = i.space == sass::MemSpace::shared && i.kind == sass::MemKind::load;
    EXPECT_EQ(i.function, k.name);
  }
  for (const bool full : {false, true}) {
    Plan plan = plan_of(ProbeKind::inst);
    if (full) plan.full_blocks.assign(all->blocks().size(), true);
    const auto every = all->splice(plan, some_layout(small_shape(), false, false));
    const auto some = all->at(places).splice(plan, some_layout(small_shape(), false, false));
    ASSERT_TRUE(every && some) << some.error().to_string();
    EXPECT_LT(some->report.new_code_bytes, every->report.new_code_bytes);
    size_t read = 0, wanted = 0;
    for (const wire::Block& b : some->map.blocks) {
      if (b.clock_at.empty()) continue;
      bool first = true;   // the record's own clock stands at the head, or as near to it as a register is free
      for (uint32_t i = 0; i < b.instructions; ++i) {
        const bool place = places[b.first_pc / sass::inst_bytes + i];
        wanted += place;
        read += place && b.has_clock(i);
        if (b.has_clock(i) && !place) {
          EXPECT_TRUE(first) << "block at " << b.first_pc << " instruction " << i;
        }
        first = first && !b.has_clock(i);
      }
    }
    EXPECT_GT(wanted, 30u);
    EXPECT_GT(10 * read, 8 * wanted);
  }
}

TEST(Splice, OtherAbsoluteCallsAreRefusedByName) {
  size_t refused = 0;
  for (const Kernel& k : fixture_kernels("sm_90")) {
    if (k.file.stem() != "variables") continue;
    const auto code = code_of(k);
    if (code) continue;
    const std::string& message = code.error().message;
    EXPECT_NE(message.find("call that leaves the kernel's code"), std::string::npos) << message;
    EXPECT_NE(code.error().hint.find("--probes=none"), std::string::npos);
    ++refused;
  }
  EXPECT_GT(refused, 0u);
}

// Its memory instructions want their operands earlier than probes are written for: a store of a record that follows the clock
// that it stores is 8 cycles behind it.
TEST(Splice, StoresOfSm75WaitLonger) {
  const auto least = [](const std::string& arch) {
    unsigned least = 99;
    for (const Kernel& k : fixture_kernels(arch)) {
      const auto spliced = splice(k.cubin, k.name, small_shape(), plan_of(ProbeKind::block),
                                  some_layout(small_shape(), false, true));
      const auto code = spliced ? code_of({k.file, k.name, spliced->cubin}) : tl::make_unexpected(spliced.error());
      if (!code) continue;   // a jump table that was moved
      for (size_t i = 1; i < code->insts.size(); ++i) {
        const sass::Effects made = sass::effects(*code->arch, code->insts[i - 1].raw, 0);
        const sass::Effects store = sass::effects(*code->arch, code->insts[i].raw, 0);
        if (made.mnemonic == "CS2R" && store.mnemonic == "STG" && (made.def.gpr & store.use.gpr).any())
          least = std::min<unsigned>(least, sass::get_control(code->insts[i - 1].raw).stall);
      }
    }
    return least;
  };
  EXPECT_EQ(least("sm_75"), 8u);
  EXPECT_EQ(least("sm_80"), 5u);
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
  const auto complaints = [&](const Kernel& k, const Bytes& cubin) {
    EXPECT_TRUE(write_file(dir / "some.cubin", ByteView(cubin)));
    const std::string command = fmt::format("{} -c {} > {} 2> {}", tool, (dir / "some.cubin").string(),
                                            (dir / "text").string(), (dir / "complaints").string());
    EXPECT_EQ(std::system(command.c_str()), 0) << k.name;
    EXPECT_GT(read_file(dir / "text")->size(), 1000u) << k.name;
    const Bytes said = *read_file(dir / "complaints");
    return std::string(reinterpret_cast<const char*>(said.data()), said.size());
  };
  const auto read_it = [&](const Kernel& k, const Result<Spliced>& spliced) {
    if (!spliced) return;
    // An old ELF generation is worth a warning by itself.
    EXPECT_EQ(complaints(k, spliced->cubin), complaints(k, k.cubin)) << k.name;
    ++files;
  };
  for (const Kernel& k : fixture_kernels("sm_90")) {
    for (const Config& c : configs)
      read_it(k, splice(k.cubin, k.name, small_shape(), plan_of(c.probe, c.one_in),
                        some_layout(small_shape(), c.table, true)));
    for (const PlainConfig& c : plain_configs) read_it(k, splice_plain(k, c, 0x100000400000, small_shape()));
  }
  EXPECT_GT(files, 50u);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace xtrace::instrument::test
