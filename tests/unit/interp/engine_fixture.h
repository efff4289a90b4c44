// Small hand-made kernels on the engine: words, 4 KiB of memory, and where results go.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "instrument/sass/encode.h"
#include "replay/interp/engine.h"
#include "replay/interp/special.h"

namespace xtrace::interp_test {

namespace enc = sass::enc;
using enc::Gpr, enc::Pred;
using replay::interp::EngineOptions;
using replay::interp::EngineResult;

constexpr uint64_t cells = 0x700000000000;  // 4 KiB of global memory
constexpr uint32_t cells_bytes = 4096;

inline sass::RawInst word(uint64_t lo, uint64_t hi) { return {lo, hi}; }
inline sass::RawInst bssy(unsigned b, uint32_t pc, uint32_t target) {
  return word(uint64_t{(target - pc - 16) / 4} << 34 | b << 16 | 0x7945, 0x03800000);
}
inline sass::RawInst bsync(unsigned b) { return word(b << 16 | 0x7941, 0x03800000); }
inline sass::RawInst break_barrier(unsigned b) { return word(b << 16 | 0x7942, 0x03800000); }
inline sass::RawInst warpsync_all() { return word(0x7948, 0x03800000); }
inline sass::RawInst bar_sync(unsigned id, unsigned threads = 0) {
  return word(uint64_t{threads} << 42 | uint64_t{id} << 54 | 0x7b1d, 0x00010000);
}
// d = the old word at [R0 + offset] of shared memory, which becomes s.
inline sass::RawInst exchange_shared(Gpr d, Gpr a, Gpr s) {
  return word(uint64_t{s.index} << 32 | uint64_t{a.index} << 24 | uint64_t{d.index} << 16 | 0x738c, 8u << 23);
}
inline sass::RawInst lds(Gpr d, Gpr a, unsigned offset) {
  return word(uint64_t{offset} << 40 | uint64_t{a.index} << 24 | uint64_t{d.index} << 16 | 0x7984, 0x800);
}
inline sass::RawInst sts(Gpr a, unsigned offset, Gpr s) {
  return word(uint64_t{offset} << 40 | uint64_t{s.index} << 32 | uint64_t{a.index} << 24 | 0x7388, 0x800);
}
// A branch-unit word: the distance in words of four bytes, its low byte at [23:16], the rest from [34] on.
inline sass::RawInst branch_word(uint64_t lo, uint64_t hi, uint32_t pc, int64_t target) {
  const int64_t distance = (target - pc - 16) / 4;
  const auto low = static_cast<uint64_t>(distance) & 0xff, rest = static_cast<uint64_t>(distance >> 8);
  return word(lo | low << 16 | rest << 34, hi | (rest >> 30 & 0x3ffff));
}
inline sass::RawInst global_address_high(Gpr d) {
  return enc::mov_imm(d, static_cast<uint32_t>(cells >> 32));
}

class EngineTest : public testing::Test {
 protected:
  EngineTest() : memory_bytes(cells_bytes) {
    launch.record.kernel = "hand_made";
    launch.record.block = {32, 1, 1};
    launch.record.grid = {1, 1, 1};
    launch.record.dynamic_shared_bytes = 256;
    options.instruction_limit = 20'000'000;
    EXPECT_TRUE(memory.add(cells, memory_bytes, "the cells"));
  }

  Result<EngineResult> run(const std::vector<sass::RawInst>& words) {
    program = {};
    program.arch = *sass::find_arch(90);
    program.kernel = launch.record.kernel;
    program.layout.gprs = 16;
    Bytes& bank = program.banks.bytes[0] = Bytes(0x210);
    write_at(std::span(bank), 0, launch.record.block);
    program.words = words;
    replay::interp::decode_words(program);
    return execute(program, launch, memory, options);
  }
  uint32_t cell(unsigned i) { return *read_at<uint32_t>(memory_bytes, 4 * i, "cell"); }

  replay::LaunchImage launch;
  Bytes memory_bytes;
  replay::interp::MemoryMap memory;
  replay::interp::Program program;
  EngineOptions options;
};

// Stores R<n> of every thread into its cell.
inline void store_cell(std::vector<sass::RawInst>& k, Gpr value, Gpr tid, Gpr scratch_pair) {
  k.push_back(enc::mov_imm(scratch_pair, static_cast<uint32_t>(cells)));
  k.push_back(global_address_high({static_cast<uint8_t>(scratch_pair.index + 1)}));
  k.push_back(enc::imad_wide_u32_imm(scratch_pair, tid, 4, scratch_pair));
  k.push_back(enc::stg(enc::VectorAddress{scratch_pair}, value, enc::Size::b32));
}

}  // namespace xtrace::interp_test
