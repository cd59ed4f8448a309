#pragma once
// tanh for f32 within 2 ulp, without branches: a minimax polynomial (2^-31) near 0, where the
// formula by e^2x would cancel. tanh(+-inf) is +-1, a NaN stays a NaN.
#include "kernels/math/exp.hpp"

namespace trireme::math {

constexpr float tanh(float x) {
  const float square = x * x;
  float q = 0x1.078ad6p-9F;
  q = q * square - 0x1.071316p-7F;
  q = q * square + 0x1.62873ep-6F;
  q = q * square - 0x1.b9d632p-5F;
  q = q * square + 0x1.110fe8p-3F;
  q = q * square - 0x1.555552p-2F;
  const float near = x + x * (square * q);
  const float size = x < 0.0F ? -x : x;
  const float far = 1.0F - 2.0F / (exp(2.0F * size) + 1.0F);
  return size < 0.625F ? near : (x < 0.0F ? -far : far);
}

}  // namespace trireme::math
