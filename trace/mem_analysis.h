// What the memory system had to do for each access of a mem trace: sectors of global memory, wavefronts of shared memory.
//
//   sectors      distinct 32-byte pieces that one execution by a warp touches. Local memory: 32-bit words of the lanes of a warp
//                lie side by side [CUDA C++ programming guide, 5.3.2]
//   wavefronts   passes through the 32 banks of 4 bytes of shared memory that one execution takes: of the lanes that are
//                served together (32 of them, 16 of 8 bytes, 8 of 16 bytes), the most distinct words that fall to one bank; two
//                neighbouring groups (the first and second 16 or 8 lanes, the third and fourth 8) pass as one where that takes no
//                more than the busier of them. Atomics: words of lanes, distinct or not. [measured H200: bank_conflicts, five
//                accesses under eight strides, as ncu counts. LDSM and STSM by the same rule: guess]
//
// Both follow from the addresses alone; caches and replays by other causes are not in them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trace/mem_trace.h"
#include "trace/warp_access_analysis.h"

namespace xtrace::trace {

uint32_t sectors_of(uint32_t mask, uint32_t bytes, const LaneAddresses& addresses);
uint32_t local_sectors_of(uint32_t mask, uint32_t bytes, const LaneAddresses& addresses);
struct Wavefronts {
  uint32_t taken = 0, least = 0;   // least: without conflicts
};
Wavefronts wavefronts_of(uint32_t mask, uint32_t bytes, const LaneAddresses& addresses, bool atomic = false);

struct AccessStats {
  uint64_t executions = 0;         // by a warp, of the instruction
  uint64_t requests = 0;           // of them with a lane that accessed
  uint64_t lanes = 0;
  uint64_t window_lanes = 0;       // generic: not in `memory`, so in shared or local memory; in no sum below
  uint64_t sectors = 0;            // global, generic, local
  uint64_t wavefronts = 0, least_wavefronts = 0;   // shared
  MovedStats moved{};              // of accesses that are made once for the warp
};

class MemAnalysis : public MemVisitor {
 public:
  // `memory`: all that the launch can reach, disjoint, in order of address.
  MemAnalysis(const wire::AddressMap& map, std::vector<MemoryRange> memory);
  MemAnalysis(const wire::AddressMap&& map, std::vector<MemoryRange> memory) = delete;   // it must outlive this
  // What accesses that are made once for the warp are held against. `maps` outlives this.
  void set_moved(SharedMemory shared, TensorMaps* maps) { moved_ = WarpAccessAnalysis(shared, maps); }
  // From now on: another module's variables lie elsewhere.
  void set_memory(std::vector<MemoryRange> memory) { memory_ = std::move(memory), last_ = 0; }
  Status block(uint32_t block, uint32_t active) override;
  Status access(uint32_t index, uint32_t mask, const LaneAddresses& addresses) override;
  Status operands(uint32_t index, uint32_t active, std::span<const uint32_t> words) override;
  Status warp(const MemWarp& warp) override;

  const std::vector<AccessStats>& accesses() const { return stats_; }        // as AddressMap::accesses
  const std::vector<wire::BlockCount>& blocks() const { return blocks_; }    // blocks without accesses: 0
  // Addresses that no completed launch can have: not a multiple of the width, or of global memory and outside `memory`.
  uint64_t checked() const { return checked_; }
  uint64_t impossible() const { return impossible_; }
  const std::string& first_impossible() const { return first_; }

 private:
  bool in_memory(uint64_t address, uint32_t bytes);
  const wire::AddressMap& map_;
  std::vector<MemoryRange> memory_;
  WarpAccessAnalysis moved_;
  size_t last_ = 0;                // the range of the last address
  std::vector<AccessStats> stats_;
  std::vector<wire::BlockCount> blocks_;
  uint64_t checked_ = 0, impossible_ = 0;
  std::string first_;
};

// One line an access that was executed.
struct AccessRow {
  wire::Access access;
  AccessStats stats;
  std::string sass, source;
  std::map<uint64_t, std::string> maps{};   // tensor maps that it went through, in words
};
std::string render_text(const std::vector<AccessRow>& rows);
std::string render_csv(const std::vector<AccessRow>& rows);    // RFC 4180
std::string render_json(const std::vector<AccessRow>& rows);   // array of objects

}  // namespace xtrace::trace
