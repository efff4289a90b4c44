#include "trace/loss.h"

namespace xtrace::trace {
namespace {

constexpr LossInfo rows[] = {
#define XTRACE_LOSS(name, severity, text) {Loss::name, #name, LossSeverity::severity, text},
#include "trace/loss.def"
#undef XTRACE_LOSS
};

}  // namespace

std::string_view name_of(LossSeverity severity) {
  switch (severity) {
    case LossSeverity::note:
      return "note";
    case LossSeverity::distrust:
      return "distrust";
    case LossSeverity::lost:
      return "lost";
  }
  return "lost";
}

std::span<const LossInfo> all_losses() { return rows; }
const LossInfo& loss_info(Loss loss) { return rows[static_cast<size_t>(loss)]; }

void LossCounts::add(Loss loss, uint32_t warp, uint32_t record, uint64_t bytes) {
  Row& r = rows_[static_cast<size_t>(loss)];
  if (r.occurrences == 0) {
    r.first_warp = warp;
    r.first_record = record;
  }
  r.occurrences += 1;
  r.bytes += bytes;
}

void LossCounts::merge(const LossCounts& other) {
  for (size_t i = 0; i < loss_count; ++i) {
    const Row& o = other.rows_[i];
    if (o.occurrences == 0) continue;
    Row& r = rows_[i];
    if (r.occurrences == 0) {
      r = o;
    } else {
      r.occurrences += o.occurrences;
      r.bytes += o.bytes;
    }
  }
}

uint64_t LossCounts::count(LossSeverity severity) const {
  uint64_t sum = 0;
  for (const LossInfo& info : rows)
    if (info.severity == severity) sum += count(info.loss);
  return sum;
}

bool LossCounts::none() const { return count(LossSeverity::lost) == 0 && count(LossSeverity::distrust) == 0; }

}  // namespace xtrace::trace
