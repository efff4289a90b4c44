#include "tests/values/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/assemble.h"
#include "instrument/sass/effects.h"
#include "tests/values/objects.h"
#include "tests/values/own_words.h"
#include "tests/values/resources.h"
#include "tests/values/tensor_maps.h"

namespace xtrace::values {
namespace {

constexpr uint32_t register_count = 64;      // R0..R61
constexpr uint8_t exit_offsets = 0x1c;       // EIATTR_EXIT_INSTR_OFFSETS
constexpr sass::RawInst nothing{0x7918, 0};  // NOP

// Waits for everything before and after, so that no latency is relied on.
void set_waits(sass::RawInst& w) {
  const sass::Effects e = sass::effects(**sass::find_arch(90), w, 0);
  sass::Control c;
  c.keep_issuing = false;
  c.stall = 15;
  c.wait_mask = 0x3f;
  if (!e.fixed_latency) {
    const bool writes = e.def.gpr.any() || e.def.ur.any() || e.def.pred != 0 || e.def.upred != 0;
    const bool reads = e.use.gpr.any() || e.use.ur.any();
    if (writes)
      c.write_barrier = 0;
    else if (reads)
      c.read_barrier = 0;
  }
  sass::set_control(w, c);
}

// Lines of SASS.
class Code {
 public:
  template <typename... A>
  void add(fmt::format_string<A...> f, A&&... a) {
    lines_.push_back(fmt::format(f, std::forward<A>(a)...));
  }
  void slot() { lines_.emplace_back(); }
  // Byte offset of the line `ahead` lines after the one that is added next.
  size_t pc_after(size_t ahead) const { return (lines_.size() + ahead) * sass::inst_bytes; }

  // Offsets of the slots and of EXIT.
  struct Assembled {
    Bytes text;
    std::vector<uint32_t> slots;
    uint32_t exit = 0;
  };
  Result<Assembled> assemble() const {
    Assembled out;
    for (const std::string& line : lines_) {
      const auto pc = static_cast<uint32_t>(out.text.size());
      sass::RawInst w = nothing;
      if (line.empty()) {
        out.slots.push_back(pc);
      } else {
        XT_TRY(w, sass::assemble(**sass::find_arch(90), line, pc));
        set_waits(w);
        if (line == "EXIT") out.exit = pc;
      }
      append(out.text, w);
    }
    return out;
  }

