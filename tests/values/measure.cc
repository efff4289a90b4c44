#include "tests/values/measure.h"

#include <fmt/format.h>

#include <cstring>
#include <future>

#include "instrument/sass/effects.h"

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
  x.def[places - 1] = e.kind == sass::MemKind::store || e.kind == sass::MemKind::atomic ||
                      e.kind == sass::MemKind::reduction ||
                      (e.kind == sass::MemKind::other && e.def.gpr.none());
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

const std::vector<WarpState>& Runner::inputs(Class c) {
  std::vector<WarpState>& in = inputs_[static_cast<size_t>(c)];
  if (in.empty()) in = input_states(c);
  return in;
}

Result<Frame*> Runner::frame(Class c) {
  std::optional<Frame>& f = frames_[static_cast<size_t>(c)];
  if (!f) {
    XT_TRY(f, Frame::make(c));
  }
  return &*f;
}

Status Runner::warm_up() {
  std::vector<std::future<Status>> made;
  for (unsigned c = 0; c < classes; ++c)
    made.push_back(std::async(std::launch::async, [this, c]() -> Status {
      inputs(static_cast<Class>(c));
      XT_TRY([[maybe_unused]] Frame* const f, frame(static_cast<Class>(c)));
      return {};
    }));
  Status first;
  for (std::future<Status>& m : made)
    if (Status s = m.get(); !s && first) first = std::move(s);
  return first;
}

Status Runner::load(std::span<const Word> words) {
  const Class c = words[0].cls;
  XT_TRY(Frame* const f, frame(c));
  if (prepared_ == c) {
    if (module_) XT_TRY_STATUS(backend_.unload(*module_));
  } else {
    if (prepared_) XT_TRY_STATUS(backend_.finish());
    prepared_.reset();
    module_.reset();
    XT_TRY_STATUS(backend_.prepare(f->launch(inputs(c))));
    prepared_ = c;
  }
  module_.reset();
  XT_TRY(module_, backend_.load(f->cubin(words)));
  return {};
}

Result<std::vector<WarpState>> Runner::run(size_t slot) {
  Bytes choice;
  append(choice, static_cast<uint32_t>(slot));
  XT_TRY_STATUS(backend_.write({choice_address}, choice));
  XT_TRY(const replay::RunOutcome outcome, backend_.run(*module_));
  if (!outcome.completed) return device("{}", outcome.failure);
  XT_TRY(const Bytes bytes, backend_.read_region(*module_, Frame::output_region));
  std::vector<WarpState> out(warps);
  XT_CHECK(bytes.size() == out.size() * warp_bytes, "the output region has another size");
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace xtrace::values
