#include "capture/inject/reach.h"

#include <algorithm>
#include <charconv>
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

std::vector<AddressRange> RegionTable::ranges() const {
  std::vector<AddressRange> out;
  for (const auto& [begin, region] : by_begin_) out.push_back({begin, region.end()});
  return out;
}

std::vector<AddressRange> mapped_ranges(std::string_view maps_text) {
  std::vector<AddressRange> out;
  while (!maps_text.empty()) {
    const std::string_view line = maps_text.substr(0, maps_text.find('\n'));
    maps_text.remove_prefix(std::min(maps_text.size(), line.size() + 1));
    AddressRange r;
    const char* end = line.data() + line.size();
    const auto [dash, e1] = std::from_chars(line.data(), end, r.begin, 16);
    if (e1 != std::errc() || dash == end || *dash != '-') continue;
    if (std::from_chars(dash + 1, end, r.end, 16).ec != std::errc() || r.end <= r.begin) continue;
    if (!out.empty() && out.back().end == r.begin)
      out.back().end = r.end;
    else
      out.push_back(r);
  }
  return out;
}

bool WordScanner::mapped(uint64_t address) {
  if (mapped_source_) mapped_ = std::exchange(mapped_source_, {})();
  if (mapped_.empty()) return true;
  const auto it = std::upper_bound(mapped_.begin(), mapped_.end(), address,
                                   [](uint64_t value, const AddressRange& r) { return value < r.begin; });
  return it != mapped_.begin() && address < std::prev(it)->end;
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
    if (!mapped(v)) continue;
    if (asked_pages_.size() >= unknown_limit) {
      if (!asked_pages_.contains(page)) unknown_overflow_ = true;
      continue;
    }
    if (asked_pages_.insert(page).second) unknown_.push_back(v);
  }
}

std::vector<uint64_t> WordScanner::take_unknown() { return std::exchange(unknown_, {}); }

}  // namespace xtrace::inject
