#include "lib/io/mean_evaluation.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

TEST(MeanEvaluation, SetsCountByTheirWeights) {
  const auto mean = mean_of(std::vector<WeightedEvaluation>{{2, {8, 256, 1.5, std::exp(1.5)}},
                                                            {1, {8, 256, 3, std::exp(3.0)}}});
  EXPECT_EQ(mean.step, 8);
  EXPECT_EQ(mean.tokens, 256);
  EXPECT_DOUBLE_EQ(mean.loss, 2);  // (2 * 1.5 + 3) / 3
  EXPECT_DOUBLE_EQ(mean.perplexity, std::exp(2.0));
  EXPECT_FALSE(mean.preference);
  const auto one = mean_of(std::vector<WeightedEvaluation>{{0.1, {8, 256, 0.7, 2}}});
  EXPECT_DOUBLE_EQ(one.loss, 0.7);
}

TEST(MeanEvaluation, PairsHaveMeansOfTheirNumbersAndNoPerplexity) {
  const auto mean = mean_of(std::vector<WeightedEvaluation>{
      {1, {8, 256, 0.5, 0, PreferenceColumns{1, 0.5, 2, 4}}},
      {3, {8, 256, 0.1, 0, PreferenceColumns{2, 0.9, 6, std::nan("")}}}});
  EXPECT_DOUBLE_EQ(mean.loss, 0.2);
  EXPECT_EQ(mean.perplexity, 0);
  ASSERT_TRUE(mean.preference);
  EXPECT_DOUBLE_EQ(mean.preference->margin, 1.75);
  EXPECT_DOUBLE_EQ(mean.preference->accuracy, 0.8);
  EXPECT_DOUBLE_EQ(mean.preference->reward_chosen, 5);
  EXPECT_TRUE(std::isnan(mean.preference->reward_rejected));
}

TEST(MeanEvaluation, ALossThatIsNotFiniteHasNoFiniteMean) {
  const auto mean =
      mean_of(std::vector<WeightedEvaluation>{{1, {8, 256, std::nan(""), 0}}, {1, {8, 256, 1, 2}}});
  EXPECT_TRUE(std::isnan(mean.loss));
}

}  // namespace
}  // namespace trireme
