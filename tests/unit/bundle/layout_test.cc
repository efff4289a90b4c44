// The writer encodes by the tables of wire_layout.h: every row must be what the schema compiler decided.
#include <capnp/schema.h>

#include <map>
#include <set>

#include "bundle.capnp.h"
#include "capture/bundle/launch_record.h"
#include "capture/bundle/wire_layout.h"
#include "tests/unit/bundle/sample.h"

namespace xtrace::bundle {
namespace {

using layout::Kind;

struct Expected {
  Kind kind;
  uint32_t bits;  // 0 for pointers
};

Expected expected_of(capnp::Type type) {
  if (type.isBool()) return {Kind::boolean, 1};
  if (type.isEnum() || type.isUInt16()) return {Kind::u16, 16};
  if (type.isUInt32()) return {Kind::u32, 32};
  if (type.isInt32()) return {Kind::i32, 32};
  if (type.isUInt64()) return {Kind::u64, 64};
  if (type.isFloat64()) return {Kind::f64, 64};
  if (type.isText()) return {Kind::text, 0};
  if (type.isData()) return {Kind::data, 0};
  if (type.isStruct()) return {Kind::structure, 0};
  if (type.isList() && type.asList().getElementType().isText()) return {Kind::texts, 0};
  if (type.isList() && type.asList().getElementType().isStruct()) return {Kind::structures, 0};
  ADD_FAILURE() << "a field type that wire_layout.h has no kind for";
  return {Kind::data, 0};
}

void compare(const layout::Struct& table, capnp::StructSchema schema) {
  SCOPED_TRACE(table.name);
  const auto node = schema.getProto();
  EXPECT_EQ(schema.getShortDisplayName().cStr(), table.name);
  EXPECT_EQ(node.getStruct().getDataWordCount(), table.data_words);
  EXPECT_EQ(node.getStruct().getPointerCount(), table.pointers);
  ASSERT_EQ(schema.getFields().size(), table.fields.size());
  for (const layout::Field& row : table.fields) {
    SCOPED_TRACE(row.name);
    const auto field = schema.getFieldByName(std::string(row.name).c_str());
    const auto slot = field.getProto().getSlot();
    const Expected expected = expected_of(field.getType());
    EXPECT_EQ(row.kind, expected.kind);
    EXPECT_EQ(row.position, slot.getOffset() * std::max(expected.bits, 1u));
    const uint32_t value =
        slot.getDefaultValue().isInt32() ? static_cast<uint32_t>(slot.getDefaultValue().getInt32()) : 0;
    EXPECT_EQ(row.default_value, value);
  }
}

TEST(Layout, EveryStructIsWhatTheSchemaSays) {
  compare(layout::manifest, capnp::Schema::from<wire::Manifest>());
  compare(layout::environment, capnp::Schema::from<wire::Environment>());
  compare(layout::dim3, capnp::Schema::from<wire::Dim3>());
  compare(layout::launch, capnp::Schema::from<wire::Launch>());
  compare(layout::code, capnp::Schema::from<wire::Code>());
  compare(layout::attribute, capnp::Schema::from<wire::Attribute>());
  compare(layout::function, capnp::Schema::from<wire::FunctionAttributes>());
  compare(layout::param, capnp::Schema::from<wire::Param>());
  compare(layout::region, capnp::Schema::from<wire::Region>());
}

void compare_enum(std::span<const std::string_view> names, capnp::EnumSchema schema) {
  ASSERT_EQ(schema.getEnumerants().size(), names.size());
  for (auto e : schema.getEnumerants()) EXPECT_EQ(e.getProto().getName().cStr(), names[e.getOrdinal()]);
}

TEST(Layout, EnumsHaveTheNumbersOfTheSchema) {
  compare_enum(layout::status_names, capnp::Schema::from<wire::Launch::Status>());
  compare_enum(layout::kind_names, capnp::Schema::from<wire::Region::Kind>());
  // ... and the C++ enum has the order of the table.
  EXPECT_STREQ(name_of(RegionKind::device), "device");
  EXPECT_STREQ(name_of(RegionKind::async_pool), "async_pool");
  EXPECT_STREQ(name_of(RegionKind::constant), "constant");
  EXPECT_EQ(static_cast<size_t>(RegionKind::constant) + 1, std::size(layout::kind_names));
}

}  // namespace
}  // namespace xtrace::bundle
