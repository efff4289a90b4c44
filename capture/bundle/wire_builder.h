// Builds one Cap'n Proto message of a single segment, by the encoding rules of capnproto.org/encoding.html: 8-byte words,
// a struct is its data words and then its pointers, a pointer holds the distance to its target in words.
// Throws std::length_error when a list or the whole exceeds what a pointer can express; encode_* (messages.h) catch it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "capture/bundle/wire_layout.h"

namespace xtrace::bundle {

class WireBuilder {
 public:
  // A struct inside the message. Stays valid while the message grows.
  class StructRef {
   public:
    // Scalars of every kind but f64; `value` is cut to the width of the field.
    void put(const layout::Field& field, uint64_t value);
    void put_f64(const layout::Field& field, double value);
    void put_text(const layout::Field& field, std::string_view value);
    void put_data(const layout::Field& field, ByteView value);
    void put_texts(const layout::Field& field, const std::vector<std::string>& values);
    StructRef put_struct(const layout::Field& field, const layout::Struct& type);
    std::vector<StructRef> put_structs(const layout::Field& field, const layout::Struct& type, size_t count);

   private:
    friend class WireBuilder;
    StructRef(WireBuilder* builder, size_t begin, const layout::Struct& type)
        : builder_(builder), begin_(begin), data_words_(type.data_words) {}
    size_t pointer(const layout::Field& field) const { return begin_ + data_words_ + field.position; }

    WireBuilder* builder_;
    size_t begin_;  // word index
    uint16_t data_words_;
  };

  explicit WireBuilder(const layout::Struct& root);
  StructRef root() { return root_; }
  // The message with its segment table.
  Bytes finish() const;

 private:
  size_t allocate(uint64_t words);
  size_t add_struct(size_t pointer, const layout::Struct& type);
  // `stored` bytes of which `bytes` come from the caller; the rest is zero.
  void point_to_bytes(size_t pointer, ByteView bytes, uint64_t stored);
  void point_to_list(size_t pointer, unsigned element_size, uint64_t count, size_t target);

  std::vector<uint64_t> words_;
  StructRef root_;
};

}  // namespace xtrace::bundle
