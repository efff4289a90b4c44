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

void CubinIndex::keep_equal(std::map<Hash128, Hash128>& candidates, const std::string& kernel,
                            int32_t KernelFacts::*figure, int32_t observed, int32_t reserved) {
  if (observed < 0) return;
  std::erase_if(candidates, [&](const auto& c) {
    const int32_t value = cubins_.at(c.second).facts.at(kernel).*figure;
    return value >= 0 && value != observed && value != observed + reserved;
  });
}

Result<CubinIndex::Choice> CubinIndex::choose(const std::string& kernel, std::span<const uint64_t> handles,
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

  std::map<Hash128, Hash128> distinct;  // contents of the kernel -> the first cubin with them
  for (const Hash128& key : candidates) {
    XT_TRY(const KernelFacts* facts, facts_of(key, kernel));
    distinct.try_emplace(facts->contents, key);
  }
  if (distinct.size() > 1) {
    const size_t before = distinct.size();
    keep_equal(distinct, kernel, &KernelFacts::registers, observed.registers, 0);
    // The section counts 1024 reserved bytes where the system has them (sm_90: 128 bytes of variables make a
    // section of 0x480) [nvcc 13]; whether the driver's figure does is not relied upon.
    keep_equal(distinct, kernel, &KernelFacts::static_shared, observed.static_shared, 1024);
    if (distinct.size() != 1)
      return unsupported(
          "{} loaded cubins define '{}' differently, and {} of them have the driver's {} registers and {} "
          "bytes of static shared memory: which one runs is not known",
          before, kernel, distinct.size(), observed.registers, observed.static_shared);
  }
  const Hash128 key = distinct.begin()->second;
  XT_TRY(const KernelFacts* facts, facts_of(key, kernel));
  return Choice{key, cubins_.at(key).bytes, *facts};
}

}  // namespace xtrace::inject
