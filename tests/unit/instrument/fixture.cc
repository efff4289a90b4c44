#include "tests/unit/instrument/fixture.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "instrument/cubin/kernel_info.h"
#include "instrument/prologue.h"
#include "instrument/sass/effects.h"

namespace xtrace::instrument::test {
namespace {

std::pair<uint64_t, uint64_t> text_range(const Case& c, ByteView bytes) {
  const auto image = cubin::Image::parse(bytes);
  const auto section = image->text_section(c.kernel.name);
  // The file offset of a section is found by its contents: the text of a spliced kernel is unique in its file.
  const Bytes& data = image->sections()[*section].data;
  for (uint64_t at = 0; at + data.size() <= bytes.size(); at += 16)
    if (std::memcmp(bytes.data() + at, data.data(), data.size()) == 0) return {at, data.size()};
  ADD_FAILURE() << "text not found in the file";
  return {0, 0};
}

}  // namespace

std::vector<Kernel> fixture_kernels(const std::string& arch) {
  std::vector<Kernel> kernels;
  const std::filesystem::path root = std::filesystem::path(XTRACE_SOURCE_DIR) / "fixtures/cubins" / arch;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".cubin") continue;
    auto bytes = read_file(entry.path());
    EXPECT_TRUE(bytes) << entry.path();
    const auto image = cubin::Image::parse(*bytes);
    EXPECT_TRUE(image) << entry.path();
    if (!image) continue;
    for (const std::string& name : image->kernels()) kernels.push_back({entry.path(), name, *bytes});
  }
  std::sort(kernels.begin(), kernels.end(),
            [](const Kernel& a, const Kernel& b) { return std::tie(a.file, a.name) < std::tie(b.file, b.name); });
  return kernels;
}

Kernel fixture_kernel(const std::string& part) {
  for (const Kernel& k : fixture_kernels("sm_90"))
    if (k.name.find(part) != std::string::npos) return k;
  ADD_FAILURE() << "no fixture kernel named like " << part;
  return {};
}

LaunchShape small_shape() { return {{40, 3, 1}, {128, 1, 1}, {0, 0, 0}, 0}; }

Plan plan_of(ProbeKind probe, uint32_t one_in) { return {probe, {}, one_in, 12345, {}, {}}; }

wire::SlotLayout some_layout(const LaunchShape& shape, bool table, bool wraps) {
  wire::SlotLayout l;
  l.warps_per_cta = warps_per_cta(shape);
  l.warps = static_cast<uint32_t>(shape.grid.count()) * l.warps_per_cta;
  l.headers = wraps ? 0x100000000000 : 0;
  l.table = table ? 0x100000100000 : 0;
  l.counters = 0x100000200000;
  l.copy_bytes = 1 << 20;
  l.slots = 0x100000400000;
  l.slot_bytes = table ? 0 : 4096;
  l.lead_bytes = wraps ? 1024 : 16;
  l.wraps = wraps;
  return l;
}

Case splice_case(const Kernel& kernel, const Plan& plan, bool table) {
  Case c{kernel, {}, {}};
  const LaunchShape shape = small_shape();
  auto spliced = splice(kernel.cubin, kernel.name, shape, plan, some_layout(shape, table, true));
  EXPECT_TRUE(spliced) << (spliced ? "" : spliced.error().to_string());
  if (!spliced) return c;
  c.spliced = std::move(*spliced);
  c.claims = c.spliced.claims;
  return c;
}

std::vector<Violation> Case::verify(ByteView cubin) const {
  auto result = verify_splice(kernel.cubin, cubin, kernel.name, claims);
  EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
  return result ? *result : std::vector<Violation>{};
}

std::optional<Case> short_block_case(const Kernel& k, const LaunchShape& shape, const std::vector<uint64_t>& executions) {
  const auto splicer = Splicer::create(k.cubin, k.name, shape);
  if (!splicer) return std::nullopt;
  wire::SlotLayout layout = some_layout(shape, false, false);
  layout.index_bits = splicer->index_bits();
  layout.short_records = true;
  layout.lead_bytes = sizeof(wire::SlotHead);
  Plan plan = plan_of(ProbeKind::block);
  plan.full_blocks.assign(splicer->blocks().size(), true);
  plan.executions = executions.empty() ? std::vector<uint64_t>(splicer->blocks().size(), 8) : executions;
  auto spliced = splicer->splice(plan, layout);
  if (!spliced) return std::nullopt;
  Case c{k, std::move(*spliced), {}};
  c.claims = c.spliced.claims;
  EXPECT_TRUE(c.verify().empty()) << k.name;
  return c;
}

sass::RawInst word_at(const Case& c, ByteView cubin, uint32_t index) {
  return *read_at<sass::RawInst>(cubin, text_range(c, cubin).first + uint64_t{index} * sass::inst_bytes, "word");
}

void set_word(const Case& c, Bytes& cubin, uint32_t index, const sass::RawInst& w) {
  write_at(std::span(cubin), text_range(c, cubin).first + uint64_t{index} * sass::inst_bytes, w);
}

uint32_t word_count(const Case& c) {
  return static_cast<uint32_t>(c.spliced.map.original_of_new.size());
}

bool inserted(const Case& c, uint32_t index) { return c.spliced.map.original_of_new[index] == wire::AddressMap::inserted; }

std::set<std::string> rules(const std::vector<Violation>& violations) {
  std::set<std::string> names;
  for (const Violation& v : violations) names.emplace(v.rule);
  return names;
}

}  // namespace xtrace::instrument::test
