#include "tools/xtrace/check/toml.h"

#include <gtest/gtest.h>

namespace xtrace::check {
namespace {

TEST(Toml, Values) {
  const auto sections = parse_toml(
      "# a comment\r\n"
      "[default]\r\n"
      "  a.b = 1.05   # trailing\n"
      "c=-2\n"
      "d = +1e3\n"
      "e = \"q \\\" \\\\ # no comment\"\n"
      "f = ['x', \"y\",]\n"
      "g = []\n"
      "\n"
      "[kernel.\"ge\\\\d+\"]\n"
      "[ kernel . 'ge\\d+$' ]");
  ASSERT_TRUE(sections) << sections.error().message;
  ASSERT_EQ(sections->size(), 3u);
  const auto& entries = (*sections)[0].entries;
  ASSERT_EQ(entries.size(), 6u);
  EXPECT_EQ(entries[0].key, "a.b");
  EXPECT_EQ(entries[0].line, 3u);
  EXPECT_EQ(entries[0].value, TomlValue(1.05));
  EXPECT_EQ(entries[1].value, TomlValue(-2.0));
  EXPECT_EQ(entries[2].value, TomlValue(1000.0));
  EXPECT_EQ(entries[3].value, TomlValue("q \" \\ # no comment"));
  EXPECT_EQ(entries[4].value, TomlValue(std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(entries[5].value, TomlValue(std::vector<std::string>{}));
  EXPECT_EQ((*sections)[0].kind, "default");
  EXPECT_FALSE((*sections)[0].named);
  EXPECT_EQ((*sections)[1].name, "ge\\d+");
  EXPECT_EQ((*sections)[2].name, "ge\\d+$");
  EXPECT_EQ((*sections)[2].line, 11u);
}

TEST(Toml, RefusesWithTheLine) {
  const struct {
    const char *text, *message;
  } cases[] = {
      {"a = 1\n", "line 1: the key a is outside a section"},
      {"[default]\n\na 1\n", "line 3: expected = after a, found '1'"},
      {"[default]\na =\n", "line 2: expected a value after ="},
      {"[default]\na = yes\n", "line 2: 'yes' is no value: expected a string, a number or [strings]"},
      {"[default]\na = 1.\n", "line 2: '1.' is no value: expected a string, a number or [strings]"},
      {"[default]\na = 1_000\n", "line 2: '1_000' is no value: expected a string, a number or [strings]"},
      {"[default]\na = nan\n", "line 2: 'nan' is no value: expected a string, a number or [strings]"},
      {"[default]\na = 01\n", "line 2: '01': a number does not start with 0"},
      {"[default]\na = 1e999\n", "line 2: '1e999' is outside the range of numbers"},
      {"[default]\na = 1 2\n", "line 2: unexpected '2' at the end of the line"},
      {"[default]\na = \"x\n", "line 2: a string without its closing \""},
      {"[default]\na = \"\"\"x\"\"\"\n", "line 2: strings over several lines are not supported"},
      {"[default]\na = \"\\d\"\n", "line 2: the escape \\d is not supported in \"...\""},
      {"[default]\na = [1]\n", "line 2: expected a string in the array, found '1]'"},
      {"[default]\na = ['x'\n", "line 2: expected , or ] in the array, found ''"},
      {"[default]\na = ['x',\n", "line 2: an array must end on its line with ]"},
      {"[default]\n'a' = 1\n", "line 2: quoted keys are not supported"},
      {"[default]\na. = 1\n", "line 2: expected a key of letters, digits, _ and -, found '= 1'"},
      {"[default]\na = 1\na = 2\n", "line 3: a is already set by a on line 2"},
      {"[default]\na = 1\na.b = 2\n", "line 3: a.b is already set by a on line 2"},
      {"[default]\na.b = 1\na = 2\n", "line 3: a is already set by a.b on line 2"},
      {"[default]\n[default]\n", "line 2: this section is already on line 1"},
      {"[[default]]\n", "line 1: arrays of sections are not supported"},
      {"[kernel.x]\n", "line 1: expected a quoted name after [kernel., found 'x]'"},
      {"[default\n", "line 1: expected ] after the section name, found ''"},
      {"[default] x\n", "line 1: unexpected 'x' at the end of the line"},
  };
  for (const auto& c : cases) {
    const auto r = parse_toml(c.text);
    ASSERT_FALSE(r) << c.text;
    EXPECT_EQ(r.error().message, c.message);
  }
}

}  // namespace
}  // namespace xtrace::check
