// Classes of CTAs: each CTA is in one, and code spliced for one class becomes that of another by two constants.
#include "instrument/cta_part.h"

#include <gtest/gtest.h>

#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {
namespace {

TEST(CtaPart, EveryCtaIsInOneClass) {
  for (const uint32_t n : {2u, 3u, 7u, 16u, 64u, 1000u})
    for (const uint32_t seed : {0u, 1u, 7u, 0xffffffffu}) {
      // CTAs at the limits of the classes: where the sum is a limit, and one below.
      std::vector<uint32_t> ctas{0, 1, 2, 100, 65535, 0x7fffffff};
      uint32_t inverse = 1;   // of the factor, modulo 2^32
      for (int k = 0; k < 5; ++k) inverse *= 2 - wire::sample_multiplier * inverse;
      ASSERT_EQ(inverse * wire::sample_multiplier, 1u);
      for (uint32_t part = 0; part < n; ++part)
        for (const uint32_t off : {0u, 1u}) ctas.push_back((wire::class_begin(n, part) - off - seed) * inverse);
      for (const uint32_t cta : ctas) {
        uint32_t in = 0;
        for (uint32_t part = 0; part < n; ++part) in += wire::cta_is_sampled(cta, n, seed, part);
        EXPECT_EQ(in, 1u) << cta << " of cta:1/" << n << "@" << seed;
        EXPECT_TRUE(wire::cta_is_sampled(cta, n, seed, wire::part_of_cta(cta, n, seed))) << cta << " of cta:1/" << n << "@" << seed;
      }
    }
}

TEST(CtaPart, ConstantsAreThoseOfASpliceOfItsOwn) {
  size_t cases = 0;
  for (const char* arch : {"sm_80", "sm_90", "sm_120"})
    for (const Kernel& kernel : fixture_kernels(arch)) {
      const auto splicer = Splicer::create(kernel.cubin, kernel.name, small_shape());
      if (!splicer) continue;
      const wire::SlotLayout layout = some_layout(small_shape(), false, false);
      for (const bool by_list : {false, true})
        for (const auto& [n, part] : {std::pair{2u, 1u}, {3u, 2u}, {7u, 3u}, {64u, 63u}}) {
          Plan plan = plan_of(ProbeKind::block, n);
          plan.rotates = true;
          plan.seed = 1;   // as CTA numbers and the words around have it
          if (by_list) plan.select.ctas = {{0, 0}, {2, 3}};   // the decision in front of everything
          const auto first = splicer->splice(plan, layout);
          if (!first) break;
          plan.cta_part = part;
          const auto own = splicer->splice(plan, layout);
          ASSERT_TRUE(own) << own.error().to_string();
          const auto made = for_cta_part(*first, kernel.name, part);
          ASSERT_TRUE(made) << arch << " " << kernel.name << ": " << made.error().to_string();
          EXPECT_EQ(made->cubin, own->cubin) << arch << " " << kernel.name << " cta:1/" << n << "+" << part;
          EXPECT_NE(made->cubin, first->cubin);
          EXPECT_EQ(made->map.layout.cta_part, part);
          const auto back = for_cta_part(*made, kernel.name, 0);
          ASSERT_TRUE(back) << back.error().to_string();
          EXPECT_EQ(back->cubin, first->cubin);
          ++cases;
        }
    }
  EXPECT_GT(cases, 200u);
}

// Without the constant in its decision, code can not be turned into that of another class.
TEST(CtaPart, NotOfCodeThatDoesNotRotate) {
  const Kernel kernel = fixture_kernel("saxpy");
  Plan plan = plan_of(ProbeKind::block, 4);
  plan.seed = 0;
  const auto splicer = Splicer::create(kernel.cubin, kernel.name, small_shape());
  ASSERT_TRUE(splicer);
  const auto spliced = splicer->splice(plan, some_layout(small_shape(), false, false));
  ASSERT_TRUE(spliced) << spliced.error().to_string();
  const auto made = for_cta_part(*spliced, kernel.name, 1);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::internal);
}

}  // namespace
}  // namespace xtrace::instrument::test
