// What is trained may change while a run goes on, and the grid trains what one rank trains.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/open/open.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"

namespace trireme {

using test::ParityCase;

static std::vector<std::vector<FreezeRule>> schedules() {
  return {
      // A prefix for the whole run: it has no backward.
      {{"embedding.*", 0, 0}, {"positions.*", 0, 0}, {"blocks.0.*", 0, 0}, {"blocks.1.*", 0, 0}},
      {{"embedding.*", 0, 0},
       {"positions.*", 0, 0},
       {"blocks.0.*", 0, 0},
       {"blocks.1.*", 0, 0},
       {"blocks.2.*", 0, 0},
       {"blocks.3.*", 0, 0},
       {"blocks.4.*", 0, 3}},
      // Parts of units, thawing and freezing in the middle, with moments dropped or kept.
      {{"*.qkv.*", 1, 3, ThawMoments::fresh}, {"blocks.5.*", 2, 4, ThawMoments::keep}},
      {{"*norm*", 0, 2, ThawMoments::keep}, {"embedding.*", 1, 4, ThawMoments::fresh}},
      // Everything but one late unit.
      {{"embedding.*", 0, 0}, {"positions.*", 0, 0}, {"blocks.*", 0, 0}, {"head.*", 0, 0}},
  };
}

static std::vector<Grid> grids() {
  const int n = test::world().size();
  std::vector<Grid> all{{n, 1, 1}, {1, n, 1}, {1, 1, n}};
  if (n == 4) all = {{4, 1, 1}, {2, 2, 1}, {2, 1, 2}, {1, 2, 2}};
  if (n == 8) all = {{2, 2, 2}, {8, 1, 1}};
  std::erase_if(all, [](const Grid& g) { return 16 % g.data != 0 || 16 % g.seq != 0; });
  return all;
}

// A pattern that names nothing in this flavour would be an error.
static std::vector<FreezeRule> known(std::vector<FreezeRule> rules, const ParityCase& p) {
  const auto spec = make_spec(test::parity_model(p));
  std::erase_if(rules, [&](const FreezeRule& r) {
    return std::ranges::none_of(spec.params,
                                [&](const auto& q) { return matches(r.pattern, q.name); });
  });
  return rules;
}

TEST(Freeze, ParityWithTheSameSchedule) {
  int turn = 0;
  for (const auto& grid : grids())
    for (const auto& rules : schedules()) {
      ParityCase p;
      p.grid = grid;
      p.flavour = turn % 2 ? "gpt2" : "llama";
      p.microbatches = grid.data > 4 ? 2 : 4;
      p.optimizer = turn % 3 ? OptimizerKind::adamw : OptimizerKind::sgd;
      p.recompute = turn % 4 == 1 ? Recompute::block : Recompute::none;
      p.dropout = turn % 5 == 2 ? 0.1 : 0;
      p.zero.stage = turn % 4 == 0 ? 1 : 3;
      p.zero.detect_freeze = turn % 2 == 0;
      p.freeze = known(rules, p);
      ++turn;
      if (p.freeze.empty()) continue;
      SCOPED_TRACE(test::name_of(p));
      if (!test::next_case(test::name_of(p))) return;

      test::expect_parity(p, 1e-11);
    }
}

// Nothing of a frozen unit is sent but its weights, and nothing is kept for it.
TEST(Freeze, WhatIsFrozenIsNotSentNorKept) {
  ParityCase p;
  p.grid = {1, test::world().size(), 1};
  if (16 % p.grid.data != 0) return;
  p.microbatches = 1;
  p.zero.stage = 3;
  p.optimizer = OptimizerKind::adamw;
  const auto& axes = test::parity_axes(p);
  const auto traffic = [&](const std::vector<FreezeRule>& rules, Account& account) {
    p.freeze = rules;
    const auto backend = open_backend({"ref", 1, true});
    const Workspace workspace(*backend);
    Trainer trainer(*backend, axes, test::parity_setup(p));
    trainer.store().initialize(3, 1);
    const auto before = axes.traffic().shard;
    trainer.step(0, 0.1, test::parity_step(p, trainer, 0));
    account = backend->account();
    return axes.traffic().shard - before;
  };
  Account whole, frozen;

  const auto all = traffic({}, whole);
  const auto some = traffic({{"embedding.*"}, {"positions.*"}, {"blocks.*"}}, frozen);

  if (axes.world.size() > 1) {
    EXPECT_LT(some, all);
  }
  const auto optimizer = static_cast<std::size_t>(Kind::optimizer);
  EXPECT_LT(frozen.peak[optimizer], whole.peak[optimizer] / 4);
}

class ManualFreeze : public testing::Test {
 protected:
  void make(bool detect) {
    ParityCase p;
    p.grid = {1, 1, test::world().size()};
    p.zero.stage = 3;
    p.zero.detect_freeze = detect;
    p.optimizer = OptimizerKind::adamw;
    auto setup = test::parity_setup(p);
    setup.segments = {"*.ffn_in.*"};
    backend = open_backend({"ref", 1, true});
    workspace = std::make_unique<Workspace>(*backend);
    trainer = std::make_unique<Trainer>(*backend, test::parity_axes(p), setup);
    trainer->store().initialize(3, 1);
    batches = test::parity_step(p, *trainer, 0);
  }
  StepResult step(int s) { return trainer->step(s, 1e-3, batches); }
  Store& store() { return trainer->store(); }
  const BlockParams& block(std::size_t i) { return store().spec().blocks[i]; }
  void freeze_ffn_in(bool on) {
    for (const ParamId p : {block(2).ffn_in, block(2).ffn_in_bias}) store().set_trainable(p, on);
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Trainer> trainer;
  std::vector<Batch> batches;
};

TEST_F(ManualFreeze, AChangeIsFoundByItself) {
  make(true);
  step(0);
  EXPECT_EQ(store().count(block(2).ffn_in), 1);

  freeze_ffn_in(false);
  step(1);
  EXPECT_FALSE(store().has_moments(block(2).ffn_in));
  EXPECT_EQ(store().count(block(2).qkv), 2);
  freeze_ffn_in(true);
  step(2);

  EXPECT_EQ(store().count(block(2).ffn_in), 1);  // afresh
  EXPECT_EQ(store().count(block(2).qkv), 3);
}

TEST_F(ManualFreeze, AnUnsettledChangeIsAnErrorThatNamesIt) {
  make(false);
  step(0);
  freeze_ffn_in(false);

  try {
    step(1);
    FAIL() << "the change went unnoticed";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("blocks.2.ffn_in.weight"), std::string::npos) << e.what();
  }
  store().settle_trainable();
  EXPECT_EQ(step(1).verdict, Verdict::updated);
  EXPECT_EQ(store().count(block(2).qkv), 2);
}

TEST_F(ManualFreeze, AChangeThatSplitsASegmentIsAnErrorThatNamesIt) {
  make(true);
  store().set_trainable(block(1).qkv, false);

  try {
    step(0);
    FAIL() << "the segment was split";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("blocks.1.qkv"), std::string::npos) << e.what();
  }
  store().set_trainable(block(1).qkv, true);
  EXPECT_EQ(step(0).verdict, Verdict::updated);
}

}  // namespace trireme
