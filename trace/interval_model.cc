#include "trace/interval_model.h"

#include <algorithm>
#include <cmath>

namespace xtrace::trace {
namespace {

constexpr double most_inserted = 8, step = 0.05;
constexpr double least_error = 1;   // cycle

// What a clock adds where nothing is in its way: a cycle or two, by the pipe of the instruction behind it.
double least_added(const SiteTimes& s) {
  size_t least = 0;
  while (least < s.excess.size() && s.excess[least] == 0) ++least;
  return static_cast<double>(std::min<size_t>(least, 2));
}

// What the first clock adds to the site, on average over its samples.
double added(const SiteTimes& s, double inserted) {
  // Of what waits for a scoreboard, only those samples that did not have to.
  const double most = s.waits ? 2 : std::max(inserted, least_added(s));
  double sum = 0, seen = 0;
  for (size_t k = 0; k < s.excess.size(); ++k) {
    seen += s.excess[k];
    const auto more = static_cast<double>(k);
    if (!s.waits || more <= most) sum += s.excess[k] * std::min(more, most);
  }
  return s.waits ? sum : sum + std::max(0.0, 1 - seen) * most;
}

double net(const StretchTimes& s, double inserted) { return std::max(0.0, s.cycles - s.pause - 2 * inserted); }

}  // namespace

double inserted_cycles(std::span<const BlockTimes> blocks) {
  double best = 1, least = -1;
  for (double inserted = 1; inserted <= most_inserted; inserted += step) {
    double misfit = (inserted - 1) * (inserted - 1) / 4;   // where the blocks say little: a cycle, give or take two
    for (const BlockTimes& b : blocks) {
      if (!b.body || b.unknown != 0 || b.sites.size() < 3) continue;
      double sum = 0, variance = b.body->error * b.body->error;
      for (const SiteTimes& s : b.sites) {
        sum += s.cycles - added(s, inserted);
        variance += s.error * s.error;
      }
      const double off = sum - net(*b.body, inserted);
      misfit += b.executions * std::min(9.0, off * off / std::max(variance, 1.0));   // no block drags all others
    }
    if (least < 0 || misfit < least) {
      least = misfit;
      best = inserted;
    }
  }
  return best;
}

BlockIntervals intervals_of(const BlockTimes& b, double inserted) {
  BlockIntervals out;
  double sum = 0, variance = 0;
  for (const SiteTimes& s : b.sites) {
    // What a clock adds beyond the least is known to half of it.
    const double doubt = s.waits ? 0 : 0.5 * std::max(0.0, inserted - std::max(1.0, least_added(s)));
    const Interval i{s.pc, std::max<double>(s.cycles - added(s, inserted), s.stall),
                     std::max(least_error, std::hypot(s.error, doubt))};
    sum += i.cycles;
    variance += i.error * i.error;
    out.sites.push_back(i);
  }
  out.together = sum;
  if (b.body) {
    const double whole = net(*b.body, inserted);
    if (b.unknown == 0 && variance > 0) {
      // What is lacking or too much is shared out by how well each is known.
      const double own = b.body->error * b.body->error + inserted * inserted;
      const double share = (whole - sum) / (variance + own);
      for (size_t k = 0; k < out.sites.size(); ++k) {
        Interval& i = out.sites[k];
        i.cycles = std::max<double>(i.cycles + share * i.error * i.error, b.sites[k].stall);
      }
      out.together = 0;
      for (const Interval& i : out.sites) out.together += i.cycles;
    } else {
      out.together = std::max(whole, sum);
    }
  }
  if (b.block && b.body) {
    out.last = Interval{0, std::max(0.0, b.block->cycles - b.body->cycles - (b.block->pause - b.body->pause)),
                        std::max(least_error, std::hypot(b.block->error, b.body->error))};
  } else if (b.block && b.sites.empty() && b.unknown == 0) {
    out.last = Interval{0, net(*b.block, inserted), std::max(least_error, b.block->error)};
  }
  if (out.last) out.together += out.last->cycles;
  return out;
}

}  // namespace xtrace::trace
