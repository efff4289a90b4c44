#include "tools/xtrace/check/junit.h"

#include <fmt/format.h>

#include <algorithm>

namespace xtrace::check {
namespace {

using diff::Verdict;

// Bytes of the UTF-8 sequence at the front that XML 1.0 allows; 0: none.
size_t sequence(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char c = byte(0);
  if (c < 0x80) return (c >= 0x20 && c != 0x7f) || c == '\t' || c == '\n' ? 1 : 0;
  const size_t size = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  if (c < 0xc2 || c > 0xf4 || s.size() < size) return 0;
  uint32_t code = c & (0x7f >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least[size] || code > 0x10ffff || surrogate || code == 0xfffe || code == 0xffff ? 0 : size;
}

// The first line is what CI systems show in lists.
std::string failure(std::string_view element, std::string_view type,
                    const std::vector<const Finding*>& findings) {
  std::string lines;
  for (const Finding* f : findings)
    lines += fmt::format("{}{}: {}", lines.empty() ? "" : "\n", f->code, f->text);
  return fmt::format("      <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n", element, type,
                     xml_text(findings.front()->code + ": " + findings.front()->text), xml_text(lines));
}

// Worst findings first; notes are left to system-out.
std::string case_of(const std::string& class_name, const std::string& name,
                    const std::vector<Finding>& findings, const std::string& out) {
  std::vector<const Finding*> against;
  std::string notes = out;
  for (const Finding& f : findings) {
    if (f.verdict != Verdict::trusted)
      against.push_back(&f);
    else
      notes += fmt::format("{}{}: {}", notes.empty() ? "" : "\n", f.code, f.text);
  }
  std::stable_sort(against.begin(), against.end(),
                   [](const Finding* a, const Finding* b) { return a->verdict > b->verdict; });
  std::string s =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\">\n", xml_text(class_name), xml_text(name));
  if (!against.empty()) s += failure("failure", diff::name_of(against.front()->verdict), against);
  if (!notes.empty()) s += fmt::format("      <system-out>{}</system-out>\n", xml_text(notes));
  return s + "    </testcase>\n";
}

struct Suite {
  std::string name, cases;
  size_t tests = 0, failures = 0, errors = 0;
};

std::string text_of(const Suite& s, const CheckRun& run) {
  std::string out =
      fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\">\n",
                  xml_text(s.name), s.tests, s.failures, s.errors);
  if (run.environment)
    out += fmt::format(
        "    <properties>\n      <property name=\"environment\" value=\"{}\"/>\n    </properties>\n",
        xml_text(text_of(*run.environment)));
  return out + s.cases + "  </testsuite>\n";
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = sequence(text);
    switch (size == 1 ? text[0] : '\0') {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += size == 0 ? "?" : std::string(text.substr(0, size));
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

std::string render_junit(const CheckRun& run) {
  std::vector<Suite> suites;
  for (const Row& r : run.rows) {
    auto suite =
        std::find_if(suites.begin(), suites.end(), [&](const Suite& s) { return s.name == r.bundle; });
    if (suite == suites.end()) suite = suites.insert(suites.end(), {r.bundle, {}});
    ++suite->tests;
    suite->failures += r.verdict() != Verdict::trusted;
    suite->cases += case_of(r.bundle + "." + (r.kernel_text.empty() ? r.kernel : r.kernel_text),
                            fmt::format("launch {} {} {}", r.launch, r.probe, r.sample), r.findings,
                            r.metrics && !r.timing ? "timing was not judged: " + r.timing_why : "");
  }
  if (!run.findings.empty() || !run.errors.empty()) {
    Suite whole{"check", {}};
    if (!run.findings.empty()) {
      ++whole.tests;
      whole.failures += std::any_of(run.findings.begin(), run.findings.end(),
                                    [](const Finding& f) { return f.verdict != Verdict::trusted; });
      whole.cases += case_of("check", "the run", run.findings, "");
    }
    for (const RunError& e : run.errors) {
      ++whole.tests;
      ++whole.errors;
      whole.cases += fmt::format(
          "    <testcase classname=\"check\" name=\"{}\">\n      <error type=\"exit status {}\" "
          "message=\"{}\"/>\n    </testcase>\n",
          xml_text(e.where), e.exit, xml_text(e.message));
    }
    suites.push_back(std::move(whole));
  }
  size_t tests = 0, failures = 0, errors = 0;
  std::string body;
  for (const Suite& s : suites) {
    tests += s.tests;
    failures += s.failures;
    errors += s.errors;
    body += text_of(s, run);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"xtrace check\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n{}</testsuites>\n",
      tests, failures, errors, body);
}

}  // namespace xtrace::check
