#include "instrument/function_pointers.h"

#include <algorithm>
#include <set>

#include "instrument/linked_code.h"
#include "instrument/sass/encode.h"
#include "instrument/sequence.h"

namespace xtrace::instrument {
namespace {

constexpr uint16_t op_call_rel_register = 0x344;

// Words of 64 bits in the constants that the kernel sees, and in the module's initialised variables.
std::set<uint64_t> words_of_constants(const cubin::Image& image, const cubin::KernelInfo& info) {
  std::set<uint64_t> words;
  const auto add = [&](uint32_t section) {
    const ByteView data = image.sections()[section].data;
    for (uint64_t at = 0; at + sizeof(uint64_t) <= data.size(); at += sizeof(uint64_t))
      if (const auto word = read_at<uint64_t>(data, at, "constant")) words.insert(*word);
  };
  for (const auto& [bank, section] : info.constant_sections) add(section);
  if (const auto variables = image.find_section(".nv.global.init")) add(*variables);
  return words;
}

}  // namespace

FunctionPointers find_function_pointers(const Code& code, const cubin::Image& image, const cubin::KernelInfo& info) {
  FunctionPointers found;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (sass::opcode13(code.insts[i].raw) != op_call_rel_register) continue;
    const auto base = sass::register_branch_base(*code.arch, code.insts[i].raw, code.pc(i));
    if (!base || (!found.calls.empty() && *base != found.base)) return {};
    found.base = *base;
    found.calls.push_back(i);
  }
  if (found.calls.empty()) return {};
  const std::set<uint64_t> words = words_of_constants(image, info);
  std::set<InstIndex> functions, entries;
  for (const cubin::LocalFunction& f : info.functions) {
    if (f.offset % sass::inst_bytes != 0 || f.offset >= code.bytes()) continue;
    const InstIndex entry = code.index(static_cast<uint32_t>(f.offset));
    functions.insert(entry);
    if (found.base == 0 ? words.contains(f.offset) : is_pointed_to(f)) entries.insert(entry);
  }
  if (entries.empty()) return {};
  found.entries.assign(entries.begin(), entries.end());
  if (found.base != 0) functions = entries;
  found.first = *functions.begin();
  found.last = *functions.rbegin();
  return found;
}

Result<std::vector<sass::RawInst>> branches_of_pointers(const Code& code, uint32_t pc, const std::vector<uint32_t>& label) {
  const FunctionPointers& p = code.pointers;
  Sequence words;
  for (InstIndex i = p.first; i <= p.last; ++i, pc += sass::inst_bytes) {
    if (!std::ranges::binary_search(p.entries, i)) {
      put(words, sass::enc::trap(), {.stall = 5});
      continue;
    }
    put(words, sass::enc::bra(pc, pc), {.stall = 5});
    XT_TRY_STATUS(sass::set_target(*code.arch, words.back(), pc, label[i]));
  }
  return words;
}

}  // namespace xtrace::instrument
