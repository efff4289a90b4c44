#include "instrument/relocate.h"

#include "trace/wire/address_map.h"

namespace xtrace::instrument {
namespace {

constexpr uint64_t ldc_offset_limit = 1u << 15;   // the 16-bit field is signed [sass.md 1.1: offset width 16]

// Inserting after an instruction ends its run of back-to-back issue: operand cache hints must not survive it
// (sass.md 6.8). Only where the field means reuse.
void clear_reuse(sass::RawInst& w) {
  sass::Control c = sass::get_control(w);
  if (!c.keep_issuing || c.reuse == 0) return;
  c.reuse = 0;
  sass::set_control(w, c);
}

Status retarget(const Code& code, const Body& body, InstIndex i, sass::RawInst& w) {
  const sass::Effects& fx = code.insts[i].fx;
  const uint32_t new_pc = body.inst[i];
  if (fx.target) {
    const InstIndex target = code.index(static_cast<uint32_t>(*fx.target));
    if (*fx.target < 0 || target >= code.insts.size()) {
      if (code.reachable[i]) return internal("unchecked target at {}", where(code, i));
      return {};   // padding that nobody executes
    }
    XT_TRY_STATUS(sass::set_target(*code.arch, w, new_pc, body.label[target]));
  }
  if (fx.flow == sass::Flow::call_relative || fx.flow == sass::Flow::call_other) return {};   // through a pointer: the splicer's tables
  if (auto base = sass::register_branch_base(*code.arch, code.insts[i].raw, code.pc(i))) {
    if (*base != 0) return unsupported("register branch relative to {:#x} instead of the section start at {}", *base,
                                       where(code, i));
    XT_TRY_STATUS(sass::set_register_branch_base(*code.arch, w, new_pc, 0));
  }
  return {};
}

}  // namespace

Result<Body> lay_out(const Code& code, const Insertions& insertions, uint32_t base,
                     const std::vector<uint32_t>& jump_tables) {
  const auto n = static_cast<InstIndex>(code.insts.size());
  Body body;
  body.base = base;
  body.label.resize(n + 1);
  body.inst.resize(n);
  uint32_t pc = base;
  const auto advance = [&](size_t words) { pc += static_cast<uint32_t>(words) * sass::inst_bytes; };
  for (InstIndex i = 0; i < n; ++i) {
    body.label[i] = pc;
    advance(insertions.before[i].size());
    body.inst[i] = pc;
    advance(1 + insertions.after[i].size());
  }
  body.label[n] = pc;

  std::vector<sass::RawInst> originals(n);
  for (InstIndex i = 0; i < n; ++i) {
    sass::RawInst w = code.insts[i].raw;
    XT_TRY_STATUS(retarget(code, body, i, w));
    const bool interrupted = !insertions.after[i].empty() || (i + 1 < n && !insertions.before[i + 1].empty());
    if (interrupted) clear_reuse(w);
    if (insertions.wait[i] != 0) {
      sass::Control c = sass::get_control(w);
      c.wait_mask |= insertions.wait[i];
      sass::set_control(w, c);
    }
    originals[i] = w;
  }
  for (const ReturnAddress& r : code.return_addresses)
    set_bits(originals[r.mov], mov_imm_field, body.label[r.call + 1]);
  XT_CHECK(jump_tables.size() == code.jump_tables.size(), "one table offset per jump table");
  for (size_t t = 0; t < jump_tables.size(); ++t) {
    if (jump_tables[t] >= ldc_offset_limit)
      return unsupported("constant bank 2 of {} grows past {} bytes with the copied jump tables", code.kernel,
                         ldc_offset_limit);
    set_bits(originals[code.jump_tables[t].ldc], ldc_offset_field, jump_tables[t]);
  }

  const auto emit = [&](const Sequence& seq) {
    body.words.insert(body.words.end(), seq.begin(), seq.end());
    body.original.insert(body.original.end(), seq.size(), wire::AddressMap::inserted);
  };
  for (InstIndex i = 0; i < n; ++i) {
    emit(insertions.before[i]);
    body.words.push_back(originals[i]);
    body.original.push_back(code.pc(i));
    emit(insertions.after[i]);
  }
  return body;
}

}  // namespace xtrace::instrument
