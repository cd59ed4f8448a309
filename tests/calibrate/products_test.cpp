#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "lib/calibrate/calibrate.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;

using Sizes = std::array<std::int64_t, 3>;

struct Measured {
  std::vector<double> rates;
  std::vector<Sizes> products;
};

// On a machine of so many FLOP/s for each row, so that rates show where they came from.
Measured measured(const std::vector<double>& sizes, double flops_of_row) {
  Measured m;
  m.rates = rates_by_size(sizes, [&](std::int64_t rows, std::int64_t n, std::int64_t k) {
    m.products.push_back({rows, n, k});
    return flops_of_row * static_cast<double>(rows);
  });
  return m;
}

TEST(ProductRates, AllSizesWhereTheMachineIsFast) {
  const auto m = measured({32, 64}, 1e12);
  EXPECT_EQ(m.products, (std::vector<Sizes>{{32, 32, 32},
                                            {32, 32, 64},
                                            {32, 64, 32},
                                            {32, 64, 64},
                                            {64, 32, 32},
                                            {64, 32, 64},
                                            {64, 64, 32},
                                            {64, 64, 64}}));
  EXPECT_THAT(m.rates, ElementsAre(32e12, 32e12, 32e12, 32e12, 64e12, 64e12, 64e12, 64e12));
}

// At 2 MFLOP/s for each of 100 rows a product of 100 x 100 x 100 takes 0.01 s, one that is twice as
// large in two sizes 0.04: 0.02 are the most. Twice the rows are as fast again.
TEST(ProductRates, WhatTakesTooLongIsNotMeasured) {
  const auto m = measured({100, 200}, 2e6);
  EXPECT_EQ(m.products, (std::vector<Sizes>{
                            {100, 100, 100}, {100, 100, 200}, {100, 200, 100}, {200, 100, 100}}));
  EXPECT_THAT(m.rates, ElementsAre(2e8, 2e8, 2e8, 2e8, 4e8, 2e8, 2e8, 2e8));
}

// The first, 500 times too long, is measured nevertheless: all others have its rate.
TEST(ProductRates, OneIsMeasuredOnTheSlowestMachine) {
  const auto m = measured({100, 200, 400}, 4e3);
  EXPECT_EQ(m.products, (std::vector<Sizes>{{100, 100, 100}}));
  EXPECT_EQ(m.rates, std::vector<double>(27, 4e5));
}

// 2 GiB of f32 for a matrix are the most, however fast it is.
TEST(ProductRates, WhatIsTooLargeIsNotMeasured) {
  const auto m = measured({1024, 524288}, 1e300);
  EXPECT_EQ(
      m.products,
      (std::vector<Sizes>{
          {1024, 1024, 1024}, {1024, 1024, 524288}, {1024, 524288, 1024}, {524288, 1024, 1024}}));
}

}  // namespace
}  // namespace trireme
