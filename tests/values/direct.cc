#include "tests/values/direct.h"

#include <cstring>

#include "base/hash.h"
#include "replay/interp/memory_map.h"
#include "replay/interp/program.h"
#include "replay/interp/step.h"

namespace xtrace::values {
namespace {

namespace interp = replay::interp;

constexpr uint32_t frame_bytes = 64, frame_at = 128;  // where the frame of a thread lies in its local memory
constexpr uint32_t shared_bytes = shared_base + shared_copies * area_bytes;

class Machine {
 public:
  explicit Machine(const Word& w) : cls_(w.cls) {
    program_.arch = *sass::find_arch(90);
    program_.kernel = "slot";
    program_.layout.gprs = 253;
    program_.local_bytes = 256;
    Bytes& bank = program_.banks.bytes[0];
    bank.resize(program_.arch->bank0_params);
    const Bytes block = parameters();
    bank.insert(bank.end(), block.begin(), block.end());
    write_at(std::span(bank), program_.arch->bank0_block_dim, Dim3{32, 1, 1});
    program_.words = {w.inst};
    interp::decode_words(program_);
    warp_.rows.resize(program_.layout.rows());
    warp_.preds[interp::pt] = warp_.preds[interp::upt] = ~0u;
    warp_.live = ~0u;
    warp_.paths = {{~0u, 0, interp::PathState::ready, 0, 0}};
    warp_.local.resize(size_t{program_.local_bytes} * 32);
    cta_.shared.resize(shared_bytes);
    area_.resize(area_bytes);
  }

  // Why not, or empty.
  std::string refused() const {
    const std::string* p = program_.problem(0);
    return p != nullptr ? *p : "";
  }
  std::string run(const WarpState& from, uint32_t warp, WarpState& to) {
    set(from, warp);
    interp::Step s;
    const interp::Inst& i = program_.insts[0];
    s.warp = &warp_;
    s.cta = &cta_;
    s.program = &program_;
    s.memory = &memory_;
    s.regs = warp_.rows.data();
    s.pool = program_.pool.data();
    s.active = ~0u;
    const uint32_t guard = warp_.preds[i.guard.index] ^ i.guard.flip;
    s.mask = i.uniform ? guard : guard & s.active;
    if (s.mask != 0) i.exec(s, i);
    memory_.clear();
    if (s.faulted) return s.fault.message;
    get(to);
    return {};
  }

 private:
  uint32_t* gpr(unsigned n) { return warp_.rows[first_gpr + n].lane; }
  uint32_t* ur(unsigned n) { return warp_.rows[static_cast<size_t>(program_.layout.ur(first_ur + n))].lane; }

  void set(const WarpState& from, uint32_t warp) {
    for (unsigned n = 0; n < gprs; ++n) std::memcpy(gpr(n), from.row[n].data(), 128);
    for (unsigned n = 0; n < urs; ++n) std::fill_n(ur(n), 32, from.row[uniform_row][n]);
    for (unsigned p = 0; p < 7; ++p) {
      uint32_t lanes = 0;
      for (unsigned l = 0; l < 32; ++l) lanes |= (from.row[predicate_row][l] >> p & 1) << l;
      warp_.preds[p] = lanes;
      warp_.preds[8 + p] = (from.row[uniform_row][up_lane] >> p & 1) != 0 ? ~0u : 0;
    }
    if (cls_ == Class::handle) {
      input_ = from;
      XT_CHECK(memory_.add(input_address + uint64_t{warp} * warp_bytes, std::as_writable_bytes(std::span(&input_, 1)), "input")
                   .has_value(),
               "areas overlap");
    }
    if (is_bare(cls_)) return keep_memory(from);
    std::array<uint32_t, 32 * memory_words> area;
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned k = 0; k < memory_words; ++k) area[l * memory_words + k] = from.row[memory_row + k][l];
    if (is_shared(cls_)) {
      for (unsigned c = 0; c < shared_copies; ++c)
        std::memcpy(cta_.shared.data() + shared_base + c * area_bytes, area.data(), area_bytes);
    } else if (is_local(cls_)) {
      for (unsigned l = 0; l < 32; ++l)
        for (unsigned c = 0; c < 2; ++c)
          std::memcpy(warp_.local.data() + size_t{l} * program_.local_bytes + frame_at + c * frame_bytes / 2,
                      &area[l * memory_words], frame_bytes / 2);
      for (unsigned l = 0; l < 32; ++l) gpr(0)[l] += frame_at;
    } else {
      std::memcpy(area_.data(), area.data(), area_bytes);
      XT_CHECK(memory_.add(area_of(cls_) + uint64_t{warp} * area_bytes, area_, "area").has_value(),
               "areas overlap");
    }
  }
  void keep_memory(const WarpState& from) {
    for (unsigned k = 0; k < memory_words; ++k) kept_[k] = from.row[memory_row + k];
  }

  void get(WarpState& to) {
    to = {};
    if (is_local(cls_))
      for (unsigned l = 0; l < 32; ++l) gpr(0)[l] -= frame_at;
    for (unsigned n = 0; n < gprs; ++n) std::memcpy(to.row[n].data(), gpr(n), 128);
    for (unsigned n = 0; n < urs; ++n) to.row[uniform_row][n] = ur(n)[0];
    for (unsigned p = 0; p < 7; ++p) {
      for (unsigned l = 0; l < 32; ++l) to.row[predicate_row][l] |= (warp_.preds[p] >> l & 1) << p;
      to.row[uniform_row][up_lane] |= (warp_.preds[8 + p] & 1) << p;
    }
    if (is_bare(cls_)) {
      for (unsigned k = 0; k < memory_words; ++k) to.row[memory_row + k] = kept_[k];
      return;
    }
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned k = 0; k < memory_words; ++k)
        std::memcpy(&to.row[memory_row + k][l], word_of_lane(l) + 4 * k, 4);
  }
  const std::byte* word_of_lane(unsigned l) const {
    if (is_shared(cls_)) return cta_.shared.data() + shared_base + size_t{l} * memory_words * 4;
    if (is_local(cls_)) return warp_.local.data() + size_t{l} * program_.local_bytes + frame_at;
    return area_.data() + size_t{l} * memory_words * 4;
  }

  const Class cls_;
  interp::Program program_;
  interp::Warp warp_;
  interp::Cta cta_;
  interp::MemoryMap memory_;
  Bytes area_;
  WarpState input_;  // as constants behind a handle
  std::array<std::array<uint32_t, 32>, memory_words> kept_{};
};

}  // namespace

DirectResult run_direct(const Word& w, const std::vector<WarpState>& inputs, unsigned count) {
  DirectResult result;
  if (is_framed(w.cls)) {
    result.refused = "needs the frame";
    return result;
  }
  Machine machine(w);
  result.refused = machine.refused();
  if (!result.refused.empty()) return result;
  result.states.resize(count);
  for (unsigned k = 0; k < count && result.refused.empty(); ++k)
    result.refused = machine.run(inputs[k], k, result.states[k]);
  if (!result.refused.empty()) result.states.clear();
  return result;
}

uint64_t digest(std::span<const WarpState> states) { return hash128(std::as_bytes(states)).low; }

}  // namespace xtrace::values
