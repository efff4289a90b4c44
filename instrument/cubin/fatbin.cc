#include "instrument/cubin/fatbin.h"

#include <elf.h>
#include <zstd.h>

#include <algorithm>

#include "instrument/cubin/image.h"

namespace xtrace::cubin {
namespace {

constexpr uint32_t kMagic = 0xBA55ED50;
constexpr uint16_t kMachineCuda = 190;
constexpr uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000, kFlagExact = 0x100000, kFlagFamily = 0x200000;
constexpr uint64_t kMaxUncompressed = uint64_t{1} << 30;
constexpr uint64_t kFatbinAlignment = 8;

struct FatbinHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
};
struct EntryHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t stored_bytes;
  uint32_t compressed_bytes, unknown_20, unknown_24, sm, unknown_32, unknown_36;
  uint64_t flags, unknown_48, uncompressed_bytes;
};
static_assert(sizeof(FatbinHeader) == 16 && sizeof(EntryHeader) == 64);

Result<FatbinEntry> read_entry(ByteView file, uint64_t at, uint64_t end) {
  XT_TRY(const EntryHeader h, read_at<EntryHeader>(file.first(end), at, "fatbin entry"));
  if (h.header_bytes < sizeof(EntryHeader) || h.header_bytes > end - at)
    return bad_input("fatbin entry at {:#x}: expected a header of {} bytes or more, found {}", at,
                     sizeof(EntryHeader), h.header_bytes);
  if (h.stored_bytes > end - at - h.header_bytes)
    return bad_input("fatbin entry at {:#x} claims {:#x} bytes, {:#x} are left", at, h.stored_bytes,
                     end - at - h.header_bytes);
  FatbinEntry e;
  e.raw_kind = h.kind;
  e.kind = h.kind == 1   ? FatbinEntry::Kind::ptx
           : h.kind == 2 ? FatbinEntry::Kind::cubin
                         : FatbinEntry::Kind::other;
  e.sm = h.sm;
  e.flags = h.flags;
  e.sm_suffix = (h.flags & kFlagExact) != 0 ? 'a' : (h.flags & kFlagFamily) != 0 ? 'f' : '\0';
  e.offset = at + h.header_bytes;
  e.stored_bytes = h.stored_bytes;
  if ((h.flags & (kFlagZstd | kFlagLz4)) != 0) {
    e.compression =
        (h.flags & kFlagZstd) != 0 ? FatbinEntry::Compression::zstd : FatbinEntry::Compression::lz4;
    e.uncompressed_bytes = h.uncompressed_bytes;
    if (h.compressed_bytes > h.stored_bytes)
      return bad_input("fatbin entry at {:#x}: {:#x} compressed bytes in {:#x} stored ones", at,
                       h.compressed_bytes, h.stored_bytes);
    e.stored_bytes = h.compressed_bytes;
  }
  return e;
}

// Fatbins one behind the other in [begin, end), with padding in between.
Status read_fatbins(ByteView file, uint64_t begin, uint64_t end, std::vector<FatbinEntry>& entries) {
  for (uint64_t at = begin; at + sizeof(FatbinHeader) <= end;) {
    XT_TRY(const FatbinHeader h, read_at<FatbinHeader>(file, at, "fatbin header"));
    if (h.magic != kMagic) {
      at += kFatbinAlignment;
      continue;
    }
    if (h.header_bytes < sizeof(FatbinHeader) || h.header_bytes > end - at ||
        h.bytes > end - at - h.header_bytes)
      return bad_input("fatbin at {:#x} claims a header of {} bytes and {:#x} bytes, {:#x} are left", at,
                       h.header_bytes, h.bytes, end - at);
    const uint64_t stop = at + h.header_bytes + h.bytes;
    for (uint64_t entry = at + h.header_bytes; entry < stop;) {
      XT_TRY(FatbinEntry e, read_entry(file, entry, stop));
      XT_TRY(const EntryHeader raw, read_at<EntryHeader>(file, entry, "fatbin entry"));
      entry += raw.header_bytes + raw.stored_bytes;
      entries.push_back(std::move(e));
    }
    at = align_up(stop, kFatbinAlignment);
  }
  return {};
}

Result<std::vector<FatbinEntry>> from_host_elf(ByteView file, const Elf64_Ehdr& header) {
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_shentsize != sizeof(Elf64_Shdr))
    return bad_input("expected a 64-bit little-endian ELF file with section headers");
  const auto section = [&](uint64_t i) {
    return read_at<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr), "section header");
  };
  XT_TRY(const Elf64_Shdr names_header, section(header.e_shstrndx));
  XT_TRY(const ByteView names,
         slice(file, names_header.sh_offset, names_header.sh_size, "section name table"));
  const std::string_view name_table(reinterpret_cast<const char*>(names.data()), names.size());
  std::vector<FatbinEntry> entries;
  for (uint64_t i = 1; i < header.e_shnum; ++i) {
    XT_TRY(const Elf64_Shdr s, section(i));
    if (s.sh_name >= name_table.size()) return bad_input("name of section {} lies outside the name table", i);
    const std::string_view name = name_table.substr(s.sh_name, name_table.find('\0', s.sh_name) - s.sh_name);
    if ((name != ".nv_fatbin" && name != "__nv_relfatbin") || s.sh_type == SHT_NOBITS) continue;
    XT_TRY_STATUS(slice(file, s.sh_offset, s.sh_size, name));
    if (auto read = read_fatbins(file, s.sh_offset, s.sh_offset + s.sh_size, entries); !read)
      return tl::make_unexpected(std::move(read).error().in(fmt::format("section {}", name)));
  }
  if (entries.empty())
    return bad_input("no device code in this file: it has no .nv_fatbin section with entries");
  return entries;
}

