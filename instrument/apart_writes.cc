#include "instrument/apart_writes.h"

namespace xtrace::instrument {
namespace {

// From the entry on, until lanes may part or come back: lanes that end do not come back.
void add_entry(const Code& code, std::vector<bool>& together) {
  const InstIndex start = code.functions.at(0).entry;
  std::vector<uint32_t> ways(code.insts.size(), 0);
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (code.reachable[i])
      for (InstIndex n : code.successors(i)) ++ways[n];
  for (InstIndex i = start; ways[i] == (i == start ? 0u : 1u);) {
    together[i] = true;
    const sass::Flow flow = code.insts[i].fx.flow;
    const auto next = code.successors(i);
    if ((flow != sass::Flow::next && flow != sass::Flow::exit) || next.size() != 1 || next[0] != i + 1) return;
    i = next[0];
  }
}

}  // namespace

ApartWrites::ApartWrites(const Code& code, const std::vector<bool>& whole) : together_(whole), elsewhere_(code.insts.size()) {
  const size_t n = code.insts.size();
  together_.resize(n, false);
  add_entry(code, together_);

  std::vector<std::vector<InstIndex>> before(n);
  std::vector<sass::RegSet> ahead(n);   // written apart somewhere behind it
  std::vector<InstIndex> work;
  for (InstIndex i = 0; i < n; ++i) {
    if (!code.reachable[i]) continue;
    for (InstIndex next : code.successors(i)) before[next].push_back(i);
    if (!together_[i]) anywhere_ |= code.insts[i].fx.def.ur;
    work.push_back(i);
  }
  while (!work.empty()) {
    const InstIndex i = work.back();
    work.pop_back();
    const sass::RegSet here = together_[i] ? ahead[i] : ahead[i] | code.insts[i].fx.def.ur;
    for (InstIndex b : before[i]) {
      if ((here & ~ahead[b]).none()) continue;
      ahead[b] |= here;
      work.push_back(b);
    }
  }

  for (InstIndex i = 0; i < n; ++i) {
    if (!code.reachable[i] || !together_[i]) continue;
    elsewhere_[i] = ahead[i];
    work.push_back(i);
  }
  while (!work.empty()) {
    const InstIndex i = work.back();
    work.pop_back();
    for (InstIndex next : code.successors(i)) {
      if (together_[next] || (elsewhere_[i] & ~elsewhere_[next]).none()) continue;
      elsewhere_[next] |= elsewhere_[i];
      work.push_back(next);
    }
  }
}

}  // namespace xtrace::instrument
