// Compares every optimizer on grids of this number of ranks with its paper's formula (methods.hpp).
// The gradients for the formula come from steps of plain gradient descent with learning rate 1 on
// one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "kernels/open/open.hpp"
#include "lib/base/array_names.hpp"
#include "lib/base/pattern.hpp"
#include "lib/comm/agree.hpp"
#include "tests/parallel/methods.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"

namespace trireme {

using methods::Method, methods::Weight;

namespace {

// Norms and biases never decay, and here the deck spares some matrices.
const std::vector<std::string> spared = {"blocks.*.projection.weight"};
bool decays(const ParamSpec& p) {
  return p.shape.dims() > 1 && p.name.find(".projection.weight") == std::string::npos;
}

// Steps [from, to) in which a parameter stands still; what its formula remembers is kept or not.
struct Still {
  int from, to;
  bool keeps;
};
using Stills = std::function<std::vector<Still>(const std::string& name)>;

std::vector<Still> never_still(const std::string&) {
  return {};
}

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

bool still_at(const std::vector<Still>& stills, int s) {
  return std::ranges::any_of(stills, [&](auto& still) { return still.from <= s && s < still.to; });
}

// A parameter, and what it has been through.
struct Followed {
  std::vector<Weight> weights{};
  bool learns = true, decays = false, as_matrices = false;
  double lr_factor = 1;
  std::vector<test::MatrixRows> rows{};
  std::vector<methods::Whole> matrices{};

  Followed(Store& store, ParamId id, const Method& m) {
    const auto& p = store.spec().params[id.index()];
    for (const double w : test::weights_here(store, id)) weights.push_back({.w = w});
    learns = p.learns_from == LearnsFrom::gradients;
    decays = trireme::decays(p);
    lr_factor = p.name.ends_with("lora_b") ? methods::b_lr_ratio : 1;
    if (!m.of_matrices || p.shape.dims() != 2 || !learns) return;
    const auto& patterns = m.config.adamw_patterns;
    as_matrices = patterns.empty() ? test::sees_matrices(p)
                                   : std::ranges::none_of(patterns, [&](const auto& pattern) {
                                       return matches(pattern, p.name);
                                     });
    if (!as_matrices) return;
    rows = test::matrix_rows(store.spec(), id, m.config.matrix_heads == HeadMatrices::each);
    for (const auto& r : rows) matrices.push_back({r.rows, p.shape[1]});
  }

  // Fresh from a freeze that kept nothing.
  void forget() {
    for (auto& p : weights) p = {.w = p.w, .open = p.open};
    for (auto& m : matrices) m.sides = {};
  }

