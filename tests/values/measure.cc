#include "tests/values/measure.h"

#include <fmt/format.h>

#include <cstring>
#include <future>

#include "instrument/sass/assemble.h"
#include "instrument/sass/effects.h"
#include "tests/values/own_words.h"
#include "tests/values/tensor_maps.h"
#include "tests/values/texture_words.h"

namespace xtrace::values {
namespace {

bool kept(uint32_t in, uint32_t out, uint32_t mask) { return ((in ^ out) & mask) == 0; }

// True where the outputs differ in a place although not both are what went in.
bool moves(unsigned number, const WarpState& in_a, const WarpState& out_a, const WarpState& in_b,
           const WarpState& out_b) {
  const Place p = place(number);
  unsigned first = 0, count = 1, lane = 0, lanes = 32;
  uint32_t mask = ~0u;
  switch (p.kind) {
    case Place::Kind::gpr:
      first = p.index - first_gpr;
      break;
    case Place::Kind::ur:
      first = uniform_row, lane = p.index - first_ur, lanes = 1;
      break;
    case Place::Kind::pred:
      first = predicate_row, mask = 1u << p.index;
      break;
    case Place::Kind::upred:
      first = uniform_row, lane = up_lane, lanes = 1, mask = 1u << p.index;
      break;
    case Place::Kind::memory:
      first = memory_row, count = memory_words;
      break;
  }
  for (unsigned r = first; r < first + count; ++r)
    for (unsigned l = lane; l < lane + lanes; ++l) {
      const uint32_t a = out_a.row[r][l], b = out_b.row[r][l];
      if (((a ^ b) & mask) != 0 && !(kept(in_a.row[r][l], a, mask) && kept(in_b.row[r][l], b, mask)))
        return true;
    }
  return false;
}

// Lanes that ended in the slot stored nothing: all that is said of them is that they ended.
void revive(const std::vector<WarpState>& in, std::vector<WarpState>& out) {
  for (size_t w = 0; w < out.size(); ++w) {
    uint32_t gone = 0;
    for (unsigned l = 0; l < 32; ++l)
      gone |= static_cast<uint32_t>(out[w].row[memory_row][l] == in[w].row[memory_row][l] + gone_mark) << l;
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned l = 0; l < 32; ++l)
        if (r != memory_row && (r == uniform_row ? gone == ~0u : (gone >> l & 1) != 0)) out[w].row[r][l] = in[w].row[r][l];
  }
}

}  // namespace

Measured evaluate(const std::vector<WarpState>& in, const std::vector<WarpState>& out) {
  Measured m;
  m.digest = digest(std::span(out).first(set_warps));
  for (unsigned w = 0; w < set_warps; ++w) {
    if (std::memcmp(&in[w], &out[w], warp_bytes) == 0) continue;
    for (unsigned n = 0; n < places; ++n) m.changed[n] = m.changed[n] || differs(in[w], out[w], n);
  }
  for (unsigned c = 0; c < variants; ++c)
    for (unsigned k = 0; k < variant_warps && !m.moved[c]; ++k) {
      const unsigned v = variant_warp(c, k), base = variant_base(k);
      for (unsigned n = 0; n < places && !m.moved[c]; ++n)
        m.moved[c] = moves(n, in[v], out[v], in[base], out[base]);
    }
  return m;
}

Expected expected(const Word& w) {
  const sass::Effects e = sass::effects(**sass::find_arch(90), w.inst, 0);
  const auto set_of = [](const sass::RegEffects& r) {
    PlaceSet s{};
    for (unsigned n = 0; n < places; ++n) {
      const Place p = place(n);
      switch (p.kind) {
        case Place::Kind::gpr:
          s[n] = r.gpr[p.index];
          break;
        case Place::Kind::ur:
          s[n] = r.ur[p.index];
          break;
        case Place::Kind::pred:
          s[n] = (r.pred >> p.index & 1) != 0;
          break;
        case Place::Kind::upred:
          s[n] = (r.upred >> p.index & 1) != 0;
          break;
        case Place::Kind::memory:
          break;
      }
    }
    return s;
  };
  Expected x{set_of(e.def), set_of(e.use)};
  const Companions c = companions(w);
  for (const auto& list : {c.before, c.after})
    for (const sass::RawInst& inst : list) {
      const sass::Effects other = sass::effects(**sass::find_arch(90), inst, 0);
      const PlaceSet def = set_of(other.def), use = set_of(other.use);
      for (unsigned n = 0; n < places; ++n) x.def[n] |= def[n], x.use[n] |= use[n];
    }
  x.def[places - 1] = e.kind == sass::MemKind::store || e.kind == sass::MemKind::atomic ||
                      e.kind == sass::MemKind::reduction ||
                      (e.kind == sass::MemKind::other && e.def.gpr.none()) ||
                      w.cls == Class::barrier || is_copy(w.cls) || w.cls == Class::cluster;
  // Whether a lane came to the pad.
  if (w.cls == Class::control) x.def[places - 1] = e.flow != sass::Flow::next;
  return x;
}

