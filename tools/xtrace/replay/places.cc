#include "tools/xtrace/replay/places.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <set>

namespace xtrace::cli {
namespace {

constexpr std::array<std::string_view, 10> class_names = {"load",   "store",   "atomic", "async", "memory",
                                                          "global", "generic", "shared", "local", "branch"};

// '*' stands for any run of characters.
bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*') return !text.empty() && pattern[0] == text[0] && matches(pattern.substr(1), text.substr(1));
  for (size_t n = 0; n <= text.size(); ++n)
    if (matches(pattern.substr(1), text.substr(n))) return true;
  return false;
}

struct Range {
  uint32_t first = 0, last = ~0u;
  bool has(uint32_t n) const { return n >= first && n <= last; }
};

std::optional<uint32_t> number(std::string_view text) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  uint32_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v, hex ? 16 : 10);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return v;
}
std::optional<Range> range(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return Range{*first, *last};
}

// Words, and parentheses by themselves.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (char c : text) {
    if (c == ' ' || c == '(' || c == ')') end();
    if (c == '(' || c == ')') words.emplace_back(1, c);
    if (c != ' ' && c != '(' && c != ')') word += c;
  }
  end();
  return words;
}

}  // namespace

struct Place::Node {
  enum class Kind { all_of, any_of, none_of, op, cls, line, func, block, pc, loop, loop_line, region } kind = Kind::any_of;
  std::vector<Node> of;
  std::string word;     // as it was written; empty: made of others
  std::string text;     // op, cls, func, line's file
  Range range;          // line, block, pc, loop, region

  bool holds(const PlaceFacts& f) const {
    const auto each = [&](const Node& n) { return n.holds(f); };
    switch (kind) {
      case Kind::all_of: return std::all_of(of.begin(), of.end(), each);
      case Kind::any_of: return std::any_of(of.begin(), of.end(), each);
      case Kind::none_of: return std::none_of(of.begin(), of.end(), each);
      case Kind::op: return matches(text, f.opcode) || matches(text, f.opcode.substr(0, f.opcode.find('.')));
      case Kind::cls: return std::find(f.classes.begin(), f.classes.end(), text) != f.classes.end();
      case Kind::line: return matches(text, f.file) && range.has(f.line);
      case Kind::func: return matches(text, f.function) || matches(text, f.function_text);
      case Kind::block: return range.has(f.block);
      case Kind::pc: return range.has(f.pc);
      case Kind::loop: return f.loop && range.has(*f.loop);
      case Kind::loop_line: return f.loop && matches(text, f.loop_file) && range.has(f.loop_line);
      case Kind::region: return range.has(f.barriers_before);
    }
    return false;
  }
};

namespace {

using Node = Place::Node;

class Parser {
 public:
  Parser(std::vector<std::string> words, std::string_view option) : words_(std::move(words)), option_(option) {}

  Result<Node> run() {
    XT_TRY(Node node, any_of());
    if (at_ != words_.size()) return wrong("and, or, or the end");
    return node;
  }

 private:
  tl::unexpected<Error> wrong(std::string_view expected) const {
    return with_hint(bad_input("{}: expected {}, found {}", option_, expected,
                               at_ < words_.size() ? "'" + words_[at_] + "'" : std::string("the end")),
                     "places are op:LDG* class:load line:file.cu:15-20 func:name block:3 pc:0x120-0x1ff loop:2 loop:file.cu:15 "
                     "region:barrier:1, joined by and, or, not, ( )");
  }
  bool take(std::string_view word) {
    const bool found = at_ < words_.size() && words_[at_] == word;
    at_ += found;
    return found;
  }

  Result<Node> any_of() { return list("or", Node::Kind::any_of, &Parser::all_of); }
  Result<Node> all_of() { return list("and", Node::Kind::all_of, &Parser::factor); }
  Result<Node> list(std::string_view word, Node::Kind kind, Result<Node> (Parser::*one)()) {
    Node node;
    node.kind = kind;
    do {
      XT_TRY(Node next, (this->*one)());
      node.of.push_back(std::move(next));
    } while (take(word));
    return node;
  }
  Result<Node> factor() {
    if (take("not")) {
      Node node;
      node.kind = Node::Kind::none_of;
      XT_TRY_STATUS(go_deeper());
      XT_TRY(Node inner, factor());
      --depth_;
      node.of.push_back(std::move(inner));
      return node;
    }
    if (take("(")) {
      XT_TRY_STATUS(go_deeper());
      XT_TRY(Node inner, any_of());
      --depth_;
      if (!take(")")) return wrong("')'");
      return inner;
    }
    return place();
  }
  // Each level takes a piece of the stack, here and wherever the place is asked.
  Status go_deeper() {
    constexpr int most = 100;
    if (++depth_ <= most) return {};
    return with_hint(bad_input("{}: more than {} ( and not in one another", option_, most), "--at may be given several times: joined by or");
  }

