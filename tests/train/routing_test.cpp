#include "lib/train/routing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/ref/ref.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

using testing::ElementsAre;

TEST(BiasChange, IsTheSignOfTheLoadAgainstTheMean) {
  EXPECT_THAT(bias_change({4, 2, 0}, 0.5), ElementsAre(-0.5, 0, 0.5));
  EXPECT_THAT(bias_change({3, 2, 2}, 0.5), ElementsAre(-0.5, 0.5, 0.5));
  EXPECT_THAT(bias_change({0, 0}, 0.5), ElementsAre(0, 0));
}

namespace {

struct Trained {
  explicit Trained(const ModelConfig& c, const std::function<void(TrainerSetup&)>& change)
      : config(c) {
    auto setup = test::setup_of(c, test::plain_sgd(), DType::f64);
    change(setup);
    trainer.emplace(backend, Axes{}, setup);
    trainer->store().initialize(3, 1);
  }
  Routing step(std::int64_t s, double lr, std::vector<Batch> batches) {
    return trainer->step(s, lr, batches).routing;
  }
  std::vector<double> bias(std::size_t block) {
    auto& store = trainer->store();
    return test::read<double>(store, store.spec().blocks[block].router_bias);
  }

  ModelConfig config;
  Ref backend;
  Workspace scratch{backend};
  std::optional<Trainer> trainer;
};

}  // namespace

// Each of 4 samples of 7 tokens chooses 2 experts in the two blocks that have some, however the
// step is cut, and whether or not forward is run again.
TEST(Routing, LoadsAreThoseOfTheStep) {
  const auto c = test::tiny_mixture();
  for (const auto recompute : {Recompute::none, Recompute::block}) {
    Trained run(c, [&](TrainerSetup& s) { s.recompute = recompute; });

    const auto whole = run.step(0, 0, {test::random_batch(c, 4)});
    const auto cut = run.step(0, 0, {test::random_batch(c, 2), test::random_batch(c, 2, 2)});

    EXPECT_THAT(whole.layers, ElementsAre(1, 2));
    for (const auto& loads : whole.loads) {
      EXPECT_EQ(loads.size(), 5U);
      EXPECT_EQ(std::reduce(loads.begin(), loads.end()), 4 * 7 * 2);
    }
    EXPECT_EQ(whole.loads, cut.loads);
    EXPECT_EQ(whole.balance, 0);
    EXPECT_EQ(whole.more_rounds, 0);
  }
}

// DeepSeek-V3's sum over experts of f_e P_e by hand, from loads and scores of one block: with
// weights of zero all scores are alike, ties go to the lower indices, and f P is E / (K T) (T + T)
// / E = 1 all the same. log sum exp of E zeros is log E.
TEST(Routing, LossesOfARouterOfZeros) {
  auto c = test::tiny_mixture();
  Trained run(c, [](TrainerSetup& s) {
    s.balance = Balance::sample;
    s.balance_weight = 0.1;
    s.router_z = 0.1;
  });
  auto& store = run.trainer->store();
  for (const auto& block : store.spec().blocks)
    if (block.router != ParamId{})
      test::write<double>(store, block.router, std::vector<double>(5 * 24, 0.0));

  const auto r = run.step(0, 0, {test::random_batch(c, 2)});

  for (const auto& loads : r.loads) EXPECT_THAT(loads, ElementsAre(14, 14, 0, 0, 0));
  EXPECT_NEAR(r.balance, 1, 1e-14);
  EXPECT_NEAR(r.z, std::log(5) * std::log(5), 1e-13);
}

// A gate of zeros stands half open: as if there were none and half of what the shared expert says.
TEST(Routing, TheGateOpensTheSharedExpert) {
  auto c = test::tiny_mixture();
  const auto batch = test::random_batch(c, 2);
  const auto loss_of = [&](bool gate, double factor) {
    c.shared_expert_gate = gate;
    Trained run(c, [](auto&) {});
    auto& store = run.trainer->store();
    for (const auto& block : store.spec().blocks) {
      if (block.shared_out == ParamId{}) continue;
      if (gate) test::write<double>(store, block.shared_gate, std::vector<double>(24, 0.0));
      auto w = test::read<double>(store, block.shared_out);
      for (double& x : w) x *= factor;
      test::write<double>(store, block.shared_out, w);
    }
    return run.trainer->step(0, 0, std::vector{batch}).loss;
  };

  EXPECT_NEAR(loss_of(true, 200), loss_of(false, 100), 1e-13);
  EXPECT_GT(std::fabs(loss_of(true, 200) - loss_of(false, 200)), 1e-6);
}

TEST(Routing, TheBiasMovesByTheLoadsAndNothingElseMovesIt) {
  auto c = test::tiny_sigmoid_mixture();
  Trained run(c, [](TrainerSetup& s) {
    s.balance = Balance::bias;
    s.balance_rate = 0.01;
    s.freeze = {{"blocks.1.router.bias", 0, 0}};
  });

  const auto first = run.step(0, 0.1, {test::random_batch(c, 2)});
  const auto second = run.step(1, 0.1, {test::random_batch(c, 2, 2)});

  for (const std::size_t block : {0U, 2U}) {
    const auto a = bias_change(first.loads[block], 0.01),
               b = bias_change(second.loads[block], 0.01);
    for (std::size_t e = 0; e < a.size(); ++e) EXPECT_EQ(run.bias(block)[e], a[e] + b[e]);
  }
  EXPECT_THAT(run.bias(1), testing::Each(0));
}

// The bias of an expert that is far above all chooses it, and weighs nothing.
TEST(Routing, TheBiasChoosesAndDoesNotWeigh) {
  auto c = test::tiny_sigmoid_mixture();
  c.experts_per_token = c.experts;  // all are chosen: the order of choice alone changes
  Trained run(c, [](auto&) {});
  const auto batch = test::random_batch(c, 2);
  const double before = run.trainer->step(0, 0, std::vector{batch}).loss;
  auto& store = run.trainer->store();
  test::write<double>(store, store.spec().blocks[0].router_bias,
                      std::vector<double>{0, 100, 0, 50, 0});

  const double after = run.trainer->step(0, 0, std::vector{batch}).loss;

  EXPECT_NEAR(after, before, 1e-13);
}

// Every token takes the experts whose bias is far above all scores, which are at most 1.
TEST(Routing, TheBiasChooses) {
  const auto c = test::tiny_sigmoid_mixture();
  Trained run(c, [](auto&) {});
  auto& store = run.trainer->store();
  test::write<double>(store, store.spec().blocks[0].router_bias,
                      std::vector<double>{0, 100, 0, 50, 20});

  const auto loads = run.step(0, 0, {test::random_batch(c, 2)}).loads[0];

  ASSERT_EQ(c.experts_per_token, 3);
  EXPECT_THAT(loads, ElementsAre(0, 14, 0, 14, 14));
}

}  // namespace trireme
