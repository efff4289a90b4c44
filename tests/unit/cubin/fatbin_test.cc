#include "instrument/cubin/fatbin.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <zstd.h>

#include "cubins.h"

namespace xtrace::cubin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kZstd = 0x8000, kLz4 = 0x2000;

void add_entry(Bytes& fatbin, uint16_t kind, uint32_t sm, uint64_t flags, ByteView stored,
               uint64_t uncompressed) {
  const uint64_t padded = align_up(stored.size(), 8);
  const uint64_t start = fatbin.size();
  fatbin.resize(start + 64);
  const auto put = [&](uint64_t at, auto value) { write_at(std::span(fatbin), start + at, value); };
  put(0, kind);
  put(2, uint16_t{0x101});
  put(4, uint32_t{64});
  put(8, padded);
  put(16, uncompressed == 0 ? 0u : static_cast<uint32_t>(stored.size()));
  put(28, sm);
  put(40, flags);
  put(56, uncompressed);
  fatbin.insert(fatbin.end(), stored.begin(), stored.end());
  fatbin.resize(start + 64 + padded);
}

Bytes wrap(const Bytes& entries) {
  Bytes fatbin;
  append(fatbin, uint32_t{0xBA55ED50});
  append(fatbin, uint16_t{1});
  append(fatbin, uint16_t{16});
  append(fatbin, uint64_t{entries.size()});
  fatbin.insert(fatbin.end(), entries.begin(), entries.end());
  return fatbin;
}

Bytes compressed(const Bytes& plain) {
  Bytes out(ZSTD_compressBound(plain.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 3));
  return out;
}

// An ELF file of the host with one section of that name.
Bytes host_file(const std::string& section, const Bytes& data) {
  const std::string names = '\0' + section + '\0' + ".shstrtab" + '\0';
  Elf64_Ehdr h{};
  std::memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = ELFCLASS64;
  h.e_ident[EI_DATA] = ELFDATA2LSB;
  h.e_machine = EM_X86_64;
  h.e_ehsize = sizeof h;
  h.e_shentsize = sizeof(Elf64_Shdr);
  h.e_shnum = 3;
  h.e_shstrndx = 2;
  h.e_shoff = align_up(sizeof h + data.size() + names.size(), 8);
  Elf64_Shdr sections[3]{};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_PROGBITS;
  sections[1].sh_offset = sizeof h;
  sections[1].sh_size = data.size();
  sections[2].sh_name = static_cast<uint32_t>(section.size() + 2);
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = sizeof h + data.size();
  sections[2].sh_size = names.size();
  Bytes file;
  append(file, h);
  file.insert(file.end(), data.begin(), data.end());
  for (const char c : names) file.push_back(std::byte(c));
  file.resize(h.e_shoff);
  append(file, sections);
  return file;
}

TEST(Fatbin, EntriesOfAHostFile) {
  const Bytes cubin = fixture("sm_90/plain"), other = fixture("sm_80/calls");
  Bytes first, second;
  add_entry(first, 2, 90, kZstd | 0x100011, compressed(cubin), cubin.size());
  add_entry(first, 1, 120, 0x11, Bytes(13, std::byte{'x'}), 0);
  add_entry(second, 2, 80, 0x11, other, 0);
  Bytes section(8);  // fatbins need not start at the beginning
  for (const Bytes& part : {wrap(first), Bytes(16), wrap(second)})
    section.insert(section.end(), part.begin(), part.end());
  const Bytes file = host_file(".nv_fatbin", section);

  const auto entries = fatbin_entries(file);
  ASSERT_TRUE(entries.has_value()) << entries.error().to_string();
  ASSERT_EQ(entries->size(), 3u);
  const auto& e = *entries;
  EXPECT_EQ(e[0].kind, FatbinEntry::Kind::cubin);
  EXPECT_EQ(e[0].sm, 90u);
  EXPECT_EQ(e[0].sm_suffix, 'a');
  EXPECT_EQ(e[0].compression, FatbinEntry::Compression::zstd);
  EXPECT_EQ(e[1].kind, FatbinEntry::Kind::ptx);
  EXPECT_EQ(e[1].sm, 120u);
  EXPECT_EQ(e[2].sm, 80u);
  EXPECT_EQ(e[2].sm_suffix, '\0');
  EXPECT_EQ(*unwrap(file, e[0]), cubin);
  EXPECT_EQ(unwrap(file, e[1])->at(12), std::byte{'x'});
  EXPECT_EQ(*unwrap(file, e[2]), other);
  EXPECT_THAT(*kernel_names(file, e[0]), ElementsAre("scale", "block_sum"));
  EXPECT_THAT(*kernel_names(file, e[2]), ElementsAre("calls"));
  EXPECT_EQ(kernel_names(file, e[1]).error().kind, ErrorKind::unsupported);
}

