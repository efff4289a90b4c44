#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "replay/driver/address_holder.h"
#include "replay/driver/launch_attributes.h"
#include "tests/unit/replay/launch_builder.h"

namespace xtrace::replay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr uint64_t MiB = 1ull << 20;
// Nothing of a Linux process lies here, with or without ASLR.
constexpr uint64_t quiet = 0x300000000000;

bool is_free(uint64_t address) {
  void* got = mmap(reinterpret_cast<void*>(address), 4096, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  munmap(got, 4096);
  return true;
}

TEST(AddressHolder, HoldsAndGivesBackInPieces) {
  {
    AddressHolder holder;
    EXPECT_EQ(holder.hold({quiet, quiet + 256 * MiB}), 256 * MiB);
    EXPECT_FALSE(is_free(quiet));
    EXPECT_FALSE(is_free(quiet + 128 * MiB));
    holder.release({quiet + 64 * MiB, quiet + 128 * MiB});
    EXPECT_TRUE(is_free(quiet + 64 * MiB));
    EXPECT_FALSE(is_free(quiet + 63 * MiB));
    EXPECT_FALSE(is_free(quiet + 128 * MiB));
    EXPECT_EQ(holder.held_bytes(), 192 * MiB);
    EXPECT_THAT(holder.pieces(), ElementsAre(AddressSpan{quiet, quiet + 64 * MiB},
                                             AddressSpan{quiet + 128 * MiB, quiet + 256 * MiB}));
  }
  EXPECT_TRUE(is_free(quiet));
}

TEST(AddressHolder, NeverReplacesAMapping) {
  void* mine = mmap(reinterpret_cast<void*>(quiet + 70 * MiB), 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(mine, MAP_FAILED);
  *static_cast<int*>(mine) = 42;
  AddressHolder holder;
  EXPECT_EQ(holder.hold({quiet, quiet + 256 * MiB}), 192 * MiB);
  EXPECT_EQ(*static_cast<int*>(mine), 42);
  EXPECT_FALSE(is_free(quiet));
  EXPECT_TRUE(is_free(quiet + 64 * MiB));
  EXPECT_THAT(mapping_neighbours(read_own_mappings(), {quiet + 64 * MiB, quiet + 128 * MiB}),
              StartsWith("taken by 0x300004600000-0x300004601000 anonymous"));
  munmap(mine, 4096);
}

TEST(AddressHolder, LeavesTheDriversOwnLowRangeAlone) {
  AddressHolder holder;
  holder.hold({0x1f0000000, 0x410000000});
  for (const AddressSpan& p : holder.pieces()) EXPECT_FALSE(p.overlaps(driver_low_range));
  EXPECT_EQ(holder.held_bytes(), 0x20000000u);
}

TEST(MappingNeighbours, NamesWhoIsThereOrNear) {
  const std::string maps =
      "10000-20000 r-xp 00000000 08:01 1 /usr/bin/xtrace\n"
      "50000-60000 ---p 00000000 00:00 0 \n"
      "90000-a0000 rw-p 00000000 00:00 0 [heap]\n";
  EXPECT_EQ(mapping_neighbours(maps, {0x58000, 0x98000}),
            "taken by 0x50000-0x60000 anonymous, 0x90000-0xa0000 [heap]");
  EXPECT_EQ(mapping_neighbours(maps, {0x20000, 0x50000}),
            "no host mapping overlaps it; nearest: 0x10000-0x20000 /usr/bin/xtrace below, 0x50000-0x60000 "
            "anonymous "
            "above");
  EXPECT_THAT(mapping_neighbours(maps, {0xb0000, 0xc0000}), HasSubstr("[heap] below, none above"));
}

bundle::LaunchAttribute attribute(uint32_t id, uint32_t word, const char* name = "") {
  bundle::LaunchAttribute a{id, name, Bytes(64)};
  write_at(std::span<std::byte>(a.value), 0, word);
  return a;
}

TEST(LaunchSetup, PassesDropsAndNotes) {
  bundle::LaunchRecord r;
  r.attributes = {attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4),
                  attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, 3),
                  attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1),
                  attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, 0),
                  attribute(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50)};
  r.cluster = {4, 1, 1};  // already among the attributes
  const LaunchSetup s = launch_setup(r).value();
  ASSERT_EQ(s.attributes.size(), 3u);
  EXPECT_EQ(s.attributes[0].value.clusterDim.x, 4u);
  EXPECT_EQ(s.attributes[1].value.priority, 3);
  EXPECT_EQ(s.attributes[2].id, CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  EXPECT_EQ(s.attributes[2].value.sharedMemCarveout, 50u);
  EXPECT_THAT(s.notes, ElementsAre(HasSubstr("programmatic stream serialization: replayed without overlap")));
}

TEST(LaunchSetup, RefusesByName) {
  bundle::LaunchRecord r;
  r.kernel = "k";
  r.attributes = {attribute(77, 1, "portal")};
  Result<LaunchSetup> s = launch_setup(r);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(s.error().message, "launch attribute 77 (portal) of k is not known to this version");
  r.attributes = {attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY, 1)};
  r.attributes[0].value.resize(65);
  s = launch_setup(r);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().kind, ErrorKind::bad_input);
}

TEST(LaunchSetup, PlainLaunchHasNoAttributes) {
  const LaunchSetup s = launch_setup(bundle::LaunchRecord{}).value();
  EXPECT_THAT(s.attributes, IsEmpty());
  EXPECT_THAT(s.notes, IsEmpty());
}

}  // namespace
}  // namespace xtrace::replay
