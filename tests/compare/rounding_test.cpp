// The test's own distribution on numbers that are drawn, without the trainer.
#include "lib/compare/rounding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace trireme {
namespace {

// From tables whose t are rounded to 5e-4, where the density is below 0.1.
TEST(Student, HasTheTablesTails) {
  EXPECT_NEAR(student_tails(6.314, 1), 0.1, 1e-4);
  EXPECT_NEAR(student_tails(4.303, 2), 0.05, 1e-4);
  EXPECT_NEAR(student_tails(5.841, 3), 0.01, 1e-4);
  EXPECT_NEAR(student_tails(3.055, 12), 0.01, 1e-4);
  EXPECT_NEAR(student_tails(2.131, 15), 0.05, 1e-4);
  EXPECT_EQ(student_tails(0, 7), 1);
  EXPECT_EQ(student_tails(-2.131, 15), student_tails(2.131, 15));
  EXPECT_LT(student_tails(1e9, 12), 1e-14);
}

// By Simpson's rule over the density, far into the tail.
TEST(Student, IsTheIntegralOfItsDensity) {
  for (const int n : {4, 5, 12}) {
    const double c = std::exp(std::lgamma((n + 1) / 2.0) - std::lgamma(n / 2.0)) /
                     std::sqrt(n * std::acos(-1.0));
    const auto density = [&](double x) { return c * std::pow(1 + x * x / n, -(n + 1) / 2.0); };
    for (const double t : {0.5, 3.0, 14.0}) {
      // x = t / (1 - s), s from 0 to 1, where the integrand is 0.
      const auto f = [&](double s) {
        return s == 1 ? 0 : density(t / (1 - s)) * t / ((1 - s) * (1 - s));
      };
      constexpr int steps = 20000;
      double sum = f(0) + f(1);
      for (int i = 1; i < steps; ++i) sum += (i % 2 ? 4 : 2) * f(static_cast<double>(i) / steps);
      const double tails = 2 * sum / (3 * steps);
      EXPECT_NEAR(student_tails(t, n), tails, 1e-6 * tails + 1e-14) << n << " " << t;
    }
  }
}

// A tensor, and draws around it: every element on its own, and one number for all of them.
struct Draws {
  std::mt19937_64 random;
  std::vector<double> x;
  double own, common;

  Draws(std::size_t n, double own_noise, double common_noise, std::uint64_t seed = 1)
      : random(seed), x(n), own(own_noise), common(common_noise) {
    std::normal_distribution<double> normal;
    for (auto& v : x) v = normal(random);
  }
  std::vector<float> draw() {
    std::normal_distribution<double> normal;
    const double all = common * normal(random);
    std::vector<float> drawn;
    for (const double v : x)
      drawn.push_back(static_cast<float>(v * (1 + all) + own * normal(random)));
    return drawn;
  }
  std::vector<float> still() const { return {x.begin(), x.end()}; }
  Spread spread() {
    Spread s;
    const auto center = still();
    for (int r = 0; r < rounding_replays; ++r) s.add(tally(center, draw()));
    return s;
  }
  static Tally tally(const std::vector<float>& a, const std::vector<float>& b) {
    Tally t;
    t.add<float>(0, a, b);
    return t;
  }
};

constexpr std::size_t tests = 50;

TEST(Rounding, DrawsOfOneDistributionAreExplained) {
  for (const double common : {0.0, 1e-6})
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      Draws d(300, 1e-6, common, seed);
      const auto spread = d.spread();
      const auto j = judge(Draws::tally(d.draw(), d.draw()), spread);
      EXPECT_TRUE(explained(j, tests)) << seed << ": " << j.size << " " << j.projection;
      EXPECT_LT(j.size, 10);
    }
}

// Ten times as small as any element's own difference.
TEST(Rounding, AFactorStandsOutInTheProjectionAlone) {
  Draws d(3000, 1e-6, 1e-8);
  const auto spread = d.spread();
  const auto a = d.draw();
  auto b = d.draw();
  for (auto& v : b) v *= 1 + 1e-6F;
  const auto j = judge(Draws::tally(a, b), spread);
  EXPECT_FALSE(explained(j, tests));
  EXPECT_LT(j.size, 2);  // as large as rounding
  EXPECT_NEAR(j.alpha, 1e-6, 2e-7);
}

// One element of a thousand, hidden in the mean of none.
TEST(Rounding, AnElementThatIsFarOffStandsOutInTheSize) {
  Draws d(1000, 1e-6, 0);
  const auto spread = d.spread();
  const auto a = d.draw();
  auto b = d.draw();
  b[500] += 1e-3F;
  EXPECT_FALSE(explained(judge(Draws::tally(a, b), spread), tests));
}

// Where no replay differs, numbers may still lie on both sides of a border between two floats.
TEST(Rounding, OneUnitInOneElementIsExplainedWithoutAnySpread) {
  Spread none;
  const std::vector<float> a{1, 2, 3};
  for (int r = 0; r < rounding_replays; ++r) none.add(Draws::tally(a, a));
  for (std::size_t i = 0; i < 3; ++i) {
    auto b = a;
    b[i] = std::nextafter(b[i], 10.0F);
    EXPECT_TRUE(explained(judge(Draws::tally(a, b), none), tests));
    b[i] += 1e-3F;
    EXPECT_FALSE(explained(judge(Draws::tally(a, b), none), tests));
  }
}

// Two for each tensor share the chance of one false alarm.
TEST(Rounding, MoreTestsRaiseNoMoreFalseAlarms) {
  for (const std::size_t n : {1, 100}) {
    Judgement j;
    j.chance = 1.01 * false_alarm / (2 * static_cast<double>(n));
    EXPECT_TRUE(explained(j, n)) << n;
    j.chance *= 0.98;
    EXPECT_FALSE(explained(j, n)) << n;
  }
}

TEST(Rounding, WhatIsNotFiniteOrNotReplayedIsNotExplained) {
  Draws d(100, 1e-6, 0);
  const auto spread = d.spread();
  const auto a = d.draw();
  auto b = a;
  EXPECT_TRUE(explained(judge(Draws::tally(a, b), Spread{}), tests)) << "equal";
  b[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(explained(judge(Draws::tally(a, b), spread), tests));
  b[3] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(explained(judge(Draws::tally(a, b), spread), tests));
  EXPECT_FALSE(explained(judge(Draws::tally(a, d.draw()), Spread{}), tests));
}

}  // namespace
}  // namespace trireme
