#include "lib/run/skip_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

TrainConfig config_of(double above, std::int64_t window, std::vector<std::string> steps = {}) {
  TrainConfig t;
  t.skip_above = above;
  t.skip_window = window;
  t.skip_steps = std::move(steps);
  return t;
}

TEST(SkipRules, StepsAndRangesAreListed) {
  const SkipRules rules(config_of(0, 4, {"7", "12-14"}), BatchRamp(), "", {}, "");
  for (const std::int64_t step : {7, 12, 13, 14}) EXPECT_TRUE(rules.lists(step)) << step;
  for (const std::int64_t step : {1, 6, 8, 11, 15}) EXPECT_FALSE(rules.lists(step)) << step;
  for (const auto* wrong : {"", "0", "5-4", "a", "3-", "-3", "1-2-3", "1.5"})
    EXPECT_THROW(SkipRules(config_of(0, 4, {wrong}), BatchRamp(), "", {}, ""), Error) << wrong;
}

// 1, 2, 3, 4 have the mean 2.5 and, as a sample, the variance 5 / 3.
TEST(SkipRules, LimitsAreTheMeanAndSomeStandardDeviations) {
  SkipRules rules(config_of(2, 4), BatchRamp(), "", {}, "");
  rules.add(100, 1);  // leaves the window
  EXPECT_TRUE(std::isinf(rules.limits(9).loss));
  for (const double x : {1., 2., 3., 4.}) rules.add(x, 10 * x);
  EXPECT_NEAR(rules.limits(9).loss, 2.5 + 2 * std::sqrt(5.0 / 3), 1e-14);
  EXPECT_NEAR(rules.limits(9).grad_norm, 25 + 20 * std::sqrt(5.0 / 3), 1e-13);
}

TEST(SkipRules, HalfAWindowMustBeKnown) {
  SkipRules rules(config_of(1, 5), BatchRamp(), "", {}, "");
  rules.add(1, 1);
  rules.add(2, 1);
  EXPECT_TRUE(std::isinf(rules.limits(9).grad_norm));
  rules.add(3, 1);
  EXPECT_NEAR(rules.limits(9).loss, 3, 1e-14);
  EXPECT_EQ(SkipRules(config_of(0, 4), BatchRamp(), "", {}, "").limits(9).loss,
            std::numeric_limits<double>::infinity());
}

TEST(SkipRules, ARestartHasTheWindowOfTheCheckpoint) {
  SkipRules through(config_of(3, 4), BatchRamp(), "8 tokens", {}, "");
  for (const double x : {5., 4.25, 1.0 / 3, 2.5, 2.125}) through.add(x, 0.1 * x);
  SkipRules again(config_of(3, 4), BatchRamp(), "8 tokens", {}, through.state());
  EXPECT_EQ(again.limits(9).loss, through.limits(9).loss);
  EXPECT_EQ(again.limits(9).grad_norm, through.limits(9).grad_norm);
  EXPECT_EQ(again.state(), through.state());
  SkipRules other(config_of(3, 4), BatchRamp(), "16 tokens", {}, through.state());
  EXPECT_TRUE(std::isinf(other.limits(9).loss));
}

// Other parameters are trained from there on, so the norms are others.
TEST(SkipRules, TheWindowBeginsAnewAtABorder) {
  SkipRules rules(config_of(3, 4), BatchRamp(), "", {7}, "");
  for (const double x : {1., 2., 3., 4.}) rules.add(x, x);
  EXPECT_FALSE(std::isinf(rules.limits(6).loss));
  EXPECT_TRUE(std::isinf(rules.limits(7).loss));
  EXPECT_TRUE(std::isinf(rules.limits(8).loss));
}

// Losses and norms of larger batches vary less.
TEST(SkipRules, TheWindowBeginsAnewWithAnotherBatch) {
  auto t = config_of(3, 4);
  t.batch = 8;
  t.batch_ramp = {"4 until 7 steps"};
  const BatchRamp ramp(t, 16);
  SkipRules rules(t, ramp, "tokens", {}, "");
  for (const double x : {1., 2., 3., 4.}) rules.add(x, x);
  EXPECT_FALSE(std::isinf(rules.limits(6).loss));
  const auto before = rules.state();
  EXPECT_TRUE(std::isinf(rules.limits(7).loss));
  SkipRules restarted(t, BatchRamp(t, 16, ramp.point(7)), "tokens", {}, before);
  EXPECT_TRUE(std::isinf(restarted.limits(7).loss));
  EXPECT_EQ(restarted.state(), rules.state());
  t.batch_ramp.clear();
  t.batch = 4;
  SkipRules without(t, BatchRamp(t, 16), "tokens", {}, before);
  EXPECT_FALSE(std::isinf(without.limits(7).loss));
}

TEST(SkipRules, NumbersThatHardlyVaryAreNotAbove) {
  SkipRules rules(config_of(6, 4), BatchRamp(), "", {}, "");
  for (int i = 0; i < 4; ++i) rules.add(2, 1);
  EXPECT_GT(rules.limits(9).loss, 2.001);
}

}  // namespace
}  // namespace trireme
