#include "lib/run/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace trireme {
namespace {

StepOfRun at(std::int64_t step, std::int64_t total) {
  return step_of_run(BatchRamp(), step, total);
}
TEST(LearningRate, WarmsUpLinearly) {
  ScheduleConfig s;
  s.warmup_steps = 4;

  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(0, 100)), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(3, 100)), 1);
}

TEST(LearningRate, CosineEndsAtItsMinimum) {
  ScheduleConfig s{ScheduleShape::cosine, 10, 0.1, 0};

  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(10, 110)), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(60, 110)), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(110, 110)), 0.1);
}

TEST(LearningRate, LinearHoldsItsMinimumAfterTheDecay) {
  ScheduleConfig s{ScheduleShape::linear, 0, 0.2, 50};

  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(25, 100)), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(80, 100)), 0.2);
}

TEST(LearningRate, StableUntilTheLastSteps) {
  ScheduleConfig s{ScheduleShape::wsd, 5, 0, 19};

  EXPECT_DOUBLE_EQ(learning_rate(s, 2, at(80, 100)), 2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, at(81, 100)), 1.9);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, at(90, 100)), 1);
  EXPECT_NEAR(learning_rate(s, 2, at(99, 100)), 0.1, 1e-15);
  s.decay_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, at(89, 100)), 2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, at(90, 100)), 2 * 10.0 / 11);
  EXPECT_NEAR(learning_rate(s, 2, at(99, 100)), 2 / 11.0, 1e-15);
}

TEST(LearningRate, ADecayOfOneStepLowersIt) {
  const ScheduleConfig wsd{ScheduleShape::wsd, 2, 0.1, 1};
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1, at(98, 100)), 1);
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1, at(99, 100)), 0.55);
  for (const auto shape : {ScheduleShape::cosine, ScheduleShape::linear}) {
    const ScheduleConfig s{shape, 2, 0.1, 1};
    EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(2, 100)), 1);
    EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(3, 100)), 0.1);
  }
}

TEST(LearningRate, DecaysAfterWarmUpAlone) {
  const ScheduleConfig s{ScheduleShape::wsd, 61, 0, 80};

  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(59, 100)), 60.0 / 61);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(60, 100)), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(70, 100)), 0.75);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(100, 100)), 0);
}

TEST(LearningRate, ConstantStaysThere) {
  ScheduleConfig s;
  s.shape = ScheduleShape::constant;

  EXPECT_DOUBLE_EQ(learning_rate(s, 3e-4, at(12345, 100)), 3e-4);
}

// A run in which all steps are listed, with the tokens before and after each of them.
struct Listed {
  std::vector<std::int64_t> tokens{0};  // before step i
  std::int64_t steps() const { return static_cast<std::int64_t>(tokens.size()) - 1; }
};

// Batches of 2, then 4, then 6 samples of 8 tokens.
const std::vector<std::int64_t> batches = [] {
  std::vector<std::int64_t> all(10, 2);
  all.insert(all.end(), 7, 4);
  all.insert(all.end(), 13, 6);
  return all;
}();
constexpr std::int64_t context = 8;

TrainConfig with_ramp() {
  TrainConfig t;
  t.batch = 6;
  t.batch_ramp = {"2 until 10 steps", "4 until 17 steps"};
  t.steps = 30;
  return t;
}

Listed list() {
  Listed l;
  for (const auto b : batches) l.tokens.push_back(l.tokens.back() + b * context);
  return l;
}

TEST(LearningRate, OfTokensFollowsTheTokensOfARamp) {
  const BatchRamp ramp(with_ramp(), context);
  const auto l = list();
  const auto total = static_cast<double>(l.tokens.back());
  for (const auto shape : {ScheduleShape::cosine, ScheduleShape::linear}) {
    ScheduleConfig s{shape, 0, 0.1, 0};
    s.warmup_tokens = 56;  // 3.5 steps
    for (std::int64_t i = 0; i < l.steps(); ++i) {
      const double before = static_cast<double>(l.tokens[i]),
                   after = static_cast<double>(l.tokens[i + 1]);
      const double done = (before - 56) / (total - 56);
      const double expected = before < 56 ? std::fmin(2, 2 * after / 56)
                              : shape == ScheduleShape::linear
                                  ? 2 - 1.9 * done
                                  : 0.1 + 1.9 * (1 + std::cos(std::numbers::pi * done)) / 2;
      EXPECT_NEAR(learning_rate(s, 2, step_of_run(ramp, i, 30)), expected, 1e-14) << i;
    }
  }
}

