// Checks that a decoded trace could have been written by the kernel: order of clocks, and every lane's path
// against the control-flow graph. A record dropped, doubled or moved breaks one of them, or the block counts
// (aggregate.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/warp_trace.h"

namespace xtrace::trace {

enum class Invariant : uint8_t {
#define XTRACE_INVARIANT(name, text) name,
#include "trace/invariants.def"
#undef XTRACE_INVARIANT
};
constexpr size_t invariant_count = 0
#define XTRACE_INVARIANT(name, text) +1
#include "trace/invariants.def"
#undef XTRACE_INVARIANT
    ;
struct InvariantInfo {
  Invariant invariant;
  std::string_view name, text;
};
std::span<const InvariantInfo> all_invariants();

struct Violation {
  uint32_t warp = 0, record = 0;
  std::string expected, found;
};
struct InvariantResult {
  struct Row {
    uint64_t checked = 0, violated = 0;
    std::optional<Violation> first;
  };
  std::array<Row, invariant_count> rows;
  const Row& row(Invariant i) const { return rows[static_cast<size_t>(i)]; }
  uint64_t violations() const;
};

// Feed it every warp. Pair traces have no path: only clock_order and mask apply to them.
// The entry block is the block at the lowest pc (kernels start at offset 0 of their section).
class InvariantChecker {
 public:
  InvariantChecker(const wire::AddressMap& map, TraceKind kind);
  InvariantChecker(const wire::AddressMap&& map, TraceKind kind) = delete;   // it must outlive this
  void check(const WarpTrace& trace);
  const InvariantResult& result() const { return result_; }

 private:
  // What may follow a block in the trace: its successors, seen through blocks that carry no probe.
  struct Next {
    std::vector<uint32_t> blocks;  // sorted
    bool any = false;              // an indirect branch lies on the way
    bool exits = false;
  };
  Next follow(std::vector<uint32_t> starts) const;
  void check_clocks(const WarpTrace& trace);
  void check_paths(const WarpTrace& trace);
  bool allowed(const Next& next, uint32_t block) const;
  bool is_placed(const WarpTrace& trace, uint32_t record, size_t clock) const;   // the clock was not read
  std::string describe(const Next& next) const;
  void passed(Invariant i, uint64_t n = 1) { result_.rows[static_cast<size_t>(i)].checked += n; }
  void violated(Invariant i, const WarpTrace& trace, uint32_t record, std::string expected,
                std::string found);

  const wire::AddressMap& map_;
  const TraceKind kind_;
  Next entry_;
  std::vector<Next> next_;
  InvariantResult result_;
};

}  // namespace xtrace::trace
