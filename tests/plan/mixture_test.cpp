// Plans of mixtures of experts: what is said of them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/plan/ten_experts.hpp"
#include "tests/support/dry.hpp"

namespace trireme {

using testing::HasSubstr;

// Each element of weights and moments is written by one rank, a router's bias alone.
TEST(MixturePlan, RanksWriteTheStateOnce) {
  for (const auto& grid : {Grid{1, 1, 1}, Grid{1, 6, 1, 3}, Grid{2, 2, 2, 4}, Grid{1, 4, 2, 2}})
    for (const int stage : {0, 1, 3})
      for (const int shard : {0, 2}) {
        auto in = test::ten_experts_on(grid, stage);
        in.setup.model.router = RouterScores::sigmoid;
        if (grid.places() % 2 == 0 && stage > 0) in.setup.zero.shard = shard;
        if (shard_ranks(in.setup.zero, grid) % grid.expert != 0 &&
            grid.expert % shard_ranks(in.setup.zero, grid) != 0)
          continue;
        double written = 0, whole = 0;
        for (int rank = 0; rank < grid.ranks(); ++rank)
          written += plan_rank(in, roomy_target(), rank).checkpoint_bytes;
        for (const auto& p : make_spec(in.setup.model).params)
          whole += static_cast<double>(p.shape.count()) *
                   (p.learns_from == LearnsFrom::loads ? 4 : 3 * 4);

        EXPECT_EQ(written, whole) << describe(grid) << " zero.stage " << stage << " " << shard;
      }
}

TEST(MixturePlan, SaysWhatATokenUsesAndWhatGoesToExperts) {
  const auto in = test::ten_experts_on({1, 3, 1, 3});
  const auto plan = make_plan(in, roomy_target());
  const auto text = plan_text(plan, in, roomy_target());
  const auto spec = make_spec(in.setup.model);

  EXPECT_EQ(plan.parameters - plan.active_parameters,
            2 * 9 * 3 * in.setup.model.width * in.setup.model.expert_width);
  EXPECT_THAT(text, HasSubstr("M active per token), all trained"));
  EXPECT_THAT(text, HasSubstr("with experts over 3"));
  EXPECT_THAT(text, HasSubstr("evenly loaded experts"));
  EXPECT_THAT(text, HasSubstr("\nexperts "));
  EXPECT_THAT(text, HasSubstr("\n  to experts "));
  const auto json = nlohmann::json::parse(plan_json(plan, in, roomy_target()));
  EXPECT_EQ(json["grid"]["expert"], 3);
  EXPECT_EQ(json["active_parameters"], spec.active_parameter_count());
  EXPECT_EQ(json["ranks"][0]["experts"], 4);
  EXPECT_EQ(json["ranks"][1]["expert"], 1);
  EXPECT_GT(json["ranks"][0]["sent_bytes_a_step"]["expert"], 0);
}

TEST(MixturePlan, SaysWhereUnevenLoadsTakeMoreMemory) {
  const auto says_so = HasSubstr("uneven loads may take more");
  const auto text_on = [](const Grid& grid, ScheduleKind schedule) {
    auto in = test::ten_experts_on(grid);
    in.setup.schedule = schedule;
    return plan_text(make_plan(in, roomy_target()), in, roomy_target());
  };

  EXPECT_THAT(text_on({2, 2, 1, 2}, ScheduleKind::zero_bubble), says_so);
  EXPECT_THAT(text_on({2, 2, 1, 2}, ScheduleKind::one_f_one_b), testing::Not(says_so));
  EXPECT_THAT(text_on({2, 2, 1, 1}, ScheduleKind::zero_bubble), testing::Not(says_so));
}

TEST(MixturePlan, OfADenseModelSaysNothingOfExperts) {
  PlanInput in = test::ten_experts_on({1, 2, 1});
  in.setup.model = test::tiny_llama();
  in.setup.model.max_context = 8;
  EXPECT_THAT(plan_text(make_plan(in, roomy_target()), in, roomy_target()),
              testing::Not(HasSubstr("expert")));
}

// Stages of as many blocks, of which one has the mixtures.
TEST(MixturePlan, DenseBlocksHoldLess) {
  auto in = test::ten_experts_on({4, 1, 1});
  in.setup.model.layers = 8;
  in.setup.model.dense_layers = {0, 1, 2, 3, 6, 7};
  in.setup.model.expert_width = 200;
  in.setup.stage_layers = {2, 2, 2, 2};
  in.train.batch = 4;
  const auto target = roomy_target();
  const auto plan = make_plan(in, target);

  EXPECT_EQ(plan.most_reserved(), plan.ranks[2].reserved);
  EXPECT_EQ(needed_within(in, target, SIZE_MAX), plan.most_reserved());
}

}  // namespace trireme
