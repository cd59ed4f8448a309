// Steps of mixtures of experts, recorded, simulated and searched.
#include <gmock/gmock.h>

#include <set>

#include "lib/ops/expert_rounds.hpp"
#include "lib/predict/prediction.hpp"
#include "lib/predict/recorder.hpp"
#include "lib/predict/search_bounds.hpp"
#include "lib/predict/search_text.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/machine.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

using testing::HasSubstr;

// 5 experts, of which the first block has none.
static PlanInput mixture(const Grid& grid, const std::string& backend = "host") {
  PlanInput in;
  in.setup.model = test::tiny_mixture();
  in.setup.model.max_context = 8;
  in.setup.balance = Balance::sample;
  in.setup.balance_weight = 0.1;
  in.setup.zero.stage = 3;
  in.train = {.batch = 2 * grid.data, .microbatch = 1, .steps = 1};
  in.grid = grid;
  in.evaluation = PlanEvaluation::left_out;
  in.transport = backend == "cuda" ? TransportKind::device : TransportKind::host;
  return in;
}

class MixtureOnMachine : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, MixtureOnMachine, testing::Values("host", "cuda"));

// Also where a rank has nothing left to send or to take in a round, and others have.
TEST_P(MixtureOnMachine, RecordingsHaveWhatThePlanCounts) {
  const auto machine = test::plain_machine(GetParam());
  const auto target = roomy_target(machine.backend == "host");
  for (const auto& grid : {Grid{1, 3, 1, 3}, Grid{2, 2, 2, 4}, Grid{1, 4, 2, 2}, Grid{1, 1, 4, 4}})
    for (const std::int64_t rows : {0, 3}) {
      auto in = mixture(grid, GetParam());
      in.setup.expert_tokens = rows;
      const auto kinds = record_kinds(in, target, machine);
      for (const auto& r : kinds) {
        const auto plan = plan_rank(in, target, r.rank);
        double flops = 0, sent = 0, to_experts = 0;
        for (const auto& a : r.actions)
          if (a.what == Action::What::compute)
            flops += r.workloads[static_cast<std::size_t>(a.index)].flops;
        for (const auto& t : r.transfers) {
          sent += t.bytes_out();
          if (axis_of(t.comm) == Axis::expert) to_experts += t.bytes_out();
        }
        EXPECT_DOUBLE_EQ(flops, plan.step_flops) << describe(grid) << " rank " << r.rank;
        EXPECT_EQ(sent, static_cast<double>(plan.step_traffic.all()));
        EXPECT_EQ(to_experts, static_cast<double>(plan.step_traffic.expert));
      }
      const auto s = simulate(machine, kinds);
      EXPECT_GT(lost_in(s).exposed[static_cast<std::size_t>(Axis::expert)], 0) << describe(grid);
    }
}

// The memory of a second round is planned; what it would compute and move is no part of a step.
TEST_P(MixtureOnMachine, APlansFurtherRoundTakesNoTime) {
  const auto machine = test::plain_machine(GetParam());
  const auto in = mixture({1, 2, 1, 2}, GetParam());
  const auto r = record_step(in, roomy_target(machine.backend == "host"), {4}, 0);
  const auto& m = in.setup.model;
  std::int64_t products = 0;
  for (const auto& a : r.actions)
    if (a.what == Action::What::compute)
      products += r.workloads[static_cast<std::size_t>(a.index)].name.starts_with("grouped");
  // Two products forward and two more backward, chunk by chunk, and two gradients.
  EXPECT_EQ(products,
            2 * (m.layers - 1) * (4 * ops::chunks_of_round(machine.backend == "host") + 2));
}

