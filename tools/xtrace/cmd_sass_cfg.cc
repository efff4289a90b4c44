// xtrace sass cfg: basic blocks and the edges between them, as text or for graphviz.
#include <map>

#include "instrument/code.h"
#include "instrument/sass/print.h"
#include "tools/xtrace/cmd_sass.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

using instrument::Code;
using instrument::InstIndex;

struct BasicBlock {
  InstIndex first = 0, last = 0;
  std::vector<InstIndex> successors;  // first instructions of blocks
};

// Maximal runs that are entered at the top and left at the bottom; reachable code only.
std::vector<BasicBlock> basic_blocks(const Code& code) {
  const size_t n = code.insts.size();
  std::vector<bool> leader(n, false);
  leader[0] = true;
  for (InstIndex i = 0; i < n; ++i) {
    if (!code.reachable[i]) continue;
    const std::vector<InstIndex> next = code.successors(i);
    const bool straight = next.size() == 1 && next[0] == i + 1 && code.insts[i].fx.flow == sass::Flow::next;
    if (straight && !code.insts[i].fx.target) continue;
    for (InstIndex s : next) leader[s] = true;
    if (i + 1 < n) leader[i + 1] = true;
  }
  std::vector<BasicBlock> blocks;
  for (InstIndex i = 0; i < n; ++i) {
    if (!code.reachable[i]) continue;
    if (blocks.empty() || leader[i] || blocks.back().last + 1 != i) blocks.push_back({i, i, {}});
    blocks.back().last = i;
  }
  for (BasicBlock& b : blocks) b.successors = code.successors(b.last);
  return blocks;
}

std::string escaped(const std::string& text) {
  std::string s;
  for (char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s;
}

std::string block_name(const Code& code, InstIndex first) { return fmt::format("\"{:#x}\"", code.pc(first)); }

// How control gets from a block to another.
std::string_view edge_style(const Code& code, const BasicBlock& b, InstIndex to) {
  const sass::Effects& fx = code.insts[b.last].fx;
  if (fx.flow == sass::Flow::call_relative) return " [style=dashed, label=\"call\"]";
  if (fx.flow == sass::Flow::ret && to != b.last + 1) return " [style=dashed, label=\"return\"]";
  if (to == b.last + 1 && fx.flow != sass::Flow::next) return " [label=\"else\"]";
  return "";
}

void print_dot(const Code& code, const std::vector<BasicBlock>& blocks) {
  fmt::print("digraph \"{}\" {{\n  node [shape=box, fontname=monospace];\n", escaped(printable(code.kernel)));
  for (const BasicBlock& b : blocks) {
    std::string label;
    for (InstIndex i = b.first; i <= b.last; ++i)
      label += fmt::format("{:04x}  {}\\l", code.pc(i),
                           escaped(sass::print(*code.arch, code.insts[i].raw, code.pc(i))));
    fmt::print("  {} [label=\"{}\"];\n", block_name(code, b.first), label);
  }
  for (const BasicBlock& b : blocks)
    for (InstIndex s : b.successors)
      fmt::print("  {} -> {}{};\n", block_name(code, b.first), block_name(code, s), edge_style(code, b, s));
  fmt::print("}}\n");
}

void print_text(const Code& code, const std::vector<BasicBlock>& blocks) {
  fmt::print("{}: {}, {} instructions, {} blocks, {} functions\n", printable(code.kernel), code.arch->name,
             code.insts.size(), blocks.size(), code.functions.size());
  for (const BasicBlock& b : blocks) {
    std::string to;
    for (InstIndex s : b.successors) to += fmt::format(" {:#x}", code.pc(s));
    fmt::print("  {:#06x}..{:#06x}  {:>4} instructions  ->{}   {}\n", code.pc(b.first), code.pc(b.last),
               b.last - b.first + 1, to.empty() ? " end" : to,
               sass::print(*code.arch, code.insts[b.last].raw, code.pc(b.last)));
  }
}

}  // namespace

Result<int> sass_cfg(const SassOptions& options) {
  XT_TRY(const SassFunction f, find_function(options));
  XT_TRY_IN(const cubin::KernelInfo info, cubin::kernel_info(f.cubin.image, f.name), "in {}", f.cubin.where);
  XT_TRY_IN(const Code code, instrument::read_code(f.cubin.image, info), "in {}", f.cubin.where);
  const std::vector<BasicBlock> blocks = basic_blocks(code);
  if (options.dot) {
    print_dot(code, blocks);
  } else {
    print_text(code, blocks);
  }
  return 0;
}

}  // namespace xtrace::cli
