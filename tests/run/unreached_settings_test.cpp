#include "lib/run/unreached_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t tokens_of_sample = 10;

TrainConfig a_hundred_steps() {
  TrainConfig t;
  t.batch = 8;
  t.steps = 100;
  return t;
}
std::vector<std::string> unreached_in(const TrainConfig& t, const ScheduleConfig& s = {},
                                      RunPoint begin = {}) {
  return unreached_settings(t, s, tokens_of_sample, begin);
}
ScheduleConfig wsd_with(std::vector<std::int64_t> ends, std::int64_t length = 0) {
  ScheduleConfig s;
  s.shape = ScheduleShape::wsd;
  s.warmup_steps = 5;
  s.decay_steps = length;
  s.decay_end_steps = std::move(ends);
  return s;
}

TEST(UnreachedSettings, APlainRunHasNone) {
  EXPECT_THAT(unreached_in(a_hundred_steps()), IsEmpty());
}

TEST(UnreachedSettings, ARampThatLastsLongerThanTheRun) {
  auto t = a_hundred_steps();
  t.batch_ramp = {"2 until 50 steps", "4 until 99 steps"};
  EXPECT_THAT(unreached_in(t), IsEmpty());
  t.batch_ramp.back() = "4 until 100 steps";
  EXPECT_THAT(unreached_in(t), ElementsAre(AllOf(HasSubstr("\"4 until 100 steps\""),
                                                 HasSubstr("no step has train.batch = 8 samples"),
                                                 HasSubstr("Lower the ends of train.batch_ramp"))));
  // 99 steps of 40 tokens: the 100th step is the first after the ramp, or is not.
  t.batch_ramp = {"4 until 3960 tokens"};
  EXPECT_THAT(unreached_in(t), IsEmpty());
  t.batch_ramp = {"4 until 3961 tokens"};
  EXPECT_THAT(unreached_in(t), ElementsAre(HasSubstr("after 100 steps and 4000 tokens")));
  // A run that continues after many tokens is beyond the ramp.
  EXPECT_THAT(unreached_in(t, {}, {.steps = 20, .tokens = 4000}), IsEmpty());
}

TEST(UnreachedSettings, AWindowThatTheRunDoesNotFill) {
  auto t = a_hundred_steps();
  t.skip_above = 6;
  t.skip_window = 198;
  EXPECT_THAT(unreached_in(t), IsEmpty());
  t.skip_window = 199;
  EXPECT_THAT(unreached_in(t),
              ElementsAre("train.skip_above = 6 skips no step: it needs the numbers of 100 steps "
                          "first (half of train.skip_window = 199), and the run has no more. Lower "
                          "train.skip_window, or train longer"));
  t.skip_window = 300;
  EXPECT_THAT(unreached_in(t), ElementsAre(HasSubstr("and the run has only 100.")));
  t.skip_window = 199;
  t.skip_above = 0;
  EXPECT_THAT(unreached_in(t), IsEmpty());
}

TEST(UnreachedSettings, SkippedStepsAfterTheLast) {
  auto t = a_hundred_steps();
  t.skip_steps = {"100", "90-120"};
  EXPECT_THAT(unreached_in(t), IsEmpty());
  t.skip_steps = {"7", "101", "200-210"};
  EXPECT_THAT(unreached_in(t),
              ElementsAre("train.skip_steps contains \"101\" and \"200-210\", but the run "
                          "has only 100 steps, counted from 1: remove them, or train "
                          "longer"));
}

TEST(UnreachedSettings, DecaysWithoutRoom) {
  const auto t = a_hundred_steps();
  EXPECT_THAT(unreached_in(t, wsd_with({40, 60}, 20)), IsEmpty());
  EXPECT_THAT(
      unreached_in(t, wsd_with({40, 59}, 20)),
      ElementsAre(AllOf(HasSubstr("schedule.decay_end_steps: the decay before 59 lasts only "
                                  "19 steps, because the decay before ends at 40"),
                        HasSubstr("ends at 40. It should last 20 steps (schedule.decay_steps). "
                                  "Move the points apart, or lower schedule.decay_steps"))));
  EXPECT_THAT(
      unreached_in(t, wsd_with({24}, 20)),
      ElementsAre(HasSubstr("before 24 lasts only 19 steps, because the warmup ends at 5")));
  EXPECT_THAT(unreached_in(t, wsd_with({81}, 20)),
              ElementsAre(HasSubstr("before the end of the run lasts only 19 steps")));
  // Points after the run have another warning, and a decay of its own has no other.
  EXPECT_THAT(unreached_in(t, wsd_with({100, 101}, 99)), IsEmpty());
  // Without a length, a tenth of the run up to the point.
  EXPECT_THAT(unreached_in(t, wsd_with({50, 55})), IsEmpty());
  EXPECT_THAT(unreached_in(t, wsd_with({50, 54})),
              ElementsAre(HasSubstr("It should last 5 steps (a tenth of the run up to this "
                                    "point). Move the points apart, or set schedule.decay_steps")));
}

TEST(UnreachedSettings, TwoDecaysInAStep) {
  ScheduleConfig s;
  s.shape = ScheduleShape::wsd;
  s.decay_tokens = 10;
  s.decay_end_tokens = {4010, 4070};  // a step has 80 tokens
  EXPECT_THAT(unreached_in(a_hundred_steps(), s),
              ElementsAre(HasSubstr("schedule.decay_end_tokens: the same step reaches 4010 and "
                                    "4070")));
  s.decay_end_tokens = {4010, 4090};
  EXPECT_THAT(unreached_in(a_hundred_steps(), s), IsEmpty());
}

TEST(UnreachedSettings, AnAverageOfMoreThanAQuarterOfTheRun) {
  auto t = a_hundred_steps();
  t.ema = 0.96;  // 25 of 100 steps
  EXPECT_THAT(unreached_in(t), IsEmpty());
  t.ema = 0.97;
  EXPECT_THAT(unreached_in(t),
              ElementsAre("train.ema = 0.97 averages over about 33 steps, but the run has "
                          "100 steps: at its end, the first weights are 4.76% of the "
                          "average. Lower train.ema to 0.96 or less, or train longer"));
  // What is advised is enough.
  for (const std::int64_t steps : {5, 7, 30, 1000, 3000}) {
    t.steps = steps;
    t.ema = 0.9999;
    const auto texts = unreached_in(t);
    ASSERT_EQ(texts.size(), 1U);
    t.ema = std::stod(texts[0].substr(texts[0].find("train.ema to ") + 13));
    EXPECT_GT(t.ema, 0);
    EXPECT_THAT(unreached_in(t), IsEmpty()) << steps;
  }
  t.steps = 3;
  t.ema = 0.9;
  EXPECT_THAT(unreached_in(t), ElementsAre(HasSubstr("Set train.ema = 0")));
}

}  // namespace
}  // namespace trireme
