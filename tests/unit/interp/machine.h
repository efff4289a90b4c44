// One warp that executes single instructions: registers in, registers out.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "instrument/sass/arch.h"
#include "instrument/sass/print.h"
#include "replay/interp/memory_map.h"
#include "replay/interp/program.h"
#include "replay/interp/step.h"

namespace xtrace::interp_test {

namespace interp = replay::interp;

class Machine {
 public:
  Machine() {
    program.arch = *sass::find_arch(90);
    program.kernel = "test";
    program.layout.gprs = 253;
    program.local_bytes = 256;
    program.banks.bytes[0].resize(0x400);
    write_at(std::span(program.banks.bytes[0]), program.arch->bank0_block_dim, Dim3{32, 1, 1});
    warp.rows.resize(program.layout.rows());
    warp.preds[interp::pt] = warp.preds[interp::upt] = ~0u;
    warp.local.resize(program.local_bytes * 32);
    cta.shared.resize(1024);
    reset_path();
  }
  void reset_path() {
    warp.live = ~0u;
    warp.paths = {{~0u, 0, interp::PathState::ready, 0, 0}};
    warp.current = 0;
  }

  uint32_t* r(unsigned i) { return warp.rows[i].lane; }
  void set(unsigned i, uint32_t v) { std::fill_n(r(i), 32, v); }
  void set_each(unsigned i, const std::function<uint32_t(unsigned)>& f) {
    for (unsigned l = 0; l < 32; ++l) r(i)[l] = f(l);
  }
  uint32_t* ur(unsigned i) { return warp.rows[static_cast<size_t>(program.layout.ur(i))].lane; }
  void set_ur(unsigned i, uint32_t v) { std::fill_n(ur(i), 32, v); }
  uint32_t& p(unsigned i) { return warp.preds[i]; }
  uint32_t& up(unsigned i) { return warp.preds[8 + i]; }

  // Executes one word; `text` is what it must be. Gives the fault, empty when there is none.
  std::string run(uint64_t lo, uint64_t hi, const char* text = nullptr) {
    const sass::RawInst w{lo, hi};
    if (text != nullptr) {
      EXPECT_EQ(sass::print(*program.arch, w, 0), text);
    }
    program.words = {w};
    program.insts.clear();
    program.problems.clear();
    interp::decode_words(program);
    const interp::Inst& i = program.insts[0];
    interp::Step s;
    s.warp = &warp;
    s.cta = &cta;
    s.program = &program;
    s.memory = &memory;
    s.regs = warp.rows.data();
    s.pool = program.pool.data();
    s.active = warp.paths[warp.current].mask;
    const uint32_t guard = warp.preds[i.guard.index] ^ i.guard.flip;
    s.mask = i.uniform ? guard : guard & s.active;
    if (s.mask != 0) i.exec(s, i);
    return s.faulted ? s.fault.message : "";
  }
  std::string run(const sass::RawInst& w, const char* text = nullptr) { return run(w.lo, w.hi, text); }

  interp::Program program;
  interp::Warp warp;
  interp::Cta cta;
  interp::MemoryMap memory;
};

}  // namespace xtrace::interp_test
