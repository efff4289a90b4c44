#include "capture/inject/cubin_facts.h"

#include "instrument/cubin/image.h"
#include "instrument/cubin/kernel_info.h"

namespace xtrace::inject {
namespace {

Result<std::vector<std::string>> kernels_of(ByteView cubin) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(cubin));
  return image.kernels();
}

Result<KernelFacts> facts_of(ByteView bytes, const std::string& kernel) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(bytes));
  XT_TRY(const cubin::KernelInfo info, cubin::kernel_info(image, kernel));
  KernelFacts facts;
  Bytes contents;
  auto add = [&](uint32_t section) {
    const cubin::Section& s = image.sections()[section];
    append(contents, s.size);
    contents.insert(contents.end(), s.data.begin(), s.data.end());
  };
  add(info.text_section);
  if (info.info_section) add(*info.info_section);
  for (const auto& [bank, section] : info.constant_sections) add(section);
  append(contents, info.register_count);
  append(contents, info.shared_bytes);
  facts.contents = hash128(contents);
  if (info.register_count != 0) facts.registers = static_cast<int32_t>(info.register_count);
  facts.static_shared = static_cast<int32_t>(info.shared_bytes);
  for (const cubin::ParamInfo& p : info.params) facts.layout.push_back({p.offset, p.size});
  return facts;
}

}  // namespace

CubinReader cubin_reader() { return {kernels_of, facts_of}; }

Result<std::vector<ModuleVariable>> module_variables(ByteView cubin) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(cubin));
  std::vector<ModuleVariable> out;
  for (const cubin::Symbol& symbol : image.symbols()) {
    if (!symbol.is_object() || symbol.size == 0 || symbol.section >= image.sections().size()) continue;
    if (symbol.name.starts_with('$'))
      continue;  // string literals and the like: never written, no name for the driver
    const std::string& section = image.sections()[symbol.section].name;
    if (section.starts_with(".nv.global"))
      out.push_back({symbol.name, bundle::RegionKind::global, symbol.size});
    else if (section == ".nv.constant3")
      out.push_back({symbol.name, bundle::RegionKind::constant, symbol.size});
  }
  return out;
}

}  // namespace xtrace::inject