 private:
  std::vector<std::string> lines_;
};

constexpr unsigned uniforms = urs + 1;  // with the word of predicates
constexpr uint32_t at(unsigned r) { return r * 128; }

// "[R6+0x10]", "[R6]" for 0.
std::string offset(uint32_t bytes) { return bytes == 0 ? std::string() : fmt::format("+{:#x}", bytes); }

// R0 lane, R2 warp, UR36 the memory descriptor; R4:R5 row 0 of the warp at the pointer `parameter`.
void address_of_state(Code& c, uint32_t parameter) {
  c.add("MOV R4, c[0x0][{:#x}]", parameter);
  c.add("MOV R5, c[0x0][{:#x}]", parameter + 4);
  c.add("IMAD.WIDE.U32 R4, R2, {:#x}, R4", warp_bytes);
}
void address_of_lane(Code& c) { c.add("IMAD.WIDE.U32 R4, R0, 0x4, R4"); }

// R6:R7: the lane's 32 bytes of the warp's area in global memory.
void global_address(Code& c, Class cls) {
  const uint64_t area = area_of(cls);
  c.add("MOV R6, {:#x}", static_cast<uint32_t>(area));
  c.add("MOV R7, {:#x}", area >> 32);
  c.add("IMAD.WIDE.U32 R6, R2, {:#x}, R6", area_bytes);
  c.add("IMAD.WIDE.U32 R6, R0, 0x20, R6");
}
void shared_address(Code& c, Class cls) {
  if (cls == Class::cluster) {
    c.add("S2R R7, SR_CgaCtaId");
    c.add("SHF.L.U32 R7, R7, {:#x}, RZ", rank_shift);
    c.add("IMAD R6, R0, 0x20, R7");
    return;
  }
  c.add("IMAD.SHL.U32 R6, R0, 0x20, RZ");
  if (cls != Class::group) return;
  c.add("LOP3.LUT R7, R2, 0x3, RZ, 0xc0, !PT");
  c.add("IMAD R6, R7, {:#x}, R6", area_bytes);
}
void local_address(Code& c) {
  c.add("MOV R6, c[0x0][0x28]");
  c.add("IADD3 R6, R6, -0x40, RZ");
}

// Class surface: the lane's 32 bytes in the row of its warp, through the handle in UR34:UR35.
void surface_row(Code& c, bool store) {
  c.add("MOV R7, R2");
  if (store) {  // texel 32 n, where the n-th coordinate is when it counts texels: n
    c.add("IMAD.SHL.U32 R6, R0, 0x80, RZ");
    c.add("SUST.D.BA.2D.STRONG.GPU.IGN [R6], R0, UR34, 0x0");
  }
  c.add("IMAD.SHL.U32 R6, R0, 0x20, RZ");
  for (unsigned k = 0; k < memory_words; ++k) {
    if (store)
      c.add("SUST.D.BA.2D.STRONG.GPU.IGN [R6], R{}, UR34, 0x0", first_gpr + k);
    else
      c.add("SULD.D.BA.2D.STRONG.GPU.IGN R{}, [R6], UR34, 0x0", first_gpr + k);
    c.add("IADD3 R6, R6, 0x4, RZ");
  }
}

// Both CTAs of the cluster come here. [code of nvcc 13.0]
void meet_cluster(Code& c) {
  c.add("MEMBAR.ALL.GPU");
  c.add("UCGABAR_ARV");
  c.add("UCGABAR_WAIT");
  c.add("CCTL.IVALL");
}

// For class copy words 0..3 are the lane's in shared memory, 4..7 those in global memory, each of them there twice; and a
// barrier of one arrival lies at barrier_at.
void fill_memory(Code& c, Class cls) {
  constexpr unsigned high = 16, high_gpr = first_gpr + 4;
  if (cls == Class::surface) surface_row(c, true);
  if (cls == Class::cluster) {
    shared_address(c, cls);
    c.add("STS.128 [R6+{:#x}], R{}", shared_base, first_gpr);
    c.add("STS.128 [R6+{:#x}], R{}", shared_base + high, high_gpr);
    c.add("R2UR UR30, R7");
    c.add("UMOV UR28, 0xffffe");
    c.add("UMOV UR29, 0x7ffff800");
    for (const unsigned k : {0u, 8u}) c.add("SYNCS.EXCH.64 URZ, [UR30+{:#x}], UR28", cluster_barrier_at + k);
    c.add("UMOV UR30, URZ");
    c.add("UMOV UR31, URZ");
    meet_cluster(c);
  }
  if (is_copy(cls)) {
    c.add("UMOV UR28, 0xffffe");
    c.add("UMOV UR29, 0x7ffff800");
    c.add("SYNCS.EXCH.64 URZ, [URZ+{:#x}], UR28", barrier_at);
    c.add("UMOV UR30, URZ");
    c.add("UMOV UR31, URZ");
  }
  if (is_global(cls) || is_copy(cls)) {
    global_address(c, cls);
    c.add("STG.E.128 desc[UR36][R6.64], R{}", is_copy(cls) ? high_gpr : first_gpr);
    c.add("STG.E.128 desc[UR36][R6.64+0x10], R{}", high_gpr);
  }
  if (is_shared(cls) || is_copy(cls)) {
    shared_address(c, cls);
    for (unsigned k = 0; k < (cls == Class::group ? 3 : shared_copies); ++k) {
      const uint32_t copy = shared_base + k * area_bytes * warps_per_cta(cls);
      c.add("STS.128 [R6+{:#x}], R{}", copy, first_gpr);
      c.add("STS.128 [R6+{:#x}], R{}", copy + high, is_copy(cls) ? first_gpr : high_gpr);
    }
  }
  if (is_local(cls)) {
    local_address(c);
    for (const unsigned copy : {0u, 32u}) {
      c.add("STL.128 [R6{}], R{}", offset(copy), first_gpr);
      c.add("STL.128 [R6+{:#x}], R{}", copy + high, high_gpr);
    }
  }
  c.add("MEMBAR.SC.GPU");
  if (cls == Class::group) c.add("BAR.SYNC.DEFER_BLOCKING 0x0");
  if (is_copy(cls) || cls == Class::group) c.add("FENCE.VIEW.ASYNC.S"), c.add("FENCE.VIEW.ASYNC.G");
}
void read_memory(Code& c, Class cls) {
  constexpr unsigned high_gpr = first_gpr + 4;
  if (is_copy(cls) || cls == Class::cluster)  // asynchronous copies arrive
    for (unsigned k = 0; k < 4; ++k) c.add("NANOSLEEP 0x1000");
  c.add("MEMBAR.SC.GPU");
  if (cls == Class::cluster) meet_cluster(c);
  if (cls == Class::surface) surface_row(c, false);
  if (is_global(cls) || is_copy(cls)) {
    global_address(c, cls);
    if (is_global(cls)) c.add("LDG.E.128.STRONG.GPU R{}, desc[UR36][R6.64]", first_gpr);
    c.add("LDG.E.128.STRONG.GPU R{}, desc[UR36][R6.64{}]", high_gpr, is_global(cls) ? "+0x10" : "");
  }
  if (is_shared(cls) || is_copy(cls) || cls == Class::cluster) {
    shared_address(c, cls);
    c.add("LDS.128 R{}, [R6+{:#x}]", first_gpr, shared_base);
    if (!is_copy(cls)) c.add("LDS.128 R{}, [R6+{:#x}]", high_gpr, shared_base + 16);
  }
  if (is_local(cls)) {
    local_address(c);
    c.add("LDL.128 R{}, [R6]", first_gpr);
    c.add("LDL.128 R{}, [R6+0x10]", high_gpr);
  }
}

// Class control: registers outside of the window that its words name (own_words.cc).
void control_registers(Code& c) {
  c.add("LDG.E R54, desc[UR36][R4.64{}]", offset(at(memory_row)));
  c.add("MOV R55, 0x200001");
  c.add("MOV R56, 0x20");
  c.add("MOV R57, RZ");
  c.add("MOV R58, 0x1");
  c.add("MOV R59, 0x20");
  c.add("MOV R60, 0xffffffff");
  c.add("UMOV UR32, 0x20");
  c.add("UMOV UR33, URZ");
  const uint64_t handle = handle_of(choice_address, 16);
  c.add("UMOV UR34, {:#x}", static_cast<uint32_t>(handle));
  c.add("UMOV UR35, {:#x}", handle >> 32);
}

// What the word in the slot wants of its operands (Choice); R6:R7 is the choice's address.
bool has_choice(Class cls) { return has_objects(cls) || cls == Class::tensor; }
constexpr struct {
  unsigned index, kept, at;  // where the state's value is kept, and where in the choice
} chosen[] = {{24, 53, offsetof(Choice, r24)}, {32, 54, offsetof(Choice, r32)}, {8, 55, offsetof(Choice, r8)}};

void choose_operands(Code& c, Class cls) {
  c.add("LDG.E.128 R56, desc[UR36][R6.64+{:#x}]", offsetof(Choice, ur));
  c.add("R2UR UR28, R56");
  if (cls == Class::tensor) {
    c.add("UIADD3 UR4, UR4, UR28, URZ");
    return;
  }
  c.add("R2UR UR29, R57");
  c.add("R2UR UR30, R59");
  c.add("UMOV UR32, UR16");
  c.add("UIMAD UR16, UR16, UR29, UR28");
  c.add("UIADD3 UR17, UR17, UR30, URZ");
  for (const auto& x : chosen) {
    c.add("LDG.E.128 R56, desc[UR36][R6.64+{:#x}]", x.at);
    c.add("MOV R{}, R{}", x.kept, x.index);
    c.add("LOP3.LUT R{0}, R{0}, R58, RZ, 0xc0, !PT", x.index);
    c.add("IMAD R{0}, R{0}, R57, R56", x.index);
  }
}
// Back to what the state had, and away from it where the word wrote.
void give_operands_back(Code& c, Class cls) {
  if (cls == Class::tensor) {
    c.add("UIADD3 UR4, UR4, -UR28, URZ");
    return;
  }
  c.add("UIMAD UR33, UR32, UR29, UR28");
  c.add("UIADD3 UR16, UR16, -UR33, UR32");
  c.add("UIADD3 UR17, UR17, -UR30, URZ");
  c.add("MOV R6, c[0x0][0x228]");
  c.add("MOV R7, c[0x0][0x22c]");
  for (const auto& x : chosen) {
    c.add("LDG.E.128 R56, desc[UR36][R6.64+{:#x}]", x.at);
    c.add("LOP3.LUT R60, R{}, R58, RZ, 0xc0, !PT", x.kept);
    c.add("IMAD R60, R60, R57, R56");
    c.add("IADD3 R{0}, R{0}, -R60, R{1}", x.index, x.kept);
  }
}

// The lines between the test of a slot's number and the end of the slot.
void slot_code(Code& c, Class cls) {
  const auto companions = [&c] {
    for (size_t k = 0; k < max_companions; ++k) c.add("NOP");
  };
  if (cls != Class::control) {
    c.add("R2P PR, R3, 0x7f");
    companions();
    c.slot();
    companions();
    c.add("P2R R3, PR, RZ, 0x7f");
    return;
  }
  // Lanes that come to the pad have one more in R54; all of them come together again.
  c.add("BSSY B0, {:#x}", c.pc_after(2 * max_companions + 6));
  c.add("R2P PR, R3, 0x7f");
  companions();
  c.slot();
  companions();
  c.add("BRA {:#x}", c.pc_after(2));
  c.add("IADD3 R54, R54, 0x1, RZ");  // the pad
  c.add("BSYNC B0");
  c.add("P2R R3, PR, RZ, 0x7f");
}

Code frame_code(Class cls) {
  Code c;
  const bool memory = !is_bare(cls);
  c.add("S2R R0, SR_TID.X");
  c.add("S2R R2, SR_CTAID.X");
  if (warps_per_cta(cls) > 1) {
    c.add("SHF.R.U32.HI R3, RZ, 0x5, R0");
    c.add("IMAD R2, R2, {:#x}, R3", warps_per_cta(cls));
    c.add("LOP3.LUT R0, R0, 0x1f, RZ, 0xc0, !PT");
  }
  c.add("ULDC.64 UR36, c[0x0][0x208]");
  // Uniform registers and predicates.
  address_of_state(c, 0x210);
  for (unsigned j = 0; j < uniforms; ++j)
    c.add("LDG.E R{}, desc[UR36][R4.64{}]", first_gpr + j, offset(at(uniform_row) + 4 * j));
  for (unsigned j = 0; j < urs; ++j) c.add("R2UR UR{}, R{}", first_ur + j, first_gpr + j);
  c.add("R2UR UR2, R{}", first_gpr + urs);
  for (unsigned p = 0; p < 7; ++p) {
    c.add("ULOP3.LUT UR3, UR2, {:#x}, URZ, 0xc0, !UPT", 1u << p);
    c.add("UISETP.NE.AND UP{}, UPT, UR3, URZ, UPT", p);
  }
  address_of_lane(c);
  if (cls == Class::surface)  // its own handle
    c.add("ULDC.64 UR34, c[0x0][{:#x}]", 0x210 + handle_parameter(true, surface_2d));
  // Memory.
  for (unsigned k = 0; k < memory_words; ++k)
    c.add("LDG.E R{}, desc[UR36][R4.64{}]", first_gpr + k, offset(at(memory_row + k)));
  if (memory) {
    fill_memory(c, cls);
  } else {  // goes out as it came
    c.add("MOV R6, c[0x0][0x218]");
    c.add("MOV R7, c[0x0][0x21c]");
    c.add("IMAD.WIDE.U32 R6, R2, {:#x}, R6", warp_bytes);
    c.add("IMAD.WIDE.U32 R6, R0, 0x4, R6");
    if (cls == Class::control) c.add("IADD3 R{}, R{}, {:#x}, RZ", first_gpr, first_gpr, gone_mark);
    for (unsigned k = 0; k < memory_words; ++k)
      c.add("STG.E desc[UR36][R6.64{}], R{}", offset(at(memory_row + k)), first_gpr + k);
  }
  if (cls == Class::control) control_registers(c);
  // The window.
  c.add("LDG.E R3, desc[UR36][R4.64{}]", offset(at(predicate_row)));
  for (unsigned n = 0; n < gprs; ++n) c.add("LDG.E R{}, desc[UR36][R4.64{}]", first_gpr + n, offset(at(n)));
  if (is_local(cls)) {
    c.add("IADD3 R8, R8, c[0x0][0x28], RZ");
    c.add("IADD3 R8, R8, -0x40, RZ");
  }
  c.add("MOV R6, c[0x0][0x228]");
  c.add("MOV R7, c[0x0][0x22c]");
  if (has_choice(cls)) choose_operands(c, cls);
  c.add("LDG.E R6, desc[UR36][R6.64]");
  Code one_slot;
  slot_code(one_slot, cls);
  const size_t slot_lines = one_slot.pc_after(0) / sass::inst_bytes + 3;
  for (size_t slot = 0; slot < Frame::slots; ++slot) {
    c.add("ISETP.NE.AND P0, PT, R6, {:#x}, PT", slot);
    c.add("@P0 BRA {:#x}", c.pc_after(slot_lines - 1));
    slot_code(c, cls);
    c.add("BRA {:#x}", c.pc_after(slot_lines * (Frame::slots - 1 - slot) + 1));
  }
  if (has_choice(cls)) give_operands_back(c, cls);
  if (is_local(cls)) {
    c.add("IADD3 R8, R8, -c[0x0][0x28], RZ");
    c.add("IADD3 R8, R8, 0x40, RZ");
  }
  address_of_state(c, 0x218);
  c.add("MOV R6, R4");
  c.add("MOV R7, R5");
  address_of_lane(c);
  for (unsigned n = 0; n < gprs; ++n) c.add("STG.E desc[UR36][R4.64{}], R{}", offset(at(n)), first_gpr + n);
  c.add("STG.E desc[UR36][R4.64{}], R3", offset(at(predicate_row)));
  for (unsigned j = 0; j < urs; ++j) {
    c.add("MOV R8, UR{}", first_ur + j);
    c.add("STG.E desc[UR36][R6.64{}], R8", offset(at(uniform_row) + 4 * j));
  }
  c.add("MOV R9, RZ");
  for (unsigned p = 0; p < 7; ++p) {
    c.add("UMOV UR28, {:#x}", 1u << p);
    c.add("USEL UR28, UR28, URZ, UP{}", p);
    c.add("MOV R8, UR28");
    c.add("LOP3.LUT R9, R9, R8, RZ, 0xfc, !PT");
  }
  c.add("STG.E desc[UR36][R6.64{}], R9", offset(at(uniform_row) + 4 * up_lane));
  if (memory) {
    read_memory(c, cls);
    for (unsigned k = 0; k < memory_words; ++k)
      c.add("STG.E desc[UR36][R4.64{}], R{}", offset(at(memory_row + k)), first_gpr + k);
  }
  if (cls == Class::control) c.add("STG.E desc[UR36][R4.64{}], R54", offset(at(memory_row)));
  c.add("EXIT");
  return c;
}

}  // namespace

Result<Frame> Frame::make(Class cls) {
  XT_TRY(cubin::Image image, cubin::Image::parse(slot_cubin()));
  XT_TRY(const cubin::KernelInfo kernel, cubin::kernel_info(image, "slot"));
  XT_TRY(Code::Assembled code, frame_code(cls).assemble());
  const size_t code_bytes = code.text.size();
  image.set_section_data(kernel.text_section, code.text);
  image.set_symbol(kernel.symbol, 0, code_bytes);
  XT_TRY_STATUS(cubin::set_register_count(image, kernel, register_count));
  XT_TRY(std::vector<cubin::InfoRecord> records, image.info_records(*kernel.info_section));
  for (cubin::InfoRecord& r : records)
    if (r.attribute == exit_offsets) {
      r.payload.clear();
      append(r.payload, code.exit);
    }
  image.set_info_records(*kernel.info_section, records);
  Frame f;
  f.cls_ = cls;
  XT_TRY(f.cubin_, image.write());
  const auto found = std::search(f.cubin_.begin(), f.cubin_.end(), code.text.begin(), code.text.end());
  if (found == f.cubin_.end()) return internal("the code of the frame is not in its cubin");
  XT_CHECK(code.slots.size() == slots, "the frame has another number of slots");
  std::copy(code.slots.begin(), code.slots.end(), f.code_at_.begin());
  for (size_t k = 0; k < slots; ++k) f.at_[k] = static_cast<size_t>(found - f.cubin_.begin()) + code.slots[k];
  return f;
}

const Bytes& Frame::cubin(std::span<const Word> words) {
  XT_CHECK(words.size() <= slots, "more words than slots");
  for (size_t k = 0; k < slots; ++k) {
    const auto put = [&](size_t at, sass::RawInst inst) {
      set_waits(inst);
      std::memcpy(cubin_.data() + at, &inst, sizeof inst);
    };
    const bool used = k < words.size();
    put(at_[k], used ? words[k].inst : nothing);
    const Companions c = used ? companions(words[k]) : Companions();
    for (size_t n = 0; n < max_companions; ++n) {
      put(at_[k] - (max_companions - n) * sass::inst_bytes, n < c.before.size() ? c.before[n] : nothing);
      put(at_[k] + (n + 1) * sass::inst_bytes, n < c.after.size() ? c.after[n] : nothing);
    }
  }
  return cubin_;
}

replay::LaunchImage Frame::launch(const std::vector<WarpState>& inputs) const {
  replay::LaunchImage launch;
  launch.record.kernel = "slot";
  launch.record.grid = {static_cast<uint32_t>(inputs.size()) / warps_per_cta(cls_), 1, 1};
  launch.record.block = {32 * warps_per_cta(cls_), 1, 1};
  launch.record.param_block = parameters();
  launch.record.params = {{0, parameter_bytes}};
  launch.code = cubin_;
  const auto region = [&](uint64_t address, Bytes bytes) {
    bundle::Region r;
    r.kind = bundle::RegionKind::device;
    r.address = {address};
    r.size = bytes.size();
    launch.record.regions.push_back(std::move(r));
    launch.before.push_back(std::move(bytes));
  };
  const auto bytes = std::as_bytes(std::span(inputs));
  region(input_address, Bytes(bytes.begin(), bytes.end()));
  region(output_address, Bytes(bytes.size()));
  region(area_of(cls_), Bytes(inputs.size() * area_bytes));
  region(choice_address, Bytes(sizeof(Choice)));
  if (cls_ == Class::tensor) region(maps_address, tensor_maps());
  if (cls_ == Class::cluster) launch.record.cluster = {2, 1, 1};
  return launch;
}

}  // namespace xtrace::values
