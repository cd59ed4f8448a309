#include "lib/run/schedule.hpp"

#include <gtest/gtest.h>

namespace trireme {

TEST(LearningRate, WarmsUpLinearly) {
  ScheduleConfig s;
  s.warmup_steps = 4;

  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 0, 100), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 3, 100), 1);
}

TEST(LearningRate, CosineEndsAtItsMinimum) {
  ScheduleConfig s{ScheduleShape::cosine, 10, 0.1, 0};

  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 10, 110), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 60, 110), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 110, 110), 0.1);
}

TEST(LearningRate, LinearHoldsItsMinimumAfterTheDecay) {
  ScheduleConfig s{ScheduleShape::linear, 0, 0.2, 50};

  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 25, 100), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 80, 100), 0.2);
}

TEST(LearningRate, StableUntilTheLastSteps) {
  ScheduleConfig s{ScheduleShape::wsd, 5, 0, 19};

  EXPECT_DOUBLE_EQ(learning_rate(s, 2, 80, 100), 2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, 81, 100), 1.9);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, 90, 100), 1);
  EXPECT_NEAR(learning_rate(s, 2, 99, 100), 0.1, 1e-15);
  s.decay_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, 89, 100), 2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, 90, 100), 2 * 10.0 / 11);
  EXPECT_NEAR(learning_rate(s, 2, 99, 100), 2 / 11.0, 1e-15);
}

TEST(LearningRate, ADecayOfOneStepLowersIt) {
  const ScheduleConfig wsd{ScheduleShape::wsd, 2, 0.1, 1};
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1, 98, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1, 99, 100), 0.55);
  for (const auto shape : {ScheduleShape::cosine, ScheduleShape::linear}) {
    const ScheduleConfig s{shape, 2, 0.1, 1};
    EXPECT_DOUBLE_EQ(learning_rate(s, 1, 2, 100), 1);
    EXPECT_DOUBLE_EQ(learning_rate(s, 1, 3, 100), 0.1);
  }
}

TEST(LearningRate, DecaysAfterWarmUpAlone) {
  const ScheduleConfig s{ScheduleShape::wsd, 61, 0, 80};

  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 59, 100), 60.0 / 61);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 60, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 70, 100), 0.75);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 100, 100), 0);
}

TEST(LearningRate, ConstantStaysThere) {
  ScheduleConfig s;
  s.shape = ScheduleShape::constant;

  EXPECT_DOUBLE_EQ(learning_rate(s, 3e-4, 12345, 100), 3e-4);
}

}  // namespace trireme
