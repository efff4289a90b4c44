// Without a GPU: what an H200 recorded, against the interpreter and the table of effects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "replay/interp/interp_backend.h"
#include "tests/values/own_words.h"
#include "tests/values/recorded.h"
#include "tests/values/resources.h"

namespace xtrace::values {
namespace {

std::vector<RecordedWord> recorded() {
  auto r = parse_recorded(recorded_results());
  EXPECT_TRUE(r) << r.error().to_string();
  return r ? std::move(*r) : std::vector<RecordedWord>();
}

TEST(Values, InterpreterGivesTheResultsOfHardware) {
  const std::vector<RecordedWord> all = recorded();
  const Replayed r = replay_recorded(all);
  std::printf("%zu words recorded: %zu equal in %u operand sets each, %zu refused by name\n", all.size(),
              r.equal, operand_sets, r.refused);
  EXPECT_GE(r.equal, 6815u);
  EXPECT_THAT(r.different, testing::IsEmpty());
}

TEST(Values, EffectsAgreeWithWhatHardwareReadAndWrote) {
  std::vector<std::string> odd;
  for (const RecordedWord& r : recorded())
    if (r.outcome.kind == Outcome::Kind::measured)
      if (const std::string c = contradiction(r.word, r.outcome.measured); !c.empty())
        odd.push_back(text(r.word) + ": " + c);
  EXPECT_THAT(odd, testing::IsEmpty());
}

// Every form that can be executed alone has recorded words; what is recorded is a word under test.
TEST(Values, EveryFormIsRecorded) {
  std::set<std::string> forms;
  for (const RecordedWord& r : recorded()) forms.insert(form_name(r.word.inst));
  std::set<std::string> missing;
  for (const Word& w : word_list().words)
    if (!forms.contains(form_name(w.inst))) missing.insert(form_name(w.inst));
  EXPECT_THAT(missing, testing::IsEmpty());
}

// The frame that runs on hardware computes what direct execution does; it is tried on the interpreter.
TEST(Values, FrameAgreesWithDirectExecution) {
  const auto backend = replay::make_interp_backend();
  Runner runner(*backend);
  std::map<Class, unsigned> tried;
  for (const Word& w : word_list().words) {
    if (tried.contains(w.cls) && tried[w.cls] >= 2) continue;
    if (is_framed(w.cls) || reads_the_machine(w.inst)) continue;
    const std::vector<WarpState>& inputs = Runner::inputs(w.cls);
    if (!run_direct(w, inputs, 1).refused.empty()) continue;
    const DirectResult direct = run_direct(w, inputs);
    if (!direct.refused.empty()) continue;
    ++tried[w.cls];
    // In another slot each time.
    const std::vector<Word> group(Frame::slots, w);
    ASSERT_TRUE(runner.load(group));
    const auto out = runner.run(tried[w.cls] % Frame::slots);
    ASSERT_TRUE(out) << text(w) << ": " << out.error().to_string();
    const Measured m = evaluate(inputs, *out);
    EXPECT_EQ(m.digest, digest(direct.states)) << text(w);
    EXPECT_EQ(contradiction(w, m), "") << text(w);
  }
  // Not barrier (not compared), and what only the frame executes.
  EXPECT_EQ(tried.size(), 10u);
}

// What the frame does around a slot is undone behind it: a word that does nothing changes nothing (of classes that direct
// execution has not). Not class surface, whose frame stores to a surface.
TEST(Values, FramesLeaveNothingBehind) {
  const auto backend = replay::make_interp_backend();
  Runner runner(*backend);
  for (unsigned c = 0; c < classes; ++c) {
    const auto cls = static_cast<Class>(c);
    if (!is_framed(cls) || cls == Class::surface) continue;
    const DirectResult r = run_framed(runner, {{0x7918, 0}, cls});
    ASSERT_EQ(r.refused, "") << name(cls);
    EXPECT_EQ(text(evaluate(Runner::inputs(cls), r.states).changed), "-") << name(cls);
  }
}

// What the frame adds for control flow: which lanes come to the pad, and which end.
TEST(Values, PathsAreSeen) {
  const auto backend = replay::make_interp_backend();
  Runner runner(*backend);
  const std::vector<WarpState>& in = Runner::inputs(Class::control);
  for (const Word& w : own_words()) {
    const std::string t = text(w);
    const bool branch = t == "@P3 BRA 0x60", exit = t == "@P3 EXIT";
    if (!branch && !exit) continue;
    const DirectResult r = run_framed(runner, w);
    ASSERT_EQ(r.refused, "");
    for (unsigned v = 0; v < 8; ++v)
      for (unsigned l = 0; l < 32; ++l) {
        const bool leaves = (in[v].row[predicate_row][l] >> 3 & 1) != 0;
        EXPECT_EQ(r.states[v].row[memory_row][l] - in[v].row[memory_row][l], !leaves ? 0 : exit ? gone_mark : 1);
      }
    const Measured m = evaluate(in, r.states);
    EXPECT_EQ(text(m.changed), "memory");
    EXPECT_EQ(text(m.moved), "P3");
    EXPECT_EQ(contradiction(w, m), "");
    EXPECT_NE(contradiction({w.inst, Class::plain}, m), "");
  }
}

// The checks see a result that is wrong in one bit of one lane, a write and a read that the table does not
// know.
TEST(Values, WrongResultsAreSeen) {
  const Word add{{0x0000001808287221, 0x0000000000000000}, Class::plain};
  ASSERT_EQ(text(add), "FADD R40, R8, R24");
  const std::vector<WarpState> in = input_states(Class::plain);
  DirectResult direct = run_direct(add, in, warps);
  ASSERT_EQ(direct.refused, "");
  const Measured right = evaluate(in, direct.states);
  EXPECT_EQ(contradiction(add, right), "");
  EXPECT_EQ(not_seen(add, right), "");
  EXPECT_EQ(text(right.changed), "R40");
  EXPECT_EQ(text(right.moved), "R8 R24");

  std::vector<WarpState> wrong = direct.states;
  wrong[300].gpr(40)[17] ^= 1;
  EXPECT_NE(evaluate(in, wrong).digest, right.digest);
  wrong[300].gpr(41)[17] ^= 1;
  EXPECT_EQ(contradiction(add, evaluate(in, wrong)), "writes R41");
  wrong = direct.states;
  wrong[variant_warp(2, 1)].gpr(40)[3] ^= 1;  // where R10 alone was changed
  EXPECT_EQ(contradiction(add, evaluate(in, wrong)), "reads R10");
  EXPECT_EQ(not_seen(add, evaluate(in, in)), "does not write R40, does not read R8 R24");
}

}  // namespace
}  // namespace xtrace::values
