#include <gtest/gtest.h>

#include "tools/xtrace/replay/options.h"

namespace xtrace::cli {
namespace {

PlaceFacts load() {
  return {0x120, 3, "LDG.E.64", {"memory", "load", "global"}, "sgemm.cu", 15, "_Z5sgemmiPf", "sgemm(int, float*)"};
}

TEST(Places, HoldForAnInstruction) {
  const PlaceFacts f = load();
  for (const char* yes :
       {"op:LDG", "op:LDG.E.64", "op:LD*", "op:*64", "class:load", "class:global", "line:sgemm.cu", "line:sgemm.cu:15",
        "line:*.cu:10-20", "func:_Z5sgemmiPf", "func:sgemm*", "block:3", "block:0-3", "pc:0x120", "pc:288", "pc:0x100-0x1ff",
        "not op:STG", "not not op:LDG", "op:STG or op:LDG", "op:LDG and class:load", "op:STG and op:LDG or block:3",
        "block:3 or op:STG and op:LDG", "(op:STG or op:LDG) and not block:4", "( op:LDG )"})
    EXPECT_TRUE(Place::parse(yes)->holds(f)) << yes;
  for (const char* no : {"op:LDG.E", "op:LD", "op:STG*", "class:store", "class:shared", "line:sgemm.cu:16", "line:other.cu:15",
                         "func:sgemm", "block:4-9", "pc:0x121-0x1ff", "not op:LDG", "op:LDG and not class:load",
                         "(block:3 or op:STG) and op:STG", "not (op:STG or op:LDG)"})
    EXPECT_FALSE(Place::parse(no)->holds(f)) << no;
  PlaceFacts inside = f;
  inside.loop = 2;
  inside.loop_file = "sgemm.cu";
  inside.loop_line = 12;
  inside.barriers_before = 1;
  for (const char* yes : {"loop:2", "loop:0-2", "loop:sgemm.cu:12", "loop:*.cu:10-12", "region:barrier:1", "region:barrier:0-1"}) {
    EXPECT_TRUE(Place::parse(yes)->holds(inside)) << yes;
  }
  for (const char* no : {"loop:1", "loop:sgemm.cu:15", "loop:other.cu:12", "region:barrier:0", "region:barrier:2"})
    EXPECT_FALSE(Place::parse(no)->holds(inside)) << no;
  EXPECT_FALSE(Place::parse("loop:0-9")->holds(f)) << "in no loop";
  PlaceFacts unknown = f;
  unknown.file.clear();
  unknown.line = 0;
  EXPECT_FALSE(Place::parse("line:sgemm.cu")->holds(unknown));
}

TEST(Places, WhatIsNotUnderstoodIsNamed) {
  for (const char* wrong : {"", "op", "op:", "kind:load", "class:loads", "op:LDG op:STG", "op:LDG and", "(op:LDG", "op:LDG)", "not",
                            "block:x", "block:5-3", "pc:0x", "line:a.cu:x", "and op:LDG", "loop:", "loop:x", "loop:a.cu:x",
                            "region:1", "region:barrier:", "region:barrier:x"}) {
    const auto r = Place::parse(wrong);
    ASSERT_FALSE(r) << wrong;
    EXPECT_EQ(r.error().kind, ErrorKind::bad_input);
    EXPECT_NE(r.error().hint.find("class:load"), std::string::npos);
  }
  EXPECT_NE(Place::parse("class:loads").error().message.find("'class:loads'"), std::string::npos);
  EXPECT_NE(Place::parse("op:LDG and").error().message.find("the end"), std::string::npos);
}

TEST(Places, DepthHasALimit) {   // each level takes a piece of the stack
  const auto nested = [](size_t parentheses, size_t nots) {
    std::string text = std::string(parentheses, '(');
    for (size_t i = 0; i < nots; ++i) text += "not ";
    return text + "op:LDG" + std::string(parentheses, ')');
  };
  EXPECT_TRUE(Place::parse(nested(50, 50))->holds(load()));
  for (const std::string& text : {nested(101, 0), nested(0, 101), nested(100'000, 0), nested(0, 100'000)}) {
    const auto r = Place::parse(text);
    ASSERT_FALSE(r);
    EXPECT_NE(r.error().message.find("more than 100 ( and not in one another"), std::string::npos);
  }
  std::string wide = "(op:STG)";   // one behind another is no depth
  for (int i = 0; i < 500; ++i) wide += " or (not op:LDG)";
  EXPECT_FALSE(Place::parse(wide)->holds(load()));
}

TEST(Places, WhatSelectsNothingIsTold) {
  PlaceFacts store = load(), nowhere;
  store.pc = 0x200;
  store.block = 7;
  store.opcode = "STG.E";
  store.line = 20;
  nowhere.opcode = "EXIT";
  const std::vector<PlaceFacts> kernel{load(), store};
  const auto hint = [&](const char* text) { return Place::parse(text)->what_there_is(kernel); };
  EXPECT_EQ(hint("op:ldg"), "nothing is op:ldg; the kernel has opcodes: LDG, STG");
  EXPECT_EQ(hint("line:sgemm.cu:100"), "nothing is line:sgemm.cu:100; the kernel has lines of sgemm.cu: 15 to 20, not all of them have code");
  EXPECT_EQ(hint("line:a.cu"), "nothing is line:a.cu; the kernel has files: sgemm.cu");
  EXPECT_EQ(hint("block:8 or pc:0x8"),
            "nothing is block:8; the kernel has blocks: 0 to 7; nothing is pc:0x8; the kernel has offsets: 0x0 to 0x200, in steps of 0x10");
  EXPECT_EQ(hint("loop:0"), "nothing is loop:0; the kernel has no loop");
  EXPECT_EQ(hint("class:async"), "nothing is class:async; the kernel has classes: global, load, memory");
  EXPECT_EQ(hint("region:barrier:1"), "nothing is region:barrier:1; the kernel has regions: 0 to 0");
  EXPECT_EQ(hint("op:LDG and op:STG"), "there are such instructions, but none that is all of this");
  EXPECT_EQ(Place::parse("line:a.cu")->what_there_is({&nowhere, 1}), "nothing is line:a.cu; the kernel has no lines: compile it with -lineinfo");
}

TEST(Places, SeveralAreJoinedByOr) {
  ReplayOptions o;
  ASSERT_TRUE(parse_places({"op:STG", "block:3"}, o));
  EXPECT_TRUE(o.at->holds(load()));
  EXPECT_EQ(o.at_text, "op:STG or block:3");
  ReplayOptions none;
  ASSERT_TRUE(parse_places({}, none));
  EXPECT_FALSE(none.at);
  EXPECT_FALSE(parse_places({"(op:STG", "op:LDG)"}, o));
}

}  // namespace
}  // namespace xtrace::cli
