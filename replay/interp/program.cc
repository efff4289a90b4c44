#include "replay/interp/program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "instrument/sass/effects.h"
#include "instrument/sass/print.h"
#include "replay/interp/op_table.h"
#include "replay/interp/step.h"

namespace xtrace::replay::interp {
namespace {

constexpr uint32_t reserved_registers = 2;  // of EIATTR_REGCOUNT [measured H200]
constexpr uint32_t stack_bytes = 1024;      // CUDA's default limit, beside the frame

void refuse(Step& s, const Inst& i) {
  s.fail(ErrorKind::unsupported, fmt::format("not implemented: {}", s.program->problems[i.op]));
}

void decode_guard(const sass::Form& form, const sass::RawInst& w, Inst& i, Fields& f) {
  i.uniform = form.cls == sass::OpClass::uniform && !form.has(sass::vector_guard);
  i.guard.index = static_cast<uint8_t>(get_bits(w, bits(14, 12)));
  i.guard.flip = get_bits(w, bit(15)) != 0 ? ~0u : 0;
  if (i.uniform || form.guard_is_uniform()) i.guard.index = static_cast<uint8_t>(i.guard.index + 8);
  if (form.has(sass::either_guard) && (i.guard.index != upt || i.guard.flip != 0))
    f.refuse("a guard of this instruction, whose kind is not known");
}

void decode_schedule(const sass::RawInst& w, Inst& i) {
  const sass::Control c = sass::get_control(w);
  i.stall = c.stall;
  i.wait = c.wait_mask;
  i.write_barrier = c.write_barrier;
  i.read_barrier = c.read_barrier;
}

Unit unit_of(const sass::Form& form) {
  switch (form.cls) {
    case sass::OpClass::fp64:
      return Unit::fp64;
    case sass::OpClass::xu:
      return Unit::conversion;
    case sass::OpClass::mio:
      return Unit::other;
    default:
      return Unit::fixed;
  }
}

// One more than the highest register that it names.
uint16_t registers_of(const sass::Arch& arch, const sass::RawInst& w, uint32_t pc) {
  const sass::Effects e = sass::effects(arch, w, pc);
  const sass::RegSet all = e.use.gpr | e.def.gpr;
  for (uint16_t r = 255; r > 0; --r)
    if (all.test(r - 1)) return r;
  return 0;
}

// With setmaxnreg a warp may come to hold more registers than it starts with: as many as the code asks for.
void find_register_changes(Program& p) {
  for (const sass::RawInst& w : p.words) {
    const sass::Effects e = sass::effects(*p.arch, w, 0);
    if (!e.changes_register_limit) continue;
    p.changes_registers = true;
    if (sass::opcode13(w) == 0x19c8)
      p.layout.gprs = std::max(p.layout.gprs, static_cast<uint32_t>(get_bits(w, bits(39, 32))));
  }
  if (p.changes_registers) p.layout.gprs = std::max(p.layout.gprs, p.registers);
}

// The operations are those of sm_90. In front of it an instruction is one of them when both have it from one row of the table
// of forms; of the types of atomics only the first three (U32, S32, U64) have the same code, and F32.FTZ is read where it was
// the fourth. R2UR and WARPSYNC have rows of their own.
bool as_on_sm90(const sass::Arch& arch, const sass::Form& form, const sass::RawInst& w) {
  if (arch.sm == 90 || form.mnemonic == "R2UR" || form.mnemonic == "WARPSYNC") return true;
  if ((form.archs & sass::g90) == 0) return false;
  const sass::WidthRule access = sass::find_opcode(arch, w)->access;
  if (access == sass::WidthRule::atf) return false;
  return access != sass::WidthRule::ati || get_bits(w, bits(75, 73)) <= (arch.sm < 90 ? 3u : 2u);
}

UniformSet uniforms_of(const sass::RegEffects& e) {
  UniformSet set;
  for (unsigned u = 0; u < uniform_registers; ++u) set[u] = e.ur[u];
  for (unsigned u = 0; u < uniform_predicates; ++u) set[uniform_registers + u] = (e.upred >> u & 1) != 0;
  return set;
}

void decode_one(Program& p, uint32_t index) {
  const sass::RawInst& w = p.words[index];
  Inst i;
  i.index = index;
  i.pc = index * sass::inst_bytes;
  decode_schedule(w, i);
  const sass::Form* form = sass::find_form(*p.arch, w);
  std::string problem;
  if (form == nullptr) {
    problem = "an unknown instruction";
  } else if (!as_on_sm90(*p.arch, *form, w)) {
    problem = fmt::format("the form that {} has of this", p.arch->name);
  } else if (const Op* op = find_op(form->mnemonic, sass::opcode13(w)); op == nullptr) {
    problem = "the operation";
  } else {
    Decoder d(*form, w, i.pc, p);
    i.unit = unit_of(*form);
    decode_guard(*form, w, i, d);
    op->decode(d, i);
    problem = d.problem();
    if (d.handle() && problem.empty()) {
      HandleConstant h = *d.handle();
      h.operation = std::exchange(i.exec, execute_through_handle);
      p.handles.insert_or_assign(index, h);
    }
  }
  if (const auto unresolved = p.unresolved.find(index); unresolved != p.unresolved.end()) problem = unresolved->second;
  if (p.changes_registers) i.registers = registers_of(*p.arch, w, i.pc);
  if (const sass::Effects e = sass::effects(*p.arch, w, i.pc);
      e.use.ur.any() || e.def.ur.any() || (e.use.upred | e.def.upred) != 0) {
    i.uniforms = static_cast<int32_t>(p.uniforms.size());
    p.uniforms.push_back({uniforms_of(e.use), uniforms_of(e.def)});
  }
  XT_CHECK(!problem.empty() || i.exec != nullptr, "an operation was decoded without a way to execute it");
  if (!problem.empty()) {
    i.exec = refuse;
    i.guard = {};
    i.uniform = false;
    i.op = static_cast<uint32_t>(p.problems.size());
    p.problems.push_back(std::move(problem));
  }
  p.insts.push_back(i);
}

// What the loader writes into instructions: halves of the addresses of the module's variables. [nvcc 13.0 -rdc=true]
void relocate_words(Program& p, const cubin::Image& image, uint32_t text, const LaunchImage& launch) {
  constexpr uint32_t low_half = 56, high_half = 57;   // R_CUDA_ABS32_LO_32, R_CUDA_ABS32_HI_32: bits [63:32]
  constexpr BitRange field = bits(63, 32);
  for (const cubin::Relocation& r : image.relocations()) {
    const uint64_t index = r.offset / sass::inst_bytes;
    if (r.target_section != text || index >= p.words.size()) continue;
    sass::RawInst& w = p.words[index];
    const std::string& symbol = image.symbols()[r.symbol].name;
    const bundle::Region* region = region_of(launch, symbol);
    if (region == nullptr || (r.type != low_half && r.type != high_half)) {
      p.unresolved[static_cast<uint32_t>(index)] = fmt::format("relocation {} against {}", r.type, symbol);
      continue;
    }
    const uint64_t address = region->address.value + (r.has_addend ? static_cast<uint64_t>(r.addend) : get_bits(w, field));
    set_bits(w, field, static_cast<uint32_t>(r.type == low_half ? address : address >> 32));
  }
}

}  // namespace

int32_t Program::constant_row(uint32_t value) {
  const auto [it, fresh] = pool_index.try_emplace(value, static_cast<int32_t>(pool.size()));
  if (fresh) {
    Row& row = pool.emplace_back();
    std::fill(std::begin(row.lane), std::end(row.lane), value);
  }
  return it->second;
}

std::string Program::text(uint32_t index) const {
  return sass::print(*arch, words[index], index * sass::inst_bytes);
}

std::string Program::source(uint32_t index) const {
  const auto after = lines.upper_bound(index * sass::inst_bytes);
  if (after == lines.begin()) return {};
  const cubin::SourceLine& line = std::prev(after)->second;
  return fmt::format("{}:{}", line.file, line.line);
}

const std::string* Program::problem(uint32_t index) const {
  return insts[index].exec == refuse ? &problems[insts[index].op] : nullptr;
}

void decode_words(Program& p) {
  for (uint32_t k = 0; k < p.words.size(); ++k) decode_one(p, k);
}

Result<Program> decode_program(ByteView cubin, const LaunchImage& launch) {
  XT_TRY(const cubin::Image image, cubin::Image::parse(cubin));
  XT_TRY(const cubin::KernelInfo kernel, cubin::kernel_info(image, launch.record.kernel));
  Program p;
  XT_TRY(p.arch, sass::find_arch(image.sm()));
  if (p.arch->sm < 80 || p.arch->sm > 90)
    return unsupported("the interpreter executes code of sm_80 to sm_90, and kernel {} is for {}", kernel.name,
                       p.arch->name);
  p.kernel = kernel.name;
  p.spliced = cubin.size() != launch.code.size() || std::memcmp(cubin.data(), launch.code.data(), cubin.size()) != 0;
  p.registers = kernel.register_count;
  p.layout.gprs = kernel.register_count > reserved_registers ? kernel.register_count - reserved_registers : 0;
  p.shared_bytes = kernel.shared_bytes;
  p.frame_bytes = kernel.frame_bytes;
  // The stack's top does not move with the frame [guess]: spliced code, whose frame may be larger, finds it where the recorded code does.
  cubin::KernelInfo recorded = kernel;
  if (p.spliced) {
    XT_TRY(const cubin::Image original, cubin::Image::parse(launch.code));
    XT_TRY(recorded, cubin::kernel_info(original, launch.record.kernel));
  }
  p.local_bytes =
      static_cast<uint32_t>(align_up(std::max(recorded.frame_bytes, recorded.min_stack_bytes), 16)) + stack_bytes;
  XT_TRY(p.banks, constant_banks(image, kernel, *p.arch, launch, p.local_bytes));
  const Bytes& text = image.sections()[kernel.text_section].data;
  if (text.size() % sass::inst_bytes != 0)
    return bad_input("the code of kernel {} has {} bytes, no multiple of {}", kernel.name, text.size(),
                     sass::inst_bytes);
  p.code_bytes = static_cast<uint32_t>(text.size());
  p.words.resize(text.size() / sass::inst_bytes);
  std::memcpy(p.words.data(), text.data(), text.size());
  relocate_words(p, image, kernel.text_section, launch);
  find_register_changes(p);
  decode_words(p);
  // Only for messages: a table that can not be read costs them a line number, nothing else.
  if (auto lines = cubin::source_lines(image, kernel)) p.lines = std::move(*lines);
  return p;
}

}  // namespace xtrace::replay::interp
