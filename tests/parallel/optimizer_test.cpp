// Every optimizer on every grid of this number of ranks, against its paper's formula. The formula
// gets its gradients from one rank's steps of plain gradient descent of length 1.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernels/open/open.hpp"
#include "lib/comm/agree.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"

namespace trireme {
namespace {

constexpr double rate = 0.01, decay = 0.1;

// What one weight has been through; `count` of the step, from 1.
struct Weight {
  double w = 0, a = 0, b = 0;
  bool open = false;  // its step hangs on the sign of a sum that is 0 but for rounding
};
using Formula = std::function<void(Weight&, double g, int count, double decay)>;

struct Method {
  OptimizerConfig config;
  Formula step;
};

Method sgd() {
  OptimizerConfig c;
  c.name = OptimizerKind::sgd;
  return {c, [](Weight& p, double g, int, double d) { p.w -= rate * g + rate * d * p.w; }};
}

// Sutskever et al. 2013, in the form that deep learning libraries use.
Method momentum(bool nesterov) {
  OptimizerConfig c;
  c.name = OptimizerKind::sgd;
  c.momentum = 0.8;
  c.nesterov = nesterov;
  return {c, [nesterov](Weight& p, double g, int, double d) {
            p.a = 0.8 * p.a + g;
            p.w -= rate * (nesterov ? g + 0.8 * p.a : p.a) + rate * d * p.w;
          }};
}

// Loshchilov, Hutter 2019, algorithm 2. eps is large: rounding divided by itself would show.
Method adamw() {
  OptimizerConfig c;
  c.beta1 = 0.7;
  c.beta2 = 0.9;
  c.eps = 1e-3;
  return {c, [](Weight& p, double g, int count, double d) {
            p.a = 0.7 * p.a + 0.3 * g;
            p.b = 0.9 * p.b + 0.1 * g * g;
            const double mean = p.a / (1 - std::pow(0.7, count)),
                         square = p.b / (1 - std::pow(0.9, count));
            p.w -= rate * mean / (std::sqrt(square) + 1e-3) + rate * d * p.w;
          }};
}

// Chen et al. 2023, algorithm 2.
Method lion() {
  OptimizerConfig c;
  c.name = OptimizerKind::lion;
  c.beta1 = 0.6;
  c.beta2 = 0.9;
  return {c, [](Weight& p, double g, int, double d) {
            const double pull = 0.6 * p.a + 0.4 * g;
            p.open = p.open || (std::fabs(pull) < 1e-13 && pull != 0);
            p.w -= rate * ((pull > 0) - (pull < 0)) + rate * d * p.w;
            p.a = 0.9 * p.a + 0.1 * g;
          }};
}

void write_whole(Store& store, ParamId id, const std::vector<Weight>& weights) {
  std::vector<double> w;
  for (const auto& p : weights) w.push_back(p.w);
  store.write(id, weights_array, 0, std::as_bytes(std::span<const double>(w)));
}

// In a model with biases that of the keys has no gradient but rounding: adding to all keys changes
// no attention.
void expect_few_open(const ModelSpec& spec, const std::vector<std::vector<Weight>>& course) {
  for (std::size_t i = 0; i < spec.params.size(); ++i) {
    const auto& p = spec.params[i];
    const auto open = std::ranges::count_if(course[i], &Weight::open);
    EXPECT_LE(open, p.name.ends_with("qkv.bias") ? p.shape.count() / 3 : 0) << p.name;
  }
}

// By ParamId, then element.
std::vector<std::vector<Weight>> course_of(const test::ParityCase& grid_case, const Method& m) {
  auto p = grid_case;
  p.grid = {};
  p.zero = {};
  const auto backend = open_backend(test::backend_of(p, true));
  const Workspace workspace(*backend);
  Trainer trainer(*backend, {}, test::parity_setup(p));  // no decay, no clipping
  auto& store = trainer.store();
  store.initialize(3, 1);
  const auto& params = store.spec().params;
  std::vector<std::vector<Weight>> all;
  for (std::size_t i = 0; i < params.size(); ++i)
    for (auto& weights = all.emplace_back();
         const double w : test::weights_here(store, {static_cast<std::int32_t>(i)}))
      weights.push_back({.w = w});
  for (int s = 0; s < p.steps; ++s) {
    trainer.step(s, 1, test::parity_step(p, trainer, s));
    for (std::size_t i = 0; i < params.size(); ++i) {
      const ParamId id{static_cast<std::int32_t>(i)};
      const auto after = test::weights_here(store, id);
      for (std::size_t e = 0; e < after.size(); ++e) {
        auto& weight = all[i][e];
        m.step(weight, weight.w - after[e], s + 1, params[i].shape.dims() > 1 ? decay : 0);
      }
      write_whole(store, id, all[i]);
    }
  }
  expect_few_open(store.spec(), all);
  return all;
}

void expect_course(const test::ParityCase& p, const Method& m,
                   const std::vector<std::vector<Weight>>& expected) {
  auto setup = test::parity_setup(p);
  setup.optimizer = m.config;
  setup.optimizer.weight_decay = decay;
  setup.optimizer.clip = 0;
  const auto backend = open_backend(test::backend_of(p, true));
  const Workspace workspace(*backend);
  Trainer trainer(*backend, test::parity_axes(p), setup);
  auto& store = trainer.store();
  store.initialize(3, 1);
  for (int s = 0; s < p.steps; ++s) trainer.step(s, rate, test::parity_step(p, trainer, s));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ParamId id{static_cast<std::int32_t>(i)};
    const auto mine = test::weights_here(store, id);
    const auto begin = static_cast<std::size_t>(store.own(id).begin);
    for (std::size_t e = 0; e < mine.size(); ++e) {
      const auto& weight = expected[i][begin + e];
      if (weight.open) continue;
      ASSERT_NEAR(mine[e], weight.w, test::f64_bound)
          << store.spec().params[i].name << " " << begin + e;
    }
  }
}

}  // namespace

TEST(Optimizer, FollowsItsFormulaOnEveryGrid) {
  const std::vector<Method> methods = {sgd(), momentum(false), momentum(true), adamw(), lion()};
  test::ParityCase any;
  any.size = test::world().size() % 3 == 0 ? 24 : 8;  // the context too: ranks divide it
  any.steps = 4;
  any.microbatches = 1;
  int turn = 0;
  for (const auto& method : methods) {
    const auto course = course_of(any, method);
    for (const auto& grid : test::parity_grids({test::world().size()})) {
      if (any.size % (grid.data * any.microbatches) != 0) continue;
      auto p = any;
      p.grid = grid;
      p.zero.stage = turn++ % 4;
      const auto name = fmt::format("method {} {}", &method - methods.data(), test::name_of(p));
      SCOPED_TRACE(name);
      if (!test::next_case(name)) return;
      expect_course(p, method, course);
    }
  }
}

}  // namespace trireme
