// What is trained may change while a run goes on, and the grid trains what one rank trains.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/open/open.hpp"
#include "lib/base/pattern.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/message_of.hpp"

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
  const auto setup = test::parity_setup(p);
  const auto spec = make_spec(setup.model, setup.adapter);
  std::erase_if(rules, [&](const FreezeRule& r) {
    return std::ranges::none_of(spec.params,
                                [&](const auto& q) { return matches(r.pattern, q.name); });
  });
  return rules;
}

TEST(Freeze, ParityWithTheSameSchedule) {
  int turn = 0;
  std::vector<ParityCase> all;
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
      p.steps = 5;
      ++turn;
      if (!p.freeze.empty()) all.push_back(p);
    }
  for (const auto& p : drawn(all, 4)) {
    SCOPED_TRACE(test::name_of(p));
    if (!test::next_case(test::name_of(p))) return;

    test::expect_parity(p, 1e-11);
  }
}

// A step under ZeRO-3, each weight cut among all ranks.
class FrozenStep : public testing::Test {
 protected:
  FrozenStep() {
    p_.grid = {1, test::world().size(), 1};
    p_.size = 8 * test::world().size();
    p_.microbatches = 1;
    p_.zero.stage = 3;
    p_.optimizer = OptimizerKind::adamw;
  }
  // Bytes that it sends; takes the account and the layout. The segments are the same whatever is
  // frozen.
  std::int64_t sent(const std::vector<FreezeRule>& rules) {
    p_.freeze = rules;
    auto setup = test::parity_setup(p_);
    setup.segments = {"*.ffn_in.*"};
    const auto& axes = test::parity_axes(p_);
    const auto backend = open_backend({"ref", 1, true});
    const Workspace workspace(*backend);
    Trainer trainer(*backend, axes, setup);
    trainer.store().initialize(3, 1);
    const auto before = axes.traffic().shard;
    trainer.step(0, 0.1, test::parity_step(p_, trainer, 0));
    account = backend->account();
    layout = trainer.store().layout();
    spec = trainer.store().spec();
    return axes.traffic().shard - before;
  }
  // What the gradients of the segments of these parameters come to in one reduce-scatter.
  std::int64_t gradients_of(std::string_view pattern) const {
    std::set<std::size_t> segments;
    for (std::size_t i = 0; i < spec.params.size(); ++i)
      if (matches(pattern, spec.params[i].name)) segments.insert(layout.of_param[i]->segment);
    std::int64_t elements = 0;
    for (const auto s : segments) elements += layout.segments[s].elements;
    const std::int64_t ranks = test::world().size();
    return elements / ranks * (ranks - 1) * 8;
  }

  Account account;
  Layout layout;
  ModelSpec spec;

 private:
  ParityCase p_;
};

TEST_F(FrozenStep, SendsNoGradientOfAFrozenPartOfAUnit) {
  const auto all = sent({}), some = sent({{"*.ffn_in.*"}});
  EXPECT_EQ(all - some, gradients_of("*.ffn_in.*"));
}

// A frozen prefix has no backward: its weights are gathered once instead of twice.
TEST_F(FrozenStep, SendsTheWeightsOfAFrozenPrefixOnce) {
  const auto all = sent({}), some = sent({{"embedding.*"}, {"positions.*"}, {"blocks.*"}});
  const auto blocks = gradients_of("blocks.*");
  EXPECT_GE(all - some, 2 * blocks);
}

TEST_F(FrozenStep, KeepsNoMomentsOfWhatIsFrozen) {
  constexpr auto optimizer = static_cast<std::size_t>(MemoryKind::optimizer);
  sent({});
  const auto all = account.peak[optimizer];
  sent({{"embedding.*"}, {"positions.*"}, {"blocks.*"}});
  EXPECT_LT(account.peak[optimizer], all / 4);
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
  EXPECT_FALSE(store().has_arrays(block(2).ffn_in));
  EXPECT_EQ(store().count(block(2).qkv), 2);
  freeze_ffn_in(true);
  step(2);

  EXPECT_EQ(store().count(block(2).ffn_in), 1);  // afresh
  EXPECT_EQ(store().count(block(2).qkv), 3);
}

TEST_F(ManualFreeze, AChangeThatIsNotAppliedIsAnErrorThatNamesIt) {
  make(false);
  step(0);
  freeze_ffn_in(false);

  const auto said = message_of([&] { step(1); });
  EXPECT_NE(said.find("blocks.2.ffn_in.weight"), std::string::npos) << said;
  store().apply_trainable();
  EXPECT_EQ(step(1).outcome, StepOutcome::updated);
  EXPECT_EQ(store().count(block(2).qkv), 2);
}

TEST_F(ManualFreeze, AChangeThatSplitsASegmentIsAnErrorThatNamesIt) {
  make(true);
  store().set_trainable(block(1).qkv, false);

  const auto said = message_of([&] { step(0); });
  EXPECT_NE(said.find("blocks.1.qkv"), std::string::npos) << said;
  store().set_trainable(block(1).qkv, true);
  EXPECT_EQ(step(0).outcome, StepOutcome::updated);
}

}  // namespace trireme
