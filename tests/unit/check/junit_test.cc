#include "tools/xtrace/check/junit.h"

#include <gtest/gtest.h>

namespace xtrace::check {
namespace {

using diff::Verdict;

Row row(const std::string& bundle, uint64_t launch) {
  Row r;
  r.bundle = bundle;
  r.launch = launch;
  r.kernel = "k<int>";
  r.probe = "block";
  r.sample = "all";
  r.metrics.emplace();
  r.timing = Verdict::trusted;
  return r;
}

TEST(Junit, Document) {
  CheckRun run;
  run.environment = Environment{"interp", "CPU", "none"};
  run.rows = {row("a.xtr", 0), row("b.xtr", 0), row("a.xtr", 1)};
  run.rows[1].add("budget", Verdict::inconclusive, "ratio < 1.05?");
  run.rows[2].timing.reset();
  run.rows[2].timing_why = "no clock";
  run.rows[2].add("better", Verdict::trusted, "less code");
  run.rows[2].add("budget", Verdict::inconclusive, "unclear");
  run.rows[2].add("code-growth", Verdict::not_trusted, "2 > 1");
  run.findings.push_back({"not-checked", Verdict::inconclusive, "launch 7"});
  run.errors.push_back({"b.xtr launch 2", "no \"memory\"", 3});
  EXPECT_EQ(render_junit(run), R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="xtrace check" tests="5" failures="3" errors="1">
  <testsuite name="a.xtr" tests="2" failures="1" errors="0" skipped="0">
    <properties>
      <property name="environment" value="interp on CPU, driver none"/>
    </properties>
    <testcase classname="a.xtr.k&lt;int&gt;" name="launch 0 block all">
    </testcase>
    <testcase classname="a.xtr.k&lt;int&gt;" name="launch 1 block all">
      <failure type="not trusted" message="code-growth: 2 &gt; 1">code-growth: 2 &gt; 1
budget: unclear</failure>
      <system-out>timing was not judged: no clock
better: less code</system-out>
    </testcase>
  </testsuite>
  <testsuite name="b.xtr" tests="1" failures="1" errors="0" skipped="0">
    <properties>
      <property name="environment" value="interp on CPU, driver none"/>
    </properties>
    <testcase classname="b.xtr.k&lt;int&gt;" name="launch 0 block all">
      <failure type="inconclusive" message="budget: ratio &lt; 1.05?">budget: ratio &lt; 1.05?</failure>
    </testcase>
  </testsuite>
  <testsuite name="check" tests="2" failures="1" errors="1" skipped="0">
    <properties>
      <property name="environment" value="interp on CPU, driver none"/>
    </properties>
    <testcase classname="check" name="the run">
      <failure type="inconclusive" message="not-checked: launch 7">not-checked: launch 7</failure>
    </testcase>
    <testcase classname="check" name="b.xtr launch 2">
      <error type="exit status 3" message="no &quot;memory&quot;"/>
    </testcase>
  </testsuite>
</testsuites>
)");
}

TEST(Junit, Text) {
  const std::pair<std::string, std::string> cases[] = {
      {"a & b < c > \"d\"", "a &amp; b &lt; c &gt; &quot;d&quot;"},
      {"tab\tline\n", "tab\tline\n"},
      {std::string("nul\0bell\a\x1b[0m\x7f", 14), "nul?bell??[0m?"},
      {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"},
      {"cut \xe2\x82", "cut ??"},
      {"\xff\xc0\x80", "???"},              // not UTF-8; an overlong nul
      {"\xe0\x80\xa0", "???"},              // overlong
      {"\xed\xa0\x80", "???"},              // a surrogate
      {"\xef\xbf\xbe", "???"},              // U+FFFE, which XML excludes
      {"\xf4\x90\x80\x80", "????"},         // above U+10FFFF
  };
  for (const auto& [in, out] : cases) EXPECT_EQ(xml_text(in), out);
}

}  // namespace
}  // namespace xtrace::check
