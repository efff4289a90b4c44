// The ways to lose or distrust a traced event (loss.def), and their counts. A loss is a number in the report,
// never silence.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace xtrace::trace {

enum class Loss : uint8_t {
#define XTRACE_LOSS(name, severity, text) name,
#include "trace/loss.def"
#undef XTRACE_LOSS
};

enum class LossSeverity : uint8_t { note, distrust, lost };
std::string_view name_of(LossSeverity severity);

struct LossInfo {
  Loss loss;
  std::string_view name;
  LossSeverity severity;
  std::string_view text;
};

std::span<const LossInfo> all_losses();
const LossInfo& loss_info(Loss loss);

constexpr size_t loss_count = 0
#define XTRACE_LOSS(name, severity, text) +1
#include "trace/loss.def"
#undef XTRACE_LOSS
    ;

// Occurrences by kind, and where each kind was met first.
class LossCounts {
 public:
  // `bytes`: record bytes that this occurrence costs; 0 when none or not known.
  void add(Loss loss, uint32_t warp, uint32_t record, uint64_t bytes);
  void merge(const LossCounts& other);

  struct Row {
    uint64_t occurrences = 0;
    uint64_t bytes = 0;
    uint32_t first_warp = 0;
    uint32_t first_record = 0;  // it lies before this record of that warp
    bool operator==(const Row&) const = default;
  };
  void set(Loss loss, const Row& row) { rows_[static_cast<size_t>(loss)] = row; }  // for readers of files
  const Row& row(Loss loss) const { return rows_[static_cast<size_t>(loss)]; }
  uint64_t count(Loss loss) const { return row(loss).occurrences; }
  uint64_t count(LossSeverity severity) const;  // sum over the kinds of that severity
  bool none() const;                            // nothing lost and nothing distrusted
  bool operator==(const LossCounts&) const = default;

 private:
  std::array<Row, loss_count> rows_{};
};

}  // namespace xtrace::trace