TEST(Fatbin, ABareFatbinAndACubin) {
  const Bytes cubin = fixture("sm_90/plain");
  Bytes entries;
  add_entry(entries, 2, 90, 0x11, cubin, 0);
  const Bytes fatbin = wrap(entries);
  ASSERT_EQ(fatbin_entries(fatbin)->size(), 1u);
  EXPECT_EQ(*unwrap(fatbin, fatbin_entries(fatbin)->front()), cubin);
  const auto alone = fatbin_entries(cubin);
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(alone->front().sm, 90u);
  EXPECT_EQ(*unwrap(cubin, alone->front()), cubin);
}

// Literals "abcd", a match of 8 at distance 4, literals "xyz" (block format, written by hand).
TEST(Fatbin, Lz4) {
  const uint8_t block[] = {0x44, 'a', 'b', 'c', 'd', 4, 0, 0x30, 'x', 'y', 'z'};
  const ByteView stored = std::as_bytes(std::span(block));
  const std::string want = "abcdabcdabcdxyz";
  Bytes entries;
  add_entry(entries, 1, 90, kLz4, stored, want.size());
  const Bytes fatbin = wrap(entries);
  const auto out = unwrap(fatbin, fatbin_entries(fatbin)->front());
  ASSERT_TRUE(out.has_value()) << out.error().to_string();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out->data()), out->size()), want);

  // A run of 300 literals has a length in two more bytes.
  Bytes lengths{std::byte{0xf0}, std::byte{255}, std::byte{30}};
  lengths.resize(lengths.size() + 300, std::byte{'q'});
  Bytes more;
  add_entry(more, 1, 90, kLz4, lengths, 300);
  const Bytes longer = wrap(more);
  EXPECT_EQ(*unwrap(longer, fatbin_entries(longer)->front()), Bytes(300, std::byte{'q'}));
}

TEST(Fatbin, DamageIsNamed) {
  const uint8_t block[] = {0x44, 'a', 'b', 'c', 'd', 9, 0, 0x00};
  Bytes entries;
  add_entry(entries, 1, 90, kLz4, std::as_bytes(std::span(block)), 12);
  Bytes fatbin = wrap(entries);
  EXPECT_THAT(unwrap(fatbin, fatbin_entries(fatbin)->front()).error().message, HasSubstr("lz4 distance 9"));

  const Bytes cubin = fixture("sm_90/plain");
  Bytes zstd;
  add_entry(zstd, 2, 90, kZstd, compressed(cubin), cubin.size() + 1);
  fatbin = wrap(zstd);
  EXPECT_THAT(unwrap(fatbin, fatbin_entries(fatbin)->front()).error().message, HasSubstr("zstd frame"));
  write_at(std::span(fatbin), 16 + 8, uint64_t{1} << 40);  // stored bytes
  EXPECT_THAT(fatbin_entries(fatbin).error().message,
              HasSubstr("fatbin entry at 0x10 claims 0x10000000000 bytes"));
  write_at(std::span(fatbin), 16 + 4, uint32_t{8});  // header bytes
  EXPECT_THAT(fatbin_entries(fatbin).error().message,
              HasSubstr("expected a header of 64 bytes or more, found 8"));
  write_at(std::span(fatbin), 8, ~uint64_t{0});
  EXPECT_THAT(fatbin_entries(fatbin).error().message, HasSubstr("fatbin at 0x0 claims"));
  EXPECT_THAT(fatbin_entries(Bytes(100)).error().message, HasSubstr("neither an ELF file nor a fatbin"));
  EXPECT_THAT(fatbin_entries(host_file(".data", Bytes(64))).error().message, HasSubstr("no device code"));
  EXPECT_FALSE(fatbin_entries(Bytes(2)).has_value());
}

}  // namespace
}  // namespace xtrace::cubin
