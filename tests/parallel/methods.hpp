#pragma once
// Optimizers, each with its paper's formula. The steps of optimizers that see whole matrices are in
// tests/support/matrix_formulas.hpp.
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/train/config.hpp"
#include "tests/support/matrix_formulas.hpp"

namespace trireme::methods {

constexpr double usual_rate = 0.01, usual_decay = 0.1;

// Factor on the learning rate of adapters' matrices b.
constexpr double b_lr_ratio = 4;

// A weight and its optimizer state.
struct Weight {
  double w = 0, a = 0, b = 0;  // the weight, and up to two numbers of state
  int count = 0;               // number of updates since the state was created
  bool open = false;           // a step depended on the sign of a sum that is 0 except for rounding
};
using Formula = std::function<void(Weight&, double g, double rate, double decay)>;
// A matrix and its square arrays.
struct Whole {
  std::int64_t rows, columns;
  test::ShampooSides sides{};
};
using WholeFormula = std::function<void(std::span<Weight>, Whole&, std::span<const double> g,
                                        double rate, double decay)>;

struct Method {
  OptimizerConfig config;
  Formula step;
  WholeFormula of_matrices{};                     // for matrices; `step` is for all other weights
  double rate = usual_rate, decay = usual_decay;  // for `step`
  double clip = 0;
};

inline Method sgd() {
  OptimizerConfig c;
  c.name = OptimizerKind::sgd;
  return {c, [](Weight& p, double g, double r, double d) { p.w -= r * g + r * d * p.w; }};
}

// Sutskever et al. 2013, in the form that deep learning libraries use.
inline Method momentum(bool nesterov) {
  OptimizerConfig c;
  c.name = OptimizerKind::sgd;
  c.momentum = 0.8;
  c.nesterov = nesterov;
  return {c, [nesterov](Weight& p, double g, double r, double d) {
            p.a = 0.8 * p.a + g;
            p.w -= r * (nesterov ? g + 0.8 * p.a : p.a) + r * d * p.w;
          }};
}

// Loshchilov, Hutter 2019, algorithm 2. eps is large, because a small one would magnify rounding
// errors of gradients that are nearly 0.
inline Method adamw() {
  OptimizerConfig c;
  c.beta1 = 0.7;
  c.beta2 = 0.9;
  c.eps = 1e-3;
  return {c, [](Weight& p, double g, double r, double d) {
            p.a = 0.7 * p.a + 0.3 * g;
            p.b = 0.9 * p.b + 0.1 * g * g;
            const double mean = p.a / (1 - std::pow(0.7, p.count)),
                         square = p.b / (1 - std::pow(0.9, p.count));
            p.w -= r * mean / (std::sqrt(square) + 1e-3) + r * d * p.w;
          }};
}

// Chen et al. 2023, algorithm 2.
inline Method lion() {
  OptimizerConfig c;
  c.name = OptimizerKind::lion;
  c.beta1 = 0.6;
  c.beta2 = 0.9;
  return {c, [](Weight& p, double g, double r, double d) {
            const double pull = 0.6 * p.a + 0.4 * g;
            p.open = p.open || (std::fabs(pull) < 1e-13 && pull != 0);
            p.w -= r * ((pull > 0) - (pull < 0)) + r * d * p.w;
            p.a = 0.9 * p.a + 0.1 * g;
          }};
}

inline void move(std::span<Weight> weights, const DoubleMatrix& step, double rate, double decay) {
  for (std::size_t e = 0; e < weights.size(); ++e)
    weights[e].w -= rate * step.x[e] + rate * decay * weights[e].w;
}

inline DoubleMatrix with_momentum(const OptimizerConfig& c, std::span<Weight> weights,
                                  DoubleMatrix of) {
  for (std::size_t e = 0; e < weights.size(); ++e) {
    auto& p = weights[e];
    p.a = c.matrix_momentum * p.a + of.x[e];
    of.x[e] = c.matrix_nesterov ? of.x[e] + c.matrix_momentum * p.a : p.a;
  }
  return of;
}

// Returns a method whose `step` is adamw(), for the parameters that are not matrices.
inline Method adamw_for_the_rest(OptimizerConfig c) {
  auto m = adamw();
  c.beta1 = m.config.beta1;
  c.beta2 = m.config.beta2;
  c.eps = m.config.eps;
  m.config = c;
  m.rate = c.adamw_lr.value_or(usual_rate);
  m.decay = c.adamw_weight_decay.value_or(usual_decay);
  return m;
}
// Jordan et al. 2024: a direction with momentum, then a step whose singular values are near 1.
inline Method muon(OptimizerConfig c) {
  c.name = OptimizerKind::muon;
  auto m = adamw_for_the_rest(c);
  m.of_matrices = [c](std::span<Weight> weights, Whole& whole, std::span<const double> g,
                      double rate, double decay) {
    const auto direction =
        with_momentum(c, weights, {whole.rows, whole.columns, {g.begin(), g.end()}});
    const double scale = test::step_scale(c.matrix_scale, whole.rows, whole.columns);
    move(weights, scale * test::muon_step(direction, c.muon_polynomials), rate, decay);
  };
  return m;
}
inline Method muon() {
  OptimizerConfig c;
  c.matrix_momentum = 0.9;
  c.adamw_lr = 0.004;
  c.adamw_weight_decay = 0.05;
  return muon(c);
}
// Muon with the other value of each setting.
inline Method muon_of_heads() {
  OptimizerConfig c;
  c.matrix_momentum = 0.6;
  c.matrix_nesterov = false;
  c.matrix_scale = MatrixScale::adamw;
  c.matrix_heads = HeadMatrices::each;
  c.muon_polynomials = MuonPolynomials::polar_express;
  return muon(c);
}
// AdamW updates the parameters that the patterns name, and Muon all other matrices, embedding
// tables included. Gradients are clipped by different factors in different steps, so that momentum
// would show gradients that are not clipped.
inline Method muon_except(std::vector<std::string> patterns) {
  OptimizerConfig c;
  c.matrix_scale = MatrixScale::spectral;
  c.adamw_patterns = std::move(patterns);
  auto m = muon(c);
  m.clip = 0.05;
  return m;
}

// Gupta, Koren, Singer 2018, with momentum of the steps. eps is large, because it limits how much
// rounding errors change a root.
inline Method shampoo(HeadMatrices heads) {
  OptimizerConfig c;
  c.name = OptimizerKind::shampoo;
  c.matrix_momentum = 0.7;
  c.matrix_heads = heads;
  c.shampoo_beta = 0.8;
  c.shampoo_eps = 0.05;
  c.shampoo_every = 2;
  auto m = adamw_for_the_rest(c);
  m.of_matrices = [c](std::span<Weight> weights, Whole& whole, std::span<const double> g,
                      double rate, double decay) {
    const auto step = test::shampoo_step(
        {.beta = c.shampoo_beta, .eps = c.shampoo_eps, .every = c.shampoo_every},
        {whole.rows, whole.columns, {g.begin(), g.end()}}, weights[0].count, whole.sides);
    const double scale = test::step_scale(c.matrix_scale, whole.rows, whole.columns);
    move(weights, scale * with_momentum(c, weights, step), rate, decay);
  };
  return m;
}

}  // namespace trireme::methods
