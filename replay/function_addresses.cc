#include "replay/function_addresses.h"

#include <optional>
#include <set>

#include "instrument/cubin/image.h"

namespace xtrace::replay {
namespace {

constexpr uint32_t word64 = 2, global_word64 = 4;   // R_CUDA_64, R_CUDA_G64

struct Place {
  size_t region = 0;
  uint64_t offset = 0;
};

// Where what the relocation fills in was recorded.
std::optional<Place> recorded_place(const LaunchImage& launch, const cubin::Image& image, const cubin::Relocation& r) {
  for (const cubin::Symbol& v : image.symbols()) {
    if (!v.is_object() || v.section != r.target_section || r.offset < v.value || r.offset - v.value >= v.size) continue;
    for (size_t i = 0; i < launch.record.regions.size(); ++i) {
      const bundle::RegionKind kind = launch.record.regions[i].kind;
      const bool is_variable = kind == bundle::RegionKind::global || kind == bundle::RegionKind::constant;
      if (is_variable && launch.record.regions[i].symbol == v.name) return Place{i, r.offset - v.value};
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::map<uint32_t, uint64_t>> recorded_function_addresses(const LaunchImage& launch) {
  std::map<uint32_t, uint64_t> found;
  std::set<uint32_t> unlike;
  XT_TRY(const cubin::Image image, cubin::Image::parse(launch.code));
  for (const cubin::Relocation& r : image.relocations()) {
    const cubin::Symbol& f = image.symbols()[r.symbol];
    if ((r.type != word64 && r.type != global_word64) || !f.is_function() || f.section == 0 || r.addend != 0) continue;
    const auto place = recorded_place(launch, image, r);
    if (!place) continue;
    XT_TRY(const uint64_t address, read_at<uint64_t>(launch.before[place->region], place->offset, "address of a function"));
    const auto [known, is_new] = found.emplace(r.symbol, address);
    if (!is_new && known->second != address) unlike.insert(r.symbol);
  }
  for (const uint32_t symbol : unlike) found.erase(symbol);
  return found;
}

}  // namespace xtrace::replay
