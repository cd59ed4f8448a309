// What a rank takes and sends does not grow with the job, but at most as the groups that it belongs
// to: by plans, which equal runs to the byte.
#include <gtest/gtest.h>

#include "lib/plan/plan.hpp"
#include "tests/support/dry.hpp"

namespace trireme {

static PlanInput on(Grid grid, std::int64_t shard) {
  PlanInput in;
  // Wide: what fills segments up to equal shards is next to nothing.
  ModelConfig model;
  model.layers = 8;
  model.width = 512;
  model.heads = 4;
  model.vocab = 512;
  model.max_context = 8;
  in.setup.model = completed(model);
  in.setup.zero.stage = 3;
  in.setup.zero.shard = shard;
  in.train = {.batch = std::int64_t{4} * grid.data, .microbatch = 1, .steps = 1};
  in.grid = grid;
  in.evaluation = PlanEvaluation::left_out;
  return in;
}

static RankPlan plan_of(Grid grid, std::int64_t shard) {
  return plan_rank(on(grid, shard), roomy_target(), 0);
}

// Of 2 copies or of 16: replicas are summed in slices, each of which travels twice.
TEST(Growth, IsNoneWhereGroupsStayAsTheyAre) {
  const auto few = plan_of({2, 8, 2}, 8), many = plan_of({2, 64, 2}, 8);
  const auto hardly_more = [](auto a, auto b) {
    return static_cast<double>(a) <= 1.02 * static_cast<double>(b);
  };
  EXPECT_EQ(many.step_traffic.seq, few.step_traffic.seq);
  EXPECT_TRUE(hardly_more(many.step_traffic.pipe, few.step_traffic.pipe));
  EXPECT_TRUE(hardly_more(many.reserved, few.reserved));
  // (copies - 1) / copies of a shard, twice, beside gathers and sums within a copy.
  EXPECT_LE(many.step_traffic.shard, 2 * few.step_traffic.shard);
}

// Each rank that a group has more costs as many messages, whatever the size of the group.
TEST(Growth, OfMessagesIsThatOfTheGroups) {
  std::vector<std::int64_t> messages, of_another;
  for (int data = 4; data <= 256; data *= 2) {
    messages.push_back(plan_of({2, data, 2}, 0).step_messages);
    const std::int64_t added = data;  // to the group of the shards since the one before
    if (messages.size() > 1) of_another.push_back((messages.back() - messages.end()[-2]) / added);
  }
  for (const auto each : of_another) EXPECT_EQ(each, of_another[0]);
  EXPECT_GT(of_another[0], 0);
}

}  // namespace trireme
