#include "lib/io/best_evaluations.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

using Steps = std::vector<std::int64_t>;

const std::vector<EvaluationRow> losses = {
    {.step = 10, .loss = 3},
    {.step = 20, .loss = std::nan("")},
    {.step = 30, .loss = 2.5},
    {.step = 40, .loss = 2.5},
    {.step = 50, .loss = -std::numeric_limits<double>::infinity()},
    {.step = 60, .loss = 2.75}};

TEST(BestEvaluations, TheLowestLossIsFirstAndOfEqualOnesTheEarlier) {
  EXPECT_EQ(best_first(losses, BestBy::loss), (Steps{30, 40, 60, 10}));
  EXPECT_TRUE(best_first(losses, BestBy::margin).empty());
}

TEST(BestEvaluations, TheHighestAccuracyOrMarginIsFirst) {
  std::vector<EvaluationRow> rows;
  for (const auto& [step, margin, accuracy] :
       {std::tuple(1, 0.5, 0.9), std::tuple(2, 0.75, 0.25), std::tuple(3, -1.0, 0.5)})
    rows.push_back(
        {.step = step, .preference = PreferenceColumns{.margin = margin, .accuracy = accuracy}});
  EXPECT_EQ(best_first(rows, BestBy::accuracy), (Steps{1, 3, 2}));
  EXPECT_EQ(best_first(rows, BestBy::margin), (Steps{2, 1, 3}));
}

TEST(BestEvaluations, OneThatOnlyEqualsTheBestDoesNotImprove) {
  EXPECT_EQ(evaluations_since_best(losses, BestBy::loss), 2);
  EXPECT_EQ(evaluations_since_best({}, BestBy::loss), 0);
  EXPECT_EQ(evaluations_since_best(std::span(losses).first(1), BestBy::loss), 0);
}

// They say nothing of progress: a loss that is not finite, and rows of another objective.
TEST(BestEvaluations, OnesWithoutTheMetricDoNotCount) {
  EXPECT_EQ(evaluations_since_best(std::span(losses).first(2), BestBy::loss), 0);
  EXPECT_EQ(evaluations_since_best(losses, BestBy::margin), 0);
}

TEST(BestEvaluations, RowsThatWereDueAndAreMissingAreFound) {
  const Steps steps{5, 10, 20, 25, 50, 70, 80};
  EXPECT_EQ(without_row(steps, losses, 10), (Steps{70, 80}));
  EXPECT_EQ(without_row(steps, losses, 5), (Steps{5, 25, 70, 80}));
  EXPECT_TRUE(without_row(steps, losses, 0).empty());
}

}  // namespace
}  // namespace trireme
