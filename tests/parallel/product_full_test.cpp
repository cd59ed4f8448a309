// Drawn of cases in which on each grid every four settings meet, and on eight ranks every three.
// A launch runs the grids of its number of ranks.
#include <gtest/gtest.h>

#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"

namespace trireme::test {
namespace {

class Product : public testing::TestWithParam<Grid> {};
INSTANTIATE_TEST_SUITE_P(Grids, Product, testing::ValuesIn(parity_grids({1, 2, 4, 8})),
                         [](const auto& info) {
                           const Grid& g = info.param;
                           return fmt::format("pipe{}_data{}_seq{}", g.pipe, g.data, g.seq);
                         });

TEST_P(Product, OfAFewSettings) {
  if (GetParam().ranks() != world().size()) GTEST_SKIP() << "for other ranks";
  const auto& grid = GetParam();
  for (const auto& c : drawn(covering_cases(grid, grid.ranks() > 4 ? 3 : 4), 4)) {
    SCOPED_TRACE(name_of(c));
    if (!next_case(name_of(c))) break;
    expect_parity(c, f64_bound);
  }
}

}  // namespace
}  // namespace trireme::test
