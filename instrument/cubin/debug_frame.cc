// Call frame information: start and length of each function, and where in it the frame changes.
#include <algorithm>

#include "base/bits.h"
#include "instrument/cubin/code_map.h"
#include "instrument/cubin/dwarf_cursor.h"

namespace xtrace::cubin {
namespace {

constexpr std::string_view kWhat = ".debug_frame";

// DW_CFA_* [DWARF 3, section 6.4.2]: the operands of each extended opcode. u ULEB, s SLEB, b block, 1/2/4/8
// bytes.
constexpr const char* kOperands[] = {"",   "8", "1", "2", "4",  "uu", "u",  "u", "u",  "uu", "",  "",
                                     "uu", "u", "u", "b", "ub", "us", "us", "s", "uu", "us", "ub"};
enum Cfa : uint8_t { kSetLoc = 0x01, kAdvance1 = 0x02, kAdvance2 = 0x03, kAdvance4 = 0x04 };

Status skip_operands(DwarfCursor& c, const char* operands) {
  for (const char* o = operands; *o != 0; ++o) {
    if (*o == 'u') {
      XT_TRY_STATUS(c.uleb());
    } else if (*o == 's') {
      XT_TRY_STATUS(c.sleb());
    } else if (*o == 'b') {
      XT_TRY(const uint64_t length, c.uleb());
      XT_TRY_STATUS(c.skip(length));
    } else {
      XT_TRY_STATUS(c.skip(*o - '0'));
    }
  }
  return {};
}

// The code alignment factor of the CIE at `at`.
Result<uint64_t> code_alignment(ByteView data, uint64_t at) {
  DwarfCursor c(data, at, data.size(), kWhat);
  XT_TRY(const auto unit, c.unit());
  XT_TRY(const uint64_t id, c.offset(unit.wide));
  if (id != (unit.wide ? ~uint64_t{0} : 0xffffffff)) return bad_input("{}: no CIE at {:#x}", kWhat, at);
  XT_TRY(const uint8_t version, c.fixed<uint8_t>());
  XT_TRY(const std::string_view augmentation, c.string());
  if (version != 3 || !augmentation.empty())
    return unsupported("{}: CIE of version {}, augmentation \"{}\"", kWhat, version, augmentation);
  XT_TRY(const uint64_t factor, c.uleb());
  if (factor == 0 || factor > CodeMap::kInstructionBytes)
    return bad_input("{}: code alignment factor {}", kWhat, factor);
  return factor;
}

// Rewrites the advances of one FDE in place.
Status move_advances(Bytes& data, DwarfCursor& c, const CodeMap& map, uint64_t factor, uint64_t old_start,
                     uint64_t new_start) {
  uint64_t old_at = old_start, new_at = new_start;
  while (!c.done()) {
    const uint64_t op_at = c.at();
    XT_TRY(const uint8_t op, c.fixed<uint8_t>());
    unsigned width = 0;
    uint64_t delta = 0;
    if (op >> 6 == 1) {
      delta = op & 0x3f;
    } else if (op >> 6 == 2) {
      XT_TRY_STATUS(c.uleb());
      continue;
    } else if (op >> 6 == 3) {
      continue;
    } else if (op == kAdvance1) {
      width = 1;
      XT_TRY(delta, c.fixed<uint8_t>());
    } else if (op == kAdvance2) {
      width = 2;
      XT_TRY(delta, c.fixed<uint16_t>());
    } else if (op == kAdvance4) {
      width = 4;
      XT_TRY(delta, c.fixed<uint32_t>());
    } else if (op == kSetLoc || op >= std::size(kOperands)) {
      return unsupported("{}: frame opcode {:#x}", kWhat, op);
    } else {
      XT_TRY_STATUS(skip_operands(c, kOperands[op]));
      continue;
    }
    old_at += delta * factor;
    // ptxas ends some entries with an advance of almost 4 GiB [measured, sm_80]: past all code, nothing to
    // move.
    if (old_at > map.old_bytes) continue;
    XT_TRY(const uint32_t place, map.position(old_at, kWhat));
    if (place < new_at || (place - new_at) % factor != 0)
      return unsupported("{}: the frame change at {:#x} does not move forward", kWhat, old_at);
    const uint64_t moved = (place - new_at) / factor;
    const uint64_t most = width == 0 ? 0x3f : low_mask(8 * width);
    if (moved > most)
      return unsupported("{}: the advance at {:#x} has {} bits, {} are needed for {:#x}", kWhat, op_at,
                         width == 0 ? 6 : 8 * width, width == 4 ? 64 : 32, moved);
    if (width == 0) write_at(std::span(data), op_at, static_cast<uint8_t>(0x40 | moved));
    if (width == 1) write_at(std::span(data), op_at + 1, static_cast<uint8_t>(moved));
    if (width == 2) write_at(std::span(data), op_at + 1, static_cast<uint16_t>(moved));
    if (width == 4) write_at(std::span(data), op_at + 1, static_cast<uint32_t>(moved));
    new_at = place;
  }
  return {};
}

}  // namespace

Status move_debug_frame(Image& image, const CodeMap& map, uint32_t section) {
  const std::vector<Relocation> all = image.relocations();
  std::map<uint64_t, size_t> at_offset;  // relocations of this section that name the moved code
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].target_section != section) continue;
    if (map.in_text(all[i].symbol)) at_offset[all[i].offset] = i;
  }

  Bytes data = image.sections()[section].data;
  // One factor for all: in relocatable files the pointer from an entry to its CIE is a relocation, and ptxas
  // 13 makes some of these 8 bytes too large [measured].
  std::optional<uint64_t> factor;
  std::map<size_t, int64_t> new_addends;  // of RELA
  DwarfCursor c(image.sections()[section].data, 0, data.size(), kWhat);
  while (!c.done()) {
    XT_TRY(const auto unit, c.unit());
    XT_TRY(const uint64_t cie, c.offset(unit.wide));
    const uint64_t start_at = c.at();
    c.seek(unit.end);
    if (cie == (unit.wide ? ~uint64_t{0} : 0xffffffff)) {
      XT_TRY(const uint64_t own, code_alignment(image.sections()[section].data, unit.length_at));
      if (factor.value_or(own) != own)
        return unsupported("{}: code alignment factors {} and {} in one section", kWhat, *factor, own);
      factor = own;
      continue;
    }
    const auto found = at_offset.find(start_at);
    if (found == at_offset.end()) continue;  // a function of another section

    if (!factor) return bad_input("{}: the entry at {:#x} has no CIE before it", kWhat, unit.length_at);
    const Relocation& r = all[found->second];
    DwarfCursor fde(image.sections()[section].data, start_at, unit.end, kWhat);
    XT_TRY(const int64_t in_place, fde.fixed<int64_t>());
    XT_TRY(const uint64_t range, fde.fixed<uint64_t>());
    const int64_t addend = r.has_addend ? r.addend : in_place;
    const uint64_t old_start = map.old_values.at(r.symbol) + addend;
    const uint64_t base = image.symbols()[r.symbol].value;
    uint64_t new_start = base;
    if (addend != 0) {
      XT_TRY(new_start, map.position(old_start, kWhat));
    }
    if (old_start > map.old_bytes || range > map.old_bytes - old_start)
      return bad_input("{}: a function at {:#x} claims {:#x} bytes, {} has {:#x}", kWhat, old_start, range,
                       map.text_name, map.old_bytes);
    const uint32_t new_end = map.moved.boundary(static_cast<uint32_t>(old_start + range));
    if (new_end < new_start)
      return internal("{}: the function at {:#x} ends before it starts", kWhat, new_start);
    XT_TRY_STATUS(move_advances(data, fde, map, *factor, old_start, new_start));
    write_at(std::span(data), start_at + sizeof(uint64_t), uint64_t{new_end - new_start});
    const int64_t new_addend = static_cast<int64_t>(new_start - base);
    if (r.has_addend) {
      new_addends[found->second] = new_addend;
    } else {
      write_at(std::span(data), start_at, new_addend);
    }
  }
  for (const auto& [index, addend] : new_addends) image.set_relocation(index, all[index].offset, addend);
  image.set_section_data(section, std::move(data));
  return {};
}

}  // namespace xtrace::cubin
