#include "tools/xtrace/replay/whole_launch.h"

#include "instrument/linked_code.h"
#include "replay/function_addresses.h"
#include "replay/session.h"

namespace xtrace::cli {

Status make_whole(replay::LaunchImage& launch) {
  XT_TRY(cubin::Image image, cubin::Image::parse(launch.code));
  XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, launch.record.kernel));
  if (!instrument::is_linked(image, info)) return {};
  XT_TRY(const auto addresses, replay::recorded_function_addresses(launch));
  XT_TRY(instrument::WholeProgram whole, instrument::as_whole_program(std::move(image), launch.record.kernel, addresses));
  if (!whole.why_not.empty()) {
    launch.notes.push_back(fmt::format("the functions that the kernel calls were compiled apart (-rdc=true), and can not be put into its section: {}", whole.why_not));
    return {};
  }
  launch.code = std::move(whole.cubin);
  constexpr std::string_view note =
      "the functions that the kernel calls were compiled apart (-rdc=true): they are loaded in its own section, where calls find them; "
      "function pointers keep their recorded values";
  launch.notes.emplace_back(note);
  return {};
}

Result<replay::LaunchImage> load_whole_launch(const bundle::BundleReader& bundle, uint64_t ordinal) {
  XT_TRY(replay::LaunchImage launch, replay::load_launch(bundle, ordinal));
  XT_TRY_STATUS(make_whole(launch));
  return launch;
}

}  // namespace xtrace::cli