  void follow(const Method& m, std::span<const double> g) {
    for (auto& p : weights) ++p.count;
    if (!as_matrices) {
      for (std::size_t e = 0; e < g.size(); ++e)
        m.step(weights[e], g[e], m.rate * lr_factor, decays ? m.decay : 0);
      return;
    }
    for (std::size_t k = 0; k < matrices.size(); ++k) {
      const auto begin = static_cast<std::size_t>(rows[k].first * matrices[k].columns),
                 count = static_cast<std::size_t>(rows[k].rows * matrices[k].columns);
      m.of_matrices(std::span(weights).subspan(begin, count), matrices[k], g.subspan(begin, count),
                    methods::usual_rate * lr_factor, decays ? methods::usual_decay : 0);
    }
  }
};

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
  std::vector<Followed> all;
  for (std::size_t i = 0; i < params.size(); ++i) all.emplace_back(store, ParamId::at(i), m);
  for (int s = 0; s < p.steps; ++s) {
    trainer.step(s, 1, test::parity_step(p, trainer, s));
    std::vector<std::vector<double>> gradients;
    double squares = 0;
    for (std::size_t i = 0; i < params.size(); ++i) {
      auto& g = gradients.emplace_back(test::weights_here(store, ParamId::at(i)));
      for (std::size_t e = 0; e < g.size(); ++e) g[e] = all[i].weights[e].w - g[e];
      const bool counts = all[i].learns && !still_at(stills(params[i].name), s);
      for (const double x : g) squares += counts ? x * x : 0;
    }
    const double scale = m.clip > 0 ? std::min(1.0, m.clip / (std::sqrt(squares) + 1e-6)) : 1;
    EXPECT_TRUE(m.clip == 0 || scale < 0.9) << "nothing is clipped";
    for (std::size_t i = 0; i < params.size(); ++i) {
      const auto frozen = stills(params[i].name);
      for (const auto& still : frozen)
        if (s == still.to && !still.keeps) all[i].forget();
      if (!all[i].learns) continue;
      for (auto& x : gradients[i]) x *= scale;
      if (!still_at(frozen, s)) all[i].follow(m, gradients[i]);
      write_whole(store, ParamId::at(i), all[i].weights);
    }
  }
  std::vector<std::vector<Weight>> weights;
  for (auto& f : all) weights.push_back(std::move(f.weights));
  expect_few_open(store.spec(), weights);
  return weights;
}

void expect_course(const test::ParityCase& p, const Method& m,
                   const std::vector<std::vector<Weight>>& expected) {
  auto setup = test::parity_setup(p);
  setup.optimizer = m.config;
  setup.optimizer.lr = methods::usual_rate;
  setup.optimizer.weight_decay = methods::usual_decay;
  setup.optimizer.clip = m.clip;
  setup.optimizer.no_decay = spared;
  setup.adapter.b_lr_ratio = methods::b_lr_ratio;
  const auto backend = open_backend(test::backend_of(p, true));
  const Workspace workspace(*backend);
  Trainer trainer(*backend, test::parity_axes(p), setup);
  auto& store = trainer.store();
  store.initialize(3, 1);
  for (int s = 0; s < p.steps; ++s)
    trainer.step(s, methods::usual_rate, test::parity_step(p, trainer, s));
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

// With several microbatches, after which there is one update.
test::ParityCase matrix_case() {
  auto p = plain_case(3);
  p.layers = 4;
  p.microbatches = 2;
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
      auto& p = all.back().p;
      p.grid = grid;
      p.zero.stage = static_cast<int>((all.size() - 1) % 4);
      const int places = grid.places();
      if (places % 2 != 0) continue;
      if (any.grid.expert > 1) p.grid.expert = 2;
      if (all.size() % 3 == 0 && p.zero.stage > 0) p.zero.shard = places / 2;
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
  const std::vector<Method> methods = {methods::sgd(), methods::momentum(false),
                                       methods::momentum(true), methods::adamw(), methods::lion()};
  expect_on_grids(plain_case(4), methods, never_still);
}

TEST(Optimizer, StandsStillWhereItIsFrozen) {
  auto p = plain_case(7);
  p.freeze = freeze_rules();
  expect_on_grids(p,
                  std::vector<Method>{methods::adamw(), methods::momentum(true), methods::muon(),
                                      methods::shampoo(HeadMatrices::together)},
                  stills_of);
}

TEST(Optimizer, OfMatricesFollowsItsFormulaOnGrids) {
  auto p = matrix_case();
  expect_on_grids(p,
                  std::vector<Method>{methods::muon(), methods::muon_of_heads(),
                                      methods::muon_except({"blocks.?.ffn_in.*", "blocks.1.qkv.*"}),
                                      methods::shampoo(HeadMatrices::together)},
                  never_still);
}

// Grouped-query attention, and a gated MLP.
TEST(Optimizer, OfMatricesDividesPackedWeights) {
  auto p = matrix_case();
  p.flavour = "llama";
  expect_on_grids(p,
                  std::vector<Method>{methods::muon(), methods::muon_of_heads(),
                                      methods::shampoo(HeadMatrices::each)},
                  never_still);
}

// The matrices of each expert, on the ranks that hold the expert.
TEST(Optimizer, OfMatricesSeesEachExpert) {
  auto p = matrix_case();
  p.layers = 5;
  p.flavour = "mixture";
  p.grid.expert = 2;
  expect_on_grids(p,
                  std::vector<Method>{methods::muon(),
                                      methods::muon_except({"*.experts.1.*", "*.router.weight"}),
                                      methods::shampoo(HeadMatrices::together)},
                  never_still);
}

// Both matrices of an adapter, of which b has another learning rate.
TEST(Optimizer, OfMatricesSeesFactorsOfAdapters) {
  auto p = matrix_case();
  p.adapter_rank = 2;
  for (const char* flavour : {"gpt2", "llama"}) {
    p.flavour = flavour;
    expect_on_grids(p, std::vector<Method>{methods::muon()}, never_still);
  }
}

}  // namespace trireme
