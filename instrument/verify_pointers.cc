// The rule pointer-followed (verify.h).
#include <fmt/format.h>

#include <algorithm>

#include "instrument/verify_state.h"

namespace xtrace::instrument {
namespace {

void check_copy(const SpliceView& v, const Copy& copy, Violations& out) {
  const FunctionPointers& p = v.old.pointers;
  const auto fail = [&](uint32_t word, std::string text) { out.push_back({"pointer-followed", v.pc(word), std::move(text)}); };
  std::optional<int64_t> base;
  for (const InstIndex call : p.calls) {
    const uint32_t word = copy.at[call];
    const auto found = sass::register_branch_base(*v.old.arch, v.words[word], v.pc(word));
    if (!found) return fail(word, "no call through a register");
    if (base && *found != *base) return fail(word, fmt::format("is relative to {:#x}, another call to {:#x}", *found, *base));
    base = found;
  }
  const int64_t moved = *base - p.base;   // from where a pointer led in the original to where it leads here
  const auto pointer = [&](InstIndex i) { return int64_t{v.old.pc(i)} - p.base; };
  bool in_place = true;   // to each label itself
  for (InstIndex i = p.first; i <= p.last; ++i) in_place = in_place && moved + v.old.pc(i) == v.pc(copy.label[i]);
  for (InstIndex i = p.first; i <= p.last && !in_place; ++i) {
    const int64_t pc = moved + v.old.pc(i);
    if (pc < 0 || pc % sass::inst_bytes != 0 || pc >= int64_t{v.pc(static_cast<uint32_t>(v.words.size()))})
      return fail(copy.at[p.calls[0]], fmt::format("pointer {:#x} leads to {:#x}, which is no word of the section", pointer(i), pc));
    const auto word = static_cast<uint32_t>(pc / sass::inst_bytes);
    // Behind all copies, where nobody falls through to.
    if (!v.is_inserted(word) || v.next_original[word] != SpliceView::inserted) {
      fail(word, fmt::format("pointer {:#x} leads into a copy of the code", pointer(i)));
      continue;
    }
    const sass::Effects& fx = v.effects[word];
    if (!std::ranges::binary_search(p.entries, i)) {
      if (fx.mnemonic != "BPT") fail(word, fmt::format("pointer {:#x} leads to no function, and to no trap", pointer(i)));
      continue;
    }
    const uint32_t expected = v.pc(copy.label[i]);
    if (fx.flow != sass::Flow::branch || fx.falls_through || !fx.target || *fx.target != expected)
      fail(word, fmt::format("pointer {:#x} leads to {:#x}, expected {:#x}", pointer(i), fx.target.value_or(-1), expected));
  }
}

}  // namespace

void check_pointers(const SpliceView& v, Violations& out) {
  if (v.old.pointers.calls.empty()) return;
  for (const Copy& copy : v.copies) check_copy(v, copy, out);
}

}  // namespace xtrace::instrument
