// Grids of many times as many ranks as there are processors train as one rank does: the same suite
// as of few, on grids that these do not have.
#include <gtest/gtest.h>

#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"

namespace trireme {

TEST(ManyRanks, TrainAsOne) {
  const int n = test::world().size();
  if (n < 32) GTEST_SKIP() << "these are few";
  for (const auto& c : test::many_cases(n)) {
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, test::f64_bound);
  }
}

}  // namespace trireme
