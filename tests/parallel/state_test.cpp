// State belongs to the model, not to who uses it: programs of any kind and of several models follow
// each other on one sharded model, and what an earlier one left in flight is named.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/open/open.hpp"
#include "lib/run/generation.hpp"
#include "lib/shard/session.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/tampering.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

using test::ParityCase;

static std::vector<Grid> grids() {
  const int n = test::world().size();
  std::vector<Grid> all{{n, 1, 1}, {1, n, 1}, {1, 1, n}};
  if (n == 4) all.push_back({2, 1, 2});
  if (n == 8) all = {{2, 2, 2}};
  std::erase_if(all, [](const Grid& g) { return 16 % g.data != 0 || 16 % g.seq != 0; });
  return all;
}

namespace {

// A model on a grid, or on one rank.
struct Model8 {
  explicit Model8(const ParityCase& p, bool alone = false, bool trainable = true) : parity(p) {
    if (alone) {
      parity.grid = {};
      parity.zero = {};
    }
    auto setup = test::parity_setup(parity);
    setup.trainable = trainable;
    trainer = std::make_unique<Trainer>(
        *backend,
        alone ? Axes{}
              : make_axes(test::world(), parity.grid, shard_ranks(parity.zero, parity.grid)),
        setup);
    trainer->store().initialize(3, 1);
  }
  double step(int s) { return trainer->step(s, 1e-3, test::parity_step(parity, *trainer, s)).loss; }
  double evaluate() { return trainer->evaluate(test::parity_step(parity, *trainer, 100)).mean(); }
  std::vector<std::int32_t> write(int count) {
    const Request request{{1, 5, 9}, count, {}};
    return generate(*trainer, {&request, 1}, {.vocab = 29})[0].ids;
  }

  ParityCase parity;
  std::unique_ptr<Backend> backend = open_backend({"ref", 1, true});
  Workspace workspace{*backend};
  std::unique_ptr<Trainer> trainer;
};

ParityCase sharded_case(const Grid& grid) {
  ParityCase p;
  p.grid = grid;
  p.zero.stage = 3;
  p.optimizer = OptimizerKind::adamw;
  p.flavour = "mixture";
  while (p.grid.places() % p.grid.expert != 0 || p.grid.expert == 1)
    if (++p.grid.expert >= 5) break;
  if (p.grid.places() % p.grid.expert != 0) p.grid.expert = 1;
  return p;
}

}  // namespace

TEST(State, ProgramsFollowEachOtherInAnyOrder) {
  for (const auto& grid : grids()) {
    const auto p = sharded_case(grid);
    SCOPED_TRACE(test::name_of(p));
    Model8 many(p), one(p, true);
    const auto same = [](double a, double b) { EXPECT_NEAR(a, b, 1e-11 * b); };

    same(many.evaluate(), one.evaluate());
    same(many.step(0), one.step(0));
    same(many.evaluate(), one.evaluate());
    EXPECT_EQ(many.write(6), one.write(6));
    same(many.step(1), one.step(1));
    EXPECT_EQ(many.write(3), one.write(3));
    same(many.evaluate(), one.evaluate());
    same(many.step(2), one.step(2));
  }
}

TEST(State, TwoModelsAlternate) {
  for (const auto& grid : grids()) {
    const auto p = sharded_case(grid);
    SCOPED_TRACE(test::name_of(p));
    Model8 policy(p), alone(p, true);
    Model8 reference(p, false, false);
    const double before = reference.evaluate();

    for (int s = 0; s < 3; ++s) {
      EXPECT_NEAR(policy.step(s), alone.step(s), 1e-10);
      EXPECT_EQ(reference.evaluate(), before);
      EXPECT_NEAR(policy.evaluate(), alone.evaluate(), 1e-10);
    }
    EXPECT_THROW(reference.step(0), Error);
  }
}

// On one backend, with the same communicators, the second made while the first is in use.
TEST(State, TwoModelsShareABackend) {
  for (const auto& grid : grids()) {
    const auto p = sharded_case(grid);
    Model8 first(p);
    auto setup = test::parity_setup(first.parity);
    setup.trainable = false;
    Trainer second(*first.backend, first.trainer->axes(), setup);
    second.store().initialize(3, 1);
    const auto batches = test::parity_step(p, second, 100);
    const double before = second.evaluate(batches).mean();

    first.step(0);

    EXPECT_EQ(second.evaluate(batches).mean(), before);
    EXPECT_NE(first.evaluate(), before);
  }
}

