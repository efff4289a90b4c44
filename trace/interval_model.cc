#include "trace/interval_model.h"

#include <algorithm>
#include <cmath>

namespace xtrace::trace {
namespace {

constexpr double least_error = 1;        // cycle
constexpr double most_added = 16;        // by a clock
constexpr double seen_at_least = 0.005;  // share of the samples
constexpr double least_deviation = 0.1;
constexpr double short_stretch = 200;    // cycles

// A measured value and what is expected of its kind, each as far as it is known.
double combined(const Scattered& measured, double expected, double spread) {
  const double a = 1 / std::pow(std::max(measured.deviation, least_deviation), 2), b = 1 / (spread * spread);
  return (a * measured.cycles + b * expected) / (a + b);
}

// What a clock adds where nothing is in its way: a cycle or two, by the pipe of the instruction behind it.
size_t least_added(const SiteTimes& s) {
  size_t least = 0;
  while (least < s.excess.size() && s.excess[least] < seen_at_least) ++least;
  return least;
}

// Weighted by how well each is known, and by `expected` as if that had been seen once, to within `spread`.
struct Mean {
  double weight, sum, squares = 0;
  Mean(double expected, double spread) : weight(1 / (spread * spread)), sum(expected / (spread * spread)) {}
  void add(const Scattered& s, double times) {
    const double w = times / (0.25 + s.deviation * s.deviation);
    weight += w;
    sum += w * s.cycles;
    squares += w * s.cycles * s.cycles;
  }
  double mean() const { return sum / weight; }
  double spread() const { return std::sqrt(std::max(0.0, squares / weight - mean() * mean())); }
};

}  // namespace

AddedCycles::Kind AddedCycles::kind_of(const SiteTimes& site) {
  if (site.waits) return waits;
  return least_added(site) >= 2 ? two : one;
}

AddedCycles::AddedCycles(std::span<const BlockTimes> blocks, const StretchTimes* kernel) {
  Mean sites[kinds]{{sites_[waits], 1}, {sites_[one], 1}, {sites_[two], 1}}, move(move_, 1), all(1, 2);
  for (const BlockTimes& b : blocks) {
    const double times = std::min(1.0, b.executions);
    for (const SiteTimes& s : b.sites) {
      if (!s.added) continue;
      const Scattered added{std::clamp(s.added->cycles, 0.0, most_added), s.added->deviation};
      sites[kind_of(s)].add(added, times);
      if (!s.waits) all.add(added, b.executions);
    }
    if (b.body && b.body->added && b.body->cycles < short_stretch) move.add({b.body->added->cycles - b.body->pause, b.body->added->deviation}, times);
  }
  if (kernel != nullptr && kernel->added && kernel->cycles < short_stretch) move.add({kernel->added->cycles - kernel->pause, kernel->added->deviation}, 1);
  for (size_t k = 0; k < kinds; ++k) {
    sites_[k] = sites[k].mean();
    spread_[k] = std::clamp(sites[k].spread(), 0.5, 4.0);
  }
  move_ = std::max(2.0, move.mean());
  mean_ = all.mean();
}

double AddedCycles::of(const SiteTimes& site) const {
  const Kind kind = kind_of(site);
  const double added = site.added ? combined(*site.added, sites_[kind], spread_[kind]) : sites_[kind];
  return std::clamp(added, 0.0, most_added);
}

double AddedCycles::of(const StretchTimes& stretch, bool short_one) const {
  const double expected = stretch.pause + move_;
  if (!stretch.added) return expected;
  // Records are in the way as well; of a long stretch that comes round again they may even take from its waits.
  const double spread = short_one ? 8 : std::max(1.0, 0.01 * stretch.cycles);
  return combined(*stretch.added, expected, spread);
}

BlockIntervals intervals_of(const BlockTimes& b, const AddedCycles& added) {
  BlockIntervals out;
  double sum = 0, variance = 0;
  for (const SiteTimes& s : b.sites) {
    const Interval i{s.pc, std::max<double>(s.cycles - added.of(s), s.stall), std::max(least_error, s.error)};
    sum += i.cycles;
    variance += i.error * i.error;
    out.sites.push_back(i);
  }
  out.body = sum;
  if (b.body) {
    const double whole = std::max(0.0, b.body->cycles - added.of(*b.body, false));
    if (b.unknown == 0 && variance > 0) {
      // What is lacking or too much is shared out by how well each is known. The stretch is believed: a pair's record is in the way of
      // what follows in the block.
      const double share = (whole - sum) / variance;
      for (size_t k = 0; k < out.sites.size(); ++k) {
        Interval& i = out.sites[k];
        i.cycles = std::max<double>(i.cycles + share * i.error * i.error, b.sites[k].stall);
      }
      out.body = 0;
      for (const Interval& i : out.sites) out.body += i.cycles;
    } else {
      out.body = std::max(whole, sum);
    }
  }
  if (b.last_site) {
    const SiteTimes& s = *b.last_site;
    out.last = Interval{s.pc, std::max<double>(s.cycles - added.of(s), s.stall), std::max(least_error, s.error)};
  } else if (b.last) {
    out.last = Interval{0, std::max<double>(b.last->cycles - added.of(*b.last, true), b.last_stall),
                        std::max(least_error, b.last->error)};
  }
  return out;
}

}  // namespace xtrace::trace
