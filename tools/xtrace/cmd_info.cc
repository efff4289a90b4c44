// xtrace info: everything about one launch.
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "capture/bundle/bundle_reader.h"
#include "tools/xtrace/command_line.h"
#include "tools/xtrace/incomplete.h"
#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/launch_summary.h"
#include "tools/xtrace/quantity.h"
#include "tools/xtrace/render_error.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

using bundle::BundleReader;
using bundle::LaunchRecord;
using bundle::LaunchStatus;
using bundle::Region;
using nlohmann::json;

// A 64-bit word of the parameter block that is an address inside a recorded region.
struct Pointer {
  uint32_t offset;  // in the parameter
  uint64_t value;
  size_t region;
  uint64_t into;
};

std::vector<Pointer> pointers_in(const LaunchRecord& l, const bundle::Param& p) {
  std::vector<Pointer> out;
  const ByteView bytes = ByteView(l.param_block).subspan(p.offset, p.size);
  for (uint32_t at = 0; at + 8 <= p.size; at += 8) {
    const auto value = read_at<uint64_t>(bytes, at, "parameter word");
    if (!value) break;
    for (size_t i = 0; i < l.regions.size(); ++i) {
      const Region& r = l.regions[i];
      if (*value >= r.address.value && *value - r.address.value < r.size)
        out.push_back({at, *value, i, *value - r.address.value});
    }
  }
  return out;
}

std::string show(const Pointer& p, const bundle::Param& param) {
  const std::string into = p.into == 0 ? "" : fmt::format(" + {:#x}", p.into);
  return param.size == 8 ? fmt::format("region {}{}", p.region, into)
                         : fmt::format("+{:#x}: region {}{}", p.offset, p.region, into);
}

std::optional<uint64_t> launch_number(const std::string& text) {
  uint64_t ordinal = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return ordinal;
}

Result<const LaunchRecord*> find_launch(const BundleReader& reader, uint64_t ordinal) {
  for (const LaunchRecord& l : reader.launches())
    if (l.ordinal == ordinal) return &l;
  return with_hint(bad_input("no launch {} in {}: it {}", ordinal, reader.directory().string(), what_it_holds(reader)),
                   fmt::format("see the first column of: xtrace ls {}", reader.directory().string()));
}

constexpr struct {
  const char* name;
  int32_t bundle::FunctionAttributes::*member;
} function_fields[] = {
    {"registers", &bundle::FunctionAttributes::registers},
    {"max_threads", &bundle::FunctionAttributes::max_threads},
    {"static_shared", &bundle::FunctionAttributes::static_shared},
    {"local_bytes", &bundle::FunctionAttributes::local_bytes},
    {"constant_bytes", &bundle::FunctionAttributes::constant_bytes},
    {"max_dynamic_shared", &bundle::FunctionAttributes::max_dynamic_shared},
    {"preferred_carveout", &bundle::FunctionAttributes::preferred_carveout},
    {"non_portable_cluster", &bundle::FunctionAttributes::non_portable_cluster},
};

void print_shape(const BundleReader& reader, const LaunchRecord& l) {
  fmt::print("launch {} of {}\n", l.ordinal, reader.directory().string());
  fmt::print("  status    {}\n", l.status == LaunchStatus::skipped ? "skipped: " + printable(l.skip_reason)
                                 : has_after(l)                    ? "recorded"
                                                                   : "recorded, but the launch failed");
  fmt::print("  kernel    {}\n", l.kernel.empty() ? "-" : printable(demangled(l.kernel)));
  if (demangled(l.kernel) != l.kernel) fmt::print("  mangled   {}\n", printable(l.kernel));
  if (l.code != Hash128{})
    fmt::print("  code      {} ({} cubin)\n", l.code.hex(), human_bytes(reader.code_size(l.code)));
  fmt::print("  launched  by {} on stream {:#x}{}\n", l.api.empty() ? "an unknown call" : printable(l.api),
             l.stream, l.cooperative ? ", cooperative" : "");
  if (l.graph.any()) fmt::print("  graph     node {} of graph launch {}\n", l.graph.node, l.graph.launch);
  fmt::print("  grid      {} ({} blocks)\n", human_dim(l.grid), l.grid.count());
  fmt::print("  block     {} ({} threads)\n", human_dim(l.block), l.block.count());
  fmt::print("  cluster   {}\n", human_dim(l.cluster));
  fmt::print("  dynamic   {} of shared memory\n", human_bytes(l.dynamic_shared_bytes));
  fmt::print("  snapshot  took {:.3f} s\n", l.snapshot_seconds);
}

