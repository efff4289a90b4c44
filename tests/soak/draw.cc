#include "tests/soak/draw.h"

#include "tests/unit/interp/recordings.h"

namespace xtrace::soak {

using instrument::ProbeKind;
using Kind = wire::Value::Kind;

Draw::Draw(uint32_t seed, uint32_t number) : random_(seed * 1'000'003ull + number) {
  const std::vector<std::string>& kernels = interp_test::recorded_kernels();
  plan_.kernel = kernels[below(static_cast<uint32_t>(kernels.size()))];
  std::vector<ProbeKind> probes;
  for (const auto& p : instrument::all_probes())
    if (p.kind != ProbeKind::none) probes.push_back(p.kind);
  const ProbeKind probe = plan_.probe = probes[below(static_cast<uint32_t>(probes.size()))];
  plan_.seed = below(1000);
  switch (below(6)) {
    case 0: plan_.one_in = 2 + below(4); break;
    case 1: plan_.select.ctas = {{below(4), 4 + below(8)}}; break;
    case 2: plan_.select.warps = {{below(2), 1 + below(4)}}; break;
    case 3: plan_.select.sms = {{0, below(8)}, {16, 16 + below(64)}}; break;
    default: break;
  }
  const bool sparse = probe == ProbeKind::inst || probe == ProbeKind::mem || instrument::probe_info(probe).points;
  if ((sparse || probe == ProbeKind::block) && below(3) == 0) plan_.sites.one_in = 2 + below(7), plan_.sites.part = below(plan_.sites.one_in);
  plan_.some_places = sparse && below(3) == 0;
  plan_.wraps = probe != ProbeKind::count && probe != ProbeKind::mem && below(3) == 0;
  // So few points that most kernels leave a register for each.
  const bool counts = instrument::probe_info(probe).points && probe != ProbeKind::range && probe != ProbeKind::sync;
  if (counts && below(3) == 0) plan_.sites = {8 + below(17), below(8), 2 + below(6)};
  plan_.brief = !plan_.wraps && (probe == ProbeKind::block || probe == ProbeKind::inst || probe == ProbeKind::mem) && below(2) == 0;
  plan_.table = probe != ProbeKind::count && below(4) == 0;
  plan_.cta_part = number % plan_.one_in;
  if (probe == ProbeKind::inst && number % 3 != 0) plan_.clock_gap = number % 3 == 1 ? instrument::usual_clock_gap : 8;
  plan_.sectors = plan_.brief && (probe == ProbeKind::inst || probe == ProbeKind::mem) && number / 2 % 2 == 0;
  plan_.without_polls = number % 2 == 0 && (probe == ProbeKind::block || probe == ProbeKind::inst || probe == ProbeKind::mem);
}

instrument::Splicer Draw::specialise(const instrument::Splicer& splicer) {
  const auto all = splicer.instructions();
  const auto some = [&](auto keep) {
    instrument::Places places(splicer.section_instructions(), false);
    for (const auto& i : all) places[i.pc.value / 16] = keep(i);
    return places;
  };
  instrument::Asked asked;
  std::vector<wire::Value> values;
  for (uint32_t tries = 0; tries < 12 && values.size() < 3; ++tries) {
    const Kind kind = below(4) == 0 ? (below(2) == 0 ? Kind::uniform : Kind::lanes) : Kind::vector;
    const wire::Value v{kind, static_cast<uint8_t>(kind == Kind::lanes ? below(5) : kind == Kind::uniform ? 4 + below(6) : below(24)),
                        kind == Kind::lanes && below(2) == 0};
    instrument::Asked one;
    one.reg.push_back({{}, {v}, {}, {}});
    if (std::find(values.begin(), values.end(), v) == values.end() && splicer.asked(one).points(ProbeKind::reg)) values.push_back(v);
  }
  std::vector<wire::Value> with_clocks = values;
  with_clocks.push_back({Kind::clock});
  const instrument::Places straight = some([&](const auto& i) { return !i.branches && below(4) == 0; });
  if (!values.empty()) asked.reg.push_back({straight, values, below(2) == 0 ? values : std::vector<wire::Value>{}, {}});
  asked.custom.push_back({straight, {{Kind::clock}, {Kind::time}}, with_clocks, {}});
  const auto n = static_cast<uint32_t>(all.size());
  const uint32_t from = below(n), size = 1 + below(n);
  asked.range.push_back({some([&](const auto& i) {
                           const auto number = static_cast<uint32_t>(&i - all.data());
                           return number >= from && number < from + size;
                         }),
                         {}, {}, "drawn"});
  if (plan_.probe == ProbeKind::pair) plan_.pair_pc = all[below(n)].pc.value;
  instrument::Splicer s = splicer.asked(asked);
  if (plan_.some_places) {
    const uint32_t one_in = 2 + below(4);
    s = s.at(some([&](const auto&) { return below(one_in) == 0; }));
  }
  return s.sparse(plan_.sites);
}

}  // namespace xtrace::soak
