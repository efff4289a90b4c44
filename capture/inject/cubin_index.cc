#include "capture/inject/cubin_index.h"

#include <algorithm>

namespace xtrace::inject {

Result<Hash128> CubinIndex::loaded(uint32_t module_id, ByteView cubin) {
  const Hash128 key = hash128(cubin);
  unloaded(module_id);
  if (auto it = cubins_.find(key); it != cubins_.end()) {
    ++it->second.loads;
    by_module_id_[module_id] = key;
    return key;
  }
  XT_TRY_IN(std::vector<std::string> names, reader_.kernels(cubin), "the cubin of module {} ({} bytes)",
            module_id, cubin.size());
  Cubin entry;
  entry.bytes = std::make_shared<const Bytes>(cubin.begin(), cubin.end());
  entry.kernels.insert(names.begin(), names.end());
  entry.loads = 1;
  cubins_.emplace(key, std::move(entry));
  by_module_id_[module_id] = key;
  return key;
}

void CubinIndex::unloaded(uint32_t module_id) {
  const auto id = by_module_id_.find(module_id);
  if (id == by_module_id_.end()) return;
  const auto cubin = cubins_.find(id->second);
  by_module_id_.erase(id);
  if (cubin == cubins_.end() || --cubin->second.loads != 0) return;
  for (auto& [handle, keys] : by_handle_) keys.erase(cubin->first);
  cubins_.erase(cubin);
}

void CubinIndex::associate(uint64_t handle, const Hash128& cubin) {
  if (handle != 0) by_handle_[handle].insert(cubin);
}

bool CubinIndex::defines(const std::string& kernel) const {
  return std::any_of(cubins_.begin(), cubins_.end(),
                     [&](const auto& c) { return c.second.kernels.contains(kernel); });
}

Result<const KernelFacts*> CubinIndex::facts_of(const Hash128& key, const std::string& kernel) {
  Cubin& cubin = cubins_.at(key);
  auto it = cubin.facts.find(kernel);
  if (it == cubin.facts.end()) {
    XT_TRY_IN(KernelFacts facts, reader_.facts(*cubin.bytes, kernel), "cubin {}", key.hex());
    it = cubin.facts.emplace(kernel, std::move(facts)).first;
  }
  return &it->second;
}

void CubinIndex::keep_equal(Groups& groups, const std::string& kernel, int32_t KernelFacts::*figure, int32_t observed,
                            int32_t reserved) const {
  if (observed < 0) return;
  std::erase_if(groups, [&](const auto& g) {
    const int32_t value = cubins_.at(g.second.front()).facts.at(kernel).*figure;
    return value >= 0 && value != observed && value != observed + reserved;
  });
}

Result<CubinIndex::Groups> CubinIndex::groups_of(const std::string& kernel, std::span<const uint64_t> handles,
                                                 const ObservedFunction& observed) {
  std::vector<Hash128> candidates;
  for (const uint64_t handle : handles) {
    const auto known = by_handle_.find(handle);
    if (handle == 0 || known == by_handle_.end()) continue;
    for (const Hash128& key : known->second)
      if (const auto it = cubins_.find(key); it != cubins_.end() && it->second.kernels.contains(kernel))
        candidates.push_back(key);
    if (!candidates.empty()) break;
  }
  if (candidates.empty())
    for (const auto& [key, cubin] : cubins_)
      if (cubin.kernels.contains(kernel)) candidates.push_back(key);
  if (candidates.empty())
    return unsupported("no loaded cubin defines '{}' (of {} seen)", kernel, cubins_.size());
  std::sort(candidates.begin(), candidates.end());  // the same choice in every run

  Groups groups;
  for (const Hash128& key : candidates) {
    XT_TRY(const KernelFacts* facts, facts_of(key, kernel));
    groups[facts->contents].push_back(key);
  }
  if (groups.size() == 1) return groups;
  const size_t before = groups.size();
  keep_equal(groups, kernel, &KernelFacts::registers, observed.registers, 0);
  // The section counts 1024 reserved bytes where the system has them (sm_90: 128 bytes of variables make a
  // section of 0x480) [nvcc 13]; whether the driver's figure does is not relied upon.
  keep_equal(groups, kernel, &KernelFacts::static_shared, observed.static_shared, 1024);
  if (groups.empty())
    return unsupported(
        "{} loaded cubins define '{}' differently, and none of them has the driver's {} registers and {} bytes of static "
        "shared memory",
        before, kernel, observed.registers, observed.static_shared);
  return groups;
}

std::vector<std::string> CubinIndex::own_names(const Groups& groups, const Hash128& contents) const {
  std::vector<std::string> own;
  for (const Hash128& key : groups.at(contents))
    for (const std::string& name : cubins_.at(key).kernels) {
      const bool elsewhere = std::any_of(groups.begin(), groups.end(), [&](const auto& g) {
        return g.first != contents && std::any_of(g.second.begin(), g.second.end(), [&](const Hash128& k) {
                 return cubins_.at(k).kernels.contains(name);
               });
      });
      if (elsewhere) continue;
      own.push_back(name);
      break;   // one a cubin tells enough
    }
  return own;
}

std::vector<std::string> CubinIndex::telling_names(const std::string& kernel, std::span<const uint64_t> handles,
                                                   const ObservedFunction& observed) {
  const auto groups = groups_of(kernel, handles, observed);
  std::vector<std::string> names;
  if (!groups || groups->size() == 1) return names;
  for (const auto& [contents, keys] : *groups)
    for (std::string& name : own_names(*groups, contents)) names.push_back(std::move(name));
  return names;
}

Result<CubinIndex::Choice> CubinIndex::choose(const std::string& kernel, std::span<const uint64_t> handles,
                                              const ObservedFunction& observed) {
  XT_TRY(const Groups groups, groups_of(kernel, handles, observed));
  std::vector<Hash128> chosen;   // a cubin of each group that may be the one
  for (const auto& [contents, keys] : groups) {
    const std::vector<std::string> own = own_names(groups, contents);
    if (std::any_of(own.begin(), own.end(), [&](const std::string& n) { return observed.beside.contains(n); }))
      chosen.push_back(keys.front());
  }
  if (chosen.size() != 1) {
    chosen.clear();
    for (const auto& [contents, keys] : groups) chosen.push_back(keys.front());
  }
  if (chosen.size() != 1)
    return unsupported(
        "{} loaded cubins define '{}' differently, all of them with the driver's {} registers and {} bytes of static shared "
        "memory: which one runs is not known",
        chosen.size(), kernel, observed.registers, observed.static_shared);
  XT_TRY(const KernelFacts* facts, facts_of(chosen[0], kernel));
  return Choice{chosen[0], cubins_.at(chosen[0]).bytes, *facts};
}

}  // namespace xtrace::inject
