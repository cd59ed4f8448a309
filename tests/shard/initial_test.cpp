#include "lib/shard/initial.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

namespace trireme {

static std::vector<double> draw(int n) {
  std::vector<double> x;
  for (int i = 0; i < n; ++i) x.push_back(normal(42, i));
  return x;
}

// Moments of n draws lie within five standard errors.
TEST(Normal, HasTheMomentsOfTheStandardNormal) {
  const int n = 200000;
  double mean = 0, square = 0, fourth = 0;
  for (double x : draw(n)) {
    mean += x / n;
    square += x * x / n;
    fourth += x * x * x * x / n;
  }

  EXPECT_NEAR(mean, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96.0 / n));
}

// Kolmogorov-Smirnov against the distribution function; 1.95 / sqrt(n) is passed once in 1,000.
TEST(Normal, FollowsTheDistributionFunction) {
  const int n = 100000;
  auto x = draw(n);
  std::ranges::sort(x);
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const double p = 0.5 * std::erfc(-x[static_cast<std::size_t>(i)] / std::numbers::sqrt2);
    worst = std::max({worst, std::fabs(p - double(i) / n), std::fabs(p - double(i + 1) / n)});
  }

  EXPECT_LT(worst, 1.95 / std::sqrt(n));
}

// The inverse is accurate, not only plausible: neighbours of one counter differ, and each value
// maps back to a multiple of 2^-52 (to 1e-14 relative, where erfc's own rounding allows).
TEST(Normal, InvertsTheDistributionFunction) {
  std::set<double> seen;
  for (int i = 0; i < 20000; ++i) {
    const double x = normal(7, i);
    seen.insert(x);
    const auto r = philox4x32(7, static_cast<std::uint64_t>(i / 2), 0);
    const std::uint64_t high = i % 2 ? r[2] : r[0], low = i % 2 ? r[3] : r[1];
    const double p = static_cast<double>((high << 32 | low) >> 12) * 0x1p-52 + 0x1p-53;
    const double tail = p < 0.5 ? p : 1 - p;
    EXPECT_NEAR(0.5 * std::erfc(std::fabs(x) / std::numbers::sqrt2), tail, 1e-13 * tail);
  }
  EXPECT_EQ(seen.size(), 20000U);
}

}  // namespace trireme
