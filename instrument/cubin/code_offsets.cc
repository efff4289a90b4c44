// map_code_offsets: everything outside the code that names a position in the code.
#include <elf.h>

#include <algorithm>

#include "instrument/cubin/code_map.h"
#include "instrument/cubin/eiattr.h"

namespace xtrace::cubin {
namespace {

constexpr unsigned kFirstSm = 70;  // 16-byte instructions
constexpr uint8_t kCoroutineResume = 0x3a;

// Relocation types by what they patch (R_CUDA_*) [nvdisasm 13]. Data words only: these carry an implicit
// addend in REL.
constexpr uint32_t kWords32[] = {1, 3, 34, 103};  // 32, G32, FUNC_DESC_32, UNIFIED_32
constexpr uint32_t kWords64[] = {2, 4, 35, 102};  // 64, G64, FUNC_DESC_64, UNIFIED
constexpr uint32_t kUnusedClear[] = {72, 73};     // marks a word, has no addend

using Words = std::vector<uint32_t>;

Words words_of(const InfoRecord& r) {
  Words w(r.payload.size() / sizeof(uint32_t));
  std::memcpy(w.data(), r.payload.data(), w.size() * sizeof(uint32_t));
  return w;
}

Status set_words(InfoRecord& r, const Words& w, std::string_view name) {
  const size_t bytes = w.size() * sizeof(uint32_t);
  if (bytes > 0xffff)
    return unsupported(
        "EIATTR_{} would need {} bytes, a record holds at most 65535: the code has too many copies", name,
        bytes);
  r.payload.resize(bytes);
  std::memcpy(r.payload.data(), w.data(), bytes);
  return {};
}

// The rows of `groups` words with the offset at `index`: first the row of every entry for the primary copy,
// then for the second copy, and so on, so that ascending lists stay ascending. `extra` rows of a parallel
// list go along.
Result<Words> map_groups(const CodeMap& map, const Words& old, size_t group, size_t index,
                         std::string_view what, const Words* parallel = nullptr) {
  std::vector<std::vector<uint32_t>> places;
  size_t most = 1;
  for (size_t at = index; at < old.size(); at += group) {
    XT_TRY(auto copies, map.copies(old[at], what));
    most = std::max(most, copies.size());
    places.push_back(std::move(copies));
  }
  Words out;
  for (size_t copy = 0; copy < most; ++copy) {
    for (size_t entry = 0; entry < places.size(); ++entry) {
      if (copy >= places[entry].size()) continue;
      if (parallel != nullptr) {
        out.push_back((*parallel)[entry]);
        continue;
      }
      const size_t at = out.size();
      out.insert(out.end(), old.begin() + entry * group, old.begin() + (entry + 1) * group);
      out[at + index] = places[entry][copy];
    }
  }
  return out;
}

Result<Words> map_branch_targets(const CodeMap& map, const Words& old, std::string_view what) {
  Words out;
  for (size_t at = 0; at < old.size();) {
    if (old.size() - at < 3 || old[at + 2] > old.size() - at - 3)
      return bad_input("{}: truncated record at word {} of {}", what, at, old.size());
    const uint32_t count = old[at + 2];
    XT_TRY(const auto branch, map.copies(old[at], what));
    std::vector<std::vector<uint32_t>> targets;
    for (uint32_t i = 0; i < count; ++i) {
      XT_TRY(auto target, map.copies(old[at + 3 + i], what));
      targets.push_back(std::move(target));
    }
    for (size_t copy = 0; copy < branch.size(); ++copy) {
      out.insert(out.end(), {branch[copy], old[at + 1], count});
      // A target without a copy of its own is shared by all copies of the branch.
      for (const auto& t : targets) out.push_back(copy < t.size() ? t[copy] : t.front());
    }
    at += 3 + count;
  }
  return out;
}

Status map_info_records(Image& image, const KernelInfo& kernel, const CodeMap& map) {
  if (!kernel.info_section) return {};
  XT_TRY(std::vector<InfoRecord> records, image.info_records(*kernel.info_section));
  std::vector<Words> coop_groups;  // of the old records, for the lists that run in parallel
  for (const InfoRecord& r : records)
    if (r.format == 4 && r.attribute == eiattr::kCoopGroupInstrOffsets) coop_groups.push_back(words_of(r));
  size_t coop_masks = 0;

  for (InfoRecord& r : records) {
    if (r.format != 4) continue;
    const Eiattr& row = *find_eiattr(r.attribute);  // unknown ones were refused before
    const std::string what = fmt::format("EIATTR_{} of {}", row.name, kernel.name);
    const Words old = words_of(r);
    size_t group = 1, index = 0;
    const Words* parallel = nullptr;
    switch (row.payload) {
      case Eiattr::Payload::offsets:
        break;
      case Eiattr::Payload::first_of_2:
        group = 2;
        break;
      case Eiattr::Payload::second_of_2:
        group = 2, index = 1;
        break;
      case Eiattr::Payload::first_of_4:
        group = 4;
        break;
      case Eiattr::Payload::branch_targets: {
        XT_TRY(const Words mapped, map_branch_targets(map, old, what));
        XT_TRY_STATUS(set_words(r, mapped, row.name));
        continue;
      }
      case Eiattr::Payload::per_coop_group:
        parallel = &old;
        break;
      default:
        continue;
    }
    if (r.payload.size() % (group * sizeof(uint32_t)) != 0)
      return bad_input("{}: expected groups of {} bytes, found {} bytes", what, group * sizeof(uint32_t),
                       r.payload.size());
    const Words* offsets = &old;
    if (parallel != nullptr) {
      if (coop_masks >= coop_groups.size() || coop_groups[coop_masks].size() != old.size())
        return bad_input("{} has {} entries, EIATTR_COOP_GROUP_INSTR_OFFSETS does not have as many", what,
                         old.size());
      offsets = &coop_groups[coop_masks++];
    }
    XT_TRY(const Words mapped, map_groups(map, *offsets, group, index, what, parallel));
    if (r.attribute == kCoroutineResume && mapped.size() != old.size())
      return unsupported("{}: a resume point cannot stand in several copies of the code", what);
    XT_TRY_STATUS(set_words(r, mapped, row.name));
  }
  image.set_info_records(*kernel.info_section, records);
  return {};
}

Status map_symbols(Image& image, const KernelInfo& kernel, const CodeMap& map) {
  for (const auto& [index, old_value] : map.old_values) {
    const Symbol s = image.symbols()[index];
    if ((s.info & 0xf) == STT_SECTION) continue;
    const std::string what = "symbol " + s.name;
    uint64_t value = s.value;
    if (s.value > map.old_bytes)
      return bad_input("{} stands at {:#x}, {} has {:#x} bytes", what, s.value, map.text_name, map.old_bytes);
    // The kernel starts where its section starts, with whatever was put in front of its first instruction.
    if (!(index == kernel.symbol && s.value == 0)) {
      XT_TRY(value, map.position(s.value, what));
    }
    uint64_t size = s.size;
    if (s.size != 0) {
      if (s.size > map.old_bytes - s.value)
        return bad_input("{} covers {:#x} bytes from {:#x} on, {} has {:#x}", what, s.size, s.value,
                         map.text_name, map.old_bytes);
      const uint64_t old_end = s.value + s.size;
      const uint64_t end = index == kernel.symbol && old_end == map.old_bytes
                               ? map.moved.new_text_bytes
                               : map.moved.boundary(static_cast<uint32_t>(old_end));
      if (end < value) return internal("{} would end at {:#x}, before it starts at {:#x}", what, end, value);
      size = end - value;
    }
    image.set_symbol(index, value, size);
  }
  return {};
}

// The addend of a relocation against a symbol of the moved text names a position relative to the symbol: the
// symbol alone (0) stays the symbol, anything else follows the instruction it names, into copy `copy` where
// there is one.
Result<int64_t> map_addend(const Image& image, const CodeMap& map, const Relocation& r, int64_t addend,
                           size_t copy) {
  if (addend == 0 || !map.in_text(r.symbol)) return addend;
  const uint64_t old_position = map.old_values.at(r.symbol) + addend;
  const std::string what = fmt::format("addend of the relocation at {:#x} of {}", r.offset,
                                       image.sections()[r.target_section].name);
  const uint64_t base = image.symbols()[r.symbol].value;
  if (old_position == map.old_bytes) {
    XT_TRY(const uint32_t end, map.position(old_position, what));
    return static_cast<int64_t>(end - base);
  }
  XT_TRY(const auto copies, map.copies(old_position, what));
  return static_cast<int64_t>((copy < copies.size() ? copies[copy] : copies.front()) - base);
}

Status map_text_relocation(Image& image, const CodeMap& map, size_t index, const Relocation& r) {
  const std::string what = fmt::format("relocation of type {} at {:#x}", r.type, r.offset);
  const uint64_t inside = r.offset % CodeMap::kInstructionBytes;
  XT_TRY(const auto copies, map.copies(r.offset - inside, what));
  if (!r.has_addend && map.in_text(r.symbol)) {
    // REL: the addend stands in the immediate of the instruction, which belongs to the code.
    const ByteView code = image.original_data(map.text_section);
    XT_TRY(const uint32_t immediate, read_at<uint32_t>(code, r.offset - inside + 4, "instruction"));
    if (immediate != 0)
      return unsupported("{} of {} names {} + {:#x} by an immediate in the code", what, map.text_name,
                         image.symbols()[r.symbol].name, immediate);
  }
  for (size_t copy = 0; copy < copies.size(); ++copy) {
    Relocation moved = r;
    moved.offset = copies[copy] + inside;
    XT_TRY(moved.addend, map_addend(image, map, r, r.addend, copy));
    if (copy == 0) {
      image.set_relocation(index, moved.offset, moved.addend);
    } else {
      image.add_relocation(moved);
    }
  }
  return {};
}

// An addend that REL keeps in the patched data.
Status map_implicit_addend(const Image& image, const CodeMap& map, const Relocation& r, Bytes& data) {
  const auto is = [&](const auto& types) { return std::ranges::find(types, r.type) != std::end(types); };
  const Section& target = image.sections()[r.target_section];
  const std::string& where = target.name;
  if (is(kUnusedClear)) return {};
  const bool wide = is(kWords64);
  if (!wide && !is(kWords32)) {
    // Code of another kernel that names this one, e.g. a call: an implicit addend of 0 needs no change.
    uint32_t immediate = 0;
    if ((target.flags & SHF_EXECINSTR) != 0) {
      XT_TRY(immediate, read_at<uint32_t>(data, r.offset + 4, "patched instruction in " + where));
      if (immediate == 0) return {};
    }
    return unsupported("relocation of type {} at {:#x} of {} against {} + {:#x}: addend in an unknown place",
                       r.type, r.offset, where, image.symbols()[r.symbol].name, immediate);
  }
  if (wide) {
    XT_TRY(const int64_t addend, read_at<int64_t>(data, r.offset, "relocated word of " + where));
    XT_TRY(const int64_t mapped, map_addend(image, map, r, addend, 0));
    write_at(std::span(data), r.offset, mapped);
  } else {
    XT_TRY(const int32_t addend, read_at<int32_t>(data, r.offset, "relocated word of " + where));
    XT_TRY(const int64_t mapped, map_addend(image, map, r, addend, 0));
    write_at(std::span(data), r.offset, static_cast<int32_t>(mapped));
  }
  return {};
}

bool is_line_table(std::string_view name) { return name == ".debug_line" || name == ".nv_debug_line_sass"; }
bool is_debug(std::string_view name) { return name.starts_with(".debug_") || name.starts_with(".nv_debug_"); }

Status map_relocations(Image& image, const CodeMap& map) {
  const std::vector<Relocation> all = image.relocations();
  std::map<uint32_t, Bytes> patched;
  for (size_t i = 0; i < all.size(); ++i) {
    const Relocation& r = all[i];
    if (r.target_section == map.text_section) {
      XT_TRY_STATUS(map_text_relocation(image, map, i, r));
      continue;
    }
    const Section& target = image.sections()[r.target_section];
    if (!map.in_text(r.symbol) || is_debug(target.name)) continue;
    if (r.has_addend) {
      XT_TRY(const int64_t addend, map_addend(image, map, r, r.addend, 0));
      image.set_relocation(i, r.offset, addend);
    } else {
      if (target.nobits() || target.type == SHT_REL || target.type == SHT_RELA || target.type == SHT_SYMTAB)
        return bad_input("relocation at {:#x} patches section {} of type {:#x}", r.offset, target.name,
                         target.type);
      const auto [data, fresh] = patched.try_emplace(r.target_section, target.data);
      XT_TRY_STATUS(map_implicit_addend(image, map, r, data->second));
    }
  }
  for (auto& [section, data] : patched)
    if (data != image.sections()[section].data) image.set_section_data(section, std::move(data));
  return {};
}

bool mentions_text(const Image& image, const CodeMap& map, uint32_t section) {
  for (const Relocation& r : image.relocations())
    if (r.target_section == section && map.in_text(r.symbol)) return true;
  return false;
}

void map_debug_sections(Image& image, const CodeMap& map, MovedReport& report) {
  // Sections without code positions.
  constexpr std::string_view kHarmless[] = {".debug_str", ".debug_abbrev", ".nv_debug_ptx_txt",
                                            ".nv_debug_info_ptx"};
  for (uint32_t i = 1; i < image.sections().size(); ++i) {
    const std::string name = image.sections()[i].name;
    if (!is_debug(name) || image.sections()[i].type != SHT_PROGBITS || image.sections()[i].size == 0 ||
        std::ranges::find(kHarmless, name) != std::end(kHarmless))
      continue;
    if (name == ".debug_frame" || is_line_table(name)) {
      if (!mentions_text(image, map, i)) continue;
      const Status moved =
          name == ".debug_frame" ? move_debug_frame(image, map, i) : move_line_table(image, map, i);
      if (!moved)
        report.dropped.push_back(
            fmt::format("{}: stale, kept verbatim ({})", name.substr(1), moved.error().message));
      continue;
    }
    report.dropped.push_back(fmt::format("{}: stale, kept verbatim", name.substr(1)));
  }
  const bool mercury = std::ranges::any_of(image.sections(), [](const Section& s) {
    return s.name.starts_with(".nv.capmerc.") || s.name.starts_with(".nv.merc.");
  });
  if (mercury) report.dropped.push_back("nv.capmerc, nv.merc: stale, kept verbatim");
}

}  // namespace

Result<MovedReport> map_code_offsets(Image& image, const KernelInfo& kernel, const MovedCode& moved) {
  XT_CHECK(kernel.text_section < image.sections().size(), "kernel of another image");
  CodeMap map{moved,
              kernel.text_section,
              image.original_data(kernel.text_section).size(),
              image.sections()[kernel.text_section].name,
              {}};
  if (image.sm() < kFirstSm)
    return unsupported("sm_{} of kernel {}: code can be moved from sm_{} on", image.sm(), kernel.name,
                       kFirstSm);
  if (!kernel.unknown_payload_attributes.empty()) {
    const uint8_t code = kernel.unknown_payload_attributes.front();
    const Eiattr* row = find_eiattr(code);
    return with_hint(
        unsupported("kernel {} has attribute {:#x} (EIATTR_{}), which may hold instruction offsets in an "
                    "unknown layout",
                    kernel.name, code, row == nullptr ? "?" : row->name),
        "record this kernel from a cubin of a known compiler version");
  }
  for (uint32_t i = 1; i < image.symbols().size(); ++i)
    if (image.symbols()[i].section == kernel.text_section) map.old_values[i] = image.symbols()[i].value;

  MovedReport report;
  XT_TRY_STATUS(map_info_records(image, kernel, map));
  XT_TRY_STATUS(map_symbols(image, kernel, map));
  map_debug_sections(image, map, report);
  XT_TRY_STATUS(map_relocations(image, map));
  return report;
}

}  // namespace xtrace::cubin
