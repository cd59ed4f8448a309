#pragma once
// Soft cap with limit c > 0: y = c tanh(x / c) with the derivative dy/dx = 1 - (y / c)^2. tanh is
// computed in two ranges to avoid cancellation. Near 0, tanh is computed as Lambert's continued
// fraction, truncated so that the error at the border of the two ranges is 2^-27. Elsewhere, tanh
// is computed as 1 - 2 / (1 + e^2|x|). The error of tanh is 6 |tanh x| 2^-24. A NaN stays a NaN.
#include "kernels/math/exact.hpp"

namespace trireme::math {

template <class A = Exact>
constexpr float tanh(float x) {
  const float near = bounded(x, 0.75F), s = near * near;
  // Evaluates the continued fraction x / (1 + s / (3 + s / (5 + s / (7 + s / 9)))) as one quotient.
  const float above = 945.0F + s * (105.0F + s), below = 945.0F + s * (420.0F + 15.0F * s);
  const float small = A::quotient(near * above, below);
  const float far = bounded(x, 10.0F), size = far < 0 ? -far : far;
  const float one_less = A::quotient(2.0F, 1.0F + A::exp_normal(2.0F * size));
  const float large = far < 0 ? one_less - 1.0F : 1.0F - one_less;
  return unless_nan(x, size < 0.75F ? small : large);
}

// Returns x with the soft cap applied.
template <class A = Exact>
constexpr float capped(float x, float cap) {
  return cap * tanh<A>(A::quotient(x, cap));
}

// Returns the derivative of capped() at the point where capped() has the value y.
constexpr float capped_slope(float y, float cap) {
  const float part = y / cap;
  return 1.0F - part * part;
}

}  // namespace trireme::math
