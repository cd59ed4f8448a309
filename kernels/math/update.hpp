#pragma once
// One weight's optimizer step. The factors that all weights share are made in update_factors.hpp:
// this header is for device code too.
#include "kernels/math/rsqrt.hpp"

namespace trireme::math {

struct SgdUpdate {
  float shrink;  // 1 - lr decay
  float rate;    // lr scale

  constexpr float operator()(float w, float g) const { return w * shrink - rate * g; }
};

struct AdamWUpdate {
  float beta1, beta2;
  float take1, take2;  // 1 - beta
  float scale;         // of the gradient
  float shrink;        // 1 - lr decay
  float rate;          // lr / (1 - beta1^count)
  float unbias2;       // 1 / (1 - beta2^count)
  float eps;

  constexpr void operator()(float& w, float& m, float& v, float gradient) const {
    const float g = gradient * scale;
    m = beta1 * m + take1 * g;
    v = beta2 * v + take2 * (g * g);
    w = shrink * w - rate * m / (sqrt(v * unbias2) + eps);
  }
};

}  // namespace trireme::math
