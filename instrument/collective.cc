#include "instrument/collective.h"

namespace xtrace::instrument {

std::vector<Collective> find_collectives(const Code& code) {
  std::vector<Collective> found;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    const sass::Effects& fx = code.insts[i].fx;
    if (code.reachable[i] && fx.mnemonic == "WARPSYNC" && fx.target) found.push_back({i, code.index(static_cast<uint32_t>(*fx.target))});
  }
  return found;
}

}  // namespace xtrace::instrument
