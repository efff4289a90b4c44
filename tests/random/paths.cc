#include "tests/random/paths.h"

#include "instrument/instrument.h"
#include "instrument/slot_plan.h"
#include "replay/interp/interp_backend.h"
#include "tests/unit/interp/device_records.h"
#include "trace/decode.h"

namespace xtrace::random_kernels {
namespace {

constexpr uint32_t slot_bytes = 1 << 20;          // of a warp: 130,000 blocks
constexpr uint64_t instruction_limit = 1'000'000;  // of all warps

Result<instrument::Splicer> splicer_of(const replay::LaunchImage& launch, const Bytes& cubin) {
  const bundle::LaunchRecord& r = launch.record;
  return instrument::Splicer::create(cubin, r.kernel, {r.grid, r.block, r.cluster, r.dynamic_shared_bytes});
}

class Log final : public replay::interp::WitnessSink {
 public:
  explicit Log(const std::vector<wire::Block>& blocks) {
    for (const wire::Block& b : blocks) starts_[b.first_pc] = true;
  }
  void executed(uint32_t warp, uint32_t pc, uint32_t active, uint32_t) override {
    if (starts_.contains(pc)) paths[warp].push_back({pc, active});
  }
  Paths paths;

 private:
  std::map<uint32_t, bool> starts_;
};

}  // namespace

Result<Paths> logged_paths(const replay::LaunchImage& launch, const Bytes& cubin, std::string& failure) {
  XT_TRY(const instrument::Splicer splicer, splicer_of(launch, cubin));
  replay::InterpOptions options;
  options.instruction_limit = instruction_limit;
  const auto backend = replay::make_interp_backend(options);
  XT_TRY_STATUS(backend->prepare(launch));
  Log log(splicer.blocks());
  backend->set_witness(&log);
  if (const auto left = run(*backend, launch, cubin); !left) failure = left.error().to_string();
  return std::move(log.paths);
}

Result<Paths> traced_paths(replay::Backend& backend, const replay::LaunchImage& launch, const Bytes& cubin) {
  XT_TRY(const instrument::Splicer splicer, splicer_of(launch, cubin));
  const auto warps = static_cast<uint32_t>(launch.record.grid.count()) * splicer.warps_per_cta();
  instrument::Plan plan;
  plan.probe = instrument::ProbeKind::block;
  instrument::SlotPlan slots = instrument::plan_slots(std::vector<uint32_t>(warps, slot_bytes / 2), splicer.largest_record(plan.probe),
                                                      true, {}, uint64_t{1} << 30);
  XT_TRY(const DevPtr buffer, interp_test::place_records(backend, slots));
  XT_TRY(const instrument::Spliced spliced, splicer.splice(plan, slots.layout));
  XT_TRY_STATUS(run(backend, launch, spliced.cubin));
  XT_TRY(const Bytes headers, backend.read(DevPtr{slots.layout.headers}, uint64_t{warps} * sizeof(wire::WarpHeader)));
  Paths paths;
  const auto summary = trace::decode(spliced.map, trace::TraceKind::block, headers, interp_test::reader_of(backend), {slots.entries, true, {}},
                                     [&](const trace::WarpTrace& t) -> Status {
                                       for (uint32_t k = 0; k < t.records(); ++k)
                                         paths[t.warp].push_back({spliced.map.blocks[t.index[k]].first_pc, t.mask[k]});
                                       return {};
                                     });
  if (!summary) return tl::make_unexpected(summary.error());
  if (!summary->losses.none()) return internal("records of {} were lost", launch.record.kernel);
  XT_TRY_STATUS(backend.release(buffer));
  return paths;
}

}  // namespace xtrace::random_kernels
