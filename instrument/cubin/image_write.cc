#include <elf.h>

#include <algorithm>

#include "instrument/cubin/image.h"

namespace xtrace::cubin {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 31;
constexpr uint64_t kTableAlignment = 8;

// One piece of the file: the ELF header, a header table or the bytes of a section.
struct Block {
  uint64_t old_offset = 0, old_size = 0, align = 1;
  uint64_t new_offset = 0, new_size = 0;
  int64_t section = -1;  // below 0: header or table, copied from the original and patched afterwards
  uint64_t old_end() const { return old_offset + old_size; }
  uint64_t new_end() const { return new_offset + new_size; }
};

// The first offset from `from` on that is congruent to `like`: keeps even a section whose offset never agreed
// with its own alignment where it was.
uint64_t next_like(uint64_t from, uint64_t like, uint64_t align) {
  const uint64_t want = like % align, have = from % align;
  return from + (want + align - have) % align;
}

}  // namespace

struct Image::Writer {
  const Image& image;
  Elf64_Ehdr header{};
  std::vector<Block> blocks;  // in file order
  uint64_t new_size = 0;

  explicit Writer(const Image& i) : image(i) { std::memcpy(&header, i.original_.data(), sizeof header); }

  void collect() {
    blocks.push_back({0, sizeof(Elf64_Ehdr), 1, 0, sizeof(Elf64_Ehdr), -1});
    const uint64_t section_table = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
    blocks.push_back({header.e_shoff, section_table, kTableAlignment, 0, section_table, -1});
    if (header.e_phnum != 0) {
      const uint64_t segments = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
      blocks.push_back({header.e_phoff, segments, kTableAlignment, 0, segments, -1});
    }
    for (uint32_t i = 0; i < image.sections_.size(); ++i) {
      const Section& s = image.sections_[i];
      if (s.type == SHT_NULL || s.nobits() || image.shares_with_[i] != i) continue;
      blocks.push_back({image.offsets_[i], image.original_sizes_[i], std::max<uint64_t>(s.addralign, 1), 0,
                        s.data.size(), i});
    }
    // Empty blocks come before the one that starts where they stand: they may have grown.
    std::stable_sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
      return a.old_offset != b.old_offset ? a.old_offset < b.old_offset
                                          : (a.old_size == 0) > (b.old_size == 0);
    });
  }

  // Keeps the order, and of every gap what was more than alignment.
  void place() {
    uint64_t old_end = 0, new_end = 0;
    for (Block& b : blocks) {
      const uint64_t spare = b.old_offset - next_like(old_end, b.old_offset, b.align);
      b.new_offset = next_like(new_end, b.old_offset, b.align) + spare;
      old_end = std::max(old_end, b.old_end());
      new_end = b.new_end();
    }
    new_size = new_end + (image.original_.size() - old_end);
  }

  // Where a position of the old file went. `end`: the position ends what stands before it.
  uint64_t moved(uint64_t position, bool end) const {
    const auto next = std::partition_point(blocks.begin(), blocks.end(), [&](const Block& b) {
      return end ? b.old_offset < position : b.old_offset <= position;
    });
    if (next == blocks.begin()) return position;  // only position 0 as an end
    const Block& b = *std::prev(next);
    const uint64_t limit = next == blocks.end() ? new_size : next->new_offset;
    if (position >= b.old_end()) return std::min(b.new_end() + (position - b.old_end()), limit);
    return b.new_offset + std::min(position - b.old_offset, b.new_size);
  }

  Bytes bytes() const {
    const Bytes& old = image.original_;
    Bytes out(new_size);
    uint64_t old_end = 0, new_end = 0;
    const auto copy_gap = [&](uint64_t old_next, uint64_t new_next) {
      if (old_next <= old_end || new_next <= new_end) return;
      std::copy_n(old.begin() + old_end, std::min(old_next - old_end, new_next - new_end),
                  out.begin() + new_end);
    };
    for (const Block& b : blocks) {
      copy_gap(b.old_offset, b.new_offset);
      if (b.section >= 0) {
        std::ranges::copy(image.sections_[b.section].data, out.begin() + b.new_offset);
      } else {
        std::copy_n(old.begin() + b.old_offset, b.old_size, out.begin() + b.new_offset);
      }
      old_end = std::max(old_end, b.old_end());
      new_end = b.new_end();
    }
    copy_gap(old.size(), new_size);
    return out;
  }

  void patch_headers(Bytes& out) const {
    Elf64_Ehdr h = header;
    h.e_shoff = moved(header.e_shoff, false);
    if (header.e_phnum != 0) h.e_phoff = moved(header.e_phoff, false);
    write_at(out, 0, h);

    std::vector<uint64_t> offsets(image.sections_.size());
    for (const Block& b : blocks)
      if (b.section >= 0) offsets[b.section] = b.new_offset;
    for (uint32_t i = 0; i < image.sections_.size(); ++i) {
      const Section& s = image.sections_[i];
      Elf64_Shdr sh;
      std::memcpy(&sh, image.original_.data() + header.e_shoff + i * sizeof sh, sizeof sh);
      if (s.type == SHT_NULL) continue;
      if (s.nobits()) {
        sh.sh_offset = sh.sh_offset <= image.original_.size() ? moved(sh.sh_offset, false) : sh.sh_offset;
      } else {
        sh.sh_offset = offsets[image.shares_with_[i]];
        sh.sh_size = s.data.size();
      }
      sh.sh_info = s.info;
      write_at(out, h.e_shoff + i * sizeof sh, sh);
    }

    for (uint32_t i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr ph;
      std::memcpy(&ph, image.original_.data() + header.e_phoff + i * sizeof ph, sizeof ph);
      const uint64_t begin = moved(ph.p_offset, false);
      const uint64_t size = ph.p_filesz == 0 ? 0 : moved(ph.p_offset + ph.p_filesz, true) - begin;
      ph.p_memsz +=
          size - ph.p_filesz;  // what has no bytes in the file (NOBITS sections) stays as large as it was
      ph.p_offset = begin;
      ph.p_filesz = size;
      write_at(out, h.e_phoff + i * sizeof ph, ph);
    }
  }
};

Result<Bytes> Image::write() const {
  Writer w(*this);
  w.collect();
  w.place();
  if (w.new_size > kMaxFileBytes)
    return unsupported("the edited cubin would have {} bytes, the limit is {}", w.new_size, kMaxFileBytes);
  Bytes out = w.bytes();
  w.patch_headers(out);
  return out;
}

}  // namespace xtrace::cubin
