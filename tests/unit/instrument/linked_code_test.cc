// Linked code (nvcc -rdc=true) in the form of whole-program compilation, and calls through its pointers in what is spliced.
#include "instrument/linked_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "instrument/function_pointers.h"
#include "instrument/sass/branch.h"
#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

using testing::AllOf, testing::HasSubstr;

constexpr uint64_t first_function = 0x7f5a98765000, apart = 0x900;

cubin::Image linked(const std::string& name) {
  return cubin::Image::parse(read_file(std::string(XTRACE_SOURCE_DIR) + "/fixtures/cubins/linked/" + name + ".cubin").value()).value();
}

// All functions that are no kernels, `apart` from each other.
FunctionAddresses some_addresses(const cubin::Image& image) {
  FunctionAddresses found;
  for (uint32_t s = 1; s < image.symbols().size(); ++s)
    if (image.symbols()[s].is_function() && !image.symbols()[s].is_entry()) found[s] = first_function + found.size() * apart;
  return found;
}

Kernel whole(const std::string& kernel) {
  const cubin::Image image = linked("sm_90");
  const auto cubin = as_whole_program(image, kernel, some_addresses(image));
  EXPECT_TRUE(cubin) << cubin.error().to_string();
  EXPECT_EQ(cubin->why_not, "");
  return {"whole", kernel, cubin->cubin};
}

Code whole_code(const Kernel& k) {
  const cubin::Image image = cubin::Image::parse(k.cubin).value();
  return read_code(image, cubin::kernel_info(image, k.name).value()).value();
}

TEST(LinkedCode, IsToldByRelocationsAgainstFunctions) {
  const cubin::Image image = linked("sm_90");
  for (const std::string& kernel : image.kernels()) EXPECT_TRUE(is_linked(image, *cubin::kernel_info(image, kernel))) << kernel;
  for (const char* arch : {"sm_80", "sm_90"})
    for (const Kernel& k : fixture_kernels(arch)) {
      if (k.file.stem() == "relocatable") continue;   // not linked yet
      const cubin::Image plain = *cubin::Image::parse(k.cubin);
      EXPECT_FALSE(is_linked(plain, *cubin::kernel_info(plain, k.name))) << k.name << ' ' << k.file;
    }
}

// Each reads as the code of one kernel; only a failed assertion leaves it.
TEST(LinkedCode, NothingIsAbsolute) {
  const cubin::Image image = linked("sm_90");
  for (const std::string& kernel : image.kernels()) {
    SCOPED_TRACE(kernel);
    const Code code = whole_code(whole(kernel));
    size_t calls = 0;
    for (InstIndex i = 0; i < code.insts.size(); ++i) {
      if (!code.reachable[i]) continue;
      const std::string text = where(code, i);
      const bool absolute = text.find("CALL.ABS") != std::string::npos || text.find("RET.ABS") != std::string::npos;
      EXPECT_EQ(absolute, code.insts[i].asserts) << text;
      calls += text.find("CALL.REL") != std::string::npos;
    }
    EXPECT_GT(calls, 0u);
  }
}

std::vector<uint32_t> words_of(const cubin::Image& image, std::string_view section, uint8_t attribute) {
  std::vector<uint32_t> words;
  const std::vector<cubin::InfoRecord> records = *image.info_records(*image.find_section(section));
  for (const cubin::InfoRecord& r : records)
    for (size_t at = 0; r.format == 4 && r.attribute == attribute && at < r.payload.size(); at += 4) words.push_back(*read_at<uint32_t>(r.payload, at, "word"));
  return words;
}

