// Which memory a launch can reach: words of the parameter block, then words of the memory they point to, and
// so on, that fall into known memory. A word that only looks like an address costs an unneeded region, never
// a missing one.
//
// Pure: knows neither CUDA nor how memory is read. The snapshot selects from the parameter block, reads each
// fresh region once, scans what it read, and goes on until no region is fresh.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::inject {

struct AddressRange {
  uint64_t begin = 0, end = 0;
};

struct KnownRegion {
  uint64_t begin = 0, size = 0;
  bundle::RegionKind kind = bundle::RegionKind::device;
  std::string symbol;
  bool selected = false;
  uint64_t end() const { return begin + size; }
};

class RegionTable {
 public:
  // Adds what is not covered yet (in pieces when something in its middle is known). Returns the number of
  // pieces.
  size_t add(const KnownRegion& region);
  // Addresses of regions stay valid for the life of the table.
  KnownRegion* find(uint64_t address);

  // Selects the region at `address` if there is one, and the mappings that touch it without a gap: one tensor
  // of a pool grown by cuMemMap lies across several. Newly selected regions are appended to `fresh`. False:
  // nothing known there.
  bool select(uint64_t address, std::vector<KnownRegion*>& fresh);
  void select_all(std::vector<KnownRegion*>& fresh);

  uint64_t selected_bytes() const { return selected_bytes_; }
  std::vector<KnownRegion*> selected();  // by address
  std::vector<AddressRange> ranges() const;  // of all regions, by address

 private:
  friend class WordScanner;
  void take(KnownRegion& region, std::vector<KnownRegion*>& fresh);

  std::map<uint64_t, KnownRegion> by_begin_;
  uint64_t selected_bytes_ = 0, version_ = 0;
};

// The ranges of a /proc/<pid>/maps text, joined where they touch, in order.
std::vector<AddressRange> mapped_ranges(std::string_view maps_text);

// Collects, from words, regions of a table and addresses that nobody knows but that the driver may.
class WordScanner {
 public:
  // `mapped` is called before the first unknown address is reported, and gives the ranges (in order, disjoint) in
  // which there can be any; none = everywhere.
  explicit WordScanner(RegionTable& table, std::function<std::vector<AddressRange>()> mapped = {})
      : table_(table), mapped_source_(std::move(mapped)) {}

  // Every 8-byte word at offsets 0, stride, 2*stride...; stride is 8 for memory (allocations are 256-byte
  // aligned) and 4 for parameter blocks. Fresh regions are appended.
  void scan(ByteView words, uint64_t stride, std::vector<KnownRegion*>& fresh);

  // Words in no known region that could be device addresses, one a 64 KiB page, each reported once in the
  // life of the scanner; at most `unknown_limit` of them, so that data full of look-alikes costs a bounded
  // number of questions.
  std::vector<uint64_t> take_unknown();
  bool unknown_overflow() const { return unknown_overflow_; }
  // The driver knew the address: another word of the same page may belong to another allocation, and may be
  // reported.
  void found(uint64_t address) { asked_pages_.erase(address >> 16); }

  static constexpr size_t unknown_limit = 4096;
  // Device addresses seen: 0x204c00000 to 0x7fff... [measured H200]; the hint of a reservation can be as low
  // as 0x10000000. Smaller values are sizes and counters.
  static bool could_be_address(uint64_t v) { return v >= 0x10000000 && v < 0x800000000000; }

 private:
  struct Interval {
    uint64_t begin, end;
    KnownRegion* region;
  };
  void refresh();
  bool mapped(uint64_t address);

  RegionTable& table_;
  std::function<std::vector<AddressRange>()> mapped_source_;  // empty once it was asked
  std::vector<AddressRange> mapped_;
  uint64_t seen_version_ = UINT64_MAX;
  std::vector<Interval> intervals_;  // of the table, by address
  std::unordered_set<uint64_t> asked_pages_;
  std::vector<uint64_t> unknown_;
  bool unknown_overflow_ = false;
};

}  // namespace xtrace::inject
