// The command lines of the programs in this folder: `--name VALUE`, and files. What is not understood ends the program with 64 and its
// usage: a word that was mistyped must not pass for a file, nor a run over nothing for one without a finding.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace xtrace {

class Arguments {
 public:
  Arguments(int argc, char** argv, const char* usage) : words_(argv + 1, argv + argc), usage_(usage) {}

  void option(std::string_view name, std::integral auto& value) {
    const std::string* word = take(name);
    if (word == nullptr) return;
    const auto [end, error] = std::from_chars(word->data(), word->data() + word->size(), value);
    if (error != std::errc{} || end != word->data() + word->size()) refuse();
  }
  void option(std::string_view name, std::string& value) {
    if (const std::string* word = take(name)) value = *word;
  }
  // Behind all options.
  std::vector<std::string> files() {
    std::vector<std::string> files;
    for (size_t i = 0; i < words_.size(); ++i) {
      if (taken_.contains(i)) continue;
      if (words_[i].starts_with("--")) refuse();
      files.push_back(words_[i]);
    }
    if (files.empty()) refuse();
    return files;
  }
  [[noreturn]] void refuse() const {
    std::fprintf(stderr, "usage: %s\n", usage_);
    std::exit(64);
  }

 private:
  const std::string* take(std::string_view name) {
    const std::string* last = nullptr;
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] != name) continue;
      if (i + 1 == words_.size()) refuse();
      taken_.insert({i, i + 1});
      last = &words_[++i];
    }
    return last;
  }

  std::vector<std::string> words_;
  std::set<size_t> taken_;
  const char* usage_;
};

}  // namespace xtrace
