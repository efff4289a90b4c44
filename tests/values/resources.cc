#include "tests/values/resources.h"

#define XTRACE_RESOURCE(name, path)                                                               \
  asm(".section .rodata\n.balign 16\nxtrace_" #name "_begin: .incbin \"" path "\"\nxtrace_" #name \
      "_end: .byte 0\n.previous\n");                                                              \
  extern "C" {                                                                                    \
  extern const std::byte name##_begin[] asm("xtrace_" #name "_begin");                            \
  extern const std::byte name##_end[] asm("xtrace_" #name "_end");                                \
  }

XTRACE_RESOURCE(vectors, XTRACE_SOURCE_DIR "/tests/oracle/vectors.txt")
XTRACE_RESOURCE(forms, XTRACE_SOURCE_DIR "/tests/oracle/sm90_forms.txt")
XTRACE_RESOURCE(generated, XTRACE_SOURCE_DIR "/tests/oracle/generated.txt")
XTRACE_RESOURCE(recorded, XTRACE_SOURCE_DIR "/tests/values/h200.txt")
XTRACE_RESOURCE(slot, XTRACE_SOURCE_DIR "/tests/values/slot.cubin")

namespace xtrace::values {
namespace {
std::string_view text_of(const std::byte* begin, const std::byte* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin)};
}
}  // namespace

std::string_view oracle_vectors() { return text_of(vectors_begin, vectors_end); }
std::string_view oracle_forms() { return text_of(forms_begin, forms_end); }
std::string_view oracle_generated() { return text_of(generated_begin, generated_end); }
std::string_view recorded_results() { return text_of(recorded_begin, recorded_end); }
ByteView slot_cubin() { return {slot_begin, slot_end}; }

}  // namespace xtrace::values