// What .nv.info says of a function's instructions, of those of the copy.
TEST(LinkedCode, RecordsOfFunctionsAreTheKernels) {
  constexpr uint8_t offsets_of_groups = 0x28, masks_of_groups = 0x29;
  const cubin::Image before = linked("sm_90"), after = *cubin::Image::parse(whole("linked_direct").cubin);
  const std::vector<uint32_t> old = words_of(before, ".nv.info._Z7far_sumi", offsets_of_groups), now = words_of(after, ".nv.info.linked_direct", offsets_of_groups);
  ASSERT_GT(old.size(), 0u);
  ASSERT_EQ(now.size(), old.size());
  EXPECT_TRUE(words_of(before, ".nv.info.linked_direct", offsets_of_groups).empty());
  EXPECT_EQ(words_of(after, ".nv.info.linked_direct", masks_of_groups), words_of(before, ".nv.info._Z7far_sumi", masks_of_groups));
  const Bytes& function = before.sections()[*before.find_section(".text._Z7far_sumi")].data;
  const Bytes& kernel = after.sections()[*after.find_section(".text.linked_direct")].data;
  for (size_t k = 0; k < old.size(); ++k) {
    EXPECT_GT(now[k], old[k]);
    EXPECT_EQ(*read_at<uint64_t>(kernel, now[k], "instruction"), *read_at<uint64_t>(function, old[k], "instruction")) << k;
  }
}

// In the copy, and where it has gone in spliced code.
TEST(LinkedCode, FunctionsKeepTheirSourceLines) {
  const Case c = splice_case(whole("linked_direct"), plan_of(ProbeKind::block, 4));
  const Code code = whole_code(c.kernel);
  const cubin::Image image = *cubin::Image::parse(c.kernel.cubin), spliced = *cubin::Image::parse(c.spliced.cubin);
  const auto lines = *cubin::source_lines(image, *cubin::kernel_info(image, c.kernel.name));
  const auto moved = *cubin::source_lines(spliced, *cubin::kernel_info(spliced, c.kernel.name));
  const uint32_t own = 0x400;   // bytes, of the kernel itself
  size_t of_functions = 0;
  for (uint32_t word = 0; word < word_count(c); ++word) {
    const uint32_t pc = c.spliced.map.original_of_new[word];
    if (pc == wire::AddressMap::inserted || !code.reachable[code.index(pc)]) continue;
    const auto line = lines.find(pc), there = moved.find(word * 16);
    if (pc < own) {
      EXPECT_TRUE(line != lines.end() && line->second.file.ends_with("linked_calls.cu")) << pc;
    }
    if (line == lines.end()) continue;   // the division, which the compiler brings along
    EXPECT_EQ(line->second.file.ends_with("linked_functions.cu"), pc >= own && !line->second.file.ends_with(".hpp") && !line->second.file.ends_with(".h")) << pc;
    of_functions += pc >= own;
    ASSERT_NE(there, moved.end()) << word;
    EXPECT_EQ(there->second.line, line->second.line) << pc;
  }
  EXPECT_GT(of_functions, 100u);
}

// The functions of the type that is called, as far from each other as they were.
TEST(LinkedCode, PointersLeadToFunctionsOfTheirType) {
  const cubin::Image image = linked("sm_90");
  const FunctionAddresses addresses = some_addresses(image);
  const std::pair<const char*, std::vector<const char*>> expected[] = {
      {"linked_table", {"_Z7step_upi", "_Z9step_downi", "_Z9step_bothi"}},
      {"linked_virtual", {"_ZN4Line4growEi", "_ZN5Shape6shrinkEi", "_ZN6Square4growEi", "_ZN6Square6shrinkEi", "_ZN6Stairs4growEi"}},
      {"linked_direct", {}}};
  for (const auto& [kernel, names] : expected) {
    SCOPED_TRACE(kernel);
    const Code code = whole_code(whole(kernel));
    std::vector<int64_t> pointers, found;
    for (const char* name : names) pointers.push_back(static_cast<int64_t>(addresses.at(*image.find_symbol(name))));
    for (const InstIndex entry : code.pointers.entries) found.push_back(int64_t{code.pc(entry)} - code.pointers.base);
    std::ranges::sort(pointers);
    EXPECT_EQ(found, pointers);
  }
}