TEST(State, EvaluationWithUnequalCounts) {
  for (const auto& grid : grids()) {
    const auto p = sharded_case(grid);
    SCOPED_TRACE(test::name_of(p));
    Model8 many(p), one(p, true);
    // Data rank d brings d microbatches: the first none.
    std::vector<Batch> mine, all;
    for (int d = 0; d < grid.data; ++d)
      for (int m = 0; m < d; ++m) {
        const auto batch = test::random_batch(test::parity_setup(p), 2, 2 * (d * grid.data + m));
        all.push_back(one.trainer->share(batch));
        if (d == many.trainer->axes().at.data) mine.push_back(many.trainer->share(batch));
      }

    const auto a = many.trainer->evaluate(mine), b = one.trainer->evaluate(all);

    EXPECT_EQ(a.valid, b.valid);
    EXPECT_NEAR(a.sum, b.sum, 1e-11 * std::fabs(b.sum));
  }
}

TEST(State, NoTargetsAnywhereIsSkippedOnEveryRank) {
  for (const auto& grid : grids()) {
    Model8 many(sharded_case(grid));
    auto batches = test::parity_step(many.parity, *many.trainer, 0);
    for (auto& b : batches) {
      std::ranges::fill(b.targets_BT, no_target);
      b.valid = 0;
    }

    EXPECT_EQ(many.trainer->step(0, 1e-3, batches).outcome, StepOutcome::no_targets);
    EXPECT_EQ(many.trainer->store().count({0}), 0);
  }
}

// A program that every rank breaks off leaves gathers on their way.
TEST(State, WhatIsLeftInFlightIsNamedUntilItIsDrained) {
  const int n = test::world().size();
  if (n == 1 || 16 % n != 0) return;
  Model8 many(sharded_case({1, n, 1}));
  const double before = many.evaluate();
  auto& store = many.trainer->store();
  const auto unit = [&](int i) { return store.spec().blocks[static_cast<std::size_t>(i)].unit; };
  const std::vector<Borrow> first{{unit(0), Use::own}};
  {
    Session session(store, Purpose::forward,
                    {.gathers = {{unit(0), 0, 1}, {unit(1), 0, 1}}, .reads = {0, 1}});
    const auto borrowed = session.gather(first);
  }
  const auto gathered = [&] {
    return many.trainer->backend().account().live[static_cast<std::size_t>(MemoryKind::gathered)];
  };
  EXPECT_GT(gathered(), 0U);  // others still write into it

  const auto said = message_of([&] { many.evaluate(); });
  EXPECT_NE(said.find("blocks.1"), std::string::npos) << said;
  test::world().drain();
  EXPECT_EQ(gathered(), 0U);
  EXPECT_EQ(many.evaluate(), before);
}

TEST(State, AProgramMustFollowItsPlan) {
  Model8 many(sharded_case({1, 1, 1}), true);
  auto& store = many.trainer->store();
  const auto unit = [&](int i) { return store.spec().blocks[static_cast<std::size_t>(i)].unit; };
  const std::vector<Borrow> second{{unit(1), Use::own}};
  {
    Session session(store, Purpose::forward,
                    {.gathers = {{unit(0), 0, 1}, {unit(1), 0, 1}}, .reads = {0, 1}});
    EXPECT_THROW(session.gather(second), Error);
    EXPECT_THROW(Session(store, Purpose::forward, {}), Error);
    EXPECT_THROW(session.close(), Error);
  }
  Session(store, Purpose::forward, {}).close();
}

TEST(State, ASessionThatFailsToBeginLeavesTheModelFree) {
  const auto inner = open_backend({"host", 1, true});
  test::Tampering backend(*inner);
  const Workspace workspace(backend);
  auto setup = test::setup_of(test::tiny_llama(), test::adamw(), DType::f32);
  setup.context = setup.exact_chunk = 4;  // so that beginning writes zeros
  Trainer trainer(backend, {}, setup);
  backend.after = [](const kernel::Operation&) { fail("the device is gone"); };
  EXPECT_EQ(message_of([&] { Session(trainer.store(), Purpose::train, {}); }),
            "the device is gone");
  backend.after = {};
  Session(trainer.store(), Purpose::train, {}).close();
}

TEST(State, FreezingBetweenBackwardAndUpdateIsAnError) {
  Model8 many(sharded_case({1, 1, 1}), true);
  auto& store = many.trainer->store();
  Session(store, Purpose::train, {}).close();
  for (std::size_t i = 0; i < store.spec().params.size(); ++i)
    if (store.spec().params[i].unit == store.spec().blocks[0].unit)
      store.set_trainable(ParamId::at(i), false);

  EXPECT_THROW(store.apply_trainable(), Error);
  store.discard_gradients();
  EXPECT_TRUE(store.apply_trainable());
}

}  // namespace trireme
