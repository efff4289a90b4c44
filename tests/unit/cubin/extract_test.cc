#include "instrument/cubin/extract.h"

#include <elf.h>

#include <set>

#include "tests/unit/cubin/cubins.h"

namespace xtrace::cubin {
namespace {

using testing::HasSubstr;

std::vector<std::string> texts_of(const Image& image) {
  std::vector<std::string> names;
  for (const Section& s : image.sections())
    if (s.name.starts_with(".text.")) names.push_back(s.name.substr(6));
  return names;
}

// Of every relocation of one section: offset, type, name of the symbol, addend.
std::vector<std::string> relocations_of(const Image& image, const std::string& section) {
  std::vector<std::string> out;
  for (const Relocation& r : image.relocations())
    if (image.sections()[r.target_section].name == section)
      out.push_back(fmt::format("{:#x} type {} to {} + {}", r.offset, r.type, image.symbols()[r.symbol].name,
                                r.addend));
  return out;
}

TEST(Extract, EveryKernelOfTheFixturesComesOutAsItWas) {
  size_t kernels = 0;
  for (const std::string name : kFixtures) {
    if (name.ends_with("relocatable")) continue;  // not linked
    const Bytes bytes = fixture(name);
    const Image image = parsed(bytes);
    for (const std::string& kernel : image.kernels()) {
      SCOPED_TRACE(name + " " + kernel);
      ++kernels;
      const auto out = extract_function(bytes, kernel);
      ASSERT_TRUE(out) << out.error().to_string();
      const Image small = parsed(out->cubin);
      EXPECT_EQ(small.sm(), image.sm());
      EXPECT_LE(out->cubin.size(), bytes.size());
      const KernelInfo before = info_of(image, kernel), after = info_of(small, kernel);
      EXPECT_EQ(small.sections()[after.text_section].data, image.sections()[before.text_section].data);
      EXPECT_EQ(after.register_count, before.register_count);
      EXPECT_EQ(after.frame_bytes, before.frame_bytes);
      EXPECT_EQ(after.min_stack_bytes, before.min_stack_bytes);
      EXPECT_EQ(after.param_base, before.param_base);
      EXPECT_EQ(after.param_bytes, before.param_bytes);
      EXPECT_EQ(after.params.size(), before.params.size());
      EXPECT_EQ(after.functions.size(), before.functions.size());
      ASSERT_EQ(after.constant_sections.size(), before.constant_sections.size());
      for (const auto& [bank, section] : before.constant_sections) {
        ASSERT_TRUE(after.constant_sections.contains(bank)) << bank;
        EXPECT_EQ(small.sections()[after.constant_sections.at(bank)].data, image.sections()[section].data);
      }
      EXPECT_EQ(relocations_of(small, ".text." + kernel), relocations_of(image, ".text." + kernel));
    }
  }
  EXPECT_GE(kernels, 20u);
}

// Two kernels in one cubin: the other one goes, with all that is said of it.
TEST(Extract, LeavesOtherKernelsOut) {
  size_t with_others = 0;
  for (const std::string name : kFixtures) {
    if (name.ends_with("relocatable")) continue;
    const Bytes bytes = fixture(name);
    const Image image = parsed(bytes);
    const std::vector<std::string> kernels = image.kernels();
    if (kernels.size() < 2) continue;
    ++with_others;
    const auto out = extract_function(bytes, kernels[0]);
    ASSERT_TRUE(out) << out.error().to_string();
    const Image small = parsed(out->cubin);
    EXPECT_EQ(texts_of(small), out->functions);
    for (const Section& s : small.sections())
      EXPECT_EQ(s.name.find(kernels[1]), std::string::npos) << name << s.name;
    for (const Symbol& s : small.symbols()) EXPECT_NE(s.name, kernels[1]) << name;
    EXPECT_LT(out->cubin.size(), bytes.size());
  }
  EXPECT_GT(with_others, 0u) << "no fixture with two kernels";
}

// The header is patched, so that nothing points at what is gone.
TEST(Extract, DebugSectionsAndProgramHeadersGo) {
  const Bytes bytes = fixture("sm_90/calls_lineinfo");
  const auto out = extract_function(bytes, parsed(bytes).kernels().at(0));
  ASSERT_TRUE(out) << out.error().to_string();
  EXPECT_THAT(out->left_out, testing::Contains("debug sections"));
  const Image cut = parsed(out->cubin);
  for (const Section& s : cut.sections()) EXPECT_FALSE(s.name.starts_with(".debug")) << s.name;
  EXPECT_EQ(*read_at<uint16_t>(out->cubin, 56, "e_phnum"), 0);
}

// As in the libraries of CUDA 13.0 that were built by older linkers: sh_info names the text, and no flag says so.
TEST(Extract, TheTextOfAFunctionIsNamedWithoutAFlag) {
  Bytes bytes = fixture("sm_90/plain");
  const Image image = parsed(bytes);
  const auto header = *read_at<Elf64_Ehdr>(bytes, 0, "ELF header");
  size_t unflagged = 0;
  for (size_t i = 0; i < image.sections().size(); ++i) {
    const uint64_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
    auto s = *read_at<Elf64_Shdr>(bytes, at, "section header");
    const std::string& name = image.sections()[i].name;
    if ((s.sh_flags & SHF_INFO_LINK) == 0 || !(name.starts_with(".nv.info.") || name.starts_with(".nv.constant") || name.starts_with(".nv.shared.")))
      continue;
    s.sh_flags &= ~static_cast<uint64_t>(SHF_INFO_LINK);
    write_at(std::span(bytes), at, s);
    ++unflagged;
  }
  ASSERT_GE(unflagged, 2u);
  const auto out = extract_function(bytes, "scale");
  ASSERT_TRUE(out) << out.error().to_string();
  const Image small = parsed(out->cubin);
  size_t named = 0;
  for (const Section& s : small.sections()) {
    if (s.name != ".nv.info.scale" && s.name != ".nv.constant0.scale") continue;
    EXPECT_EQ(small.sections().at(s.info).name, ".text.scale");
    ++named;
  }
  EXPECT_EQ(named, 2u);
}

TEST(Extract, UnknownFunctionIsNamed) {
  const auto out = extract_function(fixture("sm_90/plain"), "nobody");
  ASSERT_FALSE(out);
  EXPECT_THAT(out.error().message, HasSubstr("nobody"));
  EXPECT_EQ(out.error().kind, ErrorKind::bad_input);
}

// Found by tests/fuzz: a null symbol that claims a section.
TEST(Extract, NullSymbolStaysNull) {
  Bytes bytes = fixture("sm_90/plain");
  const Image image = parsed(bytes);
  const auto header = *read_at<Elf64_Ehdr>(bytes, 0, "ELF header");
  const auto symtab = *read_at<Elf64_Shdr>(
      bytes, header.e_shoff + image.symbol_table_section() * sizeof(Elf64_Shdr), "section header");
  auto null = *read_at<Elf64_Sym>(bytes, symtab.sh_offset, "symbol");
  null.st_shndx = 4;
  write_at(std::span(bytes), symtab.sh_offset, null);
  const auto out = extract_function(bytes, "scale");
  ASSERT_TRUE(out) << out.error().to_string();
  EXPECT_EQ(parsed(out->cubin).symbols().at(0).section, 0);
}

// With its relocations taken away the kernel reaches no variable, and has all of them if they are asked for.
TEST(Extract, VariablesComeAlongWhenAskedFor) {
  Bytes bytes = fixture("sm_90/variables");
  const auto header = *read_at<Elf64_Ehdr>(bytes, 0, "ELF header");
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    const uint64_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
    auto section = *read_at<Elf64_Shdr>(bytes, at, "section header");
    if (section.sh_type != SHT_REL && section.sh_type != SHT_RELA) continue;
    section.sh_size = 0;
    write_at(std::span(bytes), at, section);
  }
  const auto variables = [](ByteView cubin) {
    std::set<std::string> names;
    const Image image = parsed(Bytes(cubin.begin(), cubin.end()));
    for (const Symbol& s : image.symbols())
      if (s.section < image.sections().size() && image.sections()[s.section].name.starts_with(".nv.global")) names.insert(s.name);
    return names;
  };
  ASSERT_TRUE(variables(bytes).contains("counter"));
  const auto all = extract_function(bytes, "variables", Variables::all), reached = extract_function(bytes, "variables");
  ASSERT_TRUE(all) << all.error().to_string();
  ASSERT_TRUE(reached) << reached.error().to_string();
  EXPECT_EQ(variables(all->cubin), variables(bytes));
  EXPECT_TRUE(variables(reached->cubin).empty());
}

TEST(Extract, TwiceIsOnce) {
  const Bytes bytes = fixture("sm_90/variables");
  const std::string kernel = parsed(bytes).kernels().at(0);
  const auto once = extract_function(bytes, kernel);
  ASSERT_TRUE(once) << once.error().to_string();
  const auto twice = extract_function(once->cubin, kernel);
  ASSERT_TRUE(twice) << twice.error().to_string();
  EXPECT_EQ(twice->cubin, once->cubin);
}

}  // namespace
}  // namespace xtrace::cubin
