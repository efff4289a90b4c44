#include "capture/inject/cubin_index.h"

#include <gtest/gtest.h>

namespace xtrace::inject {
namespace {

// A pretended cubin is text: "kernel=contents:registers:shared;..."; "!" can not be read.
struct Parsed {
  std::string name, contents;
  int registers, shared;
};
std::vector<Parsed> parse(ByteView bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<Parsed> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    const std::string item = text.substr(at, end - at);
    const size_t eq = item.find('='), c1 = item.find(':'), c2 = item.rfind(':');
    out.push_back({item.substr(0, eq), item.substr(eq + 1, c1 - eq - 1), std::stoi(item.substr(c1 + 1)),
                   std::stoi(item.substr(c2 + 1))});
    at = end + 1;
  }
  return out;
}
ByteView view(const std::string& s) { return std::as_bytes(std::span(s)); }

CubinIndex make_index() {
  CubinReader reader;
  reader.kernels = [](ByteView b) -> Result<std::vector<std::string>> {
    if (!b.empty() && b[0] == std::byte{'!'}) return bad_input("not a cubin");
    std::vector<std::string> names;
    for (const Parsed& p : parse(b)) names.push_back(p.name);
    return names;
  };
  reader.facts = [](ByteView b, const std::string& kernel) -> Result<KernelFacts> {
    for (const Parsed& p : parse(b))
      if (p.name == kernel) return KernelFacts{hash128(view(p.contents)), p.registers, p.shared, {}};
    return bad_input("no kernel {}", kernel);
  };
  return CubinIndex(reader);
}

std::string chosen(CubinIndex& index, const std::string& kernel, std::vector<uint64_t> handles = {},
                   ObservedFunction observed = {}) {
  const auto choice = index.choose(kernel, handles, observed);
  if (!choice) return "error: " + choice.error().message;
  return {reinterpret_cast<const char*>(choice->bytes->data()), choice->bytes->size()};
}

TEST(CubinIndex, ByNameWhenOnlyOneDefinesIt) {
  CubinIndex index = make_index();
  ASSERT_TRUE(index.loaded(1, view("a=x:10:0;b=y:20:0")));
  ASSERT_TRUE(index.loaded(2, view("c=z:30:0")));
  EXPECT_EQ(chosen(index, "b"), "a=x:10:0;b=y:20:0");
  EXPECT_EQ(chosen(index, "c"), "c=z:30:0");
  EXPECT_EQ(chosen(index, "d"), "error: no loaded cubin defines 'd' (of 2 seen)");
  EXPECT_TRUE(index.defines("a"));
  EXPECT_FALSE(index.defines("d"));
}

TEST(CubinIndex, TheHandleDecidesBetweenEqualNames) {
  CubinIndex index = make_index();
  const auto one = index.loaded(1, view("k=x:10:0"));
  const auto two = index.loaded(2, view("k=y:10:0"));
  index.associate(0x100, *one);
  index.associate(0x200, *two);
  EXPECT_EQ(chosen(index, "k", {0, 0x200}), "k=y:10:0");
  EXPECT_EQ(chosen(index, "k", {0x100, 0x200}), "k=x:10:0") << "the first known handle counts";
  EXPECT_NE(chosen(index, "k", {0x300}).find("2 loaded cubins define 'k' differently"), std::string::npos);
}

TEST(CubinIndex, AHandleWhoseCubinLacksTheKernelDoesNotDecide) {
  CubinIndex index = make_index();
  const auto one = index.loaded(1, view("other=x:10:0"));
  ASSERT_TRUE(index.loaded(2, view("k=y:10:0")));
  index.associate(0x100, *one);
  EXPECT_EQ(chosen(index, "k", {0x100}), "k=y:10:0");
}

TEST(CubinIndex, EqualContentsAreOneKernel) {
  CubinIndex index = make_index();
  ASSERT_TRUE(index.loaded(1, view("k=x:10:0;m=1:1:0")));
  ASSERT_TRUE(index.loaded(2, view("k=x:10:0;n=2:2:0")));
  const std::string got = chosen(index, "k");
  EXPECT_EQ(got.substr(0, 8), "k=x:10:0") << got;
}

TEST(CubinIndex, AttributesTellTheRestApart) {
  CubinIndex index = make_index();
  ASSERT_TRUE(index.loaded(1, view("k=x:10:0")));
  ASSERT_TRUE(index.loaded(2, view("k=y:12:0")));
  ASSERT_TRUE(index.loaded(3, view("k=z:12:64")));
  EXPECT_EQ(chosen(index, "k", {}, {10, -1}), "k=x:10:0");
  EXPECT_EQ(chosen(index, "k", {}, {12, 64}), "k=z:12:64");
  EXPECT_EQ(chosen(index, "k", {}, {12, 0}), "k=y:12:0");
  EXPECT_NE(chosen(index, "k", {}, {12, -1}).find("2 loaded cubins define 'k' differently, all of them with the driver's 12 registers"),
            std::string::npos);
  EXPECT_NE(chosen(index, "k", {}, {99, 0}).find("none of them has the driver's 99 registers"), std::string::npos);
  EXPECT_NE(chosen(index, "k").find("3 loaded cubins define"), std::string::npos);
}

// A template's kernel in several translation units of one library: the other kernels of the unit tell.
TEST(CubinIndex, KernelsBesideItTellTheRestApart) {
  CubinIndex index = make_index();
  ASSERT_TRUE(index.loaded(1, view("k=x:10:0;a=1:1:0;both=5:1:0")));
  ASSERT_TRUE(index.loaded(2, view("k=y:10:0;b=2:1:0;both=5:1:0")));
  ASSERT_TRUE(index.loaded(3, view("k=y:10:0;c=3:1:0;a2=3:1:0")));   // the same kernel as in 2
  const auto names = index.telling_names("k", {}, {10, 0});
  const std::set<std::string> asked(names.begin(), names.end());
  EXPECT_TRUE(asked.contains("a"));
  EXPECT_TRUE(asked.contains("b"));
  EXPECT_FALSE(asked.contains("both"));
  EXPECT_FALSE(asked.contains("k"));
  EXPECT_EQ(chosen(index, "k", {}, {10, 0, {"a"}}), "k=x:10:0;a=1:1:0;both=5:1:0");
  EXPECT_EQ(chosen(index, "k", {}, {10, 0, {"b"}}).substr(0, 8), "k=y:10:0");
  EXPECT_NE(chosen(index, "k", {}, {10, 0, {}}).find("2 loaded cubins define 'k' differently"), std::string::npos);
  EXPECT_NE(chosen(index, "k", {}, {10, 0, {"a", "b"}}).find("which one runs is not known"), std::string::npos);
  EXPECT_TRUE(index.telling_names("a", {}, {}).empty()) << "nothing to ask";
}

TEST(CubinIndex, ASectionMayCountTheReservedKilobyteOfSharedMemory) {
  CubinIndex index = make_index();
  ASSERT_TRUE(index.loaded(1, view("k=x:10:1152")));
  ASSERT_TRUE(index.loaded(2, view("k=y:10:1280")));
  EXPECT_EQ(chosen(index, "k", {}, {10, 128}), "k=x:10:1152");
  EXPECT_EQ(chosen(index, "k", {}, {10, 1280}), "k=y:10:1280");
}

TEST(CubinIndex, UnloadedCubinsAreForgotten) {
  CubinIndex index = make_index();
  const auto key = index.loaded(1, view("k=x:10:0"));
  ASSERT_TRUE(index.loaded(2, view("k=x:10:0")));  // the same once more
  index.associate(0x100, *key);
  EXPECT_EQ(index.cubins(), 1u);
  index.unloaded(1);
  EXPECT_EQ(chosen(index, "k", {0x100}), "k=x:10:0");
  index.unloaded(2);
  EXPECT_EQ(index.cubins(), 0u);
  EXPECT_FALSE(index.defines("k"));
  ASSERT_TRUE(index.loaded(3, view("k=y:10:0")));
  EXPECT_EQ(chosen(index, "k", {0x100}), "k=y:10:0");
}

TEST(CubinIndex, AReusedModuleIdReplacesItsCubin) {
  CubinIndex index = make_index();
  ASSERT_TRUE(index.loaded(1, view("k=x:10:0")));
  ASSERT_TRUE(index.loaded(1, view("k=y:10:0")));
  EXPECT_EQ(index.cubins(), 1u);
  EXPECT_EQ(chosen(index, "k"), "k=y:10:0");
}

TEST(CubinIndex, ForgottenHandlesDoNotDecide) {
  CubinIndex index = make_index();
  const auto one = index.loaded(1, view("k=x:10:0"));
  ASSERT_TRUE(index.loaded(2, view("k=y:10:0")));
  index.associate(0x100, *one);
  index.forget_handles();
  EXPECT_NE(chosen(index, "k", {0x100}).find("which one runs is not known"), std::string::npos);
}

TEST(CubinIndex, AnUnreadableCubinIsNamedAndNoCandidate) {
  CubinIndex index = make_index();
  const auto bad = index.loaded(9, view("!junk"));
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().to_string().find("module 9 (5 bytes)"), std::string::npos) << bad.error().to_string();
  EXPECT_EQ(index.cubins(), 0u);
}

}  // namespace
}  // namespace xtrace::inject
