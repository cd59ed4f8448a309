#pragma once
// GELU, tanh form (Hendrycks, Gimpel 2016): x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3).
// 1 + tanh u = 2 sigmoid(2u): no tanh is needed and nothing cancels: y = x / (1 + e^-2u).
// Errors in units of 2^-24: gelu 4 |x|; gelu_derivative 3 s + (4 |2u| + 8) |x (2u)' s (1 - s)| with
// s = sigmoid(2u); what is below 2^-118 may be 0. gelu(-inf) is a NaN, as in the tanh form.
#include "kernels/math/exp.hpp"

namespace trireme::math {

namespace gelu_factors {
inline constexpr float linear = 1.59576912160573F, cubic = 0.0713548162726F;  // of 2u
}

constexpr float gelu(float x) {
  const float z = x * (gelu_factors::linear + gelu_factors::cubic * (x * x));
  return x / (1.0F + exp(-z));
}

// s + x (2u)' s (1 - s)
constexpr float gelu_derivative(float x) {
  x = x < -64.0F ? -64.0F : x;  // the result is 0 or 1 long before, and no product overflows
  x = x > 64.0F ? 64.0F : x;
  const float square = x * x;
  const float z = x * (gelu_factors::linear + gelu_factors::cubic * square);
  const float slope = gelu_factors::linear + 3.0F * gelu_factors::cubic * square;
  const float e = exp(-z);
  const float s = 1.0F / (1.0F + e);
  const float rest = z > 0.0F ? e * s : 1.0F - s;  // 1 - s without cancellation
  return s + (x * slope) * (s * rest);
}

}  // namespace trireme::math
