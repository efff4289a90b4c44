#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "replay/driver/launch_attributes.h"
#include "replay/driver/own_mappings.h"
#include "tests/unit/replay/launch_builder.h"

namespace xtrace::replay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

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

// Nothing of a Linux process lies at this address, with or without ASLR.
TEST(MappingNeighbours, SeesAMappingOfThisProcess) {
  const AddressSpan around{0x300004000000, 0x300008000000};
  EXPECT_THAT(mapping_neighbours(read_own_mappings(), around), StartsWith("no host mapping overlaps it"));
  void* mine = mmap(reinterpret_cast<void*>(0x300004600000), 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(mine, MAP_FAILED);
  EXPECT_THAT(mapping_neighbours(read_own_mappings(), around),
              StartsWith("taken by 0x300004600000-0x300004601000 anonymous"));
  munmap(mine, 4096);
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
