#include "capture/inject/allocations.h"

namespace xtrace::inject {

size_t AllocationMap::add(const Allocation& a) {
  if (a.size == 0) return 0;
  auto it = by_begin_.lower_bound(a.begin);
  if (it != by_begin_.begin() && std::prev(it)->second.end() > a.begin) --it;
  size_t stale = 0;
  while (it != by_begin_.end() && it->second.begin < a.end()) {
    it = by_begin_.erase(it);
    ++stale;
  }
  by_begin_.emplace(a.begin, a);
  return stale;
}

std::optional<Allocation> AllocationMap::remove(uint64_t begin) {
  const auto it = by_begin_.find(begin);
  if (it == by_begin_.end()) return std::nullopt;
  const Allocation a = it->second;
  by_begin_.erase(it);
  return a;
}

std::vector<Allocation> AllocationMap::remove_range(uint64_t begin, uint64_t size) {
  std::vector<Allocation> gone;
  auto it = by_begin_.lower_bound(begin);
  while (it != by_begin_.end() && it->second.begin - begin < size && it->second.end() - begin <= size) {
    gone.push_back(it->second);
    it = by_begin_.erase(it);
  }
  return gone;
}

void AllocationMap::remove_context(uint64_t context) {
  std::erase_if(by_begin_, [context](const auto& e) { return context != 0 && e.second.context == context; });
}

const Allocation* AllocationMap::find(uint64_t address) const {
  auto it = by_begin_.upper_bound(address);
  if (it == by_begin_.begin()) return nullptr;
  --it;
  return address - it->second.begin < it->second.size ? &it->second : nullptr;
}

std::vector<Allocation> AllocationMap::all() const {
  std::vector<Allocation> out;
  out.reserve(by_begin_.size());
  for (const auto& [begin, a] : by_begin_) out.push_back(a);
  return out;
}

}  // namespace xtrace::inject
