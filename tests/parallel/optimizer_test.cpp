// Every optimizer on grids of this number of ranks, against its paper's formula. The formula
// gets its gradients from one rank's steps of plain gradient descent of length 1.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "kernels/open/open.hpp"
#include "lib/base/array_names.hpp"
#include "lib/comm/agree.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"

namespace trireme {
namespace {

constexpr double rate = 0.01, decay = 0.1;

// Norms and biases never decay, and here the deck spares some matrices.
const std::vector<std::string> spared = {"blocks.*.projection.weight"};
double decay_of(const ParamSpec& p) {
  return p.shape.dims() > 1 && p.name.find(".projection.weight") == std::string::npos ? decay : 0;
}

// What one weight has been through.
struct Weight {
  double w = 0, a = 0, b = 0;
  int count = 0;      // of its steps since it remembers
  bool open = false;  // its step hangs on the sign of a sum that is 0 but for rounding
};
using Formula = std::function<void(Weight&, double g, double decay)>;

struct Method {
  OptimizerConfig config;
  Formula step;
};

Method sgd() {
  OptimizerConfig c;
  c.name = OptimizerKind::sgd;
  return {c, [](Weight& p, double g, double d) { p.w -= rate * g + rate * d * p.w; }};
}

// Sutskever et al. 2013, in the form that deep learning libraries use.
Method momentum(bool nesterov) {
  OptimizerConfig c;
  c.name = OptimizerKind::sgd;
  c.momentum = 0.8;
  c.nesterov = nesterov;
  return {c, [nesterov](Weight& p, double g, double d) {
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
  return {c, [](Weight& p, double g, double d) {
            p.a = 0.7 * p.a + 0.3 * g;
            p.b = 0.9 * p.b + 0.1 * g * g;
            const double mean = p.a / (1 - std::pow(0.7, p.count)),
                         square = p.b / (1 - std::pow(0.9, p.count));
            p.w -= rate * mean / (std::sqrt(square) + 1e-3) + rate * d * p.w;
          }};
}

// Chen et al. 2023, algorithm 2.
Method lion() {
  OptimizerConfig c;
  c.name = OptimizerKind::lion;
  c.beta1 = 0.6;
  c.beta2 = 0.9;
  return {c, [](Weight& p, double g, double d) {
            const double pull = 0.6 * p.a + 0.4 * g;
            p.open = p.open || (std::fabs(pull) < 1e-13 && pull != 0);
            p.w -= rate * ((pull > 0) - (pull < 0)) + rate * d * p.w;
            p.a = 0.9 * p.a + 0.1 * g;
          }};
}

// Steps [from, to) in which a parameter stands still; what its formula remembers is kept or not.
struct Still {
  int from, to;
  bool keeps;
};
using Stills = std::function<std::vector<Still>(const std::string& name)>;

std::vector<FreezeRule> freeze_rules() {
  return {{"*.qkv.*", 2, 4, ThawMoments::fresh},
          {"blocks.5.*", 1, 5, ThawMoments::keep},
          {"embedding.*", 3, 6, ThawMoments::keep},
          {"*norm*", 3, 5, ThawMoments::fresh},
          {"blocks.0.*", 0, 2, ThawMoments::keep}};
}

// The rules above in words: of rules that overlap or follow each other at once, the one that froze
// it decides.
std::vector<Still> stills_of(const std::string& name) {
  const auto has = [&](const char* what) { return name.find(what) != std::string::npos; };
  const bool qkv = has(".qkv."), norm = has("norm");
  if (has("blocks.5.")) return {{1, 5, true}};
  if (has("embedding.")) return {{3, 6, true}};
  if (has("blocks.0.") && qkv) return {{0, 4, true}};
  if (has("blocks.0.") && norm) return {{0, 2, true}, {3, 5, false}};
  if (has("blocks.0.")) return {{0, 2, true}};
  if (qkv) return {{2, 4, false}};
  if (norm) return {{3, 5, false}};
  return {};
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

// The step of all elements of a parameter.
void follow(const Method& m, const std::vector<Still>& stills, int s, double decay,
            std::span<const double> after, std::vector<Weight>& weights) {
  for (const auto& still : stills) {
    if (still.from <= s && s < still.to) return;
    if (s == still.to && !still.keeps)
      for (auto& p : weights) p = {.w = p.w, .open = p.open};
  }
  for (std::size_t e = 0; e < after.size(); ++e) {
    auto& p = weights[e];
    ++p.count;
    m.step(p, p.w - after[e], decay);
  }
}

// By ParamId, then element.
std::vector<std::vector<Weight>> course_of(const test::ParityCase& grid_case, const Method& m,
                                           const Stills& stills) {
  auto p = grid_case;
  p.grid = {};
  p.zero = {};
  p.freeze = {};
  const auto backend = open_backend(test::backend_of(p, true));
  const Workspace workspace(*backend);
  Trainer trainer(*backend, {}, test::parity_setup(p));  // no decay, no clipping
  auto& store = trainer.store();
  store.initialize(3, 1);
  const auto& params = store.spec().params;
  std::vector<std::vector<Weight>> all;
  for (std::size_t i = 0; i < params.size(); ++i)
    for (auto& weights = all.emplace_back();
         const double w : test::weights_here(store, ParamId::at(i)))
      weights.push_back({.w = w});
  for (int s = 0; s < p.steps; ++s) {
    trainer.step(s, 1, test::parity_step(p, trainer, s));
    for (std::size_t i = 0; i < params.size(); ++i) {
      const auto id = ParamId::at(i);
      const auto after = test::weights_here(store, id);
      follow(m, stills(params[i].name), s, decay_of(params[i]), after, all[i]);
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
  setup.optimizer.no_decay = spared;
  const auto backend = open_backend(test::backend_of(p, true));
  const Workspace workspace(*backend);
  Trainer trainer(*backend, test::parity_axes(p), setup);
  auto& store = trainer.store();
  store.initialize(3, 1);
  for (int s = 0; s < p.steps; ++s) trainer.step(s, rate, test::parity_step(p, trainer, s));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto id = ParamId::at(i);
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

test::ParityCase plain_case(int steps) {
  test::ParityCase p;
  p.size = test::world().size() % 3 == 0 ? 12 : 8;  // the context too: ranks divide it
  p.steps = steps;
  p.microbatches = 1;
  return p;
}

void expect_on_grids(const test::ParityCase& any, std::span<const Method> methods,
                     const Stills& stills) {
  struct Turn {
    std::size_t method;
    test::ParityCase p;
  };
  std::vector<Turn> all;
  for (std::size_t m = 0; m < methods.size(); ++m)
    for (const auto& grid : test::parity_grids({test::world().size()})) {
      if (any.size % (grid.data * any.microbatches) != 0) continue;
      all.push_back({m, any});
      all.back().p.grid = grid;
      all.back().p.zero.stage = static_cast<int>((all.size() - 1) % 4);
    }
  std::map<std::size_t, std::vector<std::vector<Weight>>> courses;
  for (const auto& [m, p] : drawn(all, 4)) {
    const auto name = fmt::format("method {} {}", m, test::name_of(p));
    SCOPED_TRACE(name);
    if (!test::next_case(name)) return;
    if (!courses.contains(m)) courses[m] = course_of(any, methods[m], stills);
    expect_course(p, methods[m], courses[m]);
  }
}

}  // namespace

TEST(Optimizer, FollowsItsFormulaOnGrids) {
  const std::vector<Method> methods = {sgd(), momentum(false), momentum(true), adamw(), lion()};
  expect_on_grids(plain_case(4), methods, [](auto&) { return std::vector<Still>(); });
}

TEST(Optimizer, StandsStillWhereItIsFrozen) {
  auto p = plain_case(7);
  p.freeze = freeze_rules();
  expect_on_grids(p, std::vector<Method>{adamw(), momentum(true)}, stills_of);
}

}  // namespace trireme
