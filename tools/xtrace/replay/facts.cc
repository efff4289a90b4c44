#include "tools/xtrace/replay/facts.h"

#include <algorithm>
#include <tuple>

#include "tools/xtrace/kernel_name.h"
#include "tools/xtrace/replay/emit.h"
#include "trace/aggregate.h"

namespace xtrace::cli {
namespace {

std::vector<std::string_view> classes_of(const instrument::Splicer::Instruction& i) {
  using sass::MemKind, sass::MemSpace;
  std::vector<std::string_view> classes;
  if (i.branches) classes.push_back("branch");
  if (i.space == MemSpace::none || i.space == MemSpace::constant) return classes;
  classes.push_back("memory");
  switch (i.kind) {
    case MemKind::load: classes.push_back("load"); break;
    case MemKind::store: classes.push_back("store"); break;
    case MemKind::atomic:
    case MemKind::reduction: classes.push_back("atomic"); break;
    case MemKind::async: classes.push_back("async"); break;
    default: break;
  }
  switch (i.space) {
    case MemSpace::global: classes.push_back("global"); break;
    case MemSpace::generic: classes.push_back("generic"); break;
    case MemSpace::shared: classes.push_back("shared"); break;
    case MemSpace::local: classes.push_back("local"); break;
    default: break;
  }
  return classes;
}

// The innermost loop of each block: of the branches back, in the same function, the one that spans the fewest blocks.
struct Loop {
  uint32_t head = 0, end = 0;   // blocks
};
std::vector<Loop> loops_of(const instrument::Splicer& splicer, const std::vector<instrument::Splicer::Instruction>& all) {
  const auto& blocks = splicer.blocks();
  std::vector<std::string_view> function(blocks.size());
  for (const auto& i : all) function[i.block] = i.function;
  std::vector<Loop> loops;
  for (uint32_t b = 0; b < blocks.size(); ++b)
    for (uint32_t s : blocks[b].successors)
      if (s <= b && function[s] == function[b]) loops.push_back({s, b});
  std::sort(loops.begin(), loops.end(), [](const Loop& x, const Loop& y) { return x.head != y.head ? x.head < y.head : x.end > y.end; });
  return loops;
}

std::pair<std::string, uint32_t> file_and_line(const std::string& source) {
  const size_t colon = source.rfind(':');
  if (colon == std::string::npos) return {};
  return {source.substr(0, colon), static_cast<uint32_t>(std::stoul(source.substr(colon + 1)))};
}

std::vector<PlaceFacts> facts_of(const instrument::Splicer& splicer, const replay::LaunchImage& launch) {
  const SourceMap sources = source_map(launch.code, launch.record.kernel);
  std::vector<PlaceFacts> facts;
  const std::vector<instrument::Splicer::Instruction> all = splicer.instructions();
  const std::vector<Loop> loops = loops_of(splicer, all);
  uint32_t barriers = 0;
  for (const instrument::Splicer::Instruction& i : all) {
    PlaceFacts f;
    f.pc = i.pc.value;
    f.block = i.block;
    std::string text = splicer.text(i.pc);
    if (text.starts_with('@')) text = text.substr(text.find(' ') + 1);
    f.opcode = text.substr(0, text.find(' '));
    f.classes = classes_of(i);
    std::tie(f.file, f.line) = file_and_line(source_at(sources, f.pc));
    for (uint32_t n = 0; n < loops.size(); ++n) {
      const auto size = [&](uint32_t k) { return loops[k].end - loops[k].head; };
      if (i.block >= loops[n].head && i.block <= loops[n].end && (!f.loop || size(n) <= size(*f.loop))) f.loop = n;
    }
    if (f.loop)
      std::tie(f.loop_file, f.loop_line) = file_and_line(source_at(sources, splicer.blocks()[loops[*f.loop].head].first_pc));
    f.barriers_before = barriers;
    barriers += f.opcode == "BAR" || f.opcode.starts_with("BAR.");
    f.function = i.function;
    f.function_text = demangled(f.function);
    facts.push_back(std::move(f));
  }
  return facts;
}

}  // namespace

Result<instrument::Places> places_of(const instrument::Splicer& splicer, const replay::LaunchImage& launch, const Place& place,
                                     const std::string& text) {
  const std::vector<PlaceFacts> facts = facts_of(splicer, launch);
  instrument::Places places(splicer.section_instructions());
  bool any = false;
  for (const PlaceFacts& f : facts) any |= places.at(f.pc / trace::inst_bytes) = place.holds(f);
  if (!any) return with_hint(unsupported("no instruction of the kernel is at {}", text), place.what_there_is(facts));
  return places;
}

namespace {

Result<std::vector<instrument::Rule>> resolve_rules(const std::vector<AskedRule>& rules, const instrument::Splicer& splicer,
                                                    const replay::LaunchImage& launch) {
  std::vector<instrument::Rule> out;
  for (const AskedRule& r : rules) {
    instrument::Rule rule{{}, r.before, r.behind, r.name, r.data_before, r.data_behind};
    if (r.at) {
      XT_TRY(rule.places, places_of(splicer, launch, *r.at, r.name));
    }
    out.push_back(std::move(rule));
  }
  return out;
}

}  // namespace

Result<instrument::Asked> resolve(const AskedTexts& asked, const instrument::Splicer& splicer, const replay::LaunchImage& launch) {
  instrument::Asked out;
  XT_TRY(out.reg, resolve_rules(asked.reg, splicer, launch));
  XT_TRY(out.custom, resolve_rules(asked.custom, splicer, launch));
  XT_TRY(out.range, resolve_rules(asked.range, splicer, launch));
  return out;
}

Status holds_all(const instrument::Splicer& splicer) {
  for (const instrument::Splicer::Instruction& i : splicer.instructions()) {
    const bool texture = i.space == sass::MemSpace::texture;
    if (!texture && i.space != sass::MemSpace::surface) continue;
    return with_hint(unsupported("the kernel uses a {} at {}+{:#x}: {}", texture ? "texture" : "surface", i.function, i.pc.value,
                                 splicer.text(i.pc)),
                     "the driver keeps texture and surface objects to itself, a recording holds memory only; leave the kernel out with "
                     "--launch or --kernel");
  }
  return {};
}

}  // namespace xtrace::cli
