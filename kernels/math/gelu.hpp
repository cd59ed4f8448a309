#pragma once
// GELU and its derivative, tanh form (Hendrycks, Gimpel 2016): x/2 (1 + tanh u) with u = sqrt(2/pi)
// (x + 0.044715 x^3). As 1 + tanh u = 2 sigmoid(2u), the function is computed as y = x / (1 +
// e^-2u), which needs no tanh and has no cancellation.
//
// Errors in units of 2^-24, with s = sigmoid(2u): 4 |x| for gelu, 3 s + (4 |2u| + 8) |x (2u)' s (1
// - s)| for gelu_derivative. Below x = -10, gelu returns -1e-37 instead of a number even closer to
// 0. A NaN stays a NaN.
#include "kernels/math/exact.hpp"

namespace trireme::math {

namespace gelu_factors {
inline constexpr float linear = 1.59576912160573F, cubic = 0.0713548162726F;  // coefficients of 2u
}

template <class A = Exact>
constexpr float gelu(float x) {
  const float c = bounded(x, 10.0F);
  const float z = c * (gelu_factors::linear + gelu_factors::cubic * (c * c));
  return A::quotient(x < -10.0F ? -10.0F : x, 1.0F + A::exp_normal(-z));
}

// Returns s + x (2u)' s (1 - s), where s = sigmoid(2u) and 1 - s is computed as e^-2u s.
template <class A = Exact>
constexpr float gelu_derivative(float x) {
  const float c = bounded(x, 10.0F), square = c * c;
  const float z = c * (gelu_factors::linear + gelu_factors::cubic * square);
  const float slope = gelu_factors::linear + 3.0F * gelu_factors::cubic * square;
  const float e = A::exp_normal(-z);
  const float s = A::quotient(1.0F, 1.0F + e);
  return unless_nan(x, s + (c * slope) * (s * (e * s)));
}

}  // namespace trireme::math
