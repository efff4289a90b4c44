#include "tools/xtrace/check/toml.h"

#include <charconv>
#include <optional>

namespace xtrace::check {
namespace {

bool bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}
bool digit(char c) { return c >= '0' && c <= '9'; }

// One line of the file.
class Line {
 public:
  Line(std::string_view text, uint32_t number) : text_(text), number_(number) {}

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  // At the end, or at a comment.
  bool done() {
    skip_space();
    return at_ == text_.size() || text_[at_] == '#';
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::string rest() const { return std::string(text_.substr(at_)); }

  template <typename... A>
  tl::unexpected<Error> fail(fmt::format_string<A...> f, A&&... args) const {
    return bad_input("line {}: {}", number_, fmt::format(f, std::forward<A>(args)...));
  }
  Status expect_end() {
    if (!done()) return fail("unexpected '{}' at the end of the line", rest());
    return {};
  }

  Result<std::string> word(std::string_view what) {
    skip_space();
    const size_t first = at_;
    while (at_ < text_.size() && bare(text_[at_])) ++at_;
    if (at_ == first) return fail("expected {} of letters, digits, _ and -, found '{}'", what, rest());
    return std::string(text_.substr(first, at_ - first));
  }

  Result<std::string> quoted() {
    skip_space();
    const char quote = text_[at_++];
    if (text_.substr(at_, 2) == std::string(2, quote))
      return fail("strings over several lines are not supported");
    std::string value;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      char c = text_[at_];
      if (quote == '"' && c == '\\') {
        c = ++at_ < text_.size() ? text_[at_] : '\0';
        if (c != '"' && c != '\\')
          return with_hint(fail("the escape \\{} is not supported in \"...\"", c == '\0' ? ' ' : c),
                           "between single quotes a backslash stands for itself: 'gemm\\d+'");
      }
      value += c;
    }
    if (at_ == text_.size()) return fail("a string without its closing {}", quote);
    ++at_;
    return value;
  }

  // [+-]digits[.digits][e[+-]digits], as in TOML.
  Result<TomlValue> number() {
    skip_space();
    const size_t first = at_;
    while (at_ < text_.size() && (bare(text_[at_]) || text_[at_] == '+' || text_[at_] == '.')) ++at_;
    const std::string_view word = text_.substr(first, at_ - first);
    const auto malformed = [&] {
      return fail("'{}' is no value: expected a string, a number or [strings]",
                  word.empty() ? rest() : std::string(word));
    };
    size_t i = 0;
    const auto digits = [&] {
      const size_t from = i;
      while (i < word.size() && digit(word[i])) ++i;
      return i != from;
    };
    if (i < word.size() && (word[i] == '+' || word[i] == '-')) ++i;
    const size_t whole = i;
    if (!digits()) return malformed();
    if (i - whole > 1 && word[whole] == '0') return fail("'{}': a number does not start with 0", word);
    if (i < word.size() && word[i] == '.' && (++i, !digits())) return malformed();
    if (i < word.size() && (word[i] == 'e' || word[i] == 'E')) {
      ++i;
      if (i < word.size() && (word[i] == '+' || word[i] == '-')) ++i;
      if (!digits()) return malformed();
    }
    if (i != word.size()) return malformed();
    double value = 0;
    const char* begin = word.data() + (word.front() == '+' ? 1 : 0);
    if (std::from_chars(begin, word.data() + word.size(), value).ec != std::errc{})
      return fail("'{}' is outside the range of numbers", word);
    return TomlValue(value);
  }

  Result<TomlValue> array() {
    take('[');
    std::vector<std::string> values;
    while (!take(']')) {
      if (done()) return fail("an array must end on its line with ]");
      if (peek() != '"' && peek() != '\'') return fail("expected a string in the array, found '{}'", rest());
      XT_TRY(std::string value, quoted());
      values.push_back(std::move(value));
      if (!take(',') && peek() != ']') return fail("expected , or ] in the array, found '{}'", rest());
    }
    return TomlValue(std::move(values));
  }

  Result<TomlValue> value() {
    if (done()) return fail("expected a value after =");
    if (peek() == '[') return array();
    if (peek() != '"' && peek() != '\'') return number();
    XT_TRY(std::string text, quoted());
    return TomlValue(std::move(text));
  }

 private:
  std::string_view text_;
  uint32_t number_;
  size_t at_ = 0;
};

Result<TomlSection> section_of(Line& line, uint32_t number) {
  TomlSection section;
  section.line = number;
  line.take('[');
  if (line.peek() == '[') return line.fail("arrays of sections are not supported");
  XT_TRY(section.kind, line.word("a section name"));
  if (line.take('.')) {
    if (line.peek() != '"' && line.peek() != '\'')
      return line.fail("expected a quoted name after [{}., found '{}'", section.kind, line.rest());
    XT_TRY(section.name, line.quoted());
    section.named = true;
  }
  if (!line.take(']')) return line.fail("expected ] after the section name, found '{}'", line.rest());
  XT_TRY_STATUS(line.expect_end());
  return section;
}

Result<TomlEntry> entry_of(Line& line, uint32_t number) {
  TomlEntry entry;
  entry.line = number;
  do {
    if (line.peek() == '"' || line.peek() == '\'') return line.fail("quoted keys are not supported");
    XT_TRY(const std::string part, line.word("a key"));
    entry.key += (entry.key.empty() ? "" : ".") + part;
  } while (line.take('.'));
  if (!line.take('=')) return line.fail("expected = after {}, found '{}'", entry.key, line.rest());
  XT_TRY(entry.value, line.value());
  XT_TRY_STATUS(line.expect_end());
  return entry;
}

}  // namespace

std::string_view kind_of(const TomlValue& value) {
  constexpr std::string_view names[] = {"a number", "a string", "an array of strings"};
  return names[value.index()];
}

Result<std::vector<TomlSection>> parse_toml(std::string_view text) {
  std::vector<TomlSection> sections;
  uint32_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view one = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!one.empty() && one.back() == '\r') one.remove_suffix(1);
    Line line(one, ++number);
    if (line.done()) continue;
    if (line.peek() == '[') {
      XT_TRY(TomlSection section, section_of(line, number));
      for (const TomlSection& other : sections)
        if (other.kind == section.kind && other.name == section.name && other.named == section.named)
          return line.fail("this section is already on line {}", other.line);
      sections.push_back(std::move(section));
      continue;
    }
    XT_TRY(TomlEntry entry, entry_of(line, number));
    if (sections.empty())
      return with_hint(line.fail("the key {} is outside a section", entry.key), "begin with [default]");
    for (const TomlEntry& other : sections.back().entries)
      if (other.key == entry.key || other.key.starts_with(entry.key + ".") ||
          entry.key.starts_with(other.key + "."))
        return line.fail("{} is already set by {} on line {}", entry.key, other.key, other.line);
    sections.back().entries.push_back(std::move(entry));
  }
  return sections;
}

}  // namespace xtrace::check
