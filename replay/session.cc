#include "replay/session.h"

#include "replay/address_plan.h"

namespace xtrace::replay {

namespace {

using bundle::LaunchRecord;

// What a comparison of one region found, in the words of Mismatch.
std::optional<Mismatch> mismatch(size_t region, ByteView expected, ByteView found,
                                 const ByteRanges& ignored) {
  const Difference d = compare_outside(expected, found, ignored);
  if (!d.first) return std::nullopt;
  return Mismatch{region, *d.first, d.bytes, expected[*d.first], found[*d.first]};
}

Result<Bytes> read_checked(Backend& backend, const LaunchImage& launch, ModuleHandle module, size_t i) {
  XT_TRY_IN(Bytes now, backend.read_region(module, i), "reading {}", describe(i, launch.record.regions[i]));
  if (now.size() != launch.before[i].size())
    return internal("the backend returned {} bytes for {}", now.size(),
                    describe(i, launch.record.regions[i]));
  return now;
}

Result<double> run_once(Backend& backend, const LaunchImage& launch, ModuleHandle module, const char* what,
                        uint32_t disturbance = 0) {
  XT_TRY_IN(RunOutcome run, disturbance == 0 ? backend.run(module) : backend.run_disturbed(module, disturbance),
            "{} of {}", what, launch.record.kernel);
  if (!run.completed) {
    auto failed = device("{} of {} did not complete: {}", what, launch.record.kernel, run.failure);
    // Memory that was not read behind the launch: the recorder found it failed (recorder_launch.cc).
    if (launch.after.empty() && !launch.before.empty())
      return with_hint(std::move(failed), "it failed when it was recorded, too: there is nothing to compare with; leave it out with --launch");
    return failed;
  }
  return run.microseconds;
}

// Takes in the memory of one replay.
Status absorb(Backend& backend, const LaunchImage& launch, ModuleHandle module, CleanReference& ref) {
  for (size_t i = 0; i < launch.before.size(); ++i) {
    XT_TRY(Bytes now, read_checked(backend, launch, module, i));
    const bool changed = now != launch.before[i];
    if (ref.replays == 0) {
      ref.written[i] = changed;
      if (changed) ref.output[i] = std::move(now);
    } else if (changed || ref.written[i]) {
      // A region that no earlier replay changed: `before` was their output.
      if (!ref.written[i]) ref.output[i] = launch.before[i];
      ref.written[i] = true;
      const uint64_t known = ref.unstable[i].bytes();
      ref.unstable[i].add_differences(ref.output[i], now);
      if (ref.unstable[i].bytes() != known) ref.last_found = ref.replays + 1;
    }
  }
  ++ref.replays;
  return {};
}

Status replay_clean(Backend& backend, const LaunchImage& launch, CleanReference& ref, uint32_t disturbance = 0) {
  XT_TRY_STATUS(backend.restore(ref.module, RestoreScope::all));
  XT_TRY(const double us, run_once(backend, launch, ref.module, "a clean replay", disturbance));
  if (disturbance == 0) ref.microseconds.push_back(us);
  return absorb(backend, launch, ref.module, ref);
}

void compare_recorded(const LaunchImage& launch, CleanReference& ref) {
  ref.has_recorded_after = !launch.after.empty();
  ref.mismatches.clear();
  if (!ref.has_recorded_after) return;
  for (size_t i = 0; i < launch.after.size(); ++i)
    if (auto m = mismatch(i, launch.after[i], ref.output_of(launch, i), ref.ignored(i)))
      ref.mismatches.push_back(*m);
  ref.matches_recorded_after = ref.mismatches.empty();
}

Result<std::vector<Mismatch>> repeat_without_restore(Backend& backend, const LaunchImage& launch,
                                                     ModuleHandle module, const CleanReference& ref) {
  Result<double> repeated = run_once(backend, launch, module, not_repeatable.data());
  if (!repeated)
    return tl::make_unexpected(std::move(repeated).error().with_hint("the kernel can not run on its own results: it has to be replayed without this test"));
  return compare_outputs(backend, launch, module, ref);
}

}  // namespace

uint64_t CleanReference::unstable_bytes() const {
  uint64_t n = 0;
  for (const ByteRanges& r : unstable) n += r.bytes();
  return n;
}

ByteRanges CleanReference::ignored(size_t region) const {
  constexpr uint64_t element = 4;
  return !exhausted() ? unstable[region] : unstable[region].elements(element, output[region].size());
}

Status check_launch(const LaunchImage& launch) {
  const LaunchRecord& r = launch.record;
  if (r.kernel.empty()) return bad_input("the launch has no kernel name");
  if (launch.code.empty()) return bad_input("the launch of {} has no code", r.kernel);
  if (r.grid.count() == 0 || r.block.count() == 0)
    return bad_input("the launch of {} has an empty grid: grid {} x {} x {}, block {} x {} x {}", r.kernel,
                     r.grid.x, r.grid.y, r.grid.z, r.block.x, r.block.y, r.block.z);
  for (size_t i = 0; i < r.params.size(); ++i) {
    const bundle::Param& p = r.params[i];
    if (p.offset > r.param_block.size() || r.param_block.size() - p.offset < p.size)
      return bad_input("parameter {} of {} lies outside its block: offset {} size {}, the block has {} bytes",
                       i, r.kernel, p.offset, p.size, r.param_block.size());
  }
  if (launch.before.size() != r.regions.size())
    return bad_input("the launch of {} has {} memory images for {} regions", r.kernel, launch.before.size(),
                     r.regions.size());
  if (!launch.after.empty() && launch.after.size() != r.regions.size())
    return bad_input("the launch of {} has {} memory images after the launch for {} regions", r.kernel,
                     launch.after.size(), r.regions.size());
  for (size_t i = 0; i < r.regions.size(); ++i) {
    const bundle::Region& region = r.regions[i];
    if (launch.before[i].size() != region.size ||
        (!launch.after.empty() && launch.after[i].size() != region.size))
      return bad_input(
          "{} has an image of {} bytes", describe(i, region),
          launch.before[i].size() != region.size ? launch.before[i].size() : launch.after[i].size());
    if (!is_placed(region.kind) && region.symbol.empty())
      return bad_input("{} is a module variable without a symbol", describe(i, region));
  }
  return {};
}

Result<CleanReference> clean_replays(Backend& backend, const LaunchImage& launch, ModuleHandle module,
                                     uint32_t n, bool test_repeat) {
  XT_CHECK(n >= 1, "clean_replays needs at least one replay");
  const size_t regions = launch.before.size();
  CleanReference ref;
  ref.module = module;
  ref.output.resize(regions);
  ref.unstable.resize(regions);
  ref.written.assign(regions, false);
  for (uint32_t k = 0; k < n; ++k) XT_TRY_STATUS(replay_clean(backend, launch, ref));
  compare_recorded(launch, ref);
  for (bool more = true; more && ref.has_recorded_after && !ref.matches_recorded_after;) {
    XT_TRY(more, replay_once_more(backend, launch, ref));
  }

  std::vector<bool> restore = ref.written;
  if (test_repeat) {
    XT_TRY(std::vector<Mismatch> repeated, repeat_without_restore(backend, launch, module, ref));
    ref.idempotent = repeated.empty();
    if (!repeated.empty()) ref.repeat_difference = repeated.front();
    // The repeated launch may have written where the first did not: that must be restored in timing too.
    for (const Mismatch& m : repeated) restore[m.region] = true;
  }
  backend.set_written_regions(std::move(restore));
  return ref;
}

Result<bool> replay_once_more(Backend& backend, const LaunchImage& launch, CleanReference& ref) {
  if (ref.replays < 2 || ref.exhausted()) return false;
  XT_TRY_STATUS(replay_clean(backend, launch, ref, ref.replays % 2 == 0 ? 0 : 1 + ref.replays / 2 % 15));
  compare_recorded(launch, ref);
  return true;
}

Result<std::vector<Mismatch>> compare_outputs(Backend& backend, const LaunchImage& launch,
                                              ModuleHandle module, const CleanReference& reference) {
  std::vector<Mismatch> found;
  for (size_t i = 0; i < launch.before.size(); ++i) {
    XT_TRY(Bytes now, read_checked(backend, launch, module, i));
    if (auto m = mismatch(i, reference.output_of(launch, i), now, reference.ignored(i))) found.push_back(*m);
  }
  return found;
}

}  // namespace xtrace::replay
