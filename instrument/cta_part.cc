#include "instrument/cta_part.h"

#include <optional>

#include "instrument/cubin/image.h"
#include "instrument/sass/inst.h"

namespace xtrace::instrument {
namespace {

constexpr uint16_t mov_imm = 0x802, isetp_imm = 0x80c;   // as sass/encode.cc writes them
constexpr BitRange imm_field = bits(63, 32), mov_to = bits(23, 16), isetp_of = bits(31, 24);

}  // namespace

Result<Spliced> for_cta_part(const Spliced& spliced, std::string_view kernel, uint32_t part) {
  Spliced out = spliced;
  wire::SlotLayout& l = out.map.layout;
  XT_CHECK(part < l.one_in, "one of the classes");
  XT_TRY(cubin::Image image, cubin::Image::parse(spliced.cubin));
  XT_TRY(const uint32_t section, image.text_section(kernel));
  Bytes text = image.sections()[section].data;
  const auto word = [&](uint32_t k) { return read_at<sass::RawInst>(text, uint64_t{k} * sass::inst_bytes, "word"); };
  const auto found = [&](uint16_t opcode, BitRange reg, uint32_t imm, std::optional<uint64_t> wanted) -> Result<std::optional<uint32_t>> {
    std::optional<uint32_t> at;   // the last one
    for (uint32_t k = 0; k < spliced.claims.prologue_first; ++k) {
      if (out.map.original_of_new[k] != wire::AddressMap::inserted) continue;
      XT_TRY(const sass::RawInst w, word(k));
      if (sass::opcode13(w) % 0x1000 == opcode && get_bits(w, imm_field) == imm && (!wanted || get_bits(w, reg) == *wanted)) at = k;
    }
    return at;
  };
  const auto start = [&](uint32_t k) { return l.seed - wire::class_begin(l.one_in, k); };
  // The comparison, and what its register begins with.
  XT_TRY(const auto compare, found(isetp_imm, isetp_of, wire::class_width(l.one_in, l.cta_part), std::nullopt));
  if (!compare) return internal("no comparison with the limit of class {} in the decision of kernel {}", l.cta_part, kernel);
  XT_TRY(const sass::RawInst comparison, word(*compare));
  XT_TRY(const auto begin, found(mov_imm, mov_to, start(l.cta_part), get_bits(comparison, isetp_of)));
  if (!begin) return internal("no constant that class {} begins with in the decision of kernel {}", l.cta_part, kernel);
  const auto put = [&](uint32_t k, uint32_t imm) -> Status {
    XT_TRY(sass::RawInst w, word(k));
    set_bits(w, imm_field, imm);
    std::memcpy(text.data() + uint64_t{k} * sass::inst_bytes, &w, sizeof w);
    return {};
  };
  XT_TRY_STATUS(put(*compare, wire::class_width(l.one_in, part)));
  XT_TRY_STATUS(put(*begin, start(part)));
  image.set_section_data(section, std::move(text));
  XT_TRY(out.cubin, image.write());
  l.cta_part = part;
  return out;
}

}  // namespace xtrace::instrument
