#include "diff/floor.h"

#include <gtest/gtest.h>

namespace xtrace::diff {
namespace {

constexpr DeviceRates small{"small", 1000, 2, 4, 100};   // 1000 bytes, 800 slots, 200 cycles of stores a microsecond

TEST(Floor, EachPartOverWhatTheDeviceCanDo) {
  const auto f = floor_of(small, {3000, 800, 400}, 10);
  ASSERT_TRUE(f);
  EXPECT_DOUBLE_EQ(f->bytes_us, 3);
  EXPECT_DOUBLE_EQ(f->issue_us, 1);
  EXPECT_DOUBLE_EQ(f->store_us, 2);
  EXPECT_DOUBLE_EQ(f->added, 1.3);
  EXPECT_DOUBLE_EQ(f->in_turn, 1.6);
  EXPECT_DOUBLE_EQ(f->ratio, 1);
  EXPECT_EQ(f->bound, "bytes");
}

TEST(Floor, TheLargestPartBinds) {
  EXPECT_EQ(floor_of(small, {0, 8000, 400}, 10)->bound, "issue");
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 8000, 400}, 10)->added, 2);
  EXPECT_EQ(floor_of(small, {0, 800, 400}, 10)->bound, "stores");
  EXPECT_DOUBLE_EQ(floor_of(small, {}, 10)->added, 1);
  EXPECT_EQ(floor_of(small, {3000, 800, 400, 0, 0, 0, 310}, 10)->bound, "latency");
  EXPECT_DOUBLE_EQ(floor_of(small, {3000, 800, 400, 0, 0, 0, 310}, 10)->added, 1.31);
  EXPECT_DOUBLE_EQ(floor_of(small, {3000, 800, 400, 0, 0, 0, 310}, 10)->in_turn, 1.91);
  EXPECT_DOUBLE_EQ(floor_of(small, {3000, 800, 400, 0, 0, 0, 310}, 10)->ratio, 1) << "a warp may have waited anyway";
  EXPECT_EQ(floor_of(small, {3000, 800, 400, 0, 0, 0, 290}, 10)->bound, "bytes");
}

TEST(Floor, WhatOnePartOfTheDeviceMustDoDoesNotOverlap) {
  EXPECT_DOUBLE_EQ(floor_of(small, {15000, 800, 400}, 10)->ratio, 1.5);
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 800, 2500}, 10)->ratio, 1.25);
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 2000, 0, 7200}, 10)->ratio, 1.15) << "probes and kernel issue in turn";
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 0, 0, 7200}, 10)->ratio, 1);
}

TEST(Floor, OnlySmsWithACta) {
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 800, 400, 0, 1, 8}, 10)->store_us, 4);
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 800, 400, 0, 1, 8}, 10)->issue_us, 2);
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 800, 400, 0, 1, 2}, 10)->issue_us, 4) << "two of four schedulers";
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 800, 400, 0, 5, 8}, 10)->store_us, 2);
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 800, 400, 0, 5, 8}, 10)->issue_us, 1);
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 800, 400, 0, 5, 8, 0, 1}, 10)->store_us, 4) << "one of five is traced";
  EXPECT_DOUBLE_EQ(floor_of(small, {0, 800, 400, 0, 5, 8, 0, 1}, 10)->issue_us, 1) << "all decide";
}

TEST(Floor, TracedCtasAreFewAtATime) {
  ProbeWork work{0, 800, 2500, 0, 50, 8, 0, 10};
  EXPECT_DOUBLE_EQ(floor_of(small, work, 10)->store_us, 12.5);
  work.traced_at_once = 1;
  EXPECT_DOUBLE_EQ(floor_of(small, work, 10)->store_us, 25) << "one of two SMs at a time";
  EXPECT_DOUBLE_EQ(floor_of(small, work, 10)->ratio, 1.25) << "it may be otherwise by chance";
  work.traced_at_once = 5;
  EXPECT_DOUBLE_EQ(floor_of(small, work, 10)->store_us, 12.5);
}

TEST(Floor, SectorsWrittenInPartAreRead) {
  ProbeWork work{3000, 800, 400};
  work.partial_sectors = 50;
  const auto f = floor_of(small, work, 10);
  EXPECT_DOUBLE_EQ(f->fill_us, 1.6);
  EXPECT_DOUBLE_EQ(f->in_turn, 1.76);
  EXPECT_DOUBLE_EQ(f->added, 1.3) << "the L2 may have them";
  EXPECT_DOUBLE_EQ(f->ratio, 1);
}

TEST(Floor, LinesWrittenBesideReads) {
  DeviceRates rates = small;
  rates.us_per_line = 0.01;
  ProbeWork work{3000, 800, 400};
  work.lines = 50;
  const auto f = floor_of(rates, work, 10);
  EXPECT_DOUBLE_EQ(f->line_us, 0.5);
  EXPECT_DOUBLE_EQ(f->in_turn, 1.65);
  EXPECT_DOUBLE_EQ(f->added, 1.3);
  EXPECT_DOUBLE_EQ(floor_of(small, work, 10)->in_turn, 1.6) << "not known of this device";
}

TEST(Floor, TheMedianIsTheOneInTheMiddle) {
  const auto with = [](double added, double bytes) {
    Floor f;
    f.added = added;
    f.bytes_us = bytes;
    return f;
  };
  EXPECT_FALSE(median_of({}));
  EXPECT_DOUBLE_EQ(median_of({with(1.3, 1), with(1.1, 2), with(1.2, 3)})->bytes_us, 3);
}

TEST(Floor, NoneWithoutAClock) { EXPECT_FALSE(floor_of(small, {1, 1, 1}, 0)); }

TEST(Floor, UnknownDevicesAreNotGuessed) {
  ASSERT_TRUE(device_rates("NVIDIA H200"));
  EXPECT_DOUBLE_EQ(device_rates("NVIDIA H200")->sms, 132);
  EXPECT_FALSE(device_rates("NVIDIA H200 NVL"));
  EXPECT_FALSE(device_rates(""));
}

}  // namespace
}  // namespace xtrace::diff