std::string contradiction(const Word& w, const Measured& m) {
  const Expected x = expected(w);
  PlaceSet written{}, read{};
  for (unsigned n = 0; n < places; ++n) {
    written[n] = m.changed[n] && !x.def[n];
    read[n] =
        m.moved[n] && !x.use[n] && !reads_the_machine(w.inst);  // place and time differ from warp to warp
  }
  std::string s;
  if (written != PlaceSet{}) s = "writes " + text(written);
  if (read != PlaceSet{}) s += (s.empty() ? "" : ", ") + ("reads " + text(read));
  return s;
}

std::string not_seen(const Word& w, const Measured& m) {
  const Expected x = expected(w);
  PlaceSet written{}, read{};
  for (unsigned n = 0; n < places; ++n) {
    written[n] = x.def[n] && !m.changed[n];
    read[n] = x.use[n] && !m.moved[n] && n != places - 1 && can_change(w.cls, place(n));
  }
  std::string s;
  if (written != PlaceSet{}) s = "does not write " + text(written);
  if (read != PlaceSet{}) s += (s.empty() ? "" : ", ") + ("does not read " + text(read));
  return s;
}

namespace {
std::array<std::optional<Frame>, classes> frames;
std::array<std::vector<WarpState>, classes> all_inputs;

Result<Frame*> frame(Class c) {
  std::optional<Frame>& f = frames[static_cast<size_t>(c)];
  if (!f) {
    XT_TRY(f, Frame::make(c));
  }
  return &*f;
}
}  // namespace

const std::vector<WarpState>& Runner::inputs(Class c) {
  std::vector<WarpState>& in = all_inputs[static_cast<size_t>(c)];
  if (in.empty()) in = input_states(c);
  return in;
}

Status Runner::warm_up() {
  std::vector<std::future<Status>> made;
  for (unsigned c = 0; c < classes; ++c)
    made.push_back(std::async(std::launch::async, [c]() -> Status {
      inputs(static_cast<Class>(c));
      XT_TRY([[maybe_unused]] Frame* const f, frame(static_cast<Class>(c)));
      return {};
    }));
  Status first;
  for (std::future<Status>& m : made)
    if (Status s = m.get(); !s && first) first = std::move(s);
  return first;
}

// Another backend has no objects, and refuses what would look for one.
Result<const Objects*> Runner::objects() const {
  static constexpr Objects numbers{.texture = {{0x300000001, 0x300000002}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}, {}, {13, 14}},
                                   .surface = {{15, 16}, {}, {17, 18}, {19, 20}, {21, 22}, {23, 24}}};
  return backend_.info().name == "driver" ? values::objects() : &numbers;
}

Status Runner::prepare(Class c, uint64_t target) {
  XT_TRY(Frame* const f, frame(c));
  if (prepared_) XT_TRY_STATUS(backend_.finish());
  prepared_.reset();
  module_.reset();
  const Objects* made = nullptr;
  if (has_objects(c)) {
    XT_TRY(made, objects());
  }
  replay::LaunchImage launch = f->launch(inputs(c));
  const auto put = [&](uint32_t at, uint64_t v) { write_at(std::span(launch.record.param_block), at, v); };
  put(parameter_target, target);
  for (unsigned s = 0; made != nullptr && s < texture_shapes; ++s) put(handle_parameter(false, s), made->texture[s][0]);
  for (unsigned s = 0; made != nullptr && s < surface_shapes; ++s) put(handle_parameter(true, s), made->surface[s][0]);
  XT_TRY_STATUS(backend_.prepare(launch));
  prepared_ = c;
  return {};
}