  Result<Node> place() {
    if (at_ == words_.size()) return wrong("a place");
    const std::string& word = words_[at_];
    const size_t colon = word.find(':');
    const std::string key = word.substr(0, colon);
    std::string value = colon == std::string::npos ? "" : word.substr(colon + 1);
    constexpr std::pair<std::string_view, Node::Kind> keys[] = {
        {"op", Node::Kind::op},     {"class", Node::Kind::cls},   {"line", Node::Kind::line},
        {"func", Node::Kind::func}, {"block", Node::Kind::block}, {"pc", Node::Kind::pc},
        {"loop", Node::Kind::loop}, {"region", Node::Kind::region}};
    const auto* row = std::find_if(std::begin(keys), std::end(keys), [&](const auto& k) { return k.first == key; });
    if (row == std::end(keys) || value.empty()) return wrong("a place");
    Node node;
    node.kind = row->second;
    node.word = word;
    if (node.kind == Node::Kind::region) {
      constexpr std::string_view barrier = "barrier:";
      if (!value.starts_with(barrier)) return wrong("region:barrier:N");
      value.erase(0, barrier.size());
    }
    if (node.kind == Node::Kind::loop && value.find(':') != std::string::npos) node.kind = Node::Kind::loop_line;
    if (node.kind == Node::Kind::block || node.kind == Node::Kind::pc || node.kind == Node::Kind::loop ||
        node.kind == Node::Kind::region) {
      const auto r = range(value);
      if (!r) return wrong("a number, or two with a - between them");
      node.range = *r;
    } else {
      const bool by_line = node.kind == Node::Kind::line || node.kind == Node::Kind::loop_line;
      if (const size_t at = value.rfind(':'); by_line && at != std::string::npos) {
        const auto r = range(std::string_view(value).substr(at + 1));
        if (!r) return wrong(fmt::format("{0}:FILE:N or {0}:FILE:N-M", key));
        node.range = *r;
        value.resize(at);
      }
      if (node.kind == Node::Kind::cls && std::find(class_names.begin(), class_names.end(), value) == class_names.end())
        return wrong(fmt::format("class: and one of {}", fmt::join(class_names, ", ")));
      node.text = value;
    }
    ++at_;
    return node;
  }

  std::vector<std::string> words_;
  std::string_view option_;
  size_t at_ = 0;
  int depth_ = 0;
};

// "a, b, c and 4 more"
std::string listed(const std::set<std::string>& names) {
  constexpr size_t shown = 12;
  std::vector<std::string> some;
  for (const std::string& name : names)
    if (some.size() < shown && !name.empty()) some.push_back(name);
  const size_t more = names.size() - names.count("") - some.size();
  return fmt::format("{}{}", fmt::join(some, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string what_there_is_instead(const Node& n, std::span<const PlaceFacts> kernel) {
  std::set<std::string> names;
  uint32_t most = 0;
  const auto collect = [&](auto name) {
    for (const PlaceFacts& f : kernel) names.insert(name(f));
  };
  const auto largest = [&](auto number) {
    for (const PlaceFacts& f : kernel) most = std::max(most, number(f));
  };
  switch (n.kind) {
    case Node::Kind::op:
      collect([](const PlaceFacts& f) { return f.opcode.substr(0, f.opcode.find('.')); });
      return "opcodes: " + listed(names);
    case Node::Kind::cls:
      for (const PlaceFacts& f : kernel) names.insert(f.classes.begin(), f.classes.end());
      return "classes: " + listed(names);
    case Node::Kind::func:
      collect([](const PlaceFacts& f) { return f.function_text.empty() ? f.function : f.function_text; });
      return "functions: " + listed(names);
    case Node::Kind::line: {
      collect([](const PlaceFacts& f) { return f.file; });
      if (listed(names).empty()) return "no lines: compile it with -lineinfo";
      uint32_t low = ~0u;
      for (const PlaceFacts& f : kernel)
        if (matches(n.text, f.file)) low = std::min(low, f.line), most = std::max(most, f.line);
      return most == 0 ? "files: " + listed(names) : fmt::format("lines of {}: {} to {}, not all of them have code", n.text, low, most);
    }
    case Node::Kind::block:
      largest([](const PlaceFacts& f) { return f.block; });
      return fmt::format("blocks: 0 to {}", most);
    case Node::Kind::pc:
      largest([](const PlaceFacts& f) { return f.pc; });
      return fmt::format("offsets: 0x0 to {:#x}, in steps of 0x10", most);
    case Node::Kind::loop:
    case Node::Kind::loop_line:
      for (const PlaceFacts& f : kernel)
        if (f.loop) names.insert(f.loop_file.empty() ? fmt::format("{}", *f.loop) : fmt::format("{} ({}:{})", *f.loop, f.loop_file, f.loop_line));
      return names.empty() ? "no loop" : "loops: " + listed(names);
    case Node::Kind::region:
      largest([](const PlaceFacts& f) { return f.barriers_before; });
      return fmt::format("regions: 0 to {}", most);
    case Node::Kind::all_of:
    case Node::Kind::any_of:
    case Node::Kind::none_of: break;
  }
  return {};
}

void each_word(const Node& node, const std::function<void(const Node&)>& f) {
  if (!node.word.empty()) f(node);
  for (const Node& inner : node.of) each_word(inner, f);
}

}  // namespace

Result<Place> Place::parse(const std::string& text, std::string_view option) {
  XT_TRY(Node node, Parser(words_of(text), option).run());
  Place place;
  place.root_ = std::make_shared<const Node>(std::move(node));
  return place;
}

bool Place::holds(const PlaceFacts& facts) const { return root_->holds(facts); }

std::string Place::what_there_is(std::span<const PlaceFacts> kernel) const {
  std::vector<std::string> texts;
  each_word(*root_, [&](const Node& n) {
    const bool somewhere = std::any_of(kernel.begin(), kernel.end(), [&](const PlaceFacts& f) { return n.holds(f); });
    if (!somewhere) texts.push_back(fmt::format("nothing is {}; the kernel has {}", n.word, what_there_is_instead(n, kernel)));
  });
  return texts.empty() ? "there are such instructions, but none that is all of this" : fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace xtrace::cli