void print_function(const LaunchRecord& l) {
  fmt::print("\nfunction attributes\n");
  Table table({{"attribute"}, {"value", Align::right}});
  for (const auto& f : function_fields) {
    const int32_t value = l.function.*f.member;
    table.add_row({f.name, value == -1 ? "not set" : fmt::format("{}", value)});
  }
  fmt::print("{}", table.render(0, 2));
}

void print_attributes(const LaunchRecord& l) {
  if (l.attributes.empty()) return;
  fmt::print("\nlaunch attributes\n");
  Table table({{"id", Align::right}, {"name"}, {"value"}});
  for (const bundle::LaunchAttribute& a : l.attributes) {
    size_t size = a.value.size();  // a union of 64 bytes, mostly unused: the zeros at its end say nothing
    while (size > 4 && a.value[size - 1] == std::byte{0}) --size;
    table.add_row({fmt::format("{}", a.id), a.name,
                   hex_bytes(ByteView(a.value).first(std::min(a.value.size(), size_t{align_up(size, 4)})))});
  }
  fmt::print("{}", table.render(0, 2));
}

void print_params(const LaunchRecord& l) {
  if (l.params.empty()) return;
  fmt::print("\nparameters ({} of {})\n", l.params.size(), human_bytes(l.param_block.size()));
  Table table(
      {{"param", Align::right}, {"offset", Align::right}, {"size", Align::right}, {"value"}, {"points to"}});
  for (size_t i = 0; i < l.params.size(); ++i) {
    const bundle::Param& p = l.params[i];
    std::string targets;
    for (const Pointer& pointer : pointers_in(l, p))
      targets += (targets.empty() ? "" : "; ") + show(pointer, p);
    table.add_row({fmt::format("{}", i), fmt::format("{:#x}", p.offset), fmt::format("{}", p.size),
                   hex_value(ByteView(l.param_block).subspan(p.offset, p.size)), targets});
  }
  fmt::print("{}", table.render(0, 2));
}

void print_regions(const LaunchRecord& l) {
  if (l.regions.empty()) return;
  const MemorySums sums = memory_sums(l);
  fmt::print("\nmemory ({} in {} regions)\n", human_bytes(sums.bytes), l.regions.size());
  Table table({{"region", Align::right},
               {"kind"},
               {"address"},
               {"size", Align::right},
               {"chunks", Align::right},
               {"changed", Align::right},
               {"symbol"}});
  for (size_t i = 0; i < l.regions.size(); ++i) {
    const Region& r = l.regions[i];
    table.add_row({fmt::format("{}", i), name_of(r.kind), fmt::format("{:#x}", r.address.value),
                   human_bytes(r.size), fmt::format("{}", r.before.size()),
                   r.after.empty() ? "-" : fmt::format("{}", changed_chunks(r)),
                   r.symbol.empty() ? "" : demangled(r.symbol)});
  }
  fmt::print("{}", table.render(0, 2));
}

std::string hex(uint64_t value) {
  return fmt::format("{:#x}", value);
}  // exact in JSON, where numbers are doubles

std::string plain_hex(ByteView bytes) {
  std::string out;
  for (const std::byte b : bytes) out += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return out;
}

