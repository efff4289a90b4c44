// What the verifier looks at, made by hand: a few words of which some are inserted, for rules that no real splice comes close to breaking.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "instrument/verify_state.h"

namespace xtrace::instrument::test {

struct Word {
  bool inserted;
  sass::RawInst w;
};
inline Word ins(const sass::RawInst& w) { return {true, w}; }
inline Word own(const sass::RawInst& w) { return {false, w}; }

// For sm_90; targets of branches are left alone. `counts`: instructions of each block of the original code.
struct MadeView {
  SpliceView v;
  SpliceClaims claims;
  Blocks blocks;

  MadeView(const std::vector<Word>& words, const std::vector<uint32_t>& counts, std::vector<std::vector<uint32_t>> successors) {
    v.old.arch = *sass::find_arch(90);
    v.old.kernel = "made";
    v.copies.resize(1);
    uint32_t label = 0;
    for (const Word& word : words) {
      const auto k = static_cast<uint32_t>(v.words.size());
      v.words.push_back(word.w);
      v.effects.push_back(sass::effects(*v.old.arch, word.w, k * sass::inst_bytes));
      v.origin.push_back(word.inserted ? SpliceView::inserted : static_cast<uint32_t>(v.old.insts.size()));
      v.next_original.push_back(word.inserted ? static_cast<uint32_t>(v.old.insts.size()) : SpliceView::inserted);
      if (word.inserted) continue;
      v.old.insts.push_back({word.w, sass::effects(*v.old.arch, word.w, v.old.bytes())});
      v.copies[0].at.push_back(k);
      v.copies[0].label.push_back(label);
      label = k + 1;
    }
    v.old.reachable.assign(v.old.insts.size(), true);
    uint32_t first = 0;
    for (const uint32_t count : counts) {
      blocks.blocks.push_back({first, count, static_cast<uint32_t>(blocks.blocks.size())});
      blocks.block_of.insert(blocks.block_of.end(), count, blocks.blocks.back().number);
      first += count;
    }
    blocks.successors = std::move(successors);
  }
  // What a checker, all of whose violations are of that rule, says of it; a line each.
  template <typename Check>
  std::string found(std::string_view rule, Check check) const {
    Violations violations;
    check(violations);
    std::string all;
    for (const Violation& x : violations) {
      EXPECT_EQ(x.rule, rule);
      all += x.text + "\n";
    }
    return all;
  }
};

}  // namespace xtrace::instrument::test
