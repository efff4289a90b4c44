#include "capture/bundle/wire_builder.h"

#include <bit>
#include <cstring>
#include <stdexcept>

namespace xtrace::bundle {
namespace {

// Element sizes of list pointers.
constexpr unsigned list_of_bytes = 2, list_of_pointers = 6, list_of_structs = 7;

constexpr uint64_t max_list_count = (1ull << 29) - 1;
constexpr uint64_t max_words = (1ull << 29) - 1;  // any distance fits the 30 signed bits of a pointer

constexpr unsigned width_of(layout::Kind kind) {
  switch (kind) {
    case layout::Kind::boolean:
      return 1;
    case layout::Kind::u16:
      return 16;
    case layout::Kind::u32:
    case layout::Kind::i32:
      return 32;
    case layout::Kind::u64:
    case layout::Kind::f64:
      return 64;
    default:
      return 0;
  }
}

uint64_t distance(size_t pointer, size_t target) {
  const auto words = static_cast<int64_t>(target) - static_cast<int64_t>(pointer) - 1;
  return (static_cast<uint64_t>(words) << 2) & 0xffffffff;
}

uint64_t struct_sizes(const layout::Struct& type) {
  return uint64_t{type.data_words} << 32 | uint64_t{type.pointers} << 48;
}

uint64_t words_of(const layout::Struct& type) { return uint64_t{type.data_words} + type.pointers; }

}  // namespace

WireBuilder::WireBuilder(const layout::Struct& root) : words_(1), root_(this, 1, root) {
  add_struct(0, root);
}

size_t WireBuilder::allocate(uint64_t words) {
  const size_t at = words_.size();
  if (words > max_words - at) throw std::length_error("a bundle message larger than 4 GiB");
  words_.resize(at + words);
  return at;
}

size_t WireBuilder::add_struct(size_t pointer, const layout::Struct& type) {
  const size_t target = allocate(words_of(type));
  words_[pointer] = distance(pointer, target) | struct_sizes(type);
  return target;
}

void WireBuilder::point_to_list(size_t pointer, unsigned element_size, uint64_t count, size_t target) {
  if (count > max_list_count) throw std::length_error("a list in a bundle message longer than 2^29 - 1");
  words_[pointer] = 1 | distance(pointer, target) | uint64_t{element_size} << 32 | count << 35;
}

void WireBuilder::point_to_bytes(size_t pointer, ByteView bytes, uint64_t stored) {
  const size_t target = allocate((stored + 7) / 8);
  if (!bytes.empty()) std::memcpy(words_.data() + target, bytes.data(), bytes.size());
  point_to_list(pointer, list_of_bytes, stored, target);
}

Bytes WireBuilder::finish() const {
  const uint64_t segment_table = uint64_t{words_.size()}
                                 << 32;  // one segment: count - 1 = 0, then its size in words
  Bytes out((1 + words_.size()) * 8);
  write_at(out, 0, segment_table);
  std::memcpy(out.data() + 8, words_.data(), words_.size() * 8);
  return out;
}

void WireBuilder::StructRef::put(const layout::Field& field, uint64_t value) {
  const unsigned width = width_of(field.kind);
  XT_CHECK(width != 0 && field.position + width <= data_words_ * 64u, "scalar field outside its struct");
  const uint64_t mask = width == 64 ? ~0ull : (1ull << width) - 1;
  const unsigned shift = field.position % 64;
  uint64_t& word = builder_->words_[begin_ + field.position / 64];
  word = (word & ~(mask << shift)) | (((value ^ field.default_value) & mask) << shift);
}

void WireBuilder::StructRef::put_f64(const layout::Field& field, double value) {
  put(field, std::bit_cast<uint64_t>(value));
}

void WireBuilder::StructRef::put_text(const layout::Field& field, std::string_view value) {
  if (value.empty()) return;  // a null pointer reads as the empty text
  builder_->point_to_bytes(pointer(field), std::as_bytes(std::span(value)), value.size() + 1);
}

void WireBuilder::StructRef::put_data(const layout::Field& field, ByteView value) {
  if (!value.empty()) builder_->point_to_bytes(pointer(field), value, value.size());
}

void WireBuilder::StructRef::put_texts(const layout::Field& field, const std::vector<std::string>& values) {
  if (values.empty()) return;
  const size_t target = builder_->allocate(values.size());
  builder_->point_to_list(pointer(field), list_of_pointers, values.size(), target);
  for (size_t i = 0; i < values.size(); ++i)
    builder_->point_to_bytes(target + i, std::as_bytes(std::span(values[i])), values[i].size() + 1);
}

WireBuilder::StructRef WireBuilder::StructRef::put_struct(const layout::Field& field,
                                                          const layout::Struct& type) {
  return {builder_, builder_->add_struct(pointer(field), type), type};
}

std::vector<WireBuilder::StructRef> WireBuilder::StructRef::put_structs(const layout::Field& field,
                                                                        const layout::Struct& type,
                                                                        size_t count) {
  std::vector<StructRef> out;
  if (count == 0) return out;
  // A list of structs is a tag word that looks like a struct pointer with the count for its distance, then
  // the structs; the list pointer counts words.
  const uint64_t words = count * words_of(type);
  const size_t target = builder_->allocate(1 + words);
  builder_->point_to_list(pointer(field), list_of_structs, words, target);
  builder_->words_[target] = uint64_t{count} << 2 | struct_sizes(type);
  for (size_t i = 0; i < count; ++i) out.push_back({builder_, target + 1 + i * words_of(type), type});
  return out;
}

}  // namespace xtrace::bundle
