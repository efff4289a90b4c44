#include "replay/interp/engine.h"

#include <algorithm>
#include <bit>
#include <deque>

#include "replay/interp/convergence.h"
#include "replay/interp/late.h"
#include "replay/interp/paths.h"
#include "replay/interp/special.h"
#include "replay/interp/timing.h"

namespace xtrace::replay::interp {
namespace {

// Turns end after so many branches backwards, of which every loop has one. Instructions do not count: so
// spliced code, which has more of them, takes turns where the original does, and code that waits by spinning
// goes its way.
constexpr uint32_t path_slice = 64;     // before another path of a diverged warp runs
constexpr uint32_t warp_slice = 256;    // ... another warp of the CTA
constexpr uint32_t cta_slice = 2048;    // ... another CTA
constexpr size_t most_resident = 4096;  // CTAs that run at the same time

class Registers final : public RegisterView {
 public:
  Registers(const Warp& w, const RowLayout& layout) : w_(w), layout_(layout) {}
  uint32_t vector(uint8_t index, unsigned lane) const override {
    return index < layout_.gprs ? w_.rows[index].lane[lane] : 0;
  }
  uint32_t uniform(uint8_t index) const override { return w_.rows[static_cast<size_t>(layout_.ur(index))].lane[0]; }
  uint32_t predicate(uint8_t index) const override { return w_.preds[index]; }

 private:
  const Warp& w_;
  const RowLayout& layout_;
};

class Engine {
 public:
  Engine(const Program& program, const LaunchImage& launch, MemoryMap& memory, const EngineOptions& options)
      : program_(program),
        launch_(launch),
        memory_(memory),
        options_(options),
        sm_clock_(modelled_sm_count, first_clock) {
    if (options.late) late_.emplace(program);
  }

  Result<EngineResult> run() {
    const Dim3& cluster = launch_.record.cluster;
    // What starts together: a cluster, or a CTA where there are none.
    const uint64_t groups = launch_.record.grid.count() / (clustered() ? cluster.count() : 1);
    uint64_t started = 0;
    std::deque<Cta> resident;
    size_t turn = 0;  // CTAs that had a slice since the last one started or ended
    size_t idle = 0;  // CTAs of clusters in a row that could not go on
    while (started < groups || !resident.empty()) {
      const bool stuck =
          turn >= resident.size();  // nobody ended in a whole round: somebody may wait for a later CTA
      if (stuck && started < groups && resident.size() < most_resident) {
        if (clustered())
          start_cluster(started++, resident);
        else
          resident.push_front(start(started++));
        turn = idle = 0;
      }
      Cta cta = std::move(resident.front());
      resident.pop_front();
      XT_TRY(const bool progress, slice(cta));
      ++turn;
      if (cta.done()) {
        finish(cta);
        turn = resident.empty() ? 0 : 1;  // no new one before the others had their turn
        idle = 0;
        continue;
      }
      idle = progress ? 0 : idle + 1;
      const bool more = started < groups && resident.size() + 1 < most_resident;
      const bool stands_still = !progress && (!cta.cluster || (!more && idle > resident.size()));
      resident.push_back(std::move(cta));
      if (!stands_still) continue;
      bool woken = false;
      for (Cta& c : resident) woken |= (clustered() || &c == &resident.back()) && wake_trying(c, true);
      if (!woken) return deadlock(resident.back());
      idle = 0;
    }
    for (uint64_t c : sm_clock_) result_.cycles = std::max(result_.cycles, c - first_clock);
    return result_;
  }

 private:
  bool clustered() const { return launch_.record.cluster.count() > 1; }
  Cta start(uint64_t linear);
  // Its CTAs, in front of the others.
  void start_cluster(uint64_t number, std::deque<Cta>& resident);
  void finish(Cta& cta);
  Result<bool> slice(Cta& cta);
  // Instructions executed, and branches backwards among them.
  struct Turn {
    uint64_t instructions = 0, back_branches = 0;
  };
  Status run_warp(Cta& cta, Warp& w, Turn& turn);
  tl::unexpected<Error> located(const Cta& cta, const Warp& w, uint32_t index, const Fault& fault);
  tl::unexpected<Error> deadlock(const Cta& cta);

