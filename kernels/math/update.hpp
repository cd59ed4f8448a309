#pragma once
// The formulas of the optimizer rules (kernels/update_rule.hpp) for one weight, in f32.
// formula_of(rule, factors) computes the coefficients that all weights of a shard share, in double,
// and rounds each once. It returns an object that is called as formula(w, gradient, arrays...) and
// updates w and the arrays. Each multiplication followed by an addition is an explicit fma.
// Otherwise the compiler could decide differently in different places of a loop, and the bits of a
// weight would depend on its position.
#include <cmath>

#include "kernels/math/rsqrt.hpp"
#include "kernels/update_rule.hpp"

namespace trireme::math {

constexpr float fma(float a, float b, float c) {
  return std::fma(a, b, c);
}

// Returns a moving average after one step (kernel::Average).
constexpr float next_average(float average, float share, float x) {
  return fma(share, x - average, average);
}

struct SgdFormula {
  float shrink;  // 1 - lr decay
  float rate;    // lr scale

  constexpr void operator()(float& w, float gradient) const {
    w = fma(-rate, gradient, w * shrink);
  }
};

inline SgdFormula formula_of(const rule::Sgd&, const UpdateFactors& u) {
  return {static_cast<float>(1 - u.lr * u.decay), static_cast<float>(u.lr * u.scale)};
}

struct MomentumFormula {
  float momentum;
  float of_g, of_m;  // step = of_g g + of_m m, with (0, 1) or, for Nesterov, (1, momentum)
  float scale;       // factor on the gradient
  float shrink;      // 1 - lr decay
  float rate;        // lr

  constexpr void operator()(float& w, float gradient, float& m) const {
    const float g = gradient * scale;
    m = fma(momentum, m, g);
    w = fma(-rate, fma(of_g, g, of_m * m), shrink * w);
  }
};

inline MomentumFormula formula_of(const rule::Momentum& r, const UpdateFactors& u) {
  const auto momentum = static_cast<float>(r.momentum);
  return {.momentum = momentum,
          .of_g = r.nesterov ? 1.0F : 0.0F,
          .of_m = r.nesterov ? momentum : 1.0F,
          .scale = static_cast<float>(u.scale),
          .shrink = static_cast<float>(1 - u.lr * u.decay),
          .rate = static_cast<float>(u.lr)};
}

struct AdamWFormula {
  float beta1, beta2;
  float take1, take2;  // 1 - beta
  float scale;         // factor on the gradient
  float shrink;        // 1 - lr decay
  float rate;          // lr / (1 - beta1^count)
  float unbias2;       // 1 / (1 - beta2^count)
  float eps;

  constexpr void operator()(float& w, float gradient, float& m, float& v) const {
    const float g = gradient * scale;
    m = fma(beta1, m, take1 * g);
    v = fma(beta2, v, take2 * (g * g));
    w = fma(shrink, w, -(rate * m / (sqrt(v * unbias2) + eps)));
  }
};

inline AdamWFormula formula_of(const rule::AdamW& r, const UpdateFactors& u) {
  const auto count = static_cast<double>(u.count);
  return {.beta1 = static_cast<float>(r.beta1),
          .beta2 = static_cast<float>(r.beta2),
          .take1 = static_cast<float>(1 - r.beta1),
          .take2 = static_cast<float>(1 - r.beta2),
          .scale = static_cast<float>(u.scale),
          .shrink = static_cast<float>(1 - u.lr * u.decay),
          .rate = static_cast<float>(u.lr / (1 - std::pow(r.beta1, count))),
          .unbias2 = static_cast<float>(1 / (1 - std::pow(r.beta2, count))),
          .eps = static_cast<float>(r.eps)};
}

struct LionFormula {
  float beta1, beta2;
  float take1, take2;  // 1 - beta
  float scale;         // factor on the gradient
  float shrink;        // 1 - lr decay
  float rate;          // lr

  constexpr void operator()(float& w, float gradient, float& m) const {
    const float g = gradient * scale;
    const float c = fma(beta1, m, take1 * g);
    w = fma(shrink, w, c > 0 ? -rate : c < 0 ? rate : 0.0F);
    m = fma(beta2, m, take2 * g);
  }
};

inline LionFormula formula_of(const rule::Lion& r, const UpdateFactors& u) {
  return {.beta1 = static_cast<float>(r.beta1),
          .beta2 = static_cast<float>(r.beta2),
          .take1 = static_cast<float>(1 - r.beta1),
          .take2 = static_cast<float>(1 - r.beta2),
          .scale = static_cast<float>(u.scale),
          .shrink = static_cast<float>(1 - u.lr * u.decay),
          .rate = static_cast<float>(u.lr)};
}

}  // namespace trireme::math
