#include "instrument/cubin/kernel_info.h"

#include <algorithm>
#include <charconv>

#include "instrument/cubin/eiattr.h"

namespace xtrace::cubin {
namespace {

constexpr uint32_t kTypeInfo = 0x70000000;  // SHT_CUDA_INFO
constexpr std::string_view kConstantPrefix = ".nv.constant";

Result<uint32_t> word(const InfoRecord& r, size_t index) {
  const Eiattr* row = find_eiattr(r.attribute);
  return read_at<uint32_t>(r.payload, index * sizeof(uint32_t),
                           fmt::format("payload of EIATTR_{}", row == nullptr ? "?" : row->name));
}

// Records of .nv.info are keyed by the function symbol in their first word.
Result<std::optional<uint32_t>> keyed_value(const InfoRecord& r, uint32_t symbol) {
  XT_TRY(const uint32_t key, word(r, 0));
  if (key != symbol) return std::optional<uint32_t>();
  XT_TRY(const uint32_t value, word(r, 1));
  return std::optional<uint32_t>(value);
}

void note_unknown(const InfoRecord& r, KernelInfo& k) {
  if (r.format == 4 && !is_movable(r.attribute) &&
      std::ranges::find(k.unknown_payload_attributes, r.attribute) == k.unknown_payload_attributes.end())
    k.unknown_payload_attributes.push_back(r.attribute);
}

// The section of that name, if it holds info records.
std::optional<uint32_t> common_info_section(const Image& image) {
  const auto section = image.find_section(".nv.info");
  return section && image.sections()[*section].type == kTypeInfo ? section : std::nullopt;
}

Status read_common_records(const Image& image, KernelInfo& k) {
  const auto section = common_info_section(image);
  if (!section) return {};
  XT_TRY(const std::vector<InfoRecord> records, image.info_records(*section));
  for (const InfoRecord& r : records) {
    note_unknown(r, k);
    if (r.attribute != eiattr::kRegcount && r.attribute != eiattr::kFrameSize &&
        r.attribute != eiattr::kMinStackSize)
      continue;
    XT_TRY_IN(const auto value, keyed_value(r, k.symbol), "section .nv.info");
    if (!value) continue;
    if (r.attribute == eiattr::kRegcount) k.register_count = *value;
    if (r.attribute == eiattr::kFrameSize) k.frame_bytes = *value;
    if (r.attribute == eiattr::kMinStackSize) k.min_stack_bytes = *value;
  }
  return {};
}

Status read_indirect_branches(const InfoRecord& r, KernelInfo& k) {
  for (size_t at = 0; at * sizeof(uint32_t) < r.payload.size();) {
    IndirectBranch b;
    XT_TRY(b.instruction, word(r, at));
    XT_TRY(const uint32_t count, word(r, at + 2));
    at += 3;
    for (uint32_t i = 0; i < count; ++i, ++at) {
      XT_TRY(const uint32_t target, word(r, at));
      b.targets.push_back(target);
    }
    k.indirect_branches.push_back(std::move(b));
  }
  return {};
}

Status read_kernel_record(const InfoRecord& r, KernelInfo& k) {
  switch (r.attribute) {
    case eiattr::kMaxThreads: {
      XT_TRY(const uint32_t x, word(r, 0));
      XT_TRY(const uint32_t y, word(r, 1));
      XT_TRY(const uint32_t z, word(r, 2));
      k.max_threads = x * y * z;
      break;
    }
    case eiattr::kMaxregCount:
      k.max_register_count = r.value;
      break;
    case eiattr::kCbankParamSize:
      k.param_bytes = r.value;
      break;
    case eiattr::kParamCbank: {
      XT_TRY(const uint32_t both, word(r, 1));
      k.param_base = both & 0xffff;
      k.param_bytes = both >> 16;
      break;
    }
    case eiattr::kKparamInfo: {
      // {u32 0, u16 ordinal, u16 offset, u32: size in bits 31:18} [nvdisasm 13]
      XT_TRY(const uint32_t place, word(r, 1));
      XT_TRY(const uint32_t packed, word(r, 2));
      k.params.push_back({static_cast<uint16_t>(place), static_cast<uint16_t>(place >> 16), packed >> 18});
      break;
    }
    case eiattr::kIndirectBranchTargets:
      return read_indirect_branches(r, k);
    default:
      break;
  }
  return {};
}

Status read_kernel_records(const Image& image, KernelInfo& k) {
  const auto& sections = image.sections();
  const std::string name = ".nv.info." + k.name;
  for (uint32_t i = 1; i < sections.size(); ++i) {
    if (sections[i].type != kTypeInfo || sections[i].info != k.text_section || sections[i].name != name)
      continue;
    k.info_section = i;
    break;
  }
  if (!k.info_section) return {};
  XT_TRY(const std::vector<InfoRecord> records, image.info_records(*k.info_section));
  for (const InfoRecord& r : records) {
    note_unknown(r, k);
    if (auto read = read_kernel_record(r, k); !read)
      return tl::make_unexpected(std::move(read).error().in("section " + name));
  }
  std::ranges::sort(k.params, {}, &ParamInfo::offset);
  return {};
}

// .nv.constant<bank>.<kernel> belongs to the kernel, .nv.constant<bank> to the whole module.
void find_constant_sections(const Image& image, KernelInfo& k) {
  for (uint32_t i = 1; i < image.sections().size(); ++i) {
    const std::string_view name = image.sections()[i].name;
    if (!name.starts_with(kConstantPrefix)) continue;
    const char* end = name.data() + name.size();
    unsigned bank = 0;
    const auto [rest, error] = std::from_chars(name.data() + kConstantPrefix.size(), end, bank);
    if (error != std::errc()) continue;
    const std::string_view tail(rest, end);
    if (tail.empty() || (tail.front() == '.' && tail.substr(1) == k.name)) k.constant_sections[bank] = i;
  }
}

Status find_functions(const Image& image, KernelInfo& k) {
  const uint64_t text_bytes = image.sections()[k.text_section].size;
  for (uint32_t i = 1; i < image.symbols().size(); ++i) {
    const Symbol& s = image.symbols()[i];
    if (!s.is_function() || s.section != k.text_section) continue;
    if (s.value > text_bytes || s.size > text_bytes - s.value)
      return bad_input("function {} covers {:#x} to {:#x}, but {} has {:#x} bytes", s.name, s.value,
                       s.value + s.size, image.sections()[k.text_section].name, text_bytes);
    if (i != k.symbol) k.functions.push_back({i, s.name, s.value, s.size});
  }
  std::ranges::sort(k.functions, {}, &LocalFunction::offset);
  return {};
}

// sm_75..89 keep the register count in the top byte of sh_info of the text section, the symbol index below
// [measured: (regcount << 24) | symbol]; sm_90 and later have the symbol index alone.
bool info_holds_registers(const Image& image, const KernelInfo& k) {
  const uint32_t info = image.sections()[k.text_section].info;
  return info >> 24 != 0 && (info & 0xffffff) == k.symbol;
}

}  // namespace

Result<KernelInfo> kernel_info(const Image& image, std::string_view kernel) {
  KernelInfo k;
  k.name = kernel;
  XT_TRY(k.text_section, image.text_section(kernel));
  for (uint32_t i = 1; i < image.symbols().size() && k.symbol == 0; ++i) {
    const Symbol& s = image.symbols()[i];
    if (s.is_function() && s.section == k.text_section && s.name == kernel) k.symbol = i;
  }
  if (k.symbol == 0)
    return bad_input("section {} has no function symbol named {}", image.sections()[k.text_section].name,
                     kernel);
  XT_TRY_STATUS(read_common_records(image, k));
  XT_TRY_STATUS(read_kernel_records(image, k));
  if (k.register_count == 0 && info_holds_registers(image, k))
    k.register_count = image.sections()[k.text_section].info >> 24;
  if (k.register_count == 0)
    return bad_input("the register count of kernel {} is nowhere: no EIATTR_REGCOUNT, none in sh_info",
                     kernel);
  find_constant_sections(image, k);
  if (const auto shared = image.find_section(".nv.shared." + k.name))
    k.shared_bytes = static_cast<uint32_t>(image.sections()[*shared].size);
  XT_TRY_STATUS(find_functions(image, k));
  return k;
}

Status set_frame_bytes(Image& image, const KernelInfo& kernel, uint32_t bytes) {
  unsigned set = 0;
  if (const auto section = common_info_section(image)) {
    XT_TRY(std::vector<InfoRecord> records, image.info_records(*section));
    for (InfoRecord& r : records) {
      if (r.attribute != eiattr::kFrameSize && r.attribute != eiattr::kMinStackSize) continue;
      XT_TRY_IN(const auto value, keyed_value(r, kernel.symbol), "section .nv.info");
      if (!value) continue;
      write_at(std::span(r.payload), sizeof(uint32_t), bytes);
      ++set;
    }
    if (set != 0) image.set_info_records(*section, records);
  }
  if (set != 2) return unsupported("kernel {} does not say how large its frame and its stack are", kernel.name);
  return {};
}

Status set_register_count(Image& image, const KernelInfo& kernel, uint32_t count) {
  if (count == 0 || count > 255)
    return unsupported("register count {} of kernel {}: a thread has 1 to 255 registers", count, kernel.name);
  bool set = false;
  if (const auto section = common_info_section(image)) {
    XT_TRY(std::vector<InfoRecord> records, image.info_records(*section));
    for (InfoRecord& r : records) {
      if (r.attribute != eiattr::kRegcount) continue;
      XT_TRY_IN(const auto value, keyed_value(r, kernel.symbol), "section .nv.info");
      if (!value) continue;
      write_at(std::span(r.payload), sizeof(uint32_t), count);
      set = true;
    }
    if (set) image.set_info_records(*section, records);
  }
  if (info_holds_registers(image, kernel)) {
    image.set_section_info(kernel.text_section, count << 24 | kernel.symbol);
    set = true;
  }
  if (!set) return unsupported("kernel {} keeps its register count nowhere known", kernel.name);
  if (count > kernel.max_register_count && kernel.info_section) {
    XT_TRY(std::vector<InfoRecord> records, image.info_records(*kernel.info_section));
    for (InfoRecord& r : records)
      if (r.attribute == eiattr::kMaxregCount) r.value = static_cast<uint16_t>(count);
    image.set_info_records(*kernel.info_section, records);
  }
  return {};
}

}  // namespace xtrace::cubin
