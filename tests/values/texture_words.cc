#include "tests/values/texture_words.h"

#include <algorithm>

#include "instrument/sass/form.h"

namespace xtrace::values {
namespace {

// Where the handle is: a uniform register (bits [45:40]), a constant, a constant of the first 64 words and an index, the first
// register of the first or of the second operand ([31:24], [39:32]), a register at [71:64]. [code of nvcc 13.0 for sm_80 and 90]
enum class Handle : uint8_t { uniform, constant, indexed, first, second, third };

struct Opcode {
  uint16_t opcode;  // opcode13
  Handle handle;
};
// In the order of Handle as far as there are such. [nvdisasm 13.5]
constexpr Opcode tex[] = {{0x1f60, Handle::uniform}, {0xb60, Handle::constant}, {0xb62, Handle::indexed}, {0x361, Handle::second}};
constexpr Opcode tld4[] = {{0x1f63, Handle::uniform}, {0xb63, Handle::constant}, {0xb65, Handle::indexed}, {0x364, Handle::second}};
constexpr Opcode tld[] = {{0x1f66, Handle::uniform}, {0xb66, Handle::constant}, {0xb68, Handle::indexed}, {0x367, Handle::second}};
constexpr Opcode tmml[] = {{0x1f69, Handle::uniform}, {0xb69, Handle::constant}, {0xb6b, Handle::indexed}, {0x36a, Handle::second}};
constexpr Opcode txd[] = {{0x1f6c, Handle::uniform}, {0xb6c, Handle::constant}, {0xb6e, Handle::indexed}, {0x36d, Handle::first}};
constexpr Opcode txq[] = {{0x1f6f, Handle::uniform}, {0xb6f, Handle::constant}, {0xb71, Handle::indexed}, {0x370, Handle::first}};
constexpr Opcode footprint[] = {{0x1f74, Handle::uniform}, {0xb72, Handle::constant}, {0xb74, Handle::indexed}, {0x373, Handle::second}};
constexpr Opcode suld_p[] = {{0x1f97, Handle::uniform}, {0xb97, Handle::constant}, {0x797, Handle::indexed}, {0x998, Handle::third}};
constexpr Opcode suld_d[] = {{0x1f99, Handle::uniform}, {0xb99, Handle::constant}, {0x799, Handle::indexed}, {0x99a, Handle::third}};
constexpr Opcode sust_p[] = {{0x1f9b, Handle::uniform}, {0xb9b, Handle::constant}, {0x79b, Handle::indexed}, {0x99c, Handle::third}};
constexpr Opcode sust_d[] = {{0x1f9d, Handle::uniform}, {0xb9d, Handle::constant}, {0x79d, Handle::indexed}, {0x99e, Handle::third}};
constexpr Opcode suatom[] = {{0x1f93, Handle::uniform}, {0x593, Handle::constant}, {0x793, Handle::indexed}, {0x394, Handle::third}};
constexpr Opcode suatom_cas[] = {{0x1f95, Handle::uniform}, {0x595, Handle::constant}, {0x795, Handle::indexed}, {0x396, Handle::third}};
constexpr Opcode sured[] = {{0x1f9f, Handle::uniform}, {0x59f, Handle::constant}, {0x79f, Handle::indexed}, {0x3a0, Handle::third}};

constexpr unsigned result = 40, coordinates = 8, second = 24, third = 32, none = 255, handle_ur = 16;
constexpr unsigned d1 = 0, d2 = texture_2d, d3 = 2, cube = 3, array1 = 4, array2 = 5, array_cube = 7;              // textures
constexpr unsigned s1 = 0, s1_array = 2, s2 = surface_2d, s2_array = 4, s3 = 5;                            // surfaces
constexpr uint64_t as_compiled = 1 << 20, predicate_none = 7 << 17, predicate_4 = 4 << 17, uniform_bit = 1 << 27;
// Of textures, in the upper word: how the level is found, offsets, half results.
constexpr uint64_t level_zero = 1 << 23, level_bias = 2 << 23, level_given = 3 << 23, offsets = 1 << 12, no_derivatives = 1 << 13,
                   compare_depth = 1 << 14, half_results = 1 << 15;
// Of surfaces: coordinate 0 in bytes; widths; order; what is done outside; operations of atomics and their types.
constexpr uint64_t in_bytes = 1 << 8, gpu = 7 << 13, sys = 10 << 13;
constexpr uint64_t width(uint64_t code) { return code << 9; }
constexpr uint64_t operation(uint64_t code) { return code << 23; }
enum class Outside : uint8_t { ignore, nearest, trap };

sass::RawInst word(Opcode op, unsigned shape, uint64_t high) {
  sass::RawInst w{};
  set_bits(w, bits(11, 0), op.opcode & 0xfff);
  set_bits(w, bits(15, 12), 7);
  set_bits(w, bits(31, 24), coordinates);
  set_bits(w, bits(63, 61), shape);
  w.hi = high | as_compiled;
  switch (op.handle) {
    case Handle::uniform:
      set_bits(w, bits(45, 40), handle_ur);
      w.hi |= uniform_bit;
      break;
    case Handle::constant:
      break;
    case Handle::indexed:
    case Handle::first:
    case Handle::second:
      break;
    case Handle::third:
      set_bits(w, bits(71, 64), third);
      break;
  }
  return w;
}

// One access of a texture: its results go to R40 and R32.
Word texture(Opcode op, unsigned shape, uint64_t high, unsigned mask = 0xf, unsigned operand = second, unsigned more = third) {
  sass::RawInst w = word(op, shape, high | uint64_t{mask} << 8 | more);
  if ((high & predicate_none) == 0 && op.opcode != 0x1f6f) w.hi |= predicate_none;
  set_bits(w, bits(23, 16), result);
  const bool b = op.handle == Handle::indexed || op.handle == Handle::first || op.handle == Handle::second;
  set_bits(w, bits(39, 32), b ? second : operand);
  if (b) set_bits(w, bits(59, 59), 1);  // .B
  if (op.handle == Handle::indexed) set_bits(w, bits(45, 40), texture_in_bank / 4);
  if (op.handle == Handle::constant) set_bits(w, bits(53, 40), (0x210 + handle_parameter(false, shape)) / 4);
  return {w, Class::texture};
}
Word surface(Opcode op, bool loads, bool stores, unsigned shape, Outside outside, uint64_t high) {
  sass::RawInst w = word(op, shape, high);
  if (loads) {
    set_bits(w, bits(23, 16), result);
    if ((high & predicate_none) == 0) w.hi |= predicate_none;
  }
  if (stores) set_bits(w, bits(39, 32), second);
  set_bits(w, bits(60, 59), static_cast<unsigned>(outside));
  if (op.handle == Handle::constant) set_bits(w, bits(53, 40), (0x210 + handle_parameter(true, shape)) / 4);
  if (op.handle == Handle::indexed) set_bits(w, bits(45, 40), surface_in_bank / 4);
  return {w, Class::surface};
}
Word guarded(Word w) {
  set_bits(w.inst, bits(15, 12), 3);
  return w;
}

void textures(std::vector<Word>& to) {
  const auto add = [&](const Word& w) { to.push_back(w); };
  for (const Opcode op : tex) {
    add(texture(op, d2, level_given));
    add(guarded(texture(op, d2, level_given)));
    add(texture(op, d2, level_zero, 0xf, none));
    if (op.handle != Handle::uniform) continue;
    for (const unsigned shape : {d1, d3, cube, array1, array2, array_cube}) add(texture(op, shape, level_given));
    for (const unsigned mask : {1, 3, 5, 7}) add(texture(op, d2, level_given, mask, second, mask == 7 ? third : none));
    add(texture(op, d2, 0, 0xf, none));
    for (const unsigned shape : {d2, array2}) add(texture(op, shape, level_bias));
    for (const unsigned shape : {d1, d2, d3, array2}) add(texture(op, shape, level_given | offsets));
    add(texture(op, d2, level_given | compare_depth));
    add(texture(op, array2, level_given | compare_depth | offsets));
    add(texture(op, d2, no_derivatives));
    add(texture(op, d2, level_given | half_results, 0xf, second, none));
    add(texture(op, d2, level_given | half_results, 0xf));
    add(texture(op, d2, level_given | predicate_4));
  }
  for (const Opcode op : tld4) {
    add(texture(op, d2, 0, 0xf, none));
    if (op.handle != Handle::uniform) continue;
    for (const uint64_t component : {1, 2, 3}) add(texture(op, d2, component << 23, 0xf, none));
    for (const unsigned shape : {cube, array2, array_cube}) add(texture(op, shape, 0, 0xf, none));
    for (const unsigned shape : {d2, array2}) add(texture(op, shape, offsets));
    add(texture(op, d2, compare_depth));
    add(texture(op, d2, half_results, 0xf, none));
    add(guarded(texture(op, d2, predicate_4, 0xf, none)));
  }
  for (const Opcode op : tld) {
    add(texture(op, d2, level_zero, 0xf, none));
    add(texture(op, d1, level_zero, 0xf, none));
    if (op.handle != Handle::uniform) continue;
    for (const unsigned shape : {d3, array1, array2}) add(texture(op, shape, level_zero, 0xf, none));
    for (const unsigned shape : {d1, d2, d3, array1, array2}) add(texture(op, shape, level_given | no_derivatives));
    add(texture(op, d2, level_zero | offsets));
    add(texture(op, d2, level_given | offsets));
    for (const unsigned mask : {1, 3, 7}) add(texture(op, d2, level_zero, mask, none, mask == 7 ? third : none));
    add(guarded(texture(op, d2, level_zero | predicate_4, 0xf, none)));
  }
  for (const Opcode op : tmml) {
    add(texture(op, d2, no_derivatives, 0x3, none, none));
    if (op.handle != Handle::uniform) continue;
    for (const unsigned shape : {d1, d3, cube, array2}) add(texture(op, shape, 0, 0x3, none, none));
  }
  for (const Opcode op : txd) {
    add(texture(op, d2, 0));
    if (op.handle != Handle::uniform) continue;
    for (const unsigned shape : {d1, array1, array2}) add(texture(op, shape, 0));
    for (const unsigned shape : {d2, array1, array2}) add(texture(op, shape, offsets));
    add(guarded(texture(op, d2, predicate_4, 0x3, second, none)));
  }
  for (const Opcode op : txq) {
    for (const unsigned mask : {1, 2, 4, 0xf}) {
      Word w = texture(op, d1, 0, mask, none, mask == 0xf ? third : none);
      set_bits(w.inst, bits(84, 81), 0);
      add(w);
    }
  }
  for (const Opcode op : footprint) add(texture(op, d2, 0));
}

void surfaces(std::vector<Word>& to) {
  const auto add = [&](const Word& w) { to.push_back(w); };
  constexpr uint64_t all = 0xf << 8, bits32 = 4, bits64 = 5, bits128 = 6;
  for (const Opcode op : suld_d) {
    const auto load = [&](unsigned shape, Outside outside, uint64_t high) { add(surface(op, true, false, shape, outside, high)); };
    load(s2, Outside::nearest, in_bytes | gpu | width(bits32));
    load(s2, Outside::trap, in_bytes | gpu | width(bits128));
    if (op.handle != Handle::uniform) continue;
    for (const uint64_t w : {0, 1, 2, 3, 4, 5, 6}) load(s2, Outside::ignore, in_bytes | gpu | width(w));
    for (const unsigned shape : {s1, s1_array, s2_array, s3}) load(shape, Outside::ignore, in_bytes | gpu | width(bits32));
    load(s2, Outside::ignore, gpu | width(bits32));
    load(s2, Outside::ignore, in_bytes | gpu | width(bits64) | predicate_4);
    add(guarded(surface(op, true, false, s2, Outside::ignore, in_bytes | gpu | width(bits64))));
  }
  for (const Opcode op : suld_p) {
    add(surface(op, true, false, s2, Outside::nearest, gpu | all));
    if (op.handle != Handle::uniform) continue;
    add(surface(op, true, false, s2, Outside::ignore, gpu | 1 << 8));
    add(surface(op, true, false, s2, Outside::ignore, gpu | 3 << 8));
  }
  for (const Opcode op : sust_d) {
    add(surface(op, false, true, s2, Outside::nearest, in_bytes | gpu | width(bits32)));
    add(surface(op, false, true, s2, Outside::trap, in_bytes | gpu | width(bits128)));
    if (op.handle != Handle::uniform) continue;
    for (const uint64_t w : {0, 2, 5, 6}) add(surface(op, false, true, s2, Outside::ignore, in_bytes | gpu | width(w)));
    for (const unsigned shape : {s1, s1_array, s2_array, s3})
      add(surface(op, false, true, shape, Outside::ignore, in_bytes | gpu | width(bits32)));
    add(guarded(surface(op, false, true, s2, Outside::ignore, in_bytes | gpu | width(bits64))));
  }
  for (const Opcode op : sust_p) add(surface(op, false, true, s2, Outside::nearest, gpu | all));
  for (const Opcode op : suatom) {
    add(surface(op, true, true, s2, Outside::nearest, in_bytes | sys));
    if (op.handle != Handle::uniform) continue;
    for (const uint64_t o : {1, 2, 3, 4, 5, 6, 7, 8}) add(surface(op, true, true, s2, Outside::nearest, in_bytes | sys | operation(o)));
    add(surface(op, true, true, s2, Outside::nearest, in_bytes | sys | width(1)));
    add(surface(op, true, true, s2, Outside::nearest, in_bytes | sys | width(2)));
    add(guarded(surface(op, true, true, s2, Outside::ignore, in_bytes | sys | predicate_4)));
  }
  for (const Opcode op : suatom_cas) {
    add(surface(op, true, true, s2, Outside::nearest, in_bytes | sys));
    if (op.handle == Handle::uniform) add(surface(op, true, true, s2, Outside::nearest, in_bytes | sys | width(2)));
  }
  for (const Opcode op : sured) {
    add(surface(op, false, true, s2, Outside::nearest, in_bytes | sys));
    if (op.handle != Handle::uniform) continue;
    for (const uint64_t o : {1, 2, 3, 4, 5, 6, 7}) add(surface(op, false, true, s2, Outside::nearest, in_bytes | sys | operation(o)));
    for (const uint64_t w : {1, 2}) add(surface(op, false, true, s2, Outside::nearest, in_bytes | sys | width(w)));
    add(surface(op, false, true, s2, Outside::nearest, sys));
    add(guarded(surface(op, false, true, s2, Outside::nearest, in_bytes | sys)));
  }
}

Handle handle_of_word(uint16_t opcode) {
  for (const auto& list : {tex, tld4, tld, tmml, txd, txq, footprint, suld_p, suld_d, sust_p, sust_d, suatom, suatom_cas, sured})
    for (size_t k = 0; k < 4; ++k)
      if (list[k].opcode == opcode) return list[k].handle;
  return Handle::uniform;
}

}  // namespace

const std::vector<Word>& texture_words() {
  static const std::vector<Word> all = [] {
    std::vector<Word> words;
    textures(words);
    surfaces(words);
    return words;
  }();
  return all;
}

Choice choice_of(const Word& w, const Objects& objects) {
  Choice c;
  const auto shape = static_cast<unsigned>(get_bits(w.inst, bits(63, 61)));
  const uint64_t none_there[2] = {};
  const uint64_t* two = w.cls == Class::surface ? shape < surface_shapes ? objects.surface[shape] : none_there
                                                : objects.texture[shape];
  const auto base = static_cast<uint32_t>(two[0]);
  Choice::Operand handle{base, static_cast<uint32_t>(two[1]) - base, 1, 0};
  // Stores beside the warps' own rows go to the second, so that nothing is read which they left.
  const auto mnemonic = sass::find_form(**sass::find_arch(90), w.inst)->mnemonic;
  if (w.cls == Class::surface && shape != surface_2d && mnemonic != "SULD") handle = {static_cast<uint32_t>(two[1]), 0, 1, 0};
  switch (handle_of_word(sass::opcode13(w.inst))) {
    case Handle::uniform:
      c.ur = handle;
      c.ur.more = static_cast<uint32_t>(two[0] >> 32);
      break;
    case Handle::constant:
      break;
    case Handle::first:
      c.r8 = handle;
      break;
    case Handle::indexed:  // not its handle, but what hardware takes for one should be one
      if (w.cls == Class::texture) c.r24 = handle;
      break;
    case Handle::second:
      c.r24 = handle;
      break;
    case Handle::third:
      c.r32 = handle;
      break;
  }
  return c;
}

}  // namespace xtrace::values
