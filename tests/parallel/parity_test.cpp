// Losses, norms and every weight after five steps in f64 equal those of one rank to rounding. A
// constant factor somewhere (of seq, data, microbatches) would show at once: half of the cases run
// plain SGD without clipping.
#include <gtest/gtest.h>

#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"

namespace trireme {

// Of sums of some 1,000 terms of f64, over five steps of a gradient descent that does not amplify.
constexpr double f64_bound = 1e-11;

TEST(Parity, OfEveryPairOfSettings) {
  for (const auto& c : test::pairwise_cases(test::world().size())) {
    SCOPED_TRACE(test::name_of(c));
    test::expect_parity(c, f64_bound);
    if (HasFailure()) break;
  }
}

}  // namespace trireme
