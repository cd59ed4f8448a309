#include "lib/base/fixed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/rng.hpp"

namespace trireme::fixed {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Fixed, AGradientIsACountOfQuantaRoundedToTheNearest) {
  EXPECT_EQ(of_gradient(1), std::int64_t{1} << 50);
  EXPECT_EQ(of_gradient(-0x1p-50F), -1);
  EXPECT_EQ(of_gradient(0x1.8p-50F), 2);  // halves to even
  EXPECT_EQ(of_gradient(0x1.4p-49F), 2);
  EXPECT_EQ(of_gradient(0x1p-51F), 0);
  EXPECT_EQ(of_gradient(0x1.fffffep12F), 0x1fffffe0000000LL << 10);
  EXPECT_EQ(to_gradient(of_gradient(0x1.234566p-3F)), 0x1.234566p-3F);
  EXPECT_EQ(to_gradient(-1), -0x1p-50F);
}

TEST(Fixed, WhatNoSumCanHoldCountsAsNothing) {
  for (const float x : {0x1p13F, -0x1p13F, 3e38F, infinity, -infinity, std::nanf("")})
    EXPECT_EQ(of_gradient(x), 0) << x;
  for (const double x : {0x1p31, -0x1p31, 1e300, double{infinity}, std::nan("")})
    EXPECT_EQ(of_loss(x), 0) << x;
  EXPECT_EQ(of_loss(2.5), std::int64_t{5} << 31);
}

TEST(Fixed, TheLargestTellsOfIt) {
  EXPECT_EQ(larger(1, -2), 2);
  EXPECT_EQ(larger(3, -2), 3);
  EXPECT_EQ(larger(3, std::nanf("")), infinity);
  EXPECT_EQ(larger(infinity, 1), infinity);
  EXPECT_EQ(larger(0, 3e38F), 3e38F);
}

TEST(Fixed, SumsAtTheEdgeWrapAndComeBack) {
  constexpr auto top = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(wrapping_sum(top, 1), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(wrapping_sum(wrapping_sum(top, 1), -1), top);
}

TEST(Fixed, SquaresAreExactToAQuantumOfTheirs) {
  EXPECT_TRUE(square_of(of_gradient(1)) == Int128{1} << 96);
  EXPECT_TRUE(square_of(-4) == 1);
  EXPECT_TRUE(square_of(3) == 0);
  constexpr auto top = std::numeric_limits<std::int64_t>::min();
  EXPECT_TRUE(square_of(top) == Int128{1} << 122);
}

TEST(Fixed, SumsOfSquaresStopAtTheMost) {
  EXPECT_TRUE(capped_sum(most, 1) == most);
  EXPECT_TRUE(capped_sum(most - 5, 3) == most - 2);
  EXPECT_TRUE(capped_sum(most - 5, 6) == most);
}

// Any numbers, in the limbs of many ranks.
TEST(Fixed, LimbsAddUpExactly) {
  std::uint64_t draw = 1;
  for (int round = 0; round < 200; ++round) {
    Int128 sum = 0;
    std::array<double, limbs> added{};
    for (int rank = 0; rank < 50; ++rank) {
      const auto high = static_cast<std::int64_t>(mix64(++draw)) >> 8;  // 50 of them fit
      const Int128 x = (static_cast<Int128>(high) << 64) + static_cast<Int128>(mix64(++draw));
      sum += x;
      const auto limb = to_limbs(x);
      for (std::size_t i = 0; i < limbs; ++i) added[i] += limb[i];
    }
    EXPECT_TRUE(of_limbs(added) == sum);
  }
}

TEST(Fixed, LimbsOfTooMuchAreTheMost) {
  auto twice = to_limbs(most - 3);
  for (double& limb : twice) limb *= 2;
  EXPECT_TRUE(of_limbs(twice) == most);
  EXPECT_TRUE(of_limbs(to_limbs(most)) == most);
  for (const Int128 x : {Int128{-1}, Int128{0}, -(Int128{1} << 40), -most})
    EXPECT_TRUE(of_limbs(to_limbs(x)) == x);
}

TEST(Fixed, BecomesTheNearestDouble) {
  EXPECT_EQ(to_double(Int128{3} << 95, 96), 1.5);
  EXPECT_EQ(to_double(-1, 50), -0x1p-50);
  EXPECT_EQ(to_double((Int128{1} << 100) + 1, 100), 1);
  // Between two doubles, and a last bit beyond the middle.
  EXPECT_EQ(to_double((Int128{1} << 100) + (Int128{1} << 47), 100), 1);
  EXPECT_EQ(to_double((Int128{1} << 100) + (Int128{1} << 47) + 1, 100), 1 + 0x1p-52);
}

// By the processor's own conversions: random bits, and where rounding turns.
TEST(Fixed, ConversionsAreTheProcessors) {
  std::uint64_t seed = 0;
  for (int i = 0; i < 1000000; ++i) {
    const auto bits = mix64(++seed);
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const float fits = std::fabs(x) < fixed::gradient_limit ? x : 0.0F;
    ASSERT_EQ(fixed::of_gradient(x), static_cast<std::int64_t>(std::rint(fits * 0x1p50F))) << x;
    const auto q = static_cast<std::int64_t>(mix64(++seed)) >> (bits >> 58);
    ASSERT_EQ(fixed::to_double(q), static_cast<double>(q)) << q;
  }
  for (const float halves : {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 1e6F + 0.5F, 8388607.5F})
    EXPECT_EQ(fixed::of_gradient(halves * 0x1p-50F), static_cast<std::int64_t>(std::rint(halves)))
        << halves;
  for (const std::int64_t q : {INT64_MIN, INT64_MIN + 1, INT64_MAX, std::int64_t{-1},
                               std::int64_t{0}, std::int64_t{1} << 32, (std::int64_t{1} << 32) - 1})
    EXPECT_EQ(fixed::to_double(q), static_cast<double>(q)) << q;
}

}  // namespace
}  // namespace trireme::fixed
