// A recorded launch on the interpreter, original or spliced.
#pragma once

#include <gtest/gtest.h>

#include "replay/interp/interp_backend.h"

namespace xtrace::interp_test {

// Runs the cubin from restored memory, watched by `sink` or nobody, and holds the outputs against the recording.
inline void run_as_recorded(replay::InterpBackend& backend, const replay::LaunchImage& launch, ByteView cubin,
                            replay::interp::WitnessSink* sink) {
  backend.set_witness(sink);
  const auto module = backend.load(cubin);
  ASSERT_TRUE(module) << module.error().to_string();
  ASSERT_TRUE(backend.restore(*module, replay::RestoreScope::all));
  const auto outcome = backend.run(*module);
  ASSERT_TRUE(outcome) << outcome.error().to_string();
  ASSERT_TRUE(outcome->completed) << outcome->failure;
  const auto regions = backend.read_regions(*module);
  ASSERT_TRUE(regions);
  for (size_t i = 0; i < regions->size(); ++i) EXPECT_TRUE((*regions)[i] == launch.after[i]) << "region " << i;
  ASSERT_TRUE(backend.unload(*module));
  backend.set_witness(nullptr);
}

// Runs the launch's own code once on a backend of its own: what it leaves, by region.
inline void run_original(const replay::LaunchImage& launch, std::vector<Bytes>& left) {
  const auto backend = replay::make_interp_backend();
  ASSERT_TRUE(backend->prepare(launch));
  const auto module = backend->load(launch.code);
  ASSERT_TRUE(module) << module.error().to_string();
  const auto outcome = backend->run(*module);
  ASSERT_TRUE(outcome) << outcome.error().to_string();
  ASSERT_TRUE(outcome->completed) << outcome->failure;
  auto regions = backend->read_regions(*module);
  ASSERT_TRUE(regions);
  left = std::move(*regions);
}

}  // namespace xtrace::interp_test
