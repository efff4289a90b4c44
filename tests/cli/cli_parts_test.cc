// Names, numbers, tables and errors as they are printed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/log.h"
#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/quantity.h"
#include "tools/xtrace/render_error.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

TEST(KernelName, Demangling) {
  EXPECT_EQ(demangled("_Z3addPfS_i"), "add(float*, float*, int)");
  EXPECT_EQ(demangled("triton_poi_fused_0"), "triton_poi_fused_0");
  EXPECT_EQ(demangled("i"), "i");  // not "int"
  EXPECT_EQ(demangled("_Z"), "_Z");
  EXPECT_EQ(demangled(""), "");
}

TEST(KernelName, ShortenedInSteps) {
  const std::string name = "void ns::kernel<float, (int)4, a<b> >::run<c>(float const*, f<(g)1>)";
  struct {
    size_t width;
    const char* expected;
  } cases[] = {{name.size(), name.c_str()},
               {name.size() - 1, "ns::kernel<float, (int)4, a<b> >::run<c>"},
               {40, "ns::kernel<float, (int)4, a<b> >::run<c>"},
               {39, "ns::kernel<..>::run<..>"},
               {23, "ns::kernel<..>::run<..>"},
               {22, "ns::kernel<..>::run<...."},
               {5, "ns:.."},
               {2, "ns"},
               {0, ""}};
  for (const auto& c : cases) {
    const std::string got = shorten_kernel(name, c.width);
    EXPECT_LE(got.size(), c.width);
    EXPECT_EQ(got, std::string(c.expected).substr(0, std::max(c.width, size_t{0}))) << c.width;
  }
  EXPECT_EQ(shorten_kernel("plain_c_name", 6), "plai..");
  EXPECT_EQ(shorten_kernel("bool operator< <int>(int)", 18), "bool operator< <..");
}

TEST(KernelName, ReadableInMessages) {
  EXPECT_EQ(with_readable_names("no register is free at _Z4axpyfPf@0x980: MOV R1, R2"), "no register is free at axpy(float, float*)@0x980: MOV R1, R2");
  EXPECT_EQ(with_readable_names("kernel _ZN2ns4kindIiE3addEv, and _Z1fv"), "kernel ns::kind<int>::add(), and f()");
  EXPECT_EQ(with_readable_names("my_Z1fv _Zno saxpy"), "my_Z1fv _Zno saxpy");
  EXPECT_EQ(with_readable_names(""), "");
}

TEST(Quantity, Bytes) {
  struct {
    uint64_t bytes;
    const char* text;
  } cases[] = {
      {0, "0 B"},           {1023, "1023 B"},        {1024, "1.0 KiB"},       {1536, "1.5 KiB"},
      {1048575, "1.0 MiB"}, {1ull << 20, "1.0 MiB"}, {1ull << 30, "1.0 GiB"}, {1ull << 50, "1024.0 TiB"}};
  for (const auto& c : cases) EXPECT_EQ(human_bytes(c.bytes), c.text);
}

TEST(Quantity, Others) {
  EXPECT_EQ(human_dim({1, 2, 3}), "1,2,3");
  EXPECT_EQ(human_dim({0, 0, 0}), "-");
  EXPECT_EQ(cuda_version(12080), "12.8");
  EXPECT_EQ(cuda_version(0), "unknown");
  EXPECT_EQ(shell_quoted({"./a", "b c", "", "it's", "--x=1"}), "./a 'b c' '' 'it'\\''s' --x=1");
  const Bytes bytes = {std::byte{0x78}, std::byte{0x56}, std::byte{0x34}, std::byte{0x12}, std::byte{0xff}};
  EXPECT_EQ(hex_value(ByteView(bytes).first(4)), "0x12345678");
  EXPECT_EQ(hex_value({}), "");
  EXPECT_EQ(hex_bytes(bytes), "78563412 ff");
  EXPECT_EQ(hex_value(Bytes(9)), "00000000 00000000 00");
}

TEST(Table, AlignsShortensAndNeutralises) {
  Table t({{"n", Align::right}, {"kernel", Align::left, shorten_kernel}, {"size", Align::right}, {"state"}});
  t.add_row({"1", "void long_kernel_name<int>(int*, float*)", "8 B", "ok"});
  t.add_row({"12", "b\x1b[1m", "1024 B", ""});
  EXPECT_EQ(t.render(),
            " n  kernel                                      size  state\n"
            " 1  void long_kernel_name<int>(int*, float*)     8 B  ok\n"
            "12  b?[1m                                     1024 B\n");
  EXPECT_EQ(t.render(43, 2),
            "   n  kernel                   size  state\n"
            "   1  long_kernel_name<int>     8 B  ok\n"
            "  12  b?[1m                  1024 B\n");
  // Never narrower than twelve columns, even if that does not fit.
  EXPECT_EQ(t.render(10),
            " n  kernel          size  state\n"
            " 1  long_kerne..     8 B  ok\n"
            "12  b?[1m         1024 B\n");
}

TEST(Table, WidthIsCountedInCodePoints) {
  EXPECT_EQ(display_width("\xc3\xa9t\xc3\xa9"), 3u);
  EXPECT_EQ(printable("a\tb\n"), "a?b?");
}

TEST(Table, WidthOfTheTerminal) {
  ::setenv("COLUMNS", "77", 1);
  EXPECT_EQ(terminal_width(), 77u);
}

TEST(RenderError, ContextsAndHint) {
  Error e{ErrorKind::bad_input, "bad thing", {"in a.xtr", "launch 3"}, "do this"};
  EXPECT_EQ(render_error("ls", e), "xtrace ls: error: bad thing in a.xtr in launch 3\n  hint: do this\n");
  EXPECT_EQ(render_error("", Error{ErrorKind::internal, "x", {}, {}}), "xtrace: error: x\n");
  // What a file holds must not reach a terminal as it is, nor end the line.
  const std::string found("found '\x1b[31m\0\xc3\xa4'", 16);
  EXPECT_EQ(render_error("ls", Error{ErrorKind::bad_input, found, {"in a\nb"}, {}}), "xtrace ls: error: found '?[31m?\xc3\xa4' in a?b\n");
}

// In processes of their own: the level is read once.
void say_with(const char* level) {
  ::setenv("XTRACE_LOG", level, 1);
  log_debug("one {}", 1);
  log_warning("two {}", 2);
  std::exit(0);
}

TEST(Log, ShowsTheLevelOfTheEnvironment) {
  constexpr const char* warning = "xtrace: warning: two 2\n";
  EXPECT_EXIT(say_with("debug"), testing::ExitedWithCode(0), std::string("^xtrace: debug: one 1\n") + warning + "$");
  for (const char* level : {"warn", ""}) EXPECT_EXIT(say_with(level), testing::ExitedWithCode(0), std::string("^") + warning + "$");
  EXPECT_EXIT(say_with("off"), testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(say_with("loud"), testing::ExitedWithCode(0),
              std::string("^xtrace: warning: XTRACE_LOG=loud: expected debug, warn or off\n") + warning + "$");
}

}  // namespace
}  // namespace xtrace::cli
