#include "tests/values/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "instrument/cubin/kernel_info.h"
#include "instrument/sass/assemble.h"
#include "instrument/sass/effects.h"
#include "tests/values/own_words.h"
#include "tests/values/resources.h"

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
  c.add("IMAD.SHL.U32 R6, R0, 0x20, RZ");
  if (cls != Class::group) return;
  c.add("LOP3.LUT R7, R2, 0x3, RZ, 0xc0, !PT");
  c.add("IMAD R6, R7, {:#x}, R6", area_bytes);
}
void local_address(Code& c) {
  c.add("MOV R6, c[0x0][0x28]");
  c.add("IADD3 R6, R6, -0x40, RZ");
}

// For class copy words 0..3 are the lane's in shared memory, 4..7 those in global memory, each of them there twice; and a
// barrier of one arrival lies at barrier_at.
void fill_memory(Code& c, Class cls) {
  constexpr unsigned high = 16, high_gpr = first_gpr + 4;
  if (cls == Class::copy) {
    c.add("UMOV UR28, 0xffffe");
    c.add("UMOV UR29, 0x7ffff800");
    c.add("SYNCS.EXCH.64 URZ, [URZ+{:#x}], UR28", barrier_at);
    c.add("UMOV UR30, URZ");
    c.add("UMOV UR31, URZ");
  }
  if (is_global(cls) || cls == Class::copy) {
    global_address(c, cls);
    c.add("STG.E.128 desc[UR36][R6.64], R{}", cls == Class::copy ? high_gpr : first_gpr);
    c.add("STG.E.128 desc[UR36][R6.64+0x10], R{}", high_gpr);
  }
  if (is_shared(cls) || cls == Class::copy) {
    shared_address(c, cls);
    for (unsigned k = 0; k < (cls == Class::group ? 3 : shared_copies); ++k) {
      const uint32_t copy = shared_base + k * area_bytes * warps_per_cta(cls);
      c.add("STS.128 [R6+{:#x}], R{}", copy, first_gpr);
      c.add("STS.128 [R6+{:#x}], R{}", copy + high, cls == Class::copy ? first_gpr : high_gpr);
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
  if (cls == Class::copy || cls == Class::group) c.add("FENCE.VIEW.ASYNC.S"), c.add("FENCE.VIEW.ASYNC.G");
}
void read_memory(Code& c, Class cls) {
  constexpr unsigned high_gpr = first_gpr + 4;
  if (cls == Class::copy)  // asynchronous copies arrive
    for (unsigned k = 0; k < 4; ++k) c.add("NANOSLEEP 0x1000");
  c.add("MEMBAR.SC.GPU");
  if (is_global(cls) || cls == Class::copy) {
    global_address(c, cls);
    if (is_global(cls)) c.add("LDG.E.128.STRONG.GPU R{}, desc[UR36][R6.64]", first_gpr);
    c.add("LDG.E.128.STRONG.GPU R{}, desc[UR36][R6.64{}]", high_gpr, is_global(cls) ? "+0x10" : "");
  }
  if (is_shared(cls) || cls == Class::copy) {
    shared_address(c, cls);
    c.add("LDS.128 R{}, [R6+{:#x}]", first_gpr, shared_base);
    if (is_shared(cls)) c.add("LDS.128 R{}, [R6+{:#x}]", high_gpr, shared_base + 16);
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
  region(choice_address, Bytes(16));
  return launch;
}

}  // namespace xtrace::values
