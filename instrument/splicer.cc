// What is asked of a kernel before it is spliced, and the variants of a Splicer.
#include "instrument/splicer.h"

#include <algorithm>
#include <bit>

#include "instrument/points.h"
#include "instrument/sass/access.h"
#include "instrument/sass/print.h"
#include "instrument/waiting.h"

namespace xtrace::instrument {
namespace {

wire::AddressMap describe(const Code& code, const Blocks& blocks) {
  wire::AddressMap map;
  for (uint32_t number = 0; number < blocks.blocks.size(); ++number) {
    const ProbeBlock& block = blocks.blocks[number];
    const sass::Effects& last = code.insts[block.last()].fx;
    wire::Block& b = map.blocks.emplace_back();
    b.first_pc = code.pc(block.first);
    b.instructions = block.count;
    b.least_cycles = stall_cycles(code, block.first, block.last() + 1);
    b.successors = blocks.successors[number];
    b.behind_call = blocks.behind_call[number];
    b.returns = blocks.returns[number];
    b.exits = last.flow == sass::Flow::exit || last.flow == sass::Flow::kill || code.insts[block.last()].asserts;
  }
  return map;
}

}  // namespace

const ProbeBody& body_of(ProbeKind probe) {
  for (const ProbeBody& b : probe_bodies())
    if (b.kind == probe) return b;
  XT_CHECK(false, "a probe without a body");
}

LaunchFacts facts_of(const LaunchShape& shape, const cubin::KernelInfo& info, const Code& code, const Blocks& blocks) {
  return {shape.grid, shape.block, shape.cluster, {}, blocks.block_of, shape.params, info.param_base != 0 ? info.param_base : code.arch->bank0_params};
}

Result<Splicer> Splicer::create(ByteView bytes, std::string_view kernel, const LaunchShape& shape) {
  XT_TRY(cubin::Image image, cubin::Image::parse(bytes));
  XT_TRY(cubin::KernelInfo info, cubin::kernel_info(image, kernel));
  for (uint8_t attribute : info.unknown_payload_attributes)
    return unsupported("kernel {} carries EIATTR {:#04x}, which may hold code offsets that xtrace does not know", kernel,
                       attribute);
  XT_TRY(Code code, read_code(image, info));
  Blocks blocks = find_blocks(code);
  Liveness liveness(code);
  wire::AddressMap map = describe(code, blocks);
  Splicer s;
  s.low_words_tell_ = shape.low_words_tell;
  s.asked_ = std::make_shared<const Asked>();
  s.counted_ = std::make_shared<const Counted>(Counted{{}, {}, LaneBases(code, facts_of(shape, info, code, blocks))});
  s.impl_ = std::make_shared<const Impl>(Impl{Bytes(bytes.begin(), bytes.end()), shape, std::move(image), std::move(info),
                                              std::move(code), std::move(blocks), std::move(liveness), std::move(map)});
  return s;
}

const std::vector<wire::Block>& Splicer::blocks() const { return impl_->map.blocks; }
bool Splicer::cyclic() const { return impl_->blocks.cyclic; }
bool Splicer::waits() const {
  const std::vector<bool> blocks = waiting();
  return std::find(blocks.begin(), blocks.end(), true) != blocks.end();
}
std::vector<bool> Splicer::waiting() const { return waiting_blocks(impl_->code, impl_->blocks); }
std::vector<bool> Splicer::polling() const { return polling_blocks(impl_->code, impl_->blocks); }
std::vector<bool> Splicer::recursive() const {
  const std::vector<bool> by_instruction = in_recursion(impl_->code);
  std::vector<bool> found;
  for (const ProbeBlock& b : impl_->blocks.blocks) found.push_back(by_instruction[b.first]);
  return found;
}
uint32_t Splicer::warps_per_cta() const { return instrument::warps_per_cta(impl_->shape); }

uint32_t Splicer::record_bytes(ProbeKind probe, uint32_t block) const {
  return body_of(probe).record_bytes(impl_->code, impl_->blocks.blocks[block], impl_->scope(*this));
}

uint32_t Splicer::largest_record(ProbeKind probe) const {
  uint32_t most = 0;
  for (uint32_t b = 0; b < impl_->blocks.blocks.size(); ++b) most = std::max(most, record_bytes(probe, b));
  return most;
}

uint32_t Splicer::index_bits() const {
  return static_cast<uint32_t>(std::bit_width(impl_->blocks.blocks.size()));
}

bool Splicer::one_sum_a_replay() const {
  const auto scratch = Scratch::plan(impl_->code, impl_->info, impl_->blocks, impl_->liveness, impl_->shape, {});
  return scratch && scratch->uniform().few;
}

bool Splicer::can_fill_sectors(bool samples) const {
  if (impl_->shape.block.count() % 32 != 0) return false;
  const sass::RegSet unsettled = samples ? unsettled_registers(impl_->code, repeatable_entry(impl_->code, impl_->blocks)) : sass::RegSet{};
  auto scratch = Scratch::plan(impl_->code, impl_->info, impl_->blocks, impl_->liveness, impl_->shape, unsettled);
  return scratch && scratch->reserve();
}

bool Splicer::sums_floats() const {
  const Code& code = impl_->code;
  for (InstIndex i = 0; i < code.insts.size(); ++i)
    if (code.reachable[i] && sass::sums_floats(*code.arch, code.insts[i].raw)) return true;
  return false;
}

std::string Splicer::text(OrigPc pc) const {
  const Code& code = impl_->code;
  XT_CHECK(code.index(pc.value) < code.insts.size(), "pc inside the kernel");
  return sass::print(*code.arch, code.insts[code.index(pc.value)].raw, pc.value);
}

std::vector<Splicer::Instruction> Splicer::instructions() const {
  const Code& code = impl_->code;
  std::vector<Instruction> out;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i]) continue;
    const sass::Effects& fx = code.insts[i].fx;
    const Function* inside = &code.functions[0];
    for (const Function& f : code.functions)
      if (f.entry <= i && f.entry >= inside->entry) inside = &f;
    out.push_back({OrigPc{code.pc(i)}, inside->name, impl_->blocks.block_of[i], fx.space, fx.kind, fx.flow != sass::Flow::next,
                   parts_lanes(fx)});
  }
  return out;
}

