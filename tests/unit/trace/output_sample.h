// A folder for a test's files, and traces to write into them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "encoder.h"
#include "trace/trace_file.h"

namespace xtrace::trace::testing {

class OutputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(::testing::TempDir()) /
           ("xtrace_output_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path file(const char* name) { return dir_ / name; }
  std::filesystem::path dir_;
};

// Four warps with random walks, two of them with losses.
struct Sample {
  Buffer buffer;
  std::vector<WarpTrace> traces;
  DecodeSummary summary;
  TraceMeta meta;

  explicit Sample(TraceKind kind, uint32_t seed = 1) : buffer(with_wraps(kind)) {
    std::mt19937 rng(seed);
    for (uint32_t w = 0; w < 4; ++w) {
      uint64_t clock = 5'000'000'000 + 100 * w;
      buffer.start(w, clock, 40'000 + 32 * w, w / 2);
      for (unsigned i = 0; i < 5 + rng() % 100; ++i) {
        const uint32_t block = rng() % 5;
        if (kind == TraceKind::block) buffer.block(w, block, rng(), clock += 1 + rng() % 90);
        if (kind == TraceKind::inst) buffer.inst_run(w, block, rng(), clock, 1 + rng() % 90);
        if (kind == TraceKind::pair && block % 2) buffer.pair(w, 0, rng(), clock + 1, clock + 9), clock += 20;
        if (kind == TraceKind::pair && !(block % 2)) buffer.edge(w, block == 0, 1, rng(), clock += 3);
      }
      if (w != 3) buffer.exit(w, clock + 40);
    }
    auto s = buffer.decode(kind, traces);
    EXPECT_TRUE(s);
    summary = *s;
    meta.identity.bundle = "run.xtr";
    meta.identity.kernel = "_Z3fooPf";
    meta.identity.launch_ordinal = 12;
    meta.identity.code = {0x1122334455667788, 0xfedcba9876543210};
    meta.identity.grid = {2, 1, 1};
    meta.identity.block = {64, 1, 1};
    meta.identity.sm = 90;
    meta.identity.device = "some GPU";
    meta.identity.sm_clock_ghz = 1.98;
    meta.identity.verdict = "trusted";
    meta.identity.notes = {{"probe", "block"}, {"empty", ""}};
    meta.kind = kind;
    meta.map = buffer.map;
    meta.map.blocks[4].unrecorded = true;
    if (kind == TraceKind::inst) {
      using P = wire::ClockPlace;
      for (uint8_t bytes : {P::implied, uint8_t{4}, P::absent, P::implied, uint8_t{2}, P::implied, P::absent})
        meta.map.blocks[2].clock_at.push_back({8, bytes});
      meta.map.blocks[3].clock_at.push_back({0, P::in_head});
    }
    meta.map.original_of_new = {0, 16, wire::AddressMap::inserted, 32};
    meta.headers = buffer.headers;
    meta.labels = {"B0 a.cu:1", "B1"};
  }
  static wire::AddressMap with_wraps(TraceKind kind) {
    wire::AddressMap m = diamond_loop(kind);
    m.layout.wraps = true;
    return m;
  }
};

}  // namespace xtrace::trace::testing
