// The moving average of the weights on every kind of grid: the formula of train.ema, applied here
// to the weights that each rank has after each step.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "kernels/open/open.hpp"
#include "lib/base/array_names.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"

namespace trireme {
namespace {

using test::ParityCase;

constexpr double kept_share = 0.7;

struct AveragedRun {
  explicit AveragedRun(const ParityCase& c) : p(c) { store().initialize(3, 1); }
  Store& store() { return trainer->store(); }
  std::size_t params() { return store().spec().params.size(); }
  StepResult step(int s, const StepLimits& limits = {}) {
    return trainer->step(s, test::learning_rate(p), test::parity_step(p, *trainer, s), {},
                         Replay::no, limits);
  }
  double loss() { return trainer->evaluate(test::parity_step(p, *trainer, 90)).mean(); }
  // By ParamId.
  std::vector<std::vector<double>> all(std::vector<double> (*here)(Store&, ParamId)) {
    std::vector<std::vector<double>> values;
    for (std::size_t i = 0; i < params(); ++i) values.push_back(here(store(), ParamId::at(i)));
    return values;
  }

  ParityCase p;
  std::unique_ptr<Backend> backend = open_backend(test::backend_of(p, true));
  Workspace workspace{*backend};
  std::unique_ptr<Trainer> trainer =
      std::make_unique<Trainer>(*backend, test::parity_axes(p), test::parity_setup(p));
};

std::vector<ParityCase> averaged_cases(std::vector<FreezeRule> freeze) {
  std::vector<ParityCase> all;
  for (const auto& grid : test::parity_grids({test::world().size()})) {
    ParityCase p;
    p.grid = grid;
    p.size = test::world().size() % 3 == 0 ? 12 : 8;
    if (p.size % grid.data != 0) continue;
    p.microbatches = 1;
    p.steps = 6;
    p.ema = kept_share;
    p.optimizer = all.size() % 2 ? OptimizerKind::adamw : OptimizerKind::sgd;
    p.zero.stage = static_cast<int>(all.size() % 4);
    p.freeze = freeze;
    all.push_back(p);
  }
  return all;
}

// One step of the formula. A parameter without an average is its own.
void follow_average(std::vector<double>& to, const std::vector<double>& w, bool has_one) {
  for (std::size_t e = 0; e < w.size(); ++e)
    to[e] = has_one ? kept_share * to[e] + (1 - kept_share) * w[e] : w[e];
}

void expect_averages(AveragedRun& run, const std::vector<std::vector<double>>& expected,
                     const std::function<bool(const std::string&)>& has_one) {
  for (std::size_t i = 0; i < run.params(); ++i) {
    const auto& p = run.store().spec().params[i];
    const auto got = test::averages_here(run.store(), ParamId::at(i));
    ASSERT_EQ(got.size(), has_one(p.name) ? expected[i].size() : 0) << p.name;
    // Each step rounds a few times, and forgets what it was before.
    for (std::size_t e = 0; e < got.size(); ++e)
      ASSERT_NEAR(got[e], expected[i][e], 8 / (1 - kept_share) * 0x1p-53) << p.name << " " << e;
  }
}

}  // namespace

TEST(Average, FollowsItsFormulaOnGrids) {
  for (const auto& p : drawn(averaged_cases({}), 3)) {
    SCOPED_TRACE(test::name_of(p));
    if (!test::next_case(test::name_of(p))) return;
    AveragedRun run(p);
    auto expected = run.all(test::weights_here);
    const auto first = expected;
    for (int s = 0; s < p.steps; ++s) {
      // A step that is skipped or left out changes nothing.
      if (s == 2)
        EXPECT_EQ(run.step(s, {.loss = 0}).outcome, StepOutcome::above_limit);
      else if (s == 4)
        run.trainer->skip(s);
      else
        EXPECT_EQ(run.step(s).outcome, StepOutcome::updated);
      if (s == 2 || s == 4) continue;
      const auto w = run.all(test::weights_here);
      for (std::size_t i = 0; i < w.size(); ++i) follow_average(expected[i], w[i], true);
    }
    expect_averages(run, expected, [](auto&) { return true; });
    EXPECT_NE(expected, first);
  }
}

// The average of a frozen parameter that keeps its moments moves toward its weights; without
// moments, there is none, and it begins at the weights where training begins.
TEST(Average, OfFrozenParameters) {
  const auto freeze = std::vector<FreezeRule>{{"*.qkv.*", 2, 4, ThawMoments::fresh},
                                              {"*norm*", 1, 4, ThawMoments::keep},
                                              {"embedding.*", 3, 0, ThawMoments::fresh},
                                              {"positions.*", 0, 3, ThawMoments::fresh}};
  const auto has_one = [](const std::string& name, int s) {
    const auto has = [&](const char* what) { return name.find(what) != std::string::npos; };
    if (has(".qkv.")) return s < 2 || s >= 4;
    if (has("embedding.")) return s < 3;
    if (has("positions.")) return s >= 3;
    return true;
  };
  for (const auto& p : drawn(averaged_cases(freeze), 2)) {
    SCOPED_TRACE(test::name_of(p));
    if (!test::next_case(test::name_of(p))) return;
    AveragedRun run(p);
    auto expected = run.all(test::weights_here);
    for (int s = 0; s < p.steps; ++s) {
      EXPECT_EQ(run.step(s).outcome, StepOutcome::updated);
      const auto w = run.all(test::weights_here);
      const auto now = [&](const std::string& name) { return has_one(name, s); };
      for (std::size_t i = 0; i < w.size(); ++i)
        follow_average(expected[i], w[i], now(run.store().spec().params[i].name));
      expect_averages(run, expected, now);
    }
  }
}

// Computations use the averages after an exchange, and the very same weights after another.
TEST(Average, IsExchangedWithTheWeights) {
  for (const auto compute : {DType::f32, DType::bf16}) {
    auto p = averaged_cases({{"embedding.*", 0, 0}, {"*norm*", 0, 0}}).back();
    p.backend = test::backend_or("fenced");
    p.compute = compute;
    p.reduce = DType::f32;
    SCOPED_TRACE(test::name_of(p));
    if (!test::next_case(fmt::format("{} {}", test::name_of(p), name_of(compute)))) return;
    AveragedRun run(p), other(p);
    for (int s = 0; s < 3; ++s) run.step(s);
    const auto loss = run.loss();
    const auto weights = run.all(test::weights_here), averages = run.all(test::averages_here);
    for (std::size_t i = 0; i < run.params(); ++i) {
      const auto id = ParamId::at(i);
      const auto& from = averages[i].empty() ? weights[i] : averages[i];
      const std::vector<float> x(from.begin(), from.end());
      if (!x.empty())
        other.store().write(id, weights_array, other.store().own(id).begin,
                            std::as_bytes(std::span(x)));
    }
    other.store().refresh();

    run.store().swap_averages();
    EXPECT_EQ(run.loss(), other.loss());
    EXPECT_NE(run.loss(), loss);
    for (std::size_t i = 0; i < run.params(); ++i)
      EXPECT_EQ(test::weights_here(run.store(), ParamId::at(i)),
                averages[i].empty() ? weights[i] : averages[i]);
    run.store().swap_averages();

    EXPECT_EQ(run.loss(), loss);
    EXPECT_EQ(run.all(test::weights_here), weights);
    EXPECT_EQ(run.all(test::averages_here), averages);
    AveragedRun apart(p);
    for (int s = 0; s < 3; ++s) apart.step(s);
    EXPECT_EQ(apart.step(3).loss, run.step(3).loss);
  }
}

}  // namespace trireme