// The decay has the last tokens of the run, not a share of what a run without ramp would have.
TEST(LearningRate, TheLastTokensDecayAfterARamp) {
  const BatchRamp ramp(with_ramp(), context);
  const auto l = list();
  ScheduleConfig s{ScheduleShape::wsd};
  s.decay_tokens = 5 * 48;  // 5 steps of 6 samples
  for (std::int64_t i = 0; i < l.steps(); ++i) {
    const double expected = i < 25 ? 1 : 1 - static_cast<double>(i - 24) / 6;
    EXPECT_NEAR(learning_rate(s, 1, step_of_run(ramp, i, 30)), expected, 1e-15) << i;
  }
  ScheduleConfig in_steps{ScheduleShape::wsd, 0, 0, 5};
  for (std::int64_t i = 0; i < l.steps(); ++i)
    EXPECT_EQ(learning_rate(in_steps, 1, step_of_run(ramp, i, 30)),
              learning_rate(s, 1, step_of_run(ramp, i, 30)));
}

// Lengths that no step ends at, in a ramp: the rate falls in each step, and never below min_lr.
TEST(LearningRate, FallsInEachStepOfADecayInARamp) {
  const BatchRamp ramp(with_ramp(), context);
  ScheduleConfig s{ScheduleShape::wsd, 0, 0.25, 0};
  s.decay_tokens = 101;
  s.decay_end_tokens = {300};
  double last = 1;
  for (std::int64_t i = 0; i < 30; ++i) {
    const auto step = step_of_run(ramp, i, 30);
    const double lr = learning_rate(s, 1, step);
    EXPECT_GE(lr, 0.25);
    if (step.before.tokens < 300 && step.after.tokens > 300 - 101) {
      EXPECT_LT(lr, last) << i;
      last = lr;
    } else if (step.after.tokens <= list().tokens.back() - 101) {
      EXPECT_EQ(lr, 1) << i;
    }
    EXPECT_EQ(ends_decay(s, step),
              i == 29 || (step.before.tokens < 300 && step.after.tokens >= 300));
  }
}

// At each end, a run has the rates of a run that ends there, and of no other decay since.
TEST(LearningRate, DecaysBeforeEachOfItsEnds) {
  for (const std::int64_t decay : {0, 4}) {
    ScheduleConfig s{ScheduleShape::wsd, 3, 0.1, decay};
    s.decay_end_steps = {20, 50, 200};
    const auto shorter = ScheduleConfig{ScheduleShape::wsd, 3, 0.1, decay};
    std::int64_t begin = 0;
    for (const std::int64_t end : {20, 50, 100}) {
      for (std::int64_t i = begin; i < end; ++i) {
        EXPECT_EQ(learning_rate(s, 1, at(i, 100)), learning_rate(shorter, 1, at(i, end))) << i;
        EXPECT_EQ(ends_decay(s, at(i, 100)), i + 1 == end) << i;
        EXPECT_FALSE(ends_decay(shorter, at(i, 100)));
      }
      begin = end;
    }
    EXPECT_EQ(learning_rate(s, 1, at(20, 100)), 1) << "returns to the peak";
  }
}

TEST(LearningRate, KnowsTheStepsAtWhichDecaysEnd) {
  const BatchRamp ramp(with_ramp(), context);
  ScheduleConfig s{ScheduleShape::wsd};
  s.decay_end_tokens = {1, 160, 161, 700};
  const auto l = list();
  std::vector<std::int64_t> ends;
  for (const auto point : s.decay_end_tokens) {
    std::int64_t steps = 0;
    while (l.tokens[static_cast<std::size_t>(steps)] < point) ++steps;
    ends.push_back(steps);
  }
  EXPECT_EQ(steps_of_decay_ends(s, ramp), ends);
  for (const auto end : ends) EXPECT_TRUE(ends_decay(s, step_of_run(ramp, end - 1, 30))) << end;
  EXPECT_EQ(decays_between(s, ramp.point(0), ramp.point(30)), 4);
  EXPECT_EQ(decays_between(s, ramp.point(10), ramp.point(11)), 1) << "160 is at a point";
  const BatchRamp rest(with_ramp(), context, ramp.point(11));
  EXPECT_EQ(steps_of_decay_ends(s, rest), (std::vector<std::int64_t>{11, 11, 11, ends[3]}));
  ScheduleConfig in_steps{ScheduleShape::wsd};
  in_steps.decay_end_steps = {3, 9};
  EXPECT_EQ(steps_of_decay_ends(in_steps, rest), in_steps.decay_end_steps);
}

TEST(LearningRate, ALongDecayBeginsAfterTheOneBefore) {
  ScheduleConfig s{ScheduleShape::wsd, 0, 0, 30};
  s.decay_end_steps = {20, 40};
  for (std::int64_t i = 0; i < 40; ++i)
    EXPECT_DOUBLE_EQ(learning_rate(s, 1, at(i, 60)), 1 - static_cast<double>(i % 20 + 1) / 21) << i;
}

}  // namespace
}  // namespace trireme