Status Runner::load(std::span<const Word> words) {
  words_.assign(words.begin(), words.end());
  const Class c = words[0].cls;
  XT_TRY(Frame* const f, frame(c));
  if (needs_code_address(words[0].inst)) {
    XT_CHECK(words.size() == 1, "a word with an absolute target is loaded alone");
    return load_at_address();
  }
  if (prepared_ != c) {
    XT_TRY_STATUS(prepare(c, 0));
  } else if (module_) {
    XT_TRY_STATUS(backend_.unload(*module_));
  }
  module_.reset();
  XT_TRY(module_, backend_.load(f->cubin(words_)));
  return {};
}

// What the last slot says of the pad of the first: the code is loaded twice, and lies at the same address when nothing else was
// loaded between. [measured H200]
Status Runner::load_at_address() {
  constexpr size_t last = Frame::slots - 1;
  constexpr uint32_t word_at = 0x1000;
  const Class c = words_[0].cls;
  XT_TRY(Frame* const f, frame(c));
  XT_TRY(const sass::RawInst lepc, sass::assemble(**sass::find_arch(90), fmt::format("LEPC R40, {:#x}", word_at + pad_distance), word_at));
  const Word first = words_[0];
  words_.resize(Frame::slots);
  words_[last] = {lepc, c};
  for (size_t k = 0; k < last; ++k) words_[k] = {{0x7918, 0}, c};
  uint64_t target = 0;
  for (unsigned round = 0; round < 2; ++round) {
    XT_TRY_STATUS(prepare(c, target));
    XT_TRY(module_, backend_.load(f->cubin(words_)));
    XT_TRY(std::vector<WarpState> out, run(last));
    const uint64_t pad = (uint64_t{out[0].gpr(41)[0]} << 32 | out[0].gpr(40)[0]) - f->code_offset(last) + f->code_offset(0);
    if (round == 1 && pad != target) return device("the code lies at {:#x} and not at {:#x} again", pad, target);
    target = pad;
    // Not before the target is known: an unguarded JMP to nowhere stops the GPU where it is not executed, too, as if it fetched
    // ahead [measured H200]. As relative targets: in units of 4 bytes, the low 8 bits apart. [nvdisasm 13.0]
    words_[0] = first;
    if (const uint16_t op = sass::opcode13(first.inst); op == 0x94a || op == 0x943) {
      const auto part = [&](BitRange to, unsigned from) {
        set_bits(words_[0].inst, to, target >> from & low_mask(to.width));
      };
      part(bits(23, 16), 2);
      part(bits(63, 34), 10);
      part(bits(81, 64), 40);
    }
  }
  return {};
}

Result<std::vector<WarpState>> Runner::run(size_t slot) {
  Choice choice;
  const Word& w = words_.at(slot);
  if (has_objects(w.cls)) {
    XT_TRY(const Objects* const made, objects());
    choice = choice_of(w, *made);
  } else if (w.cls == Class::tensor) {
    choice.ur.base = map_of(w.inst);
  }
  choice.slot = static_cast<uint32_t>(slot);
  Bytes bytes_of_choice;
  append(bytes_of_choice, choice);
  XT_TRY_STATUS(backend_.write({choice_address}, bytes_of_choice));
  XT_TRY(const replay::RunOutcome outcome, backend_.run(*module_));
  if (!outcome.completed) return device("{}", outcome.failure);
  XT_TRY(const Bytes bytes, backend_.read_region(*module_, Frame::output_region));
  std::vector<WarpState> out(warps);
  XT_CHECK(bytes.size() == out.size() * warp_bytes, "the output region has another size");
  std::memcpy(out.data(), bytes.data(), bytes.size());
  if (prepared_ == Class::control) revive(inputs(Class::control), out);
  return out;
}

DirectResult run_framed(Runner& runner, const Word& w) {
  DirectResult r;
  if (const Status s = runner.load(std::span(&w, 1)); !s) {
    r.refused = s.error().message;
  } else if (auto out = runner.run(0); !out) {
    r.refused = out.error().message;
  } else {
    r.states = std::move(*out);
  }
  return r;
}

}  // namespace xtrace::values
