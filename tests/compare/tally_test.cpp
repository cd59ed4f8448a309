// Distances by hand and by walking from a number to its neighbours.
#include "lib/compare/tally.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace trireme {
namespace {

template <class T>
class Ulps : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Ulps, Types);

TYPED_TEST(Ulps, CountsTheNeighboursInBetween) {
  using T = TypeParam;
  constexpr T inf = std::numeric_limits<T>::infinity(), tiny = std::numeric_limits<T>::denorm_min();
  // Through a power of two, through zero with its subnormals, and to infinity.
  for (const T from : {T(1.999999), T(-3 * tiny), T(-1), std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::min()}) {
    T x = from;
    for (std::uint64_t steps = 0; steps < 9; ++steps) {
      EXPECT_EQ(ulps_between(from, x), steps) << from;
      EXPECT_EQ(ulps_between(x, from), steps) << from;
      if (x == inf) break;
      x = std::nextafter(x, inf);
    }
  }
}

TYPED_TEST(Ulps, ZerosAreOneNumberAndNansAreNone) {
  using T = TypeParam;
  EXPECT_EQ(ulps_between(T(0), T(-0.0)), 0U);
  EXPECT_EQ(ulps_between(std::numeric_limits<T>::quiet_NaN(), T(1)), std::nullopt);
  EXPECT_EQ(ulps_between(T(1), std::numeric_limits<T>::quiet_NaN()), std::nullopt);
  const auto all = std::numeric_limits<T>::infinity();
  // All numbers of both signs.
  EXPECT_EQ(ulps_between(-all, all),
            sizeof(T) == 4 ? 2 * 0x7f800000ULL : 2 * 0x7ff0000000000000ULL);
}

TEST(Tally, NamesFirstAndLargestWhateverThePieces) {
  std::vector<float> a{1, 2, -0.0F, 4, 5, 6}, b = a;
  b[2] = 0;                           // other bits, no distance
  b[3] = std::nextafter(4.0F, 5.0F);  // 1
  b[4] = 5 + 3 * 0x1p-21F;            // 5's unit is 2^-21
  Tally whole, pieces;
  whole.add<float>(0, a, b);
  pieces.add<float>(4, std::span(a).subspan(4), std::span(b).subspan(4));
  pieces.add<float>(0, std::span(a).first(4), std::span(b).first(4));
  for (const auto& t : {whole, pieces}) {
    EXPECT_EQ(t.elements, 6);
    EXPECT_EQ(t.differ, 3);
    EXPECT_EQ(t.nans, 0);
    EXPECT_EQ(t.first, 2);
    EXPECT_EQ(t.largest_ulps, 3U);
    EXPECT_EQ(t.largest_at, 4);
    EXPECT_EQ(t.largest_b, 5 + 3 * 0x1p-21);
    EXPECT_DOUBLE_EQ(t.a_squares, 1 + 4 + 16 + 25 + 36);
    EXPECT_DOUBLE_EQ(t.d_squares, 0x1p-42 + 9 * 0x1p-42);
    EXPECT_DOUBLE_EQ(t.product, 4 * 0x1p-21 + 5 * 3 * 0x1p-21);
  }
}

TEST(Tally, ANanIsADifferenceWithoutADistance) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> a{nan, nan, 1, 2}, b{nan, 3, nan, 2};
  Tally t;
  t.add<double>(10, a, b);
  EXPECT_EQ(t.differ, 2);  // the same NaN is the same
  EXPECT_EQ(t.nans, 2);
  EXPECT_EQ(t.first, 11);
  EXPECT_EQ(t.largest_at, -1);
}

}  // namespace
}  // namespace trireme
