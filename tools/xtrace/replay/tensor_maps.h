// Tensor maps of a launch, where they are in the recorded memory or among the parameters: what boxes they describe.
#pragma once

#include <map>

#include "replay/backend.h"
#include "replay/interp/value/tensor_map.h"
#include "trace/warp_access_analysis.h"

namespace xtrace::cli {

class LaunchTensorMaps final : public trace::TensorMaps {
 public:
  // `launch` outlives this. `parameters_at`: where parameters begin in their constant bank.
  LaunchTensorMaps(const replay::LaunchImage& launch, uint32_t parameters_at) : launch_(launch), parameters_at_(parameters_at) {}
  // Where recorded regions are, from now on.
  void set_regions(std::vector<uint64_t> addresses) { regions_ = std::move(addresses), known_.clear(); }
  Found box(const wire::Access& access, const trace::WarpAccess& what) override;
  std::string text(uint64_t address) override;

 private:
  using Map = replay::interp::value::TensorMap;
  using Known = std::variant<Map, std::string>;
  const Known& map_at(uint64_t address);
  Known read(uint64_t address) const;
  const replay::LaunchImage& launch_;
  uint32_t parameters_at_;
  std::vector<uint64_t> regions_;
  std::map<uint64_t, Known> known_;
};

}  // namespace xtrace::cli
