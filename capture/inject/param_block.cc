#include "capture/inject/param_block.h"

#include <algorithm>
#include <cstring>

namespace xtrace::inject {
namespace {

constexpr uint64_t largest_block = 64 * 1024;  // 32,764 bytes is the limit of the driver today

size_t block_size(const std::vector<bundle::Param>& layout) {
  return layout.empty() ? 0 : size_t{layout.back().offset} + layout.back().size;
}

}  // namespace

Result<std::vector<bundle::Param>> checked_layout(std::vector<bundle::Param> params) {
  std::sort(params.begin(), params.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].size == 0) return bad_input("parameter {} has size 0", i);
    if (params[i].offset < end)
      return bad_input("parameter {} at offset {} overlaps the one before, which ends at {}", i,
                       params[i].offset, end);
    end = uint64_t{params[i].offset} + params[i].size;
    if (end > largest_block)
      return bad_input("parameter {} ends at byte {}, expected at most {}", i, end, largest_block);
  }
  return params;
}

Result<ParamBlock> from_pointers(std::vector<bundle::Param> layout, const void* const* values) {
  XT_TRY(ParamBlock block, (checked_layout(std::move(layout)).map([](auto&& l) {
           return ParamBlock{std::move(l), {}};
         })));
  if (!block.params.empty() && values == nullptr)
    return bad_input("the kernel takes {} parameters, the launch passes none", block.params.size());
  block.bytes.assign(block_size(block.params), std::byte{0});
  for (size_t i = 0; i < block.params.size(); ++i) {
    if (values[i] == nullptr) return bad_input("parameter {} is a null pointer", i);
    std::memcpy(block.bytes.data() + block.params[i].offset, values[i], block.params[i].size);
  }
  return block;
}

Result<ParamBlock> from_buffer(std::vector<bundle::Param> layout, const void* buffer, size_t size) {
  XT_TRY(ParamBlock block, (checked_layout(std::move(layout)).map([](auto&& l) {
           return ParamBlock{std::move(l), {}};
         })));
  const size_t needed = block_size(block.params);
  if (needed != 0 && buffer == nullptr) return bad_input("the parameter buffer is a null pointer");
  if (size < needed) return bad_input("the parameter buffer has {} bytes, the kernel takes {}", size, needed);
  block.bytes.assign(needed, std::byte{0});
  for (const bundle::Param& p : block.params)
    std::memcpy(block.bytes.data() + p.offset, static_cast<const std::byte*>(buffer) + p.offset, p.size);
  return block;
}

}  // namespace xtrace::inject