  const Program& program_;
  const LaunchImage& launch_;
  MemoryMap& memory_;
  const EngineOptions& options_;
  EngineResult result_;
  std::vector<uint64_t> sm_clock_;
  std::vector<std::vector<Row>> spare_rows_;  // of CTAs that ended
  std::optional<LateMode> late_;
};

Cta Engine::start(uint64_t linear) {
  const Dim3 &grid = launch_.record.grid, &block = launch_.record.block;
  Cta cta;
  cta.linear = static_cast<uint32_t>(linear);
  cta.index = {static_cast<uint32_t>(linear % grid.x), static_cast<uint32_t>(linear / grid.x % grid.y),
               static_cast<uint32_t>(linear / grid.x / grid.y)};
  cta.sm = static_cast<uint32_t>(linear % modelled_sm_count);
  cta.start_clock = sm_clock_[cta.sm] + launch_cycles;
  const uint32_t own = std::max(program_.shared_bytes, program_.arch->sm >= 90 ? reserved_shared_bytes : 0);
  cta.shared.resize(align_up(own, 16) + launch_.record.dynamic_shared_bytes);
  const auto threads = static_cast<uint32_t>(block.count());
  const uint32_t warps = (threads + lane_count - 1) / lane_count;
  cta.warps.resize(warps);
  for (uint32_t k = 0; k < warps; ++k) {
    Warp& w = cta.warps[k];
    if (!spare_rows_.empty()) {
      w.rows = std::move(spare_rows_.back());
      spare_rows_.pop_back();
      std::fill(w.rows.begin(), w.rows.end(), Row{});
    } else {
      w.rows.resize(program_.layout.rows());
    }
    w.preds[pt] = w.preds[upt] = ~0u;
    const uint32_t here = std::min(threads - k * lane_count, lane_count);
    w.live = here == lane_count ? all_lanes : (1u << here) - 1;
    w.paths.push_back({w.live, 0, PathState::ready, 0, 0});
    w.number = k;
    w.registers = program_.registers;
    w.global_number = cta.linear * warps + k;
    w.clock = cta.start_clock + k;
    if (program_.uses_local) w.local.resize(uint64_t{program_.local_bytes} * lane_count);
  }
  return cta;
}

void Engine::start_cluster(uint64_t number, std::deque<Cta>& resident) {
  const Dim3 &grid = launch_.record.grid, &size = launch_.record.cluster;
  const uint64_t across = grid.x / size.x, down = grid.y / size.y;
  const uint64_t x = number % across * size.x, y = number / across % down * size.y,
                 z = number / across / down * size.z;
  const auto cluster = std::make_shared<Cluster>();
  for (uint32_t rank = 0; rank < size.count(); ++rank) {  // [PTX ISA: %cluster_ctarank]
    const uint64_t cx = x + rank % size.x, cy = y + rank / size.x % size.y, cz = z + rank / size.x / size.y;
    Cta cta = start(cx + (cy + cz * grid.y) * grid.x);
    cta.rank = rank;
    cta.cluster = cluster;
    cluster->shared.push_back(cta.shared);
    for (const Warp& w : cta.warps) cluster->live += static_cast<uint32_t>(std::popcount(w.live));
    resident.push_front(std::move(cta));
  }
}

void Engine::finish(Cta& cta) {
  if (cta.cluster) cta.cluster->shared[cta.rank] = {};
  uint64_t end = cta.start_clock;
  for (const Warp& w : cta.warps) end = std::max(end, w.clock);
  sm_clock_[cta.sm] = end;
  if (late_) late_->forget(cta);
  for (Warp& w : cta.warps) spare_rows_.push_back(std::move(w.rows));
}

Result<bool> Engine::slice(Cta& cta) {
  uint64_t back_branches = 0;
  bool progress = false;
  if (cta.cluster) wake_for_cluster(cta);
  for (bool again = true; again && back_branches < cta_slice;) {
    again = false;
    wake_trying(cta, false);
    for (Warp& w : cta.warps) {
      if (w.done()) continue;
      Turn turn;
      XT_TRY_STATUS(run_warp(cta, w, turn));
      back_branches += turn.back_branches;
      again |= turn.instructions != 0;
    }
    progress |= again;
    if (result_.warp_instructions > options_.instruction_limit)
      return device("watchdog: kernel {} did not end within {} instructions of warps", program_.kernel,
                    options_.instruction_limit);
    if (cta.done()) return true;
  }
  return progress;
}

Status Engine::run_warp(Cta& cta, Warp& w, Turn& turn) {
  if (!select_path(w, false)) return {};
  Step s;
  s.warp = &w;
  s.cta = &cta;
  s.program = &program_;
  s.memory = &memory_;
  s.witness = options_.witness;
  s.regs = w.rows.data();
  s.pool = program_.pool.data();
  LateWarp* const late = late_ ? &late_->of(w) : nullptr;
  uint64_t lanes = 0;
  for (bool more = true; more; ++turn.instructions) {
    const Path& p = current_path(w);
    const uint32_t at = p.at;
    if (at >= program_.insts.size())
      return located(cta, w, static_cast<uint32_t>(program_.insts.size() - 1),
                     {ErrorKind::device, "execution runs over the end of the code", -1});
    const Inst& i = program_.insts[at];
    s.active = p.mask;
    if (late != nullptr) late_->wait(*late, w, i);
    const uint32_t guard = w.preds[i.guard.index] ^ i.guard.flip;
    s.mask = i.uniform ? guard : guard & p.mask;
    if (options_.witness != nullptr) options_.witness->reached(w.global_number, i.pc, w.clock);
    issue(w, i);
    if (i.registers > w.registers)
      return located(
          cta, w, at,
          {ErrorKind::device,
           fmt::format("R{} is used, and the warp holds {} registers a thread", i.registers - 1, w.registers),
           -1});
    if (options_.witness != nullptr && options_.witness->reads_registers())
      options_.witness->before(w.global_number, i.pc, p.mask, Registers(w, program_.layout));
    if (options_.witness != nullptr)
      options_.witness->executed(w.global_number, i.pc, p.mask, i.uniform ? guard & p.mask : s.mask);
    s.next = Next::fall;
    s.yield = false;
    if (late != nullptr) {
      late_->check(*late, s, i);
      if (s.faulted) return located(cta, w, at, s.fault);
    }
    if (s.mask != 0) lanes += static_cast<uint32_t>(std::popcount(s.active));
    const auto execute = [&] { late == nullptr ? i.exec(s, i) : late_->execute(*late, s, i); };
    if (i.uniforms >= 0 && (w.shared_barriers.watched & s.active) != 0) [[unlikely]]
      execute_watched(s, i, execute);
    else if (s.mask != 0)
      execute();
    if (s.faulted) return located(cta, w, at, s.fault);
    advance(w, i);
    if (s.next == Next::fall) current_path(w).at = at + 1;
    if (s.next == Next::fall && !s.yield && !w.shared_barriers.stopped) continue;
    if (w.shared_barriers.stopped)
      if (const auto change = lasting_change(s)) return located(cta, w, change->by, apart_fault(w, *change));
    const bool gives_way = s.yield && i.flag[3];  // other paths and warps go first
    turn.back_branches += s.yield;
    const bool rotate = s.yield && w.paths.size() > 1 && (gives_way || ++w.back_branches % path_slice == 0);
    more = w.live != 0 && select_path(w, rotate) && !gives_way && turn.back_branches < warp_slice;
  }
  result_.warp_instructions += turn.instructions;
  result_.lane_instructions += lanes;
  return {};
}

tl::unexpected<Error> Engine::located(const Cta& cta, const Warp& w, uint32_t index, const Fault& fault) {
  const sass::RawInst& word = program_.words[index];
  const std::string source = program_.source(index);
  Error e{fault.kind,
          fmt::format("kernel {} at {:#06x}{}: {}: {} (word {:#018x} {:#018x}; CTA {},{},{} warp {}{})",
                      program_.kernel, index * sass::inst_bytes, source.empty() ? "" : " (" + source + ")",
                      program_.text(index), fault.message, word.lo, word.hi, cta.index.x, cta.index.y,
                      cta.index.z, w.number, fault.lane >= 0 ? fmt::format(" lane {}", fault.lane) : ""),
          {},
          fault.hint};
  return tl::make_unexpected(std::move(e));
}

tl::unexpected<Error> Engine::deadlock(const Cta& cta) {
  for (const Warp& w : cta.warps) {
    if (w.done()) continue;
    std::string others;
    for (size_t k = 1; k < w.paths.size(); ++k)
      others += fmt::format("{} {:#010x} behind {:#x}", k == 1 ? "; of its warp also" : ",", w.paths[k].mask,
                            w.paths[k].at * sass::inst_bytes);
    const Path& p = w.paths.front();
    return located(
        cta, w, p.at > 0 ? p.at - 1 : 0,
        {ErrorKind::device,
         fmt::format("deadlock: lanes {:#010x} wait here for others that never come{}", p.mask, others), -1});
  }
  return device("deadlock in kernel {}", program_.kernel);
}

}  // namespace

Status check_cluster(const bundle::LaunchRecord& r) {
  const Dim3& c = r.cluster;
  if (c.count() > most_cluster_ctas)
    return unsupported("kernel {} is launched in clusters of {} CTAs, at most {} are modelled", r.kernel,
                       c.count(), most_cluster_ctas);
  if (c.count() > 1 && (r.grid.x % c.x != 0 || r.grid.y % c.y != 0 || r.grid.z % c.z != 0))
    return bad_input("the grid {}x{}x{} of kernel {} is no multiple of its cluster {}x{}x{}", r.grid.x,
                     r.grid.y, r.grid.z, r.kernel, c.x, c.y, c.z);
  return {};
}

Result<EngineResult> execute(const Program& program, const LaunchImage& launch, MemoryMap& memory,
                             const EngineOptions& options) {
  const bundle::LaunchRecord& r = launch.record;
  XT_TRY_STATUS(check_cluster(r));
  Bytes grid_barrier(grid_barrier_bytes);
  if (r.cooperative) XT_TRY_STATUS(memory.add(grid_barrier_address, grid_barrier, "the barrier of the grid"));
  Bytes parameters = r.param_block;
  const uint64_t parameter_address = bank0_window + program.banks.parameters;
  if (!parameters.empty()) XT_TRY_STATUS(memory.add(parameter_address, parameters, "the parameters"));
  auto result = Engine(program, launch, memory, options).run();
  if (!parameters.empty()) memory.remove(parameter_address);
  if (r.cooperative) memory.remove(grid_barrier_address);
  return result;
}

}  // namespace xtrace::replay::interp
