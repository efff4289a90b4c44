#include "trace/clock_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/clock_model.h"

namespace xtrace::trace {
namespace {

// SM `sm` at 1.98 GHz: its clock stands at `zero` when GLOBALTIMER reads 1,000,000.
struct Sm {
  uint32_t sm;
  uint64_t zero;
};
constexpr Sm sms[] = {{0, 5'000'000'000}, {7, 123'456}, {131, 0xfffff000}};

// Eight readings an SM, each up to `late` ns behind the tick.
std::vector<ClockReading> readings(uint64_t from_ns, double late) {
  std::vector<ClockReading> out;
  for (const Sm& s : sms)
    for (uint64_t k = 0; k < 8; ++k) {
      const double behind = late * static_cast<double>((k * 5 + s.sm) % 8) / 7;
      const double ns = static_cast<double>(from_ns + 1000 * k) + behind - 1'000'000;
      out.push_back({s.sm, s.zero + static_cast<uint64_t>(ns * 1.98), from_ns + 1000 * k});
    }
  return out;
}

TEST(ClockFit, OneAxisForAllSms) {
  const auto fit = ClockFit::of(readings(1'000'000, 20), readings(1'700'000, 20));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->sms(), 3u);
  EXPECT_TRUE(fit->covers(7));
  EXPECT_FALSE(fit->covers(8));
  EXPECT_LT(fit->residual(), 20);
  EXPECT_GT(fit->residual(), 2);
  for (const Sm& s : sms) {
    EXPECT_NEAR(fit->ghz(s.sm), 1.98, 0.001);
    const uint64_t clock = s.zero + static_cast<uint64_t>(300'000 * 1.98);
    EXPECT_NEAR(fit->nanoseconds(s.sm, clock), 300'000, 2 * fit->residual());
    EXPECT_DOUBLE_EQ(fit->nanoseconds(s.sm, clock), fit->nanoseconds(s.sm, static_cast<uint32_t>(clock)));
  }
}

TEST(ClockFit, ARateThatChangedAmongTheReadingsShowsInTheResidual) {
  auto after = readings(1'700'000, 0);
  for (ClockReading& r : after) r.nanoseconds += (r.nanoseconds - 1'700'000) / 10;
  EXPECT_GT(ClockFit::of(readings(1'000'000, 0), after)->residual(), 100);
}

TEST(ClockFit, NothingOfReadingsThatDoNotFitTogether) {
  const auto before = readings(1'000'000, 5);
  const auto reason = [](std::span<const ClockReading> first, std::span<const ClockReading> second) {
    const auto fit = ClockFit::of(first, second);
    return fit ? "a fit" : fit.error().to_string();
  };
  EXPECT_EQ(reason({}, {}), "no SM's clock was read");
  EXPECT_EQ(reason(before, {}), "SM 0 was read 8 times before the launch and 0 times after it, of 3 SMs");
  EXPECT_EQ(reason({}, before), "SM 0 was read 0 times before the launch and 8 times after it, of 3 SMs");
  EXPECT_EQ(reason(readings(1'700'000, 5), before),
            "SM 0 went backwards: clock 5001399864 at 1707000 ns, then 5000000000 at 1000000 ns (readings 7 and 8, 8 of them before the launch)");
  auto other = readings(1'700'000, 5);
  for (ClockReading& r : other) r.sm += r.sm == 7;
  EXPECT_EQ(reason(before, other), "SM 7 was read 8 times before the launch and 0 times after it, of 4 SMs");
}

TEST(ClockFit, ClockModelTakesItOver) {
  wire::SlotLayout l;
  l.warps = 3;
  l.warps_per_cta = 1;
  std::vector<wire::WarpHeader> h(3);
  for (size_t i = 0; i < 3; ++i) {
    h[i].sm = sms[i].sm;
    h[i].start_clock = (1ull << 33) + static_cast<uint32_t>(sms[i].zero + static_cast<uint64_t>(1.98 * (100'000 + 500 * i)));
    h[i].start_time = 1'100'000 + 500 * i - 700;
  }
  const auto fit = ClockFit::of(readings(1'000'000, 0), readings(1'700'000, 0));
  const ClockModel m(*fit, l, h);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(m.nanoseconds(h[i].sm, h[i].start_clock), 500.0 * i, 2);
  EXPECT_NEAR(m.nanoseconds(7, h[1].start_clock + 1980), 1500, 2);
  EXPECT_NEAR(m.sm_clock_ghz(), 1.98, 0.001);
  EXPECT_LT(m.alignment_spread(), 2);
  EXPECT_THAT(m.statement(), testing::HasSubstr("3 SM clocks fitted to GLOBALTIMER"));
}

}  // namespace
}  // namespace xtrace::trace
