#include "instrument/cubin/join_info.h"

#include <algorithm>

#include "instrument/cubin/eiattr.h"

namespace xtrace::cubin {
namespace {

constexpr uint32_t type_info = 0x70000000;   // SHT_CUDA_INFO
constexpr uint8_t format_payload = 4;

// Moves the words at `index` of each group of `group`.
void move(Bytes& payload, size_t group, size_t index, uint32_t at) {
  for (size_t byte = index * sizeof(uint32_t); byte + sizeof(uint32_t) <= payload.size(); byte += group * sizeof(uint32_t)) {
    uint32_t word = 0;
    std::memcpy(&word, payload.data() + byte, sizeof word);
    word += at;
    std::memcpy(payload.data() + byte, &word, sizeof word);
  }
}

// False: nothing in it is a place in the code.
Result<bool> move(InfoRecord& r, uint32_t at, std::string_view section) {
  using Payload = Eiattr::Payload;
  const Eiattr* row = find_eiattr(r.attribute);
  switch (row == nullptr ? Payload::unknown : row->payload) {
    case Payload::no_offsets: return false;
    case Payload::per_coop_group: return true;
    case Payload::offsets: move(r.payload, 1, 0, at); return true;
    case Payload::first_of_2: move(r.payload, 2, 0, at); return true;
    case Payload::second_of_2: move(r.payload, 2, 1, at); return true;
    case Payload::first_of_4: move(r.payload, 4, 0, at); return true;
    default: return unsupported("attribute {:#x} of {} can not be moved into the section of a kernel", r.attribute, section);
  }
}

}  // namespace

Status join_info(Image& image, const KernelInfo& kernel, uint32_t text, uint32_t at) {
  for (uint32_t i = 1; i < image.sections().size(); ++i) {
    const Section& s = image.sections()[i];
    if (s.type != type_info || s.info != text) continue;
    if (!kernel.info_section) return unsupported("kernel {} has no records for what {} says", kernel.name, s.name);
    XT_TRY(std::vector<InfoRecord> records, image.info_records(*kernel.info_section));
    XT_TRY(const std::vector<InfoRecord> of_function, image.info_records(i));
    for (InfoRecord r : of_function) {
      if (r.format != format_payload) continue;
      XT_TRY(const bool has_places, move(r, at, s.name));
      if (!has_places) continue;
      const auto same = std::ranges::find_if(records, [&](const InfoRecord& o) { return o.format == r.format && o.attribute == r.attribute; });
      if (same == records.end()) records.push_back(std::move(r));
      else same->payload.insert(same->payload.end(), r.payload.begin(), r.payload.end());
    }
    image.set_info_records(*kernel.info_section, records);
  }
  return {};
}

}  // namespace xtrace::cubin
