#pragma once
// GELU, tanh form (Hendrycks, Gimpel 2016): x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3).
// 1 + tanh u = 2 sigmoid(2u): no tanh is needed and nothing cancels: y = x / (1 + e^-2u).
// Errors in units of 2^-24: gelu 4 |x|; gelu_derivative 3 s + (4 |2u| + 8) |x (2u)' s (1 - s)| with
// s = sigmoid(2u); below x = -10 gelu is -1e-37 instead of something yet closer to 0. A NaN stays a
// NaN.
#include "kernels/math/exact.hpp"

namespace trireme::math {

namespace gelu_factors {
inline constexpr float linear = 1.59576912160573F, cubic = 0.0713548162726F;  // of 2u
}

template <class A = Exact>
constexpr float gelu(float x) {
  const float c = bounded(x, 10.0F);
  const float z = c * (gelu_factors::linear + gelu_factors::cubic * (c * c));
  return A::quotient(x < -10.0F ? -10.0F : x, 1.0F + A::exp_normal(-z));
}

// s + x (2u)' s (1 - s), with 1 - s = e^-2u s
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
