// What a probe waits for before it reads a register of the kernel, on code assembled here.
#include <gtest/gtest.h>

#include "instrument/arrivals.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument::test {
namespace {

namespace enc = sass::enc;
using enc::Gpr;
using File = Arrivals::File;

Code straight(const std::vector<sass::RawInst>& words) {
  Code code;
  code.arch = *sass::find_arch(90);
  code.kernel = "assembled";
  for (const sass::RawInst& w : words) code.insts.push_back({w, sass::effects(*code.arch, w, code.bytes())});
  code.functions = {{"assembled", 0, {}, {}}};
  code.reachable.assign(words.size(), true);
  return code;
}
sass::RawInst controlled(sass::RawInst w, uint8_t stall, uint8_t write_barrier = 7, uint8_t wait = 0) {
  sass::Control c = sass::get_control(w);
  c.stall = stall;
  c.write_barrier = write_barrier;
  c.wait_mask = wait;
  sass::set_control(w, c);
  return w;
}

// IMAD.WIDE R2 = R8 * 4 + R2, and behind it who reads R2 after three cycles: a store would need four.
TEST(Arrivals, AnotherKindOfReaderMayWaitLonger) {
  const Code code = straight({controlled(enc::imad_wide_u32_imm(Gpr{2}, Gpr{8}, 4, Gpr{2}), 3), controlled(enc::mov(Gpr{4}, Gpr{2}), 15),
                              controlled(enc::mov(Gpr{5}, Gpr{9}), 15), enc::mov(Gpr{6}, Gpr{3}), enc::exit()});
  const Arrivals arrivals(code);
  EXPECT_EQ(arrivals.needs(1, false, File::vector, 2).cycles, 2u);
  // Nobody reads the upper half: as long as a result takes at most.
  EXPECT_GT(arrivals.needs(1, false, File::vector, 3).cycles, 10u);
  EXPECT_GT(arrivals.needs(2, false, File::vector, 3).cycles, 0u);
  EXPECT_EQ(arrivals.needs(2, false, File::vector, 2).cycles, 0u);   // somebody has read it
  EXPECT_EQ(arrivals.needs(3, false, File::vector, 3).cycles, 0u);   // it is long there
}

// A result with a scoreboard: the reader's own wait, and no cycles.
TEST(Arrivals, WaitsOfTheReader) {
  const Code code = straight({controlled(enc::ldg(Gpr{8}, enc::VectorAddress{Gpr{4}}, enc::Size::b32), 2, 3),
                              controlled(enc::mov(Gpr{10}, Gpr{8}), 5, 7, 1 << 3), enc::exit()});
  const Arrivals arrivals(code);
  const Arrivals::Needs n = arrivals.needs(1, false, File::vector, 8);
  EXPECT_EQ(n.wait_mask, 1 << 3);
  EXPECT_FALSE(n.never);
  EXPECT_EQ(arrivals.needs(2, false, File::vector, 8).wait_mask, 0);
}

}  // namespace
}  // namespace xtrace::instrument::test
