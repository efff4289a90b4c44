#include "instrument/clocks.h"

namespace xtrace::instrument {
namespace {

// Its result, or that its operands were read, comes by scoreboard: nothing in front of it has to be over. Fences are no such thing.
bool goes_through_queue(const CodeInst& inst) {
  const sass::Control c = sass::get_control(inst.raw);
  const bool tells = c.write_barrier != sass::Control::no_barrier || c.read_barrier != sass::Control::no_barrier;
  switch (inst.fx.kind) {
    case sass::MemKind::load:
    case sass::MemKind::store:
    case sass::MemKind::atomic:
    case sass::MemKind::reduction: return true;
    case sass::MemKind::none: return tells;
    default: return false;
  }
}

bool on_tensor_cores(const sass::Effects& fx) { return fx.mnemonic.ends_with("MMA") && fx.mnemonic != "HFMA2.MMA"; }

}  // namespace

Pace pace_of(const CodeInst& inst) {
  const sass::Effects& fx = inst.fx;
  const bool counts_groups = fx.mnemonic == "DEPBAR";
  if (sass::get_control(inst.raw).wait_mask != 0 || fx.may_switch_path || counts_groups || inst.asserts) return Pace::waits;
  if (fx.async_registers) return Pace::waits;
  if (on_tensor_cores(fx)) return Pace::queued;
  if (fx.fixed_latency) return Pace::fixed;
  return goes_through_queue(inst) ? Pace::queued : Pace::waits;
}

std::vector<bool> clock_places(const Code& code, const ProbeBlock& block, unsigned most_cycles) {
  std::vector<bool> places(block.count, most_cycles == 0);
  if (most_cycles == 0) return places;
  bool due = true;
  unsigned cycles = 0, queued = 0;   // since the last clock
  for (uint32_t k = 0; k < block.count; ++k) {
    const CodeInst& inst = code.insts[block.first + k];
    const unsigned stall = sass::get_control(inst.raw).stall;
    if (due || cycles + stall > most_cycles || queued == most_queued) {
      places[k] = true;
      due = false;
      cycles = queued = 0;
    }
    cycles += stall;
    const Pace pace = pace_of(inst);
    queued += pace == Pace::queued;
    due = pace == Pace::waits;
  }
  return places;
}

}  // namespace xtrace::instrument
