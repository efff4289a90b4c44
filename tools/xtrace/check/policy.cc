#include "tools/xtrace/check/policy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <span>

namespace xtrace::check {
namespace {

constexpr std::string_view trusted_any[] = {"trusted", "any"};
constexpr std::string_view same_any[] = {"same", "any"};
constexpr std::string_view when[] = {"when-measured", "required"};
constexpr std::span<const std::string_view> no_words;

bool is(const TomlValue& v, std::string_view word) { return std::get<std::string>(v) == word; }

using Member = std::optional<size_t>;
void set(PerProbe& to, size_t members, const TomlValue& v, Member m) {
  for (size_t i = 0; i < members; ++i)
    if (!m || *m == i) to[i] = std::get<double>(v);
}

// One row is everything known about a key: parsing, checking, the list in error messages.
struct Key {
  std::string_view name;
  std::span<const std::string_view> members;  // "budget" -> budget.block, ...; empty: none
  size_t type;                                // index in TomlValue
  double least;                               // of a number
  std::span<const std::string_view> words;    // of a string; empty: any
  void (*apply)(Limits& to, const TomlValue& value, Member member);
};
constexpr size_t number = 0, word = 1, list = 2;
constexpr std::span<const std::string_view> block_inst(probe_names.data(), 2);

constexpr Key keys[] = {
    {"require", no_words, list, 0, probe_names,
     [](Limits& l, const TomlValue& v, Member) { l.require = std::get<std::vector<std::string>>(v); }},
    {"sample", no_words, word, 0, no_words,
     [](Limits& l, const TomlValue& v, Member) { l.sample = std::get<std::string>(v); }},
    {"semantics", no_words, word, 0, trusted_any,
     [](Limits& l, const TomlValue& v, Member) { l.semantics = is(v, "trusted"); }},
    {"occupancy", no_words, word, 0, same_any,
     [](Limits& l, const TomlValue& v, Member) { l.occupancy = is(v, "same"); }},
    {"local_memory", no_words, word, 0, same_any,
     [](Limits& l, const TomlValue& v, Member) { l.local_memory = is(v, "same"); }},
    {"timing", no_words, word, 0, when,
     [](Limits& l, const TomlValue& v, Member) { l.timing_required = is(v, "required"); }},
    {"budget", probe_names, number, 1, no_words,
     [](Limits& l, const TomlValue& v, Member m) { set(l.budget, probe_count, v, m); }},
    {"code_growth", probe_names, number, 1, no_words,
     [](Limits& l, const TomlValue& v, Member m) { set(l.code_growth, probe_count, v, m); }},
    {"bytes_per_record", block_inst, number, 0, no_words,
     [](Limits& l, const TomlValue& v, Member m) { set(l.bytes_per_record, block_inst.size(), v, m); }},
    {"added_registers", no_words, number, 0, no_words,
     [](Limits& l, const TomlValue& v, Member) { l.added_registers = std::get<double>(v); }},
    {"drift", metric_names, number, 0, no_words,
     [](Limits& l, const TomlValue& v, Member m) {
       for (size_t i = 0; i < metric_count; ++i)
         if (!m || *m == i) l.drift[i] = std::get<double>(v);
     }},
};

std::string known_keys() {
  std::string out;
  for (const Key& k : keys) out += fmt::format("{}{}", out.empty() ? "" : ", ", k.name);
  return out;
}

bool valid_sample(std::string_view text) {
  constexpr std::string_view prefix = "cta:1/";
  if (text == "all") return true;
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  uint32_t n = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), n);
  return r.ec == std::errc{} && r.ptr == text.data() + text.size() && n >= 1;
}

// A value that has the type its key asks for.
Status check_value(const Key& key, const TomlEntry& entry) {
  const auto refuse_word = [&](const std::string& found) {
    return bad_input("line {}: {} is '{}', expected one of: {}", entry.line, entry.key, found,
                     fmt::join(key.words, ", "));
  };
  const auto listed = [&](const std::string& w) {
    return key.words.empty() || std::find(key.words.begin(), key.words.end(), w) != key.words.end();
  };
  if (const double* n = std::get_if<double>(&entry.value)) {
    if (*n < key.least) return bad_input("line {}: {} is {}, below {}", entry.line, entry.key, *n, key.least);
  } else if (const std::string* w = std::get_if<std::string>(&entry.value)) {
    if (!listed(*w)) return refuse_word(*w);
    if (key.name == "sample" && !valid_sample(*w))
      return bad_input("line {}: sample is '{}', expected all or cta:1/N", entry.line, *w);
  } else {
    const auto& words = std::get<std::vector<std::string>>(entry.value);
    for (size_t i = 0; i < words.size(); ++i) {
      if (!listed(words[i])) return refuse_word(words[i]);
      if (std::find(words.begin(), words.begin() + i, words[i]) != words.begin() + i)
        return bad_input("line {}: {} names '{}' twice", entry.line, entry.key, words[i]);
    }
  }
  return {};
}

}  // namespace

