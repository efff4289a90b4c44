// What the events of a point probe amount to: executions and lanes of every point, values, intervals between the points of a
// site, who came last to a barrier, where branches went. One analysis for all point probes; their tables take from it what
// they show (point_tables.h).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trace/distribution.h"
#include "trace/point_trace.h"

namespace xtrace::trace {

// A value over all executions: of a vector register each active lane's, of `lanes` the number of them.
struct ValueStats {
  static constexpr size_t most_distinct = 1024;
  uint64_t samples = 0, min = ~0ull, max = 0, sum = 0;
  std::map<uint64_t, uint64_t> distinct;   // value -> samples, up to most_distinct of them
  bool more = false;                       // there are more distinct ones
  void add(uint64_t value);
};

struct PointStats {
  uint64_t executions = 0, lanes = 0;
  std::vector<ValueStats> values;          // as Point::values; clocks and times: empty
};

struct SiteStats {
  Distribution cycles;                     // from the first clock to the last at the point: lanes wait or are inside
  Distribution issue;                      // latency: from clock_before to clock
  Distribution nanoseconds;                // range
  double sum_cycles = 0;
  std::map<uint32_t, Distribution> by_sm;  // cycles
  uint64_t unmatched = 0;                  // began and were never seen to end
  // branch
  uint64_t executions = 0, taken = 0, not_taken = 0, divergent = 0;   // lanes, lanes, executions
  std::map<uint32_t, uint64_t> targets;    // of indirect branches: original pc -> lanes
  // Episodes of a barrier: the same execution of it by all warps of a CTA.
  Distribution skew;                       // cycles from the first arrival to the last
  std::map<uint32_t, uint64_t> last;       // warp in its CTA -> episodes that it came last to
  uint64_t irregular_ctas = 0;             // whose warps executed it unequally often: no episodes
};

class PointAnalysis : public PointVisitor {
 public:
  // An interval of some lanes, as it ends. `site` of Point::site.
  struct Interval {
    uint32_t site = 0, mask = 0;
    uint64_t begin = 0, end = 0;
  };
  // `barriers`: by site, whether its executions by the warps of a CTA belong together; may be empty.
  PointAnalysis(const wire::AddressMap& map, std::vector<bool> barriers);
  PointAnalysis(const wire::AddressMap&& map, std::vector<bool> barriers) = delete;   // it must outlive this
  // Called for each interval of a warp, in the order of their ends; and at the end of each warp.
  std::function<Status(const PointWarp&, const Interval&)> on_interval;
  std::function<Status(const PointWarp&)> on_end;

  Status begin(const PointWarp& warp) override;
  Status event(const PointEvent& event) override;
  Status end(const PointWarp& warp) override;
  void finish();   // after the last warp

  const std::vector<PointStats>& points() const { return points_; }
  const std::vector<SiteStats>& sites() const { return sites_; }
  // Executions and lanes of the blocks that have a point that every execution of the block passes; others: 0.
  const std::vector<wire::BlockCount>& blocks() const { return blocks_; }
  const std::vector<bool>& counted_blocks() const { return counts_block_; }
  // Events that can not be: a word of lanes that were not active, a clock that runs backwards between the points of a site.
  uint64_t checked() const { return checked_; }
  uint64_t impossible() const { return impossible_; }
  const std::string& first_impossible() const { return first_; }

 private:
  struct Begun {
    uint64_t clock = 0;
    uint32_t time = 0;
  };
  struct Open {                       // lanes inside a site
    std::vector<Begun> begun;
    std::array<int32_t, 32> lane{};   // index in begun; -1: outside
    void clear();
  };
  struct Arrivals {                   // of one warp at a barrier, in order
    uint32_t warp = 0;
    std::vector<uint64_t> clocks;
  };
  Status interval(const wire::Point& point, uint32_t mask, uint64_t begin, uint64_t end, std::optional<uint32_t> ns);
  void branch(const wire::Point& point, const PointEvent& e);
  Status passage(const wire::Point& point, const PointEvent& e);
  void impossible(std::string what);
  void close_cta();

  const wire::AddressMap& map_;
  std::vector<bool> barriers_;
  std::vector<PointStats> points_;
  std::vector<SiteStats> sites_;
  std::vector<wire::BlockCount> blocks_;
  std::vector<bool> counts_block_;
  std::vector<uint32_t> counter_of_;  // by block: the point that counts it
  std::vector<Open> open_;            // by site
  std::map<uint32_t, std::vector<Arrivals>> arrivals_;   // by site, of the current CTA
  PointWarp warp_;
  std::optional<uint32_t> cta_;
  uint64_t checked_ = 0, impossible_ = 0;
  std::string first_;
};

}  // namespace xtrace::trace
