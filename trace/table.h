// The table a performance engineer reads: one row an instruction, with how often it ran and how long it took,
// and for a time that is missing the reason.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/aggregate.h"

namespace xtrace::trace {

struct InstructionRow {
  uint32_t pc = 0, block = 0;
  uint64_t warps = 0, threads = 0;           // executions
  bool recorded = true;                      // false: without records (wire::Block::unrecorded), executions not known
  std::optional<double> ungraded_mean;       // cycles, from a dense trace: clock_read_cycles is in it
  bool ungraded_from_implied = false;        // some of them begin at an implied clock: Aggregate::Instruction
  std::optional<double> offset_mean;         // cycles from the clock of the block's first instruction, dense trace
  std::string_view clock;                    // of inst: "read"; "implied" by stall counts; "none": no register was free
  std::optional<GradedTimes::Grade> graded;  // cycles, clock_read_cycles subtracted
  std::string no_grade;                      // why `graded` is empty
  std::string sass, source;                  // "FFMA R0, R1, R2, R0"; "sgemm.cu:41"
};

struct TableSources {
  const wire::AddressMap* map = nullptr;
  const Aggregate* counts = nullptr;
  const GradedTimes* times = nullptr;  // may be null: no pairs were measured
  uint64_t enough_samples = 30;
  std::function<std::string(uint32_t pc)> sass, source;  // may be empty
  // Why a site could not be measured, for those refused by the splicer; empty string = it could be.
  std::function<std::string(uint32_t pc)> refusal;
  // Why the time of a site is not shown although it was measured; empty string = it is.
  std::function<std::string(uint32_t pc)> hidden;
};

// Rows in order of pc.
std::vector<InstructionRow> instruction_table(const TableSources& sources);

std::string render_text(const std::vector<InstructionRow>& rows);
std::string render_counts(const std::vector<InstructionRow>& rows);  // without the columns of times
std::string render_csv(const std::vector<InstructionRow>& rows);  // RFC 4180, first line names the columns
std::string render_json(
    const std::vector<InstructionRow>& rows);  // array of objects; missing values are null

}  // namespace xtrace::trace
