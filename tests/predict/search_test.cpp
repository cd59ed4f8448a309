// What bounds leave out is nothing that would be among the fastest.
#include "lib/predict/search_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/predict/search_bounds.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/machine.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

static PlanInput input(const MachineModel& m) {
  PlanInput in;
  in.setup.model = test::tiny_llama();
  in.setup.model.layers = 4;
  in.setup.model.heads = 8;
  in.setup.model.kv_heads = 4;
  in.setup.model.width = 32;
  in.setup.model.head_dim = 4;
  in.setup.model.max_context = 16;
  in.train = {.batch = 16, .microbatch = 1, .steps = 1};
  in.evaluation = PlanEvaluation::left_out;
  in.transport = m.backend == "cuda" ? TransportKind::device : TransportKind::host;
  return in;
}

class SearchOnMachine : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, SearchOnMachine, testing::Values("host", "cuda"));

TEST_P(SearchOnMachine, FindsWhatTryingAllFinds) {
  const auto machine = test::plain_machine(GetParam());
  const auto in = input(machine);
  const auto target = roomy_target(machine.backend == "host");
  // What the largest of the ten needs is too much the second time.
  std::optional<double> memory;
  for (int i = 0; i < 2; ++i) {
    const auto quick = search(in, target, machine, 8, memory);
    const auto all = search(in, target, machine, 8, memory, Bounds::try_all);

    ASSERT_FALSE(all.best.empty());
    ASSERT_EQ(quick.best.size(), all.best.size());
    for (std::size_t i = 0; i < all.best.size(); ++i)
      EXPECT_DOUBLE_EQ(quick.best[i].seconds, all.best[i].seconds) << i;
    EXPECT_EQ(quick.choices, all.choices);
    EXPECT_LT(quick.simulated, all.simulated);
    EXPECT_EQ(quick.too_large + quick.too_slow + quick.simulated, quick.choices);
    EXPECT_GT(quick.too_slow, 0);
    const auto needed =
        static_cast<double>(std::ranges::max(quick.best, {}, &Trial::needed).needed());
    EXPECT_LE(needed, memory.value_or(needed));
    memory = needed - 1;
  }
}

// What a search says that fits, fits when it is planned, with the copy that checkpoints come from.
TEST_P(SearchOnMachine, NeedsTheMemoryOfThePlan) {
  const auto machine = test::plain_machine(GetParam());
  auto in = input(machine);
  in.snapshot = PlanSnapshot::included;
  const auto target = roomy_target(machine.backend == "host");
  const auto found = search(in, target, machine, 8, std::nullopt);
  ASSERT_FALSE(found.best.empty());
  for (const auto& trial : found.best)
    EXPECT_EQ(trial.needed(), make_plan(input_of(in, trial.choice), target).most_needed())
        << overrides_of(trial.choice);
}

static void expect_bounds_below(const PlanInput& in, const MachineModel& machine, int ranks) {
  const auto target = roomy_target(machine.backend == "host");
  SearchBounds bounds(in, target, machine);
  for (const auto& c : choices_of(in, ranks, 8)) {
    const auto truth = simulate_choice(in, target, machine, c, microbatches_of(in, c));
    EXPECT_LE(bounds.seconds(c), truth.seconds * (1 + 1e-9)) << overrides_of(c);
    EXPECT_LE(bounds.bytes(c), static_cast<double>(truth.needed())) << overrides_of(c);
  }
}

TEST_P(SearchOnMachine, BoundsAreNeverAboveTheTruth) {
  const auto machine = test::plain_machine(GetParam());
  expect_bounds_below(input(machine), machine, 8);
}

// Messages are all that counts, half of them to the other node; stages of two blocks share gathers.
TEST_P(SearchOnMachine, BoundsOfMessagesAreNeverAboveTheTruth) {
  auto machine = test::plain_machine(GetParam());
  machine.ranks_of_node = 2;
  machine.near.bandwidth = machine.far.bandwidth = 1e6;
  auto in = input(machine);
  in.setup.model.vocab = 3;
  in.train.batch = 8;
  expect_bounds_below(in, machine, 4);
}

// Where messages of other nodes come too, a rank waits as long as they take to begin, and no
// longer.
TEST_P(SearchOnMachine, BoundsHoldWhereNearMessagesBeginLate) {
  auto machine = test::plain_machine(GetParam());
  machine.ranks_of_node = 2;
  machine.near.latency = 1e-2;
  auto in = input(machine);
  in.train.batch = 8;
  expect_bounds_below(in, machine, 4);
}

// Gathers that are half as long as those in bf16, and what ranks exchange before the first.
TEST_P(SearchOnMachine, BoundsHoldWhereWeightsAreSentInFp8) {
  auto machine = test::plain_machine(GetParam());
  auto in = input(machine);
  in.setup.model.max_context = 32;
  in.setup.compute = DType::bf16;
  in.setup.products = ProductType::fp8;
  in.setup.zero.gather_type = GatherType::fp8;
  in.train.batch = 8;
  for (const double bandwidth : {1e6, 1e9}) {
    machine.near.bandwidth = machine.far.bandwidth = bandwidth;
    expect_bounds_below(in, machine, 4);
  }
}

