// --regs, --custom, --range: what is understood, and what a mistake is answered with.
#include "tools/xtrace/replay/asked.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace xtrace::cli {
namespace {

using Kind = wire::Value::Kind;

TEST(Asked, Values) {
  bool data = false;
  const auto values = parse_values("R4, UR6,P0,!P6,clock,time", false, "--regs", data);
  ASSERT_TRUE(values) << values.error().to_string();
  const std::vector<wire::Value> expected{{Kind::vector, 4}, {Kind::uniform, 6}, {Kind::lanes, 0},
                                          {Kind::lanes, 6, true}, {Kind::clock}, {Kind::time}};
  EXPECT_EQ(*values, expected);
  EXPECT_EQ(*parse_values("ready", true, "--regs-behind", data), (std::vector<wire::Value>{{Kind::clock_ready}}));
  // Nothing has a result in front of itself; R255, UR63, P7 are no registers.
  for (const char* wrong : {"", "R", "R255", "UR63", "P7", "!R4", "ready", "R4,", "R4,,R5", "R4 R5", "r4", "R-1", "R4,R4"}) {
    const auto r = parse_values(wrong, false, "--regs", data);
    ASSERT_FALSE(r) << wrong;
    EXPECT_EQ(r.error().kind, ErrorKind::bad_input);
    EXPECT_TRUE(r.error().message.starts_with("--regs: ")) << r.error().message;
  }
  EXPECT_EQ(parse_values("clock, R4x", false, "--regs", data).error().message, "--regs: expected a value, found 'R4x'");
}

TEST(Asked, Data) {
  AskedTexts asked;
  ASSERT_TRUE(parse_custom("at class:store record data", asked));
  ASSERT_TRUE(parse_custom("at class:load behind clock, data", asked));
  EXPECT_TRUE(asked.custom[0].data_before && asked.custom[0].before.empty() && !asked.custom[0].data_behind);
  EXPECT_TRUE(asked.custom[1].data_behind && asked.custom[1].behind.size() == 1 && !asked.custom[1].data_before);
  EXPECT_EQ(parse_custom("at class:load behind data, data", asked).error().message, "--custom: data stands there twice");
}

TEST(Asked, Custom) {
  AskedTexts asked;
  ASSERT_TRUE(parse_custom("at op:LDG and not block:0 record clock, R4,P0 behind clock, ready", asked));
  ASSERT_EQ(asked.custom.size(), 1u);
  EXPECT_EQ(asked.custom[0].name, "op:LDG and not block:0");
  EXPECT_EQ(asked.custom[0].before.size(), 3u);
  EXPECT_EQ(asked.custom[0].behind.size(), 2u);
  ASSERT_TRUE(parse_custom("at pc:0x10 behind R0", asked));
  EXPECT_TRUE(asked.custom[1].before.empty());
  const auto message = [](const char* text) {
    AskedTexts to;
    const Status s = parse_custom(text, to);
    return s ? std::string("understood") : s.error().message;
  };
  EXPECT_EQ(message("op:LDG record clock"), "--custom: expected at, found 'op:LDG'");
  EXPECT_EQ(message("at record clock"), "--custom: expected a place behind at");
  EXPECT_EQ(message("at op:LDG"), "--custom: nothing to record at op:LDG");
  EXPECT_EQ(message("at op:LDG record clock, X9"), "--custom: expected a value, found 'X9'");
  EXPECT_EQ(message("at op:LDG record ready"), "--custom: an instruction has no result in front of itself, found 'ready'");
  EXPECT_NE(message("at opcode:LDG record clock").find("'opcode:LDG'"), std::string::npos);
  EXPECT_NE(message("@/no/such/file"), "understood");
}

TEST(Asked, CustomFromAFile) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("xtrace-custom-{}", getpid());
  const auto write = [&](std::string_view text) { ASSERT_TRUE(write_file(path, text)); };
  AskedTexts asked;
  write("# loads\nat op:LDG record clock\n\nat op:STG behind clock   # stores\n");
  ASSERT_TRUE(parse_custom("@" + path.string(), asked));
  EXPECT_EQ(asked.custom.size(), 2u);
  write("at op:LDG record clock\nat op:STG record R\n");
  EXPECT_EQ(parse_custom("@" + path.string(), asked).error().message, path.string() + " line 2: expected a value, found 'R'");
  write("# nothing\n");
  EXPECT_FALSE(parse_custom("@" + path.string(), asked));
  std::filesystem::remove(path);
}

TEST(Asked, Ranges) {
  AskedTexts asked;
  ASSERT_TRUE(parse_range("line:sgemm.cu:15-20", asked));
  EXPECT_EQ(asked.range[0].name, "line:sgemm.cu:15-20");
  EXPECT_FALSE(parse_range("sgemm.cu:15", asked));
}

}  // namespace
}  // namespace xtrace::cli
