// Where each field of bundle.capnp lies in its struct. The writer runs inside the application and encodes with these
// tables (wire_builder.h) instead of Cap'n Proto's library: the static libkj of the distributions is not
// position-independent, so it can not be linked into a shared library, and every library the injected one does without is
// one that can not clash with the application's own. The reader uses Cap'n Proto itself, and a test compares every row
// with the compiled schema.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace xtrace::bundle::layout {

enum class Kind : uint8_t { boolean, u16, u32, u64, i32, f64, text, data, texts, structure, structures };

struct Field {
  std::string_view name;
  Kind kind;
  uint32_t position;     // scalars: in bits from the begin of the struct; pointers: index
  uint32_t default_value = 0;  // stored values are XORed with it
};

struct Struct {
  std::string_view name;
  uint16_t data_words, pointers;
  std::span<const Field> fields;
};

// The row of `name`; does not compile when there is none.
consteval Field at(const Struct& s, std::string_view name) {
  for (const Field& f : s.fields)
    if (f.name == name) return f;
  throw "no field of this name";
}

constexpr uint32_t minus_one = 0xffffffff;

constexpr Field manifest_fields[] = {
    {"formatVersion", Kind::u32, 0},   {"minimumReaderVersion", Kind::u32, 32},
    {"quirks", Kind::texts, 0},        {"environment", Kind::structure, 1},
    {"launchesSeen", Kind::u64, 64},   {"warnings", Kind::texts, 2},
    {"applicationExitStatus", Kind::i32, 128, minus_one},
    {"launchCount", Kind::u64, 192},   {"launchesBytes", Kind::u64, 256},
    {"packBytes", Kind::u64, 320},     {"chunkCount", Kind::u64, 384},
};
constexpr Field environment_fields[] = {
    {"gpuName", Kind::text, 0},        {"gpuUuid", Kind::text, 1},        {"sm", Kind::u32, 0},
    {"smCount", Kind::u32, 32},        {"memoryBytes", Kind::u64, 64},    {"l2Bytes", Kind::u64, 128},
    {"smClockKhz", Kind::u32, 192},    {"memoryClockKhz", Kind::u32, 224}, {"driverVersion", Kind::u32, 256},
    {"kernelDriver", Kind::text, 2},   {"toolkitVersion", Kind::u32, 288}, {"hostname", Kind::text, 3},
    {"startedAt", Kind::text, 4},      {"command", Kind::texts, 5},
};
constexpr Field dim3_fields[] = {{"x", Kind::u32, 0}, {"y", Kind::u32, 32}, {"z", Kind::u32, 64}};
constexpr Field launch_fields[] = {
    {"ordinal", Kind::u64, 0},         {"status", Kind::u16, 64},         {"skipReason", Kind::text, 0},
    {"kernel", Kind::text, 1},         {"code", Kind::structure, 2},      {"api", Kind::text, 3},
    {"grid", Kind::structure, 4},      {"block", Kind::structure, 5},     {"cluster", Kind::structure, 6},
    {"dynamicSharedBytes", Kind::u32, 96}, {"cooperative", Kind::boolean, 80}, {"stream", Kind::u64, 128},
    {"attributes", Kind::structures, 7}, {"function", Kind::structure, 8}, {"params", Kind::structures, 9},
    {"paramBlock", Kind::data, 10},    {"regions", Kind::structures, 11}, {"snapshotSeconds", Kind::f64, 192},
    {"graphLaunch", Kind::i32, 256, minus_one}, {"graphNode", Kind::i32, 288, minus_one},
};
constexpr Field code_fields[] = {{"hash", Kind::data, 0}, {"size", Kind::u64, 0}, {"chunks", Kind::data, 1}};
constexpr Field attribute_fields[] = {{"id", Kind::u32, 0}, {"name", Kind::text, 0}, {"value", Kind::data, 1}};
constexpr Field function_fields[] = {
    {"maxDynamicShared", Kind::i32, 0, minus_one},     {"preferredCarveout", Kind::i32, 32, minus_one},
    {"nonPortableCluster", Kind::i32, 64, minus_one},  {"registers", Kind::i32, 96, minus_one},
    {"localBytes", Kind::i32, 128, minus_one},         {"staticShared", Kind::i32, 160, minus_one},
    {"constantBytes", Kind::i32, 192, minus_one},      {"maxThreads", Kind::i32, 224, minus_one},
};
constexpr Field param_fields[] = {{"offset", Kind::u32, 0}, {"size", Kind::u32, 32}};
constexpr Field region_fields[] = {
    {"kind", Kind::u16, 0},    {"address", Kind::u64, 64}, {"size", Kind::u64, 128},
    {"symbol", Kind::text, 0}, {"before", Kind::data, 1},  {"after", Kind::data, 2},
};

constexpr Struct manifest{"Manifest", 7, 3, manifest_fields};
constexpr Struct environment{"Environment", 5, 6, environment_fields};
constexpr Struct dim3{"Dim3", 2, 0, dim3_fields};
constexpr Struct launch{"Launch", 5, 12, launch_fields};
constexpr Struct code{"Code", 1, 2, code_fields};
constexpr Struct attribute{"Attribute", 1, 2, attribute_fields};
constexpr Struct function{"FunctionAttributes", 4, 0, function_fields};
constexpr Struct param{"Param", 1, 0, param_fields};
constexpr Struct region{"Region", 3, 3, region_fields};

// Numbers of the schema's enums, by the order of the C++ enums (a test compares the names with the schema).
constexpr std::string_view status_names[] = {"recorded", "skipped"};
constexpr std::string_view kind_names[] = {"device", "asyncPool", "vmm", "managed", "asked", "global", "constant"};

}  // namespace xtrace::bundle::layout
