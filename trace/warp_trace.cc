#include "trace/warp_trace.h"

namespace xtrace::trace {

std::string_view name_of(TraceKind kind) {
  switch (kind) {
    case TraceKind::block:
      return "block";
    case TraceKind::inst:
      return "inst";
    case TraceKind::pair:
      return "pair";
    case TraceKind::mem:
      return "mem";
    case TraceKind::point:
      return "point";
  }
  return "block";
}

void WarpTrace::clear() {
  warp = cta = warp_in_cta = sm = hardware_slot = cta_part = 0;
  start_clock = start_time = exit_clock = 0;
  exited = false;
  kind.clear();
  index.clear();
  mask.clear();
  clock_begin.assign(1, 0);
  clock.clear();
  gaps.clear();
  marks.clear();
  bytes_written = bytes_kept = bytes_dropped = 0;
}

}  // namespace xtrace::trace
