// The table of operations as a whole, and words that no compiler emits.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "instrument/sass/form.h"
#include "replay/interp/op_table.h"
#include "tests/unit/interp/machine.h"

namespace xtrace::interp_test {
namespace {

std::vector<interp::Op> all_ops() {
  std::vector<interp::Op> ops;
  for (const auto family :
       {interp::integer_ops(), interp::logic_ops(), interp::shift_ops(), interp::float32_ops(),
        interp::float64_ops(), interp::half_ops(), interp::convert_ops(), interp::predicate_ops(),
        interp::move_ops(), interp::memory_ops(), interp::copy_ops(), interp::mbarrier_ops(),
        interp::atomic_ops(), interp::warp_ops(), interp::control_ops(), interp::matrix_ops(),
        interp::warpgroup_ops()})
    ops.insert(ops.end(), family.begin(), family.end());
  return ops;
}

TEST(OpTable, EveryRowIsAnInstructionAndIsFound) {
  std::set<std::pair<std::string_view, unsigned>> seen;
  for (const interp::Op& op : all_ops()) {
    EXPECT_TRUE(seen.insert({op.mnemonic, op.base}).second) << op.mnemonic << " stands twice";
    bool exists = false;
    for (const sass::Form& f : sass::all_forms()) {
      if (f.mnemonic != op.mnemonic || (f.archs & (sass::g80 | sass::g90)) == 0) continue;
      for (uint16_t opcode : f.opcodes) {
        if (opcode == 0 || (opcode & 0x1ff) != op.base) continue;
        exists = true;
        EXPECT_EQ(interp::find_op(f.mnemonic, opcode)->decode, op.decode);
      }
    }
    EXPECT_TRUE(exists) << op.mnemonic << " with base " << op.base << " is no instruction of sm_80 or sm_90";
  }
  EXPECT_EQ(interp::find_op("TEX", 0xb60), nullptr);
}

std::vector<sass::RawInst> real_words() {
  std::vector<sass::RawInst> words;
  for (const char* file : {"tests/oracle/vectors.txt", "tests/oracle/sm90_forms.txt"}) {
    std::ifstream in(std::filesystem::path(XTRACE_SOURCE_DIR) / file);
    std::string line, arch, lo, hi;
    while (std::getline(in, line))
      if (std::istringstream fields(line); fields >> arch >> lo >> hi && arch == "sm_90")
        words.push_back({std::stoull(lo, nullptr, 16), std::stoull(hi, nullptr, 16)});
  }
  return words;
}

// Words of real code with up to three bits changed: they execute, are refused, or fault; nothing else. Under
// sanitizers this also shows that no operand leads outside the state of the warp.
TEST(OpTable, AnyWordIsExecutedOrRefused) {
  std::mt19937_64 random(20);
  Machine m;
  Bytes global(4096);
  ASSERT_TRUE(m.memory.add(0x7000'0000'0000, global, "memory"));
  const std::vector<sass::RawInst> words = real_words();
  ASSERT_GT(words.size(), 500u);
  unsigned executed = 0, refused = 0, faulted = 0;
  for (int round = 0; round < 40; ++round)
    for (sass::RawInst w : words) {
      for (int k = round % 4; k > 0; --k) {
        const unsigned b = 16 + random() % 75;
        set_bits(w, bit(b), get_bits(w, bit(b)) ^ 1);
      }
      set_bits(w, bits(15, 12), 7);
      m.reset_path();
      m.warp.paths[0].mask = static_cast<uint32_t>(random()) | 1;
      m.set(static_cast<unsigned>(random() % 253), static_cast<uint32_t>(random()));
      const std::string why = m.run(w);
      if (why.empty())
        ++executed;
      else if (why.starts_with("not implemented: "))
        ++refused;
      else
        ++faulted;
      for (unsigned l = 0; l < 32; ++l)
        ASSERT_EQ(m.warp.rows[static_cast<size_t>(m.program.layout.zero())].lane[l], 0u);
      ASSERT_EQ(m.p(7), ~0u);
      ASSERT_EQ(m.up(7), ~0u);
    }
  EXPECT_GT(executed, 5000u);
  EXPECT_GT(refused, 5000u);
  EXPECT_GT(faulted, 500u);
}

}  // namespace
}  // namespace xtrace::interp_test