size_t Splicer::section_instructions() const { return impl_->code.insts.size(); }

Splicer Splicer::at(Places places) const {
  XT_CHECK(places.size() == impl_->code.insts.size(), "a place for each instruction of the section");
  Splicer s = *this;
  s.places_ = std::move(places);
  return s;
}

Splicer Splicer::asked(Asked what) const {
  Splicer s = *this;
  s.asked_ = std::make_shared<const Asked>(std::move(what));
  return s;
}

Splicer Splicer::sparse(Sites sites) const {
  XT_CHECK(sites.part < sites.one_in, "one of the parts");
  Splicer s = *this;
  s.sites_ = sites;
  return s;
}

Splicer Splicer::without(const std::vector<bool>& excluded) const {
  XT_CHECK(excluded.size() == blocks().size(), "a flag for each block");
  const Scope scope = impl_->scope(*this);
  Places places(impl_->code.insts.size());
  for (InstIndex i = 0; i < places.size(); ++i) {
    const uint32_t b = impl_->blocks.block_of[i];
    places[i] = scope.covers(i) && (b == Blocks::none || !excluded[b]);
  }
  return at(std::move(places));
}

Splicer Splicer::counted(std::vector<bool> full_blocks, std::span<const uint64_t> executions) const {
  XT_CHECK(full_blocks.size() == blocks().size() && executions.size() == blocks().size(), "what was counted of each block");
  Splicer s = *this;
  std::vector<bool> whole = whole_instructions(impl_->blocks, full_blocks);
  LaunchFacts facts = facts_of(impl_->shape, impl_->info, impl_->code, impl_->blocks);
  facts.whole = whole;
  LaneBases lanes(impl_->code, facts);
  Counted counted{std::move(full_blocks), std::move(whole), std::move(lanes), false};
  // A column in one line is stored faster than one across two; but a record in lines may be twice as long.
  constexpr double dear = 1.4;   // [measured H200: at 1.24 lines were faster by a seventh, at 1.61 slower by a third]
  uint64_t in_lines = 0, in_chunks = 0, columns = 0;
  for (uint32_t b = 0; b < executions.size(); ++b)
    for (const bool lines : {false, true}) {
      const Scope scope{impl_->shape, places_, counted.lanes, *asked_, counted.whole, lines, sites_, low_words_tell_};
      const MemRecord record = mem_record(impl_->code, impl_->blocks.blocks[b], scope);
      (lines ? in_lines : in_chunks) += executions[b] * record.bytes;
      const auto stored = std::count_if(record.columns.begin(), record.columns.end(), [](const auto& c) { return !c.spread; });
      columns += executions[b] * static_cast<uint64_t>(stored);
    }
  counted.lines = columns != 0 && static_cast<double>(in_lines) < dear * static_cast<double>(in_chunks);
  s.counted_ = std::make_shared<const Counted>(std::move(counted));
  return s;
}

Splicer Splicer::with_high_words() const {
  Splicer s = *this;
  s.low_words_tell_ = false;
  return s;
}

RecordForm Splicer::mem_form() const {
  RecordForm form;
  form.lines = counted_->lines;
  return form;
}

Result<std::vector<wire::Point>> Splicer::points(ProbeKind probe) const { return points(probe, false); }
Result<std::vector<wire::Point>> Splicer::points_apart(ProbeKind probe) const { return points(probe, true); }

Result<std::vector<wire::Point>> Splicer::points(ProbeKind probe, bool apart) const {
  const Scope scope = impl_->scope(*this);
  XT_TRY(const std::vector<PointPlan> plans, find_points(probe, {impl_->code, impl_->blocks, impl_->liveness, scope}, apart));
  std::vector<wire::Point> points;
  for (const PointPlan& p : plans) {
    points.push_back(p.point);
    if (!p.present) points.back().record_bytes = 0;
  }
  return points;
}

std::vector<std::string> Splicer::region_names(ProbeKind probe) const {
  std::vector<std::string> names;
  if (probe != ProbeKind::range) return names;
  for (const Rule& r : asked_->range) names.push_back(r.name);
  if (names.empty()) names.push_back("--at");
  return names;
}

bool Splicer::covers(OrigPc pc) const { return impl_->scope(*this).has(impl_->code.index(pc.value)); }

std::vector<Splicer::NotCovered> Splicer::not_covered() const {
  std::vector<NotCovered> out;
  const Code& code = impl_->code;
  for (InstIndex i = 0; i < code.insts.size(); ++i) {
    if (!code.reachable[i] || !covers(OrigPc{code.pc(i)})) continue;
    const auto found = accesses(code, i);
    if (const auto* reason = std::get_if<sass::NotCovered>(&found)) out.push_back({OrigPc{code.pc(i)}, *reason});
  }
  return out;
}

}  // namespace xtrace::instrument
