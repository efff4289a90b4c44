// Recorded launches with code that stands in a test, in place of the kernel's own.
#pragma once

#include <gtest/gtest.h>

#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/assemble.h"
#include "tests/unit/interp/recordings.h"

namespace xtrace::interp_test {

// `lines` from the first instruction of `kernel` on, behind them NOPs, and an EXIT as instruction `last`. The metadata lists the kernel's own
// EXITs, so that there must be one at each of their places. What loads sets a scoreboard, and every line waits for it for which `waits`
// says so. Everything takes 15 cycles.
template <typename Waits>
replay::LaunchImage assembled_launch(const std::string& kernel, std::vector<std::string> lines, size_t last, Waits waits) {
  replay::LaunchImage launch = recorded_launch(kernel);
  auto image = *cubin::Image::parse(launch.code);
  const auto info = *cubin::kernel_info(image, kernel);
  Bytes text = image.sections()[info.text_section].data;
  EXPECT_LE(lines.size(), last);
  while (lines.size() < last) lines.push_back("NOP");
  lines.push_back("EXIT");
  uint64_t at = 0;
  for (const std::string& line : lines) {
    auto w = sass::assemble(**sass::find_arch(90), line, static_cast<int64_t>(at));
    EXPECT_TRUE(w) << line;
    sass::Control c;
    c.stall = 15;
    c.keep_issuing = false;
    c.wait_mask = waits(line) ? 1 : 0;
    if (line.starts_with("LD") || line.starts_with("S2R")) c.write_barrier = 0;
    sass::set_control(*w, c);
    write_at(std::span(text), at, *w);
    at += sass::inst_bytes;
  }
  image.set_section_data(info.text_section, std::move(text));
  launch.code = *image.write();
  return launch;
}

}  // namespace xtrace::interp_test
