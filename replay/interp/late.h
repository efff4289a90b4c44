// Results as late as the control bits of the code allow: a second witness, beside the splice verifier, for mistakes that the interpreter
// can not see otherwise, since it writes every result at once.
//
// A result of variable latency is held back from its register. It comes when the warp waits for its scoreboard (all that it counts, or all
// but the youngest k for DEPBAR.LE SBn, k), and not at all when nobody waits. A register that such an instruction reads counts as read when
// its scoreboard, or that of a later instruction of the same queue, was waited for. A wait sees what took its scoreboard two cycles before
// and earlier. Results of fixed latency come when the smallest distance has passed that vendor code keeps between the two instructions.
//
// An instruction that touches a register in between, in a lane that is concerned, is a fault: it would read the older value, or what it
// writes would be overwritten, or change what an earlier instruction reads. So the launch stops there, by name, and whatever the hardware
// makes of it this time does not matter.
//
// What is left out: instructions of which the form table knows an upper bound alone; targets of branches in registers, which have no
// scoreboard; memory, which is always up to date.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "replay/interp/program.h"
#include "replay/interp/step.h"

namespace xtrace::replay::interp {

struct LateInst;
struct LateWarp;

class LateMode {
 public:
  explicit LateMode(const Program& program);
  ~LateMode();
  LateMode(const LateMode&) = delete;
  LateMode& operator=(const LateMode&) = delete;

  LateWarp& of(const Warp& w);
  void forget(const Cta& cta);  // it ended
  // It issues: what it waits for is there. Before anybody looks at its guard.
  void wait(LateWarp& late, Warp& w, const Inst& i) const;
  // The step fails if it touches what is under way.
  void check(LateWarp& late, Step& s, const Inst& i) const;
  // Executes it, and holds back what comes late.
  void execute(LateWarp& late, Step& s, const Inst& i) const;

 private:
  void wait(LateWarp& late, Warp& w, unsigned scoreboard, unsigned but_youngest) const;
  void take(LateWarp& late, Warp& w, const Inst& i, uint64_t serial) const;
  void deliver(LateWarp& late, Warp& w, size_t result) const;
  void wait_for_products(LateWarp& late, Warp& w, unsigned group, unsigned but_youngest) const;
  std::string name(uint16_t place) const;
  std::string text(uint32_t index) const;

  const Program& program_;
  std::vector<LateInst> insts_;
  std::unordered_map<uint32_t, std::unique_ptr<LateWarp>> warps_;  // by number in the launch
};

}  // namespace xtrace::replay::interp
