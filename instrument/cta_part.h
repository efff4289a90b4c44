// CTAs rotated: one spliced module, and for each class of CTAs a copy that differs from it in two constants of the decision.
#pragma once

#include <string_view>

#include "instrument/instrument.h"

namespace xtrace::instrument {

// wire::cta_is_sampled as the decision computes it: the sum of what a class begins with and of factor * number lies below a limit.
constexpr uint32_t class_start(const Plan& plan) { return plan.seed - wire::class_begin(plan.one_in, plan.cta_part); }
constexpr uint32_t class_limit(const Plan& plan) { return wire::class_width(plan.one_in, plan.cta_part); }

// `spliced` by a plan that rotates, for CTAs of class `part` in place of its own: as that plan with this cta_part gives, word for word.
Result<Spliced> for_cta_part(const Spliced& spliced, std::string_view kernel, uint32_t part);

}  // namespace xtrace::instrument
