// Damaged cubins never crash: seeded, so that a failure can be repeated.
#include <random>

#include "cubins.h"

namespace xtrace::cubin {
namespace {

struct Tally {
  unsigned refused = 0, accepted = 0, kernels = 0, moved = 0;
};

void use_everything(const Bytes& bytes, Tally& tally) {
  auto image = Image::parse(bytes);
  if (!image) {
    EXPECT_FALSE(image.error().message.empty());
    ++tally.refused;
    return;
  }
  ++tally.accepted;
  (void)image->relocations();
  const auto written = image->write();
  if (written) {
    EXPECT_EQ(*written, bytes);
  }
  for (uint32_t i = 0; i < image->sections().size(); ++i)
    if (image->sections()[i].type == 0x70000000) (void)image->info_records(i);
  for (const std::string& name : image->kernels()) {
    const auto info = kernel_info(*image, name);
    if (!info) continue;
    ++tally.kernels;
    (void)source_lines(*image, *info);
    Image moved = *image;
    (void)set_register_count(moved, *info, 40);
    if (moved.sections()[info->text_section].size < 0x10000 && double_code(moved, *info)) ++tally.moved;
    (void)moved.write();
  }
}

Tally mutate(const std::string& name, uint64_t seed, unsigned rounds) {
  const Bytes good = fixture(name);
  const Image image = parsed(good);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  uint64_t section_table = 0;
  std::memcpy(&section_table, good.data() + 40, sizeof section_table);
  // Half of the damage goes where structure is: headers, symbols, relocations, info, debug sections.
  std::vector<std::pair<uint64_t, uint64_t>> structure{{0, 64}, {section_table, good.size() - section_table}};
  for (uint32_t i = 1; i < image.sections().size(); ++i) {
    const Section& s = image.sections()[i];
    if (s.data.empty() || s.name.starts_with(".text") || s.name.starts_with(".nv.capmerc")) continue;
    const ByteView data = image.original_data(i);
    uint64_t offset = 0;
    std::memcpy(&offset, good.data() + section_table + i * 64 + 24, sizeof offset);
    structure.emplace_back(offset, data.size());
  }
  constexpr uint64_t kNasty[] = {0,          1,          0x7f,       0x80,  0xff,      0xffff,
                                 0x7fffffff, 0x80000000, 0xffffffff, ~0ull, 1ull << 63};
  Tally tally;
  for (unsigned round = 0; round < rounds; ++round) {
    Bytes bad = good;
    for (uint64_t hits = 1 + below(3); hits > 0; --hits) {
      const auto [begin, size] = structure[below(structure.size())];
      const uint64_t at = below(2) == 0 ? below(bad.size()) : begin + below(size);
      if (below(2) == 0) {
        bad[at] = std::byte(random());
      } else {
        const uint64_t value = kNasty[below(std::size(kNasty))];
        const uint64_t width = std::min<uint64_t>(uint64_t{1} << below(4), bad.size() - at);
        std::memcpy(bad.data() + at, &value, width);
      }
    }
    if (below(8) == 0) bad.resize(below(bad.size()));
    use_everything(bad, tally);
  }
  return tally;
}

class Mutations : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cubins, Mutations,
                         testing::Values("sm_90/calls_lineinfo", "sm_80/calls_lineinfo", "sm_100/variables",
                                         "sm_90/relocatable", "sm_90/jump_table"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

TEST_P(Mutations, NeverCrash) {
  const Tally tally = mutate(GetParam(), 20251129, 800);
  // The damage reaches all layers: some is refused on reading, some is read and moved.
  EXPECT_GT(tally.refused, 200u);
  EXPECT_GT(tally.accepted, 200u);
  EXPECT_GT(tally.kernels, 150u);
  EXPECT_GT(tally.moved, 50u);
}

TEST(Truncation, IsAlwaysRefused) {
  const Bytes good = fixture("sm_90/plain");
  for (uint64_t size = 0; size < good.size(); size += 7)
    EXPECT_FALSE(Image::parse(ByteView(good).first(size)).has_value()) << size;
}

}  // namespace
}  // namespace xtrace::cubin