TEST(LinkedCode, TheBaseOfSplicedCallsMatters) {
  const sass::Arch& arch = **sass::find_arch(90);
  for (const uint32_t one_in : {1u, 4u}) {
    const Case c = splice_case(whole("linked_table"), plan_of(ProbeKind::block, one_in));
    EXPECT_TRUE(c.verify().empty());
    size_t calls = 0;
    for (uint32_t k = 0; k < word_count(c); ++k) {
      const sass::RawInst w = word_at(c, c.spliced.cubin, k);
      const auto base = sass::register_branch_base(arch, w, k * 16);
      if (!base || sass::effects(arch, w, k * 16).mnemonic != "CALL") continue;
      ++calls;
      for (const int64_t to : {int64_t{16}, -*base}) {
        const std::set<std::string> rules = broken(c, k, [&](sass::RawInst& v) { ASSERT_TRUE(sass::set_register_branch_base(arch, v, k * 16, *base + to)); });
        EXPECT_EQ(rules, std::set<std::string>{"pointer-followed"}) << to;
      }
    }
    EXPECT_EQ(calls, one_in == 1 ? 2u : 4u);
  }
}

TEST(LinkedCode, WhatCanNotBeMadeWholeIsRefusedByName) {
  const cubin::Image image = linked("refused");
  const auto jumps = as_whole_program(image, "linked_switch", {});
  ASSERT_TRUE(jumps) << "it can be replayed clean";
  EXPECT_TRUE(jumps->cubin.empty());
  EXPECT_THAT(jumps->why_not, AllOf(HasSubstr("function _Z7by_casePKiPfi$13, which has a section of its own, has a jump table"), HasSubstr("-rdc=true")));
  const auto unnamed = as_whole_program(image, "linked_unnamed", {});
  ASSERT_FALSE(unnamed);
  EXPECT_THAT(unnamed.error().to_string(), HasSubstr("pointers lead to function _Z7unnamedi, and no variable that was recorded holds its address"));
  EXPECT_EQ(unnamed.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(unnamed.error().hint, HasSubstr("-rdc=true"));

  cubin::Image no_graph = linked("sm_90");
  no_graph.set_section_data(*no_graph.find_section(".nv.callgraph"), {});
  const auto which = as_whole_program(no_graph, "linked_table", some_addresses(no_graph));
  ASSERT_FALSE(which);
  EXPECT_THAT(which.error().to_string(), HasSubstr("does not say of which type"));

  FunctionAddresses same = some_addresses(linked("sm_90"));
  const cubin::Image steps = linked("sm_90");
  FunctionAddresses far = same;
  far[*steps.find_symbol("_Z7step_upi")] += 1 << 21;
  same[*steps.find_symbol("_Z7step_upi")] = same.at(*steps.find_symbol("_Z9step_downi")) + 16;
  const auto too_far = as_whole_program(steps, "linked_table", far), inside = as_whole_program(steps, "linked_table", same);
  ASSERT_TRUE(!too_far && !inside);
  EXPECT_THAT(too_far.error().to_string(), HasSubstr("bytes apart"));
  EXPECT_THAT(inside.error().to_string(), HasSubstr("lies in another function"));
}

// Calls of the driver's functions stay what they are, and are refused where the code is read.
TEST(LinkedCode, PrintfIsRefusedAsElsewhere) {
  const auto cubin = as_whole_program(linked("refused"), "linked_printf", {});
  ASSERT_TRUE(cubin) << cubin.error().to_string();
  const cubin::Image image = *cubin::Image::parse(cubin->cubin);
  const auto code = read_code(image, *cubin::kernel_info(image, "linked_printf"));
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message, HasSubstr("call that leaves the kernel's code at linked_printf@0x"));
}

}  // namespace
}  // namespace xtrace::instrument::test