// LZ4 block format: a token with two lengths, literals, a 16-bit distance back [public LZ4 block format].
Result<Bytes> decompress_lz4(ByteView in, uint64_t size) {
  Bytes out;
  out.reserve(size);
  uint64_t at = 0;
  const auto more = [&](uint64_t length) -> Result<uint64_t> {
    if (length != 15) return length;
    for (uint8_t b = 255; b == 255; length += b) {
      XT_TRY(b, read_at<uint8_t>(in, at, "lz4 length"));
      ++at;
    }
    return length;
  };
  while (at < in.size()) {
    XT_TRY(const uint8_t token, read_at<uint8_t>(in, at, "lz4 token"));
    ++at;
    XT_TRY(const uint64_t literals, more(token >> 4));
    XT_TRY(const ByteView run, slice(in, at, literals, "lz4 literals"));
    if (literals > size - out.size()) return bad_input("lz4 data exceeds the {} bytes it claims", size);
    out.insert(out.end(), run.begin(), run.end());
    at += literals;
    if (at >= in.size() || out.size() == size) break;
    XT_TRY(const uint16_t distance, read_at<uint16_t>(in, at, "lz4 distance"));
    at += sizeof distance;
    XT_TRY(uint64_t length, more(token & 15));
    length += 4;
    if (distance == 0 || distance > out.size())
      return bad_input("lz4 distance {} at {:#x} with {} bytes written", distance, at, out.size());
    if (length > size - out.size()) return bad_input("lz4 data exceeds the {} bytes it claims", size);
    for (uint64_t i = 0; i < length; ++i) out.push_back(out[out.size() - distance]);
  }
  if (out.size() != size) return bad_input("lz4 data gives {} bytes, its entry claims {}", out.size(), size);
  return out;
}

Result<Bytes> decompress_zstd(ByteView in, uint64_t size) {
  const unsigned long long claimed = ZSTD_getFrameContentSize(in.data(), in.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR || (claimed != ZSTD_CONTENTSIZE_UNKNOWN && claimed != size))
    return bad_input("zstd frame of a fatbin entry: expected {} bytes of content, its header does not agree",
                     size);
  Bytes out(size);
  const size_t got = ZSTD_decompress(out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(got) != 0) return bad_input("zstd frame of a fatbin entry: {}", ZSTD_getErrorName(got));
  if (got != size)
    return bad_input("zstd frame of a fatbin entry gives {} bytes, the entry claims {}", got, size);
  return out;
}

}  // namespace

Result<std::vector<FatbinEntry>> fatbin_entries(ByteView file) {
  XT_TRY(const uint32_t magic, read_at<uint32_t>(file, 0, "file"));
  if (magic == kMagic) {
    std::vector<FatbinEntry> entries;
    XT_TRY_STATUS(read_fatbins(file, 0, file.size(), entries));
    return entries;
  }
  if (file.size() < sizeof(Elf64_Ehdr) || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0)
    return bad_input("neither an ELF file nor a fatbin: the first word is {:#010x}", magic);
  XT_TRY(const Elf64_Ehdr header, read_at<Elf64_Ehdr>(file, 0, "ELF header"));
  if (header.e_machine != kMachineCuda) return from_host_elf(file, header);
  XT_TRY(const Image image, Image::parse(file));
  FatbinEntry whole;
  whole.kind = FatbinEntry::Kind::cubin;
  whole.raw_kind = 2;
  whole.sm = image.sm();
  whole.stored_bytes = file.size();
  return std::vector<FatbinEntry>{whole};
}

Result<Bytes> unwrap(ByteView file, const FatbinEntry& entry) {
  XT_TRY(const ByteView stored, slice(file, entry.offset, entry.stored_bytes, "fatbin entry"));
  if (entry.compression == FatbinEntry::Compression::none) return Bytes(stored.begin(), stored.end());
  if (entry.uncompressed_bytes > kMaxUncompressed)
    return unsupported("fatbin entry at {:#x} claims {} uncompressed bytes, the limit is {}", entry.offset,
                       entry.uncompressed_bytes, kMaxUncompressed);
  return entry.compression == FatbinEntry::Compression::zstd
             ? decompress_zstd(stored, entry.uncompressed_bytes)
             : decompress_lz4(stored, entry.uncompressed_bytes);
}

Result<std::vector<std::string>> kernel_names(ByteView file, const FatbinEntry& entry) {
  if (entry.kind != FatbinEntry::Kind::cubin)
    return unsupported("fatbin entry at {:#x} is of kind {}, only cubins (2) list their kernels",
                       entry.offset, entry.raw_kind);
  XT_TRY(const Bytes bytes, unwrap(file, entry));
  XT_TRY_IN(const Image image, Image::parse(bytes), "the fatbin entry at {:#x}", entry.offset);
  return image.kernels();
}

}  // namespace xtrace::cubin
