// `--at`: which instructions inst, pair, mem and the point probes look at.
//
//   expression := term { or term }      term := factor { and factor }      factor := not factor | ( expression ) | place
//
//   op:LDG  op:LDG.E.64  op:LD*         opcode: as printed, up to its first dot, or with * for anything
//   class:load                          load, store, atomic, async, memory, global, generic, shared, local, branch
//   line:sgemm.cu  line:sgemm.cu:15  line:sgemm.cu:15-20
//   func:device_*                       function that holds the instruction, mangled or not
//   block:3  block:3-7                  as in traces and tables
//   pc:0x120  pc:0x120-0x1ff
//   loop:2  loop:sgemm.cu:15            innermost loop of the instruction: by number (in order of code), by the line of its head
//   region:barrier:1                    from the first BAR, which is not in it, to the second, in order of code; 0: up to the first
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace xtrace::cli {

// What an instruction is asked for.
struct PlaceFacts {
  uint32_t pc = 0, block = 0;
  std::string opcode;                      // "LDG.E.64"
  std::vector<std::string_view> classes;
  std::string file;                        // "sgemm.cu"; empty: not known
  uint32_t line = 0;
  std::string function, function_text;     // mangled, demangled
  std::optional<uint32_t> loop{};          // innermost loop; none: in no loop
  std::string loop_file{};                 // of its head
  uint32_t loop_line = 0;
  uint32_t barriers_before = 0;            // in order of code
};

class Place {
 public:
  // bad_input: names the word that was not understood, and what could stand there. `option`: whose text it is.
  static Result<Place> parse(const std::string& text, std::string_view option = "--at");
  bool holds(const PlaceFacts& facts) const;
  // Of a place that holds nowhere in a kernel: which of its words is to blame, and what the kernel has instead.
  std::string what_there_is(std::span<const PlaceFacts> kernel) const;

  struct Node;

 private:
  std::shared_ptr<const Node> root_;
};

}  // namespace xtrace::cli