std::optional<size_t> probe_index(std::string_view name) {
  const auto at = std::find(probe_names.begin(), probe_names.end(), name);
  if (at == probe_names.end()) return std::nullopt;
  return static_cast<size_t>(at - probe_names.begin());
}

std::optional<double> Limits::of(const PerProbe& limit, std::string_view probe) const {
  const auto index = probe_index(probe);
  return index ? limit[*index] : std::nullopt;
}

Result<Policy::Setting> Policy::setting_of(const TomlEntry& entry) {
  const std::string first = entry.key.substr(0, entry.key.find('.'));
  const auto key =
      std::find_if(std::begin(keys), std::end(keys), [&](const Key& k) { return k.name == first; });
  if (key == std::end(keys))
    return with_hint(bad_input("line {}: unknown key {}", entry.line, entry.key),
                     "the keys are: " + known_keys());
  Setting setting;
  setting.row = static_cast<size_t>(key - keys);
  setting.value = entry.value;
  if (first.size() != entry.key.size()) {
    const std::string member = entry.key.substr(first.size() + 1);
    const auto at = std::find(key->members.begin(), key->members.end(), member);
    if (at == key->members.end())
      return key->members.empty() ? with_hint(bad_input("line {}: unknown key {}", entry.line, entry.key),
                                              fmt::format("write {} = ...", first))
                                  : with_hint(bad_input("line {}: unknown key {}", entry.line, entry.key),
                                              fmt::format("after {}. stands one of: {}", first,
                                                          fmt::join(key->members, ", ")));
    setting.member = static_cast<size_t>(at - key->members.begin());
  }
  if (entry.value.index() != key->type) {
    constexpr std::string_view kinds[] = {"a number", "a string", "an array of strings"};
    return bad_input("line {}: {} is {}, expected {}", entry.line, entry.key, kind_of(entry.value),
                     kinds[key->type]);
  }
  XT_TRY_STATUS(check_value(*key, entry));
  return setting;
}

Result<Policy> Policy::parse(std::string_view text, const std::string& name) {
  const auto named = [&](Error error) {
    error.message = name + ": " + error.message;
    return tl::make_unexpected(std::move(error));
  };
  auto sections = parse_toml(text);
  if (!sections) return named(std::move(sections).error());
  Policy policy;
  for (const TomlSection& s : *sections) {
    Section section;
    const bool is_default = s.kind == "default" && !s.named;
    if (!is_default && !(s.kind == "kernel" && s.named))
      return named(
          with_hint(bad_input("line {}: unknown section [{}{}]", s.line, s.kind, s.named ? ".\"...\"" : ""),
                    "there are [default] and [kernel.\"regular expression\"]")
              .value());
    if (!is_default) {
      auto pattern = KernelPattern::parse(s.name);
      if (!pattern) {
        pattern.error().message = fmt::format("line {}: {}", s.line, pattern.error().message);
        return named(std::move(pattern).error());
      }
      section.kernel = std::move(*pattern);
      section.text = s.name;
    }
    for (const TomlEntry& entry : s.entries) {
      auto setting = setting_of(entry);
      if (!setting) return named(std::move(setting).error());
      section.settings.push_back(std::move(*setting));
    }
    policy.sections_.insert(is_default ? policy.sections_.begin() : policy.sections_.end(),
                            std::move(section));
  }
  return policy;
}

Limits Policy::limits_for(const std::string& kernel, const std::string& kernel_text) const {
  Limits limits;
  for (const Section& s : sections_) {
    if (s.kernel && !s.kernel->matches(kernel, kernel_text)) continue;
    for (const Setting& setting : s.settings) keys[setting.row].apply(limits, setting.value, setting.member);
  }
  return limits;
}

std::vector<std::string> Policy::idle_sections(const std::map<std::string, std::string>& kernels) const {
  std::vector<std::string> idle;
  for (const Section& s : sections_)
    if (s.kernel && std::none_of(kernels.begin(), kernels.end(), [&](const auto& k) { return s.kernel->matches(k.first, k.second); })) idle.push_back(s.text);
  return idle;
}

}  // namespace xtrace::check
