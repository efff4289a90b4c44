// Damaged cubins and fatbins: an error or a well-formed answer, never a crash; what parses is written back as
// it was.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/file.h"
#include "instrument/cubin/extract.h"
#include "instrument/cubin/fatbin.h"
#include "instrument/cubin/kernel_info.h"
#include "tests/fuzz/fuzz.h"

namespace xtrace::fuzz {
namespace {

const std::vector<Bytes>& seeds() {
  static const std::vector<Bytes> all = [] {
    std::vector<Bytes> files;
    for (const char* name : {"sm_80/calls", "sm_80/calls_lineinfo", "sm_80/jump_table", "sm_80/relocatable",
                             "sm_90/calls_lineinfo", "sm_90/jump_table", "sm_90/plain", "sm_90/plain_abi7",
                             "sm_90/variables", "sm_100/calls", "sm_100/variables", "sm_120/jump_table"}) {
      auto bytes = read_file(fmt::format("{}/fixtures/cubins/{}.cubin", XTRACE_SOURCE_DIR, name));
      XT_CHECK(bytes.has_value(), "a fixture is missing");
      files.push_back(std::move(*bytes));
    }
    return files;
  }();
  return all;
}

// A fatbin of a few entries around cubins, stored as they are or as literals of the LZ4 block format.
Bytes lz4_literals(const Bytes& in) {
  Bytes out;
  const auto put = [&](uint64_t v) { out.push_back(static_cast<std::byte>(v)); };
  put(0xf0);
  uint64_t left = in.size() - 15;
  for (; left >= 255; left -= 255) put(255);
  put(left);
  out.insert(out.end(), in.begin(), in.end());
  return out;
}

Bytes make_fatbin(Random& r) {
  Bytes body;
  for (uint64_t n = 1 + below(r, 3); n > 0; --n) {
    const Bytes& cubin = seeds()[below(r, seeds().size())];
    const bool lz4 = below(r, 2) == 0;
    const Bytes stored = lz4 ? lz4_literals(cubin) : cubin;
    const uint64_t padded = align_up(stored.size(), 8);
    append(body, uint16_t{2});
    append(body, uint16_t{0x101});
    append(body, uint32_t{64});
    append(body, padded);
    append(body, static_cast<uint32_t>(lz4 ? stored.size() : 0));
    append(body, uint32_t{0});
    append(body, uint32_t{0});
    append(body, uint32_t{90});
    append(body, uint64_t{0});
    append(body, uint64_t{lz4 ? 0x2000u : 0u});
    append(body, uint64_t{0});
    append(body, uint64_t{lz4 ? cubin.size() : 0});
    body.insert(body.end(), stored.begin(), stored.end());
    body.resize(align_up(body.size(), 8));
  }
  Bytes out;
  append(out, uint32_t{0xBA55ED50});
  append(out, uint16_t{1});
  append(out, uint16_t{16});
  append(out, uint64_t{body.size()});
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

std::string check_cubin(ByteView bytes) {
  const auto image = cubin::Image::parse(bytes);
  if (!image) return image.error().message.empty() ? "an error without a message" : "";
  const auto written = image->write();
  if (!written) return "a parsed cubin is not written: " + written.error().to_string();
  if (written->size() != bytes.size() || std::memcmp(written->data(), bytes.data(), bytes.size()) != 0)
    return "a parsed cubin is written differently";
  for (uint32_t s = 0; s < image->sections().size(); ++s)
    if (image->sections()[s].type == 0x70000000) (void)image->info_records(s);
  for (const std::string& kernel : image->kernels()) {
    const auto info = cubin::kernel_info(*image, kernel);
    if (info) {
      (void)cubin::source_lines(*image, *info);
      cubin::Image moved = *image;
      const auto text = static_cast<uint32_t>(image->sections()[info->text_section].data.size());
      const cubin::MovedCode map{[](uint32_t at) { return std::vector<uint32_t>{at + 0x80}; },
                                 [](uint32_t at) { return at + 0x80; }, text + 0x80};
      (void)map_code_offsets(moved, *info, map);
    }
    const auto cut = cubin::extract_function(bytes, kernel);
    if (!cut && cut.error().kind == ErrorKind::internal) return "extraction: " + cut.error().to_string();
  }
  return "";
}

}  // namespace

std::string cubin_round(Random& r) {
  Bytes bytes = seeds()[below(r, seeds().size())];
  mutate(r, bytes);
  return check_cubin(bytes);
}

std::string fatbin_round(Random& r) {
  Bytes bytes = make_fatbin(r);
  mutate(r, bytes);
  const auto entries = cubin::fatbin_entries(bytes);
  if (!entries) return entries.error().message.empty() ? "an error without a message" : "";
  for (const cubin::FatbinEntry& e : *entries) {
    if (e.offset > bytes.size() || e.stored_bytes > bytes.size() - e.offset)
      return "an entry outside the file";
    const auto code = unwrap(bytes, e);
    if (!code) continue;
    if (e.compression != cubin::FatbinEntry::Compression::none && code->size() != e.uncompressed_bytes)
      return "an unwrapped entry of another size than it claims";
    if (e.kind == cubin::FatbinEntry::Kind::cubin) (void)kernel_names(bytes, e);
  }
  return "";
}

}  // namespace xtrace::fuzz
