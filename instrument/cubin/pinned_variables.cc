#include "instrument/cubin/pinned_variables.h"

#include <elf.h>

#include <algorithm>
#include <vector>

#include "instrument/cubin/image.h"

namespace xtrace::cubin {
namespace {

// R_CUDA_* by what they fill in [nvdisasm 13, sass.md 4.4]: words of data; the immediate, bits 32 to 63, of an instruction.
enum class Fills : uint8_t { unknown, word64, immediate_low, immediate_high };
Fills fills_of(uint32_t type) {
  switch (type) {
    case 2:                                     // R_CUDA_64
    case 4: return Fills::word64;               // R_CUDA_G64
    case 56: return Fills::immediate_low;       // R_CUDA_ABS32_LO_32
    case 57: return Fills::immediate_high;      // R_CUDA_ABS32_HI_32
    default: return Fills::unknown;
  }
}
constexpr uint64_t immediate_at = 4;   // byte in the instruction

class Pinning {
 public:
  Pinning(Image& image, const PinnedVariable& variable) : image_(image), variable_(variable) {}

  Status pin() {
    XT_TRY_STATUS(find());
    const std::vector<Relocation> relocations = image_.relocations();
    std::vector<size_t> filled;
    for (size_t k = 0; k < relocations.size(); ++k) {
      XT_TRY_STATUS(check_contents(relocations[k]));
      XT_TRY(const std::optional<int64_t> at, offset_in_variable(relocations[k]));
      if (!at) continue;
      XT_TRY_STATUS(fill(relocations[k], variable_.address + static_cast<uint64_t>(*at)));
      filled.push_back(k);
    }
    image_.drop_relocations(filled);
    return {};
  }

 private:
  Status find() {
    size_t found = 0;
    for (uint32_t s = 0; s < image_.symbols().size(); ++s) {
      if (!image_.symbols()[s].is_object() || image_.symbols()[s].name != variable_.name) continue;
      symbol_ = s;
      ++found;
    }
    if (found != 1) return unsupported("the code has {} variables {}", found, variable_.name);
    return {};
  }

  // What the variable holds comes from memory that was recorded. The loader chooses the addresses of functions, too: code that was compiled
  // apart (-rdc=true) keeps them in vtables and tables of functions.
  Status check_contents(const Relocation& r) const {
    const Symbol& variable = image_.symbols()[symbol_];
    const bool inside = r.target_section == variable.section && r.offset >= variable.value && r.offset - variable.value < variable.size;
    if (inside && image_.symbols()[r.symbol].is_function())
      return unsupported("variable {} holds the address of function {}, which the loader chooses", variable_.name, image_.symbols()[r.symbol].name);
    return {};
  }

  // Where in the variable the relocation's target lies; nothing where it is none of this variable, or of no code or data.
  Result<std::optional<int64_t>> offset_in_variable(const Relocation& r) const {
    const Symbol& variable = image_.symbols()[symbol_];
    const Symbol& to = image_.symbols()[r.symbol];
    constexpr uint8_t of_section = STT_SECTION;
    const bool by_section = (to.info & 0xf) == of_section && to.section == variable.section;
    if (r.symbol != symbol_ && !by_section) return std::optional<int64_t>{};
    if ((image_.sections()[r.target_section].flags & SHF_ALLOC) == 0) return std::optional<int64_t>{};
    int64_t addend = r.addend;
    if (!r.has_addend) {
      if (fills_of(r.type) != Fills::word64) return unsupported("{} of variable {}: the addend is not known", text(r), variable_.name);
      XT_TRY(addend, read_at<int64_t>(image_.sections()[r.target_section].data, r.offset, "addend"));
    }
    if (!by_section) return std::optional<int64_t>{addend};
    const auto from = static_cast<int64_t>(to.value) + addend - static_cast<int64_t>(variable.value);
    if (from < 0 || from >= static_cast<int64_t>(variable.size)) return std::optional<int64_t>{};
    return std::optional<int64_t>{from};
  }

  Status fill(const Relocation& r, uint64_t address) {
    Bytes data = image_.sections()[r.target_section].data;
    switch (fills_of(r.type)) {
      case Fills::unknown: return unsupported("{} of variable {}", text(r), variable_.name);
      case Fills::word64: XT_TRY_STATUS(put(data, r.offset, address)); break;
      case Fills::immediate_low: XT_TRY_STATUS(put(data, r.offset + immediate_at, static_cast<uint32_t>(address))); break;
      case Fills::immediate_high: XT_TRY_STATUS(put(data, r.offset + immediate_at, static_cast<uint32_t>(address >> 32))); break;
    }
    image_.set_section_data(r.target_section, std::move(data));
    return {};
  }

  template <typename T>
  Status put(Bytes& data, uint64_t offset, T value) const {
    if (offset > data.size() || data.size() - offset < sizeof value)
      return bad_input("a relocation of variable {} at {:#x} lies outside of its section of {} bytes", variable_.name, offset, data.size());
    write_at(std::span<std::byte>(data), offset, value);
    return {};
  }

  std::string text(const Relocation& r) const {
    return fmt::format("relocation of type {} at {:#x} of {}", r.type, r.offset, image_.sections()[r.target_section].name);
  }

  Image& image_;
  const PinnedVariable& variable_;
  uint32_t symbol_ = 0;
};

}  // namespace

Result<Bytes> with_pinned_variables(ByteView cubin, std::span<const PinnedVariable> variables) {
  XT_TRY(Image image, Image::parse(cubin));
  for (const PinnedVariable& v : variables) XT_TRY_STATUS(Pinning(image, v).pin());
  return image.write();
}

}  // namespace xtrace::cubin
