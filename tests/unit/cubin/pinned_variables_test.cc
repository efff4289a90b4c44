// Module variables at chosen addresses: everything that refers to one has the address, and nothing else changes.
#include "instrument/cubin/pinned_variables.h"

#include "cubins.h"
#include "instrument/cubin/image.h"

namespace xtrace::cubin {
namespace {

using testing::HasSubstr;

constexpr uint64_t address = 0x7f1234567890;

Image pinned(ByteView cubin, const std::string& name) {
  const PinnedVariable variable{name, address};
  const auto edited = with_pinned_variables(cubin, {&variable, 1});
  EXPECT_TRUE(edited) << (edited ? "" : edited.error().to_string());
  return parsed(edited ? *edited : cubin);
}

template <typename T>
T word_at(const Image& image, const std::string& section, uint64_t offset) {
  const auto index = image.find_section(section);
  EXPECT_TRUE(index) << section;
  const auto word = read_at<T>(image.sections()[*index].data, offset, "word");
  EXPECT_TRUE(word);
  return word.value_or(T{});
}

// Relocations of code and data that still speak of the variable.
size_t left(const Image& image, const std::string& name) {
  constexpr uint64_t allocated = 2;
  return static_cast<size_t>(std::ranges::count_if(image.relocations(), [&](const Relocation& r) {
    return image.symbols()[r.symbol].name == name && (image.sections()[r.target_section].flags & allocated) != 0;
  }));
}

TEST(PinnedVariables, ConstantsAndInitialisersHoldTheAddress) {
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {   // the addends of sm_80 stand in the data
    SCOPED_TRACE(arch);
    const Bytes cubin = fixture(std::string(arch) + "/variables");
    const Image before = parsed(cubin), after = pinned(cubin, "scratch");
    EXPECT_EQ(left(before, "scratch"), 2u);
    EXPECT_EQ(left(after, "scratch"), 0u);
    size_t filled = 0;
    for (const Relocation& r : before.relocations()) {
      if (before.symbols()[r.symbol].name != "scratch") continue;
      EXPECT_EQ(word_at<uint64_t>(after, before.sections()[r.target_section].name, r.offset), address);
      ++filled;
    }
    EXPECT_EQ(filled, 2u) << "scratch_pointer, and what the kernel loads the address from";
    // All others are there, in order.
    const auto same = [](const Relocation& a, const Relocation& b) {
      return a.target_section == b.target_section && a.offset == b.offset && a.type == b.type && a.symbol == b.symbol && a.addend == b.addend;
    };
    std::vector<Relocation> others;
    for (const Relocation& r : before.relocations())
      if (before.symbols()[r.symbol].name != "scratch" || (before.sections()[r.target_section].flags & 2) == 0) others.push_back(r);
    EXPECT_TRUE(std::ranges::equal(after.relocations(), others, same));
    for (size_t s = 0; s < before.sections().size(); ++s) {
      const Section& section = before.sections()[s];
      const bool may = section.name.starts_with(".rel") || section.name.starts_with(".nv.merc") || section.name.starts_with(".nv.constant4") || section.name.starts_with(".nv.global.init");
      if (!may) {
        EXPECT_EQ(after.sections()[s].data, section.data) << section.name;
      }
    }
  }
}

TEST(PinnedVariables, ImmediatesHoldBothHalves) {
  const Image after = pinned(fixture("sm_90/patched_address"), "table");
  EXPECT_EQ(word_at<uint32_t>(after, ".text.patched_address", 0x80 + 4), static_cast<uint32_t>(address));
  EXPECT_EQ(word_at<uint32_t>(after, ".text.patched_address", 0x30 + 4), static_cast<uint32_t>(address >> 32));
  EXPECT_EQ(left(after, "table"), 0u);
}

// By the variable's symbol or by that of its section, with an addend.
TEST(PinnedVariables, PlacesInsideOfAVariable) {
  Image image = parsed(fixture("sm_90/variables"));
  const auto relocations = image.relocations();
  const auto of = [&](const char* name) {
    return *std::ranges::find_if(relocations, [&](const Relocation& r) { return image.symbols()[r.symbol].name == name && r.type == 2; });
  };
  const Symbol counter = image.symbols()[*image.find_symbol("counter")], functions = image.symbols()[*image.find_symbol("functions")];
  ASSERT_EQ(counter.section, functions.section);
  uint32_t by_section = 0;
  for (uint32_t s = 0; s < image.symbols().size(); ++s)
    if ((image.symbols()[s].info & 0xf) == 3 && image.symbols()[s].section == counter.section) by_section = s;
  ASSERT_NE(by_section, 0u);
  Relocation inside = of("counter"), other = of("functions");
  Relocation by_name = inside;
  by_name.addend = 2;
  inside.symbol = other.symbol = by_section;
  inside.addend = static_cast<int64_t>(counter.value) + 3;
  other.addend = static_cast<int64_t>(functions.value) + 8;
  inside.offset = 0x18;   // of the constants that other variables had
  other.offset = 0x20;
  image.add_relocation(by_name);
  image.add_relocation(inside);
  image.add_relocation(other);
  const Bytes cubin = *image.write();
  const Image after = pinned(cubin, "counter");
  EXPECT_EQ(word_at<uint64_t>(after, ".nv.constant4", by_name.offset), address + 2);
  EXPECT_EQ(word_at<uint64_t>(after, ".nv.constant4", 0x18), address + 3);
  const auto kept = after.relocations();
  const auto speak_of_section = [&](const Relocation& r) { return r.symbol == by_section; };
  ASSERT_EQ(std::ranges::count_if(kept, speak_of_section), 1);
  EXPECT_EQ(std::ranges::find_if(kept, speak_of_section)->offset, other.offset) << "of another variable in the section";
}

TEST(PinnedVariables, WhatIsNotKnownIsRefusedByName) {
  const Bytes cubin = fixture("sm_90/variables");
  const auto refused = [](ByteView code, const char* name) {
    const PinnedVariable variable{name, address};
    const auto edited = with_pinned_variables(code, {&variable, 1});
    EXPECT_FALSE(edited);
    if (edited) return std::string();
    EXPECT_EQ(edited.error().kind, ErrorKind::unsupported);
    return edited.error().message;
  };
  EXPECT_EQ(refused(cubin, "nothing"), "the code has 0 variables nothing");
  EXPECT_EQ(refused(cubin, "twice"), "the code has 0 variables twice");
  Image image = parsed(cubin);
  const auto relocations = image.relocations();
  Relocation r = *std::ranges::find_if(relocations, [&](const Relocation& o) { return image.symbols()[o.symbol].name == "scratch"; });
  r.type = 55;   // 32 bits of an address
  image.add_relocation(r);
  EXPECT_THAT(refused(*image.write(), "scratch"), HasSubstr("relocation of type 55 at 0x10 of .nv.constant4 of variable scratch"));
  // As in code that was compiled apart and linked: a table of functions holds their addresses.
  Image linked = parsed(cubin);
  const uint32_t data = *linked.find_section(".nv.global.init");
  Relocation of_function = *std::ranges::find_if(relocations, [&](const Relocation& o) { return o.target_section == data; });
  of_function.symbol = *linked.find_symbol("variables");
  of_function.offset = linked.symbols()[*linked.find_symbol("functions")].value + 8;
  linked.add_relocation(of_function);
  EXPECT_EQ(refused(*linked.write(), "functions"), "variable functions holds the address of function variables, which the loader chooses");
  EXPECT_EQ(left(pinned(*linked.write(), "counter"), "counter"), 0u) << "another variable";
}

}  // namespace
}  // namespace xtrace::cubin