json params_json(const LaunchRecord& l) {
  json out = json::array();
  for (const bundle::Param& p : l.params) {
    json pointers = json::array();
    for (const Pointer& pointer : pointers_in(l, p))
      pointers.push_back({{"offset", pointer.offset},
                          {"value", hex(pointer.value)},
                          {"region", pointer.region},
                          {"region_offset", pointer.into}});
    out.push_back({{"offset", p.offset},
                   {"size", p.size},
                   {"bytes", plain_hex(ByteView(l.param_block).subspan(p.offset, p.size))},
                   {"pointers", pointers}});
  }
  return out;
}

json regions_json(const LaunchRecord& l) {
  json out = json::array();
  for (const Region& r : l.regions) {
    json j = {{"kind", name_of(r.kind)},
              {"address", hex(r.address.value)},
              {"size", r.size},
              {"symbol", r.symbol},
              {"chunks", r.before.size()}};
    j["changed_chunks"] = r.after.empty() ? json() : json(changed_chunks(r));
    out.push_back(j);
  }
  return out;
}

json json_of(const BundleReader& reader, const LaunchRecord& l) {
  json attributes = json::array(), function = json::object();
  for (const bundle::LaunchAttribute& a : l.attributes)
    attributes.push_back({{"id", a.id}, {"name", a.name}, {"value", plain_hex(a.value)}});
  for (const auto& f : function_fields)
    function[f.name] = l.function.*f.member == -1 ? json() : json(l.function.*f.member);
  json j = {{"ordinal", l.ordinal},
            {"status", l.status == LaunchStatus::recorded ? "recorded" : "skipped"},
            {"kernel", l.kernel},
            {"kernel_demangled", demangled(l.kernel)},
            {"api", l.api},
            {"grid", {l.grid.x, l.grid.y, l.grid.z}},
            {"block", {l.block.x, l.block.y, l.block.z}},
            {"cluster", {l.cluster.x, l.cluster.y, l.cluster.z}},
            {"dynamic_shared_bytes", l.dynamic_shared_bytes},
            {"cooperative", l.cooperative},
            {"stream", hex(l.stream)},
            {"snapshot_seconds", l.snapshot_seconds},
            {"attributes", attributes},
            {"function", function},
            {"param_bytes", l.param_block.size()},
            {"params", params_json(l)},
            {"regions", regions_json(l)}};
  if (l.status == LaunchStatus::skipped) j["skip_reason"] = l.skip_reason;
  if (l.graph.any()) j["graph"] = {{"launch", l.graph.launch}, {"node", l.graph.node}};
  if (l.code != Hash128{}) j["code"] = {{"hash", l.code.hex()}, {"bytes", reader.code_size(l.code)}};
  return j;
}

}  // namespace

int run_info(int argc, char** argv) {
  std::string path, number;
  bool as_json = false;
  CommandLine line("info", {{"xtrace info run.xtr 3", "launch 3: shape, parameters, memory, code"},
                            {"xtrace info run.xtr 3 --json", "the same for a program"}});
  line.positional("BUNDLE", path, "directory written by xtrace record");
  line.positional("LAUNCH", number, "number of the launch, as xtrace ls shows it");
  line.flag("--json", as_json, "print one JSON object");
  if (const auto status = line.parse(argc, argv)) return *status;

  const auto ordinal = launch_number(number);
  if (!ordinal)
    return usage_error("info", fmt::format("'{}' is not a launch number", number), "see the first column of: xtrace ls " + path);
  const auto reader = BundleReader::open(path);
  if (!reader) return report("info", reader.error());
  const auto launch = find_launch(**reader, *ordinal);
  if (!launch) return report("info", launch.error());
  const LaunchRecord& l = **launch;
  if (as_json) {
    fmt::print("{}", json_text(json_of(**reader, l), 2));
    return 0;
  }
  print_shape(**reader, l);
  print_function(l);
  print_attributes(l);
  print_params(l);
  print_regions(l);
  return 0;
}

}  // namespace xtrace::cli
