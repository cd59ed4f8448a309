#include "lib/pipe/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "lib/base/error.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> largest_first(const std::vector<std::int64_t>& layers, const PartCosts& costs) {
  auto sorted = stage_costs(layers, costs);
  std::ranges::sort(sorted, std::greater<>());
  return sorted;
}

// All ways to give each of the stages after `given` at least one block.
void try_all(std::vector<std::int64_t>& given, std::int64_t left, int stages,
             const std::function<void()>& look) {
  if (stages == 1) {
    given.push_back(left);
    look();
    given.pop_back();
    return;
  }
  for (std::int64_t n = 1; n <= left - stages + 1; ++n) {
    given.push_back(n);
    try_all(given, left - n, stages - 1, look);
    given.pop_back();
  }
}

}  // namespace

TEST(Partition, EqualBlocksAndTheRestAtTheEnd) {
  EXPECT_THAT(partition(12, {.stages = 1}, {}), ElementsAre(12));
  EXPECT_THAT(partition(12, {.stages = 4}, {}), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(partition(10, {.stages = 4}, {}), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(partition(4, {.stages = 4}, {}), ElementsAre(1, 1, 1, 1));
}

TEST(Partition, EmbeddingAndHeadCountAsBlocks) {
  EXPECT_THAT(partition(10, {.stages = 4}, {.block = 1, .embedding = 0, .head = 2}),
              ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(partition(12, {.stages = 4}, {.block = 1, .embedding = 1, .head = 3}),
              ElementsAre(3, 4, 4, 1));
  // A head dearer than everything else leaves its stage one block, and the rest stays even.
  EXPECT_THAT(partition(9, {.stages = 3}, {.block = 1, .embedding = 0, .head = 100}),
              ElementsAre(4, 4, 1));
}

TEST(Partition, NoOtherHasASmallerLargestStage) {
  const std::vector<PartCosts> all = {{1, 0, 0},   {1, 0, 2.5}, {3, 1, 7},
                                      {2, 9, 0.5}, {1, 50, 60}, {0.7, 0.1, 3.3}};
  int looked = 0;
  for (const auto& costs : all) {
    for (int stages = 1; stages <= 5; ++stages) {
      for (std::int64_t layers = stages; layers <= 14; ++layers) {
        const auto mine = partition(layers, {.stages = stages}, costs);
        ASSERT_EQ(std::accumulate(mine.begin(), mine.end(), std::int64_t{0}), layers);
        ASSERT_GE(*std::ranges::min_element(mine), 1);
        const auto best = largest_first(mine, costs);
        std::vector<std::int64_t> other;
        try_all(other, layers, stages, [&] {
          ++looked;
          ASSERT_LE(best, largest_first(other, costs)) << testing::PrintToString(other);
        });
      }
    }
  }
  EXPECT_GT(looked, 10000);
}

// Costs of stages with all their chunks; v is numbered down the model.
std::vector<double> largest_first(const std::vector<double>& of_v, int stages, bool folded) {
  std::vector<double> sorted(static_cast<std::size_t>(stages), 0);
  for (std::size_t v = 0; v < of_v.size(); ++v) {
    const auto round = v / sorted.size(), at = v % sorted.size();
    sorted[folded && round % 2 == 1 ? sorted.size() - 1 - at : at] += of_v[v];
  }
  std::ranges::sort(sorted, std::greater<>());
  return sorted;
}

TEST(Partition, ChunksOfAStageAreOneCost) {
  int looked = 0;
  for (const auto schedule : {ScheduleKind::interleaved, ScheduleKind::zbv})
    for (const PartCosts& costs : {PartCosts{1, 0, 0}, PartCosts{2, 1, 5}, PartCosts{1, 0, 9}})
      for (int stages = 2; stages <= 3; ++stages)
        for (std::int64_t layers = 2 * stages; layers <= 11; ++layers) {
          const bool folded = schedule == ScheduleKind::zbv;
          const auto of = [&](const std::vector<std::int64_t>& blocks) {
            return largest_first(stage_costs(blocks, costs), stages, folded);
          };
          const auto mine = partition(layers, {schedule, stages, 2}, costs);
          ASSERT_EQ(std::accumulate(mine.begin(), mine.end(), std::int64_t{0}), layers);
          ASSERT_GE(*std::ranges::min_element(mine), 1);
          std::vector<std::int64_t> other;
          try_all(other, layers, 2 * stages, [&] {
            ++looked;
            ASSERT_LE(of(mine), of(other)) << testing::PrintToString(other);
          });
        }
  EXPECT_GT(looked, 1000);
  // A head of five blocks on the first stage of a fold: what is left is even.
  EXPECT_THAT(partition(12, {ScheduleKind::zbv, 3, 2}, {1, 0, 5}), ElementsAre(1, 2, 2, 3, 3, 1));
}

TEST(Partition, MoreStagesThanLayers) {
  EXPECT_EQ(message_of([] { partition(3, {.stages = 4}, {}); }),
            "4 stages cannot share 3 blocks, because each needs at least one: lower parallel.pipe");
}

TEST(Partition, TakesWhatTheDeckGivesOrSaysWhyNot) {
  EXPECT_THAT(choose_stage_layers({}, 5, {.stages = 2}, {}), ElementsAre(2, 3));
  EXPECT_THAT(choose_stage_layers({4, 1}, 5, {.stages = 2}, {}), ElementsAre(4, 1));
  EXPECT_THROW(choose_stage_layers({4, 2}, 5, {.stages = 2}, {}), Error);
  EXPECT_EQ(stage_layers_fault({4, 1}, 5, 2), "");
  EXPECT_THAT(stage_layers_fault({4, 1}, 5, 3), HasSubstr("has 2 entries, but parallel.pipe is 3"));
  EXPECT_THAT(stage_layers_fault({5, 0}, 5, 2), HasSubstr("gives stage 1 0 blocks"));
  EXPECT_THAT(stage_layers_fault({4, 2}, 5, 2), HasSubstr("adds up to 6 blocks"));
}

}  // namespace trireme
