// The recorded launches whose kernels can be spliced, each with its code and, where there is one, that for sm_80.
#pragma once

#include "base/file.h"
#include "tests/unit/interp/recordings.h"
#include "tests/unit/interp/spliced_launch.h"

namespace xtrace::interp_test {

// What is refused, and how the reason begins. Whatever is not here must be spliced.
struct Refusal {
  const char* kernel;
  ProbeKind probe;
  std::optional<Records> records;  // nothing: all
  const char* reason;
};
inline constexpr Refusal refusals[] = {
    // Every register of the launch is live in some block.
    {"many_registers", ProbeKind::block, Records::wrapping, "no register is free at many_registers@0x3f80"},
    {"many_registers", ProbeKind::block, Records::plain, "no register is free at many_registers@0x3f80"},
    {"many_registers", ProbeKind::inst, Records::wrapping, "no register is free at many_registers@0x3740"},
    {"launch_bounds", ProbeKind::inst, Records::wrapping, "no register is free at launch_bounds@0x860"},
};
// A kernel, and the architecture whose code of it runs: the recorded one, or what nvcc makes of the same source.
struct Code {
  std::string kernel, arch;
};

inline std::filesystem::path cubin_of(const Code& code) {
  return fmt::format("{}/fixtures/cubins/{}/kernels13/{}.cubin", XTRACE_SOURCE_DIR, code.arch, code.kernel);
}

inline std::vector<Code> codes() {
  std::vector<Code> all;
  for (const std::string& kernel : recorded_kernels()) {
    all.push_back({kernel, "sm_90"});
    const Code sm80{kernel, "sm_80"};
    if (std::filesystem::exists(cubin_of(sm80))) all.push_back(sm80);
  }
  return all;
}

inline Result<Bytes> code_for(const Code& code) { return read_file(cubin_of(code)); }

class SplicedCode : public SplicedLaunch, public testing::WithParamInterface<Code> {
 protected:
  void SetUp() override {
    replay::LaunchImage image = recorded_launch(GetParam().kernel);
    if (GetParam().arch != "sm_90") {
      auto code = code_for(GetParam());
      ASSERT_TRUE(code) << code.error().to_string();
      image.code = std::move(*code);
    }
    observe(std::move(image));
  }
  const char* refusal(ProbeKind probe, std::optional<Records> records) const override {
    for (const Refusal& r : refusals)
      if (r.kernel == GetParam().kernel && r.probe == probe && (!r.records || r.records == records)) return r.reason;
    return nullptr;
  }
};

}  // namespace xtrace::interp_test
