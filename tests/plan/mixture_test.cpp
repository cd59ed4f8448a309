// Plans of mixtures of experts: which ranks are alike, and what is said of them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "lib/plan/rank_kinds.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

using testing::ElementsAre;
using testing::HasSubstr;

// 10 experts, of which 120 tokens of a microbatch choose one each.
static PlanInput on(const Grid& grid, int stage = 3) {
  PlanInput in;
  auto& m = in.setup.model;
  m = test::tiny_mixture();
  m.heads = m.kv_heads = 6;
  m.head_dim = 4;
  m.context = 120;
  m.experts = 10;
  m.experts_per_token = 1;
  in.setup.zero.stage = stage;
  in.setup.optimizer = test::adamw();
  in.grid = grid;
  in.train = {.batch = grid.data, .microbatch = 1, .steps = 1};
  in.evaluation = PlanEvaluation::left_out;
  return in;
}

TEST(RankKinds, HaveAsManyExperts) {
  const auto in = on({2, 3, 1, 3});
  const RankKinds kinds(in);

  EXPECT_THAT(kinds.ranks(), ElementsAre(0, 1, 3, 4));  // 4, 3 and 3 experts
  EXPECT_EQ(kinds.of(2), 1);
  EXPECT_EQ(kinds.of(5), 3);
  const auto plan = make_plan(in, roomy_target());
  EXPECT_EQ(plan.ranks[0].experts, 4);
  EXPECT_EQ(plan.ranks[1].experts, 3);
  EXPECT_GT(plan.ranks[0].reserved, plan.ranks[1].reserved);
  EXPECT_EQ(plan.most_reserved(), std::max(plan.ranks[0].reserved, plan.ranks[2].reserved));
}

// 6 heads over 4 ranks: 2, 1, 2, 1. 10 experts over 8: 2, 2, and then one each.
TEST(RankKinds, HaveOneShareOfTheHeadsAndOneOfTheExperts) {
  const RankKinds kinds(on({1, 4, 4, 8}));

  std::vector<int> all;
  for (int rank = 0; rank < 16; ++rank) all.push_back(kinds.of(rank));
  const auto plan = make_plan(on({1, 4, 4, 8}), roomy_target());
  EXPECT_EQ(plan.ranks.size(), kinds.ranks().size());
  for (std::size_t k = 0; k < kinds.ranks().size(); ++k) {
    EXPECT_EQ(kinds.of(kinds.ranks()[k]), static_cast<int>(k));
    const auto first = std::ranges::find(all, static_cast<int>(k)) - all.begin();
    EXPECT_EQ(kinds.ranks()[k], first);
  }
}

// The other of two ranks with five experts each has the one that is frozen.
TEST(RankKinds, DifferWherePatternsNameExperts) {
  auto in = on({1, 4, 1, 2});
  EXPECT_THAT(RankKinds(in).ranks(), ElementsAre(0));
  in.setup.freeze = {{.pattern = "embedding.*"}};
  EXPECT_THAT(RankKinds(in).ranks(), ElementsAre(0));
  in.setup.freeze = {{.pattern = "*.experts.7.*"}};
  EXPECT_THAT(RankKinds(in).ranks(), ElementsAre(0, 1));
}

// A rank's plan is that of the first of its kind.
TEST(RankKinds, AreAlike) {
  const auto target = roomy_target();
  for (const auto& grid : {Grid{1, 6, 1, 3}, Grid{2, 3, 2, 6}, Grid{1, 2, 4, 4}})
    for (const int stage : {0, 1, 3}) {
      const auto in = on(grid, stage);
      const RankKinds kinds(in);
      std::vector<RankPlan> plans;
      for (const int rank : kinds.ranks()) plans.push_back(plan_rank(in, target, rank));
      for (int rank = 0; rank < grid.ranks(); ++rank) {
        const auto plan = plan_rank(in, target, rank);
        const auto& of_kind = plans[static_cast<std::size_t>(kinds.of(rank))];
        EXPECT_EQ(plan.account.peak, of_kind.account.peak) << describe(grid) << " rank " << rank;
        EXPECT_EQ(plan.reserved, of_kind.reserved) << describe(grid) << " rank " << rank;
        EXPECT_EQ(plan.step_traffic, of_kind.step_traffic) << describe(grid) << " rank " << rank;
        EXPECT_DOUBLE_EQ(plan.step_flops, of_kind.step_flops);
      }
    }
}

// Ranks that have as many heads of the model may have more and fewer of its teacher's.
TEST(RankKinds, AreAlikeBesideATeacher) {
  const auto target = roomy_target();
  for (const auto& grid : {Grid{1, 1, 2}, Grid{2, 1, 2}, Grid{1, 1, 4}}) {
    auto in = on(grid);
    in.setup.model = test::tiny_llama();
    in.setup.model.heads = in.setup.model.kv_heads = 4;
    in.setup.model.context = 120;
    auto other = in.setup.model;
    other.heads = other.kv_heads = 3;
    in.setup.objective = Objective::distill;
    in.setup.teacher = TeacherSetup{.model = other};
    const RankKinds kinds(in);
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      const auto plan = plan_rank(in, target, rank);
      const auto first = static_cast<std::size_t>(kinds.of(rank));
      const auto of_kind = plan_rank(in, target, kinds.ranks()[first]);
      EXPECT_EQ(plan.account.peak, of_kind.account.peak) << describe(grid) << " rank " << rank;
      EXPECT_EQ(plan.step_traffic, of_kind.step_traffic) << describe(grid) << " rank " << rank;
      EXPECT_DOUBLE_EQ(plan.step_flops, of_kind.step_flops);
    }
  }
}

// Each element of weights and moments is written by one rank, a router's bias alone.
TEST(MixturePlan, RanksWriteTheStateOnce) {
  for (const auto& grid : {Grid{1, 1, 1}, Grid{1, 6, 1, 3}, Grid{2, 2, 2, 4}, Grid{1, 4, 2, 2}})
    for (const int stage : {0, 1, 3})
      for (const int shard : {0, 2}) {
        auto in = on(grid, stage);
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
  const auto in = on({1, 3, 1, 3});
  const auto plan = make_plan(in, roomy_target());
  const auto text = plan_text(plan, in, roomy_target());
  const auto spec = make_spec(in.setup.model);

  EXPECT_EQ(plan.parameters - plan.active_parameters,
            2 * 9 * 3 * in.setup.model.width * in.setup.model.expert_width);
  EXPECT_THAT(text, HasSubstr("M for a token), all trained"));
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
    auto in = on(grid);
    in.setup.schedule = schedule;
    return plan_text(make_plan(in, roomy_target()), in, roomy_target());
  };

  EXPECT_THAT(text_on({2, 2, 1, 2}, ScheduleKind::zero_bubble), says_so);
  EXPECT_THAT(text_on({2, 2, 1, 2}, ScheduleKind::one_f_one_b), testing::Not(says_so));
  EXPECT_THAT(text_on({2, 2, 1, 1}, ScheduleKind::zero_bubble), testing::Not(says_so));
}

TEST(MixturePlan, OfADenseModelSaysNothingOfExperts) {
  PlanInput in = on({1, 2, 1});
  in.setup.model = test::tiny_llama();
  in.setup.model.context = 8;
  EXPECT_THAT(plan_text(make_plan(in, roomy_target()), in, roomy_target()),
              testing::Not(HasSubstr("expert")));
}

// Stages of as many blocks, of which one has the mixtures.
TEST(MixturePlan, DenseBlocksHoldLess) {
  auto in = on({4, 1, 1});
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
