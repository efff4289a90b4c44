#include "tests/soak/recording.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#ifdef XTRACE_HAVE_DRIVER
#include "replay/driver/driver_backend.h"
#endif
#include "tests/unit/interp/linked_launch.h"
#include "tests/unit/interp/recordings.h"
#include "tools/xtrace/replay/whole_launch.h"

namespace xtrace::soak {
namespace {

replay::LaunchImage launch_of(const std::string& kernel) {
  if (!kernel.starts_with("linked_")) return interp_test::recorded_launch(kernel);
  replay::LaunchImage launch = linked_code::linked_launch("sm_90", kernel).launch;
  if (const Status whole = cli::make_whole(launch); !whole) throw std::runtime_error(whole.error().to_string());
  return launch;
}

}  // namespace

std::vector<std::string> kept_kernels() {
  std::vector<std::string> all = interp_test::recorded_kernels();
  all.insert(all.end(), std::begin(linked_code::linked_kernels), std::end(linked_code::linked_kernels));
  return all;
}

Where taken_from(std::vector<std::string>& words) {
  const std::string last = words.empty() ? "" : words.back();
  if (last != "gpu" && last != "late") return Where::interp;
  words.pop_back();
  return last == "gpu" ? Where::gpu : Where::late;
}

#ifdef XTRACE_HAVE_DRIVER
namespace {

// Addresses of the recordings may be taken in this process, by its own memory: which ones is decided when a process starts. As
// `xtrace replay` does, another one takes over, a few times. Returns where all can be had.
Status another_layout_until_placed(replay::Backend& gpu) {
  constexpr const char* layouts = "XTRACE_SOAK_LAYOUT";   // tried before this one
  constexpr int most = 6;
  for (const std::string& kernel : kept_kernels()) {
    const replay::LaunchImage launch = launch_of(kernel);
    const Status placed = gpu.prepare(launch);
    if (placed) {
      XT_TRY_STATUS(gpu.finish());
      continue;
    }
    if (placed.error().message.find(replay::not_placed) == std::string::npos) return placed;
    const char* text = std::getenv(layouts);
    const int tried = text == nullptr ? 0 : std::atoi(text);
    if (tried + 1 >= most) return placed;
    fmt::print(stderr, "{}: {}; starting again in another layout\n", kernel, placed.error().message);
    setenv(layouts, std::to_string(tried + 1).c_str(), 1);
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv("/proc/self/exe", argv.data());
    return environment("can not start again in another layout: {}", std::strerror(errno));
  }
  return {};
}

}  // namespace
#endif

Result<Machine> Machine::make(Where where) {
  Machine machine;
  machine.where = where;
  replay::InterpOptions options;
  options.late = where == Where::late;
  machine.interp = replay::make_interp_backend(options);
  if (where != Where::gpu) return machine;
#ifdef XTRACE_HAVE_DRIVER
  XT_TRY(machine.gpu, replay::make_driver_backend(replay::DriverOptions{}));
  XT_TRY_STATUS(another_layout_until_placed(*machine.gpu));
  return machine;
#else
  return environment("built without the GPU backend");
#endif
}

namespace {

bool asks_for_groups(const instrument::Splicer& splicer, uint32_t pc) { return splicer.text(OrigPc{pc}).find("BRA.DIV") != std::string::npos; }

// Where the lanes of one place go: at WARPSYNC.COLLECTIVE and ENDCOLLECTIVE not on the ways of those that came by other ones.
std::vector<uint32_t> own_successors(const instrument::Splicer& splicer, uint32_t block) {
  const auto& blocks = splicer.blocks();
  const auto says = [&](uint32_t pc, const char* name) { return splicer.text(OrigPc{pc}).find(name) != std::string::npos; };
  const auto last_pc = [&](uint32_t b) { return blocks[b].first_pc + 16 * (blocks[b].instructions - 1); };
  if (says(last_pc(block), "WARPSYNC.COLLECTIVE")) return {block + 1};
  if (!says(last_pc(block), "ENDCOLLECTIVE")) return blocks[block].successors;
  for (uint32_t b = block; b-- > 0;) {
    if (!says(last_pc(b), "WARPSYNC.COLLECTIVE")) continue;
    const std::string text = splicer.text(OrigPc{last_pc(b)});
    const uint64_t target = std::stoull(text.substr(text.rfind("0x")), nullptr, 16);
    for (uint32_t to = 0; to < blocks.size(); ++to)
      if (blocks[to].first_pc == target) return {to};
  }
  return blocks[block].successors;
}

// Blocks on one side alone of a BRA.DIV, which asks whether the lanes have come together: which side they take follows from their groups.
// On an H200 lanes that wait at a BSYNC go on without one that yields in a loop; on the interpreter they wait for it.
std::vector<bool> sides_by_groups(const instrument::Splicer& splicer) {
  const auto& blocks = splicer.blocks();
  std::vector<bool> found(blocks.size(), false);
  for (uint32_t from = 0; from < blocks.size(); ++from) {
    if (!asks_for_groups(splicer, blocks[from].first_pc + 16 * (blocks[from].instructions - 1))) continue;
    std::vector<uint32_t> sides(blocks.size(), 0);   // from which of the successors a block is reached
    for (uint32_t side = 0; side < blocks[from].successors.size(); ++side) {
      std::vector<uint32_t> open{blocks[from].successors[side]};
      while (!open.empty()) {
        const uint32_t b = open.back();
        open.pop_back();
        if (b == from || (sides[b] >> side & 1)) continue;
        sides[b] |= 1u << side;
        const std::vector<uint32_t> next = own_successors(splicer, b);
        open.insert(open.end(), next.begin(), next.end());
      }
    }
    for (uint32_t b = 0; b < blocks.size(); ++b)
      if (std::popcount(sides[b]) == 1) found[b] = true;
  }
  return found;
}

}  // namespace

Result<std::unique_ptr<Recording>> Recording::open(const std::string& kernel, Machine& machine) {
  return open(launch_of(kernel), machine);
}

Result<std::unique_ptr<Recording>> Recording::open(replay::LaunchImage image, Machine& machine) {
  std::unique_ptr<Recording> r(new Recording(machine));
  r->launch_ = std::move(image);
  const bundle::LaunchRecord& launch = r->launch_.record;
  const std::string& kernel = launch.kernel;
  XT_TRY(r->splicer_, instrument::Splicer::create(r->launch_.code, kernel,
                                                  {launch.grid, launch.block, launch.cluster, launch.dynamic_shared_bytes}));
  r->waiting_ = r->splicer_->waiting();
  r->waits_ = r->splicer_->waits();
  r->by_groups_ = sides_by_groups(*r->splicer_);
  r->warps_ = static_cast<uint32_t>(launch.grid.count()) * r->splicer_->warps_per_cta();
  r->witness_.emplace(r->warps_, r->splicer_->blocks());

  XT_TRY_STATUS(machine.interp->prepare(r->launch_));
  XT_TRY(const replay::ModuleHandle module, machine.interp->load(r->launch_.code));
  XT_TRY_STATUS(machine.interp->restore(module, replay::RestoreScope::all));
  machine.interp->set_witness(&*r->witness_);
  const auto outcome = machine.interp->run(module);
  machine.interp->set_witness(nullptr);
  if (!outcome) return tl::make_unexpected(outcome.error());
  if (!outcome->completed) return internal("the interpreter does not complete {}: {}", kernel, outcome->failure);
  XT_TRY(std::vector<Bytes> regions, machine.interp->read_regions(module));
  if (r->launch_.after.empty()) r->launch_.after = std::move(regions);
  for (size_t k = 0; k < regions.size(); ++k)
    if (regions[k] != r->launch_.after[k]) return internal("on the interpreter region {} of {} differs from what was recorded", k, kernel);
  XT_TRY_STATUS(machine.interp->unload(module));
  for (uint32_t w = 0; w < r->warps_; ++w)
    if (!r->witness_->started(w)) return internal("the interpreter did not execute warp {} of {}", w, kernel);
  if (!machine.gpu) return r;

  XT_TRY_STATUS(machine.interp->finish());
  XT_TRY_STATUS(machine.gpu->prepare(r->launch_));
  XT_TRY(const replay::ModuleHandle clean, machine.gpu->load(r->launch_.code));
  XT_TRY(r->clean_, replay::clean_replays(*machine.gpu, r->launch_, clean, 3, false));
  if (!r->clean_->matches_recorded_after) return internal("on the GPU the output of {} differs from what was recorded", kernel);
  return r;
}

std::optional<Expected> Recording::at(uint32_t warp, uint32_t block, uint32_t pc, bool behind) const {
  const bool differ = groups_differ(warp);
  const bool chosen = differ && (by_groups_[block] || (behind && asks_for_groups(*splicer_, pc)));
  if (waiting(block) || chosen) return std::nullopt;
  return witness_->at(warp, pc, behind, differ);
}

Recording::~Recording() {
  (void)machine_.interp->finish();
  if (machine_.gpu) (void)machine_.gpu->finish();
}

Status Recording::replay(ByteView cubin) {
  replay::Backend& b = backend();
  XT_TRY(const replay::ModuleHandle module, b.load(cubin));
  XT_TRY_STATUS(b.restore(module, replay::RestoreScope::all));
  XT_TRY(const replay::RunOutcome outcome, b.run(module));
  if (!outcome.completed) return device("{}", outcome.failure);
  XT_TRY_STATUS(as_recorded(module));
  return b.unload(module);
}

Status Recording::as_recorded(replay::ModuleHandle module) {
  if (!clean_) {
    XT_TRY(const std::vector<Bytes> regions, backend().read_regions(module));
    for (size_t k = 0; k < regions.size(); ++k)
      if (regions[k] != launch_.after[k]) return internal("region {} differs from what was recorded", k);
    return {};
  }
  XT_TRY(const std::vector<replay::Mismatch> found, replay::compare_outputs(backend(), launch_, module, *clean_));
  if (found.empty()) return {};
  // Only clean replays can show that the kernel does this by itself.
  const std::vector<Bytes> left = backend().read_regions(module).value_or(std::vector<Bytes>());
  for (bool more = true; more;) {
    XT_TRY(more, replay::replay_once_more(backend(), launch_, *clean_));
    bool same = true;
    for (size_t k = 0; k < left.size(); ++k)
      same &= !replay::compare_outside(clean_->output_of(launch_, k), left[k], clean_->ignored(k)).first;
    if (same) return {};
  }
  return internal("region {} differs from the clean replays at byte {:#x}", found[0].region, found[0].offset);
}

}  // namespace xtrace::soak
