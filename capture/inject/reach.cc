#include "capture/inject/reach.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace xtrace::inject {

size_t RegionTable::add(const KnownRegion& region) {
  size_t pieces = 0;
  uint64_t at = region.begin;
  const uint64_t end = region.end();
  auto it = by_begin_.upper_bound(at);
  if (it != by_begin_.begin() && std::prev(it)->second.end() > at) at = std::prev(it)->second.end();
  while (at < end) {
    const uint64_t stop = it == by_begin_.end() ? end : std::min(end, it->second.begin);
    if (stop > at) {
      KnownRegion piece = region;
      piece.begin = at;
      piece.size = stop - at;
      piece.selected = false;
      by_begin_.emplace(at, piece);
      ++pieces;
    }
    if (it == by_begin_.end()) break;
    at = it->second.end();
    ++it;
  }
  if (pieces != 0) ++version_;
  return pieces;
}

KnownRegion* RegionTable::find(uint64_t address) {
  auto it = by_begin_.upper_bound(address);
  if (it == by_begin_.begin()) return nullptr;
  --it;
  return address - it->second.begin < it->second.size ? &it->second : nullptr;
}

void RegionTable::take(KnownRegion& region, std::vector<KnownRegion*>& fresh) {
  region.selected = true;
  selected_bytes_ += region.size;
  fresh.push_back(&region);
}

bool RegionTable::select(uint64_t address, std::vector<KnownRegion*>& fresh) {
  KnownRegion* region = find(address);
  if (region == nullptr) return false;
  if (region->selected) return true;
  take(*region, fresh);
  if (region->kind != bundle::RegionKind::vmm) return true;
  const auto middle = by_begin_.find(region->begin);
  auto joins = [](const KnownRegion& a, const KnownRegion& b) {
    return b.kind == bundle::RegionKind::vmm && !b.selected && (a.end() == b.begin || b.end() == a.begin);
  };
  for (auto it = middle; it != by_begin_.begin() && joins(it->second, std::prev(it)->second);)
    take((--it)->second, fresh);
  for (auto it = middle, next = std::next(it); next != by_begin_.end() && joins(it->second, next->second);
       it = next++)
    take(next->second, fresh);
  return true;
}

void RegionTable::select_all(std::vector<KnownRegion*>& fresh) {
  for (auto& [begin, region] : by_begin_)
    if (!region.selected) take(region, fresh);
}

std::vector<KnownRegion*> RegionTable::selected() {
  std::vector<KnownRegion*> out;
  for (auto& [begin, region] : by_begin_)
    if (region.selected) out.push_back(&region);
  return out;
}

void WordScanner::refresh() {
  if (seen_version_ == table_.version_) return;
  seen_version_ = table_.version_;
  intervals_.clear();
  for (auto& [begin, region] : table_.by_begin_) intervals_.push_back({begin, region.end(), &region});
}

void WordScanner::scan(ByteView words, uint64_t stride, std::vector<KnownRegion*>& fresh) {
  if (words.size() < 8) return;
  refresh();
  const uint64_t low = intervals_.empty() ? 0 : intervals_.front().begin;
  const uint64_t span = intervals_.empty() ? 0 : intervals_.back().end - low;
  uint64_t last_begin = 0,
           last_size = 0;  // an interval that is selected already: arrays of pointers into one region
  uint64_t last_unknown_page = UINT64_MAX;
  for (uint64_t offset = 0; offset + 8 <= words.size(); offset += stride) {
    uint64_t v;
    std::memcpy(&v, words.data() + offset, 8);
    if (v - last_begin < last_size) continue;
    if (v - low < span) {
      auto it = std::upper_bound(intervals_.begin(), intervals_.end(), v,
                                 [](uint64_t value, const Interval& i) { return value < i.begin; });
      if (it != intervals_.begin() && v < std::prev(it)->end) {
        --it;
        if (!it->region->selected) table_.select(v, fresh);
        last_begin = it->begin;
        last_size = it->end - it->begin;
        continue;
      }
    }
    if (!could_be_address(v)) continue;
    const uint64_t page = v >> 16;
    if (page == last_unknown_page) continue;
    last_unknown_page = page;
    if (asked_pages_.size() >= unknown_limit) {
      if (!asked_pages_.contains(page)) unknown_overflow_ = true;
      continue;
    }
    if (asked_pages_.insert(page).second) unknown_.push_back(v);
  }
}

std::vector<uint64_t> WordScanner::take_unknown() { return std::exchange(unknown_, {}); }

}  // namespace xtrace::inject