// The experts of some ranks freeze: those have another segment, which they gather alone.
TEST_P(MixtureOnMachine, RanksOfOtherSegmentsAreSimulated) {
  const auto machine = test::plain_machine(GetParam());
  const auto target = roomy_target(machine.backend == "host");
  auto in = mixture({1, 4, 1, 2}, GetParam());
  in.setup.freeze = {{.pattern = "blocks.1.experts.4.*"}};
  const auto kinds = record_kinds(in, target, machine);

  ASSERT_EQ(kinds.size(), 2U);
  const auto gathers = [](const Recording& r) {
    return std::ranges::count(r.transfers, Comm::expert_gather, &Transfer::comm);
  };
  EXPECT_LT(gathers(kinds[0]), gathers(kinds[1]));
  EXPECT_GT(simulate(machine, kinds).seconds, 0);
}

// Files of machines from before there were experts.
TEST_P(MixtureOnMachine, IsPredictedWithoutRatesOfItsOperations) {
  auto machine = test::plain_machine(GetParam());
  const auto target = roomy_target(machine.backend == "host");
  const auto in = mixture({1, 2, 1, 2}, GetParam());
  const auto seconds = simulate(machine, record_kinds(in, target, machine)).seconds;
  EXPECT_GT(seconds, 0);
  machine.operations = {{"route", DType::f32, {1e3}, {1}}};
  EXPECT_GT(simulate(machine, record_kinds(in, target, machine)).seconds, 8 * seconds);
}

static PlanInput searched(const std::string& backend) {
  auto in = mixture({1, 1, 1}, backend);
  auto& m = in.setup.model;
  m.layers = 4;
  m.max_context = 16;
  m.heads = m.kv_heads = 4;
  m.head_dim = 4;
  m.width = 16;
  m.dense_layers = {0, 2};
  in.train.batch = 8;
  return in;
}

TEST_P(MixtureOnMachine, SearchesFindWhatTryingAllFinds) {
  const auto machine = test::plain_machine(GetParam());
  const auto in = searched(GetParam());
  const auto target = roomy_target(machine.backend == "host");
  const auto quick = search(in, target, machine, 4, {});
  const auto all = search(in, target, machine, 4, {}, Bounds::try_all);

  ASSERT_EQ(quick.best.size(), all.best.size());
  for (std::size_t i = 0; i < all.best.size(); ++i)
    EXPECT_DOUBLE_EQ(quick.best[i].seconds, all.best[i].seconds) << i;
  EXPECT_LT(quick.simulated, all.simulated);
  EXPECT_THAT(search_text(quick, {}), HasSubstr(" parallel.expert="));
}

TEST_P(MixtureOnMachine, BoundsAreNeverAboveTheTruth) {
  auto machine = test::plain_machine(GetParam());
  machine.ranks_of_node = 2;
  machine.near.bandwidth = machine.far.bandwidth = 1e6;
  const auto in = searched(GetParam());
  const auto target = roomy_target(machine.backend == "host");
  SearchBounds bounds(in, target, machine);
  for (const auto& c : choices_of(in, 4, 8)) {
    const auto truth = simulate_choice(in, target, machine, c, microbatches_of(in, c));
    EXPECT_LE(bounds.seconds(c), truth.seconds * (1 + 1e-9)) << overrides_of(c);
    EXPECT_LE(bounds.bytes(c), static_cast<double>(truth.needed())) << overrides_of(c);
  }
}

TEST(MixtureChoices, ShareExpertsOutAsFarAsThereAre) {
  const auto in = mixture({1, 1, 1});
  std::set<int> ranks;
  for (const auto& c : choices_of(in, 8, 8)) {
    EXPECT_EQ(c.grid.places() % c.grid.expert, 0);
    EXPECT_TRUE(accepts(in, c));
    EXPECT_THAT(overrides_of(c), HasSubstr("parallel.expert="));
    ranks.insert(c.grid.expert);
  }
  EXPECT_EQ(ranks, (std::set{1, 2, 4}));
  auto dense = in;
  dense.setup.model = test::tiny_llama();
  dense.setup.model.max_context = 8;
  for (const auto& c : choices_of(dense, 8, 8)) {
    EXPECT_EQ(c.grid.expert, 1);
    EXPECT_THAT(overrides_of(c), testing::Not(HasSubstr("expert")));
  }
}

}  // namespace trireme
