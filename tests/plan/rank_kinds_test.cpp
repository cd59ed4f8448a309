#include "lib/plan/rank_kinds.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/open/open.hpp"
#include "tests/plan/ten_experts.hpp"
#include "tests/support/dry.hpp"

namespace trireme {

using testing::ElementsAre;

// 6 query and 2 key/value heads over 4 ranks: 1, 2, 1 and 2 query heads, all of one key/value head.
TEST(RankKinds, HaveOneShareOfTheHeads) {
  PlanInput input;
  input.setup.model = test::tiny_llama();
  input.setup.model.max_context = 8;
  input.train.batch = 2;
  input.train.microbatch = 1;
  const auto planned = [&](int pipe, int seq) {
    input.grid = {.pipe = pipe, .data = 1, .seq = seq};
    std::vector<int> ranks;
    for (const auto& r : make_plan(input, dry_target({"host", 1, false})).ranks)
      ranks.push_back(r.rank);
    return ranks;
  };
  EXPECT_EQ(planned(1, 2), (std::vector<int>{0}));
  EXPECT_EQ(planned(1, 4), (std::vector<int>{0, 1}));
  EXPECT_EQ(planned(2, 4), (std::vector<int>{0, 1, 4, 5}));
}

TEST(RankKinds, HaveAsManyExperts) {
  const auto in = test::ten_experts_on({2, 3, 1, 3});
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
  const RankKinds kinds(test::ten_experts_on({1, 4, 4, 8}));

  std::vector<int> all;
  for (int rank = 0; rank < 16; ++rank) all.push_back(kinds.of(rank));
  const auto plan = make_plan(test::ten_experts_on({1, 4, 4, 8}), roomy_target());
  EXPECT_EQ(plan.ranks.size(), kinds.ranks().size());
  for (std::size_t k = 0; k < kinds.ranks().size(); ++k) {
    EXPECT_EQ(kinds.of(kinds.ranks()[k]), static_cast<int>(k));
    const auto first = std::ranges::find(all, static_cast<int>(k)) - all.begin();
    EXPECT_EQ(kinds.ranks()[k], first);
  }
}

// The other of two ranks with five experts each has the one that is frozen.
TEST(RankKinds, DifferWherePatternsNameExperts) {
  auto in = test::ten_experts_on({1, 4, 1, 2});
  EXPECT_THAT(RankKinds(in).ranks(), ElementsAre(0));
  in.setup.freeze = {{.pattern = "embedding.*"}};
  EXPECT_THAT(RankKinds(in).ranks(), ElementsAre(0));
  in.setup.freeze = {{.pattern = "*.experts.7.*"}};
  EXPECT_THAT(RankKinds(in).ranks(), ElementsAre(0, 1));
  in.setup.freeze = {};
  in.setup.optimizer.name = OptimizerKind::muon;
  in.setup.optimizer.adamw_patterns = {"*.experts.7.*"};
  EXPECT_THAT(RankKinds(in).ranks(), ElementsAre(0, 1));
}

// A rank's plan is that of the first of its kind, also where padding leaves it less of the weights;
// what only some replicas write, and so copy for checkpoints, is the first's, too.
TEST(RankKinds, AreAlike) {
  const auto target = roomy_target();
  for (const auto& grid : {Grid{1, 6, 1, 3}, Grid{2, 3, 2, 6}, Grid{1, 2, 4, 4}})
    for (const int stage : {0, 1, 3})
      for (const auto copy : {PlanSnapshot::left_out, PlanSnapshot::included}) {
        auto in = test::ten_experts_on(grid, stage);
        in.snapshot = copy;
        in.setup.model.router = RouterScores::sigmoid;  // whose biases are few
        const RankKinds kinds(in);
        std::vector<RankPlan> plans;
        for (const int rank : kinds.ranks()) plans.push_back(plan_rank(in, target, rank));
        for (int rank = 0; rank < grid.ranks(); ++rank) {
          SCOPED_TRACE(fmt::format("{} zero.stage {} rank {}", describe(grid), stage, rank));
          const auto plan = plan_rank(in, target, rank);
          const auto& of_kind = plans[static_cast<std::size_t>(kinds.of(rank))];
          EXPECT_LE(plan.reserved, of_kind.reserved);
          if (copy == PlanSnapshot::left_out || stage > 0) {
            EXPECT_EQ(plan.account.peak, of_kind.account.peak);
            EXPECT_EQ(plan.reserved, of_kind.reserved);
          }
          EXPECT_EQ(plan.step_traffic, of_kind.step_traffic);
          EXPECT_DOUBLE_EQ(plan.step_flops, of_kind.step_flops);
        }
      }
}

// Whatever trains, is kept, is written by a rank, or is summed in counts.
TEST(RankKinds, ReserveAsTheFirst) {
  auto target = roomy_target();
  target.properties.invariant = true;
  auto tied = test::tiny_gpt2();
  tied.width = 20;
  tied.heads = 2;
  const AdapterConfig adapted{.rank = 3, .alpha = 6};
  auto narrow = adapted;
  narrow.base = BaseType::nf4;
  for (const auto& [name, model, adapter, exact_chunk] :
       {std::tuple("tied", tied, AdapterConfig(), 0),
        {"adapted", test::tiny_llama(), adapted, 0},
        {"nf4", test::tiny_llama(), narrow, 0},
        {"invariant", test::tiny_qwen(), AdapterConfig(), 1}})
    for (const auto& grid : {Grid{1, 5, 1}, Grid{2, 3, 1}, Grid{1, 1, 7}})
      for (const int stage : {0, 3})
        for (const int shard : {0, 1}) {
          PlanInput in;
          in.setup.model = model;
          in.setup.adapter = adapter;
          in.setup.zero.stage = stage;
          in.setup.zero.shard = shard;
          in.setup.exact_chunk = exact_chunk;
          in.setup.optimizer = test::adamw();
          in.setup.freeze = {{"blocks.0.*", 1, 3}};
          in.grid = grid;
          in.train = {.batch = grid.data, .microbatch = 1, .steps = 4};
          in.snapshot = PlanSnapshot::included;
          const RankKinds kinds(in);
          std::vector<RankPlan> plans;
          for (const int rank : kinds.ranks()) plans.push_back(plan_rank(in, target, rank));
          for (int rank = 0; rank < grid.ranks(); ++rank) {
            SCOPED_TRACE(fmt::format("{} {} zero.stage {} shard {} rank {}", name, describe(grid),
                                     stage, shard, rank));
            const auto plan = plan_rank(in, target, rank);
            const auto& of_kind = plans[static_cast<std::size_t>(kinds.of(rank))];
            EXPECT_LE(plan.reserved, of_kind.reserved);
            EXPECT_LE(plan.checkpoint_bytes, of_kind.checkpoint_bytes);
            if (plan.checkpoint_bytes > 0) {
              EXPECT_EQ(plan.reserved, of_kind.reserved);
            }
          }
        }
}

// Owners of matrices differ, but not by more FLOPs than the largest matrix takes. Their memory is
// equal.
TEST(RankKinds, OfMatricesDifferByAMatrix) {
  const auto target = roomy_target();
  for (const auto optimizer : {OptimizerKind::muon, OptimizerKind::shampoo})
    for (const auto& grid : {Grid{1, 6, 1, 3}, Grid{2, 3, 2, 6}, Grid{1, 7, 1}}) {
      auto in = test::ten_experts_on(grid);
      in.setup.optimizer.name = optimizer;
      in.setup.optimizer.adamw_patterns = {"embedding.*", "*.qkv.weight"};
      const RankKinds kinds(in);
      // Of q, k and v of all heads, say: none has more rows and columns than the model's width or
      // its hidden width.
      const auto& m = in.setup.model;
      const auto most = static_cast<double>(std::max({m.width, m.ffn_width, m.heads * m.head_dim}));
      const double largest = optimizer == OptimizerKind::muon
                                 ? 5 * 6 * most * most * most
                                 : std::numeric_limits<double>::infinity();
      for (int rank = 0; rank < grid.ranks(); ++rank) {
        SCOPED_TRACE(fmt::format("{} rank {}", describe(grid), rank));
        const auto plan = plan_rank(in, target, rank);
        const auto first = kinds.ranks()[static_cast<std::size_t>(kinds.of(rank))];
        const auto of_kind = plan_rank(in, target, first);
        EXPECT_EQ(plan.account.peak, of_kind.account.peak);
        EXPECT_LE(plan.reserved, of_kind.reserved);
        EXPECT_LE(plan.checkpoint_bytes, of_kind.checkpoint_bytes);
        EXPECT_LE(std::fabs(plan.step_flops - of_kind.step_flops), largest);
        EXPECT_EQ(plan.step_traffic.seq, of_kind.step_traffic.seq);
      }
    }
}

// Ranks that have as many heads of the model may have more and fewer of its teacher's.
TEST(RankKinds, AreAlikeBesideATeacher) {
  const auto target = roomy_target();
  for (const auto& grid : {Grid{1, 1, 2}, Grid{2, 1, 2}, Grid{1, 1, 4}}) {
    auto in = test::ten_experts_on(grid);
    in.setup.model = test::tiny_llama();
    in.setup.model.heads = in.setup.model.kv_heads = 4;
    in.setup.model.max_context = 120;
    auto other = in.setup.model;
    other.heads = other.kv_heads = 3;
    in.setup.objective = TeacherSetup{.model = other};
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

}  // namespace trireme
