#include "lib/run/stalled_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(StalledTraining, ALossOfUniformProbabilitiesWithoutAGradientIsReportedOnce) {
  const double uniform = std::log(256.0);
  StalledTraining watch(uniform);
  EXPECT_THAT(watch.after({uniform, 1, 1e-3}), IsEmpty());  // the first step of a new model
  StalledTraining dead(uniform);
  EXPECT_THAT(dead.after({5.54518, 0, 1e3}),
              ElementsAre(HasSubstr("the same probability (loss 5.5452 = ln(model.vocab))")));
  for (int i = 0; i < 100; ++i) EXPECT_THAT(dead.after({uniform, 0, 1e3}), IsEmpty());
}

TEST(StalledTraining, PairsHaveNoUniformLoss) {
  StalledTraining watch(0);
  EXPECT_THAT(watch.after({0, 0, 1e-3}), IsEmpty());
}

TEST(StalledTraining, ANormThatCollapsesIsReportedOnce) {
  StalledTraining watch(10);
  EXPECT_THAT(watch.after({5, 2, 1e-3}), IsEmpty());
  EXPECT_THAT(watch.after({4.9, 1e9, 1e-3}), IsEmpty()) << "a spike";
  for (int i = 0; i < 20; ++i) EXPECT_THAT(watch.after({4 + 0.1 * i, 1, 1e-3}), IsEmpty());
  EXPECT_THAT(watch.after({3, 1e-5, 1e-3}), IsEmpty());
  EXPECT_THAT(watch.after({2, 1e-7, 1e-3}), ElementsAre(HasSubstr("the gradient norm fell from")));
  EXPECT_THAT(watch.after({1, 0, 1e-3}), IsEmpty());
}

TEST(StalledTraining, ALossThatDoesNotMoveIsReportedOnceUnlessNothingIsToBeLearned) {
  StalledTraining warmup(10), watch(10), moves(10);
  for (int i = 0; i < 2 * StalledTraining::patience; ++i) {
    EXPECT_THAT(warmup.after({5, 1, 0}), IsEmpty());
    EXPECT_THAT(moves.after({5 + 1e-5 * i, 1, 1e-3}), IsEmpty());
  }
  for (int i = 0; i < StalledTraining::patience; ++i)
    EXPECT_THAT(watch.after({5, 1, 1e-3}), IsEmpty());
  EXPECT_THAT(watch.after({5, 1, 1e-3}), ElementsAre(HasSubstr("has been 5 for 50 steps")));
  for (int i = 0; i < 2 * StalledTraining::patience; ++i)
    EXPECT_THAT(watch.after({5, 1, 1e-3}), IsEmpty());
}

}  // namespace
}  // namespace trireme