// Adapters of a block that models of one or two blocks do not have.
TEST_P(SearchOnMachine, TriesAllWhereBlocksDiffer) {
  const auto machine = test::plain_machine(GetParam());
  auto in = input(machine);
  in.train.batch = 4;
  for (const auto* pattern : {"blocks.3.*", "blocks.?.*"}) {  // ? matches no block from 10 on
    in.setup.adapter = {.rank = 2, .patterns = {pattern}};
    const auto found = search(in, roomy_target(machine.backend == "host"), machine, 2, {});
    EXPECT_FALSE(found.best.empty()) << pattern;
    EXPECT_EQ(found.too_slow, 0) << pattern;
  }
}

// A rule for such a block that changes no time.
TEST_P(SearchOnMachine, LeavesOutWhereRulesKeepFromDecay) {
  const auto machine = test::plain_machine(GetParam());
  auto in = input(machine);
  in.setup.optimizer.no_decay = {"blocks.3.*"};
  const auto found = search(in, roomy_target(machine.backend == "host"), machine, 16, {});
  EXPECT_FALSE(found.best.empty());
  EXPECT_GT(found.too_slow, 0);
}

static void expect_what_trying_all_finds(const PlanInput& in, const MachineModel& machine) {
  const auto target = roomy_target(machine.backend == "host");
  const auto quick = search(in, target, machine, 8, {});
  const auto all = search(in, target, machine, 8, {}, Bounds::try_all);

  ASSERT_FALSE(all.best.empty());
  ASSERT_EQ(quick.best.size(), all.best.size());
  for (std::size_t i = 0; i < all.best.size(); ++i)
    EXPECT_DOUBLE_EQ(quick.best[i].seconds, all.best[i].seconds) << i;
  EXPECT_LT(quick.simulated, all.simulated);
}

// Matrices travel to their owners once per step, however many micro-batches there are.
TEST_P(SearchOnMachine, FindsWhatTryingAllFindsForMuon) {
  const auto machine = test::plain_machine(GetParam());
  auto in = input(machine);
  in.setup.optimizer.name = OptimizerKind::muon;
  for (const auto& patterns : {std::vector<std::string>{}, {"embedding.*", "blocks.3.*"}}) {
    in.setup.optimizer.adamw_patterns = patterns;
    expect_what_trying_all_finds(in, machine);
  }
}

TEST_P(SearchOnMachine, FindsWhatTryingAllFindsWhereRulesFreeze) {
  const auto machine = test::plain_machine(GetParam());
  auto in = input(machine);
  in.setup.freeze = {{.pattern = "blocks.3.*"}};
  expect_what_trying_all_finds(in, machine);
}

// Frozen blocks compute no gradients below the first block that is trained. With adapters, that
// block computes no gradient of its input.
TEST_P(SearchOnMachine, BoundsHoldWhereOnlyTheLastBlockIsTrained) {
  const auto machine = test::plain_machine(GetParam());
  auto in = input(machine);
  in.setup.model.vocab = 8;  // so that a block's first product takes longer than the head
  in.setup.model.width = 256;
  in.setup.model.head_dim = 32;
  for (const auto* pattern : {"embedding.*", "blocks.0.*", "blocks.1.*", "blocks.2.*"})
    in.setup.freeze.push_back({.pattern = pattern});
  for (const int rank : {0, 2}) {
    in.setup.adapter.rank = rank;
    for (const int ranks : {1, 4}) expect_bounds_below(in, machine, ranks);
  }
}

// Adapters change how blocks are divided into stages.
TEST_P(SearchOnMachine, BoundsHoldForLargeAdapters) {
  const auto machine = test::plain_machine(GetParam());
  auto in = input(machine);
  in.setup.adapter.rank = 64;
  in.setup.model.vocab = 900;
  for (in.setup.model.layers = 3; in.setup.model.layers < 10; ++in.setup.model.layers)
    expect_bounds_below(in, machine, 3);
}

// The forward pass of a head that is trained also computes its gradient.
TEST_P(SearchOnMachine, BoundsHoldForAFrozenHead) {
  const auto machine = test::plain_machine(GetParam());
  auto in = input(machine);
  in.setup.model.vocab = 5000;
  for (const bool tied : {true, false}) {
    in.setup.model.tied = tied;
    in.setup.freeze = {{.pattern = tied ? "embedding.*" : "head.*"}};
    expect_bounds_below(in, machine, 1);
  }
}

TEST(Search, ChangesTheBestIntoWhatRunsAlone) {
  const auto machine = test::plain_machine("host");
  auto in = input(machine);
  in.setup.model.layers = 8;
  in.train.batch = 2;
  const auto found = search(in, roomy_target(), machine, 2, {});
  EXPECT_FALSE(found.best.empty());
}

TEST(Search, SaysWhatAChangeSavesAndCosts) {
  const auto machine = test::plain_machine("cuda");
  const auto found = search(input(machine), roomy_target(false), machine, 8, {});

  EXPECT_FALSE(found.alternatives.empty());
  const auto text = search_text(found, {});
  EXPECT_THAT(text, testing::HasSubstr("time lost: "));
  EXPECT_THAT(text, testing::HasSubstr(" need too much memory "));
}

}  // namespace trireme
